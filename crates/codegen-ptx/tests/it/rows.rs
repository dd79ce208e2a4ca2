//! Row operations read memory once, 16 bytes at a time, keep rows in registers, and take one barrier per
//! reduction.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common::device;

use codegen_core::{Access, Param};
use codegen_ptx::{PtxOptions, Target, ptx};
use codegen_testkit::{assembler::CudaTools, gpu};
use ptx_sim::{ExecutionOrder, KernelStats};
use scheduling::{ScheduleOptions, schedule};
use tnode::{DType, Scalar};

/// The program and statistics of a routine with one kernel.
struct KernelRun {
    text: String,
    stats: KernelStats,
    threads: u32,
    blocks: u32,
}

impl KernelRun {
    /// Average loads and stores of global memory per thread, and sectors accessed.
    fn global(&self) -> [(f64, u64); 2] {
        let threads = f64::from(self.threads * self.blocks);
        let of = |kind: &str| {
            let ran: u64 = self.stats.insts.iter().filter(|i| i.opcode == kind).map(|i| i.threads).sum();
            (ran as f64 / threads, self.stats.sectors(kind))
        };
        [of("load.global"), of("store.global")]
    }

    fn barriers(&self) -> usize {
        self.text.matches("bar.sync").count()
    }
}

/// Runs the kernels of a routine in several execution orders and compares the results with the interpreter of
/// the IR.
fn runs(text: &str) -> Vec<KernelRun> {
    let codegen = ptx(Target::Sm90a, PtxOptions::default());
    let routine = lowered_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).unwrap();
    let rendered = codegen.render(scheduled.kernels()).unwrap();
    let run = |(at, kernel): (usize, &codegen_core::Kernel)| {
        let ir = lowered_ir::text::print(kernel.ir());
        lowered_ir::verify::verify(kernel.ir()).unwrap_or_else(|e| panic!("{e}\n{ir}"));
        let fill = |(param, decl): (&Param, &lowered_ir::ir::NodeDecl)| {
            let elements = decl.dims.iter().product::<usize>();
            let mut bytes = vec![0; elements * decl.dtype.size_bytes()];
            if !matches!(param, Param::Node { access: Access::Write, .. }) {
                let each = bytes.chunks_exact_mut(decl.dtype.size_bytes()).enumerate();
                each.for_each(|(at, e)| value(decl.dtype, at).write(e).unwrap());
            }
            bytes
        };
        let args: Vec<Vec<u8>> = kernel.abi().params.iter().zip(&kernel.ir().nodes).map(fill).collect();
        let defined = device::defined(kernel, args.clone(), &[]).unwrap();
        let run =
            |seed| device::run_kernel(&rendered, at, kernel, &args, &[], ExecutionOrder::Random { seed });
        let results: Vec<device::KernelResult> = (0..2).map(|seed| run(seed).unwrap()).collect();
        results.iter().for_each(|ran| assert!(ran.memory == defined, "{ir}"));
        let module = ptx_asm::PtxProgram {
            target: rendered.module.target,
            kernels: vec![rendered.module.kernels[at].clone()],
        };
        let (launch, stats) = (&rendered.launches[at], results[0].stats.clone());
        KernelRun { text: ptx_asm::print(&module), stats, threads: launch.threads, blocks: launch.blocks }
    };
    scheduled.kernels().iter().enumerate().map(run).collect()
}

/// Runs a routine with a single kernel.
fn run(text: &str) -> KernelRun {
    let mut all = runs(text);
    assert_eq!(all.len(), 1, "{text}");
    all.pop().unwrap()
}

fn value(dtype: DType, at: usize) -> Scalar {
    Scalar::from_f64(dtype, (at * 37 % 101) as f64 / 16.0 - 3.0)
}

fn softmax(dtype: &str, rows: usize, columns: usize) -> String {
    let cast =
        |to: &str, value: String| if dtype == "f32" { value } else { format!("convert {to}({value})") };
    let x = |row: usize| cast("f32", format!("%0[i{row}, i{}]", row + 1));
    format!(
        "routine @softmax fast {{
           node %0 \"x\" {dtype}[{rows}, {columns}] on_device
           node %1 \"m\" f32[{rows}] local
           node %2 \"e\" f32[{rows}, {columns}] local
           node %3 \"s\" f32[{rows}] local
           node %4 \"y\" {dtype}[{rows}, {columns}] on_device
           for i0 in 0..{rows} {{ %1[i0] := -inff32 }}
           for i1 in 0..{rows} {{ for i2 in 0..{columns} {{ %1[i1] := max({}, %1[i1]) }} }}
           for i3 in 0..{rows} {{ for i4 in 0..{columns} {{ %2[i3, i4] := exp({} - %1[i3]) }} }}
           zero %3
           for i5 in 0..{rows} {{ for i6 in 0..{columns} {{ %3[i5] := %3[i5] + %2[i5, i6] }} }}
           for i7 in 0..{rows} {{ for i8 in 0..{columns} {{ %4[i7, i8] := {} }} }}
         }}",
        x(1),
        x(3),
        cast(dtype, "%2[i7, i8] / %3[i7]".to_owned()),
    )
}

