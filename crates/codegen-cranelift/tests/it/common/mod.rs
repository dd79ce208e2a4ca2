//! Runs a kernel by the interpreter, and compiled with all options.

#![allow(dead_code, reason = "each test program uses a part")]

use codegen_core::host::HostPtr;
use codegen_core::{
    Access, Artifact, Caps, CodegenError, Compiler, Cost, Kernel, KernelAbi, Launch, Param, Payload,
    RenderedKernel, Renderer,
};
use codegen_cranelift::{CraneliftCompiler, CraneliftOptions, CraneliftRenderer, VectorWidth, host_caps};
use codegen_testkit::GuardedBuffer;
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{Expr, LoweredRoutine, NodeDecl, walk};
use tnode::{DType, Scalar};

/// The text of a kernel with one vector loop and remaining iterations.
pub(crate) const ADD: &str = "routine @add {
  node %0 \"x\" f32[37]
  node %1 \"y\" f32[37]
  for i0 in 0..37 vector {
    %1[i0] := %0[i0] + %1[i0]
  }
}";

/// Parses a routine.
pub(crate) fn parse(text: &str) -> LoweredRoutine {
    lowered_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The routine as a kernel.
pub(crate) fn kernel(ir: LoweredRoutine) -> Kernel {
    let merged = merged(&ir);
    let memory = ir.nodes.iter().enumerate().map(|(i, n)| {
        let bytes = n.dims.iter().product::<usize>() * n.dtype.size_bytes();
        if merged.contains(&i) {
            Param::MergeBuffer { bytes }
        } else {
            Param::Node { access: Access::ReadWrite, bytes }
        }
    });
    let indices = ir.symbols.iter().map(|s| Param::StaticIndex { range: s.range });
    let abi = KernelAbi {
        name: format!("{}.k0", ir.name),
        params: memory.chain(indices).collect(),
        launch: Launch::divided(&ir.body),
        scratch_bytes: 0,
        log: lowered_ir::log::lines(&ir).into(),
        cost: Cost::default(),
    };
    Kernel::verified(ir, abi).expect("a valid kernel")
}

fn merged(ir: &LoweredRoutine) -> Vec<usize> {
    let mut merged = Vec::new();
    for e in walk::parts_in(&ir.body) {
        if let Expr::GetMerge { node, .. } = e {
            merged.push(node.index());
        }
    }
    merged
}

/// All options that lead to different code.
pub(crate) fn all_options() -> Vec<CraneliftOptions> {
    let base = CraneliftOptions { verify: true, ..CraneliftOptions::default() };
    let available = VectorWidth::ALL.into_iter().filter(|width| width.is_available());
    let mut all: Vec<_> = available.map(|vector| CraneliftOptions { vector, ..base.clone() }).collect();
    let vector = VectorWidth::default().min(VectorWidth::Bits128);
    all.push(CraneliftOptions { vector, optimize: true, frame_pointers: true, ..base });
    all
}

/// Compiles one kernel.
pub(crate) fn compile(kernel: &Kernel, options: &CraneliftOptions) -> Result<Artifact, CodegenError> {
    let caps: Caps = host_caps(options.vector);
    let source = CraneliftRenderer.render(&caps, kernel)?;
    CraneliftCompiler.compile(&caps, vec![RenderedKernel { kernel, source }], options)
}

/// Memory of the routine's nodes with bytes from a seed; floats are finite, and truth values are 0 or 1.
pub(crate) fn filled(ir: &LoweredRoutine, seed: u64) -> Memory {
    let mut memory = Memory::zeroed(ir);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for (node, bytes) in ir.nodes.iter().zip(&mut memory.nodes) {
        for chunk in bytes.chunks_mut(node.dtype.size_bytes()) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random(node.dtype, state >> 16).write(chunk).expect("chunks are as long as elements");
        }
    }
    memory
}

fn random(dtype: DType, bits: u64) -> Scalar {
    match dtype {
        DType::Bool => Scalar::new(dtype, u128::from(bits & 1)),
        _ if dtype.is_float() => Scalar::from_f64(dtype, (bits % 2001) as f64 / 64.0 - 15.6),
        _ => Scalar::new(dtype, u128::from(bits)),
    }
}

/// Runs the compiled kernel on a copy of `memory` that is surrounded by guards and aligned to elements
/// only.
pub(crate) fn run_native(artifact: &Artifact, kernel: &Kernel, memory: &Memory, bindings: &[i64]) -> Memory {
    let extent = artifact.kernels()[0].launch.extent_for(bindings);
    run_parts(artifact, kernel, memory, bindings, &[(0, extent)])
}

