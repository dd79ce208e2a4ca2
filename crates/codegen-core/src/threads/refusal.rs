//! What a code generator does not do, before it is known which kernel asks for it.

use crate::CodegenError;

/// Why a kernel is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the kernel asks for.
    pub op: String,
    /// Why the target does not do it, and what would help.
    pub why: String,
}

/// A result, unless the kernel is refused.
pub type Checked<T = ()> = Result<T, Refusal>;

impl Refusal {
    /// A refusal of `op`.
    pub fn new(op: impl Into<String>, why: impl Into<String>) -> Refusal {
        Refusal { op: op.into(), why: why.into() }
    }

    /// The error that names the code generator and the kernel.
    pub fn of_kernel(self, codegen: &str, kernel: &str) -> CodegenError {
        CodegenError::Unsupported {
            codegen: codegen.into(),
            kernel: kernel.into(),
            op: self.op,
            why: self.why,
        }
    }
}

/// Refuses the kernel.
///
/// # Errors
///
/// Always.
pub fn refuse<T>(op: impl Into<String>, why: impl Into<String>) -> Checked<T> {
    Err(Refusal::new(op, why))
}