#[test]
fn a_row_is_read_once_and_written_once() {
    let found = run(&softmax("f32", 3, 4096));
    assert_eq!((found.blocks, found.threads), (3, 256), "{}", found.text);
    // Four vectors of four elements per thread; a sector has eight elements.
    assert_eq!(found.global(), [(4.0, 3 * 4096 / 8), (4.0, 3 * 4096 / 8)], "{}", found.text);
    assert_eq!((found.barriers(), found.text.matches("local").count()), (2, 0), "{}", found.text);
}

#[test]
fn long_rows_take_more_threads_up_to_a_limit() {
    let codegen = ptx(Target::Sm90a, PtxOptions::default());
    for (columns, threads, loads) in
        [(8192, 512, 4), (16_384, 1024, 4), (20_480, 1024, 5), (32_768, 256, 3 * 32)]
    {
        let routine = lowered_ir::text::parse(&softmax("f32", 1024, columns)).unwrap();
        let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).unwrap();
        let rendered = codegen.render(scheduled.kernels()).unwrap();
        let text = ptx_asm::print(&rendered.module);
        assert_eq!((rendered.launches.len(), rendered.launches[0].threads), (1, threads), "{columns}");
        let found = text.matches("ld.global").count();
        assert!(if loads > 5 { text.contains("bra") } else { found == loads }, "{columns}: {found}");
    }
}

#[test]
fn halves_are_cached_by_eights_and_wide_floats_by_pairs() {
    // The exponentials are floats of 4 bytes, so vectors have four elements.
    let found = run(&softmax("f16", 2, 2048));
    assert_eq!(found.global(), [(2.0, 2 * 2048 / 16), (2.0, 2 * 2048 / 16)], "{}", found.text);
    let scaled = |dtype: &str, columns: usize| {
        format!(
            "routine @scaled fast {{
               node %0 \"x\" {dtype}[2, {columns}] on_device
               node %1 \"s\" {dtype}[2] local
               node %2 \"y\" {dtype}[2, {columns}] on_device
               zero %1
               for i1 in 0..2 {{ for i2 in 0..{columns} {{ %1[i1] := %1[i1] + %0[i1, i2] }} }}
               for i7 in 0..2 {{ for i8 in 0..{columns} {{ %2[i7, i8] := %0[i7, i8] * %1[i7] }} }}
             }}"
        )
    };
    for (dtype, columns, each) in [("f16", 4096, 2.0), ("f64", 1024, 2.0), ("i32", 1024, 1.0)] {
        let found = run(&scaled(dtype, columns));
        let bytes = 2
            * columns
            * if dtype == "f16" {
                2
            } else if dtype == "f64" {
                8
            } else {
                4
            };
        let sectors = bytes as u64 / 32;
        assert_eq!(found.global(), [(each, sectors), (each, sectors)], "{dtype}: {}", found.text);
    }
    // There are no wide accesses to bytes.
    let found = run(&scaled("u8", 1024));
    assert_eq!(found.stats.bytes("load.global"), 2 * 1024, "{}", found.text);
}

#[test]
fn several_rows_stay_in_registers_at_once() {
    let found = run("routine @norms fast {
           node %0 \"a\" f32[2, 2048] on_device
           node %1 \"b\" f32[2, 2048] on_device
           node %2 \"g\" f32[2048] on_device
           node %3 \"s\" f32[2] local
           node %4 \"t\" f32[2] local
           node %5 \"y\" f32[2, 2048] on_device
           zero %3
           for i0 in 0..2 { for i1 in 0..2048 { %3[i0] := %3[i0] + %0[i0, i1] * %1[i0, i1] } }
           zero %4
           for i2 in 0..2 { for i3 in 0..2048 {
             %4[i2] := %4[i2] + (%0[i2, i3] - %3[i2]) * (%0[i2, i3] - %3[i2])
           } }
           for i4 in 0..2 { for i5 in 0..2048 {
             %5[i4, i5] := (%0[i4, i5] - %3[i4]) * %4[i4] * %2[i5] + %1[i4, i5]
           } }
         }");
    // A thread loads its part of two rows and of the operand that scales them.
    assert_eq!(found.global(), [(6.0, 3 * 2 * 2048 / 8), (2.0, 2 * 2048 / 8)], "{}", found.text);
    assert_eq!(found.barriers(), 2, "{}", found.text);
}

