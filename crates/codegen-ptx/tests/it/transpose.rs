//! Nests that read in another order than they write (transposes): their values, and their memory traffic.

use crate::common::device;

use codegen_core::{KernelAbi, Param};
use codegen_ptx::{PtxOptions, Target, ptx};
use ptx_sim::{ExecutionOrder, KernelStats};
use scheduling::{ScheduleOptions, schedule};
use tnode::DType;

/// `y[i, j] := x[j, i]`, for the rows and columns of `y`.
fn transposed(dtype: DType, [rows, columns]: [usize; 2]) -> String {
    format!(
        "routine @transposed fast {{
           node %0 \"x\" {dtype}[{columns}, {rows}] on_device
           node %1 \"y\" {dtype}[{rows}, {columns}] on_device
           for i0 in 0..{rows} {{ for i1 in 0..{columns} {{ %1[i0, i1] := %0[i1, i0] }} }}
         }}"
    )
}

fn bytes(abi: &KernelAbi) -> Vec<usize> {
    let bytes = |param: &Param| match param {
        Param::Node { bytes, .. } | Param::MergeBuffer { bytes } => Some(*bytes),
        _ => None,
    };
    abi.params.iter().filter_map(bytes).collect()
}

/// Runs each kernel on pseudo-random bytes and compares the results.
fn run(text: &str, order: ExecutionOrder) -> Vec<KernelStats> {
    let codegen = ptx(Target::Sm80, PtxOptions::default());
    let routine = lowered_ir::text::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).expect("scheduled");
    let rendered = codegen.render(scheduled.kernels()).unwrap_or_else(|e| panic!("{e}"));
    let each = scheduled.kernels().iter().enumerate().map(|(at, kernel)| {
        let args: Vec<Vec<u8>> = bytes(kernel.abi())
            .into_iter()
            .map(|bytes| (0..bytes).map(|at| ((at * 7919) >> 3) as u8 % 113).collect())
            .collect();
        let expected = device::defined(kernel, args.clone(), &[]).expect("it is defined");
        let found = device::run_kernel(&rendered, at, kernel, &args, &[], order);
        let found = found.unwrap_or_else(|message| panic!("{message}\n{text}"));
        assert!(found.memory == expected, "kernel {at} of {text}");
        found.stats
    });
    each.collect()
}

#[test]
fn both_memories_are_touched_along_their_rows() {
    for dtype in [DType::Bf16, DType::F32, DType::F64] {
        let stats = run(&transposed(dtype, [512, 256]), ExecutionOrder::Random { seed: 1 });
        let [stats] = stats.as_slice() else { panic!("{dtype} takes {} kernels", stats.len()) };
        let sectors = (512 * 256 * dtype.size_bytes() / 32) as u64;
        assert_eq!(stats.sectors("load.global"), sectors, "{dtype}");
        assert_eq!(stats.sectors("store.global"), sectors, "{dtype}");
        // With 2-byte elements, half of the columns begin in the middle of a bank's word. An access to such a
        // column takes one pass more, in writing and in reading.
        let shared = stats.count("load.shared") + stats.count("store.shared");
        let most = if dtype == DType::Bf16 { shared / 2 } else { 0 };
        assert!(stats.conflicts() <= most, "{dtype}: {}", stats.conflicts());
        if dtype == DType::F32 {
            // Each lane accesses 16 bytes at a time.
            assert_eq!(stats.count("load.global") * 128, 512 * 256);
            assert_eq!(stats.count("store.global") * 128, 512 * 256);
        }
    }
}

#[test]
fn partial_tiles_are_transposed_too() {
    for (dtype, sizes) in [(DType::F32, [260, 257]), (DType::Bf16, [289, 320]), (DType::U8, [256, 300])] {
        for seed in 0..3 {
            run(&transposed(dtype, sizes), ExecutionOrder::Random { seed });
        }
    }
}
