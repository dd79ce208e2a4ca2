//! Training: a session compiles the step of a model, runs it on batches, and saves it.
//!
//! A [`Session`] has a closure from a batch to the loss. It calls the closure once for each set of shapes and
//! types, adds the gradients and the update of an [`Optimizer`] to the graph, and compiles all of it as one
//! routine.
//!
//! **Metrics** do not stall the stream. Each routine has an array of 64 rows on the device; a step stores its
//! loss and metrics in one row, and [`StartedStep::metrics`] reads all rows at once. A session reads them
//! itself at the latest when 64 steps are unread.
//!
//! **A loss or a gradient that is not finite** changes no parameter (see [`optim`](crate::optim)), nor do the steps after
//! it. When the loss is read, the session evaluates the graph of that batch again, keeps the results of all
//! operations, and names the first one whose result is not finite although its operands are. This costs
//! nothing before. For it, a session keeps the batches of unread steps on the host.
//!
//! * An infinity that later operations remove, such as that of a mask before a softmax, is not reported.
//! * If the loss is finite and a gradient is not, such as that of a root at 0, the message names the
//!   parameter.
//! * [`Session::evaluate`] names the first cause of a loss or metric that is not finite in the same way.
//! * Buffers that a step writes, such as running statistics, are not guarded.

mod batch; // the inputs and metrics of a graph
mod batches; // rows of arrays in batches
mod cause; // the first value that is not finite
mod checkpoint; // files to resume from
mod fit; // steps over an iterator
mod gradient_check; // gradients against differences
mod graphs; // compiled graphs by shape
mod metrics; // values of steps, read later
mod pending; // steps whose metrics are unread
mod ranks; // training over ranks
mod staged_step; // steps of several routines
mod values; // the arrays of a batch

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use arrayjit::{HostArray, profile::Profile};

pub use self::{
    batch::Batch,
    batches::RowBatches,
    cause::NonFiniteCause,
    fit::{IntoControlFlow, Progress},
    gradient_check::gradient_check,
    metrics::{Metrics, StartedStep},
    ranks::Ranks,
    values::{BatchValues, IntoBatch},
};
use self::{
    graphs::{Build, EvaluationGraph, GraphCache, StepGraph},
    metrics::EvaluatedBatch,
    pending::{PendingStep, PendingSteps},
};
use crate::{
    error::{Call, Result, TensorError, misfit},
    model_state::ModelState,
    optim::{Optimizer, OptimizerState, UpdateRule},
    options::options,
    parameter::locked,
    tensor::Tensor,
};

/// Trains a model: the weights, an optimizer, and a closure from a batch to the loss.
///
/// A session may move between threads. Steps have an order, so a thread that makes one has the session to
/// itself. Several threads may [`evaluate`](Session::evaluate) at the same time, and any thread may wait for a
/// [`StartedStep`]; evaluations of new shapes are compiled beside others.
///
/// ```
/// use arrayjit_tensor::{AdamW, Backend, Batch, HostArray, Init, ModelState, Params, Session};
///
/// let params = Params::new(42);
/// let weight = params.parameter("weight", [1, 2], Init::kaiming_uniform(2, 1.0))?;
/// let weights = ModelState::new(&Backend::open("multicore")?, &params)?;
/// let mut session = Session::new(&weights, AdamW::new(0.1), move |batch: &Batch| {
///     let y = batch.input("x")?.einsum("n i, o i -> n o", &weight)?;
///     y.mse_loss(&batch.input("y")?)
/// })?;
/// let x = HostArray::from_slice(&[1f32, 0., 0., 1., 1., 1.], [3, 2])?;
/// let y = HostArray::from_slice(&[2f32, -1., 1.], [3, 1])?;
/// for _ in 0..200 {
///     session.step(&[("x", &x), ("y", &y)])?;
/// }
/// let loss = session.step(&[("x", &x), ("y", &y)])?.metrics()?.loss();
/// assert!(loss < 1e-3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    core: Arc<SessionCore>,
    progress_bar: bool,
}

/// The parts of a session that the handles of steps use too.
struct SessionCore {
    weights: ModelState,
    optimizer: Optimizer<Arc<dyn UpdateRule>>,
    state: OptimizerState,
    build: Build,
    checks_every_step: AtomicBool,
    steps: GraphCache<StepGraph>,
    evaluations: GraphCache<EvaluationGraph>,
    pending: Mutex<PendingSteps>,
    /// Held while the metrics of pending steps are read.
    settling: Mutex<()>,
    ranks: Option<Ranks>,
    /// The number of micro-batches that a batch is divided into.
    micro_batches: usize,
}

