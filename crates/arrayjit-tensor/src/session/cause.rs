//! Finds the first value of a step or of an evaluation that is not finite.

use std::{collections::BTreeMap, fmt, panic::Location};

use arrayjit::{Context, HostArray, TensorNode};

use crate::{
    error::Result,
    executable::Executable,
    graph::Graph,
    model_state::ModelState,
    operand::TensorOperand,
    session::{
        BatchValues, SessionCore,
        graphs::{BuiltGraph, Mode},
        pending::PendingStep,
    },
    tensor::Tensor,
};

/// The first value of a step or of an evaluation that is not finite.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NonFiniteCause {
    /// The result of an operation whose operands are finite.
    Module {
        /// The path of the module, such as `encoder.0`; empty outside of modules.
        module: String,
        /// The name of the operation.
        operation: &'static str,
        /// The line that called the operation.
        at: &'static Location<'static>,
    },
    /// A parameter or buffer.
    Parameter(String),
    /// An input of the batch.
    Input(String),
    /// The gradient by a parameter; the loss is finite.
    Gradient(String),
    /// The values of this rank are finite; those of another rank are not.
    OtherRank,
    /// The values are finite when the step is evaluated again.
    Unknown,
}

impl fmt::Display for NonFiniteCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NonFiniteCause::Module { module, operation, at } if module.is_empty() => {
                write!(f, "the result of `{operation}` at {at} is not finite, but its operands are")
            }
            NonFiniteCause::Module { module, operation, at } => write!(
                f,
                "the result of `{operation}` in module `{module}` at {at} is not finite, but its operands are"
            ),
            NonFiniteCause::Parameter(name) => write!(f, "parameter `{name}` is not finite before the step"),
            NonFiniteCause::Input(name) => write!(f, "input `{name}` is not finite"),
            NonFiniteCause::Gradient(name) => {
                write!(f, "the loss is finite, but its gradient by `{name}` is not")
            }
            NonFiniteCause::OtherRank => {
                write!(f, "the values of this rank are finite, but those of another rank are not")
            }
            NonFiniteCause::Unknown => write!(f, "all values are finite when the step is evaluated again"),
        }
    }
}

impl SessionCore {
    /// Evaluates a step again, with the parameters that it began with, and finds the first value that is not
    /// finite.
    pub(super) fn step_cause(&self, pending: &PendingStep) -> Result<NonFiniteCause> {
        let batches = pending.values.micro_batches(self.micro_batches)?;
        let first = pending.step.number * batches.len() as u64;
        for (number, batch) in (first..).zip(&batches) {
            if let Some(cause) = self.micro_batch_cause(batch, number)? {
                return Ok(cause);
            }
        }
        let is_alone = self.ranks.as_ref().is_none_or(|ranks| ranks.group().size() == 1);
        Ok(if is_alone { NonFiniteCause::Unknown } else { NonFiniteCause::OtherRank })
    }

    /// The first value of a micro-batch that is not finite, if there is one.
    fn micro_batch_cause(&self, values: &BatchValues, number: u64) -> Result<Option<NonFiniteCause>> {
        let BuiltGraph { graph, loss, .. } = self.built(Mode::Training, values)?;
        let mut parameters = graph.parameters();
        parameters.retain(|parameter| parameter.is_trainable());
        let by: Vec<_> = parameters.iter().collect();
        let by: Vec<&dyn TensorOperand> =
            by.iter().map(|parameter| parameter as &dyn TensorOperand).collect();
        let gradients = graph.gradients(&loss, &by)?;
        let symbols = [("step", number as i64)];
        let executable = run_whole(&graph, &self.weights, &gradients, (values, &symbols))?;
        let mut search = FiniteSearch { context: executable.context(), known: BTreeMap::new() };
        if let Some(cause) = search.first_cause(&graph, &loss)? {
            return Ok(Some(cause));
        }
        for (parameter, gradient) in parameters.iter().zip(&gradients) {
            if !search.is_finite(gradient.node())? {
                return Ok(Some(NonFiniteCause::Gradient(parameter.name().into())));
            }
        }
        Ok(None)
    }

