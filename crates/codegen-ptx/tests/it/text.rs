//! Golden files: the PTX of a few kernels.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;

use codegen_ptx::{PtxOptions, Target, ptx, ptx_caps};
use expect_test::{ExpectFile, expect_file};
use filetests::kernels::{DOUBLE, TREE_REDUCTION};

fn check(text: &str, expected: &ExpectFile) {
    let kernel = common::kernel(text, &ptx_caps(Target::Sm80));
    let rendered = ptx(Target::Sm80, PtxOptions::default()).render(&[kernel]).unwrap();
    let launch = &rendered.launches[0];
    let how = format!("// {} blocks of {} threads\n", launch.blocks, launch.threads);
    expected.assert_eq(&(how + &ptx_asm::print(&rendered.module)));
}

#[test]
fn a_thread_per_iteration() {
    check(DOUBLE, &expect_file!["../text/double.ptx"]);
}

#[test]
fn a_line_of_a_log() {
    let text = r#"
routine @log strict {
  symbol @n in 0..9
  node %0 "x" f64[10] on_device
  node %1 "y" i8[10] on_device
  for i0 in 0..min(9, @n) {
    log "x[", index i64(i0), "] = ", %0[i0], ", ", %1[i0] < 3i8, ", ", %1[9]
  }
}"#;
    check(text, &expect_file!["../text/log.ptx"]);
}

#[test]
fn a_tree_in_shared_memory() {
    check(TREE_REDUCTION, &expect_file!["../text/tree_reduction.ptx"]);
}

#[test]
fn narrow_elements() {
    let text = r#"
routine @narrow strict {
  node %0 "x" i8[100] on_device
  node %1 "y" bf16[100] on_device
  node %2 "z" f16[100] on_device
  for i0 in 0..100 parallel {
    %0[i0] := convert i8(index i32(i0))
    %1[99 - i0] := %1[99 - i0] * 0.5bf16
    %2[i0] := convert f16(%1[99 - i0])
  }
}"#;
    check(text, &expect_file!["../text/narrow.ptx"]);
}

#[test]
fn guards_symbols_and_computed_indices() {
    let text = r#"
routine @guards strict {
  symbol @shift in 0..3
  node %0 "x" f32[8] on_device
  node %1 "at" i32[8] on_device
  node %2 "y" f32[8] on_device
  for i0 in 0..8 {
    for i1 in 0..min(4, @shift) {
      %2[i0] := guarded(0 <= i0 + @shift - 1 < 8, %0[i0 + @shift - 1], inff32)
    }
    scatter %2[{%1[i0]}] := gather(%0[{%1[i0]}], 0.5f32)
  }
}"#;
    check(text, &expect_file!["../text/guards.ptx"]);
}

#[test]
fn neighbors_are_read_and_stored_as_vectors() {
    let text = r#"
routine @quads strict {
  node %0 "a" f32[16, 8] on_device
  node %1 "b" f32[8] on_device
  node %2 "c" f32[16, 8] on_device
  for i0 in 0..16 parallel {
    for i1 in 0..2 parallel {
      for i2 in 0..4 vector {
        %2[i0, 4*i1 + i2] := %0[i0, 4*i1 + i2] * %1[4*i1 + i2] + %1[i1]
        %2[i0, 4*i1 + i2] := %2[i0, 4*i1 + i2] + 1.0f32
      }
    }
  }
}"#;
    check(text, &expect_file!["../text/quads.ptx"]);
}
