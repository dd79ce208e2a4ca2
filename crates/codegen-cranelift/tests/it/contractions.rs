//! Contractions as GEMM plans: which kernels have plans, and that their bits are the interpreter's with all
//! options.

use crate::common;

use codegen_core::{Caps, Codegen, Kernel, scheduled::RoutineParts};
use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift, cranelift_with, host_caps};
use common::{all_options, compare, compile, filled, parse, run_native};
use lowered_ir::interp;
use lowered_ir::ir::{LoweredRoutine, Symbol};
use scheduling::{ScheduleOptions, schedule};

/// The only kernel of a routine, scheduled for a width of vectors.
fn only_kernel(routine: &LoweredRoutine, vector: VectorWidth) -> Kernel {
    let options = CraneliftOptions { vector, ..CraneliftOptions::default() };
    only_kernel_for(routine, &cranelift(options).expect("a host target"))
}

fn only_kernel_for(routine: &LoweredRoutine, codegen: &dyn Codegen) -> Kernel {
    let schedule = schedule(routine, codegen, &ScheduleOptions::default());
    let mut kernels = schedule.expect("the host computes everything").into_parts().kernels;
    assert_eq!(kernels.len(), 1);
    kernels.remove(0)
}

/// Whether the kernel has a GEMM plan, on a CPU that has plans.
fn is_planned(routine: &LoweredRoutine, dimensions: &str) -> bool {
    let options = CraneliftOptions::default();
    let codegen = cranelift(options.clone()).expect("a host target");
    let listing = codegen.listing(&only_kernel(routine, options.vector)).expect("a supported kernel");
    listing.source.contains(&format!("; GEMM {dimensions}, "))
        || host_caps(options.vector).contractions.is_empty()
}

/// Compares the compiled kernel of the scheduled routine with the interpretation of that kernel, for all
/// options.
fn keeps_bits(routine: &LoweredRoutine) {
    for options in all_options() {
        kernel_keeps_bits(&only_kernel(routine, options.vector), &options);
    }
}

fn kernel_keeps_bits(kernel: &Kernel, options: &CraneliftOptions) {
    let memory = filled(kernel.ir(), 7);
    let mut expected = memory.clone();
    interp::run(kernel.ir(), &mut expected, &[]).expect("scheduled routines run");
    let artifact = compile(kernel, options).expect("scheduled kernels compile");
    let found = run_native(&artifact, kernel, &memory, &[]);
    compare(kernel, &memory, &expected, &found, &format!("{options:?}"));
}

/// Attention whose scores exceed the L2 cache runs on blocks of rows. With 131 rows, the last rows fill no
/// block.
#[test]
fn blocks_of_rows_are_planned() {
    let matmul = |[rows, columns, depth]: [&str; 3], [left, right, result]: [&str; 3]| {
        format!(
            "for i1 in 0..{rows} {{ for i2 in 0..{columns} {{
              declare l0 f32[] register
              for i3 in 0..{depth} {{ l0 := l0 + {left} * {right} }}
              {result} := l0
            }} }}"
        )
    };
    for rows in ["128", "131"] {
        let scores = matmul([rows, "64", "8"], ["%0[i0, i1, i3]", "%1[i0, i2, i3]", "%2[i0, i1, i2]"]);
        let values = matmul([rows, "8", "64"], ["%2[i0, i1, i3]", "%1[i0, i3, i2]", "%3[i0, i1, i2]"]);
        let values = ["i1", "i2", "i3", "l0"].iter().fold(values, |text, name| {
            let (kind, number) = name.split_at(1);
            text.replace(name, &format!("{kind}1{number}"))
        });
        let routine = parse(&format!(
            "routine @attention fast {{
              node %0 \"q\" f32[2, {rows}, 8] on_device
              node %1 \"k\" f32[2, 64, 8] on_device
              node %2 \"s\" f32[2, {rows}, 64] local
              node %3 \"y\" f32[2, {rows}, 8] on_device
              for i0 in 0..2 {{
                {scores}
                for i4 in 0..{rows} {{
                  declare l2 f32[] register
                  for i5 in 0..64 {{ l2 := max(%2[i0, i4, i5], l2) }}
                  for i6 in 0..64 {{ %2[i0, i4, i6] := exp(%2[i0, i4, i6] * 0.01f32 - l2 * 0.01f32) }}
                }}
                {values}
              }}
            }}"
        ));
        for options in all_options() {
            let caps = Caps { l2_bytes: 2 << 10, ..host_caps(options.vector) };
            let has_plans = !caps.contractions.is_empty();
            let codegen = cranelift_with(caps, options.clone());
            let kernel = only_kernel_for(&routine, &codegen);
            let blocks =
                if rows == "128" { ["GEMM 64x64x8, ", "GEMM 64x8x64, "] } else { ["GEMM ", "GEMM "] };
            let source = codegen.listing(&kernel).expect("a supported kernel").source;
            assert!(!has_plans || blocks.iter().all(|block| source.contains(block)), "{source}");
            assert!(kernel.abi().scratch_bytes < 4 * 128 * 64, "{} bytes", kernel.abi().scratch_bytes);
            kernel_keeps_bits(&kernel, &options);
        }
    }
}

