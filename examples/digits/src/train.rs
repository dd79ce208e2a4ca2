//! Training and evaluation as linked routines on a backend: both are compiled once, and an epoch runs the
//! first one once per mini-batch.

use anyhow::Result;
use arrayjit::{Backend, Compiled, Context, HostArray, Routine};

use crate::{
    data::Digits,
    network,
    state::{self, Network},
};

/// The linked routines, the code of the evaluation, the declared nodes and the context.
pub struct Training<'n> {
    network: &'n Network,
    step: Routine,
    evaluation: Compiled,
    evaluate: Routine,
    context: Context,
}

impl<'n> Training<'n> {
    /// Compiles both routines, uploads data and initial weights, and links.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub fn prepare(
        backend: &Backend,
        network: &'n Network,
        train: &Digits,
        test: &Digits,
        rng: &mut fastrand::Rng,
    ) -> Result<Training<'n>> {
        let step = backend.compile_named("train_step", network::TRAIN, network.nodes())?;
        let evaluation = backend.compile_named("evaluate", state::EVALUATE, network.nodes())?;
        let context = network.upload(backend, train, test, rng)?;
        let step = step.link(&context)?;
        let evaluate = evaluation.link(step.context())?;
        Ok(Training { network, step, evaluation, evaluate, context })
    }

    /// The number of mini-batches in an epoch.
    pub fn batches(&self) -> i64 {
        self.step.bindings()[0].range
    }

    /// Trains on mini-batches in the given order and returns the mean loss, which is read when all are done.
    ///
    /// # Errors
    ///
    /// A device error.
    pub fn epoch(&self, order: &[i64]) -> Result<f64> {
        let loss = self.network.node("loss");
        // The copy is a task of the stream, as the runs are, so no wait is needed.
        let _ = self.context.from_host(loss, &HostArray::from_slice(&[0.0f32], [])?)?;
        for &batch in order {
            self.step.run(&[batch])?;
        }
        Ok(self.read("loss")?.item()? / order.len() as f64)
    }

    /// The number of test images that the network classifies correctly.
    ///
    /// # Errors
    ///
    /// A device error.
    pub fn correct(&self) -> Result<f64> {
        self.evaluate.run(&[])?;
        Ok(self.read("correct")?.item()?)
    }

    /// The values of a declared node, or of one that the evaluation keeps, after all earlier tasks.
    ///
    /// # Errors
    ///
    /// A device error, or a node without memory.
    pub fn read(&self, name: &str) -> Result<HostArray> {
        let node = self.evaluation.node(name).unwrap_or_else(|_| self.network.node(name));
        Ok(self.evaluate.context().to_host(node)?)
    }
}
