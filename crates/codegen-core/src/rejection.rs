//! Rejections of kernels, before the name of the kernel is known.

use crate::CodegenError;

/// The reason for which a kernel is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The operation that the target lacks.
    pub op: String,
    /// The reason, and which target has the operation.
    pub why: String,
}

/// A result, or the rejection of the kernel.
pub type Checked<T = ()> = Result<T, Rejection>;

impl Rejection {
    /// Rejects the operation `op` for the reason `why`.
    pub fn new(op: impl Into<String>, why: impl Into<String>) -> Rejection {
        Rejection { op: op.into(), why: why.into() }
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

/// Rejects the kernel.
///
/// # Errors
///
/// Always.
pub fn reject<T>(op: impl Into<String>, why: impl Into<String>) -> Checked<T> {
    Err(Rejection::new(op, why))
}
