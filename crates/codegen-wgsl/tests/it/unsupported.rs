//! Unsupported operations: an example of every rejection.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;

use codegen_core::{Caps, CodegenError, Workgroups};
use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};
use filetests::kernels::{REJECTED_BY_GPUS, TOO_LARGE_FOR_GPUS, nested_loops, routine_of};

/// Asserts that a routine is rejected with a message.
fn check_by(caps: Caps, what: &str, text: &str, expected: &str) {
    let kernel = common::kernel(text, &caps);
    let codegen = wgsl(caps, WgslOptions::default());
    match codegen.render(&kernel, &vec![0; kernel.ir().nodes.len()]) {
        Err(error @ CodegenError::Unsupported { .. }) => {
            let error = error.to_string();
            assert!(error.contains(expected) && error.contains("kernel `r`: wgsl"), "{what}: {error}");
        }
        other => panic!("{what}: expected a rejection, found {other:?}"),
    }
}

fn check(what: &str, text: &str, expected: &str) {
    check_by(baseline_caps(), what, text, expected);
}

#[test]
fn kernels_that_no_gpu_accepts() {
    for (what, body, expected) in REJECTED_BY_GPUS {
        check(what, &routine_of(body), expected);
    }
    for (what, text, expected) in TOO_LARGE_FOR_GPUS {
        check(what, text, expected);
    }
    check("deep nests", &routine_of(&nested_loops(60)), "it is deeper than 50");
    check("logs", &routine_of("log \"x = \", %0[0]"), "shaders have no log");
}

#[test]
fn more_than_there_is() {
    let body = "for i1 in 0..8 workgroup { for i2 in 0..8 workgroup { %1[8*i1 + i2] := 1.0f32 } }";
    let few = Caps { workgroups: Some(Workgroups::new(32, 1024)), ..baseline_caps() };
    check_by(few, "threads", &routine_of(body), "they take 64 threads, the most are 32");
    for (what, body, expected) in [
        (
            "shared memory",
            "declare l0 f32[5000] workgroup for i1 in 0..4 workgroup { l0[i1] := 1.0f32 }
             for i2 in 0..4 workgroup { %0[i2] := l0[i2] }",
            "workgroup memory would take 20000 bytes, there are 16384",
        ),
        (
            "private memory",
            "declare l0 f32[3000] stack for i1 in 0..3000 { l0[i1] := 1.0f32 } %0[0] := l0[5]",
            "they take more than 8192 bytes",
        ),
    ] {
        check(what, &routine_of(body), expected);
    }
}

#[test]
fn a_node_beyond_31_bits() {
    let huge = "routine @r strict { node %0 \"x\" u8[70000, 70000] on_device %0[1, 1] := 1u8 }";
    check("a node", huge, "it has 2^31 elements or words or more");
}

#[test]
fn angles_of_f64_that_no_expansion_reaches() {
    let text = "routine @r strict { node %0 \"x\" f64[4] on_device %0[0] := sin(%0[1]) }";
    check_by(common::full_caps(), "an angle", text, "`sin` on f64");
}

#[test]
fn numbers_of_64_bits_where_there_are_none() {
    let text =
        "routine @r strict { node %0 \"x\" f64[4] on_device node %1 \"y\" f64[4] on_device %0[0] := %1[1] }";
    check("f64", text, "f64: webgpu has no numbers of this type");
}

#[test]
fn the_wrong_number_of_slabs_is_a_failure() {
    let kernel = common::kernel(
        "routine @r strict { node %0 \"x\" f32[4] on_device %0[0] := 1.0f32 }",
        &baseline_caps(),
    );
    let error = wgsl(baseline_caps(), WgslOptions::default()).render(&kernel, &[]).unwrap_err();
    assert!(error.to_string().contains("0 slabs for 1 parameters"), "{error}");
}
