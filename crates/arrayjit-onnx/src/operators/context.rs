//! The view of a node that operators have: attributes, operands, and statements of the current graph.

use std::{collections::BTreeMap, sync::Arc};

use arrayjit_tensor::{
    Graph, Tensor, TensorError, TensorOperand,
    low_level::{Call, broadcast_access, declared_sizes},
};
use tnode::{DType, HostArray, SizeSum};

use super::scope::TraceScope;
use crate::{
    budget::bytes_of,
    error::{OnnxError, Result},
    extents::{Extents, needs_extents},
    host::{HostValue, array_of, scalars},
    ir::{Attribute, ModelGraph, ModelNode},
    load::OPSETS,
    narrow::Narrow,
    shape,
    value::{SizeArray, Value},
};

/// The results of a node, in the order of its outputs.
pub(crate) type Lowered = Result<Vec<Value>>;

/// Results with at most as many elements are computed on the host if all operands are known.
pub(crate) const MOST_ON_HOST: usize = 4096;

/// A node whose operands have values.
pub(crate) struct NodeContext<'n> {
    scope: &'n mut (dyn TraceScope + 'n),
    node: &'n ModelNode,
    operands: Vec<Option<Value>>,
    /// The operands of the text that is being written, by their names.
    bound: Vec<(String, Tensor)>,
}

/// An operand of a statement.
pub(crate) struct Operand {
    /// The name of an array, or a number that stands for its only element.
    text: String,
    is_number: bool,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
}

impl Operand {
    /// The element at these indices.
    pub(crate) fn at(&self, indices: &[String]) -> String {
        if self.is_number { self.text.clone() } else { shape::access(&self.text, indices) }
    }

    /// The element at the letters of the operand's own axes.
    pub(crate) fn whole(&self) -> String {
        self.at(&shape::letters(self.shape.len()))
    }

    /// The element that is broadcast to the letters of a shape of that rank.
    pub(crate) fn broadcast(&self, rank: usize) -> String {
        let to = vec![0; rank.max(self.shape.len())];
        if self.is_number { self.text.clone() } else { broadcast_access(&self.text, &self.shape, &to) }
    }

    /// The name of an array.
    pub(crate) fn name(&self) -> &str {
        &self.text
    }

    /// The element at these indices, or `outside` where they leave the array.
    pub(crate) fn padded(&self, outside: &str, indices: &[String]) -> String {
        shape::access(&format!("pad({}, {outside})", self.text), indices)
    }
}

/// Defines methods that give an attribute of a kind, if the node has it.
macro_rules! attributes {
    ($($kind:ident -> $type:ty: $variant:ident, $expected:literal;)*) => {$(
        pub(crate) fn $kind(&self, name: &str) -> Result<Option<$type>> {
            match self.attribute(name) {
                None => Ok(None),
                Some(Attribute::$variant(value)) => Ok(Some(value.to_owned())),
                Some(_) => Err(OnnxError::attribute(name, $expected)),
            }
        }
    )*};
}

