//! Training on several streams: each stream computes the gradient of its shard of a mini-batch, and one
//! update follows from the sum of the gradients.
//!
//! One stream computes the same mean over the whole mini-batch, so the results differ only by the rounding of
//! sums. For a single step from the same state, the difference of a weight `w` with momentum `v` is at most
//! 2⁻²⁴ · (8 S + |v| + 4 |w|), where S is the sum over the images of the magnitudes of their contributions to
//! the gradient of `w`. `tests/training/on_streams.rs` derives and tests this bound.

use anyhow::Result;
use arrayjit::{
    Backend, Compiled, HostArray, Routine, TensorNode,
    parallel::{DataParallel, DataParallelJob, MergeMethod, replicate},
};

use crate::{
    data::Digits,
    network::{self, BATCH},
    state::{self, Network},
};

/// Training, linked for several streams.
pub struct SharedTraining<'n> {
    network: &'n Network,
    steps: DataParallel,
    evaluation: Compiled,
    evaluate: Routine,
}

/// The gradients of the parameters.
const GRADIENTS: [&str; 4] = ["w1.grad", "b1.grad", "w2.grad", "b2.grad"];

/// The number of rows of a mini-batch for each of `streams` streams; the last ones may have fewer.
pub fn rows(streams: usize) -> usize {
    BATCH.div_ceil(streams)
}

/// Splits [`network::TRAIN`] into two texts. The first computes the gradient of the rows of a mini-batch that
/// `@shard` selects, and keeps it; rows past the end of the mini-batch contribute nothing. The second is the
/// update.
pub fn texts(streams: usize) -> (String, &'static str) {
    let at = network::TRAIN.find("# update").expect("the text has that heading");
    let (gradient, update) = network::TRAIN.split_at(at);
    let rows = rows(streams);
    let row = format!("{rows}*@shard + b");
    let gradient = gradient
        .replace("where b < 32", &format!("where b < {rows}, @shard < {streams}"))
        .replace("32*@step + b", &format!("32*@step + {row}"))
        .replace("* 0.03125", &format!("* 0.03125 * ({row} < {BATCH})"));
    let kept = GRADIENTS.join(", ");
    (format!("{gradient}keep {kept}"), update)
}

impl<'n> SharedTraining<'n> {
    /// Compiles the routines, uploads data and initial weights, and links for `streams` streams.
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
        streams: usize,
    ) -> Result<SharedTraining<'n>> {
        let (gradient_text, update_text) = texts(streams);
        let gradient = backend.compile_named("gradient", &gradient_text, network.nodes())?;
        let [w1, b1, w2, b2] = GRADIENTS.map(|name| gradient.node(name).cloned());
        let gradients = [w1?, b1?, w2?, b2?];
        let update = [network.nodes(), gradients.iter().collect()].concat();
        let update = backend.compile_named("update", update_text, update)?;
        let evaluation = backend.compile_named("evaluate", state::EVALUATE, network.nodes())?;
        let parameters = ["w1", "b1", "w2", "b2"].map(|name| network.node(name).clone());

        // Each stream has its own copy of the parameters; all share the images.
        let mut contexts = vec![network.upload(backend, train, test, rng)?];
        let own = [&parameters[..], &[network.node("loss").clone()]].concat();
        for _ in 1..streams {
            contexts.extend(replicate(&contexts[0], &own, &[backend.new_stream()?])?);
        }
        let job = DataParallelJob {
            gradient: &gradient,
            update: &update,
            summed: &gradients,
            parameters: &parameters,
            merge_method: MergeMethod::default(),
        };
        let steps = DataParallel::link(backend, &job, &contexts)?;
        let evaluate = evaluation.link(steps.context())?;
        Ok(SharedTraining { network, steps, evaluation, evaluate })
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
    /// A device error.
    pub fn epoch(&self, order: &[i64]) -> Result<f64> {
        let zero = HostArray::from_slice(&[0.0f32], [])?;
        for context in self.steps.contexts() {
            let _ = context.from_host(self.loss(), &zero)?;
        }
        let shards = self.steps.streams() as i64;
        self.steps.run(order.iter().flat_map(|&batch| (0..shards).map(move |shard| [batch, shard])))?;
        let mut loss = 0.0;
        for context in self.steps.contexts() {
            loss += context.to_host(self.loss())?.item()?;
        }
        Ok(loss / order.len() as f64)
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

    /// The values of a declared node, or of one that the evaluation keeps, of the first stream after all
    /// earlier tasks.
    ///
    /// # Errors
    ///
    /// A device error, or a node without memory.
    pub fn read(&self, name: &str) -> Result<HostArray> {
        let node = self.evaluation.node(name).unwrap_or_else(|_| self.network.node(name));
        Ok(self.evaluate.context().to_host(node)?)
    }

    fn loss(&self) -> &TensorNode {
        self.network.node("loss")
    }
}
