//! Matmuls of 16-bit floats run on tensor cores together with their prologue and epilogue, and give the
//! results of the IR, on whole numbers with exact sums.

use crate::common::device;

use codegen_ptx::{PtxOptions, Target, TensorCoreInstructions, ptx};
use codegen_testkit::Outcome;
use filetests::RunCase;
use lowered_ir::pipeline::{self, optimize};
use ptx_sim::ExecutionOrder;
use scheduling::{ScheduleOptions, schedule};
use tnode::{DType, Scalar};

/// A routine, whether its products run on tensor cores, and its number of kernels if they do.
struct MatmulProgram {
    text: String,
    on_cores: bool,
    kernels: usize,
}

/// A routine that adds the matmul of `a` and `b`, whose elements are of type `dtype`, to `c`, and then
/// executes `after`.
fn program(dtype: &str, dims: [&str; 3], sizes: [i64; 4], [a, b, c]: [&str; 3], after: &str) -> String {
    let [dims_a, dims_b, dims_c] = dims;
    let [batch, rows, columns, depth] = sizes;
    format!(
        "routine @matmul fast {{
           node %0 \"a\" {dtype}{dims_a} on_device
           node %1 \"b\" {dtype}{dims_b} on_device
           node %2 \"c\" f32{dims_c} on_device
           node %3 \"bias\" f32[{columns}] on_device
           for i3 in 0..{batch} {{
             for i0 in 0..{rows} {{
               for i1 in 0..{columns} {{
                 for i2 in 0..{depth} {{
                   %2[{c}] := %2[{c}] + convert f32(%0[{a}]) * convert f32(%1[{b}])
                 }}
               }}
             }}
           }}
           {after}
         }}"
    )
}

fn run(program: &MatmulProgram, target: Target) {
    run_with(program, target, PtxOptions::default());
}

fn run_with(program: &MatmulProgram, target: Target, options: PtxOptions) {
    let routine = lowered_ir::text::parse(&program.text).unwrap_or_else(|e| panic!("{e}\n{}", program.text));
    let routine = optimize(routine, &pipeline::OptimizeSettings::default()).expect("it is optimized").routine;
    let case = RunCase::filled(routine, Vec::new(), |_, at| (at * 7919 % 13) as f64 - 6.0);
    let codegen = ptx(target, options.clone());
    let scheduled = schedule(&case.routine, &codegen, &ScheduleOptions::default()).expect("scheduled");
    let rendered = codegen.render(scheduled.kernels()).unwrap_or_else(|e| panic!("{e}"));
    let text = ptx_asm::print(&rendered.module);
    // Hopper uses `wgmma`, except for 32-bit operands.
    let by_warpgroups = target == Target::Sm90a && !options.tf32;
    let instruction = if by_warpgroups { "wgmma.mma_async" } else { "mma.sync" };
    assert_eq!(text.contains(instruction), program.on_cores, "{}\n{text}", program.text);
    assert!(!program.on_cores || rendered.launches.len() == program.kernels, "{text}");
    let outcome = device::run_case(&codegen, &case, ExecutionOrder::Random { seed: 5 });
    assert!(matches!(outcome, Outcome::Passed), "{}\n{outcome:?}", program.text);
}

/// Runs a program with `mma` and with `wgmma`.
fn run_on_cores(text: &str) {
    for target in [Target::Sm80, Target::Sm90a] {
        run(&MatmulProgram { text: text.into(), on_cores: true, kernels: 1 }, target);
    }
}

const PLAIN: [&str; 3] = ["i0, i2", "i2, i1", "i0, i1"];

#[test]
fn both_types_on_every_target() {
    for dtype in ["bf16", "f16"] {
        for target in Target::ALL {
            let text = program(dtype, ["[48, 64]", "[64, 40]", "[48, 40]"], [1, 48, 40, 64], PLAIN, "");
            run(&MatmulProgram { text, on_cores: target >= Target::Sm80, kernels: 1 }, target);
        }
    }
}

#[test]
fn epilogues_run_on_registers() {
    let after = "for i4 in 0..80 { for i5 in 0..72 { %2[i4, i5] := relu(%2[i4, i5] + %3[i5]) } }";
    let text = program("bf16", ["[80, 32]", "[32, 72]", "[80, 72]"], [1, 80, 72, 32], PLAIN, after);
    run_on_cores(&text);
}

#[test]
fn epilogues_may_store_to_another_node() {
    run_on_cores(&stored_elsewhere());
}

