//! Shared code of the tests: kernels without the scheduler.
pub(crate) mod device;
pub(crate) mod programs;

use codegen_core::{Access, Caps, Kernel, KernelAbi, Launch, Param};

/// A routine as a single kernel, which launches what it declares.
pub(crate) fn kernel(text: &str, caps: &Caps) -> Kernel {
    let routine = lowered_ir::text::parse(text).expect("the text is valid");
    let ir = scheduling::legalise(&routine, caps).expect("the target has the operations");
    let node = |decl: &lowered_ir::ir::NodeDecl| Param::Node {
        access: Access::ReadWrite,
        bytes: decl.dims.iter().product::<usize>() * decl.dtype.size_bytes(),
    };
    let symbol = |symbol: &lowered_ir::ir::Symbol| Param::StaticIndex { range: symbol.range };
    let params = ir.nodes.iter().map(node).chain(ir.symbols.iter().map(symbol)).collect();
    let log = lowered_ir::log::lines(&ir).into();
    let launch = Launch::whole(&ir.body);
    let abi = KernelAbi {
        name: ir.name.clone(),
        params,
        launch,
        scratch_bytes: 0,
        log,
        cost: codegen_core::Cost::default(),
    };
    Kernel::verified(ir, abi).expect("a valid kernel")
}
