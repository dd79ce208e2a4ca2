//! Attention runs as one kernel that stores no scores, and gives what the statements give, up to the rounding
//! of its weights.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common::device;

use codegen_core::ScheduledRoutine;
use codegen_ptx::{PtxOptions, Target, ptx};
use codegen_testkit::{assembler::CudaTools, gpu};
use filetests::RunCase;
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::LoweredRoutine;
use ptx_sim::ExecutionOrder;
use scheduling::{ScheduleOptions, schedule};
use tnode::{DType, Scalar};

/// The statements of an attention.
struct Program {
    dtype: &'static str,
    /// Heads, rows, positions, elements of a query and of a value.
    sizes: [usize; 5],
    /// The end of the loops over positions, of row `i1`.
    end: String,
    /// The factor of queries.
    factor: &'static str,
    /// What is maximized, as a function of the score.
    score: fn(&str) -> String,
    /// The weight, as a function of the score and the maximum.
    weight: fn(&str, &str) -> String,
    /// Whether weights have 16 bits.
    is_rounded: bool,
    /// Whether weights are divided by their total before the sum.
    is_normalized: bool,
}

fn same(score: &str) -> String {
    score.into()
}

fn exponential(score: &str, greatest: &str) -> String {
    format!("exp({score} - {greatest})")
}

/// Attention over all positions.
fn plain(dtype: &'static str, sizes: [usize; 5]) -> Program {
    let end = sizes[2].to_string();
    Program {
        dtype,
        sizes,
        end,
        factor: "0.25f32",
        score: same,
        weight: exponential,
        is_rounded: true,
        is_normalized: false,
    }
}

impl Program {
    fn text(&self) -> String {
        let Program { dtype, sizes: [h, m, n, c, d], end, factor, .. } = self;
        let narrow = if self.is_rounded { dtype } else { "f32" };
        let wide = |e: &str| if self.is_rounded { format!("convert f32({e})") } else { e.into() };
        let stored = |e: String| if self.is_rounded { format!("convert {dtype}({e})") } else { e };
        let weight = stored((self.weight)("%3[i0, i1, i2]", "%4[i0, i1]"));
        let score = (self.score)("%3[i0, i1, i2]");
        let (e, e_wide) = ("%5[i0, i1, i2]", wide("%5[i0, i1, i2]"));
        let (normalized, factor_of_values, result) = match self.is_normalized {
            false => (String::new(), e_wide.clone(), "l3 / %6[i0, i1]"),
            true => (
                format!(
                    "for i0 in 0..{h} {{ for i1 in 0..{m} {{ for i2 in 0..{end} {{
                       %7[i0, i1, i2] := {} }} }} }}",
                    stored(format!("{e_wide} / %6[i0, i1]"))
                ),
                wide("%7[i0, i1, i2]"),
                "l3",
            ),
        };
        let around = format!("for i0 in 0..{h} {{ for i1 in 0..{m} {{");
        let routine = format!(
            "routine @attention fast {{
               node %0 \"q\" {dtype}[{h}, {m}, {c}] on_device
               node %1 \"k\" {dtype}[{h}, {n}, {c}] on_device
               node %2 \"v\" {dtype}[{h}, {n}, {d}] on_device
               node %3 \"s\" f32[{h}, {m}, {n}] local
               node %4 \"top\" f32[{h}, {m}] local
               node %5 \"e\" {narrow}[{h}, {m}, {n}] local
               node %6 \"sum\" f32[{h}, {m}] local
               node %7 \"p\" {narrow}[{h}, {m}, {n}] local
               node %8 \"mask\" f32[{h}, {n}] on_device
               node %9 \"y\" f32[{h}, {m}, {d}] on_device
               zero %3
               zero %5
               {around} for i2 in 0..{end} {{ declare l0 f32[] register l0 := 0.0f32
                 for i3 in 0..{c} {{
                   l0 := fma(convert f32(%0[i0, i1, i3]) * {factor}, convert f32(%1[i0, i2, i3]), l0)
                 }}
                 %3[i0, i1, i2] := l0 }} }} }}
               {around} declare l1 f32[] register l1 := -inff32
                 for i2 in 0..{end} {{ l1 := max({score}, l1) }}
                 %4[i0, i1] := l1 }} }}
               {around} for i2 in 0..{end} {{ {e} := {weight} }} }} }}
               {around} declare l2 f32[] register l2 := 0.0f32
                 for i2 in 0..{end} {{ l2 := l2 + {e_wide} }}
                 %6[i0, i1] := l2 }} }}
               {normalized}
               {around} for i4 in 0..{d} {{ declare l3 f32[] register l3 := 0.0f32
                 for i2 in 0..{end} {{
                   l3 := fma({factor_of_values}, convert f32(%2[i0, i2, i4]), l3)
                 }}
                 %9[i0, i1, i4] := {result} }} }} }}
             }}"
        );
        // Each loop has a variable of its own.
        renumbered(&routine)
    }
}