/// The node and its attributes.
impl<'n> NodeContext<'n> {
    /// The name of the operator.
    pub(crate) fn operator(&self) -> &'static str {
        self.node.operator.name
    }

    /// The operator as an operation of tensors, for names and errors.
    #[track_caller]
    pub(crate) fn call(&self) -> Call {
        Call::with_sizes(self.operator())
    }

    /// The number of the operator in the list of all operators.
    pub(super) fn operator_number(&self) -> usize {
        self.node.operator.number
    }

    /// The number of the node in the model.
    pub(crate) fn id(&self) -> usize {
        self.node.id
    }

    /// The version of the operator set.
    pub(crate) fn opset(&self) -> i64 {
        self.node.opset
    }

    /// The number of results that the node names.
    pub(crate) fn outputs(&self) -> usize {
        self.node.outputs.len()
    }

    /// Whether results must have the bits of the operations that the file names.
    pub(crate) fn is_strict(&self) -> bool {
        self.scope.is_strict()
    }

    /// Whether a later node reads the result.
    pub(crate) fn wants(&self, output: usize) -> bool {
        self.node.outputs.get(output).is_some_and(|name| !name.is_empty())
    }

    /// The number of attributes that the node has.
    pub(crate) fn attributes(&self) -> usize {
        self.node.attributes.len()
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&'n Attribute> {
        self.node.attributes.get(name)
    }

    attributes! {
        int -> i64: Int, "an integer";
        ints -> Vec<i64>: Ints, "integers";
        float -> f32: Float, "a float";
        floats -> Vec<f32>: Floats, "floats";
        texts -> Vec<String>: Texts, "texts";
    }

    pub(crate) fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// A positive number.
    pub(crate) fn count(&self, name: &str, default: i64) -> Result<usize> {
        let count = usize::try_from(self.int_or(name, default)?).ok().filter(|&count| count > 0);
        count.ok_or_else(|| OnnxError::attribute(name, "a positive number"))
    }

    pub(crate) fn float_or(&self, name: &str, default: f32) -> Result<f32> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// What is added to a variance before the root is taken.
    pub(crate) fn epsilon(&self, default: f32) -> Result<f32> {
        let epsilon = self.float_or("epsilon", default)?;
        match epsilon >= 0.0 && epsilon.is_finite() {
            true => Ok(epsilon),
            false => {
                Err(OnnxError::attribute("epsilon", format!("a finite number, 0 or more, not {epsilon}")))
            }
        }
    }

    pub(crate) fn text_or(&self, name: &str, default: &'n str) -> Result<&'n str> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Text(value)) => Ok(value),
            Some(_) => Err(OnnxError::attribute(name, "a text")),
        }
    }

    /// The element type with the number that an attribute has.
    pub(crate) fn dtype_attribute(&self, name: &str) -> Result<Option<DType>> {
        let Some(number) = self.int(name)? else { return Ok(None) };
        let number = i32::try_from(number).unwrap_or(-1);
        let unsupported = || OnnxError::Case(format!("element type {}", crate::array::dtype_name(number)));
        crate::array::dtype(number).map(Some).ok_or_else(unsupported)
    }

    /// The type of fewer than 8 bits whose number an attribute has.
    pub(crate) fn narrow_attribute(&self, name: &str) -> Result<Option<Narrow>> {
        let number = self.int(name)?.and_then(|number| i32::try_from(number).ok());
        Ok(number.and_then(Narrow::of))
    }

    /// The type of an operand, if it has fewer than 8 bits and the file says it.
    pub(crate) fn narrow(&self, at: usize) -> Option<Narrow> {
        self.node.narrow.get(at).copied().flatten()
    }

    pub(crate) fn graph(&self, name: &str) -> Result<&'n Arc<ModelGraph>> {
        match self.attribute(name) {
            Some(Attribute::Graph(graph)) => Ok(graph),
            _ => Err(OnnxError::attribute(name, "a graph")),
        }
    }
}

