//! Unsupported constructs: each rejection has an example with its reason.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;

use codegen_core::CodegenError;
use codegen_ptx::{PtxOptions, Target, ptx, ptx_caps};

fn rejected(text: &str) -> String {
    let kernel = common::kernel(text, &ptx_caps(Target::Sm80));
    match ptx(Target::Sm80, PtxOptions::default()).render(&[kernel]) {
        Err(error @ CodegenError::Unsupported { .. }) => error.to_string(),
        other => panic!("expected a rejection, found {other:?}"),
    }
}

#[track_caller]
fn check(body: &str, expected: &str) {
    let text = format!(
        "routine @r strict {{ symbol @n in 0..8 node %0 \"x\" f32[64] on_device node %1 \"y\" f32[64] on_device {body} }}"
    );
    let error = rejected(&text);
    assert!(error.contains(expected) && error.contains("kernel `r`: ptx"), "{error}");
}

#[test]
fn stores_by_all_threads() {
    let body =
        "for i0 in 0..2 parallel { %0[i0] := 1.0f32 for i1 in 0..4 workgroup { %1[32*i0 + i1] := 1.0f32 } }";
    check(body, "a store to node %0: it stands outside of workgroup loops");
    let body = "for i0 in 0..2 parallel { declare l0 f32[4] workgroup l0[0] := 1.0f32
                for i1 in 0..4 workgroup { %1[32*i0 + i1] := l0[i1] } }";
    check(body, "a store to workgroup local l0");
}

#[test]
fn shared_memory_where_it_cannot_be() {
    let body = "for i0 in 0..2 parallel { for i2 in 0..3 { declare l0 f32[4] workgroup
                for i1 in 0..4 workgroup { l0[i1] := l0[i1] + %1[32*i0 + i1] } } }";
    check(body, "workgroup local l0: it is declared in a loop");
    let body = "for i0 in 0..2 parallel { declare l0 f32[4] workgroup for i1 in 0..4 { l0[i1] := %0[i1] }
                %1[i0] := l0[3] }";
    check(body, "without workgroup loops");
}

#[test]
fn more_than_there_is() {
    let body =
        "for i1 in 0..64 workgroup { for i2 in 0..32 workgroup { for i3 in 0..2 { %1[i1] := 1.0f32 } } }";
    let body = body.replace("%1[i1]", "%1[0]").replace("for i3 in 0..2 { %1[0] := 1.0f32 }", "");
    check(&body, "they take 2048 threads, the most are 1024");
    let body = "declare l0 f32[15000] workgroup for i1 in 0..4 workgroup { l0[i1] := 1.0f32 }
                for i2 in 0..4 workgroup { %0[i2] := l0[i2] }";
    check(body, "workgroup memory would take 60000 bytes, there are 49152");
    let body = "declare l0 f32[20000] stack for i1 in 0..20000 { l0[i1] := 1.0f32 } %0[0] := l0[5]";
    check(body, "arrays take more than 65536 bytes of each thread");
}

#[test]
fn loops_between_workgroup_loops() {
    let body = "for i0 in 0..2 workgroup { for i1 in 0..2 { for i2 in 0..2 workgroup {
                %0[4*i0 + 2*i1 + i2] := 1.0f32 } } }";
    check(body, "nested workgroup loops");
}

#[test]
fn logs() {
    let body = "for i0 in 0..4 workgroup { %1[i0] := 1.0f32 } log \"x = \", %0[0]";
    check(body, "log: several threads run the kernel");
}

#[test]
fn deep_nests() {
    let (mut open, mut close) = (String::new(), String::new());
    for depth in 0..110 {
        open += &format!("for i{depth} in 0..2 {{ ");
        close += "} ";
    }
    check(&format!("{open} %0[0] := %0[0] + 1.0f32 {close}"), "it is deeper than 100");
}

#[test]
fn numbers_beyond_32_bits() {
    let wide = "routine @r strict { symbol @n in 0..5000000000 node %0 \"x\" f32[4] on_device
                for i0 in 0..min(4, @n) { %0[i0] := 1.0f32 } }";
    assert!(rejected(wide).contains("symbol @n: its range is 5000000000"));
    let text = "routine @r strict { node %0 \"x\" f32[2, 2] on_device
                for i0 in 0..70000 parallel { for i1 in 0..70000 parallel { } } }";
    assert!(rejected(text).contains("2^32 iterations"));
    let long = "routine @r strict { node %0 \"x\" u8[3000000000] on_device %0[1] := 1u8 }";
    assert!(rejected(long).contains("a dimension has 2^31 elements or more"));
}

#[test]
fn angles_of_f64_that_no_expansion_reaches() {
    let text = "routine @r strict { node %0 \"x\" f64[4] on_device %0[0] := sin(%0[1]) }";
    assert!(rejected(text).contains("`sin` on f64"));
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
