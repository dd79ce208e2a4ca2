//! Training on several ranks, which are threads or processes: each rank computes the gradient of its shard of
//! a mini-batch, and all make the same update from the sum.
//!
//! The weights have the bits of [training on as many streams](crate::streams).

use std::sync::Arc;

use anyhow::Result;
use arrayjit::{Backend, Compiled, HostArray, Routine, TensorNode};
use arrayjit_collectives::{
    DataParallelRanks, DataParallelRanksJob, GradientPart, Group, HostGroup, Reduction, Transport,
};

use crate::{data::Digits, state::Network, streams::ShardedRoutines};

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
