//! What this codegen does not do, and its own failures, as errors that name the kernel.

use codegen_core::CodegenError;

/// The codegen's name.
pub(crate) const NAME: &str = "wgsl";

/// Why a kernel is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) op: String,
    pub(crate) why: String,
}

/// A result, unless the kernel is refused.
pub(crate) type Checked<T = ()> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(op: impl Into<String>, why: impl Into<String>) -> Refusal {
        Refusal { op: op.into(), why: why.into() }
    }

    /// The error that names the kernel.
    pub(crate) fn of_kernel(self, kernel: &str) -> CodegenError {
        CodegenError::Unsupported { codegen: NAME.into(), kernel: kernel.into(), op: self.op, why: self.why }
    }
}

/// Refuses the kernel.
pub(crate) fn refuse<T>(op: impl Into<String>, why: impl Into<String>) -> Checked<T> {
    Err(Refusal::new(op, why))
}

/// Our bug, in a step of compiling a kernel.
pub(crate) fn failed(kernel: &str, stage: &'static str, message: impl Into<String>) -> CodegenError {
    CodegenError::Failed { codegen: NAME.into(), kernel: kernel.into(), stage, message: message.into() }
}
