//! Unsupported constructs: each rejection has an example with its reason.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;

use codegen_core::CodegenError;
use codegen_ptx::{PtxOptions, Target, ptx, ptx_caps};
use filetests::kernels::{REJECTED_BY_GPUS, TOO_LARGE_FOR_GPUS, nested_loops, routine_of};

/// Asserts that a routine is rejected with a message.
fn check(what: &str, text: &str, expected: &str) {
    let kernel = common::kernel(text, &ptx_caps(Target::Sm80));
    match ptx(Target::Sm80, PtxOptions::default()).render(&[kernel]) {
        Err(error @ CodegenError::Unsupported { .. }) => {
            let error = error.to_string();
            assert!(error.contains(expected) && error.contains("kernel `r`: ptx"), "{what}: {error}");
        }
        other => panic!("{what}: expected a rejection, found {other:?}"),
    }
}

#[test]
fn kernels_that_no_gpu_accepts() {
    for (what, body, expected) in REJECTED_BY_GPUS {
        check(what, &routine_of(body), expected);
    }
    for (what, text, expected) in TOO_LARGE_FOR_GPUS {
        check(what, text, expected);
    }
    check("deep nests", &routine_of(&nested_loops(110)), "it is deeper than 100");
}

#[test]
fn more_than_there_is() {
    for (what, body, expected) in [
        (
            "threads",
            "for i1 in 0..64 workgroup { for i2 in 0..32 workgroup { } }",
            "they take 2048 threads, the most are 1024",
        ),
        (
            "shared memory",
            "declare l0 f32[15000] workgroup for i1 in 0..4 workgroup { l0[i1] := 1.0f32 }
             for i2 in 0..4 workgroup { %0[i2] := l0[i2] }",
            "workgroup memory would take 60000 bytes, there are 49152",
        ),
        (
            "memory of a thread",
            "declare l0 f32[20000] stack for i1 in 0..20000 { l0[i1] := 1.0f32 } %0[0] := l0[5]",
            "arrays take more than 65536 bytes of each thread",
        ),
        (
            "one order of lines of a log",
            "for i0 in 0..4 workgroup { %1[i0] := 1.0f32 } log \"x = \", %0[0]",
            "log: several threads run the kernel",
        ),
    ] {
        check(what, &routine_of(body), expected);
    }
}

#[test]
fn a_dimension_beyond_31_bits() {
    let long = "routine @r strict { node %0 \"x\" u8[3000000000] on_device %0[1] := 1u8 }";
    check("a dimension", long, "a dimension has 2^31 elements or more");
}

#[test]
fn angles_of_f64_that_no_expansion_reaches() {
    let text = "routine @r strict { node %0 \"x\" f64[4] on_device %0[0] := sin(%0[1]) }";
    check("an angle", text, "`sin` on f64");
}

#[test]
fn nodes_of_many_elements_are_supported() {
    let huge = "routine @r strict { node %0 \"x\" u8[70000, 70000] on_device
                for i0 in 0..70000 parallel { %0[i0, 69999] := 1u8 } }";
    let kernel = common::kernel(huge, &ptx_caps(Target::Sm80));
    let rendered = ptx(Target::Sm80, PtxOptions::default()).render(&[kernel]).unwrap();
    let text = ptx_asm::print(&rendered.module);
    assert!(text.contains("mad.wide.s32") && text.contains("70000"), "{text}");
}
