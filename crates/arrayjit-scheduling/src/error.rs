//! Errors of scheduling.

use codegen_core::{CodegenError, KernelError, RoutineError};
use lowered_ir::ir::NodeRef;

use crate::legalize::LegalizeError;

/// Why a routine could not be scheduled.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ScheduleError {
    /// A node without memory is still read or written: the optimizer has not inlined it.
    #[error(
        "routine `{routine}`: node {node} \"{name}\" is virtual, expected every mention of it to be inlined"
    )]
    Virtual { routine: String, node: NodeRef, name: String },
    /// The target lacks an operation or a type of the routine.
    #[error(transparent)]
    Illegal(#[from] LegalizeError),
    /// A kernel contradicts its ABI, or the verifier rejects it: the routine was not verified, or a pass has
    /// a bug.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The codegen failed to say which contractions it compiles whole: a bug.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// A call contradicts its kernel: a bug.
    #[error(transparent)]
    Routine(#[from] RoutineError),
}