/// Runs one of several kernels for its whole range.
pub(crate) fn run_kernel(artifact: &Artifact, which: usize, kernel: &Kernel, memory: &Memory) -> Memory {
    run_some(artifact, which, kernel, memory, &[], &[(0, 1)])
}

/// Runs parts of the kernel one after the other.
pub(crate) fn run_parts(
    artifact: &Artifact,
    kernel: &Kernel,
    memory: &Memory,
    bindings: &[i64],
    parts: &[(u64, u64)],
) -> Memory {
    run_some(artifact, 0, kernel, memory, bindings, parts)
}

fn run_some(
    artifact: &Artifact,
    which: usize,
    kernel: &Kernel,
    memory: &Memory,
    bindings: &[i64],
    parts: &[(u64, u64)],
) -> Memory {
    let merge = merged(kernel.ir());
    let buffer = |(at, node): (usize, &NodeDecl)| {
        let bytes = match merge.contains(&at) {
            true => memory.merge.as_ref().expect("a merge buffer"),
            false => &memory.nodes[at],
        };
        GuardedBuffer::of_elements(bytes, node.dtype.size_bytes())
    };
    let mut buffers: Vec<GuardedBuffer> = kernel.ir().nodes.iter().enumerate().map(buffer).collect();
    let args: Vec<HostPtr> = buffers.iter_mut().map(GuardedBuffer::arg).collect();
    let mut scratch = GuardedBuffer::scratch(artifact.kernels()[which].scratch_bytes, 16);
    let Payload::Host(module) = artifact.payload() else { panic!("a host artifact") };
    for &(begin, end) in parts {
        // SAFETY: the arguments are those of the kernel's ABI; each is valid for its bytes and not shared.
        unsafe { module.call(which, &args, bindings, scratch.arg().base, begin, end) }
            .expect("native kernels do not fail");
    }
    assert!(scratch.is_guarded(), "scratch overrun");
    let mut after = memory.clone();
    for (at, buffer) in buffers.iter().enumerate() {
        assert!(buffer.is_guarded(), "node {at} is written outside");
        if !merge.contains(&at) {
            after.nodes[at].copy_from_slice(buffer.bytes());
        }
    }
    after
}

/// Asserts that the compiled routine computes the same values as the interpreter, with every set of options.
pub(crate) fn check(ir: LoweredRoutine, memory: &Memory, bindings: &[i64]) {
    let mut expected = memory.clone();
    interp::run(&ir, &mut expected, bindings)
        .unwrap_or_else(|e| panic!("{e}\n{}", lowered_ir::text::print(&ir)));
    let kernel = kernel(ir);
    for options in all_options() {
        let artifact = compile(&kernel, &options)
            .unwrap_or_else(|e| panic!("{e}\n{}", lowered_ir::text::print(kernel.ir())));
        let found = run_native(&artifact, &kernel, memory, bindings);
        compare(&kernel, memory, &expected, &found, &format!("{options:?}"));
    }
}

/// Asserts that two memories are equal, where all NaNs are equal.
pub(crate) fn compare(kernel: &Kernel, before: &Memory, expected: &Memory, found: &Memory, what: &str) {
    for (n, node) in kernel.ir().nodes.iter().enumerate() {
        let size = node.dtype.size_bytes();
        let element = |bytes: &[u8]| Scalar::read(node.dtype, bytes).expect("a whole element");
        for (at, (e, f)) in expected.nodes[n].chunks(size).zip(found.nodes[n].chunks(size)).enumerate() {
            let (e, f) = (element(e), element(f));
            let both_nan = node.dtype.is_float() && e.as_f64().is_nan() && f.as_f64().is_nan();
            assert!(
                e == f || both_nan,
                "%{n}[{at}] is {f:?} ({:#x}), expected {e:?} ({:#x}), with {what}\n{}\n{}",
                f.bits(),
                e.bits(),
                lowered_ir::text::print(kernel.ir()),
                context(kernel, before, at),
            );
        }
    }
}

fn context(kernel: &Kernel, before: &Memory, at: usize) -> String {
    let mut text = String::new();
    for (n, node) in kernel.ir().nodes.iter().enumerate() {
        let size = node.dtype.size_bytes();
        if let Some(bytes) = before.nodes[n].get(at * size..(at + 1) * size) {
            text += &format!("%{n}[{at}] was {:?}\n", Scalar::read(node.dtype, bytes));
        }
    }
    text
}
