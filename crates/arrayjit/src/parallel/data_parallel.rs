//! Training on several streams: each stream computes the gradient of different data, and one update follows
//! from the sum of the gradients.

use std::{
    borrow::Borrow,
    num::NonZero,
    sync::{Arc, Mutex, PoisonError},
};

use device_runtime::{Context, RunError};
use lowered_ir::ir::Symbol;
use tnode::TensorNode;

use super::{
    round_robin::round_robin,
    spread::broadcast,
    tree_sum::{MergeMethod, TreeSum},
};
use crate::{
    backend::Backend,
    compiled::Compiled,
    error::{Error, ParallelError},
    routine::Routine,
};

/// The routines of data-parallel training, and their nodes.
#[derive(Clone, Copy, Debug)]
pub struct DataParallelJob<'a> {
    /// Computes gradients from parameters and data; runs on every stream. Its static symbols choose the data
    /// of a call.
    pub gradient: &'a Compiled,
    /// Computes new parameters from summed gradients; runs on stream 0, and has no static symbols.
    pub update: &'a Compiled,
    /// The nodes that `gradient` writes and whose sums `update` reads: gradients, and the loss if it is of
    /// interest.
    pub summed: &'a [TensorNode],
    /// The nodes that `update` writes and `gradient` reads.
    pub parameters: &'a [TensorNode],
    /// How terms are transferred to the stream that sums them.
    pub merge_method: MergeMethod,
}

/// A job linked for several streams, of one device or several.
///
/// A round has three steps: every stream makes one call of the gradient; the gradients are summed on stream 0
/// by the tree of [`merge_tree`](super::merge_tree()); stream 0 updates the parameters, and all other streams
/// get copies. In the last round fewer streams may take part, and only their gradients are summed.
///
/// The bits of the results depend on the number of streams and on nothing else. The caller's thread does not
/// wait: rounds are tasks ordered by events, so streams are busy while the next rounds are being scheduled.
/// (Devices that cannot read each other's memory are an exception: values pass through the host then.)
///
/// ```
/// use arrayjit::{Backend, HostArray, TensorNode};
/// use arrayjit::parallel::{DataParallel, DataParallelJob, MergeMethod, replicate};
///
/// // The mean of ten numbers by gradient descent, in rounds of three streams.
/// let x = TensorNode::builder("x").dims([10]).build()?;
/// let mean = TensorNode::builder("mean").dims([]).build()?;
/// let slope = TensorNode::builder("slope").dims([]).build()?;
/// let backend = Backend::open("multicore")?;
/// let gradient = backend.compile("slope := mean - x[@i]", [&x, &mean, &slope])?;
/// let update = backend.compile("mean -= 0.05 * slope", [&mean, &slope])?;
///
/// let values: Vec<f32> = (1..=10).map(|i| i as f32).collect();
/// let first = backend
///     .context()?
///     .init_from_host(&x, &HostArray::from_slice(&values, [10])?)?
///     .init_from_host(&mean, &HostArray::from_slice(&[0f32], [])?)?;
/// let streams = [backend.new_stream()?, backend.new_stream()?];
/// let others = replicate(&first, &[mean.clone()], &streams)?;
/// let job = DataParallelJob {
///     gradient: &gradient,
///     update: &update,
///     summed: &[slope],
///     parameters: &[mean.clone()],
///     merge_method: MergeMethod::Streaming,
/// };
/// let descent = DataParallel::link(&backend, &job, &[&[first][..], &others].concat())?;
/// for _ in 0..20 {
///     descent.run(descent.all_bindings())?;
/// }
/// let found = descent.context().to_host(&mean)?.item()?;
/// assert!((found - 5.5).abs() < 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Calls of several threads take turns, in any order.
#[derive(Clone, Debug)]
pub struct DataParallel {
    gradients: Vec<Routine>,
    contexts: Vec<Context>,
    sum: TreeSum,
    update: Routine,
    parameters: Vec<TensorNode>,
    /// Held during a call, whose rounds are several runs and transfers.
    running: Arc<Mutex<()>>,
}

impl DataParallel {
    /// Links a job for one context per stream. The first context has all nodes of `update`. Every context has
    /// its own copy of the parameters (see [`replicate`](super::replicate())), and the data or a way to share
    /// it.
    ///
    /// # Errors
    ///
    /// No contexts; a node that a context lacks; a node to be summed that two contexts share; a kernel that
    /// the backend rejects; a failed allocation.
    pub fn link(
        backend: &Backend,
        job: &DataParallelJob<'_>,
        contexts: &[Context],
    ) -> Result<DataParallel, Error> {
        let gradients = contexts.iter().map(|context| job.gradient.link(context));
        let gradients: Vec<Routine> = gradients.collect::<Result<_, _>>()?;
        let mut contexts: Vec<Context> = gradients.iter().map(|routine| routine.context().clone()).collect();
        let first = contexts.first_mut().ok_or(ParallelError::NoContexts)?;
        let update = job.update.link(first)?;
        *first = update.context().clone();
        let sum = TreeSum::link(backend, &contexts, job.summed, job.merge_method)?;
        let (parameters, running) = (job.parameters.to_vec(), Arc::default());
        Ok(DataParallel { gradients, contexts, sum, update, parameters, running })
    }

    /// Schedules a call of the gradient for each item, in turn: the first on stream 0, the next on stream 1,
    /// and so on. After each round an update is scheduled. An item has the values of the gradient's static
    /// symbols.
    ///
    /// # Errors
    ///
    /// Bindings out of range; [`RunError::Poisoned`] if something failed before; a device error. Nothing is
    /// scheduled after the first error.
    pub fn run<B: Borrow<[i64]>>(&self, calls: impl IntoIterator<Item = B>) -> Result<(), RunError> {
        let Some(streams) = NonZero::new(self.gradients.len()) else { return Ok(()) };
        let _running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let call = |stream: usize, bindings: B| self.gradients[stream].run(bindings.borrow()).map(drop);
        round_robin(streams, calls, call, |streams| self.step(streams))
    }

    /// The gradient's static symbols, in the order of the values that [`DataParallel::run`] takes.
    pub fn bindings(&self) -> &[Symbol] {
        self.gradients.first().map_or(&[], Routine::bindings)
    }

    /// Every combination of values of the gradient's static symbols; the first varies slowest.
    pub fn all_bindings(&self) -> impl Iterator<Item = Vec<i64>> + use<> {
        self.gradients.first().map(Routine::all_bindings).into_iter().flatten()
    }

    /// The number of linked streams, one for each context of [`DataParallel::link`].
    pub fn streams(&self) -> usize {
        self.contexts.len()
    }

    /// The context of stream 0, which contains all results.
    pub fn context(&self) -> &Context {
        &self.contexts[0]
    }

    /// The contexts in the order of the streams; the first one contains all results.
    pub fn contexts(&self) -> &[Context] {
        &self.contexts
    }

    /// Ends a round in which the first `streams` streams took part: sum, update, broadcast.
    fn step(&self, streams: usize) -> Result<(), RunError> {
        self.sum.merge(streams)?;
        self.update.run(&[])?;
        broadcast(&self.contexts, &self.parameters)
    }
}