/// The text with a variable of its own for each loop.
fn renumbered(text: &str) -> String {
    let mut next = 10;
    let mut own = [0; 5];
    let mut words: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['i']) {
        let (before, from) = rest.split_at(at);
        let is_name = before.chars().last().is_none_or(|c| !c.is_alphanumeric())
            && from[1..].starts_with(|c: char| c.is_ascii_digit())
            && !from[2..].starts_with(|c: char| c.is_ascii_digit());
        words.push(before.into());
        if !is_name {
            words.push("i".into());
            rest = &from[1..];
            continue;
        }
        let number: usize = from[1..2].parse().unwrap();
        if before.ends_with("for ") {
            own[number] = next;
            next += 1;
        }
        words.push(format!("i{}", own[number]));
        rest = &from[2..];
    }
    words.push(rest.into());
    words.concat()
}

fn routine(text: &str) -> LoweredRoutine {
    let routine = lowered_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    lowered_ir::verify::verify(&routine).unwrap_or_else(|e| panic!("{e}\n{text}"));
    routine
}

fn scheduled(routine: &LoweredRoutine, target: Target) -> ScheduledRoutine {
    schedule(routine, &ptx(target, PtxOptions::default()), &ScheduleOptions::default()).unwrap()
}

/// Bytes of random elements for each node; the mask is -inf for some.
fn inputs(routine: &LoweredRoutine) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut of = |name: &str, dtype: DType, elements: usize| -> Vec<u8> {
        let mut bytes = vec![0; elements * dtype.size_bytes()];
        for element in bytes.chunks_exact_mut(dtype.size_bytes()) {
            let unit = random.f64();
            let value = match name {
                "mask" if unit < 0.3 => f64::NEG_INFINITY,
                "mask" => unit,
                _ => 4.0 * unit - 2.0,
            };
            Scalar::from_f64(dtype, value).write(element).unwrap();
        }
        bytes
    };
    routine.nodes.iter().map(|decl| of(&decl.name, decl.dtype, decl.dims.iter().product())).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

/// Runs a routine as one kernel on the simulated GPU, and compares the last node with the interpreter.
fn run(text: &str, tolerance: f32, order: ExecutionOrder) {
    let routine = routine(text);
    let nodes = inputs(&routine);
    let mut memory = Memory { merge: None, nodes: nodes.clone() };
    interp::run(&routine, &mut memory, &[]).unwrap();
    let expected = floats(memory.nodes.last().unwrap());
    for target in [Target::Sm80, Target::Sm90a] {
        let scheduled = scheduled(&routine, target);
        let [kernel] = scheduled.kernels() else { panic!("{} kernels: {text}", scheduled.kernels().len()) };
        let ir = lowered_ir::text::print(kernel.ir());
        lowered_ir::verify::verify(kernel.ir()).unwrap_or_else(|e| panic!("{e}\n{ir}"));
        let rendered = ptx(target, PtxOptions::default()).render(scheduled.kernels()).unwrap();
        assert!(ptx_asm::print(&rendered.module).contains("mma.sync"), "{ir}");
        let case =
            RunCase { inputs: nodes.clone(), ..RunCase::filled(routine.clone(), Vec::new(), |_, _| 0.0) };
        let ran = filetests::run_calls(&scheduled, &case, |at, args, bindings| {
            // The kernel is itself a definition, with another order of the sums.
            let defined = device::defined(kernel, args.clone(), bindings)?;
            let ran = device::run_kernel(&rendered, at, kernel, &args, bindings, order)?;
            for (found, defined) in ran.memory.iter().zip(&defined).skip(args.len() - 1) {
                assert_close(&floats(found), &floats(defined), tolerance, &ir);
            }
            Ok::<_, String>(ran.memory)
        });
        let ran = ran.unwrap_or_else(|e| panic!("{e}\n{ir}"));
        assert_close(&floats(ran.last().unwrap()), &expected, tolerance, &ir);
    }
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, ir: &str) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let same = (found - expected).abs() <= tolerance || (found.is_nan() && expected.is_nan());
        assert!(same, "element {at}: {found}, not {expected}\n{ir}");
    }
}

const ROUNDED: f32 = 2e-2;
const EXACT: f32 = 2e-5;

#[test]
fn all_positions() {
    for dtype in ["bf16", "f16"] {
        run(&plain(dtype, [2, 64, 128, 64, 64]).text(), ROUNDED, ExecutionOrder::Sequential);
    }
}

#[test]
fn edges_of_rows_and_positions() {
    for sizes in [[1, 50, 70, 32, 32], [3, 16, 16, 16, 16], [1, 130, 65, 64, 32]] {
        run(&plain("bf16", sizes).text(), ROUNDED, ExecutionOrder::Random { seed: 3 });
    }
}

