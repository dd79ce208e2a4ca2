//! Reductions by trees of threads: rounds of few results are done by one warp without meetings, and give the same bits.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod common;
#[path = "common/device.rs"]
mod device;

use codegen_ptx::{PtxOptions, Target, ptx, ptx_caps};
use ptx_asm::interp::Order;
use tnode::{DType, Scalar};

/// Barriers and shuffles that stand in a program.
fn count(text: &str) -> (usize, usize) {
    (text.matches("bar.sync").count(), text.matches("shfl.sync").count())
}

/// A reduction of 256 numbers by a block, in rounds of four; what stands between the rounds may differ.
fn tree(dtype: &str, between: &str) -> String {
    let round = |from: usize, to: usize, left: usize| {
        format!(
            "for i{to} in 0..{left} workgroup {{
               l{to}[i{to}] := l{from}[i{to}] + l{from}[i{to} + {}] + (l{from}[i{to} + {left}] + l{from}[i{to} + {}])
             }}\n",
            2 * left,
            3 * left
        )
    };
    format!(
        "routine @tree strict {{
           node %0 \"x\" {dtype}[3, 256] on_device
           node %1 \"y\" {dtype}[3] on_device
           for i9 in 0..3 parallel {{
             declare l0 {dtype}[256] workgroup declare l1 {dtype}[64] workgroup declare l2 {dtype}[16] workgroup
             declare l3 {dtype}[4] workgroup declare l4 {dtype}[1] workgroup
             for i0 in 0..256 workgroup {{ l0[i0] := %0[i9, i0] }}
             {}{}{between}{}{}
             for i8 in 0..1 workgroup {{ %1[i9] := l4[0] }}
           }}
         }}",
        round(0, 1, 64),
        round(1, 2, 16),
        round(2, 3, 4),
        round(3, 4, 1)
    )
}

/// The program of a tree, which gives the sums that the interpreter of the IR gives.
fn checked(text: &str, dtype: DType) -> String {
    let kernel = common::kernel(text, &ptx_caps(Target::Sm80));
    let rendered = ptx(Target::Sm80, PtxOptions::default()).render(std::slice::from_ref(&kernel)).unwrap();
    let mut x = vec![0; 3 * 256 * dtype.size_bytes()];
    for (at, element) in x.chunks_exact_mut(dtype.size_bytes()).enumerate() {
        Scalar::from_f64(dtype, (at * 31 % 97) as f64 / 7.0).write(element).unwrap();
    }
    let args = vec![x, vec![0; 3 * dtype.size_bytes()]];
    let run = |seed| device::run_kernel(&rendered, 0, &kernel, &args, &[], Order::Random { seed });
    let results: Vec<device::Ran> = (0..3).map(|seed| run(seed).unwrap()).collect();
    let defined = device::defined(&kernel, args.clone(), &[]).unwrap();
    results.iter().for_each(|found| assert_eq!(found.memory, defined));
    ptx_asm::print(&rendered.module)
}

#[test]
fn few_results_stay_in_a_warp() {
    // One meeting before the first warp takes over, one behind it; two values of the first round come from other lanes, of the others three each.
    assert_eq!(count(&checked(&tree("f32", ""), DType::F32)), (2, 8));
    assert_eq!(count(&checked(&tree("i32", ""), DType::I32)), (2, 8));
    // Halves of 64 bits travel one by one.
    assert_eq!(count(&checked(&tree("f64", ""), DType::F64)), (2, 16));
    assert_eq!(count(&checked(&tree("f16", ""), DType::F16)), (2, 8));
}

#[test]
fn what_others_read_goes_through_memory() {
    let text = tree("f32", "for i7 in 0..16 workgroup { l0[i7] := l2[15 - i7] }");
    let (barriers, shuffles) = count(&checked(&text, DType::F32));
    assert_eq!((barriers, shuffles), (3, 5), "the last two rounds, and the first two, are warps'");
}