impl Session {
    /// A session whose closure computes the loss, a tensor of one element, from a batch. The closure is
    /// called once for each set of shapes and types of batches, for training and for evaluation.
    ///
    /// # Errors
    /// A model without trainable parameters.
    pub fn new<R: UpdateRule + 'static>(
        weights: &ModelState,
        optimizer: Optimizer<R>,
        build: impl Fn(&Batch) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<Session> {
        if weights.params().trainable().is_empty() {
            return Err(TensorError::NoParameters);
        }
        let core = SessionCore {
            weights: weights.clone(),
            optimizer: optimizer.shared(),
            state: OptimizerState::new(weights),
            build: Box::new(build),
            checks_every_step: AtomicBool::new(false),
            steps: GraphCache::default(),
            evaluations: GraphCache::default(),
            pending: Mutex::default(),
            settling: Mutex::default(),
            ranks: None,
            micro_batches: 1,
        };
        Ok(Session { core: Arc::new(core), progress_bar: true })
    }

    /// Keeps at most `count` compiled graphs for training and as many for evaluation, 16 by default; the
    /// least recently used is dropped.
    #[must_use]
    pub fn cached_graphs(self, count: usize) -> Session {
        self.core.steps.resize(count);
        self.core.evaluations.resize(count);
        self
    }

