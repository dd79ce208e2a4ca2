//! Functions over batches: the statements of a function for one example, with one more axis.
//!
//! The function is called once, with tensors that stand for one example. Each of its statements whose result
//! depends on the example gets one more product axis, the outermost, over all examples, and the result gets
//! one more axis, the first. Other statements stay as they are. So each element is computed from the same
//! values in the same order as by a call for its example alone.

use std::collections::{BTreeMap, BTreeSet};

use arrayjit::{
    MemoryMode, TensorNode, TensorNodeError,
    assign::{
        Accum, AccumOp, CustomGradient, FetchOp, Operand, Origin, ProgramStep, Rhs, ScanEnd, all_steps,
        nodes_mut, read_whole, written,
    },
    indexing::Projections,
};
use tnode::RunSizes;

use super::{Graph, fail_in};
use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand},
    shape::{axis_at, letters},
    tensor::Tensor,
};

impl Graph {
    /// The results of a function for each element of an axis of its inputs, stacked along a new first axis.
    /// Each input has the axis next to it, and the axes have the same size. The function is called once, with
    /// tensors without these axes, and may mention other tensors and parameters, which all calls share.
    ///
    /// Each element is computed as by a call for it alone, with the same bits if the numeric class is
    /// [`Strict`](crate::NumericClass::Strict). Random numbers are the same for all elements. Gradients go
    /// through the results, and may be taken in the function: here, one gradient for each example of a batch.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, Init, ModelState, Params};
    ///
    /// let params = Params::new(1);
    /// let w = params.parameter("w", [2], Init::ONES)?;
    /// let graph = Graph::new();
    /// let x = graph.input("x", [3, 2], DType::F32)?;
    /// let [gradients] = graph.vmap([(&x, 0)], |[x]| {
    ///     let loss = x.mul(&w)?.sum(..)?.square()?;
    ///     Ok([graph.gradients(&loss, &[&w])?.remove(0)])
    /// })?;
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let x = HostArray::from_slice(&[1f32, 0.0, 0.0, 2.0, 1.0, 1.0], [3, 2])?;
    /// let results = graph.compile(&weights, &[&gradients])?.run(&[("x", &x)])?;
    /// assert_eq!(results[0].values(), [2.0, 0.0, 0.0, 8.0, 4.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An axis that an input does not have, or of another size than that of the first input; an error of the
    /// function; a statement of the function that has no form for several examples: one that stores a value
    /// of an example in a parameter or buffer, and a loop that an example ends.
    #[track_caller]
    pub fn vmap<const N: usize, const M: usize>(
        &self,
        inputs: [(&dyn TensorOperand, isize); N],
        function: impl FnOnce([Tensor; N]) -> Result<[Tensor; M]>,
    ) -> Result<[Tensor; M]> {
        let call = Call::new("vmap");
        let arguments = inputs.map(|(input, axis)| (input.argument(), axis));
        self.check_graph(call, arguments.iter().map(|(argument, _)| *argument))?;
        let count = self.mapped_size(call, &arguments)?;
        let mut mapping = Mapping { count, nodes: BTreeMap::new(), fixed: BTreeSet::new() };
        let mut examples = Vec::new();
        for &(argument, axis) in &arguments {
            let (example, all) = self.mapped_input(call, argument, axis)?;
            mapping.nodes.insert(example.node().clone(), all.node().clone());
            examples.push(example);
        }

        let scope = self.open_function(call, &examples)?;
        let results = function(examples.try_into().map_err(|_| self.fail(call, no_input()))?)?;
        self.check_graph(call, results.iter().map(Argument::Tensor))?;
        let mut steps = scope.close();
        mapping.fixed = self.parameters().iter().map(|parameter| parameter.node().clone()).collect();
        mapping.enter(&steps).map_err(|error| self.fail(call, error))?;
        mapping.map(&mut steps).map_err(|error| self.fail(call, error))?;

        let mut state = self.state();
        state.scans.check_thread().map_err(|error| fail_in(&state, call, error))?;
        state.program.steps.extend(steps);
        let nodes: Vec<TensorNode> =
            results.iter().filter_map(|result| mapping.nodes.get(result.node())).cloned().collect();
        let inputs: Vec<_> = arguments.iter().map(|(argument, _)| ("x", *argument)).collect();
        state.record(call, &inputs, &nodes);
        drop(state);
        let mut all = Vec::new();
        for result in &results {
            all.push(match mapping.nodes.get(result.node()) {
                Some(node) => {
                    Tensor::new(self.clone(), node.clone()).map_err(|error| self.fail(call, error))?
                }
                None => {
                    self.state().scans.keep(result.node());
                    self.repeated(call, result, count)?
                }
            });
        }
        all.try_into().map_err(|_| self.fail(call, no_input()))
    }