/// The operands.
impl<'n> NodeContext<'n> {
    pub(crate) fn new(
        scope: &'n mut (dyn TraceScope + 'n),
        node: &'n ModelNode,
        operands: Vec<Option<Value>>,
    ) -> NodeContext<'n> {
        NodeContext { scope, node, operands, bound: Vec::new() }
    }

    /// The number of operands that the node names.
    pub(crate) fn inputs(&self) -> usize {
        self.operands.len()
    }

    /// An operand that the node may leave out.
    pub(crate) fn optional(&self, at: usize) -> Option<Value> {
        self.operands.get(at).cloned().flatten()
    }

    pub(crate) fn value(&self, at: usize) -> Result<Value> {
        self.optional(at).ok_or_else(|| OnnxError::operand(at, "it is missing"))
    }

    /// All operands, none of which may be left out.
    pub(crate) fn values(&self) -> Result<Vec<Value>> {
        (0..self.inputs()).map(|at| self.value(at)).collect()
    }

    /// The values of an operand on the host, on which the trace depends from here on.
    pub(crate) fn host(&mut self, at: usize) -> Result<Arc<HostValue>> {
        let value = self.value(at)?;
        self.scope.host(&value)
    }

    /// The integers of an operand on the host.
    pub(crate) fn host_ints(&mut self, at: usize) -> Result<Vec<i64>> {
        let value = self.host(at)?;
        match value.dtype().is_float() {
            true => Err(OnnxError::operand(at, format!("expected integers, found {}", value.dtype()))),
            false => Ok(value.ints()),
        }
    }

    /// The integers of an operand, which may follow from sizes of the run.
    pub(crate) fn size_sums(&mut self, at: usize) -> Result<Vec<SizeSum>> {
        match SizeArray::of(&self.value(at)?) {
            Some(array) => Ok(array.elements.clone()),
            None => Ok(self.host_ints(at)?.into_iter().map(SizeSum::from).collect()),
        }
    }

    /// The error of an operator that needs numbers in place of the sizes of its operands.
    pub(crate) fn needs_extents(&self, problem: impl Into<String>) -> OnnxError {
        needs_extents(self.operands.iter().flatten().flat_map(Value::given), problem)
    }

    /// The error of an operator that a message rejects: it needs numbers in place of the sizes that the first
    /// line of the message names, or of all sizes of its operands if it names none.
    pub(super) fn needs_mentioned_extents(&self, problem: &str) -> OnnxError {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words: Vec<&str> = problem.lines().take(1).flat_map(|line| line.split(|c| !is_word(c))).collect();
        let names: Vec<Arc<str>> = self.operands.iter().flatten().flat_map(Value::given).collect();
        let mentioned: Vec<Arc<str>> =
            names.iter().filter(|name| words.contains(&&***name)).cloned().collect();
        needs_extents(if mentioned.is_empty() { names } else { mentioned }, problem)
    }

    /// Whether an operand has sizes that each run gives.
    pub(crate) fn has_sizes(&self) -> bool {
        self.operands.iter().flatten().any(Value::has_sizes)
    }

    /// The results of the same node for other operands.
    pub(super) fn lowered_with(&mut self, operands: Vec<Option<Value>>) -> Lowered {
        let outer = std::mem::replace(&mut self.operands, operands);
        let results = super::lower(self);
        self.operands = outer;
        results
    }

    /// The results of the same node with another value of an attribute, for other operands.
    pub(super) fn lowered_as(
        &mut self,
        name: &str,
        value: Attribute,
        operands: Vec<Option<Value>>,
    ) -> Lowered {
        let mut node = self.node.clone();
        node.attributes.insert(name.to_owned(), value);
        super::lower(&mut NodeContext::new(&mut *self.scope, &node, operands))
    }

    /// The integers of an optional operand on the host.
    pub(crate) fn optional_ints(&mut self, at: usize) -> Result<Option<Vec<i64>>> {
        match self.optional(at) {
            Some(_) => self.host_ints(at).map(Some),
            None => Ok(None),
        }
    }

    /// The only element of an operand on the host.
    pub(crate) fn host_float(&mut self, at: usize) -> Result<f64> {
        let value = self.host(at)?;
        let first = value.floats().first().copied();
        first.filter(|_| value.array.num_values() == 1).ok_or_else(|| {
            OnnxError::operand(at, format!("expected one element, found shape {:?}", value.shape()))
        })
    }

    /// All operands on the host, if they are known and have few elements.
    pub(crate) fn all_known(&self) -> Option<Vec<Arc<HostValue>>> {
        let known = self.operands.iter().flatten().map(|value| value.known().cloned());
        let known: Vec<Arc<HostValue>> = known.collect::<Option<_>>()?;
        known.iter().all(|value| value.array.num_values() <= MOST_ON_HOST).then_some(known)
    }

    /// The result of a node whose operands are all known.
    pub(crate) fn known(&self, array: HostArray) -> Value {
        let is_constant = self.operands.iter().flatten().all(Value::is_constant);
        Value::Known(HostValue::new(array, is_constant))
    }

    /// An array that depends on nothing but the node and the key: it is made once for a session, and stays on
    /// the device.
    pub(crate) fn table(&mut self, key: String, make: impl FnOnce() -> Result<HostArray>) -> Result<Value> {
        self.scope.table(self.node.id, key, Box::new(make)).map(Value::Weight)
    }

    /// Evaluates a subgraph in place; its inputs have these values, in order.
    pub(crate) fn subgraph(&mut self, graph: &ModelGraph, inputs: Vec<Value>) -> Lowered {
        let names = graph.inputs.iter().map(|info| info.name.clone());
        let inputs: BTreeMap<String, Value> = names.zip(inputs).collect();
        self.scope.graph(graph, inputs)
    }

    /// The graph that is being built.
    pub(crate) fn current(&self) -> &Graph {
        self.scope.current()
    }

    /// The tensor of the graph that has a value.
    pub(crate) fn tensor(&mut self, value: &Value) -> Result<Tensor> {
        self.scope.tensor(value)
    }

    /// The tensors of the graph that have these values.
    pub(crate) fn tensors(&mut self, values: &[Value]) -> Result<Vec<Tensor>> {
        values.iter().map(|value| self.scope.tensor(value)).collect()
    }

    /// Takes steps: of a loop, or of a recurrent layer.
    pub(crate) fn steps(&mut self, steps: usize) -> Result<()> {
        self.scope.step(steps as u64)
    }

    /// Whether a scan that ends early spares the steps behind its end.
    pub(crate) fn spares_steps(&self) -> bool {
        self.scope.spares_steps()
    }

    /// The steps that the budget has left.
    pub(crate) fn steps_left(&self) -> u64 {
        self.scope.steps_left()
    }

    /// Takes the memory of an array on the host, before it is made.
    pub(crate) fn reserve(&mut self, dtype: DType, shape: &[usize]) -> Result<()> {
        elements_of(dtype, shape)?;
        self.scope.reserve(bytes_of(dtype, shape))
    }

    /// Keeps values that the operator needs later, so that a cut computes them, until `keeping` is over.
    pub(crate) fn keep(&mut self, values: Vec<Value>) {
        self.scope.pin(values);
    }

    /// The values of a value on the host, on which the trace depends from here on.
    pub(crate) fn host_of(&mut self, value: &Value) -> Result<Arc<HostValue>> {
        self.scope.host(value)
    }

    /// The results of a function that the host computes at each run; later nodes depend on their shapes only.
    pub(crate) fn on_host(
        &mut self,
        operands: &[Value],
        function: impl Fn(&[Arc<HostArray>]) -> Result<Vec<HostArray>> + Send + Sync + 'static,
    ) -> Lowered {
        self.scope.host_step(self.node, operands, Arc::new(function), false)
    }

    /// As `on_host`, for a function whose results differ from run to run.
    pub(crate) fn each_run(
        &mut self,
        operands: &[Value],
        function: impl Fn(&[Arc<HostArray>]) -> Result<Vec<HostArray>> + Send + Sync + 'static,
    ) -> Lowered {
        self.scope.host_step(self.node, operands, Arc::new(function), true)
    }

    /// Evaluates with values that the operator still needs, so that a cut computes them.
    pub(crate) fn keeping<T>(&mut self, kept: Vec<Value>, body: impl FnOnce(&mut Self) -> T) -> T {
        let mark = self.scope.pin(kept);
        let result = body(self);
        self.scope.unpin(mark);
        result
    }
}