    /// Waits for each step before it returns from [`step`](Session::step), so that a loss or gradient that is
    /// not finite fails its own step and no later one. False by default, since the device then waits for the
    /// host.
    ///
    /// ```
    /// # use arrayjit_tensor::prelude::*;
    /// # let params = Params::new(1);
    /// # let w = params.parameter("w", [1], Init::ONES)?;
    /// # let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// # let loss = move |batch: &Batch| batch.input("x")?.mul(&w)?.sum(..);
    /// let session = Session::new(&weights, Sgd::new(0.1), loss)?;
    /// let mut session = session.check_every_step(true).cached_graphs(4);
    /// let x = HostArray::from_slice(&[f32::INFINITY], [1])?;
    /// let error = session.step(&[("x", &x)]).err().map(|error| error.to_string());
    /// assert_eq!(error.as_deref(), Some("the loss of step 0 is not finite: input `x` is not finite"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn check_every_step(self, checks: bool) -> Session {
        self.core.checks_every_step.store(checks, Ordering::Relaxed);
        self
    }

    /// Divides each batch into micro-batches of equal numbers of rows, and adds their gradients before the
    /// one update of a step. The device needs memory for the intermediate values of one micro-batch only, and
    /// for a second array beside each gradient.
    ///
    /// The loss, the metrics and the gradients of a step are the means over its micro-batches. For a loss
    /// that is a mean over rows, they are those of the whole batch up to rounding, and so are clipping,
    /// schedules, means of weights and checkpoints. They differ for values that depend on several rows, such
    /// as the statistics of batch normalization, and for a mean over the labels that are not ignored.
    ///
    /// The closure is called with a micro-batch, and the symbol `step` of its graph counts micro-batches, so
    /// random numbers differ from one to the next. All inputs have the same number of rows, or rank 0. Over
    /// [ranks](Session::over_ranks), the sums are exchanged once in each step, after the last micro-batch.
    ///
    /// ```
    /// # use arrayjit_tensor::prelude::*;
    /// # let params = Params::new(1);
    /// # let w = params.parameter("w", [], Init::ZEROS)?;
    /// # let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// # let parameter = w.clone();
    /// # let loss = move |batch: &Batch| batch.input("x")?.sub(&w)?.square()?.mean(..);
    /// let mut session = Session::new(&weights, Sgd::new(0.5), loss)?.accumulate(2)?;
    /// let x = HostArray::from_slice(&[1f32, 2., 3., 6.], [4])?; // two micro-batches of two rows
    /// assert_eq!(session.step(&[("x", &x)])?.metrics()?.loss(), 12.5);
    /// assert_eq!(weights.get(&parameter)?.values(), [3.0]); // the mean
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No micro-batch, or a session that has made steps. Afterwards, a step fails if the rows of its batch
    /// cannot be divided equally.
    #[track_caller]
    pub fn accumulate(mut self, micro_batches: usize) -> Result<Session> {
        if micro_batches == 0 {
            return Err(Call::new("accumulate").error("", misfit("micro_batches", "0", "at least 1")));
        }
        self.unbegun()?.micro_batches = micro_batches;
        Ok(self)
    }

    /// The parts of a session that has made no steps.
    fn unbegun(&mut self) -> Result<&mut SessionCore> {
        let steps = self.steps();
        Arc::get_mut(&mut self.core).filter(|_| steps == 0).ok_or(TensorError::Begun)
    }

    options! {
        /// Whether [`fit`](Session::fit) shows a progress bar on a standard output that is a terminal; true by
        /// default.
        progress_bar: bool => progress_bar;
    }

    /// Starts a step of training and returns without waiting for it. The inputs may change after the call.
    ///
    /// # Errors
    /// An error of the closure; an input that is missing, unknown or empty; a graph that does not compile; an
    /// error of the device; an earlier step whose loss or gradient was not finite.
    pub fn step(&mut self, inputs: &[(&str, &HostArray)]) -> Result<StartedStep> {
        self.step_by(BatchValues::copied(inputs)?)
    }

    /// [`step`](Session::step) of a batch that is passed by value, without a copy on the host.
    ///
    /// # Errors
    /// Fails like [`step`](Session::step).
    pub fn step_by(&mut self, batch: impl IntoBatch) -> Result<StartedStep> {
        Ok(self.start_step(batch.into_batch()?)?.0)
    }

    /// Starts a step, and returns the metrics that were read for it, of this step and of those before.
    fn start_step(&mut self, values: BatchValues) -> Result<(StartedStep, Vec<Metrics>)> {
        let is_full = locked(&self.core.pending).is_full();
        let mut read = if is_full { self.core.settle()? } else { Vec::new() };
        let batches = values.micro_batches(self.core.micro_batches)?;
        let graph = self.core.step_graph(batches.first().unwrap_or(&values))?;
        let number = self.steps();
        let run = graph.start(&batches, number).map_err(|error| self.core.rank_failure().unwrap_or(error))?;
        let step = StartedStep { core: self.core.clone(), graph, run, number };
        locked(&self.core.pending).push(PendingStep { step: step.record(), values });
        if self.core.checks_every_step.load(Ordering::Relaxed) {
            read.extend(self.core.settle()?);
        }
        Ok((step, read))
    }

    /// The means of the loss and of the metrics over batches, weighted by the size of the first axis of the
    /// first input. The graphs are for evaluation: dropout drops nothing, and no parameter changes.
    ///
    /// # Errors
    /// No batch; a loss or metric that is not finite, whose first cause the error names; or an error as in
    /// [`step`](Session::step).
    pub fn evaluate<B: IntoBatch>(&self, batches: impl IntoIterator<Item = B>) -> Result<Metrics> {
        let mut mean = metrics::WeightedMean::new(&self.core, self.steps());
        let mut started = Vec::new();
        for batch in batches {
            let values = batch.into_batch()?;
            let graph = self.core.evaluation_graph(&values)?;
            let run = graph.start(&values, self.steps())?;
            started.push(EvaluatedBatch { graph, run, values });
            if started.len() == metrics::ROWS {
                mean.add(&std::mem::take(&mut started))?;
            }
        }
        mean.add(&started)?;
        mean.finish()
    }

    /// The number of steps so far, those before a resumed checkpoint included.
    pub fn steps(&self) -> u64 {
        locked(&self.core.pending).next_number()
    }

    /// The number of graphs that were compiled so far.
    pub fn compilations(&self) -> usize {
        self.core.steps.compilations() + self.core.evaluations.compilations()
    }

    /// The profile of each routine of the compiled graphs, those of evaluations first: the times
    /// of its steps so far, for which it waits. Empty unless the backend was opened with the setting
    /// [`profile`](arrayjit::settings::DebugSettings::profile).
    pub fn profiles(&self) -> Vec<Profile> {
        let evaluations = self.core.evaluations.all().into_iter();
        let evaluations = evaluations.filter_map(|graph| graph.executable.routine().profile());
        evaluations.chain(self.core.steps.all().into_iter().flat_map(|graph| graph.profiles())).collect()
    }

    /// The values of the model by name after all started steps, where each parameter that the optimizer
    /// [averages](crate::optim::Optimizer::average) has its mean; for [`ModelState::load_state_dict`]. With a
    /// sharded optimizer, a rank has the means of the parameters that it updates.
    ///
    /// # Errors
    /// An earlier step whose loss is not finite, or an error of the device.
    pub fn averages(&self) -> Result<BTreeMap<String, HostArray>> {
        self.core.settle()?;
        let mut values = self.model_state().state_dict()?;
        for parameter in self.model_state().params().trainable() {
            if let Some(mean) = self.core.state.average(&parameter)? {
                values.insert(parameter.name().to_owned(), mean);
            }
        }
        Ok(values)
    }

    /// The values of the model that the session trains.
    pub fn model_state(&self) -> &ModelState {
        &self.core.weights
    }
}
