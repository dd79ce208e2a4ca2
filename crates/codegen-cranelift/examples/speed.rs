//! The speed of a few typical kernels: the best of many runs, beside the peak of 128-bit fused multiply-adds.
//!
//! `cargo run --release -p codegen-cranelift --example speed [optimize] [scalar | 128] [list NAME]`
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::{Duration, Instant};

use codegen_core::host::HostPtr;
use codegen_core::{
    Access, Compiler, Cost, Kernel, KernelAbi, Launch, Param, Payload, RenderedKernel, Renderer,
};
use codegen_cranelift::{
    CraneliftCompiler, CraneliftOptions, CraneliftRenderer, VectorWidth, host_caps, listing,
};
use lowered_ir::ir::LoweredRoutine;

/// A kernel, repeated until the cost of a call is negligible, and the number and kind of operations of one
/// run.
struct Case {
    name: &'static str,
    text: String,
    work: f64,
    unit: &'static str,
}

fn main() {
    sigpipe::reset();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let options = CraneliftOptions {
        optimize: has("optimize"),
        vector: match () {
            () if has("scalar") => VectorWidth::None,
            () if has("128") => VectorWidth::Bits128,
            () => VectorWidth::default(),
        },
        verify: false,
        ..CraneliftOptions::default()
    };
    let listed = args.iter().position(|arg| arg == "list").and_then(|at| args.get(at + 1));
    for case in cases() {
        let kernel = kernel(lowered_ir::text::parse(&case.text).expect("the text is valid"));
        if listed.is_some_and(|name| name == case.name) {
            let listing = listing(&kernel, &options).expect("a supported kernel");
            println!("{}\n{}", listing.source, listing.machine_code);
        }
        if listed.is_none() {
            report(&case, &kernel, &options);
        }
    }
}

fn cases() -> Vec<Case> {
    vec![
        case("fma peak", peak(), 2.0 * 10.0 * 4.0 * 1000.0, "GF/s"),
        case(
            "chain",
            elementwise("relu(fma(%0[X], 1.5f32, 0.1f32)) * 0.7f32", ""),
            16.0 * 2048.0,
            "elements/ns",
        ),
        case("exp", exp(), 16.0 * 2048.0, "elements/ns"),
        case("sum", sum(), 16.0 * 2048.0, "elements/ns"),
        case("tile 2x16", tile(2, 16), 2.0 * 2.0 * 16.0 * 256.0 * 16.0, "GF/s"),
        case("tile 4x8", tile(4, 8), 2.0 * 4.0 * 8.0 * 256.0 * 16.0, "GF/s"),
        case("matmul 128 ijk scalar", naive(128), 2.0 * 128f64.powi(3), "GF/s"),
        case("matmul 128 ikj vector", rows(128), 2.0 * 128f64.powi(3), "GF/s"),
        case("matmul 128 tiles 2x16", tiled(128), 2.0 * 128f64.powi(3), "GF/s"),
        case("transpose 256", transpose(256), 65536.0, "elements/ns"),
    ]
}

fn case(name: &'static str, text: String, work: f64, unit: &'static str) -> Case {
    Case { name, text, work, unit }
}

/// Ten independent chains of fused multiply-adds in registers.
fn peak() -> String {
    "routine @peak {
      node %0 \"x\" f32[40]
      declare l0 f32[40] register
      for i0 in 0..1000 {
        for i1 in 0..40 vector { l0[i1] := fma(l0[i1], 0.5f32, 0.25f32) }
      }
      for i2 in 0..40 vector { %0[i2] := l0[i2] }
    }"
    .into()
}

fn elementwise(value: &str, lets: &str) -> String {
    let body = format!("{lets}\n%1[X] := {value}").replace('X', "32*i0 + i1");
    format!(
        "routine @map {{
          node %0 \"x\" f32[2048]
          node %1 \"y\" f32[2048]
          for i9 in 0..16 {{
            for i0 in 0..64 {{
              for i1 in 0..32 vector {{
                {body}
              }}
            }}
          }}
        }}"
    )
}

/// The exponential by a polynomial of degree six.
fn exp() -> String {
    let lets = "
      declare l0 f32[] register
      l0 := min(max(%0[X], -87.3f32), 88.3f32)
      declare l1 f32[] register
      l1 := fma(l0, 1.442695f32, 12582912.0f32)
      declare l2 f32[] register
      l2 := l1 - 12582912.0f32
      declare l3 f32[] register
      l3 := fma(l2, 0.00021219444f32, fma(l2, -0.693359375f32, l0))
      declare l4 f32[] register
      l4 := fma(fma(fma(fma(fma(0.00019875691f32, l3, 0.0013981999f32), l3, 0.008333452f32), l3, 0.041665796f32), l3, 0.16666666f32), l3, 0.5f32)
      declare l5 f32[] register
      l5 := fma(l4, l3 * l3, l3 + 1.0f32)";
    elementwise("bitcast f32(bitcast i32(l5) + shl(bitcast i32(l1), 23i32))", lets)
}

fn sum() -> String {
    "routine @sum {
      node %0 \"x\" f32[2048]
      node %1 \"y\" f32[32]
      declare l0 f32[32] register
      for i9 in 0..16 {
        for i0 in 0..64 {
          for i1 in 0..32 vector { l0[i1] := l0[i1] + %0[32*i0 + i1] }
        }
      }
      for i2 in 0..32 vector { %1[i2] := l0[i2] }
    }"
    .into()
}