/// Compositions.
impl NodeContext<'_> {
    /// The first `results` results of an operator of `ai.onnx`, in its latest version, on values of the node.
    pub(super) fn apply(
        &mut self,
        name: &'static str,
        attributes: impl IntoIterator<Item = (&'static str, Attribute)>,
        operands: Vec<Option<Value>>,
        results: usize,
    ) -> Lowered {
        let opset = *OPSETS.end();
        let node = ModelNode {
            id: self.node.id,
            name: self.node.name.clone(),
            operator: super::find("", name, opset).map_err(OnnxError::Case)?,
            opset,
            inputs: vec![String::new(); operands.len()],
            narrow: vec![None; operands.len()],
            outputs: vec![name.to_owned(); results],
            attributes: attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            captures: Vec::new(),
        };
        super::lower(&mut NodeContext::new(&mut *self.scope, &node, operands))
    }

    /// The attributes of these names that the node has.
    pub(super) fn copied(&self, names: &[&'static str]) -> Vec<(&'static str, Attribute)> {
        names.iter().filter_map(|&name| Some((name, self.attribute(name)?.clone()))).collect()
    }
}

/// Statements.
impl NodeContext<'_> {
    /// An operand of a statement; the only element of a known array becomes a number.
    pub(crate) fn bind(&mut self, value: &Value) -> Result<Operand> {
        match value.known().and_then(|known| known.literal()) {
            Some(text) => {
                let (shape, dtype) = (value.shape().to_vec(), value.dtype());
                Ok(Operand { text, is_number: true, shape, dtype })
            }
            None => self.bind_array(value),
        }
    }

    /// An operand of a statement that is always an array.
    pub(crate) fn bind_array(&mut self, value: &Value) -> Result<Operand> {
        let operand = self.scope.tensor(value)?;
        let text = format!("x{}", self.bound.len());
        self.bound.push((text.clone(), operand));
        Ok(Operand { text, is_number: false, shape: value.shape().to_vec(), dtype: value.dtype() })
    }

    /// Adds statements that compute the array `y` of this type and shape.
    pub(crate) fn emit(&mut self, dtype: DType, shape: impl Into<Extents>, text: &str) -> Result<Value> {
        let [value] = self.emit_extents([("y", dtype, shape.into())], text)?;
        Ok(value)
    }

    /// Adds statements that compute several arrays, by their names in the text.
    pub(crate) fn emit_all<const N: usize>(
        &mut self,
        results: [(&str, DType, &[usize]); N],
        text: &str,
    ) -> Result<[Value; N]> {
        self.emit_extents(results.map(|(name, dtype, shape)| (name, dtype, shape.into())), text)
    }

    /// [`emit_all`](NodeContext::emit_all) with axes whose sizes a run gives.
    pub(crate) fn emit_extents<const N: usize>(
        &mut self,
        results: [(&str, DType, Extents); N],
        text: &str,
    ) -> Result<[Value; N]> {
        let bound = std::mem::take(&mut self.bound);
        for (_, dtype, extents) in &results {
            self.reserve(*dtype, &extents.dims())?;
        }
        if results.iter().all(|(.., extents)| extents.dims().contains(&0)) {
            let empty = |(_, dtype, extents): (&str, DType, Extents)| self.empty(dtype, &extents.dims());
            return collected(results.into_iter().map(empty));
        }
        let own = results.iter().flat_map(|(.., extents)| extents.0.iter().flat_map(|extent| &extent.size));
        let read = bound.iter().flat_map(|(_, operand)| operand.node().run_sizes().iter().flatten());
        let sizes = declared_sizes(own.chain(read));
        let declared: String = results
            .iter()
            .map(|(name, dtype, extents)| format!("node {name} {dtype}[{}]\n", extents.text()))
            .collect();
        let operands: Vec<(&str, &dyn TensorOperand)> =
            bound.iter().map(|(name, operand)| (name.as_str(), operand as &dyn TensorOperand)).collect();
        let names = results.map(|(name, ..)| name);
        // Messages name the node.
        let _module = self.scope.current().enter(&path(&self.node.name));
        let tensors: [Tensor; N] =
            self.scope.current().apply_all(&format!("{sizes}{declared}{text}"), &operands, names)?;
        Ok(tensors.map(Value::Lazy))
    }

    /// The result of an operation on tensors, converted to this element type and shape. An array without
    /// elements is not computed.
    pub(crate) fn operation<const N: usize>(
        &mut self,
        values: [&Value; N],
        dtype: DType,
        shape: &[usize],
        operation: impl FnOnce(&[Tensor; N]) -> Result<Tensor, TensorError>,
    ) -> Result<Value> {
        self.operation_of(&values.map(Value::clone), dtype, shape, |_, tensors| match tensors.try_into() {
            Ok(tensors) => operation(tensors).map_err(OnnxError::from),
            Err(_) => Err(OnnxError::Invalid("an operand is missing".into())),
        })
    }

    /// [`operation`](NodeContext::operation) on any number of values.
    pub(crate) fn operation_of<E>(
        &mut self,
        values: &[Value],
        dtype: DType,
        shape: &[usize],
        operation: impl FnOnce(&Graph, &[Tensor]) -> Result<Tensor, E>,
    ) -> Result<Value>
    where
        OnnxError: From<E>,
    {
        self.reserve(dtype, shape)?;
        if shape.contains(&0) {
            return self.empty(dtype, shape);
        }
        let tensors = self.tensors(values)?;
        // Messages name the node.
        let graph = self.scope.current();
        let _module = graph.enter(&path(&self.node.name));
        Ok(Value::Lazy(reshaped(&operation(graph, &tensors)?.to_dtype(dtype)?, shape)?))
    }

    /// Emits a text of its own, while the operands of another one are bound.
    fn apart<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let bound = std::mem::take(&mut self.bound);
        let result = emit(self);
        self.bound = bound;
        result
    }

    /// An array without elements. Its other axes have numbers, since the host makes it while it walks.
    pub(crate) fn empty(&self, dtype: DType, shape: &[usize]) -> Result<Value> {
        if self.has_sizes() && shape.iter().any(|&size| size > 1) {
            return Err(self.needs_extents("the result has no elements, and axes that may be sizes"));
        }
        Ok(self.known(HostArray::zeros(dtype, shape.iter().copied())?))
    }

    /// An array with one number in all elements, as assignment text in its type.
    pub(crate) fn filled(&mut self, dtype: DType, shape: impl Into<Extents>, number: &str) -> Result<Value> {
        let extents = shape.into();
        let letters = shape::letters(extents.0.len());
        let text = format!("{} := {number}", shape::access("y", &letters));
        self.apart(|cx| cx.emit(dtype, &extents, &text))
    }

    /// The value converted to an element type.
    pub(crate) fn cast(&mut self, value: &Value, dtype: DType) -> Result<Value> {
        if value.dtype() == dtype {
            return Ok(value.clone());
        }
        if let Some(known) = value.known().filter(|known| known.array.num_values() <= MOST_ON_HOST) {
            let array = array_of(dtype, value.shape(), scalars(&known.array))?;
            return Ok(Value::Known(HostValue::new(array, known.is_constant)));
        }
        self.mapped(value, dtype, &format!("{dtype}({{}})"))
    }

    /// An expression of each element `{}`.
    pub(crate) fn mapped(&mut self, value: &Value, dtype: DType, expression: &str) -> Result<Value> {
        let y = shape::access("y", shape::letters(value.rank()));
        self.apart(|cx| {
            let element = cx.bind_array(value)?.whole();
            cx.emit(dtype, value.extents(), &format!("{y} := {}", expression.replace("{}", &element)))
        })
    }
}