#[test]
fn heads_of_every_size() {
    for (depth, features) in [(24, 40), (80, 96), (128, 128), (192, 128), (256, 256), (64, 256)] {
        run(&plain("bf16", [1, 32, 96, depth, features]).text(), ROUNDED, ExecutionOrder::Sequential);
    }
}

#[test]
fn weights_that_are_not_rounded_are_exact() {
    let program = Program { is_rounded: false, ..plain("bf16", [2, 48, 80, 64, 64]) };
    run(&program.text(), EXACT, ExecutionOrder::Random { seed: 5 });
    let program = Program { is_normalized: true, ..program };
    run(&program.text(), EXACT, ExecutionOrder::Random { seed: 6 });
}

#[test]
fn normalized_weights_of_16_bits() {
    let program = Program { is_normalized: true, ..plain("f16", [2, 48, 80, 64, 64]) };
    run(&program.text(), ROUNDED, ExecutionOrder::Random { seed: 5 });
}

#[test]
fn positions_up_to_a_diagonal() {
    for (rows, positions, behind) in [(100, 100, 1), (64, 128, 64), (40, 200, 161), (150, 64, 1)] {
        let end = format!("min({positions}, i1 + {behind})");
        let program = Program { end, is_rounded: false, ..plain("bf16", [2, rows, positions, 32, 64]) };
        run(&program.text(), EXACT, ExecutionOrder::Random { seed: 8 });
    }
}

#[test]
fn masks_that_are_added_and_masks_that_select() {
    let added = Program {
        is_rounded: false,
        score: |score| format!("{score} + %8[i0, i2]"),
        weight: |score, greatest| format!("exp({score} + %8[i0, i2] - {greatest})"),
        ..plain("bf16", [2, 70, 90, 64, 32])
    };
    run(&added.text(), EXACT, ExecutionOrder::Random { seed: 9 });
    let selected = Program {
        is_rounded: false,
        score: |score| format!("where(index i32(i2) <= index i32(i1), {score}, -inff32)"),
        weight: |score, greatest| {
            format!("where(index i32(i2) <= index i32(i1), exp(({score} - {greatest}) * 0.5f32), 0.0f32)")
        },
        ..plain("bf16", [2, 70, 70, 64, 32])
    };
    run(&selected.text(), EXACT, ExecutionOrder::Random { seed: 9 });
}

#[test]
fn other_programs_store_their_scores() {
    let kernels = |text: &str| scheduled(&routine(text), Target::Sm90a).kernels().len();
    let text = Program { is_rounded: false, ..plain("bf16", [2, 64, 64, 64, 64]) }.text();
    assert_eq!(kernels(&text), 1);
    // Somebody reads the weights, the order of sums is that of the text, or the maximum is another's.
    assert!(kernels(&text.replace("\"e\" f32[2, 64, 64] local", "\"e\" f32[2, 64, 64] on_device")) > 1);
    assert!(kernels(&text.replace("@attention fast", "@attention strict")) > 1);
    assert!(kernels(&text.replace("exp(", "sin(")) > 1);
    assert!(kernels(&text.replace("l1 := -inff32", "l1 := 0.0f32")) > 1);
    let other_row = |score: &str, _: &str| format!("exp({score} - %4[i0, i2])");
    let program = Program { weight: other_row, is_rounded: false, ..plain("bf16", [2, 64, 64, 64, 64]) };
    assert!(kernels(&program.text()) > 1);
    let unrounded = Program { is_rounded: false, ..plain("f16", [2, 64, 64, 64, 64]) }.text();
    assert!(kernels(&unrounded) > 1);
}

#[test]
fn kernels_for_every_target_spill_nothing() {
    let Some(tools) = gpu::or_skip("kernels_for_every_target_spill_nothing", CudaTools::find()) else {
        return;
    };
    for sizes in [[16, 4096, 4096, 128, 128], [16, 4096, 4096, 64, 64], [2, 512, 512, 256, 256]] {
        for is_rounded in [true, false] {
            let end = format!("min({}, i1 + 1)", sizes[2]);
            let program = Program { end, is_rounded, ..plain("bf16", sizes) };
            let routine = routine(&program.text());
            for target in [Target::Sm80, Target::Sm90a] {
                let rendered =
                    ptx(target, PtxOptions::default()).render(scheduled(&routine, target).kernels()).unwrap();
                let text = ptx_asm::print(&rendered.module);
                let made = tools.assemble(&text, target.name()).unwrap_or_else(|e| panic!("{e}\n{text}"));
                for (name, kernel) in made {
                    assert_eq!(kernel.spilled_bytes, 0, "{sizes:?} {name} for {}", target.name());
                }
            }
        }
    }
}
