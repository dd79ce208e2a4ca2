//! Tracing: walks a model once for a set of input shapes, and cuts it where the host needs values.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrayjit_tensor::{
    Graph, Init, InputDim, ModelState, NumericClass, Parameter, Tensor, low_level::declared_sizes,
};
use tnode::{DType, HostArray, SizeSum};

use crate::{
    budget::{Budget, OnnxLimits, bytes_of},
    error::{OnnxError, Result},
    extents::{self, Extents, needs_extents},
    host::{HostValue, indices},
    ir::{Attribute, ModelGraph, ModelNode},
    operators::{self, context::NodeContext, scope::TraceScope},
    plan::{Event, HostFunction, HostStep, Output, Segment, Signature},
    program::ModelProgram,
    shape::access,
    value::{SizeArray, SlotValue, Value},
};

/// Constant expressions with at most as many elements are computed once for each model.
const MOST_FOLDED: usize = 1 << 16;

/// The most elements of an array of sizes that a graph computes.
const MOST_SUMS: usize = 64;

/// The parts of a session that traces share, of which several may take place at the same time.
pub(crate) struct Shared {
    pub(crate) weights: ModelState,
    /// The constants that each node was given first, by its number and the position of the operand.
    constants: Mutex<HashMap<(usize, usize), Arc<HostValue>>>,
    /// The results of nodes whose operands are constants, by the number of the node.
    folded: Mutex<HashMap<usize, Vec<Value>>>,
    /// The tables that nodes made, by the number of the node and a key.
    tables: Mutex<HashMap<(usize, String), Parameter>>,
    /// The parameters that have the values of constants on the device, by the address of the constant.
    parameters: Mutex<HashMap<usize, (Arc<HostValue>, Parameter)>>,
    limits: OnnxLimits,
    /// What `folded` and `tables` take.
    kept: Mutex<Budget>,
}

impl Shared {
    pub(crate) fn new(weights: ModelState, limits: OnnxLimits) -> Shared {
        let (constants, folded, tables, parameters) = Default::default();
        let kept = Mutex::new(Budget::new(limits));
        Shared { weights, constants, folded, tables, parameters, limits, kept }
    }
}

/// Locks. A panic elsewhere leaves no half-made value, since every change is one insertion.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The graph that is being built, with its inputs.
#[derive(Default)]
struct Current {
    graph: Graph,
    slots: BTreeMap<usize, Tensor>,
    constants: Vec<(String, Arc<HostValue>)>,
    /// The tensors of `constants`.
    constant_tensors: Vec<Tensor>,
}

/// The values of a graph or subgraph that is being walked.
struct Frame {
    values: BTreeMap<String, Value>,
    /// How often each value will still be read.
    uses: HashMap<String, usize>,
    /// The memory that values take.
    bytes: HashMap<String, u64>,
}

/// A walk over a model.
pub(crate) struct Tracer<'s> {
    shared: &'s Shared,
    current: Current,
    frames: Vec<Frame>,
    /// Values that an operator needs after the evaluation of a subgraph.
    pinned: Vec<Value>,
    /// The arrays of the run so far.
    slots: &'s mut Vec<Arc<HostArray>>,
    /// The slots that the walk has reached: results of segments get the next ones.
    reached: usize,
    /// The events of the run; those before `position` were traced.
    events: &'s mut Vec<Event>,
    position: usize,
    /// The steps so far, and the memory of slots, of values in frames, and of the current node.
    budget: Budget,
    /// The part of it that the current node takes for itself.
    own_bytes: u64,
    /// The results of segments, by the name of the node that computed them.
    materialized: HashMap<tnode::NodeId, SlotValue>,
    /// Whether the walk takes place without a run.
    stops_at_values: bool,
    /// Whether such a walk has come to its end.
    has_stopped: bool,
}