/// The name of a node as the path of a module: `/conv1/Conv` becomes `conv1.Conv`.
fn path(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let parts = name.split(['/', '.', ':']).filter(|part| !part.is_empty());
    parts.map(|part| part.chars().map(plain).collect::<String>()).collect::<Vec<_>>().join(".")
}

/// The tensor in another shape, if each of its sizes has as many elements behind it there.
fn reshaped(tensor: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let sizes: Vec<isize> = shape.iter().map(|&size| size as isize).collect();
    let result = tensor.reshape(&sizes)?;
    let [from, to] =
        [tensor, &result].map(|tensor| Extents::named(tensor.shape(), tensor.node().run_sizes()));
    match from.outline() == to.outline() {
        true => Ok(result),
        false => Err(needs_extents(from.given(), "a size is joined with another axis or divided")),
    }
}

/// Checks that an array of this type and shape can be addressed.
fn elements_of(dtype: DType, shape: &[usize]) -> Result<usize> {
    shape::elements(shape)?.checked_mul(dtype.size_bytes()).ok_or_else(OnnxError::overflow)
}

/// The items of an iterator of exactly `N` items.
fn collected<const N: usize>(items: impl Iterator<Item = Result<Value>>) -> Result<[Value; N]> {
    let items: Vec<Value> = items.collect::<Result<_, _>>()?;
    items.try_into().map_err(|_| OnnxError::Invalid("a result is missing".into()))
}

