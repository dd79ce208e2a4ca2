//! The routines of a training step over ranks.

use std::collections::BTreeMap;

use arrayjit::{Compiled, Context, DType, TensorNode, profile::Profile};
use arrayjit_collectives::{CollectiveError, GradientBucket, Group, Reduction, by_type, split_gradient};

use super::Ranks;
use crate::{
    error::{Call, TensorError},
    executable::{Executable, with_zeros},
    graph::Graph,
    model_state::ModelState,
    operand::{Argument, TensorOperand, number},
    optim::norm_of_squares,
    parameter::{Init, Parameter, Params},
    session::{
        BatchValues, SessionCore,
        graphs::{BuiltGraph, store_rows},
    },
    tensor::Tensor,
};

/// The routines of a step, and the exchanges between them.
pub(in crate::session) struct RankStep {
    ranks: Ranks,
    weights: ModelState,
    parts: Vec<RankPart>,
    /// The sums of squares of the gradients that this rank has, with their node; if a sharded state needs the
    /// norm of all gradients.
    squares: Option<(Executable, TensorNode)>,
    update: Executable,
    /// The parameters that each rank has updated, if the state is sharded.
    updated: Option<Vec<Vec<TensorNode>>>,
}

/// A part of the gradient, and the exchanges after it.
struct RankPart {
    executable: Executable,
    /// The nodes that all ranks get, by type.
    summed: Vec<Vec<TensorNode>>,
    /// The gradients that each rank gets, by type; none unless the state is sharded.
    scattered: Vec<Vec<Vec<TensorNode>>>,
}

impl RankStep {
    /// Starts a step. No other run over the weights comes between its parts.
    pub(in crate::session) fn start(
        &self,
        values: &BatchValues,
        symbols: &[(&str, i64)],
    ) -> Result<(), TensorError> {
        let (group, context) = (&self.ranks.group, self.context());
        let _order = self.weights.order(true);
        for (at, part) in self.parts.iter().enumerate() {
            part.executable.start_in_order((at == 0).then_some(values), symbols)?;
            part.exchange(&**group, context)?;
        }
        if let Some((executable, squares)) = &self.squares {
            executable.start_in_order(None, symbols)?;
            group.all_reduce(context, std::slice::from_ref(squares), Reduction::Sum)?;
        }
        self.update.start_in_order(None, symbols)?;
        if let Some(updated) = &self.updated {
            group.all_gather_nodes(context, updated)?;
        }
        Ok(())
    }

    /// The context with the weights, the inputs and the metrics.
    pub(in crate::session) fn context(&self) -> &Context {
        self.update.context()
    }

    /// The profiles of the routines, in their order.
    pub(in crate::session) fn profiles(&self) -> Vec<Profile> {
        let parts = self.parts.iter().map(|part| &part.executable);
        let all = parts.chain(self.squares.iter().map(|(squares, _)| squares)).chain([&self.update]);
        all.filter_map(|executable| executable.routine().profile()).collect()
    }
}

impl RankPart {
    fn exchange(&self, group: &dyn Group, context: &Context) -> Result<(), CollectiveError> {
        for nodes in &self.summed {
            group.all_reduce(context, nodes, Reduction::Sum)?;
        }
        for parts in &self.scattered {
            group.reduce_scatter_nodes(context, parts, Reduction::Sum)?;
        }
        Ok(())
    }
}

/// A step that is being compiled.
struct StepBuilder<'a> {
    core: &'a SessionCore,
    ranks: &'a Ranks,
    /// The graph of the gradients.
    graph: Graph,
    gradients: Vec<(Parameter, Tensor)>,
    /// The owner of each gradient, if the state is sharded.
    owners: Option<Vec<usize>>,
    /// The loss and the metrics of this rank, which are summed over the ranks in place.
    reported: Parameter,
    call: Call,
}

impl SessionCore {
    /// Compiles a step over ranks. It stores the means of the loss and the metrics in `rows`.
    pub(in crate::session) fn compile_over_ranks(
        &self,
        ranks: &Ranks,
        built: BuiltGraph,
        rows: &Parameter,
    ) -> Result<RankStep, TensorError> {
        let builder = StepBuilder::new(self, ranks, built, rows.dtype())?;
        let squares = builder.owners.is_some().then(|| builder.squares()).transpose()?;
        let update = builder.update(rows, squares.as_ref().map(|(_, squares)| squares))?;

        // The graphs are complete, so the weights have all arrays of the optimizer.
        let own = [rows, &builder.reported].into_iter().chain(squares.iter().map(|(_, squares)| squares));
        let context = with_zeros(self.weights.context()?, own.map(Parameter::node))?;
        let (parts, mut context) = builder.parts(context)?;
        let mut link = |graph: &Graph, name| -> Result<Executable, TensorError> {
            let executable = builder.linked(graph, name, &context)?;
            context = executable.context().clone();
            Ok(executable)
        };
        let squares = match squares {
            Some((graph, squares)) => Some((link(&graph, "gradient_squares")?, squares.node().clone())),
            None => None,
        };
        let update = link(&update, "update")?;
        let (ranks, weights, updated) = (ranks.clone(), self.weights.clone(), builder.updated());
        Ok(RankStep { ranks, weights, parts, squares, update, updated })
    }
}