/// `y := x · w + b`, with accumulators in `f32`.
fn dense(x: &str, w: &str, y: &str, [m, k, n]: [usize; 3]) -> LoweredRoutine {
    let factor = |node: &str, dtype: &str| match dtype {
        "f32" => node.to_owned(),
        _ => format!("convert f32({node})"),
    };
    let sum = "l0 + %3[i1]";
    let stored = if y == "f32" { sum.to_owned() } else { format!("convert {y}({sum})") };
    parse(&format!(
        "routine @dense fast {{
          node %0 \"x\" {x}[{m}, {k}] on_device
          node %1 \"w\" {w}[{k}, {n}] on_device
          node %2 \"y\" {y}[{m}, {n}] on_device
          node %3 \"b\" f32[{n}] on_device
          for i0 in 0..{m} {{ for i1 in 0..{n} {{
            declare l0 f32[] register
            for i2 in 0..{k} {{ l0 := l0 + {} * {} }}
            %2[i0, i1] := {stored}
          }} }}
        }}",
        factor("%0[i0, i2]", x),
        factor("%1[i2, i1]", w),
    ))
}

#[test]
fn products_of_half_precision_with_sums_in_f32_are_planned() {
    for (x, w, y) in [
        ("f16", "f16", "f32"),
        ("bf16", "bf16", "f32"),
        ("f16", "bf16", "f32"),
        ("f32", "f16", "f32"),
        ("bf16", "f32", "f32"),
        ("f16", "f16", "f16"),
        ("bf16", "bf16", "bf16"),
    ] {
        for size @ [m, k, n] in [[24, 40, 16], [13, 70, 37], [64, 9, 100]] {
            let routine = dense(x, w, y, size);
            assert!(is_planned(&routine, &format!("{m}x{n}x{k}")), "{x} {w} {y} {size:?}");
            keeps_bits(&routine);
        }
    }
}

/// `y := (x · w + b) · 0.5`, with operands of 8 bits and accumulators in `i32`.
fn quantized([x, w]: [&str; 2], left: &str, right: &str, [m, k, n]: [usize; 3]) -> LoweredRoutine {
    parse(&format!(
        "routine @quantized fast {{
          node %0 \"x\" {x}[{m}, {k}] on_device
          node %1 \"w\" {w}[{k}, {n}] on_device
          node %2 \"y\" f32[{m}, {n}] on_device
          node %3 \"b\" i32[{n}] on_device
          for i0 in 0..{m} {{ for i1 in 0..{n} {{
            declare l0 i32[] register
            for i2 in 0..{k} {{ l0 := l0 + {left} * {right} }}
            %2[i0, i1] := convert f32(l0 + %3[i1]) * 0.5f32
          }} }}
        }}"
    ))
}

#[test]
fn products_of_bytes_with_sums_in_i32_are_planned() {
    for types in [["u8", "i8"], ["i8", "i8"], ["u8", "u8"], ["i8", "u8"]] {
        for size @ [m, k, n] in [[24, 40, 16], [13, 70, 37], [64, 9, 100]] {
            let [left, right] = ["convert i32(%0[i0, i2])", "convert i32(%1[i2, i1])"];
            let routine = quantized(types, left, right, size);
            assert!(is_planned(&routine, &format!("{m}x{n}x{k}")), "{types:?} {size:?}");
            keeps_bits(&routine);
            keeps_bits(&LoweredRoutine { numerics: lowered_ir::ir::Numerics::Strict, ..routine });
        }
    }
}

/// Constants that are subtracted from bytes are taken out of the sums.
#[test]
fn products_of_bytes_with_zero_points_are_planned() {
    let [left, right] = ["convert i32(%0[i0, i2])", "convert i32(%1[i2, i1])"];
    let moved = |factor: &str, by: &str| format!("({factor} {by}i32)");
    for [x, w] in [["- 3", ""], ["", "+ 128"], ["+ -7", "- -128"], ["- 300", "- 2147483647"]] {
        let [left, right] = [(left, x), (right, w)]
            .map(|(factor, by)| if by.is_empty() { factor.into() } else { moved(factor, by) });
        for types in [["u8", "i8"], ["i8", "i8"]] {
            let routine = quantized(types, &left, &right, [24, 40, 16]);
            assert!(is_planned(&routine, "24x16x40"), "{x} {w}");
            keeps_bits(&routine);
        }
    }
}

