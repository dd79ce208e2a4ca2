//! Errors of sessions.

use std::{error::Error, path::PathBuf};

use arrayjit::{RunError, TensorNodeError};
use arrayjit_collectives::CollectiveError;

use crate::{error::TensorError, run_error::ModelError, session::NonFiniteCause};

/// An error of a session. It names the input, step, parameter or file.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// An error of the model or of the device.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model without trainable parameters.
    #[error("the weights have no trainable parameter; make the modules before `ModelState::new`")]
    NoParameters,
    /// A loss that is not finite. The parameters are those before the step.
    #[error("the loss of step {step} is not finite: {cause}")]
    NotFinite {
        /// The number of the step, from 0.
        step: u64,
        /// The first value that is not finite.
        cause: NonFiniteCause,
    },
    /// A loss or metric that is not finite in an evaluation.
    #[error("the {metric} of batch {batch} of the evaluation is not finite: {cause}")]
    NotFiniteEvaluation {
        /// `loss` or the name of the metric.
        metric: String,
        /// The number of the batch, from 0.
        batch: usize,
        /// The first value that is not finite.
        cause: NonFiniteCause,
    },
    /// Metrics that were read too late.
    #[error("the metrics of step {step} are overwritten; read them within the next 64 steps")]
    Overwritten {
        /// The number of the step, from 0.
        step: u64,
    },
    /// An array of a batch without elements.
    #[error("input `{name}` has shape {shape:?}, expected at least one element")]
    EmptyInput {
        /// The name of the input.
        name: String,
        /// The shape of the array.
        shape: Vec<usize>,
    },
    /// A name that a batch has twice.
    #[error("input `{name}` is given twice")]
    RepeatedInput {
        /// The name of the input.
        name: String,
    },
    /// An iterator without batches.
    #[error("the iterator has no batch, expected at least one")]
    NoBatches,
    /// An error of the iterator of batches.
    #[error("a batch cannot be made: {0}")]
    Data(#[source] Box<dyn Error + Send + Sync>),
    /// A panic of the iterator of batches.
    #[error("the iterator of batches panicked: {message}")]
    BatchesPanicked {
        /// The message of the panic.
        message: String,
    },
    /// An operation of the ranks that failed, or ranks that differ.
    #[error(transparent)]
    Ranks(#[from] CollectiveError),
    /// Ranks for a session that has made steps.
    #[error("the session has made steps, or a handle of one is alive; join the ranks before the first step")]
    Begun,
    /// A gradient that is not close to the difference of the loss, or that cannot be compared.
    #[error(transparent)]
    GradientCheck(Box<arrayjit::autodiff::CheckError>),
    /// A checkpoint that cannot be written or read.
    #[error("checkpoint `{}`: {problem}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: Box<CheckpointProblem>,
    },
}

/// A reason why a checkpoint cannot be written or read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointProblem {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// The file is no safetensors file, or ends early.
    #[error("{0}")]
    Format(String),
    /// The file is no checkpoint of a session.
    #[error("the metadata has {found} for `{key}`, expected {expected}")]
    Metadata {
        /// The key.
        key: &'static str,
        /// The value in the file.
        found: String,
        /// The expected value, in words.
        expected: String,
    },
    /// Rank 0, which reads and writes files, could not.
    #[error("rank 0: {0}")]
    FirstRank(String),
    /// The arrays belong to another model or optimiser.
    #[error(transparent)]
    Arrays(ModelError),
}

impl From<TensorError> for SessionError {
    fn from(error: TensorError) -> SessionError {
        SessionError::Model(error.into())
    }
}

impl From<RunError> for SessionError {
    fn from(error: RunError) -> SessionError {
        SessionError::Model(error.into())
    }
}

impl From<TensorNodeError> for SessionError {
    fn from(error: TensorNodeError) -> SessionError {
        SessionError::Model(error.into())
    }
}
