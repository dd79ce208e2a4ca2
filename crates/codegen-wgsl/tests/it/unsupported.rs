//! Unsupported operations: an example of every rejection.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;

use codegen_core::{Caps, CodegenError, Workgroups};
use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};

fn rejected_by(caps: Caps, text: &str) -> String {
    let kernel = common::kernel(text, &caps);
    let codegen = wgsl(caps, WgslOptions::default());
    match codegen.render(&kernel, &vec![0; kernel.ir().nodes.len()]) {
        Err(error @ CodegenError::Unsupported { .. }) => error.to_string(),
        other => panic!("expected a rejection, found {other:?}"),
    }
}

#[track_caller]
fn check(body: &str, expected: &str) {
    check_by(baseline_caps(), body, expected);
}

#[track_caller]
fn check_by(caps: Caps, body: &str, expected: &str) {
    let text = format!(
        "routine @r strict {{ symbol @n in 0..8 node %0 \"x\" f32[64] on_device node %1 \"y\" f32[64] on_device {body} }}"
    );
    let error = rejected_by(caps, &text);
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("kernel `r`"), "{error}");
}

#[test]
fn a_store_by_all_threads() {
    let body =
        "for i0 in 0..2 parallel { %0[i0] := 1.0f32 for i1 in 0..4 workgroup { %1[32*i0 + i1] := 1.0f32 } }";
    check(body, "a store to node %0: it stands outside of workgroup loops");
}

#[test]
fn a_store_of_shared_memory_by_all_threads() {
    let body = "for i0 in 0..2 parallel { declare l0 f32[4] workgroup l0[0] := 1.0f32
                for i1 in 0..4 workgroup { %1[32*i0 + i1] := l0[i1] } }";
    check(body, "a store to workgroup local l0");
}

#[test]
fn shared_memory_declared_in_a_loop() {
    let body = "for i0 in 0..2 parallel { for i2 in 0..3 { declare l0 f32[4] workgroup
                for i1 in 0..4 workgroup { l0[i1] := l0[i1] + %1[32*i0 + i1] } } }";
    check(body, "workgroup local l0: it is declared in a loop");
}

#[test]
fn shared_memory_without_threads() {
    let body = "for i0 in 0..2 parallel { declare l0 f32[4] workgroup for i1 in 0..4 { l0[i1] := %0[i1] }
                %1[i0] := l0[3] }";
    check(body, "without workgroup loops");
}

#[test]
fn more_threads_than_there_are() {
    let body = "for i1 in 0..8 workgroup { for i2 in 0..8 workgroup { %1[8*i1 + i2] := 1.0f32 } }";
    let few = Caps { workgroups: Some(Workgroups::new(32, 1024)), ..baseline_caps() };
    check_by(few, body, "they take 64 threads, the most are 32");
}

#[test]
fn more_shared_memory_than_there_is() {
    let body = "declare l0 f32[5000] workgroup for i1 in 0..4 workgroup { l0[i1] := 1.0f32 }
                for i2 in 0..4 workgroup { %0[i2] := l0[i2] }";
    check(body, "workgroup memory would take 20000 bytes, there are 16384");
}

#[test]
fn more_private_memory_than_there_is() {
    let body = "declare l0 f32[3000] stack for i1 in 0..3000 { l0[i1] := 1.0f32 } %0[0] := l0[5]";
    check(body, "they take more than 8192 bytes");
}

#[test]
fn loops_between_workgroup_loops() {
    let body = "for i0 in 0..2 workgroup { for i1 in 0..2 { for i2 in 0..2 workgroup {
                %0[4*i0 + 2*i1 + i2] := 1.0f32 } } }";
    check(body, "nested workgroup loops");
}

#[test]
fn logs() {
    check("log \"x = \", %0[0]", "shaders have no log");
}

#[test]
fn deep_nests() {
    let (mut open, mut close) = (String::new(), String::new());
    for depth in 0..60 {
        open += &format!("for i{depth} in 0..2 {{ ");
        close += "} ";
    }
    check(&format!("{open} %0[0] := %0[0] + 1.0f32 {close}"), "it is deeper than 50");
}

#[test]
fn nodes_and_symbols_beyond_31_bits() {
    let huge = "routine @r strict { node %0 \"x\" u8[70000, 70000] on_device %0[1, 1] := 1u8 }";
    assert!(rejected_by(baseline_caps(), huge).contains("it has 2^31 elements or words or more"));
    let wide = "routine @r strict { symbol @n in 0..5000000000 node %0 \"x\" f32[4] on_device
                for i0 in 0..min(4, @n) { %0[i0] := 1.0f32 } }";
    assert!(rejected_by(baseline_caps(), wide).contains("symbol @n: its range is 5000000000"));
}

#[test]
fn a_grid_beyond_32_bits() {
    let text = "routine @r strict { node %0 \"x\" f32[2, 2] on_device
                for i0 in 0..70000 parallel { for i1 in 0..70000 parallel { } } }";
    assert!(rejected_by(baseline_caps(), text).contains("2^32 iterations"));
}

#[test]
fn angles_of_f64_that_no_expansion_reaches() {
    let text = "routine @r strict { node %0 \"x\" f64[4] on_device %0[0] := sin(%0[1]) }";
    assert!(rejected_by(common::full_caps(), text).contains("`sin` on f64"));
}

#[test]
fn numbers_of_64_bits_where_there_are_none() {
    let text =
        "routine @r strict { node %0 \"x\" f64[4] on_device node %1 \"y\" f64[4] on_device %0[0] := %1[1] }";
    assert!(rejected_by(baseline_caps(), text).contains("f64: webgpu has no numbers of this type"));
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