impl<'s> Tracer<'s> {
    pub(crate) fn new(
        shared: &'s Shared,
        slots: &'s mut Vec<Arc<HostArray>>,
        events: &'s mut Vec<Event>,
    ) -> Tracer<'s> {
        let (current, frames, materialized) = (Current::default(), Vec::new(), HashMap::new());
        let pinned = Vec::new();
        Tracer {
            shared,
            current,
            frames,
            pinned,
            slots,
            reached: 0,
            events,
            position: 0,
            budget: Budget::new(shared.limits),
            own_bytes: 0,
            materialized,
            stops_at_values: false,
            has_stopped: false,
        }
    }

    /// Walks the model. Its inputs are the first slots.
    pub(crate) fn model(
        &mut self,
        graph: &ModelGraph,
        inputs: &[String],
        signature: &Signature,
    ) -> Result<Vec<Output>> {
        let results = self.walk(graph, inputs, signature)?;
        if let Some(at) = results.iter().position(|value| matches!(value, Value::Sequence(_))) {
            let place = format!("output `{}`", graph.outputs.get(at).map_or("", |info| &info.name));
            return Err(OnnxError::invalid(place, "it is a sequence, expected an array"));
        }
        if results.iter().any(|value| matches!(value, Value::Lazy(_))) {
            self.cut(&results).map_err(in_outputs)?;
        }
        let output = |value: &Value| self.output(value).map_err(in_outputs);
        results.iter().map(output).collect()
    }

    /// The values of the outputs. The inputs are the first slots.
    fn walk(&mut self, graph: &ModelGraph, inputs: &[String], signature: &Signature) -> Result<Vec<Value>> {
        self.reached = inputs.len();
        let mut values = BTreeMap::new();
        for (slot, (name, (dtype, extents))) in inputs.iter().zip(signature).enumerate() {
            values.insert(name.clone(), slot_value(slot, *dtype, extents).map_err(in_outputs)?);
        }
        self.graph(graph, values)
    }

    /// Walks the model without a run, to one graph that computes all outputs.
    pub(crate) fn whole(
        &mut self,
        graph: &ModelGraph,
        inputs: &[String],
        signature: &Signature,
    ) -> Result<ModelProgram> {
        self.stops_at_values = true;
        let results = self.walk(graph, inputs, signature)?;
        let (mut outputs, mut seen) = (Vec::new(), HashSet::new());
        for (info, value) in graph.outputs.iter().zip(&results) {
            let tensor = self.tensor(value).map_err(in_outputs)?;
            // Each output has an array of its own, which is none of the inputs and constants.
            let is_computed = lazy(value).is_some() && seen.insert(tensor.node().id());
            let output = if is_computed { tensor } else { tensor.detach()? };
            outputs.push((info.name.clone(), output.node().clone()));
        }
        let Current { graph, slots, constants, constant_tensors } = std::mem::take(&mut self.current);
        let named =
            |(slot, tensor): (&usize, &Tensor)| Some((inputs.get(*slot)?.clone(), tensor.node().clone()));
        let mut all = graph.constants();
        let known = constant_tensors.iter().zip(&constants);
        all.extend(known.map(|(tensor, (_, value))| (tensor.node().clone(), value.array.clone())));
        for parameter in graph.parameters() {
            all.push((parameter.node().clone(), Arc::new(self.shared.weights.get(&parameter)?)));
        }
        let (inputs, sizes) = (slots.iter().filter_map(named).collect(), Vec::new());
        Ok(ModelProgram { graph, inputs, outputs, constants: all, sizes })
    }

    /// Walks the model as far as no values are needed, without a run.
    pub(crate) fn walk_without_run(
        &mut self,
        graph: &ModelGraph,
        inputs: &[String],
        signature: &Signature,
    ) -> Result<()> {
        self.stops_at_values = true;
        match self.model(graph, inputs, signature) {
            Err(_) if self.has_stopped => Ok(()),
            walked => walked.map(drop),
        }
    }

    /// Ends a walk that takes place without a run.
    fn need_values(&mut self) -> Result<()> {
        self.has_stopped |= self.stops_at_values;
        match self.stops_at_values {
            true => Err(OnnxError::Invalid("it needs values that only a run has".into())),
            false => Ok(()),
        }
    }

    /// The array that has a value before the current graph starts.
    fn output(&self, value: &Value) -> Result<Output> {
        match self.resolved(value.clone())? {
            Value::Known(value) => Ok(Output::Known(value.array.clone())),
            Value::Slot(value) => Ok(Output::Slot(value.slot)),
            Value::Weight(parameter) => Ok(Output::Known(Arc::new(self.shared.weights.get(&parameter)?))),
            Value::Lazy(tensor) => Err(not_computed(&tensor)),
            Value::Sizes(array) => Err(sizes_as_values(&array)),
            Value::Joined(_) => Err(joined_sizes(value)),
            Value::Sequence(_) => Err(no_array()),
        }
    }

    fn lookup(&self, name: &str) -> Option<Value> {
        self.frames.iter().rev().find_map(|frame| frame.values.get(name)).cloned()
    }

    fn node(&mut self, node: &ModelNode) -> Result<()> {
        let fail = |problem| OnnxError::at_node(node.place(), problem);
        let mut operands = Vec::new();
        for (at, name) in node.inputs.iter().enumerate() {
            operands.push(match (name.is_empty(), self.lookup(name)) {
                (true, _) => None,
                (false, Some(value)) => Some(self.settled((node.id, at), value)),
                (false, None) => {
                    return Err(fail(OnnxError::operand(at, format!("`{name}` has no value"))));
                }
            });
        }
        // What the node takes for itself ends with it; what it makes is counted as long as it is read.
        let outer = std::mem::take(&mut self.own_bytes);
        let results = self.results(node, operands);
        self.budget.give(std::mem::replace(&mut self.own_bytes, outer));
        let results = results.map_err(fail)?;
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        for (name, value) in node.outputs.iter().zip(results) {
            if frame.uses.contains_key(name) {
                let bytes = memory(&value);
                self.budget.take(bytes).map_err(fail)?;
                frame.bytes.insert(name.clone(), bytes);
                frame.values.insert(name.clone(), value);
            }
        }
        for name in node.reads() {
            if let Some(count) = frame.uses.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    frame.values.remove(name);
                    self.budget.give(frame.bytes.remove(name).unwrap_or(0));
                }
            }
        }
        Ok(())
    }

    /// The value of an operand, which is a constant only if the node always has the same one there. A state
    /// of a loop differs from step to step, and branches or shapes of inputs choose among constants: what a
    /// node keeps for the session must not depend on them.
    fn settled(&mut self, operand: (usize, usize), value: Value) -> Value {
        let Value::Known(known) = &value else { return value };
        if !known.is_constant {
            return value;
        }
        let first = locked(&self.shared.constants).entry(operand).or_insert_with(|| known.clone()).clone();
        match Arc::ptr_eq(&first, known) {
            true => value,
            false => Value::Known(HostValue::shared(known.array.clone(), false)),
        }
    }

    /// The results of a node. If all operands are constants, they are computed once for the model.
    fn results(&mut self, node: &ModelNode, operands: Vec<Option<Value>>) -> Result<Vec<Value>> {
        let has_graphs = node.attributes.values().any(|value| matches!(value, Attribute::Graph(_)));
        let is_constant = operands.iter().flatten().all(Value::is_constant) && !node.operator.is_random;
        if has_graphs || node.operator.has_sequences || !is_constant {
            return self.lowered(node, operands);
        }
        if let Some(results) = locked(&self.shared.folded).get(&node.id) {
            return Ok(results.clone());
        }
        let outer = std::mem::take(&mut self.current);
        let folded = self.lowered(node, operands.clone()).and_then(|results| self.evaluated(results));
        self.current = outer;
        match folded? {
            Some(results) if locked(&self.shared.kept).take(results.iter().map(memory).sum()).is_ok() => {
                Ok(locked(&self.shared.folded).entry(node.id).or_insert(results).clone())
            }
            // Beyond the limit, each walk computes them, and keeps nothing of them for the session.
            Some(results) => Ok(results.into_iter().map(not_kept).collect()),
            None => self.lowered(node, operands),
        }
    }

    fn lowered(&mut self, node: &ModelNode, operands: Vec<Option<Value>>) -> Result<Vec<Value>> {
        let is_list = |value: &Option<Value>| matches!(value, Some(Value::Sequence(_)));
        if let Some(at) = operands.iter().position(is_list).filter(|_| !node.operator.has_sequences) {
            return Err(OnnxError::operand(at, "it is a sequence, expected an array"));
        }
        operators::lower(&mut NodeContext::new(self, node, operands))
    }

    /// The values of results of the current graph, which only has constants; none if they are large.
    fn evaluated(&mut self, results: Vec<Value>) -> Result<Option<Vec<Value>>> {
        let tensors: Vec<Tensor> = results.iter().filter_map(lazy).cloned().collect();
        let elements: usize = tensors.iter().map(Tensor::num_elements).sum();
        let read = self.current.graph.parameters();
        let largest: usize = read.iter().map(|read| read.shape().iter().product::<usize>()).sum();
        if elements > usize::max(largest, MOST_FOLDED) {
            return Ok(None);
        }
        if tensors.is_empty() {
            return Ok(Some(results));
        }
        let segment = self.compiled(&tensors)?;
        self.reserve(tensors.iter().map(|tensor| bytes_of(tensor.dtype(), tensor.shape())).sum())?;
        let mut arrays = Vec::new();
        segment.run(&mut arrays)?;
        let mut arrays = arrays.into_iter();
        let value = |result: Value| match (lazy(&result).is_some(), &mut arrays) {
            (true, arrays) => {
                let array = arrays.next().ok_or_else(|| OnnxError::Invalid("a result is missing".into()))?;
                Ok(Value::Known(HostValue::shared(array, true)))
            }
            (false, _) => Ok(result),
        };
        results.into_iter().map(value).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// The values of a slot, on which the rest of the trace depends.
    fn read(&mut self, slot: usize) -> Result<Arc<HostValue>> {
        self.need_values()?;
        let missing = || OnnxError::Invalid("a slot has no values".into());
        let values = self.slots.get(slot).cloned().ok_or_else(missing)?;
        if self.position == self.events.len() {
            self.record(Event::Read { slot, values: values.clone() })?;
        }
        self.position += 1;
        let value = HostValue::shared(values, false);
        // Later reads in this walk are no decisions.
        for frame in &mut self.frames {
            for other in frame.values.values_mut() {
                if matches!(other, Value::Slot(other) if other.slot == slot) {
                    *other = Value::Known(value.clone());
                }
            }
        }
        Ok(value)
    }

    fn record(&mut self, event: Event) -> Result<()> {
        self.step(1)?;
        self.events.push(event);
        Ok(())
    }

    /// Rejects an event while the body of a scan is written: it would happen once, and not in each step.
    fn check_complete(&self) -> Result<()> {
        Ok(self.current.graph.check_results(&[])?)
    }

    /// Ends the current graph: all of its values that are still needed, and `more`, become slots.
    fn cut(&mut self, more: &[Value]) -> Result<()> {
        self.need_values()?;
        self.check_complete()?;
        let (mut tensors, mut seen) = (Vec::<Tensor>::new(), HashSet::new());
        let held = self.frames.iter().flat_map(|frame| frame.values.values()).chain(&self.pinned).chain(more);
        for value in held.flat_map(Value::arrays) {
            if let Value::Lazy(tensor) = value
                && tensor.graph() == &self.current.graph
                && seen.insert(tensor.node().id())
            {
                tensors.push(tensor.clone());
            }
        }
        // What the frames held of the graph becomes slots, which stay until the end of the run.
        for frame in &mut self.frames {
            for (name, bytes) in &mut frame.bytes {
                if frame
                    .values
                    .get(name)
                    .is_some_and(|value| value.arrays().iter().any(|item| lazy(item).is_some()))
                {
                    self.budget.give(std::mem::take(bytes));
                }
            }
        }
        self.budget.take(tensors.iter().map(|tensor| bytes_of(tensor.dtype(), tensor.shape())).sum())?;
        match self.events.get(self.position) {
            Some(Event::Run(_)) => {}
            Some(_) => {
                return Err(OnnxError::Invalid("the trace differs from its plan".into()));
            }
            None => {
                let segment = Arc::new(self.compiled(&tensors)?);
                segment.run(self.slots)?;
                self.record(Event::Run(segment))?;
            }
        }
        self.position += 1;
        for tensor in tensors {
            let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
            let sizes = tensor.node().run_sizes().into();
            let value = SlotValue { slot: self.reached, dtype, shape, sizes };
            self.materialized.insert(tensor.node().id(), value);
            self.reached += 1;
        }
        self.current = Current::default();
        let mut frames = std::mem::take(&mut self.frames);
        for frame in &mut frames {
            for value in frame.values.values_mut() {
                *value = self.resolved(value.clone())?;
            }
        }
        self.frames = frames;
        for at in 0..self.pinned.len() {
            self.pinned[at] = self.resolved(self.pinned[at].clone())?;
        }
        Ok(())
    }

    /// Compiles the current graph.
    fn compiled(&mut self, results: &[Tensor]) -> Result<Segment> {
        let results: Vec<&Tensor> = results.iter().collect();
        let executable = self.current.graph.compile_named("onnx", &self.shared.weights, &results)?;
        let inputs = self.current.slots.keys().map(|slot| (format!("s{slot}"), *slot)).collect();
        Ok(Segment { executable, inputs, constants: self.current.constants.clone() })
    }

    /// The value, where one that an earlier segment computed is a slot.
    fn resolved(&self, value: Value) -> Result<Value> {
        match value {
            Value::Lazy(ref tensor) if tensor.graph() != &self.current.graph => {
                let found = self.materialized.get(&tensor.node().id()).cloned();
                let missing = || OnnxError::Invalid(format!("{} is no result of its segment", tensor.name()));
                Ok(Value::Slot(found.ok_or_else(missing)?))
            }
            Value::Sequence(_) | Value::Joined(_) => value.try_map(&mut |item| self.resolved(item)),
            other => Ok(other),
        }
    }

    /// The tensor of the current graph that has the value of a slot.
    fn slot_tensor(&mut self, value: SlotValue) -> Result<Tensor> {
        if let Some(tensor) = self.current.slots.get(&value.slot) {
            return Ok(tensor.clone());
        }
        let dims = Extents::named(&value.shape, &value.sizes).0.into_iter().map(|extent| match extent.size {
            // A run takes the values of sizes from the arrays that have them.
            Some(size) => match size.quotient() {
                None => Ok(InputDim::Size(self.current.graph.size(size.name(), extent.dim)?)),
                Some(quotient) => match quotient.only_source() {
                    Some((source, factor)) if quotient.dividend.offset() == 0 => {
                        let source = self.current.graph.size(source.name(), source.bound())?;
                        let multiple = usize::try_from(factor).ok().and_then(|factor| source.times(factor));
                        Ok(InputDim::Size(multiple.ok_or_else(OnnxError::overflow)?))
                    }
                    _ => {
                        let names = extents::given(&(&size).into());
                        let problem = "a later part of the model reads an array of a size that follows";
                        Err(needs_extents(names, problem))
                    }
                },
            },
            None => Ok(InputDim::Constant(extent.dim)),
        });
        let dims = dims.collect::<Result<Vec<_>>>()?;
        let tensor = self.current.graph.input_of(&format!("s{}", value.slot), &dims, value.dtype)?;
        self.current.slots.insert(value.slot, tensor.clone());
        Ok(tensor)
    }

    /// The tensor of the current graph whose elements are sums of sizes.
    fn size_tensor(&mut self, array: &SizeArray) -> Result<Tensor> {
        if array.elements.len() > MOST_SUMS || array.dtype == DType::Bool {
            return Err(sizes_as_values(array));
        }
        // A run takes the values of sizes from the arrays that have them.
        for name in array.names() {
            let has_it = |value: &Value| value.given().contains(&name);
            let inputs: Vec<Value> = self.current.slots.values().cloned().map(Value::Lazy).collect();
            if inputs.iter().any(has_it) {
                continue;
            }
            let mut held = self.frames.iter().flat_map(|frame| frame.values.values());
            match held.find(|value| matches!(value, Value::Slot(_)) && has_it(value)).cloned() {
                Some(Value::Slot(slot)) => self.slot_tensor(slot)?,
                _ => return Err(sizes_as_values(array)),
            };
        }
        let dims = Extents::from(&array.shape);
        let sizes = declared_sizes(array.elements.iter().flat_map(|sum| sum.terms().map(|(size, _)| size)));
        let element = |(index, sum): (Vec<usize>, &SizeSum)| {
            let terms =
                sum.terms().map(|(size, factor)| format!(" + {}({}) * {factor}", array.dtype, size.name()));
            let value = format!("{}{}", sum.offset(), terms.collect::<String>());
            format!("{} := {value}\n", access("y", index.iter().map(usize::to_string)))
        };
        let elements = indices(&array.shape).zip(&array.elements).map(element).collect::<String>();
        let text = format!("{sizes}node y {}[{}]\n{elements}", array.dtype, dims.text());
        let [tensor] = self.current.graph.apply_all(&text, &[], ["y"])?;
        Ok(tensor)
    }

    /// The tensor of the current graph that has known values, which are an input of the routine.
    fn constant_tensor(&mut self, value: &Arc<HostValue>) -> Result<Tensor> {
        let found = self.current.constants.iter().position(|(_, other)| Arc::ptr_eq(other, value));
        if let Some(tensor) = found.and_then(|at| self.current.constant_tensors.get(at)) {
            return Ok(tensor.clone());
        }
        let name = format!("c{}", self.current.constants.len());
        let tensor = self.current.graph.input(&name, value.shape().iter().copied(), value.dtype())?;
        self.current.constants.push((name, value.clone()));
        self.current.constant_tensors.push(tensor.clone());
        Ok(tensor)
    }

    /// The parameter that has the values of a constant on the device.
    fn parameter(&mut self, value: &Arc<HostValue>) -> Result<Parameter> {
        let address = Arc::as_ptr(value) as usize;
        let mut parameters = locked(&self.shared.parameters);
        if let Some((_, parameter)) = parameters.get(&address) {
            return Ok(parameter.clone());
        }
        let params = self.shared.weights.params().with_dtype(value.dtype());
        let name = format!("w{}", parameters.len());
        let init = Init::Shared(value.array.clone());
        let parameter = params.parameter(&name, value.shape().iter().copied(), init)?;
        parameters.insert(address, (value.clone(), parameter.clone()));
        Ok(parameter)
    }
}