#[test]
fn sums_of_rows_read_vectors_from_one_address() {
    let found = run("routine @sums fast {
           node %0 \"x\" f32[64, 8192] on_device
           node %1 \"s\" f32[64] on_device
           zero %1
           for i0 in 0..64 { for i1 in 0..8192 { %1[i0] := %1[i0] + %0[i0, i1] } }
         }");
    assert_eq!(found.global()[0], (4.0, 64 * 8192 / 8), "{}", found.text);
    assert_eq!((found.text.matches("mad.wide").count(), found.barriers()), (2, 1), "{}", found.text);
}

#[test]
fn the_rest_of_a_row_stays_in_registers_of_some_threads() {
    for columns in [1000, 1028, 4 * 300 + 4, 1001] {
        let found = run(&softmax("f32", 2, columns));
        let [(_, read), (_, written)] = found.global();
        let least = 2 * (columns as u64).div_ceil(8);
        assert!((least..=least + 130).contains(&read), "{columns}: {read} sectors, least {least}");
        assert!((least..=least + 130).contains(&written), "{columns}: {written} sectors");
        let asked = found.stats.bytes("load.global");
        assert_eq!(asked, 2 * 4 * columns as u64, "{columns}");
    }
}

/// Each row minus its mean, divided by its deviation, scaled and shifted per column.
fn layer_norm(rows: usize, columns: usize) -> String {
    format!(
        "routine @norm fast {{
           node %0 \"x\" f32[{rows}, {columns}] on_device
           node %1 \"m\" f32[{rows}] local
           node %2 \"v\" f32[{rows}] local
           node %3 \"g\" f32[{columns}] on_device
           node %4 \"b\" f32[{columns}] on_device
           node %5 \"y\" f32[{rows}, {columns}] on_device
           zero %1
           for i0 in 0..{rows} {{ for i1 in 0..{columns} {{ %1[i0] := %1[i0] + %0[i0, i1] * 0.001f32 }} }}
           zero %2
           for i2 in 0..{rows} {{ for i3 in 0..{columns} {{
             %2[i2] := %2[i2] + (%0[i2, i3] - %1[i2]) * (%0[i2, i3] - %1[i2])
           }} }}
           for i4 in 0..{rows} {{ for i5 in 0..{columns} {{
             %5[i4, i5] := (%0[i4, i5] - %1[i4]) * recip_sqrt(%2[i4] * 0.001f32 + 1e-5f32) * %3[i5] + %4[i5]
           }} }}
         }}"
    )
}

#[test]
fn a_row_to_be_normalized_is_read_once() {
    let found = run(&layer_norm(2, 2048));
    // A thread loads its part of a row, and of the two rows that scale and shift it.
    assert_eq!(found.global(), [(6.0, 3 * 2 * 2048 / 8), (2.0, 2 * 2048 / 8)], "{}", found.text);
    assert_eq!(found.barriers(), 2, "{}", found.text);
}

#[test]
fn results_that_other_threads_read_are_combined_by_warps() {
    let found = run("routine @sums fast {
           node %0 \"x\" f32[3, 28, 28] on_device
           node %1 \"s\" f32[3] on_device
           zero %1
           for i0 in 0..3 { for i1 in 0..28 { for i2 in 0..28 { %1[i0] := %1[i0] + %0[i0, i1, i2] } } }
         }");
    // The threads add the 28 × 28 elements in four parts of at most 16 × 16 elements. There is a barrier
    // after each part, and one between the reductions by warps and the sum of their results.
    assert_eq!((found.threads, found.text.matches("shfl.sync").count()), (256, 7), "{}", found.text);
    assert_eq!(found.barriers(), 5, "{}", found.text);
}

#[test]
fn register_resident_rows_leave_room_for_several_blocks() {
    let Some(tools) = gpu::or_skip("assembling rows", CudaTools::find()) else { return };
    let rows = [("f32", 8192), ("f32", 8188), ("f16", 8192), ("f32", 24_576)];
    let softmaxes = rows.map(|(dtype, columns)| softmax(dtype, 1024, columns));
    let norms = [8192, 24_576].map(|columns| layer_norm(1024, columns));
    for (target, text) in Target::ALL.into_iter().cycle().zip(softmaxes.iter().chain(&norms)) {
        let codegen = ptx(target, PtxOptions::default());
        let routine = lowered_ir::text::parse(text).unwrap();
        let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).unwrap();
        let rendered = codegen.render(scheduled.kernels()).unwrap();
        let text = ptx_asm::print(&rendered.module);
        for (name, made) in tools.assemble(&text, target.name()).unwrap() {
            let what = format!("{name} for {}: {made:?}\n{text}", target.name());
            assert_eq!((made.spilled_bytes, made.stack_bytes), (0, 0), "{what}");
            assert!(made.registers <= 64, "{what}");
        }
    }
}
