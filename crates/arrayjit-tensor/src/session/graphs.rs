//! Compiled graphs, one for each set of shapes and types of a batch.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use arrayjit::{Context, DType, profile::Profile};
use lru::LruCache;

use crate::{
    error::{Call, Result, TensorError},
    executable::{Executable, StartedRun},
    graph::Graph,
    operand::Argument,
    parameter::{Init, Parameter, Params, locked},
    session::{
        Batch, BatchValues, SessionCore, metrics::ROWS, staged_step::StagedStep, values::BatchSignature,
    },
    tensor::Tensor,
};

/// The closure from a batch to the loss.
pub(super) type Build = Box<dyn Fn(&Batch) -> Result<Tensor> + Send + Sync>;

/// The number of compiled graphs that a session keeps for each mode.
const CACHED_GRAPHS: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not 0");

#[derive(Clone, Copy)]
pub(super) enum Mode {
    Training,
    Evaluation,
}

/// A graph that is not compiled, with the metrics beside the loss by name.
pub(super) struct BuiltGraph {
    pub(super) graph: Graph,
    pub(super) loss: Tensor,
    pub(super) metrics: Vec<(String, Tensor)>,
}

/// A compiled graph of an evaluation, whose runs take place side by side.
pub(super) struct EvaluationGraph {
    /// Its results are the values of `names`.
    pub(super) executable: Executable,
    /// `loss`, then the metrics.
    pub(super) names: Vec<String>,
}

impl EvaluationGraph {
    pub(super) fn start(&self, values: &BatchValues, step: u64) -> Result<StartedRun> {
        self.executable.start_shared(values, &[("step", step as i64)])
    }
}

/// A compiled graph of a step, and the array that has the metrics of its last runs.
pub(super) struct StepGraph {
    pub(super) routines: StepRoutines,
    /// The names of the columns of `rows`: `loss`, then the metrics.
    pub(super) names: Vec<String>,
    /// One row per run, by its number modulo the number of rows. A last column is 1 if the step was not
    /// guarded.
    pub(super) rows: Parameter,
    /// The number of runs that were started.
    pub(super) runs: AtomicU64,
}

impl StepGraph {
    /// Starts a run over micro-batches with the given number of the step, and returns the number of the run.
    pub(super) fn start(&self, batches: &[BatchValues], step: u64) -> Result<u64> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        let symbols = [("slot", (run % ROWS as u64) as i64), ("step", step as i64)];
        match &self.routines {
            StepRoutines::One(executable) => {
                batches.iter().try_for_each(|batch| executable.start_first(batch, &symbols))?;
            }
            StepRoutines::Staged(staged) => {
                staged.start(batches, (step * batches.len() as u64, &symbols))?;
            }
        }
        Ok(run)
    }

    /// The context with the weights, the inputs and the metrics.
    pub(super) fn context(&self) -> &Context {
        match &self.routines {
            StepRoutines::One(executable) => executable.context(),
            StepRoutines::Staged(step) => step.context(),
        }
    }

    /// The profiles of the routines.
    pub(super) fn profiles(&self) -> Vec<Profile> {
        match &self.routines {
            StepRoutines::One(executable) => executable.routine().profile().into_iter().collect(),
            StepRoutines::Staged(step) => step.profiles(),
        }
    }
}

/// The routines of a run.
pub(super) enum StepRoutines {
    /// All in one.
    One(Box<Executable>),
    /// A step over ranks or micro-batches.
    Staged(Box<StagedStep>),
}

/// The most recently used graphs of a session for one mode. Each is compiled once: its other callers wait,
/// and callers of other graphs do not.
pub(super) struct GraphCache<G> {
    graphs: Mutex<LruCache<(BatchSignature, u64), CachedGraph<G>>>,
    compilations: AtomicUsize,
}

/// A graph, unless it is still being compiled.
type CachedGraph<G> = Arc<Mutex<Option<Arc<G>>>>;

impl<G> Default for GraphCache<G> {
    fn default() -> GraphCache<G> {
        GraphCache { graphs: Mutex::new(LruCache::new(CACHED_GRAPHS)), compilations: AtomicUsize::new(0) }
    }
}

impl<G> GraphCache<G> {
    pub(super) fn resize(&self, count: usize) {
        locked(&self.graphs).resize(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN));
    }

    /// The graphs, the most recently used first.
    pub(super) fn all(&self) -> Vec<Arc<G>> {
        let graphs: Vec<CachedGraph<G>> =
            locked(&self.graphs).iter().map(|(_, graph)| graph.clone()).collect();
        graphs.iter().filter_map(|graph| locked(graph).clone()).collect()
    }

    pub(super) fn compilations(&self) -> usize {
        self.compilations.load(Ordering::Relaxed)
    }

    /// The graph for the shapes and types of a batch and the set of frozen parameters, which `freezes` tells
    /// from others.
    fn get(
        &self,
        (values, freezes): (&BatchValues, u64),
        compile: impl FnOnce() -> Result<G>,
    ) -> Result<Arc<G>> {
        let cached =
            locked(&self.graphs).get_or_insert((values.signature(), freezes), CachedGraph::default).clone();
        let mut cached = locked(&cached);
        if let Some(graph) = &*cached {
            return Ok(graph.clone());
        }
        let graph = Arc::new(compile()?);
        self.compilations.fetch_add(1, Ordering::Relaxed);
        *cached = Some(graph.clone());
        Ok(graph)
    }
}

