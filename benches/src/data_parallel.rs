//! A training step on several streams of one thread each, in turns with the same step on one stream with as
//! many threads.
//!
//! Each stream computes the gradients of its part of the batch; their sums update the parameters on the first
//! stream. The losses of both ways are compared before anything is timed.

use anyhow::{Context as _, Result, ensure};
use arrayjit::{
    Backend, Compiled, Context, HostArray, TensorNode,
    parallel::{DataParallel, DataParallelJob, MergeMethod, replicate},
};

use crate::{
    case::{Case, Node},
    cases,
    contest::{self, Sample},
    measure::{Effort, Measured, peer_time, summary},
    ours::LinkedCase,
    peers::Contestant,
};

/// The stable name of the case.
pub(crate) const NAME: &str = "gpt_train_streams";
/// The name of the other way in the table.
pub(crate) const ONE_STREAM: &str = "one-stream";

/// The windows of a batch, which streams divide.
pub(crate) const BATCH: usize = 8;

/// Whether the case can be measured on this number of threads.
pub(crate) fn divides(threads: usize) -> bool {
    threads > 1 && BATCH.is_multiple_of(threads)
}

/// The largest difference of the losses, relative to the loss.
const TOLERANCE: f64 = 1e-5;

/// A step of training, split into texts for several streams.
pub(crate) struct SplitStep {
    /// The step on one stream.
    pub(crate) whole: Case,
    /// Computes and keeps the gradients of a part of the batch.
    pub(crate) gradient: String,
    /// Updates the parameters.
    pub(crate) update: String,
    /// The names of the gradients.
    pub(crate) gradients: Vec<String>,
    /// The inputs of which each stream has a part, along the first axis.
    pub(crate) data: Vec<Node>,
    /// The parameters, of which each stream has a copy.
    pub(crate) parameters: Vec<Node>,
    /// The state of the optimizer.
    pub(crate) state: Vec<Node>,
}

/// Measures the case on as many streams as the backend has threads.
///
/// # Errors
///
/// An error of the backend, and losses that differ.
pub(crate) fn measure(backend: &Backend, threads: usize, effort: Effort) -> Result<Measured> {
    let split = cases::split_step(threads);
    let inputs: Vec<Option<HostArray>> = split.whole.nodes.iter().map(Node::array).collect::<Result<_>>()?;
    let mut settings = backend.settings().clone();
    settings.threads = 1;
    let several =
        TrainingStreams::prepare(&Backend::open_with(&settings.backend, &settings)?, &split, threads)?;
    let one = LinkedCase::prepare(backend, &split.whole, &inputs)?;
    one.run_once()?;
    several.run_round()?;
    let outputs = one.outputs()?;
    let expected = outputs.last().context("the step has no loss")?.item()?;
    let found = several.loss()?;
    ensure!(
        ((found - expected) / expected).abs() <= TOLERANCE,
        "case `{NAME}`: the loss is {found} on {threads} streams, and {expected} on one"
    );
    let mut contestants: [Box<dyn Contestant>; 2] = [Box::new(several), Box::new(one)];
    let mut times = contest::times(&mut contestants, threads, Sample::HOST, effort)?;
    let one_stream = peer_time(&times[0], &times[1], None);
    times[0].sort_by(f64::total_cmp);
    let mut measured = summary(&times[0], &split.whole.work(), 0.0);
    measured.peers.insert(ONE_STREAM.to_owned(), one_stream);
    Ok(measured)
}

/// Training, linked for several streams.
struct TrainingStreams {
    steps: DataParallel,
    loss: TensorNode,
}

impl TrainingStreams {
    fn prepare(backend: &Backend, split: &SplitStep, streams: usize) -> Result<TrainingStreams> {
        let built = |nodes: &[Node]| nodes.iter().map(Node::build).collect::<Result<Vec<TensorNode>>>();
        let parameters = built(&split.parameters)?;
        let data: Vec<TensorNode> =
            split.data.iter().map(|node| part_of(node, streams).build()).collect::<Result<_>>()?;
        let loss = Node::written("loss", &[]).build()?;
        let nodes = [&data[..], &parameters, std::slice::from_ref(&loss)].concat();
        let gradient = backend.compile_named("gradient", &split.gradient, &nodes)?;
        let gradients = kept(&gradient, &split.gradients)?;
        let state = built(&split.state)?;
        let nodes = [&parameters[..], &state, &gradients].concat();
        let update = backend.compile_named("update", &split.update, &nodes)?;

        let mut first = backend.context()?;
        for (node, case) in parameters.iter().chain(&state).zip(split.parameters.iter().chain(&split.state)) {
            if let Some(array) = case.array()? {
                first = first.init_from_host(node, &array)?;
            }
        }
        let mut contexts = vec![first];
        for _ in 1..streams {
            contexts.extend(replicate(&contexts[0], &parameters, &[backend.new_stream()?])?);
        }
        let contexts: Vec<Context> = contexts
            .into_iter()
            .enumerate()
            .map(|(stream, context)| with_part(context, &split.data, &data, [stream, streams]))
            .collect::<Result<_>>()?;
        let job = DataParallelJob {
            gradient: &gradient,
            update: &update,
            summed: &[&gradients[..], std::slice::from_ref(&loss)].concat(),
            parameters: &parameters,
            merge_method: MergeMethod::default(),
        };
        Ok(TrainingStreams { steps: DataParallel::link(backend, &job, &contexts)?, loss })
    }

    /// Schedules a step.
    fn step(&self) -> Result<()> {
        Ok(self.steps.run(vec![[0_i64; 0]; self.steps.streams()])?)
    }

    /// Waits for all steps.
    fn wait(&self) -> Result<()> {
        self.steps.contexts().iter().try_for_each(|context| Ok(context.stream().sync()?))
    }

    fn run_round(&self) -> Result<()> {
        self.step()?;
        self.wait()
    }

    /// The loss of the latest step.
    fn loss(&self) -> Result<f64> {
        Ok(self.steps.context().to_host(&self.loss)?.item()?)
    }
}

impl Contestant for TrainingStreams {
    fn run(&mut self, count: usize) -> Result<f64> {
        self.run_round()?;
        let start = std::time::Instant::now();
        (0..count).try_for_each(|_| self.step())?;
        self.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// The nodes of these names, which a program keeps.
fn kept(compiled: &Compiled, names: &[String]) -> Result<Vec<TensorNode>> {
    names.iter().map(|name| Ok(compiled.node(name)?.clone())).collect()
}

/// A node with a part of the rows.
fn part_of(node: &Node, streams: usize) -> Node {
    let mut dims = node.dims.clone();
    dims[0] /= streams;
    Node { dims, ..node.clone() }
}

/// A context with a stream's part of the data.
fn with_part(
    context: Context,
    data: &[Node],
    nodes: &[TensorNode],
    [stream, streams]: [usize; 2],
) -> Result<Context> {
    data.iter().zip(nodes).try_fold(context, |context, (case, node)| {
        let Some(all) = case.array()? else { return Ok(context) };
        let bytes = all.size_bytes() / streams;
        let part = all.bytes()[stream * bytes..][..bytes].to_vec();
        let dims = part_of(case, streams).dims;
        Ok(context.init_from_host(node, &HostArray::from_bytes(case.dtype, dims, &part)?)?)
    })
}
