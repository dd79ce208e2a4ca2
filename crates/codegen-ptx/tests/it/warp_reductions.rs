//! Tree reductions: one warp does steps with few results by shuffles, without barriers, and with the same
//! bits.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use crate::common;
use crate::common::device;

use codegen_ptx::{PtxOptions, Target, ptx, ptx_caps};
use ptx_sim::ExecutionOrder;
use tnode::{DType, Scalar};

/// Number of barriers and shuffles in a program.
fn count(text: &str) -> (usize, usize) {
    (text.matches("bar.sync").count(), text.matches("shfl.sync").count())
}

/// A reduction of 256 numbers by a block, in groups of 32 and steps of four; the statements between the steps
/// vary.
fn tree(dtype: &str, between: &str) -> String {
    let round = |from: usize, to: usize, left: usize| {
        let place = |constant: usize| format!("l{from}[{}*i1{to} + i2{to} + {constant}]", 4 * left);
        format!(
            "for i1{to} in 0..8 workgroup {{ for i2{to} in 0..{left} workgroup {{
               l{to}[{left}*i1{to} + i2{to}] := {} + {} + ({} + {})
             }} }}\n",
            place(0),
            place(2 * left),
            place(left),
            place(3 * left)
        )
    };
    format!(
        "routine @tree strict {{
           node %0 \"x\" {dtype}[3, 256] on_device
           node %1 \"y\" {dtype}[3] on_device
           for i9 in 0..3 parallel {{
             declare l0 {dtype}[256] workgroup declare l1 {dtype}[64] workgroup declare l2 {dtype}[16] workgroup
             declare l3 {dtype}[8] workgroup declare l4 {dtype}[256] thread declare l5 {dtype}[] register
             for i10 in 0..256 workgroup {{ l4[i10] := %0[i9, i10] }}
             for i0 in 0..256 workgroup {{ l0[i0] := l4[i0] }}
             {}{}{between}
             for i5 in 0..8 workgroup {{ for i6 in 0..1 workgroup {{ l3[i5 + i6] := l2[2*i5 + i6] + l2[2*i5 + i6 + 1] }} }}
             for i7 in 0..8 unrolled {{ l5 := l5 + l3[i7] }}
             for i8 in 0..1 workgroup {{ %1[i9] := l5 }}
           }}
         }}",
        round(0, 1, 8),
        round(1, 2, 2)
    )
}

/// The PTX of a reduction whose sums equal those of the interpreter of the IR.
fn checked(text: &str, dtype: DType) -> String {
    let kernel = common::kernel(text, &ptx_caps(Target::Sm80));
    let rendered = ptx(Target::Sm80, PtxOptions::default()).render(std::slice::from_ref(&kernel)).unwrap();
    let mut x = vec![0; 3 * 256 * dtype.size_bytes()];
    for (at, element) in x.chunks_exact_mut(dtype.size_bytes()).enumerate() {
        Scalar::from_f64(dtype, (at * 31 % 97) as f64 / 7.0).write(element).unwrap();
    }
    let args = vec![x, vec![0; 3 * dtype.size_bytes()]];
    let run = |seed| device::run_kernel(&rendered, 0, &kernel, &args, &[], ExecutionOrder::Random { seed });
    let results: Vec<device::KernelResult> = (0..3).map(|seed| run(seed).unwrap()).collect();
    let defined = device::defined(&kernel, args.clone(), &[]).unwrap();
    results.iter().for_each(|found| assert_eq!(found.memory, defined));
    ptx_asm::print(&rendered.module)
}

#[test]
fn results_stay_in_warps() {
    // One barrier after the warps' reductions. Steps of four read three values from other lanes, the last
    // step reads one.
    assert_eq!(count(&checked(&tree("f32", ""), DType::F32)), (1, 7));
    assert_eq!(count(&checked(&tree("i32", ""), DType::I32)), (1, 7));
    // The halves of 64-bit values are shuffled one by one.
    assert_eq!(count(&checked(&tree("f64", ""), DType::F64)), (1, 14));
    assert_eq!(count(&checked(&tree("f16", ""), DType::F16)), (1, 7));
}

#[test]
fn results_that_other_statements_read_go_through_memory() {
    let text = tree("f32", "for i99 in 0..16 workgroup { l0[i99] := l2[15 - i99] }");
    // Two statements store into the first array, so it begins no warp reduction.
    assert_eq!(count(&checked(&text, DType::F32)), (4, 0));
    // Another statement stores into `l1`, the results of the first step, so these results go through memory;
    // the values that the first step reads come from other lanes.
    let text = tree("f32", "for i99 in 0..16 workgroup { l1[i99] := l2[15 - i99] }");
    assert_eq!(count(&checked(&text, DType::F32)), (3, 3));
}

#[test]
fn fewer_results_than_lanes_are_the_first_warps() {
    let text = "routine @few strict {
        node %0 \"x\" f32[3, 256] on_device
        node %1 \"y\" f32[3] on_device
        for i9 in 0..3 parallel {
          declare l0 f32[8] workgroup declare l1 f32[2] workgroup declare l2 f32[1] workgroup
          declare l4 f32[8] thread declare l5 f32[256] thread
          for i10 in 0..256 workgroup { l5[i10] := %0[i9, i10] }
          for i11 in 0..8 workgroup { l4[i11] := %0[i9, i11] }
          for i0 in 0..8 workgroup { l0[i0] := l4[i0] }
          for i1 in 0..2 workgroup { l1[i1] := l0[i1] + l0[i1 + 4] + (l0[i1 + 2] + l0[i1 + 6]) }
          for i2 in 0..1 workgroup { l2[i2] := l1[i2] + l1[i2 + 1] }
          for i8 in 0..1 workgroup { %1[i9] := l2[0] }
        }
      }";
    // The thread that has the result also reads it, but the codegen does not know that, so one barrier
    // remains.
    assert_eq!(count(&checked(text, DType::F32)), (1, 4));
}
