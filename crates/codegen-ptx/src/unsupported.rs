//! Errors of this codegen: unsupported constructs, and its own failures, with the name of the kernel.

use codegen_core::CodegenError;
pub(crate) use codegen_core::threads::{Checked, Rejection, reject};

/// The codegen's name in errors.
pub(crate) const NAME: &str = "ptx";

/// An error for a bug in a stage of compiling a kernel.
pub(crate) fn failed(kernel: &str, stage: &'static str, message: impl Into<String>) -> CodegenError {
    CodegenError::Failed { codegen: NAME.into(), kernel: kernel.into(), stage, message: message.into() }
}