impl TraceScope for Tracer<'_> {
    fn current(&self) -> &Graph {
        &self.current.graph
    }

    fn is_strict(&self) -> bool {
        self.shared.weights.backend().settings().numerics == NumericClass::Strict
    }

    fn spares_steps(&self) -> bool {
        self.shared.weights.backend().codegen().caps().workgroups.is_none()
    }

    fn tensor(&mut self, value: &Value) -> Result<Tensor> {
        match self.resolved(value.clone())? {
            Value::Lazy(tensor) => Ok(tensor),
            Value::Slot(value) => self.slot_tensor(value),
            Value::Weight(parameter) => Ok(self.current.graph.tensor_of(&parameter)?),
            Value::Known(value) if value.is_constant => {
                let parameter = self.parameter(&value)?;
                Ok(self.current.graph.tensor_of(&parameter)?)
            }
            Value::Known(value) => self.constant_tensor(&value),
            Value::Sizes(array) => self.size_tensor(&array),
            Value::Joined(_) => Err(joined_sizes(value)),
            Value::Sequence(_) => Err(no_array()),
        }
    }

    fn host(&mut self, value: &Value) -> Result<Arc<HostValue>> {
        if let Value::Lazy(_) = self.resolved(value.clone())? {
            self.cut(std::slice::from_ref(value))?;
        }
        match self.resolved(value.clone())? {
            Value::Known(value) => Ok(value),
            Value::Slot(value) if !value.sizes.is_empty() => {
                let names = Extents::named(&value.shape, &value.sizes).given();
                Err(needs_extents(names, "the host reads an array that has them"))
            }
            Value::Slot(value) => self.read(value.slot),
            Value::Sizes(array) => Err(sizes_as_values(&array)),
            Value::Joined(_) => Err(joined_sizes(value)),
            Value::Weight(parameter) => Ok(HostValue::new(self.shared.weights.get(&parameter)?, true)),
            Value::Lazy(tensor) => Err(not_computed(&tensor)),
            Value::Sequence(_) => Err(no_array()),
        }
    }

    fn host_step(
        &mut self,
        node: &ModelNode,
        operands: &[Value],
        function: HostFunction,
        is_random: bool,
    ) -> Result<Vec<Value>> {
        let known: Option<Vec<_>> =
            operands.iter().map(|value| value.known().map(|known| known.array.clone())).collect();
        if let Some(arrays) = known.filter(|_| !is_random) {
            let is_constant = operands.iter().all(Value::is_constant);
            let value = |array: HostArray| Value::Known(HostValue::new(array, is_constant));
            return Ok(function(&arrays)?.into_iter().map(value).collect());
        }
        if operands.iter().any(Value::has_sizes) {
            let names = operands.iter().flat_map(Value::given);
            return Err(needs_extents(names, "the host computes with them"));
        }
        self.need_values()?;
        self.check_complete()?;
        let mut is_pending = false;
        for value in operands {
            is_pending |= matches!(self.resolved(value.clone())?, Value::Lazy(_));
        }
        if is_pending {
            self.cut(operands)?;
        }
        let shapes = match self.events.get(self.position) {
            Some(Event::Host { shapes, .. }) => shapes.clone(),
            Some(_) => return Err(OnnxError::Invalid("the trace differs from its plan".into())),
            None => {
                let operands = operands.iter().map(|value| self.output(value)).collect::<Result<_, _>>()?;
                let (name, operator, opset) = node.place();
                let step = Arc::new(HostStep { function, operands, node: (name.into(), operator, opset) });
                let shapes = step.run(self.slots)?;
                let made = self.slots.iter().rev().take(shapes.len());
                self.budget.take(made.map(|array| array.bytes().len() as u64).sum())?;
                self.record(Event::Host { step, shapes: shapes.clone() })?;
                shapes
            }
        };
        self.position += 1;
        let first = self.reached;
        self.reached += shapes.len();
        let missing = || OnnxError::Invalid("a slot has no values".into());
        let value = |slot: usize| {
            let array = self.slots.get(slot).ok_or_else(missing)?;
            slot_value(slot, array.dtype(), &array.dims().as_slice().into())
        };
        (first..self.reached).map(value).collect()
    }

    fn table(
        &mut self,
        node: usize,
        key: String,
        make: Box<dyn FnOnce() -> Result<HostArray> + '_>,
    ) -> Result<Parameter> {
        let key = (node, key);
        if let Some(found) = locked(&self.shared.tables).get(&key) {
            return Ok(found.clone());
        }
        let array = make()?;
        locked(&self.shared.kept).take(array.bytes().len() as u64)?;
        let mut tables = locked(&self.shared.tables);
        if let Some(found) = tables.get(&key) {
            return Ok(found.clone());
        }
        let params = self.shared.weights.params().with_dtype(array.dtype());
        let name = format!("t{}", tables.len());
        let parameter = params.parameter(&name, array.dims().iter().copied(), Init::ZEROS)?;
        self.shared.weights.set(&parameter, array)?;
        tables.insert(key, parameter.clone());
        Ok(parameter)
    }

    fn graph(&mut self, graph: &ModelGraph, inputs: BTreeMap<String, Value>) -> Result<Vec<Value>> {
        self.step((1 + graph.nodes.len() + graph.initializers.len()) as u64)
            .map_err(OnnxError::at("graph"))?;
        let mut values: BTreeMap<String, Value> = graph
            .initializers
            .iter()
            .map(|(name, value)| (name.clone(), Value::Known(value.clone())))
            .collect();
        values.extend(inputs);
        self.frames.push(Frame { values, uses: graph.uses.clone(), bytes: HashMap::new() });
        let walked = graph.nodes.iter().try_for_each(|node| self.node(node));
        let results = walked.and_then(|()| {
            let output = |name: &String| {
                self.lookup(name)
                    .ok_or_else(|| OnnxError::invalid(format!("output `{name}`"), "has no value"))
            };
            graph.outputs.iter().map(|info| output(&info.name)).collect()
        });
        let frame = self.frames.pop();
        self.budget.give(frame.iter().flat_map(|frame| frame.bytes.values()).sum());
        results
    }

    fn pin(&mut self, values: Vec<Value>) -> usize {
        let mark = self.pinned.len();
        self.pinned.extend(values);
        mark
    }

    fn unpin(&mut self, mark: usize) {
        self.pinned.truncate(mark);
    }

    fn step(&mut self, steps: u64) -> Result<()> {
        self.budget.step(steps)
    }

    fn steps_left(&self) -> u64 {
        self.budget.steps_left()
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        self.budget.take(bytes)?;
        self.own_bytes += bytes;
        Ok(())
    }
}