    /// The size of the mapped axes.
    fn mapped_size<const N: usize>(&self, call: Call, inputs: &[(Argument<'_>, isize); N]) -> Result<usize> {
        let mut count = None;
        for (argument, axis) in inputs {
            let (shape, what) = (argument.shape(), argument.name());
            let Some(node) = argument.node() else {
                return Err(self.fail(call, misfit("inputs", what, "a tensor or a parameter")));
            };
            let axis = axis_at(*axis, shape).map_err(|error| self.fail(call, error))?;
            let expected = match (count, shape[axis]) {
                _ if node.run_size(axis).is_some() => format!("a constant size on axis {axis}"),
                (_, 0) => format!("elements on axis {axis}"),
                (Some(count), size) if size != count => {
                    format!("{count} elements on axis {axis}, as the first input has")
                }
                (_, size) => {
                    count = Some(size);
                    continue;
                }
            };
            return Err(self.fail(call, TensorError::Shape { what, found: shape.to_vec(), expected }));
        }
        count.ok_or_else(|| self.fail(call, no_input()))
    }

    /// A tensor that stands for one example of an input, and the input with the mapped axis as the first one.
    fn mapped_input(&self, call: Call, input: Argument<'_>, axis: isize) -> Result<(Tensor, Tensor)> {
        let axis = axis_at(axis, input.shape()).map_err(|error| self.fail(call, error))?;
        let to = letters(input.shape().len());
        let mut from = to.clone();
        let first = from.remove(0);
        from.insert(axis, first);
        let call = Call { op: "vmap_input", ..call };
        let all = self
            .result(call, &[("x", input)], |y| format!("{y}[{}] := x[{}]", to.join(","), from.join(",")))?;
        let node = all.node();
        let mut sizes: RunSizes = node.run_sizes().into();
        if !sizes.is_empty() {
            sizes.remove(0);
        }
        // Errors of the function name the input.
        let label = input.node().unwrap_or(node).label().to_vec();
        let example = TensorNode::builder(label).dims(all.shape()[1..].iter().copied());
        let example = example.run_sizes(sizes).dtype(all.dtype()).build();
        let example = example.and_then(|node| Tensor::new(self.clone(), node));
        let example = example.map_err(|error| self.fail(call, error))?;
        self.state().parts.add_result(call, all.node(), example.node());
        Ok((example, all))
    }

    /// A result that does not depend on the example, once for each.
    fn repeated(&self, call: Call, result: &Tensor, count: usize) -> Result<Tensor> {
        let to = letters(result.rank() + 1);
        self.result(call, &[("x", Argument::Tensor(result))], |y| {
            format!("{y}[{}] := x[{}] where {} < {count}", to.join(","), to[1..].join(","), to[0])
        })
    }
}

/// The nodes that depend on the example, and the nodes for all examples in place of them.
struct Mapping {
    count: usize,
    nodes: BTreeMap<TensorNode, TensorNode>,
    /// The parameters and buffers, which cannot depend on it.
    fixed: BTreeSet<TensorNode>,
}

impl Mapping {
    /// Finds the nodes that depend on the example.
    fn enter(&mut self, steps: &[ProgramStep]) -> Result<()> {
        loop {
            let known = self.nodes.len();
            for step in all_steps(steps) {
                if let ProgramStep::CustomGradient(custom) = step {
                    self.enter_custom(custom)?;
                }
                let operands = step.accums().iter().flat_map(Accum::operands).filter_map(Operand::node);
                if operands.chain(read_whole(step)).any(|node| self.nodes.contains_key(node)) {
                    written(step).into_iter().try_for_each(|node| self.enter_node(node))?;
                }
            }
            if self.nodes.len() == known {
                return Ok(());
            }
        }
    }

    fn enter_custom(&mut self, custom: &CustomGradient) -> Result<()> {
        let mut nodes = custom.read_nodes().into_iter().chain(&custom.outputs);
        if nodes.any(|node| self.nodes.contains_key(node)) {
            let gradients = custom.outputs.iter().chain(&custom.output_gradients);
            gradients.into_iter().try_for_each(|node| self.enter_node(node))?;
        }
        self.enter(&custom.steps)
    }

    fn enter_node(&mut self, node: &TensorNode) -> Result<()> {
        if self.nodes.contains_key(node) {
            return Ok(());
        }
        if self.fixed.contains(node) {
            return Err(no_form(&format!("one that stores values of an example in `{}`", node.name())));
        }
        if node.padding().is_some() || node.view().is_some() {
            return Err(no_form(&format!("one that writes {}, which has margins or is a view", node.name())));
        }
        let all = node_of_all(node, self.count)?;
        self.nodes.insert(node.clone(), all);
        Ok(())
    }

    /// Gives steps one more axis where their results depend on the example.
    fn map(&self, steps: &mut [ProgramStep]) -> Result<()> {
        steps.iter_mut().try_for_each(|step| self.map_step(step))
    }

    fn map_step(&self, step: &mut ProgramStep) -> Result<()> {
        let is_mapped = |node: &TensorNode| self.nodes.contains_key(node);
        match step {
            ProgramStep::Accum(accum) => self.map_accum(accum),
            ProgramStep::Concat(parts) => parts.iter_mut().for_each(|part| self.map_accum(part)),
            ProgramStep::Fetch { node, op, .. } => match op {
                FetchOp::Order { of, axis, .. } if is_mapped(of) => *axis += 1,
                FetchOp::EmbedDim { of, axis } if is_mapped(of) => *axis += 1,
                FetchOp::Constant(_) | FetchOp::ConstantBits(_) | FetchOp::EmbedSymbol(_) => {}
                _ if is_mapped(node) => return Err(no_form("a fill whose values depend on an example")),
                _ => {}
            },
            ProgramStep::Gradient { loss, .. } if is_mapped(loss) => {
                return Err(no_form("a gradient in a text"));
            }
            ProgramStep::CustomGradient(custom) => self.map_custom(custom)?,
            ProgramStep::Scan { end: Some(ScanEnd { node, .. }), .. } if is_mapped(node) => {
                return Err(no_form("a loop that an example ends"));
            }
            ProgramStep::Block { steps, .. } | ProgramStep::Scan { steps, .. } => return self.map(steps),
            ProgramStep::Gradient { .. } | ProgramStep::Detach(_) | ProgramStep::Remark(_) => {}
        }
        for node in nodes_mut(std::slice::from_mut(step)) {
            if let Some(all) = self.nodes.get(node) {
                *node = all.clone();
            }
        }
        Ok(())
    }

    /// Gives the steps of a gradient one more axis. The gradient by an input that all examples share is the
    /// sum of theirs.
    fn map_custom(&self, custom: &mut CustomGradient) -> Result<()> {
        let CustomGradient { inputs, input_gradients, steps, .. } = custom;
        self.map(steps)?;
        for (input, gradient) in inputs.iter().zip(input_gradients) {
            let (to, from) = (self.nodes.contains_key(input), self.nodes.contains_key(gradient));
            if to == from {
                continue;
            }
            let like = TensorNode::builder(gradient.label().to_vec()).dims(gradient.dims()?);
            let like = like.run_sizes(gradient.run_sizes().into()).dtype(gradient.dtype()).build()?;
            let source = self.nodes.get(gradient).unwrap_or(gradient);
            let projections = Projections::pointwise(&gradient.dims()?, 1);
            let accum = Accum {
                init_neutral: from,
                op: if from { AccumOp::Add } else { AccumOp::Assign },
                lhs: if to { node_of_all(&like, self.count)? } else { like },
                rhs: Rhs::Copy(source.into()),
                computed: Vec::new(),
                projections: projections.with_outer_axis(self.count, to, &[from]),
                origin: Origin::default(),
            };
            *gradient = accum.lhs.clone();
            steps.push(ProgramStep::Accum(Box::new(accum)));
        }
        Ok(())
    }

    fn map_accum(&self, accum: &mut Accum) {
        if self.nodes.contains_key(&accum.lhs) {
            let is_mapped =
                |operand: &Operand| operand.node().is_some_and(|node| self.nodes.contains_key(node));
            let mapped: Vec<bool> = accum.operands().map(is_mapped).collect();
            accum.projections = accum.projections.with_outer_axis(self.count, true, &mapped);
        }
    }
}

/// A node like another one, with one more axis for all examples.
fn node_of_all(node: &TensorNode, count: usize) -> Result<TensorNode, TensorNodeError> {
    let mut sizes: RunSizes = node.run_sizes().into();
    if !sizes.is_empty() {
        sizes.insert(0, None);
    }
    let dims = [count].into_iter().chain(node.dims()?);
    let all = TensorNode::builder(node.label().to_vec()).dims(dims).run_sizes(sizes).dtype(node.dtype());
    let (all, mode) = (all.build()?, node.mode());
    if let Some(decision) = mode.chain().last().filter(|_| mode.known_virtual()) {
        all.update_memory_mode(MemoryMode::Virtual, decision.reason.clone())?;
    }
    Ok(all)
}

fn no_form(found: &str) -> TensorError {
    misfit("a statement of the function", found, "one that has a form for several examples")
}

fn no_input() -> TensorError {
    misfit("inputs", "none", "at least one")
}
