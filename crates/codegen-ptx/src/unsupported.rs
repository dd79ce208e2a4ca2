//! What this codegen does not do, and its own failures, as errors that name the kernel.

use codegen_core::CodegenError;
pub(crate) use codegen_core::threads::{Checked, Rejection as Refusal, reject as refuse};

/// The codegen's name.
pub(crate) const NAME: &str = "ptx";

/// Our bug, in a step of compiling a kernel.
pub(crate) fn failed(kernel: &str, stage: &'static str, message: impl Into<String>) -> CodegenError {
    CodegenError::Failed { codegen: NAME.into(), kernel: kernel.into(), stage, message: message.into() }
}
