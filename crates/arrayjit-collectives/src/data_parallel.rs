//! Training on several ranks: each rank computes the gradient of different data, and all make the same update
//! from the sum of the gradients.

use std::{borrow::Borrow, sync::Arc};

use arrayjit::{Compiled, Context, Routine, RunError, TensorNode, ir::Symbol};

use crate::{
    error::CollectiveError,
    group::{Group, Reduction, by_type},
};

/// A part of a gradient: a routine, and the nodes that it finishes and whose sums the update reads.
#[derive(Clone, Copy, Debug)]
pub struct GradientPart<'a> {
    /// Computes gradients from parameters, data and the results of the parts before it. Those results must
    /// have memory: their nodes are kept, or have the mode `Materialized`.
    pub routine: &'a Compiled,
    /// The nodes that are summed over the ranks when the routine has run, while the next parts run.
    pub summed: &'a [TensorNode],
}

/// The routines of data-parallel training over ranks. Every rank has the same ones.
#[derive(Clone, Copy, Debug)]
pub struct DataParallelRanksJob<'a> {
    /// The parts of the gradient in order. The first one has all static symbols, which choose the data of a
    /// call; the others have some of them.
    pub gradient: &'a [GradientPart<'a>],
    /// Computes new parameters from summed gradients, on every rank; has no static symbols.
    pub update: &'a Compiled,
}

/// A job linked for one rank.
///
/// A round has three steps: every rank makes one call of the gradient; the gradients are summed over the
/// ranks and all ranks get the sums; every rank updates its parameters. The parameters of all ranks, equal in
/// the beginning, have the same bits after every round, and they are the bits of
/// [`DataParallel`](arrayjit::parallel::DataParallel) on as many streams as there are ranks.
///
/// The caller's thread does not wait. Sums of a part run beside the routines of the parts after it, so a
/// gradient in parts hides the exchange; [`split_gradient`](crate::split_gradient) makes them.
///
/// ```
/// use std::sync::Arc;
///
/// use arrayjit::{Backend, HostArray, TensorNode};
/// use arrayjit_collectives::{
///     DataParallelRanks, DataParallelRanksJob, GradientPart, Group, HostGroup, local,
/// };
///
/// // The mean of ten numbers by gradient descent, in rounds of two ranks.
/// let means = local::run(2, |transport| -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
///     let [x, mean, slope] = [("x", 10), ("mean", 1), ("slope", 1)].map(|(name, n)| {
///         TensorNode::builder(name).dims([n]).build()
///     });
///     let (x, mean, slope) = (x?, mean?, slope?);
///     let backend = Backend::open("multicore")?;
///     let gradient = backend.compile("slope[k] := mean[k] - x[@i] where k < 1", [&x, &mean, &slope])?;
///     let update = backend.compile("mean[k] -= 0.05 * slope[k]", [&mean, &slope])?;
///
///     let values: Vec<f32> = (1..=10).map(|i| i as f32).collect();
///     let context = backend
///         .context()?
///         .init_from_host(&x, &HostArray::from_slice(&values, [10])?)?
///         .init_from_host(&mean, &HostArray::from_slice(&[0f32], [1])?)?;
///     let group: Arc<dyn Group> = Arc::new(HostGroup::new(transport, backend.new_stream()?));
///     let gradient = [GradientPart { routine: &gradient, summed: &[slope] }];
///     let job = DataParallelRanksJob { gradient: &gradient, update: &update };
///     let descent = DataParallelRanks::link(&job, &context, &group)?;
///     for _ in 0..40 {
///         descent.run((0..10).map(|i| [i]))?; // every rank passes all calls, and makes its own
///     }
///     Ok(descent.context().to_host(&mean)?.get_f64(&[0])?)
/// });
/// assert!(means.into_iter().all(|mean| mean.is_ok_and(|mean| (mean - 5.5).abs() < 0.5)));
/// ```
///
/// One thread of a rank calls at a time: the calls of several threads have no order that is the same on all
/// ranks.
pub struct DataParallelRanks {
    parts: Vec<LinkedPart>,
    update: Routine,
    group: Arc<dyn Group>,
}