    /// Evaluates a batch again, and finds the first value that is not finite and that a metric depends on.
    pub(super) fn evaluation_cause(
        &self,
        values: &BatchValues,
        step: u64,
        metric: &str,
    ) -> Result<NonFiniteCause> {
        let BuiltGraph { graph, loss, metrics } = self.built(Mode::Evaluation, values)?;
        let named = metrics.into_iter().find(|(name, _)| name == metric);
        let metric = named.map_or(loss, |(_, metric)| metric);
        let executable = run_whole(&graph, &self.weights, &[], (values, &[("step", step as i64)]))?;
        let mut search = FiniteSearch { context: executable.context(), known: BTreeMap::new() };
        Ok(search.first_cause(&graph, &metric)?.unwrap_or(NonFiniteCause::Unknown))
    }
}

impl Graph {
    /// Compiles and runs the graph with the results of all operations kept, and finds the first value that is
    /// not finite and that `of` depends on; none if `of` is finite. It is for graphs without a session, which
    /// does this itself: build the graph anew, because a graph is compiled once, and without the update of an
    /// optimizer, which the run would carry out.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, Params, ModelState, session::NonFiniteCause};
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &Params::new(0))?;
    /// let graph = Graph::new();
    /// let x = graph.input("x", [2], DType::F32)?;
    /// let loss = x.log()?.mul(&x)?.sum(..)?;
    /// let values = HostArray::from_slice(&[1f32, -1.0], [2])?;
    /// let cause = graph.non_finite_cause(&weights, &loss, &[("x", &values)], &[])?;
    /// assert!(matches!(cause, Some(NonFiniteCause::Module { operation: "log", .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A graph that does not compile, or the errors of [`Executable::run_with`].
    pub fn non_finite_cause(
        &self,
        weights: &ModelState,
        of: &Tensor,
        inputs: &[(&str, &HostArray)],
        symbols: &[(&str, i64)],
    ) -> Result<Option<NonFiniteCause>> {
        let executable = run_whole(self, weights, &[], (&BatchValues::copied(inputs)?, symbols))?;
        FiniteSearch { context: executable.context(), known: BTreeMap::new() }.first_cause(self, of)
    }
}

/// Runs a graph, which keeps the results of all operations and some further tensors.
fn run_whole(
    graph: &Graph,
    weights: &ModelState,
    further: &[Tensor],
    (values, symbols): (&BatchValues, &[(&str, i64)]),
) -> Result<Executable> {
    let kept = graph.results().into_iter().map(|result| result.node);
    let kept = kept.chain(further.iter().map(|tensor| tensor.node().clone())).collect();
    let executable = graph.compile_with("check_finite", weights, kept, &[])?;
    executable.start_first(values, symbols)?;
    Ok(executable)
}

/// Reads values of a run, each node once.
struct FiniteSearch<'a> {
    context: &'a Context,
    known: BTreeMap<TensorNode, bool>,
}

impl FiniteSearch<'_> {
    /// Follows values that are not finite from the last of them, such as a loss, to the first.
    fn first_cause(&mut self, graph: &Graph, last: &Tensor) -> Result<Option<NonFiniteCause>> {
        let mut reached = Vec::new();
        if !self.is_finite(last.node())? {
            reached.push(last.node().clone());
        }
        let mut first = None;
        let results = graph.results();
        for result in results.iter().rev().filter(|result| !result.operands.is_empty()) {
            if !reached.contains(&result.node) {
                continue;
            }
            first = Some(NonFiniteCause::Module {
                module: result.module.clone(),
                operation: result.call.op,
                at: result.call.at,
            });
            for operand in &result.operands {
                if !reached.contains(operand) && !self.is_finite(operand)? {
                    reached.push(operand.clone());
                }
            }
        }
        let written = graph.program().written_nodes();
        let is_source = |node: &TensorNode| reached.contains(node) && !written.contains(node);
        if let Some((name, _)) = graph.inputs().into_iter().find(|(_, node)| is_source(node)) {
            return Ok(Some(NonFiniteCause::Input(name)));
        }
        let parameter = graph.parameters().into_iter().find(|parameter| is_source(parameter.node()));
        Ok(parameter.map(|parameter| NonFiniteCause::Parameter(parameter.name().into())).or(first))
    }

    fn is_finite(&mut self, node: &TensorNode) -> Result<bool> {
        if let Some(known) = self.known.get(node) {
            return Ok(*known);
        }
        let is_read = node.dtype().is_float() && self.context.contains(node);
        let is_finite =
            !is_read || self.context.to_host(node)?.values().iter().all(|value| value.is_finite());
        self.known.insert(node.clone(), is_finite);
        Ok(is_finite)
    }
}
