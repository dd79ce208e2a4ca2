//! Code that the tests share: a device with every type, and a validator for texts.

use codegen_core::{Access, Caps, Kernel, KernelAbi, Launch, Param};
use codegen_wgsl::baseline_caps;
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

/// A routine as one kernel, without the scheduler: the ABI follows the routine's declarations.
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
