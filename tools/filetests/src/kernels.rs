//! Kernels without the scheduler, for tests of code generators: a routine is one kernel, and its loops are
//! exactly those of its text.

use codegen_core::{Access, Caps, Cost, Kernel, KernelAbi, Launch, Param};

/// A routine as one kernel, legalized for a target. Its ABI follows the routine's declarations; every node is
/// read and written.
///
/// # Panics
///
/// If the text is invalid, or the target lacks an operation.
pub fn kernel(text: &str, caps: &Caps) -> Kernel {
    let routine = lowered_ir::text::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let ir = scheduling::legalize(&routine, caps).unwrap_or_else(|error| panic!("{error}"));
    let nodes = ir.nodes.iter().map(|decl| Param::Node {
        access: Access::ReadWrite,
        bytes: decl.dims.iter().product::<usize>() * decl.dtype.size_bytes(),
    });
    let symbols = ir.symbols.iter().map(|symbol| Param::StaticIndex { range: symbol.range });
    let abi = KernelAbi {
        name: ir.name.clone(),
        params: nodes.chain(symbols).collect(),
        launch: Launch::whole(&ir.body),
        scratch_bytes: 0,
        log: lowered_ir::log::lines(&ir).into(),
        cost: Cost::default(),
    };
    Kernel::verified(ir, abi).unwrap_or_else(|error| panic!("{error}"))
}

/// A routine with one iteration per element.
pub const DOUBLE: &str = r#"
routine @double fast {
  node %0 "x" f32[1000] on_device
  node %1 "y" f32[1000] on_device
  for i0 in 0..1000 parallel {
    %1[i0] := %0[i0] + %0[i0]
  }
}"#;

/// A routine whose threads reduce through shared memory.
pub const TREE_REDUCTION: &str = r#"
routine @tree strict {
  node %0 "x" f32[2, 8] on_device
  node %1 "y" f32[2] on_device
  for i0 in 0..2 parallel {
    declare l0 f32[8] workgroup
    declare l1 f32[8] thread
    for i1 in 0..8 workgroup {
      for i2 in 0..4 {
        l1[i1] := l1[i1] + %0[i0, i1] * 2.0f32
      }
    }
    for i3 in 0..8 workgroup {
      l0[i3] := l1[i3]
    }
    for i4 in 0..1 workgroup {
      %1[i0] := l0[i4] + l0[i4 + 1]
    }
  }
}"#;

/// A statement that is a kernel's only one in a routine with a symbol `@n` in 0..8 and two nodes of 64
/// elements of `f32`.
pub fn routine_of(body: &str) -> String {
    format!(
        "routine @r strict {{ symbol @n in 0..8 node %0 \"x\" f32[64] on_device \
         node %1 \"y\" f32[64] on_device {body} }}"
    )
}

/// Statements that no GPU accepts: what is wrong with each, the text for [`routine_of`], and a part of the
/// rejection.
pub const REJECTED_BY_GPUS: [(&str, &str, &str); 6] = [
    (
        "a store by all threads",
        "for i0 in 0..2 parallel { %0[i0] := 1.0f32 for i1 in 0..4 workgroup { %1[32*i0 + i1] := 1.0f32 } }",
        "a store to node %0: it stands outside of workgroup loops",
    ),
    (
        "a store of shared memory by all threads",
        "for i0 in 0..2 parallel { declare l0 f32[4] workgroup l0[0] := 1.0f32
         for i1 in 0..4 workgroup { %1[32*i0 + i1] := l0[i1] } }",
        "a store to workgroup local l0",
    ),
    (
        "shared memory declared in a loop",
        "for i0 in 0..2 parallel { for i2 in 0..3 { declare l0 f32[4] workgroup
         for i1 in 0..4 workgroup { l0[i1] := l0[i1] + %1[32*i0 + i1] } } }",
        "workgroup local l0: it is declared in a loop",
    ),
    (
        "shared memory without threads",
        "for i0 in 0..2 parallel { declare l0 f32[4] workgroup for i1 in 0..4 { l0[i1] := %0[i1] }
         %1[i0] := l0[3] }",
        "without workgroup loops",
    ),
    (
        "loops between workgroup loops",
        "for i0 in 0..2 workgroup { for i1 in 0..2 { for i2 in 0..2 workgroup {
         %0[4*i0 + 2*i1 + i2] := 1.0f32 } } }",
        "nested workgroup loops",
    ),
    (
        "a guard beyond 32 bits",
        "for i0 in 0..4 { %1[i0] := guarded(0 <= 3000000000*i0 < 64, %0[3000000000*i0], 0.0f32) }",
        "a guard: its index may exceed 32 bits",
    ),
];

/// Routines that no GPU accepts because numbers exceed their indices: what is too large, the text, and a part
/// of the rejection.
pub const TOO_LARGE_FOR_GPUS: [(&str, &str, &str); 2] = [
    (
        "a symbol",
        "routine @r strict { symbol @n in 0..5000000000 node %0 \"x\" f32[4] on_device
         for i0 in 0..min(4, @n) { %0[i0] := 1.0f32 } }",
        "symbol @n: its range is 5000000000",
    ),
    (
        "a grid",
        "routine @r strict { node %0 \"x\" f32[2, 2] on_device
         for i0 in 0..70000 parallel { for i1 in 0..70000 parallel { } } }",
        "2^32 iterations",
    ),
];

/// A statement in `depth` nested loops, for [`routine_of`].
pub fn nested_loops(depth: usize) -> String {
    let open: String = (0..depth).map(|at| format!("for i{at} in 0..2 {{ ")).collect();
    format!("{open} %0[0] := %0[0] + 1.0f32 {}", "} ".repeat(depth))
}