impl<'a> StepBuilder<'a> {
    fn new(
        core: &'a SessionCore,
        ranks: &'a Ranks,
        built: BuiltGraph,
        dtype: DType,
    ) -> Result<StepBuilder<'a>, TensorError> {
        let call = Call::new("session");
        let BuiltGraph { graph, loss, metrics } = built;
        let mut parameters = graph.parameters();
        parameters.retain(Parameter::is_trainable);
        if parameters.is_empty() {
            return Err(TensorError::NoParameters);
        }
        let by: Vec<_> = parameters.iter().collect();
        let by: Vec<&dyn TensorOperand> =
            by.iter().map(|parameter| parameter as &dyn TensorOperand).collect();
        let gradients = graph.gradients(&loss, &by)?;
        let gradients: Vec<_> = parameters.into_iter().zip(gradients).collect();
        let owned = core.owned_parameters();
        let owner = |parameter: &Parameter, owned: &[(Parameter, usize)]| {
            owned.iter().find(|(other, _)| other == parameter).map_or(0, |(_, owner)| *owner)
        };
        let owners = owned.map(|owned| gradients.iter().map(|(of, _)| owner(of, &owned)).collect());

        let loss = loss.reshape(&[])?;
        let columns: Vec<&Tensor> =
            [&loss].into_iter().chain(metrics.iter().map(|(_, value)| value)).collect();
        let reported = Params::new(0).with_dtype(dtype).buffer("reported", [columns.len()], Init::ZEROS)?;
        for (at, column) in columns.into_iter().enumerate() {
            let inputs = [("reported", Argument::Parameter(&reported)), ("x", Argument::Tensor(column))];
            graph.emit(call, &format!("reported[{at}] := {dtype}(x[])"), &inputs, &[])?;
        }
        Ok(StepBuilder { core, ranks, graph, gradients, owners, reported, call })
    }

    /// The parts of the gradient, linked, and the context with their arrays.
    fn parts(&self, context: Context) -> Result<(Vec<RankPart>, Context), TensorError> {
        let context = self.graph.bound(context)?;
        let gradients = self.gradients.iter().map(|(_, gradient)| gradient.node().clone());
        let summed: Vec<TensorNode> = [self.reported.node().clone()].into_iter().chain(gradients).collect();
        let program = self.graph.program().named("gradient");
        let buckets = split_gradient(&program, &summed, self.ranks.buckets)?;
        let backend = self.core.weights.backend();
        let compile = |bucket: &GradientBucket| backend.compile_assignments(&bucket.program);
        let compiled: Vec<Compiled> = buckets.iter().map(compile).collect::<Result<_, _>>()?;

        let inputs = self.graph.inputs();
        let is_used = |node: &TensorNode| compiled.iter().any(|part| part.nodes().contains(node));
        let used = inputs.iter().map(|(_, node)| node).filter(|node| is_used(node));
        let mut context = with_zeros(context, used)?;
        let mut parts: Vec<RankPart> = Vec::new();
        for (compiled, bucket) in compiled.into_iter().zip(buckets) {
            let inputs = if parts.is_empty() { inputs.iter().cloned().collect() } else { BTreeMap::new() };
            let checks = if parts.is_empty() { self.graph.position_checks() } else { Vec::new() };
            let executable = Executable::link(&self.core.weights, compiled, &context, inputs, Vec::new())?;
            let executable = executable.checking(checks);
            context = executable.context().clone();
            parts.push(self.part(executable, bucket.summed));
        }
        Ok((parts, context))
    }

    /// A part with the exchanges of its bucket: gradients of a sharded state go to their owners.
    fn part(&self, executable: Executable, bucket: Vec<TensorNode>) -> RankPart {
        let Some(owners) = &self.owners else {
            return RankPart { executable, summed: by_type(&bucket), scattered: Vec::new() };
        };
        let owner = |node: &TensorNode| {
            let at = self.gradients.iter().position(|(_, gradient)| gradient.node() == node);
            at.map(|at| owners[at])
        };
        let (scattered, summed): (Vec<_>, Vec<_>) =
            bucket.into_iter().partition(|node| owner(node).is_some());
        let by_owner = |nodes: Vec<TensorNode>| {
            let mut parts = vec![Vec::new(); self.ranks.group.size()];
            nodes.into_iter().for_each(|node| parts[owner(&node).unwrap_or_default()].push(node));
            parts
        };
        let scattered = by_type(&scattered).into_iter().map(by_owner).collect();
        RankPart { executable, summed: by_type(&summed), scattered }
    }

    /// Whether this rank updates the parameter at a position.
    fn is_own(&self, at: usize) -> bool {
        self.owners.as_ref().is_none_or(|owners| owners[at] == self.ranks.group.rank())
    }

    /// The mean of a gradient over the ranks, from its sum.
    fn mean(&self, graph: &Graph, sum: &Tensor) -> Result<Tensor, TensorError> {
        let sum =
            Tensor::new(graph.clone(), sum.node().clone()).map_err(|error| graph.fail(self.call, error))?;
        match self.ranks.group.size() {
            1 => Ok(sum),
            size => sum.mul(1.0 / size as f64),
        }
    }

    /// Statements that store the sum of squares of each own gradient, and 0 for the others, in an array. The
    /// sum over the ranks has them all, with the bits that one rank would compute.
    fn squares(&self) -> Result<(Graph, Parameter), TensorError> {
        let graph = Graph::new();
        let squares = Params::new(0).buffer("squares", [self.gradients.len()], Init::ZEROS)?;
        for (at, (_, gradient)) in self.gradients.iter().enumerate() {
            let mut inputs = vec![("squares", Argument::Parameter(&squares))];
            if !self.is_own(at) {
                graph.emit(self.call, &format!("squares[{at}] := 0"), &inputs, &[])?;
                continue;
            }
            let sum = self.core.optimizer.square_sum(self.call, &self.mean(&graph, gradient)?)?;
            inputs.push(("s", Argument::Tensor(&sum)));
            graph.emit(self.call, &format!("squares[{at}] := s[]"), &inputs, &[])?;
        }
        Ok((graph, squares))
    }

    /// Statements that update parameters and store the loss and the metrics.
    fn update(&self, rows: &Parameter, squares: Option<&Parameter>) -> Result<Graph, TensorError> {
        let (graph, call) = (Graph::new(), self.call);
        let columns = self.reported.shape().first().copied().unwrap_or_default();
        let columns = (0..columns).map(|at| self.mean_reported(&graph, at)).collect::<Result<Vec<_>, _>>()?;
        let mut gradients = Vec::new();
        for (at, (parameter, sum)) in self.gradients.iter().enumerate() {
            if self.is_own(at) {
                gradients.push((parameter.clone(), self.mean(&graph, sum)?));
            }
        }
        let norm = match squares {
            Some(squares) => self.norm_of_all(&graph, squares)?,
            None => {
                let gradients: Vec<Tensor> = gradients.iter().map(|(_, gradient)| gradient.clone()).collect();
                self.core.optimizer.global_norm(call, &graph, &gradients)?
            }
        };
        let is_finite =
            self.core.optimizer.apply(call, (&columns[0], &norm), &gradients, &self.core.state)?;
        store_rows(&graph, rows, &[columns, vec![is_finite]].concat())?;
        Ok(graph)
    }

    /// The mean of the loss or of a metric over the ranks.
    fn mean_reported(&self, graph: &Graph, at: usize) -> Result<Tensor, TensorError> {
        let factor = number(1.0 / self.ranks.group.size() as f64);
        let inputs = [("reported", Argument::Parameter(&self.reported))];
        graph.result(self.call, &inputs, |y| format!("{y} := reported[{at}] * {factor}"))
    }

    fn norm_of_all(&self, graph: &Graph, squares: &Parameter) -> Result<Tensor, TensorError> {
        let inputs = [("squares", Argument::Parameter(squares))];
        let one = |at| graph.result(self.call, &inputs, |y| format!("{y} := squares[{at}]"));
        let squares = (0..self.gradients.len()).map(one).collect::<Result<Vec<_>, _>>()?;
        norm_of_squares(self.call, graph, &squares)
    }

    fn linked(&self, graph: &Graph, name: &str, context: &Context) -> Result<Executable, TensorError> {
        let context = graph.bound(context.clone())?;
        let weights = &self.core.weights;
        let compiled = weights.backend().compile_assignments(&graph.program().named(name));
        Executable::link(weights, compiled?, &context, BTreeMap::new(), Vec::new())
    }

    /// The parameters that each rank updates, if the state is sharded.
    fn updated(&self) -> Option<Vec<Vec<TensorNode>>> {
        let owners = self.owners.as_ref()?;
        let mut parts = vec![Vec::new(); self.ranks.group.size()];
        for (owner, (parameter, _)) in owners.iter().zip(&self.gradients) {
            parts[*owner].push(parameter.node().clone());
        }
        Some(parts)
    }
}