/// A matmul whose sums stay local, and an epilogue that adds a bias and stores into another node.
fn stored_elsewhere() -> String {
    let after = "for i4 in 0..80 { for i5 in 0..72 { %4[i4, i5] := convert bf16(%2[i4, i5] + %3[i5]) } }";
    let text = program("bf16", ["[80, 32]", "[32, 72]", "[80, 72]"], [1, 80, 72, 32], PLAIN, after);
    text.replace("f32[80, 72] on_device", "f32[80, 72] local").replace(
        "for i3",
        "node %4 \"d\" bf16[80, 72] on_device
           zero %2
           for i3",
    )
}

/// The PTX for a target, without running it.
fn text_of(program: &str, target: Target) -> String {
    let routine = lowered_ir::text::parse(program).expect("a routine");
    let routine = optimize(routine, &pipeline::OptimizeSettings::default()).expect("it is optimized").routine;
    let codegen = ptx(target, PtxOptions::default());
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).expect("scheduled");
    ptx_asm::print(&codegen.render(scheduled.kernels()).expect("rendered").module)
}

#[test]
fn results_leave_as_tiles_or_in_whole_lines() {
    let text = stored_elsewhere();
    let hopper = text_of(&text, Target::Sm90a);
    assert!(hopper.contains("cp.async.bulk.tensor.2d.global") && !hopper.contains("st.global"), "{hopper}");
    let ampere = text_of(&text, Target::Sm80);
    let stores: Vec<&str> = ampere.lines().filter(|line| line.contains("st.global")).collect();
    assert!(!stores.is_empty() && stores.iter().all(|line| line.contains("v4.b32")), "{ampere}");
}

#[test]
fn results_of_batches_are_tiles_of_more_axes() {
    let dims = ["[3, 32, 24]", "[3, 40, 32]", "[3, 24, 40]"];
    let indices = ["i3, i2, i0", "i3, i1, i2", "i3, i0, i1"];
    let text = program("bf16", dims, [3, 24, 40, 32], indices, "");
    assert!(text_of(&text, Target::Sm90a).contains("cp.async.bulk.tensor.3d.global"));
}

#[test]
fn sums_begin_at_zero_or_with_what_is_there() {
    let text = program("f16", ["[32, 48]", "[48, 64]", "[32, 64]"], [1, 32, 64, 48], PLAIN, "");
    run_on_cores(&text);
    let zeroed = text.replace("for i3 in 0..1 {", "zero %2\n for i3 in 0..1 {");
    run_on_cores(&zeroed);
}

#[test]
fn batches_and_transposed_operands() {
    let dims = ["[3, 32, 24]", "[3, 40, 32]", "[3, 24, 40]"];
    let indices = ["i3, i2, i0", "i3, i1, i2", "i3, i0, i1"];
    let text = program("bf16", dims, [3, 24, 40, 32], indices, "");
    run_on_cores(&text);
}

#[test]
fn batches_of_two_loops_that_are_no_single_one() {
    // Heads lie between positions and features: each operand has an axis for either loop, ordered by its own
    // strides.
    let text = "routine @heads fast {
         node %0 \"q\" bf16[2, 24, 3, 16] on_device
         node %1 \"k\" bf16[2, 40, 3, 16] on_device
         node %2 \"s\" f32[2, 3, 24, 40] on_device
         for i3 in 0..2 {
           for i4 in 0..3 {
             for i0 in 0..24 {
               for i1 in 0..40 {
                 for i2 in 0..16 {
                   %2[i3, i4, i0, i1] :=
                     %2[i3, i4, i0, i1] + convert f32(%0[i3, i0, i4, i2]) * convert f32(%1[i3, i1, i4, i2])
                 }
               }
             }
           }
         }
       }";
    run_on_cores(text);
}

#[test]
fn rows_of_two_loops() {
    // The whole batch shares one operand, so the loop over the batch becomes part of the rows.
    let dims = ["[4, 24, 32]", "[32, 40]", "[4, 24, 40]"];
    let indices = ["i3, i0, i2", "i2, i1", "i3, i0, i1"];
    let text = program("bf16", dims, [4, 24, 40, 32], indices, "");
    run_on_cores(&text);
}

