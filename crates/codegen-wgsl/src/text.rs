//! Validates modules and writes them in shading languages.

use codegen_core::{Caps, CodegenError, DType};
use naga::Module;
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

use crate::module::CODEGEN_NAME;

/// A kernel as a module that the validator accepts for its target. All texts are written from it.
#[derive(Debug)]
pub(crate) struct ValidModule {
    pub(crate) module: Module,
    pub(crate) info: ModuleInfo,
}

/// Validates a module with exactly the capabilities of the target.
pub(crate) fn validate(kernel: &str, caps: &Caps, module: Module) -> Result<ValidModule, CodegenError> {
    let mut validator = Validator::new(ValidationFlags::all(), capabilities(caps));
    match validator.validate(&module) {
        Ok(info) => Ok(ValidModule { module, info }),
        Err(error) => Err(CodegenError::failed(CODEGEN_NAME, kernel, "validation", messages(&error))),
    }
}

/// The error's message with the messages of its causes.
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
    // Halves are unpacked from words by way of `f32`.
    capabilities.set(Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32, has(DType::F16));
    capabilities.set(Capabilities::FLOAT64, has(DType::F64));
    capabilities.set(Capabilities::SHADER_INT64, has(DType::I64) || has(DType::U64));
    capabilities
}

pub(crate) fn wgsl(kernel: &str, valid: &ValidModule) -> Result<String, CodegenError> {
    naga::back::wgsl::write_string(&valid.module, &valid.info, naga::back::wgsl::WriterFlags::empty())
        .map_err(|e| CodegenError::failed(CODEGEN_NAME, kernel, "writing WGSL", e.to_string()))
}

/// Writes SPIR-V 1.3, as words.
#[cfg(feature = "spirv")]
pub(crate) fn spirv(kernel: &str, valid: &ValidModule) -> Result<Vec<u32>, CodegenError> {
    use naga::back::spv;
    let options = spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        force_loop_bounding: false,
        ..spv::Options::default()
    };
    let pipeline =
        spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: "main".into() };
    spv::write_vec(&valid.module, &valid.info, &options, Some(&pipeline))
        .map_err(|e| CodegenError::failed(CODEGEN_NAME, kernel, "writing SPIR-V", e.to_string()))
}

/// Writes Metal Shading Language 2.4.
#[cfg(feature = "msl")]
pub(crate) fn msl(kernel: &str, valid: &ValidModule) -> Result<String, CodegenError> {
    use naga::back::msl;
    reject_f64(kernel, valid, "Metal")?;
    let options =
        msl::Options { lang_version: (2, 4), force_loop_bounding: false, ..msl::Options::default() };
    let pipeline = msl::PipelineOptions::default();
    let written = msl::write_string(&valid.module, &valid.info, &options, &pipeline);
    written
        .map(|(text, _)| text)
        .map_err(|e| CodegenError::failed(CODEGEN_NAME, kernel, "writing MSL", e.to_string()))
}

/// Writes HLSL, for shader model 6.2 if the kernel has halves or 64-bit numbers, else for 5.1.
#[cfg(feature = "hlsl")]
pub(crate) fn hlsl(kernel: &str, valid: &ValidModule) -> Result<String, CodegenError> {
    use naga::back::hlsl;
    reject_f64(kernel, valid, "HLSL")?;
    let is_new = has_scalar(&valid.module, |s| s == naga::Scalar::F16 || s.width == 8);
    let shader_model = if is_new { hlsl::ShaderModel::V6_2 } else { hlsl::ShaderModel::V5_1 };
    let options = hlsl::Options { shader_model, force_loop_bounding: false, ..hlsl::Options::default() };
    let (pipeline, mut text) = (hlsl::PipelineOptions::default(), String::new());
    let written =
        hlsl::Writer::new(&mut text, &options, &pipeline).write(&valid.module, &valid.info, None).map(|_| ());
    written
        .map(|()| text)
        .map_err(|e| CodegenError::failed(CODEGEN_NAME, kernel, "writing HLSL", e.to_string()))
}

/// Rejects kernels with `f64`, for languages that lack the type or most of its functions.
#[cfg(any(feature = "msl", feature = "hlsl"))]
fn reject_f64(kernel: &str, valid: &ValidModule, language: &str) -> Result<(), CodegenError> {
    if !has_scalar(&valid.module, |scalar| scalar == naga::Scalar::F64) {
        return Ok(());
    }
    let why = format!("{language} does not compute in f64; SPIR-V and WGSL with the feature do");
    Err(codegen_core::Rejection::new("f64", why).of_kernel(CODEGEN_NAME, kernel))
}

#[cfg(any(feature = "msl", feature = "hlsl"))]
fn has_scalar(module: &Module, is: impl Fn(naga::Scalar) -> bool) -> bool {
    module.types.iter().any(|(_, ty)| match ty.inner {
        naga::TypeInner::Scalar(scalar) | naga::TypeInner::Vector { scalar, .. } => is(scalar),
        _ => false,
    })
}