/// The memory that a value takes beside slots and weights.
fn memory(value: &Value) -> u64 {
    let bytes = |value: &Value| match value {
        Value::Known(value) => value.array.bytes().len() as u64,
        Value::Lazy(tensor) => bytes_of(tensor.dtype(), tensor.shape()),
        Value::Slot(_) | Value::Weight(_) | Value::Sizes(_) | Value::Joined(_) | Value::Sequence(_) => 0,
    };
    value.arrays().iter().map(bytes).sum()
}

/// The value, which is no constant of the session.
fn not_kept(value: Value) -> Value {
    match value {
        Value::Known(known) => Value::Known(HostValue::shared(known.array.clone(), false)),
        other => other,
    }
}

fn not_computed(tensor: &Tensor) -> OnnxError {
    OnnxError::Invalid(format!("{} was not computed", tensor.name()))
}

fn no_array() -> OnnxError {
    OnnxError::Invalid("a sequence is no array".into())
}

fn lazy(value: &Value) -> Option<&Tensor> {
    match value {
        Value::Lazy(tensor) => Some(tensor),
        _ => None,
    }
}

/// The value of a slot. One without elements is known.
fn slot_value(slot: usize, dtype: DType, extents: &Extents) -> Result<Value> {
    let (shape, sizes) = (extents.dims(), extents.names());
    match shape.contains(&0) {
        true => Ok(Value::Known(HostValue::new(HostArray::zeros(dtype, shape)?, false))),
        false => Ok(Value::Slot(SlotValue { slot, dtype, shape, sizes })),
    }
}

fn sizes_as_values(array: &SizeArray) -> OnnxError {
    needs_extents(array.names(), "their numbers are values of an array")
}

fn joined_sizes(value: &Value) -> OnnxError {
    needs_extents(value.given(), "an array has an axis that joins several")
}

fn in_outputs(problem: OnnxError) -> OnnxError {
    match problem {
        OnnxError::Model(_) | OnnxError::Part { .. } | OnnxError::Node { .. } => problem,
        other => OnnxError::at("outputs")(other),
    }
}
