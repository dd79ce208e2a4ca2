//! Vectorized accesses: sixteen bytes of memory per thread, whatever the element type.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use codegen_ptx::{PtxOptions, Target, ptx};
use scheduling::{ScheduleOptions, schedule};

/// The PTX of `z[i, j] := x[i, j] * y[j]` with these types, and the total number of threads.
fn scaled([x, y, z]: [&str; 3], columns: usize) -> (String, u32) {
    let text = format!(
        "routine @scaled strict {{
           node %0 \"x\" {x}[64, {columns}] on_device
           node %1 \"y\" {y}[{columns}] on_device
           node %2 \"z\" {z}[64, {columns}] on_device
           for i0 in 0..64 {{ for i1 in 0..{columns} {{
             %2[i0, i1] := convert {z}(convert f32(%0[i0, i1]) * convert f32(%1[i1]))
           }} }}
         }}"
    );
    let codegen = ptx(Target::Sm80, PtxOptions::default());
    let routine = lowered_ir::text::parse(&text).unwrap();
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).unwrap();
    let rendered = codegen.render(scheduled.kernels()).unwrap();
    let launch = &rendered.launches[0];
    (ptx_asm::print(&rendered.module), launch.blocks * launch.threads)
}

/// Number of occurrences of some instructions in a program.
fn counts(text: &str, parts: &[&str]) -> Vec<usize> {
    parts.iter().map(|part| text.matches(part).count()).collect()
}

#[test]
fn halves_are_read_and_written_by_eights() {
    for dtype in ["f16", "bf16"] {
        let (text, threads) = scaled([dtype; 3], 256);
        assert_eq!(threads, 64 * 256 / 8, "{text}");
        assert_eq!(counts(&text, &["ld.global", "v4.b32", "st.global"]), [2, 3, 1], "{text}");
    }
}

#[test]
fn halves_beside_whole_numbers_are_read_by_fours() {
    let (text, threads) = scaled(["f16", "bf16", "f32"], 256);
    assert_eq!(threads, 64 * 256 / 4, "{text}");
    assert_eq!(counts(&text, &["ld.global", "v4.b16", "st.global.v4.f32"]), [2, 2, 1], "{text}");
}

#[test]
fn unaligned_and_narrower_elements_are_read_one_by_one() {
    let (text, threads) = scaled(["f16"; 3], 252);
    assert_eq!((threads, counts(&text, &["v4", "v2"])), (64 * 252, vec![0, 0]), "{text}");
    let (text, threads) = scaled(["f16", "f16", "fp8_e4m3fn"], 256);
    assert_eq!((threads, counts(&text, &["v4", "v2"])), (64 * 256, vec![0, 0]), "{text}");
}
