//! A training step of several routines: the gradient, in stages, and then the update.
//!
//! Over ranks, the gradient is split into [buckets](split_gradient): while the gradients of one stage are
//! summed over the ranks, the next stage runs. A session that accumulates gradients runs all stages once for
//! each micro-batch. They add to sums, which begin at 0 with the first micro-batch and are exchanged after
//! the last one. The update divides the sums by the number of micro-batches times ranks.

use std::collections::BTreeMap;

use arrayjit::{Compiled, Context, DType, TensorNode, profile::Profile};
use arrayjit_collectives::{
    BucketSizes, CollectiveError, GradientBucket, Group, Reduction, by_type, split_gradient,
};

use crate::{
    error::{Call, Result, TensorError},
    executable::{Executable, with_zeros},
    graph::Graph,
    model_state::ModelState,
    operand::{Argument, TensorOperand, number},
    optim::norm_of_squares,
    parameter::{Init, Parameter, Params},
    session::{
        BatchValues, Ranks, SessionCore,
        graphs::{BuiltGraph, store_rows},
    },
    shape::whole,
    tensor::Tensor,
};

/// The symbol that has the position of a micro-batch in its batch.
const MICRO_BATCH: &str = "micro_batch";

/// The routines of a step, and the exchanges between them.
pub(super) struct StagedStep {
    ranks: Option<Ranks>,
    weights: ModelState,
    stages: Vec<GradientStage>,
    /// The sums of squares of the gradients that this rank has, with their node; if a sharded state needs the
    /// norm of all gradients.
    squares: Option<(Executable, TensorNode)>,
    update: Executable,
    /// The parameters that each rank has updated, if the state is sharded.
    updated: Option<Vec<Vec<TensorNode>>>,
}

/// A part of the gradient, and the exchanges after it.
struct GradientStage {
    executable: Executable,
    /// The nodes that all ranks get, by type.
    summed: Vec<Vec<TensorNode>>,
    /// The gradients that each rank gets, by type; none unless the state is sharded.
    scattered: Vec<Vec<Vec<TensorNode>>>,
}

impl StagedStep {
    /// Starts a step, given the micro-batches, which have numbers from `first` on. No other run over the
    /// weights comes between its routines.
    pub(super) fn start(
        &self,
        batches: &[BatchValues],
        (first, symbols): (u64, &[(&str, i64)]),
    ) -> Result<()> {
        if let Some(stage) = self.stages.first() {
            batches.iter().try_for_each(|batch| stage.executable.check_batch(batch))?;
        }
        let _order = self.weights.order(true);
        for (at, batch) in batches.iter().enumerate() {
            let is_last = at + 1 == batches.len();
            let symbols = [("step", first as i64 + at as i64), (MICRO_BATCH, at as i64)];
            for (number, stage) in self.stages.iter().enumerate() {
                stage.executable.start_in_order((number == 0).then_some(batch), &symbols)?;
                if let Some(ranks) = self.ranks.as_ref().filter(|_| is_last) {
                    stage.exchange(&**ranks.group(), self.context())?;
                }
            }
        }
        if let (Some((executable, squares)), Some(ranks)) = (&self.squares, &self.ranks) {
            executable.start_in_order(None, symbols)?;
            ranks.group().all_reduce(self.context(), std::slice::from_ref(squares), Reduction::Sum)?;
        }
        self.update.start_in_order(None, symbols)?;
        if let (Some(updated), Some(ranks)) = (&self.updated, &self.ranks) {
            ranks.group().all_gather_nodes(self.context(), updated)?;
        }
        Ok(())
    }

    /// The context with the weights, the inputs and the metrics.
    pub(super) fn context(&self) -> &Context {
        self.update.context()
    }

    /// The profiles of the routines, in their order.
    pub(super) fn profiles(&self) -> Vec<Profile> {
        let stages = self.stages.iter().map(|stage| &stage.executable);
        let all = stages.chain(self.squares.iter().map(|(squares, _)| squares)).chain([&self.update]);
        all.filter_map(|executable| executable.routine().profile()).collect()
    }
}

impl GradientStage {
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
    ranks: Option<&'a Ranks>,
    /// The graph of the gradients.
    graph: Graph,
    /// The gradients, or their sums over the micro-batches.
    gradients: Vec<(Parameter, Tensor)>,
    /// The arrays of these sums, if there are several micro-batches.
    sums: Vec<Parameter>,
    /// The owner of each gradient, if the state is sharded.
    owners: Option<Vec<usize>>,
    /// The sums of the loss and the metrics over the micro-batches, which are summed over the ranks in place.
    reported: Parameter,
    call: Call,
}

