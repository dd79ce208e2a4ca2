//! Code that the tests share: a device with every type, and a validator for texts.

use codegen_core::{Caps, KernelAbi, Param};
use codegen_wgsl::baseline_caps;
pub(crate) use filetests::kernels::kernel;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use tnode::DType;

/// The capabilities of a device with every type in which shaders can compute.
pub(crate) fn full_caps() -> Caps {
    let more = [DType::F16, DType::I64, DType::U64, DType::F64];
    let least = baseline_caps();
    let arithmetic = more.into_iter().fold(least.arithmetic, |set, dtype| set.with(dtype));
    Caps { target: "everything".into(), arithmetic, ..least }
}

/// The number of memory parameters of a kernel.
pub(crate) fn memory_params(kernel: &KernelAbi) -> usize {
    kernel.params.iter().filter(|p| !matches!(p, Param::StaticIndex { .. })).count()
}

/// Parses and validates text as a device would.
pub(crate) fn parse_back(wgsl: &str, caps: &Caps) -> Result<naga::Module, String> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|e| e.emit_to_string(wgsl))?;
    let has = |dtype| caps.arithmetic.contains(dtype);
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32, has(DType::F16));
    capabilities.set(Capabilities::FLOAT64, has(DType::F64));
    capabilities.set(Capabilities::SHADER_INT64, has(DType::I64));
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .map_err(|e| e.emit_to_string(wgsl))?;
    Ok(module)
}
