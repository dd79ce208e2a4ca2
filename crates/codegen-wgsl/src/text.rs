//! A module validated, and as text and words of shading languages.

use codegen_core::{Caps, CodegenError};
use naga::Module;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use tnode::DType;

use crate::refusal::failed;

/// A kernel as a module that the validator accepts for its target, from which everything else is written.
#[derive(Debug)]
pub(crate) struct Valid {
    pub(crate) module: Module,
    pub(crate) info: ModuleInfo,
}

/// Validates a module for what a target computes with, and nothing more.
pub(crate) fn validate(kernel: &str, caps: &Caps, module: Module) -> Result<Valid, CodegenError> {
    let mut validator = Validator::new(ValidationFlags::all(), capabilities(caps));
    match validator.validate(&module) {
        Ok(info) => Ok(Valid { module, info }),
        Err(error) => Err(failed(kernel, "validation", messages(&error))),
    }
}

/// The error with its causes.
fn messages(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn capabilities(caps: &Caps) -> Capabilities {
    let has = |dtype| caps.arithmetic.contains(dtype);
    let mut capabilities = Capabilities::empty();
    // Halves come out of words by way of `f32`.
    capabilities.set(Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32, has(DType::F16));
    capabilities.set(Capabilities::FLOAT64, has(DType::F64));
    capabilities.set(Capabilities::SHADER_INT64, has(DType::I64) || has(DType::U64));
    capabilities
}

/// WGSL.
pub(crate) fn wgsl(kernel: &str, valid: &Valid) -> Result<String, CodegenError> {
    naga::back::wgsl::write_string(&valid.module, &valid.info, naga::back::wgsl::WriterFlags::empty())
        .map_err(|e| failed(kernel, "writing WGSL", e.to_string()))
}
