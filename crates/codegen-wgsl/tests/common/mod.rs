//! What tests share: a device that has every type, and a second opinion on texts.
#![allow(dead_code, reason = "each test uses a part")]

use codegen_core::{Access, Caps, Kernel, KernelAbi, Launch, Param};
use codegen_wgsl::baseline_caps;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use tnode::DType;

/// A device that has every type that shaders may compute in.
pub(crate) fn full_caps() -> Caps {
    let more = [DType::F16, DType::I64, DType::U64, DType::F64];
    let least = baseline_caps();
    let arithmetic = more.into_iter().fold(least.arithmetic, |set, dtype| set.with(dtype));
    Caps { target: "everything".into(), arithmetic, ..least }
}

/// How many parameters of a kernel are memory.
pub(crate) fn memory_params(kernel: &KernelAbi) -> usize {
    kernel.params.iter().filter(|p| !matches!(p, Param::StaticIndex { .. })).count()
}

/// Parses and validates text as the device would.
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

/// A routine as one kernel, without the scheduler: what it declares is what it launches.
pub(crate) fn kernel(text: &str, caps: &Caps) -> Kernel {
    let routine = lowered_ir::text::parse(text).expect("the text is valid");
    let ir = scheduling::legalise(&routine, caps).expect("the target has the operations");
    let node = |decl: &lowered_ir::ir::NodeDecl| Param::Node {
        access: Access::ReadWrite,
        bytes: decl.dims.iter().product::<usize>() * decl.dtype.size_bytes(),
    };
    let symbol = |symbol: &lowered_ir::ir::Symbol| Param::StaticIndex { range: symbol.range };
    let params = ir.nodes.iter().map(node).chain(ir.symbols.iter().map(symbol)).collect();
    let launch = Launch::whole(&ir.body);
    let abi = KernelAbi {
        name: ir.name.clone(),
        params,
        launch,
        scratch_bytes: 0,
        log: lowered_ir::log::lines(&ir).into(),
        cost: codegen_core::Cost::default(),
    };
    Kernel::verified(ir, abi).expect("a valid kernel")
}