#[test]
fn columns_of_three_loops() {
    // Weights for the queries, keys and values of several heads, and a bias that is as long as they are.
    let text = "routine @heads fast {
         node %0 \"x\" bf16[24, 32] on_device
         node %1 \"w\" bf16[32, 3, 2, 8] on_device
         node %2 \"bias\" f32[3, 2, 8] on_device
         node %3 \"start\" f32[24, 3, 2, 8] on_device
         node %4 \"y\" bf16[24, 3, 2, 8] on_device
         for i0 in 0..24 {
           for i1 in 0..3 {
             for i2 in 0..2 {
               for i3 in 0..8 {
                 for i4 in 0..32 {
                   %3[i0, i1, i2, i3] :=
                     %3[i0, i1, i2, i3] + convert f32(%0[i0, i4]) * convert f32(%1[i4, i1, i2, i3])
                 }
                 %4[i0, i1, i2, i3] := convert bf16(%3[i0, i1, i2, i3] + %2[i1, i2, i3])
               }
             }
           }
         }
       }";
    run_on_cores(text);
    // A bias in another order leaves one loop of 8 columns.
    let bias = text.replace("f32[3, 2, 8]", "f32[8, 2, 3]").replace("%2[i1, i2, i3]", "%2[i3, i2, i1]");
    run(&MatmulProgram { text: bias, on_cores: false, kernels: 1 }, Target::Sm90a);
}

/// A gradient of weights sums over all rows of a batch, and has few tiles: parts of the sums are matmuls too.
#[test]
fn long_sums_of_few_outputs_are_split() {
    let dims = ["[2048, 16]", "[2048, 24]", "[16, 24]"];
    let text = program("bf16", dims, [1, 16, 24, 2048], ["i2, i0", "i2, i1", "i0, i1"], "");
    for target in [Target::Sm80, Target::Sm90a] {
        run(&MatmulProgram { text: text.clone(), on_cores: true, kernels: 2 }, target);
    }
}

#[test]
fn unsuitable_matmuls_do_without_tensor_cores() {
    // Three kinds of matmul are unsuitable: an odd K, class `Strict`, and `f32` without the option `tf32`.
    let odd = program("bf16", ["[32, 33]", "[33, 32]", "[32, 32]"], [1, 32, 32, 33], PLAIN, "");
    run(&MatmulProgram { text: odd, on_cores: false, kernels: 1 }, Target::Sm80);
    let whole = program("bf16", ["[32, 32]", "[32, 32]", "[32, 32]"], [1, 32, 32, 32], PLAIN, "");
    run(&MatmulProgram { text: whole.replace("fast", "strict"), on_cores: false, kernels: 1 }, Target::Sm80);
    let single = whole.replace("convert f32", "").replace("bf16", "f32");
    run(&MatmulProgram { text: single, on_cores: false, kernels: 1 }, Target::Sm80);
}

#[test]
fn tensor_cores_may_be_forbidden() {
    let text = program("bf16", ["[32, 32]", "[32, 32]", "[32, 32]"], [1, 32, 32, 32], PLAIN, "");
    let routine = lowered_ir::text::parse(&text).expect("a routine");
    let options = PtxOptions { tensor_cores: TensorCoreInstructions::Off, ..PtxOptions::default() };
    let codegen = ptx(Target::Sm90a, options);
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).expect("scheduled");
    let rendered = codegen.render(scheduled.kernels()).expect("rendered");
    assert!(!ptx_asm::print(&rendered.module).contains("mma.sync"));
}

#[test]
fn single_precision_is_multiplied_on_request() {
    let options = PtxOptions { tf32: true, ..PtxOptions::default() };
    let indices = [["i0, i2", "i1, i2", "i0, i1"], ["i2, i0", "i2, i1", "i0, i1"]];
    for (dims, indices) in
        [["[48, 64]", "[40, 64]", "[48, 40]"], ["[64, 48]", "[64, 40]", "[48, 40]"]].into_iter().zip(indices)
    {
        let text = program("f32", dims, [1, 48, 40, 64], indices, "").replace("convert f32", "");
        run_with(&MatmulProgram { text, on_cores: true, kernels: 1 }, Target::Sm80, options.clone());
    }
    // A copy of 16 bytes has four elements of 32 bits, so sizes need to be multiples of 4 only.
    let dims = ["[48, 60]", "[60, 36]", "[48, 36]"];
    let text = program("f32", dims, [1, 48, 36, 60], PLAIN, "").replace("convert f32", "");
    run_with(
        &MatmulProgram { text: text.clone(), on_cores: true, kernels: 1 },
        Target::Sm90a,
        options.clone(),
    );
    run_with(
        &MatmulProgram { text: text.clone(), on_cores: false, kernels: 1 },
        Target::Sm70,
        options.clone(),
    );
    run_with(
        &MatmulProgram { text: text.replace("fast", "strict"), on_cores: false, kernels: 1 },
        Target::Sm80,
        options,
    );
}

#[test]
fn inputs_are_exact_in_16_bits() {
    // The inputs are exact in every type, so that comparisons are meaningful.
    for dtype in [DType::Bf16, DType::F16] {
        for whole in -6..=6 {
            assert_eq!(Scalar::from_f64(dtype, f64::from(whole)).as_f64(), f64::from(whole));
        }
    }
}