/// Pixels outside of the image are a zero point, and sums begin with the channels, which are contiguous.
#[test]
fn convolutions_of_bytes_are_planned() {
    for outside in [0, -128, 5] {
        let routine = parse(&format!(
            "routine @convolution fast {{
              node %0 \"x\" i8[9, 9, 8] on_device
              node %1 \"w\" i8[3, 3, 2, 24, 4] on_device
              node %2 \"y\" i32[9, 9, 24] on_device
              for i0 in 0..9 {{ for i1 in 0..9 {{ for i2 in 0..24 {{
                declare l0 i32[] register
                for i3 in 0..2 {{ for i4 in 0..4 {{ for i5 in 0..3 {{ for i6 in 0..3 {{
                  l0 := l0 + convert i32(guarded(0 <= i0 + i5 - 1 < 9, 0 <= i1 + i6 - 1 < 9, %0[i0 + i5 - 1, i1 + i6 - 1, 4*i3 + i4], {outside}i8)) * convert i32(%1[i5, i6, i3, i2, i4])
                }} }} }} }}
                %2[i0, i1, i2] := l0
              }} }} }}
            }}"
        ));
        assert!(is_planned(&routine, "81x24x72"), "{outside}");
        keeps_bits(&routine);
    }
}

/// Products of other integers have no plans: their factors do not fit 8 bits.
#[test]
fn products_of_wider_integers_are_compiled_as_loops() {
    let wide = quantized(["u16", "i8"], "convert i32(%0[i0, i2])", "convert i32(%1[i2, i1])", [24, 40, 16]);
    let whole = quantized(["i32", "i32"], "%0[i0, i2]", "%1[i2, i1]", [24, 40, 16]);
    for routine in [wide, whole] {
        assert!(
            !is_planned(&routine, "24x16x40") || host_caps(VectorWidth::default()).contractions.is_empty()
        );
        keeps_bits(&routine);
    }
}

/// The product is too small for a plan, so the kernel's own code converts the operands.
#[test]
fn small_products_of_half_precision_are_compiled_as_loops() {
    for dtype in ["f16", "bf16", "fp8_e5m2"] {
        let routine = dense(dtype, dtype, "f32", [5, 7, 9]);
        keeps_bits(&routine);
    }
    assert!(
        !is_planned(&dense("f16", "f16", "f32", [5, 7, 9]), "5x9x7")
            || host_caps(VectorWidth::default()).contractions.is_empty()
    );
}

/// Image pixels in half precision, with zero padding.
#[test]
fn convolutions_of_half_precision_are_planned() {
    let routine = parse(
        "routine @convolution fast {
          node %0 \"x\" f16[2, 3, 12, 12] on_device
          node %1 \"w\" f16[8, 3, 3, 3] on_device
          node %2 \"y\" f32[2, 8, 12, 12] on_device
          for i0 in 0..2 { for i1 in 0..8 { for i2 in 0..12 { for i3 in 0..12 {
            declare l0 f32[] register
            for i4 in 0..3 { for i5 in 0..3 { for i6 in 0..3 {
              l0 := l0 + convert f32(guarded(0 <= i2 + i5 - 1 < 12, 0 <= i3 + i6 - 1 < 12, %0[i0, i4, i2 + i5 - 1, i3 + i6 - 1], 0.0f16)) * convert f32(%1[i1, i4, i5, i6])
            } } }
            %2[i0, i1, i2, i3] := l0
          } } } }
        }",
    );
    assert!(is_planned(&routine, "8x144x27"));
    keeps_bits(&routine);
}

