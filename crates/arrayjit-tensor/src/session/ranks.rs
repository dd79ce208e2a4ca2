//! Training over ranks: every rank steps through batches of its own, and all make the same update.
//!
//! A step over ranks is [several routines](super::staged_step), between which gradients are summed over the
//! ranks. The loss and the metrics are summed with the gradients, so all ranks read the same ones.
//!
//! With a sharded state, a rank has the arrays of the optimizer for some parameters only. It gets the sums of
//! their gradients, updates them, and gives all ranks the results.
//!
//! Source of sharding: Rajbhandari, Rasley, Ruwase and He, ZeRO: Memory optimizations toward training
//! trillion parameter models, 2020; here, as in torch's `ZeroRedundancyOptimizer`, by whole parameters.

mod files; // checkpoints of all ranks

use std::{cmp::Reverse, sync::Arc};

use arrayjit::TensorNode;
use arrayjit_collectives::{BucketSizes, Group};

use crate::{
    error::{Result, TensorError},
    options::options,
    parameter::Parameter,
    session::{Session, SessionCore},
};

/// The ranks of a session, and how they exchange gradients.
#[derive(Clone)]
pub struct Ranks {
    group: Arc<dyn Group>,
    buckets: BucketSizes,
    is_sharded: bool,
}

impl Ranks {
    /// The ranks of a group on a stream of the session's backend.
    pub fn new(group: Arc<dyn Group>) -> Ranks {
        Ranks { group, buckets: BucketSizes::default(), is_sharded: false }
    }

    options! {
        /// The bytes of gradients that are summed together; 1 MiB, then 25 MiB by default.
        buckets: BucketSizes => buckets;
        /// Whether each rank has the state of the optimizer for some parameters only, which takes less
        /// memory; false by default. The parameters get the same bits either way.
        sharded_optimizer: bool => is_sharded;
    }

    /// The group of the ranks.
    pub fn group(&self) -> &Arc<dyn Group> {
        &self.group
    }

    pub(super) fn bucket_sizes(&self) -> BucketSizes {
        self.buckets
    }

    /// The rank that updates each parameter, if they are divided: the largest ones go first, each to the rank
    /// with the fewest elements.
    fn owners(&self, parameters: &[Parameter]) -> Vec<usize> {
        let elements = |at: usize| parameters[at].shape().iter().product::<usize>();
        let mut largest_first: Vec<usize> = (0..parameters.len()).collect();
        largest_first.sort_by_key(|&at| Reverse(elements(at)));
        let mut loads = vec![0; self.group.size()];
        let mut owners = vec![0; parameters.len()];
        for at in largest_first {
            let least = (0..loads.len()).min_by_key(|&rank| loads[rank]).unwrap_or_default();
            owners[at] = least;
            loads[least] += elements(at);
        }
        owners
    }
}

impl Session {
    /// Trains over ranks, of which each passes batches of its own with the same shapes: the loss, the metrics
    /// and the gradients of a step are the means over the ranks, so with batches of equal sizes a step is one
    /// with all batches joined. All ranks get the parameters of rank 0 first. A step waits for no other rank
    /// on the caller's thread.
    ///
    /// Every rank calls the same functions in the same order. Random numbers of
    /// [`rand`](crate::Graph::rand) and dropout differ from rank to rank. Buffers that a step writes, such as
    /// running statistics, have values of the rank's own batches. [`evaluate`](Session::evaluate) is about
    /// the batches that this rank passes. [`save`](Session::save) writes the file on rank 0, and
    /// [`load`](Session::load) reads it there, whatever the number of ranks that wrote it.
    ///
    /// Parameters have the same bits in every run with as many ranks, with threads and with processes.
    ///
    /// ```
    /// use std::{error::Error, sync::Arc};
    ///
    /// use arrayjit_collectives::{HostGroup, Transport, local};
    /// use arrayjit_tensor::{
    ///     Backend, HostArray, Init, Params, ModelState, optim::Sgd, session::{Batch, Ranks, Session},
    /// };
    ///
    /// let losses = local::run(2, |transport| -> Result<f64, Box<dyn Error + Send + Sync>> {
    ///     // The target is 0 on one rank and 1 on the other.
    ///     let target = HostArray::from_slice(&[transport.rank() as f32], [1])?;
    ///     let params = Params::new(1);
    ///     let w = params.parameter("w", [1], Init::Constant(4.0))?;
    ///     let backend = Backend::open("multicore")?;
    ///     let weights = ModelState::new(&backend, &params)?;
    ///     let group = HostGroup::new(transport, backend.new_stream()?);
    ///     let session = Session::new(&weights, Sgd::new(0.1), move |batch: &Batch| {
    ///         batch.input("target")?.sub(&w)?.square()?.sum(..)
    ///     })?;
    ///     let mut session = session.over_ranks(Ranks::new(Arc::new(group)))?;
    ///     let last = session.fit((0..60).map(|_| [("target", target.clone())]), |_| {})?;
    ///     Ok(last.loss())
    /// });
    /// // Both ranks have come to 0.5, the mean of the targets, whose loss is 0.25 on each.
    /// assert!(losses.into_iter().all(|loss| loss.is_ok_and(|loss| (loss - 0.25).abs() < 1e-4)));
    /// ```
    ///
    /// # Errors
    /// A session that has made steps; ranks that do not come in time or have other parameters; an error
    /// of the device.
    pub fn over_ranks(mut self, ranks: Ranks) -> Result<Session> {
        let core = self.unbegun()?;
        let context = core.weights.context()?;
        let nodes: Vec<TensorNode> =
            core.weights.params().all().iter().map(|parameter| parameter.node().clone()).collect();
        let event = ranks.group.broadcast(&context, &nodes, 0)?;
        let outcome = event.sync();
        core.ranks = Some(ranks);
        outcome.map_err(|error| core.rank_failure().unwrap_or_else(|| error.into()))?;
        Ok(self)
    }

    /// Checks that the parameters, and the state of the optimizer unless it is sharded, have the same bits on
    /// all ranks, and waits for the answer. Every rank calls it. Does nothing without ranks.
    ///
    /// # Errors
    /// The first rank that differs from rank 0; an earlier failure.
    pub fn check_ranks(&self) -> Result<()> {
        let core = &*self.core;
        let Some(ranks) = &core.ranks else { return Ok(()) };
        core.settle()?;
        let mut arrays = core.weights.params().trainable();
        if !ranks.is_sharded {
            arrays.extend(core.state.arrays());
        }
        let nodes: Vec<TensorNode> = arrays.iter().map(|array| array.node().clone()).collect();
        Ok(ranks.group.check_equal(&core.weights.context()?, &nodes)?)
    }
}

impl SessionCore {
    /// The failure of an operation of the ranks, which says more than the errors of its nodes.
    pub(super) fn rank_failure(&self) -> Option<TensorError> {
        self.ranks.as_ref().and_then(|ranks| ranks.group.failure()).map(TensorError::Ranks)
    }

    /// The trainable parameters with their owners, if there are ranks with a sharded state.
    pub(super) fn owned_parameters(&self) -> Option<Vec<(Parameter, usize)>> {
        let ranks = self.ranks.as_ref().filter(|ranks| ranks.is_sharded)?;
        let parameters = self.weights.params().trainable();
        let owners = ranks.owners(&parameters);
        Some(parameters.into_iter().zip(owners).collect())
    }
}