impl SessionCore {
    /// The compiled step for the shapes and types of a batch.
    pub(super) fn step_graph(&self, values: &BatchValues) -> Result<Arc<StepGraph>> {
        let freezes = self.weights.params().freezes();
        self.steps.get((values, freezes), || self.compile_step(values))
    }

    /// The compiled evaluation for the shapes and types of a batch.
    pub(super) fn evaluation_graph(&self, values: &BatchValues) -> Result<Arc<EvaluationGraph>> {
        self.evaluations.get((values, 0), || self.compile_evaluation(values))
    }

    /// The graph that the closure builds for a batch.
    pub(super) fn built(&self, mode: Mode, values: &BatchValues) -> Result<BuiltGraph> {
        let graph = match mode {
            Mode::Training => {
                Graph::for_training_on(self.ranks.as_ref().map_or(0, |ranks| ranks.group().rank()))
            }
            Mode::Evaluation => Graph::new(),
        };
        let settings = self.weights.backend().settings();
        graph.limit_scan_gradients(settings.scan_gradient_bytes);
        graph.narrow_gradients(settings.narrow_gradients);
        let batch = Batch::new(graph.clone(), values);
        let loss = (self.build)(&batch)?;
        Ok(BuiltGraph { graph, loss, metrics: batch.finish()? })
    }

    fn compile_step(&self, values: &BatchValues) -> Result<StepGraph> {
        let built = self.built(Mode::Training, values)?;
        let names = built.names()?;
        let loss = &built.loss;
        let dtype = if loss.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let rows =
            Params::new(0).with_dtype(dtype).buffer("metrics", [ROWS, names.len() + 1], Init::ZEROS)?;
        let routines = if self.ranks.is_some() || self.micro_batches > 1 {
            StepRoutines::Staged(Box::new(self.compile_stages(built, &rows)?))
        } else {
            let is_finite = self.optimizer.update_guarded(Call::new("session"), loss, None, &self.state)?;
            let columns: Vec<Tensor> = built.columns()?.into_iter().chain([is_finite]).collect();
            store_rows(&built.graph, &rows, &columns)?;
            let own = std::slice::from_ref(&rows);
            let step = built.graph.compile_with("training_step", &self.weights, Vec::new(), own)?;
            StepRoutines::One(Box::new(step))
        };
        Ok(StepGraph { routines, names, rows, runs: AtomicU64::new(0) })
    }

    fn compile_evaluation(&self, values: &BatchValues) -> Result<EvaluationGraph> {
        let built = self.built(Mode::Evaluation, values)?;
        let (names, columns) = (built.names()?, built.columns()?);
        let columns: Vec<&Tensor> = columns.iter().collect();
        let executable = built.graph.compile_named("evaluation", &self.weights, &columns)?;
        Ok(EvaluationGraph { executable, names })
    }
}

impl BuiltGraph {
    /// The names of the loss and the metrics. A loss of several elements is an error.
    fn names(&self) -> Result<Vec<String>> {
        let BuiltGraph { graph, loss, metrics } = self;
        if loss.graph() != graph || loss.num_elements() != 1 {
            let (what, found) = (format!("the loss {}", loss.name()), loss.shape().to_vec());
            let expected = "one element, computed from the batch".into();
            let kind = TensorError::Shape { what, found, expected };
            let call =
                graph.call_of(loss).map_or(Call::new("session"), |call| Call { op: "session", ..call });
            return Err(graph.fail(call, kind));
        }
        let metrics = metrics.iter().map(|(name, _)| name.clone());
        Ok([String::from("loss")].into_iter().chain(metrics).collect())
    }

    /// The loss and the metrics, of rank 0.
    fn columns(&self) -> Result<Vec<Tensor>> {
        let metrics = self.metrics.iter().map(|(_, value)| value.clone());
        Ok([self.loss.reshape(&[])?].into_iter().chain(metrics).collect())
    }
}

/// Adds statements that store values of rank 0 in the row of the run.
pub(super) fn store_rows(graph: &Graph, rows: &Parameter, columns: &[Tensor]) -> Result<()> {
    let dtype = rows.dtype();
    for (at, column) in columns.iter().enumerate() {
        let inputs = [("rows", Argument::Parameter(rows)), ("x", Argument::Tensor(column))];
        let text = format!("rows[@slot, {at}] := {dtype}(x[]) where @slot < {ROWS}");
        graph.emit(Call::new("session"), &text, &inputs, &[])?;
    }
    Ok(())
}