/// Calls divide the iterations of a parallel loop only if this loop is the whole kernel. A parallel loop
/// inside of another loop, or beside another statement, runs whole in each call; so do its contractions.
#[test]
fn parallel_loops_inside_of_others_run_whole() {
    let product = |batch: &str, rows: &str, row: &str, column: &str, sum: &str, depth: &str| {
        format!(
            "for {row} in 0..{rows} parallel {{ for {column} in 0..16 {{
               declare {sum} f32[] register
               for {depth} in 0..16 {{ {sum} := fma(%0[{batch}, {row}, {depth}], %1[{depth}, {column}], {sum}) }}
               %2[{batch}, {row}, {column}] := {sum}
             }} }}"
        )
    };
    let routine = |body: String, batches: u32| {
        parse(&format!(
            "routine @nested fast {{
              node %0 \"x\" f32[{batches}, 16, 16]
              node %1 \"w\" f32[16, 16]
              node %2 \"y\" f32[{batches}, 16, 16]
              {body}
            }}"
        ))
    };
    let inner = product("i0", "16", "i1", "i2", "l0", "i3");
    let one = product("0", "16", "i1", "i2", "l0", "i3");
    let two = product("1", "16", "i5", "i6", "l1", "i7");
    let cases = [
        (routine(format!("for i0 in 0..40 parallel {{ {inner} }}"), 40), 40),
        (routine(format!("for i0 in 0..40 {{ {inner} }}"), 40), 1),
        (routine(format!("for i0 in 0..40 parallel {{ comment \"rows\" {inner} }}"), 40), 40),
        (routine(format!("{one} {two}"), 2), 1),
        (routine(format!("comment \"first\" {one}"), 1), 1),
    ];
    for (ir, extent) in cases {
        let kernel = common::kernel(ir);
        assert_eq!(kernel.abi().launch.extent, extent);
        let memory = filled(kernel.ir(), 3);
        let mut expected = memory.clone();
        interp::run(kernel.ir(), &mut expected, &[]).expect("a valid kernel");
        for options in all_options() {
            let artifact = compile(&kernel, &options).expect("a supported kernel");
            let parts: &[(u64, u64)] = if extent > 1 { &[(17, 40), (0, 17)] } else { &[(0, 1)] };
            let found = common::run_parts(&artifact, &kernel, &memory, &[], parts);
            compare(&kernel, &memory, &expected, &found, &format!("{options:?}"));
        }
    }
}

/// A kernel with the launch of a GPU would be called for iterations that its outermost loop does not have.
#[test]
fn launches_over_nested_loops_are_rejected() {
    let ir = parse(
        "routine @r { node %0 \"x\" f32[4, 5]
      for i0 in 0..4 parallel { for i1 in 0..5 parallel { %0[i0, i1] := 1.0f32 } } }",
    );
    let (ir, abi) = common::kernel(ir).into_parts();
    let launch = codegen_core::Launch { extent: 20, ..abi.launch };
    let kernel = Kernel::new(ir, codegen_core::KernelAbi { launch, ..abi }).expect("a kernel for a GPU");
    let error = compile(&kernel, &CraneliftOptions::default()).expect_err("it is for a GPU");
    assert!(error.to_string().contains("launched over 0..20, expected 0..4 or 0..1"), "{error}");
}

/// Each dimension of a product, and its batch, may end at a symbol.
#[test]
fn products_of_dynamic_extents_are_planned() {
    let ends = ["min(6, @n)", "min(40, @n)", "min(48, 2*@n)", "min(32, @n + 3)"];
    for dynamic in 0..4 {
        let end = |at: usize, constant: i64| match at == dynamic {
            true => ends[at].to_owned(),
            false => constant.to_string(),
        };
        let routine = parse(&format!(
            "routine @batch fast {{
              symbol @n in 0..50
              node %0 \"x\" f32[6, 40, 32] on_device
              node %1 \"w\" f32[6, 32, 48] on_device
              node %2 \"y\" f32[6, 40, 48] on_device
              for i0 in 0..{} {{ for i1 in 0..{} {{ for i2 in 0..{} {{
                declare l0 f32[] register
                for i3 in 0..{} {{ l0 := fma(%0[i0, i1, i3], %1[i0, i3, i2], l0) }}
                %2[i0, i1, i2] := max(l0, 0.0f32)
              }} }} }}
            }}",
            end(0, 6),
            end(1, 40),
            end(2, 48),
            end(3, 32),
        ));
        assert!(is_planned(&routine, "40x48x32"), "dimension {dynamic}");
        for options in all_options() {
            let codegen = cranelift(options.clone()).expect("a host target");
            let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default());
            let RoutineParts { symbols, kernels, calls, .. } =
                scheduled.expect("the host computes everything").into_parts();
            let ([kernel], [call]) = (&kernels[..], &calls[..]) else { panic!("one kernel") };
            let artifact = compile(kernel, &options).expect("scheduled kernels compile");
            let memory = filled(kernel.ir(), 7);
            for n in [0, 1, 5, 17, 29, 40, 49] {
                let values = Symbol::values(&symbols, &[n]);
                let bindings: Vec<i64> = call.bindings.iter().map(|binding| binding.value(&values)).collect();
                let mut expected = memory.clone();
                interp::run(kernel.ir(), &mut expected, &bindings).expect("scheduled routines run");
                let found = run_native(&artifact, kernel, &memory, &bindings);
                compare(kernel, &memory, &expected, &found, &format!("@n = {n}, {options:?}"));
            }
        }
    }
}
