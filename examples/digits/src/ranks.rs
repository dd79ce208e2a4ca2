//! Training on several ranks, which are threads or processes: each rank computes the gradient of its shard of
//! a mini-batch, and all make the same update from the sum.
//!
//! The weights have the bits of [training on as many streams](crate::streams).

use std::{path::Path, str::FromStr, sync::Arc};

use anyhow::{Context as _, Result};
use arrayjit::{Backend, Compiled, HostArray, Routine, TensorNode, trace::TraceFile};
use arrayjit_collectives::{
    DataParallelRanks, DataParallelRanksJob, GradientPart, Group, HostGroup, Reduction, Transport, local,
};

use crate::{data::Digits, state::Network, streams::ShardedRoutines};

/// The ranks of a program, as its option `--ranks` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankSource {
    /// This number of threads.
    Threads(usize),
    /// The processes that MPI started.
    Mpi,
}

impl FromStr for RankSource {
    type Err = String;

    fn from_str(text: &str) -> Result<RankSource, String> {
        match text.parse() {
            Ok(count) if (1..=MOST_THREADS).contains(&count) => Ok(RankSource::Threads(count)),
            _ if text == "mpi" && cfg!(feature = "mpi") => Ok(RankSource::Mpi),
            _ if text == "mpi" => Err("this build has no MPI; build with `--features mpi`".into()),
            _ => Err(format!("expected `mpi` or a number from 1 to {MOST_THREADS}")),
        }
    }
}

/// The most ranks of one process.
const MOST_THREADS: usize = 64;

impl RankSource {
    /// Calls a function on each rank, and returns the result of rank 0, or of the process with MPI. The first
    /// error ends all ranks. If a path is given, one file gets the timelines of all ranks.
    ///
    /// # Errors
    ///
    /// An error of the function, of MPI, or of the file.
    pub fn run<T: Send>(
        self,
        trace: Option<&Path>,
        body: impl Fn(Box<dyn Transport>) -> Result<T> + Sync,
    ) -> Result<T> {
        match self {
            RankSource::Threads(count) => traced(trace, || {
                let results = local::run(count, |transport| body(Box::new(transport)));
                let mut results = results.into_iter().collect::<Result<Vec<_>>>()?;
                (!results.is_empty()).then(|| results.swap_remove(0)).context("no ranks")
            }),
            RankSource::Mpi => on_processes(trace, body),
        }
    }
}

/// Calls a function and writes its timeline, if a path is given.
///
/// # Errors
///
/// An error of the function or of the file.
pub fn traced<T>(path: Option<&Path>, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let trace = path.map(TraceFile::create).transpose()?;
    trace.iter().try_for_each(TraceFile::install)?;
    let result = body()?;
    trace.map_or(Ok(()), TraceFile::finish)?;
    Ok(result)
}

/// Each process writes a timeline of its own, which rank 0 then joins.
#[cfg(feature = "mpi")]
fn on_processes<T>(trace: Option<&Path>, body: impl Fn(Box<dyn Transport>) -> Result<T>) -> Result<T> {
    use arrayjit_collectives::{join_timelines, mpi};

    const LONGEST_WAIT: std::time::Duration = std::time::Duration::from_secs(60);
    let result = mpi::run(|transport| {
        let Some(joined) = trace else { return body(Box::new(transport)) };
        let own = joined.with_extension(format!("{}.json", transport.rank()));
        let result = traced(Some(&own), || body(Box::new(transport.clone())))?;
        join_timelines(&transport, LONGEST_WAIT, &own, joined)?;
        std::fs::remove_file(&own)?;
        anyhow::Ok(result)
    });
    Ok(result?)
}

#[cfg(not(feature = "mpi"))]
fn on_processes<T>(_: Option<&Path>, _: impl Fn(Box<dyn Transport>) -> Result<T>) -> Result<T> {
    anyhow::bail!("this build has no MPI")
}

/// Training, linked for one rank.
pub struct RankTraining<'n> {
    network: &'n Network,
    group: Arc<dyn Group>,
    steps: DataParallelRanks,
    evaluation: Compiled,
    evaluate: Routine,
}

impl<'n> RankTraining<'n> {
    /// Compiles the routines, uploads data and initial weights, and links for this rank. All ranks pass the
    /// same images and random numbers.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub fn prepare(
        backend: &Backend,
        network: &'n Network,
        (train, test): (&Digits, &Digits),
        rng: &mut fastrand::Rng,
        transport: impl Transport,
    ) -> Result<RankTraining<'n>> {
        let group: Arc<dyn Group> = Arc::new(HostGroup::new(transport, backend.new_stream()?));
        let ShardedRoutines { gradient, gradients, update, evaluation } =
            ShardedRoutines::compile(backend, network, group.size())?;

        let context = network.upload(backend, train, test, rng)?;
        let gradient = [GradientPart { routine: &gradient, summed: &gradients }];
        let job = DataParallelRanksJob { gradient: &gradient, update: &update };
        let steps = DataParallelRanks::link(&job, &context, &group)?;
        let evaluate = evaluation.link(steps.context())?;
        Ok(RankTraining { network, group, steps, evaluation, evaluate })
    }

    /// The number of mini-batches in an epoch.
    pub fn batches(&self) -> i64 {
        self.steps.bindings()[0].range
    }

    /// Trains on mini-batches in the given order, each in shards, and returns the mean loss, which is read
    /// when all are done.
    ///
    /// # Errors
    ///
    /// An error of the device or of another rank.
    pub fn epoch(&self, order: &[i64]) -> Result<f64> {
        let (loss, context) = (self.network.node("loss"), self.steps.context());
        let _ = context.from_host(loss, &HostArray::from_slice(&[0.0f32], [])?)?;
        let shards = self.group.size() as i64;
        self.steps.run(order.iter().flat_map(|&batch| (0..shards).map(move |shard| [batch, shard])))?;
        self.group.all_reduce(context, std::slice::from_ref(loss), Reduction::Sum)?;
        Ok(context.to_host(loss)?.get_f64(&[])? / order.len() as f64)
    }

    /// The number of test images that the network classifies correctly.
    ///
    /// # Errors
    ///
    /// A device error.
    pub fn correct(&self) -> Result<f64> {
        self.evaluate.run(&[])?;
        Ok(self.read("correct")?.get_f64(&[])?)
    }

    /// The values of a declared node, or of one that the evaluation keeps, after all earlier tasks.
    ///
    /// # Errors
    ///
    /// A device error, or a node without memory.
    pub fn read(&self, name: &str) -> Result<HostArray> {
        let node: &TensorNode = self.evaluation.node(name).unwrap_or_else(|_| self.network.node(name));
        Ok(self.evaluate.context().to_host(node)?)
    }
}
