//! Compiled graphs, one for each set of shapes and types of a batch.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrayjit::{Context, DType, profile::Profile};
use lru::LruCache;

use crate::{
    error::{Call, TensorError, TensorErrorKind},
    executable::Executable,
    graph::Graph,
    operand::Argument,
    parameter::{Parameter, Params, locked},
    session::{
        Batch, BatchValues, SessionCore, SessionError, metrics::ROWS, ranks::RankStep, values::BatchSignature,
    },
    tensor::Tensor,
};

/// The closure from a batch to the loss.
pub(super) type Build = Box<dyn Fn(&Batch) -> Result<Tensor, TensorError> + Send + Sync>;

/// The number of compiled graphs that a session keeps.
const CACHED_GRAPHS: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not 0");

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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

/// A compiled graph, and the array that has the metrics of its last runs.
pub(super) struct StepGraph {
    pub(super) routines: StepRoutines,
    /// The names of the columns of `rows`: `loss`, then the metrics.
    pub(super) names: Vec<String>,
    /// One row per run, by its number modulo the number of rows. In training, a last column is 1 if the step
    /// was not guarded.
    pub(super) rows: Parameter,
    /// The number of runs that were started.
    pub(super) runs: AtomicU64,
}

impl StepGraph {
    /// Starts a run with the given number of the step, and returns the number of the run.
    pub(super) fn start(&self, values: &BatchValues, step: u64) -> Result<u64, SessionError> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        let symbols = [("slot", (run % ROWS as u64) as i64), ("step", step as i64)];
        match &self.routines {
            StepRoutines::One(executable) => drop(executable.start_shared(values.arrays(), &symbols)?),
            StepRoutines::Ranks(step) => step.start(values, &symbols)?,
        }
        Ok(run)
    }

    /// The context with the weights, the inputs and the metrics.
    pub(super) fn context(&self) -> &Context {
        match &self.routines {
            StepRoutines::One(executable) => executable.context(),
            StepRoutines::Ranks(step) => step.context(),
        }
    }

    /// The profiles of the routines.
    pub(super) fn profiles(&self) -> Vec<Profile> {
        match &self.routines {
            StepRoutines::One(executable) => executable.routine().profile().into_iter().collect(),
            StepRoutines::Ranks(step) => step.profiles(),
        }
    }
}

/// The routines of a run.
pub(super) enum StepRoutines {
    /// All in one.
    One(Box<Executable>),
    /// A step over ranks.
    Ranks(Box<RankStep>),
}

/// The most recently used graphs of a session.
pub(super) struct GraphCache {
    graphs: LruCache<(Mode, BatchSignature), Arc<StepGraph>>,
    compilations: usize,
}

impl Default for GraphCache {
    fn default() -> GraphCache {
        GraphCache { graphs: LruCache::new(CACHED_GRAPHS), compilations: 0 }
    }
}

impl GraphCache {
    pub(super) fn resize(&mut self, count: usize) {
        self.graphs.resize(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN));
    }

    /// The graphs, the most recently used first.
    pub(super) fn all(&self) -> Vec<Arc<StepGraph>> {
        self.graphs.iter().map(|(_, graph)| graph.clone()).collect()
    }

    pub(super) fn compilations(&self) -> usize {
        self.compilations
    }
}

impl SessionCore {
    /// The compiled graph for the shapes and types of a batch.
    pub(super) fn graph(&self, mode: Mode, values: &BatchValues) -> Result<Arc<StepGraph>, SessionError> {
        let key = (mode, values.signature());
        let mut cache = locked(&self.graphs);
        if let Some(graph) = cache.graphs.get(&key) {
            return Ok(graph.clone());
        }
        let graph = Arc::new(self.compile(mode, values)?);
        cache.compilations += 1;
        cache.graphs.put(key, graph.clone());
        Ok(graph)
    }

    /// The graph that the closure builds for a batch.
    pub(super) fn built(&self, mode: Mode, values: &BatchValues) -> Result<BuiltGraph, SessionError> {
        let graph = match mode {
            Mode::Training => {
                Graph::for_training_on(self.ranks.as_ref().map_or(0, |ranks| ranks.group().rank()))
            }
            Mode::Evaluation => Graph::new(),
        };
        let batch = Batch::new(graph.clone(), values);
        let loss = (self.build)(&batch)?;
        Ok(BuiltGraph { graph, loss, metrics: batch.finish()? })
    }

    fn compile(&self, mode: Mode, values: &BatchValues) -> Result<StepGraph, SessionError> {
        let built = self.built(mode, values)?;
        let BuiltGraph { graph, loss, metrics } = &built;
        let call = graph.call_of(loss).map_or(Call::new("session"), |call| Call { op: "session", ..call });
        if loss.graph() != graph || loss.num_elements() != 1 {
            let (what, found) = (format!("the loss {}", loss.name()), loss.shape().to_vec());
            let expected = "one element, computed from the batch".into();
            return Err(graph.fail(call, TensorErrorKind::Shape { what, found, expected }).into());
        }
        let names: Vec<String> =
            [String::from("loss")].into_iter().chain(metrics.iter().map(|(name, _)| name.clone())).collect();
        let columns = names.len() + usize::from(mode == Mode::Training);
        let dtype = if loss.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let rows = Params::new(0).buffer("metrics", [ROWS, columns], dtype, 0.0)?;
        let checks = self.checks_every_step.load(Ordering::Relaxed);
        let routines = match (mode, &self.ranks) {
            (Mode::Training, Some(ranks)) => {
                let step = self.compile_over_ranks(ranks, built, &rows, checks)?;
                StepRoutines::Ranks(Box::new(step))
            }
            (Mode::Training, None) => {
                let is_finite = self.optimizer.update_guarded(call, loss, None, &self.state, checks)?;
                self.compile_one("training_step", &built, Some(is_finite), &rows)?
            }
            (Mode::Evaluation, _) => self.compile_one("evaluation", &built, None, &rows)?,
        };
        Ok(StepGraph { routines, names, rows, runs: AtomicU64::new(0) })
    }

    fn compile_one(
        &self,
        name: &str,
        built: &BuiltGraph,
        is_finite: Option<Tensor>,
        rows: &Parameter,
    ) -> Result<StepRoutines, SessionError> {
        let BuiltGraph { graph, loss, metrics } = built;
        let values = metrics.iter().map(|(_, value)| value.clone());
        let columns: Vec<Tensor> = [loss.reshape(&[])?].into_iter().chain(values).chain(is_finite).collect();
        store_rows(graph, rows, &columns)?;
        let own = std::slice::from_ref(rows);
        Ok(StepRoutines::One(Box::new(graph.compile_with(name, &self.weights, Vec::new(), own)?)))
    }
}

/// Adds statements that store values of rank 0 in the row of the run.
pub(super) fn store_rows(graph: &Graph, rows: &Parameter, columns: &[Tensor]) -> Result<(), TensorError> {
    let dtype = rows.dtype();
    for (at, column) in columns.iter().enumerate() {
        let inputs = [("rows", Argument::Parameter(rows)), ("x", Argument::Tensor(column))];
        let text = format!("rows[@slot, {at}] := {dtype}(x[]) where @slot < {ROWS}");
        graph.emit(Call::new("session"), &text, &inputs, &[])?;
    }
    Ok(())
}