impl SessionCore {
    /// Compiles a step of several routines. It stores the means of the loss and the metrics in `rows`.
    pub(super) fn compile_stages(&self, built: BuiltGraph, rows: &Parameter) -> Result<StagedStep> {
        let builder = StepBuilder::new(self, built, rows.dtype())?;
        let squares = builder.owners.is_some().then(|| builder.squares()).transpose()?;
        let update = builder.update(rows, squares.as_ref().map(|(_, squares)| squares))?;

        // The graphs are complete, so the weights have all arrays of the optimizer.
        let own = [rows, &builder.reported].into_iter().chain(&builder.sums);
        let own = own.chain(squares.iter().map(|(_, squares)| squares));
        let context = with_zeros(self.weights.context()?, own.map(Parameter::node))?;
        let (stages, mut context) = builder.stages(context)?;
        let mut link = |graph: &Graph, name| -> Result<Executable> {
            let executable = builder.linked(graph, name, &context)?;
            context = executable.context().clone();
            Ok(executable)
        };
        let squares = match squares {
            Some((graph, squares)) => Some((link(&graph, "gradient_squares")?, squares.node().clone())),
            None => None,
        };
        let update = link(&update, "update")?;
        let (ranks, weights, updated) = (self.ranks.clone(), self.weights.clone(), builder.updated());
        Ok(StagedStep { ranks, weights, stages, squares, update, updated })
    }
}

