//! Errors for unsupported operations and for failures of this codegen.

use codegen_core::CodegenError;
pub(crate) use codegen_core::threads::{Checked, Rejection, reject};

/// The name of this codegen in errors and fingerprints.
pub(crate) const CODEGEN_NAME: &str = "wgsl";

/// An error for a bug of this codegen, in a stage of compiling a kernel.
pub(crate) fn failed(kernel: &str, stage: &'static str, message: impl Into<String>) -> CodegenError {
    CodegenError::Failed {
        codegen: CODEGEN_NAME.into(),
        kernel: kernel.into(),
        stage,
        message: message.into(),
    }
}
