//! Random programs on matrices: with transposes through shared memory, tiles, asynchronous copies and tensor
//! cores, results are those of the unscheduled program.
//!
//! Numbers are integers, or floats with small whole values, for which every sum and product is exact, so that
//! their order does not matter. Programs of class `Strict` have arbitrary floats, since their order is fixed.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common::programs;

mod contractions;
mod extents;
mod nests;
mod program;
mod values;

use std::collections::BTreeMap;

use codegen_ptx::{PtxOptions, Target, ptx};
use scheduling::{ScheduleOptions, schedule};

use program::MatrixProgram;

/// Runs the program of a seed.
fn check(seed: u64) {
    let (codegen, text) = MatrixProgram::new(seed).finish();
    programs::check(&codegen, &text, seed);
}

#[test]
fn programs_on_matrices_keep_their_results() {
    for seed in filetests::effort::seeds(4) {
        check(seed);
    }
}

/// Number of scheduling decisions that are counted.
const WAYS: usize = 9;

/// The scheduling decisions that the kernels of a program show.
fn ways(seed: u64) -> Vec<&'static str> {
    let (codegen, text) = MatrixProgram::new(seed).finish();
    let routine = lowered_ir::text::parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).unwrap();
    let rendered = codegen.render(scheduled.kernels()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
    let code = ptx_asm::print(&rendered.module);
    let shared = |ir: &str| ir.matches(" workgroup\n").count();
    let mut found = Vec::new();
    for kernel in scheduled.kernels() {
        let ir = lowered_ir::text::print(kernel.ir());
        let (shared, has_own) = (shared(&ir), ir.contains(" thread\n"));
        found.extend(ir.contains("[32, 33] workgroup").then_some("transposed"));
        found.extend((has_own && shared == 2).then_some("tiles"));
        found.extend((has_own && shared == 4).then_some("tiles read ahead"));
    }
    let signs = [
        ("mma", "mma.sync"),
        ("warps' copies", "cp.async.cg"),
        ("wgmma", "wgmma.mma_async"),
        ("tiles of results", "cp.async.bulk.tensor.2d.global"),
        ("trees", "shfl.sync"),
    ];
    found.extend(signs.into_iter().filter(|(_, sign)| code.contains(sign)).map(|(way, _)| way));
    found.extend(rendered.launches.iter().any(|launch| launch.cluster > 1).then_some("clusters"));
    found.extend(scheduled.nodes().iter().any(|node| node.name.starts_with("part")).then_some("stages"));
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn programs_take_every_scheduling_decision() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..96 {
        ways(seed).into_iter().for_each(|way| *seen.entry(way).or_default() += 1);
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), WAYS, "{seen:?}");
}

/// The partial tile at the end of the matrix has one thread per row and several threads per column, so the
/// store after it has a loop of its own.
#[test]
fn a_store_follows_a_partial_tile_of_several_threads() {
    let text = "routine @tiles fast {
                  node %0 \"x\" bf16[48, 64] on_device
                  node %1 \"ids\" i32[48] on_device
                  node %2 \"y\" f32[64, 16, 48] on_device
                  node %3 \"first\" f32[64] on_device
                  for i0 in 0..64 { for i1 in 0..16 { for i2 in 0..48 {
                    %2[i0, i1, i2] := convert f32(gather(%0[{%1[i2] % 50i32}, i0], 1.0bf16))
                  } } }
                  for i3 in 0..64 { %3[i3] := convert f32(%0[0, i3]) }
                }";
    for target in Target::ALL {
        programs::check(&ptx(target, PtxOptions::default()), text, 0);
    }
}

/// A thread has four columns. The first of them reads the last element of a window, so a vector load for all
/// four would read beyond the window.
#[test]
fn a_window_ends_within_a_vector() {
    let text = "routine @tiles strict {
                  node %0 \"a\" i64[64, 20, 2] on_device
                  node %1 \"b\" i64[64, 25, 2] on_device
                  node %2 \"y\" i64[64, 20, 25] on_device
                  node %3 \"window\" i64[25] on_device
                  zero %2
                  for i0 in 0..64 { for i1 in 0..20 { for i2 in 0..25 { for i3 in 0..2 {
                    %2[i0, i1, i2] := %2[i0, i1, i2] + %0[i0, i1, i3] * %1[i0, i2, i3]
                  } } } }
                  for i4 in 0..64 { for i5 in 0..20 { for i6 in 0..25 {
                    %2[i4, i5, i6] := %2[i4, i5, i6] - guarded(0 <= i6 + 4 < 25, %3[i6 + 4], 0i64)
                  } } }
                }";
    for target in Target::ALL {
        programs::check(&ptx(target, PtxOptions::default()), text, 0);
    }
}