impl<'a> StepBuilder<'a> {
    fn new(core: &'a SessionCore, built: BuiltGraph, dtype: DType) -> Result<StepBuilder<'a>> {
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
        let gradients = core.optimizer.gradients(call, &loss, &by, &core.state)?;
        let gradients: Vec<Tensor> = gradients.into_iter().map(|(gradient, _)| gradient).collect();
        let owned = core.owned_parameters();
        let owner = |parameter: &Parameter, owned: &[(Parameter, usize)]| {
            owned.iter().find(|(other, _)| other == parameter).map_or(0, |(_, owner)| *owner)
        };
        let owners = owned.map(|owned| parameters.iter().map(|of| owner(of, &owned)).collect());

        let loss = loss.reshape(&[])?;
        let columns: Vec<&Tensor> =
            [&loss].into_iter().chain(metrics.iter().map(|(_, value)| value)).collect();
        let reported = Params::new(0).with_dtype(dtype).buffer("reported", [columns.len()], Init::ZEROS)?;
        let ranks = core.ranks.as_ref();
        let mut builder = StepBuilder {
            core,
            ranks,
            graph,
            gradients: Vec::new(),
            sums: Vec::new(),
            owners,
            reported,
            call,
        };
        for (parameter, gradient) in parameters.into_iter().zip(gradients) {
            let gradient = builder.summed(&parameter, gradient)?;
            builder.gradients.push((parameter, gradient));
        }
        for (at, column) in columns.into_iter().enumerate() {
            builder.accumulate(&builder.reported, &format!("[{at}]"), column)?;
        }
        Ok(builder)
    }

    /// The sum of a gradient over the micro-batches: the gradient itself if there is one of them.
    fn summed(&mut self, parameter: &Parameter, gradient: Tensor) -> Result<Tensor> {
        if self.core.micro_batches == 1 {
            return Ok(gradient);
        }
        let name = format!("gradient_sum.{}", parameter.name());
        let sums = Params::new(0).with_dtype(gradient.dtype());
        let sum = sums.buffer(&name, gradient.shape().iter().copied(), Init::ZEROS)?;
        self.accumulate(&sum, &whole("", gradient.rank()), &gradient)?;
        let tensor = self.graph.tensor_of(&sum)?;
        self.sums.push(sum);
        Ok(tensor)
    }

    /// Adds a value to the elements at `indices` of a sum, which begins with the first micro-batch.
    fn accumulate(&self, sum: &Parameter, indices: &str, value: &Tensor) -> Result<()> {
        let inputs = [("sum", Argument::Parameter(sum)), ("x", Argument::Tensor(value))];
        let (dtype, count) = (sum.dtype(), self.core.micro_batches);
        let value = format!("{dtype}({})", whole("x", value.rank()));
        let text = match count {
            1 => format!("sum{indices} := {value}"),
            _ => {
                let before = format!("where(@{MICRO_BATCH} > 0, sum{indices}, 0)");
                format!("sum{indices} := {before} + {value} where @{MICRO_BATCH} < {count}")
            }
        };
        self.graph.emit(self.call, &text, &inputs, &[]).map(drop)
    }

    /// The number of gradients, of micro-batches and ranks, that a sum has.
    fn count(&self) -> usize {
        self.core.micro_batches * self.ranks.map_or(1, |ranks| ranks.group().size())
    }

    /// The stages of the gradient, linked, and the context with their arrays.
    fn stages(&self, context: Context) -> Result<(Vec<GradientStage>, Context)> {
        let context = self.graph.bound(context)?;
        let gradients = self.gradients.iter().map(|(_, gradient)| gradient.node().clone());
        let summed: Vec<TensorNode> = [self.reported.node().clone()].into_iter().chain(gradients).collect();
        let program = self.graph.program().named("gradient");
        let whole = BucketSizes { first: usize::MAX, others: usize::MAX };
        let buckets = split_gradient(&program, &summed, self.ranks.map_or(whole, Ranks::bucket_sizes))?;
        let backend = self.core.weights.backend();
        let compile = |bucket: &GradientBucket| backend.compile_assignments(&bucket.program);
        let compiled: Vec<Compiled> = buckets.iter().map(compile).collect::<Result<_, _>>()?;

        let inputs = self.graph.inputs();
        let is_used = |node: &TensorNode| compiled.iter().any(|stage| stage.nodes().contains(node));
        let used = inputs.iter().map(|(_, node)| node).filter(|node| is_used(node));
        let mut context = with_zeros(context, used)?;
        let mut stages: Vec<GradientStage> = Vec::new();
        for (compiled, bucket) in compiled.into_iter().zip(buckets) {
            let inputs = if stages.is_empty() { inputs.iter().cloned().collect() } else { BTreeMap::new() };
            let checks = if stages.is_empty() { self.graph.position_checks() } else { Vec::new() };
            let executable = Executable::link(&self.core.weights, compiled, &context, inputs, Vec::new())?;
            let executable = executable.checking(checks);
            context = executable.context().clone();
            stages.push(self.stage(executable, bucket.summed));
        }
        Ok((stages, context))
    }

    /// A stage with the exchanges of its bucket: gradients of a sharded state go to their owners.
    fn stage(&self, executable: Executable, bucket: Vec<TensorNode>) -> GradientStage {
        let (Some(owners), Some(ranks)) = (&self.owners, self.ranks) else {
            return GradientStage { executable, summed: by_type(&bucket), scattered: Vec::new() };
        };
        let owner = |node: &TensorNode| {
            let at = self.gradients.iter().position(|(_, gradient)| gradient.node() == node);
            at.map(|at| owners[at])
        };
        let (scattered, summed): (Vec<_>, Vec<_>) =
            bucket.into_iter().partition(|node| owner(node).is_some());
        let by_owner = |nodes: Vec<TensorNode>| {
            let mut parts = vec![Vec::new(); ranks.group().size()];
            nodes.into_iter().for_each(|node| parts[owner(&node).unwrap_or_default()].push(node));
            parts
        };
        let scattered = by_type(&scattered).into_iter().map(by_owner).collect();
        GradientStage { executable, summed: by_type(&summed), scattered }
    }

    /// Whether this rank updates the parameter at a position.
    fn is_own(&self, at: usize) -> bool {
        let rank = self.ranks.map(|ranks| ranks.group().rank());
        self.owners.as_ref().is_none_or(|owners| Some(owners[at]) == rank)
    }

    /// The mean of a gradient over the micro-batches and the ranks, from its sum.
    fn mean(&self, graph: &Graph, sum: &Tensor) -> Result<Tensor> {
        let sum =
            Tensor::new(graph.clone(), sum.node().clone()).map_err(|error| graph.fail(self.call, error))?;
        match self.count() {
            1 => Ok(sum),
            count => sum.mul(1.0 / count as f64),
        }
    }

    /// Statements that store the sum of squares of each own gradient, and 0 for the others, in an array. The
    /// sum over the ranks has them all, with the bits that one rank would compute.
    fn squares(&self) -> Result<(Graph, Parameter)> {
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
    fn update(&self, rows: &Parameter, squares: Option<&Parameter>) -> Result<Graph> {
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

    /// The mean of the loss or of a metric over the micro-batches and the ranks.
    fn mean_reported(&self, graph: &Graph, at: usize) -> Result<Tensor> {
        let factor = number(1.0 / self.count() as f64);
        let inputs = [("reported", Argument::Parameter(&self.reported))];
        graph.result(self.call, &inputs, |y| format!("{y} := reported[{at}] * {factor}"))
    }

    fn norm_of_all(&self, graph: &Graph, squares: &Parameter) -> Result<Tensor> {
        let inputs = [("squares", Argument::Parameter(squares))];
        let one = |at| graph.result(self.call, &inputs, |y| format!("{y} := squares[{at}]"));
        let squares = (0..self.gradients.len()).map(one).collect::<Result<Vec<_>, _>>()?;
        norm_of_squares(self.call, graph, &squares)
    }

    fn linked(&self, graph: &Graph, name: &str, context: &Context) -> Result<Executable> {
        let context = graph.bound(context.clone())?;
        let weights = &self.core.weights;
        let compiled = weights.backend().compile_assignments(&graph.program().named(name));
        Executable::link(weights, compiled?, &context, BTreeMap::new(), Vec::new())
    }

    /// The parameters that each rank updates, if the state is sharded.
    fn updated(&self) -> Option<Vec<Vec<TensorNode>>> {
        let owners = self.owners.as_ref()?;
        let mut parts = vec![Vec::new(); self.ranks?.group().size()];
        for (owner, (parameter, _)) in owners.iter().zip(&self.gradients) {
            parts[*owner].push(parameter.node().clone());
        }
        Some(parts)
    }
}