struct LinkedPart {
    routine: Routine,
    /// By type.
    summed: Vec<Vec<TensorNode>>,
    /// For each static symbol of the routine, its position among those of the first part; none for the first
    /// part, which gets the values of a call as they are.
    symbols: Option<Vec<usize>>,
}

impl DataParallelRanks {
    /// Links a job for this rank. The context has the parameters, the data, and whatever the routines need.
    ///
    /// # Errors
    ///
    /// A job without gradient; a part with a symbol that the first one lacks, or an update with symbols; a
    /// node that the context lacks; a kernel that the device rejects.
    pub fn link(
        job: &DataParallelRanksJob<'_>,
        context: &Context,
        group: &Arc<dyn Group>,
    ) -> Result<DataParallelRanks, CollectiveError> {
        let mut context = context.clone();
        let mut parts: Vec<LinkedPart> = Vec::new();
        for part in job.gradient {
            let routine = part.routine.link(&context)?;
            context = routine.context().clone();
            let first = parts.first().map(|first| first.routine.bindings());
            let symbols =
                first.map(|first| positions(part.routine, routine.bindings(), first)).transpose()?;
            parts.push(LinkedPart { routine, summed: by_type(part.summed), symbols });
        }
        if parts.is_empty() {
            return Err(CollectiveError::NoGradient);
        }
        let update = job.update.link(&context)?;
        positions(job.update, update.bindings(), &[])?;
        Ok(DataParallelRanks { parts, update, group: group.clone() })
    }

    /// Schedules a call of the gradient for each item, in turn: the first on rank 0, the next on rank 1, and
    /// so on. After each round an update is scheduled. Every rank passes the same items; each has the values
    /// of the gradient's static symbols. In the last round fewer ranks may take part, and only their
    /// gradients are summed.
    ///
    /// # Errors
    ///
    /// Bindings out of range; a failure of this rank or of others before; a device error. Nothing is
    /// scheduled after the first error.
    pub fn run<B: Borrow<[i64]>>(&self, calls: impl IntoIterator<Item = B>) -> Result<(), CollectiveError> {
        let mut calls = calls.into_iter();
        loop {
            let round: Vec<B> = calls.by_ref().take(self.group.size()).collect();
            if round.is_empty() {
                return Ok(());
            }
            self.round(&round)?;
        }
    }

    /// The gradient's static symbols, in the order of the values that [`DataParallelRanks::run`] takes.
    pub fn bindings(&self) -> &[Symbol] {
        self.parts.first().map_or(&[], |part| part.routine.bindings())
    }

    /// The context of this rank, which contains all results.
    pub fn context(&self) -> &Context {
        self.update.context()
    }

    fn round<B: Borrow<[i64]>>(&self, calls: &[B]) -> Result<(), CollectiveError> {
        let own = calls.get(self.group.rank());
        for part in &self.parts {
            if let Some(call) = own {
                part.run(call.borrow())?;
            }
            for nodes in &part.summed {
                self.group.all_reduce_first(self.context(), nodes, Reduction::Sum, calls.len())?;
            }
        }
        self.update.run(&[])?;
        Ok(())
    }
}

impl LinkedPart {
    fn run(&self, call: &[i64]) -> Result<(), RunError> {
        let chosen = |at: &usize| call.get(*at).copied();
        match &self.symbols {
            None => self.routine.run(call).map(drop),
            Some(symbols) => {
                self.routine.run(&symbols.iter().filter_map(chosen).collect::<Vec<_>>()).map(drop)
            }
        }
    }
}

/// The position of each symbol among those of the first part.
fn positions(routine: &Compiled, symbols: &[Symbol], all: &[Symbol]) -> Result<Vec<usize>, CollectiveError> {
    let position = |symbol: &Symbol| {
        let found = all.iter().position(|other| other.name == symbol.name);
        let (routine, symbol) = (routine.name().to_owned(), symbol.name.clone());
        found.ok_or(CollectiveError::Symbol { routine, symbol })
    };
    symbols.iter().map(position).collect()
}