/// The index of an axis as a sum of multiples of the letters of a result.
#[derive(Clone, Default)]
pub(crate) struct Affine {
    /// The axes of the result with their factors.
    pub(crate) terms: Vec<(usize, i64)>,
    pub(crate) offset: i64,
}

impl Affine {
    /// The letter of an axis of the result.
    pub(crate) fn letter(axis: usize) -> Affine {
        Affine { terms: vec![(axis, 1)], offset: 0 }
    }

    fn text(&self) -> String {
        let mut text = self.offset.to_string();
        for (axis, factor) in &self.terms {
            text = match factor {
                1 => format!("i{axis} + {text}"),
                _ => format!("{factor}*i{axis} + {text}"),
            };
        }
        text.replace("+ -", "- ").replace(" + 0", "")
    }

    fn at(&self, index: &[usize]) -> Option<usize> {
        let term = |sum: i64, &(axis, factor): &(usize, i64)| {
            let at = i64::try_from(*index.get(axis)?).ok()?;
            sum.checked_add(factor.checked_mul(at)?)
        };
        usize::try_from(self.terms.iter().try_fold(self.offset, term)?).ok()
    }
}

/// Moves of elements.
impl NodeContext<'_> {
    /// The same elements in row-major order in another shape.
    pub(crate) fn reshaped(&mut self, value: &Value, shape: &[usize]) -> Result<Value> {
        if value.shape() == shape {
            return Ok(value.clone());
        }
        if shape::elements(shape)? != value.num_elements() {
            let problem = format!("{:?} cannot have the shape {shape:?}", value.shape());
            return Err(OnnxError::Invalid(problem));
        }
        if let Some(known) = value.known() {
            self.reserve(known.dtype(), shape)?;
            let array = HostArray::from_bytes(known.dtype(), shape.iter().copied(), known.array.bytes())?;
            return Ok(Value::Known(HostValue::new(array, known.is_constant)));
        }
        Ok(Value::Lazy(reshaped(&self.scope.tensor(value)?, shape)?))
    }

    /// The elements at these indices, one for each axis of the value.
    pub(crate) fn reindexed(
        &mut self,
        value: &Value,
        shape: impl Into<Extents>,
        index: &[Affine],
    ) -> Result<Value> {
        let extents = shape.into();
        if extents.has_sizes() {
            return self.reindexed_by_sizes(value, &extents, index);
        }
        let dims = extents.dims();
        let shape = dims.as_slice();
        let count = shape::elements(shape)?;
        if let Some(known) = value.known().filter(|_| count <= MOST_ON_HOST) {
            let position = |at: Vec<usize>| {
                let own: Option<Vec<usize>> = index.iter().map(|affine| affine.at(&at)).collect();
                own.map_or(usize::MAX / 64, |own| crate::host::flatten(&own, value.shape()))
            };
            let array = crate::host::picked(&known.array, shape, crate::host::indices(shape).map(position))?;
            return Ok(Value::Known(HostValue::new(array, known.is_constant)));
        }
        if let Some(number) = value.known().and_then(|known| known.literal()) {
            return self.filled(value.dtype(), shape, &number);
        }
        let index: Vec<String> = index.iter().map(Affine::text).collect();
        let call = self.call();
        self.operation([value], value.dtype(), shape, |[x]| x.moved(call, shape, &index))
    }

    fn reindexed_by_sizes(&mut self, value: &Value, extents: &Extents, index: &[Affine]) -> Result<Value> {
        let index: Vec<String> = index.iter().map(Affine::text).collect();
        let y = shape::access("y", shape::letters(extents.0.len()));
        self.apart(|cx| {
            let x = cx.bind_array(value)?.at(&index);
            cx.emit(value.dtype(), extents, &format!("{y} := {x}{}", extents.clause()))
        })
    }

    /// The elements of an axis at these positions.
    pub(crate) fn taken(&mut self, value: &Value, axis: usize, positions: &[usize]) -> Result<Value> {
        let mut extents = value.extents();
        extents.0[axis] = positions.len().into();
        let shape = extents.dims();
        let start = positions.first().copied().unwrap_or_default() as i64;
        let step = positions.get(1).map_or(1, |&second| second as i64 - start);
        let is_affine = positions
            .iter()
            .enumerate()
            .all(|(at, &position)| i64::try_from(at).is_ok_and(|at| start + step * at == position as i64));
        if is_affine {
            let mut index: Vec<Affine> = (0..shape.len()).map(Affine::letter).collect();
            index[axis] = Affine { terms: vec![(axis, step)], offset: start };
            return self.reindexed(value, &extents, &index);
        }
        if value.extents().0[axis].size.is_some() {
            return Err(self.needs_extents("a size decides whether the positions are inside"));
        }
        let is_small = shape::elements(&shape).is_ok_and(|count| count <= MOST_ON_HOST);
        if let Some(known) = value.known().filter(|_| is_small) {
            let array = crate::host::taken(&known.array, axis, positions)?;
            return Ok(Value::Known(HostValue::new(array, known.is_constant)));
        }
        let positions: Vec<i32> = positions.iter().map(|&at| i32::try_from(at).unwrap_or(i32::MAX)).collect();
        let table = HostArray::from_slice(&positions, [positions.len()])?;
        let table = Value::Known(HostValue::new(table, false));
        self.apart(|cx| {
            let (x, p) = (cx.bind_array(value)?, cx.bind_array(&table)?);
            let mut index = shape::letters(shape.len());
            index[axis] = p.at(&[shape::letter(axis)]);
            let y = shape::access("y", shape::letters(shape.len()));
            cx.emit(value.dtype(), &extents, &format!("{y} := {}", x.at(&index)))
        })
    }

    /// The axes in another order: axis `k` of the result is axis `order[k]`.
    pub(crate) fn permuted(&mut self, value: &Value, order: &[usize]) -> Result<Value> {
        let extents = value.extents();
        let extents = Extents(order.iter().map(|&at| extents.0[at].clone()).collect());
        let mut index = vec![Affine::default(); order.len()];
        for (to, &from) in order.iter().enumerate() {
            index[from] = Affine::letter(to);
        }
        self.reindexed(value, &extents, &index)
    }

    /// Repeats axes of size 1, and adds axes in front, until the value has this shape.
    pub(crate) fn broadcast_to(&mut self, value: &Value, shape: impl Into<Extents>) -> Result<Value> {
        let extents = shape.into();
        if value.extents() == extents {
            return Ok(value.clone());
        }
        let missing = extents.0.len() - value.rank();
        let index = |(at, &size): (usize, &usize)| match size {
            1 => Affine::default(),
            _ => Affine::letter(at + missing),
        };
        let index: Vec<Affine> = value.shape().iter().enumerate().map(index).collect();
        self.reindexed(value, &extents, &index)
    }
}