/// One register tile of a GEMM with packed operands.
fn tile(m: usize, n: usize) -> String {
    format!(
        "routine @tile {{
          node %0 \"a\" f32[256, {m}]
          node %1 \"b\" f32[256, {n}]
          node %2 \"c\" f32[{m}, {n}]
          declare l0 f32[{m}, {n}] register
          for i9 in 0..16 {{
            for i0 in 0..64 {{
              for i1 in 0..4 unrolled {{
                for i2 in 0..{m} unrolled {{
                  for i3 in 0..{n} vector {{
                    l0[i2, i3] := fma(%0[4*i0 + i1, i2], %1[4*i0 + i1, i3], l0[i2, i3])
                  }}
                }}
              }}
            }}
          }}
          for i4 in 0..{m} unrolled {{
            for i5 in 0..{n} vector {{ %2[i4, i5] := l0[i4, i5] }}
          }}
        }}"
    )
}

fn product(n: usize, body: &str) -> String {
    format!(
        "routine @matmul {{
          node %0 \"a\" f32[{n}, {n}]
          node %1 \"b\" f32[{n}, {n}]
          node %2 \"c\" f32[{n}, {n}]
          {body}
        }}"
    )
}

fn naive(n: usize) -> String {
    let body = format!(
        "for i0 in 0..{n} {{ for i1 in 0..{n} {{
           declare l0 f32[] register
           for i2 in 0..{n} {{ l0 := fma(%0[i0, i2], %1[i2, i1], l0) }}
           %2[i0, i1] := l0
         }} }}"
    );
    product(n, &body)
}

fn rows(n: usize) -> String {
    let body = format!(
        "for i0 in 0..{n} {{ for i2 in 0..{n} {{ for i3 in 0..{} {{ for i4 in 0..32 vector {{
           %2[i0, 32*i3 + i4] := fma(%0[i0, i2], %1[i2, 32*i3 + i4], %2[i0, 32*i3 + i4])
         }} }} }} }}",
        n / 32
    );
    product(n, &body)
}

fn tiled(n: usize) -> String {
    let body = format!(
        "for i0 in 0..{} {{ for i1 in 0..{} {{
           declare l0 f32[2, 16] register
           for i2 in 0..{n} {{ for i3 in 0..2 unrolled {{ for i4 in 0..16 vector {{
             l0[i3, i4] := fma(%0[2*i0 + i3, i2], %1[i2, 16*i1 + i4], l0[i3, i4])
           }} }} }}
           for i5 in 0..2 unrolled {{ for i6 in 0..16 vector {{ %2[2*i0 + i5, 16*i1 + i6] := l0[i5, i6] }} }}
         }} }}",
        n / 2,
        n / 16
    );
    product(n, &body)
}

fn transpose(n: usize) -> String {
    format!(
        "routine @transpose {{
          node %0 \"x\" f32[{n}, {n}]
          node %1 \"y\" f32[{n}, {n}]
          for i0 in 0..{n} {{ for i1 in 0..{} {{ for i2 in 0..8 vector {{ %1[i0, 8*i1 + i2] := %0[8*i1 + i2, i0] }} }} }}
        }}",
        n / 8
    )
}

fn kernel(ir: LoweredRoutine) -> Kernel {
    let params = ir
        .nodes
        .iter()
        .map(|n| {
            let bytes = n.dims.iter().product::<usize>() * n.dtype.size_bytes();
            Param::Node { access: Access::ReadWrite, bytes }
        })
        .collect();
    let abi = KernelAbi {
        name: format!("{}.k0", ir.name),
        params,
        launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    };
    Kernel::verified(ir, abi).expect("a valid kernel")
}

fn report(case: &Case, kernel: &Kernel, options: &CraneliftOptions) {
    let caps = host_caps(options.vector);
    let compile = || {
        let source = CraneliftRenderer.render(&caps, kernel).expect("a supported kernel");
        CraneliftCompiler
            .compile(&caps, vec![RenderedKernel { kernel, source }], options)
            .expect("a supported kernel")
    };
    let artifact = compile();
    let compiling = best(Duration::from_millis(100), || drop(compile()));
    let Payload::Host(module) = artifact.payload() else { unreachable!("this codegen makes host code") };
    let mut memory: Vec<Vec<u128>> = kernel
        .ir()
        .nodes
        .iter()
        .map(|n| {
            let bytes = n.dims.iter().product::<usize>() * n.dtype.size_bytes();
            vec![u128::from_ne_bytes([0x3f; 16]); bytes / 16 + 1]
        })
        .collect();
    let args: Vec<HostPtr> = memory
        .iter_mut()
        .map(|m| HostPtr { base: m.as_mut_ptr().cast(), bytes: m.len() * 16, access: Access::ReadWrite })
        .collect();
    let seconds = best(Duration::from_millis(300), || {
        // SAFETY: there is one array per parameter, at least as long as its declaration says, and the kernels
        // use no scratch memory.
        unsafe { module.call(0, &args, &[], std::ptr::null_mut(), 0, 1) }
            .expect("native kernels do not fail");
    });
    println!(
        "{:24} {:8.2} {:12} compiled in {:.0} us",
        case.name,
        case.work / seconds * 1e-9,
        case.unit,
        compiling * 1e6
    );
}

/// The shortest time of one call in seconds.
fn best(budget: Duration, mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    let mut calls = 1u32;
    while start.elapsed() < budget {
        let round = Instant::now();
        (0..calls).for_each(|_| f());
        let elapsed = round.elapsed().as_secs_f64();
        best = best.min(elapsed / f64::from(calls));
        if elapsed < 20e-6 {
            calls *= 2;
        }
    }
    best
}
