//! `mma` kernels, run on the simulated GPU and assembled.

use codegen_testkit::{assembler::CudaTools, gpu};
use ptx_asm::{PtxProgram, Target, Ty, print};
use ptx_sim::{ExecutionOrder, KernelStats};

use super::MmaTile;
use crate::tensor_cores::test_harness::{self, kernel, matmul, stored};
use crate::tensor_cores::{Matmul, MatmulKernel};

fn multiply(matmul: Matmul, tile: &MmaTile, accumulates: bool, order: ExecutionOrder) -> KernelStats {
    test_harness::multiply(&matmul, &MatmulKernel::Mma(*tile), accumulates, order)
}

const SMALL: MmaTile = MmaTile { rows: 64, columns: 64, k_bytes: 64, warps: [2, 2], stages: 4 };
const LARGE: MmaTile = MmaTile { rows: 128, columns: 128, k_bytes: 64, warps: [2, 2], stages: 4 };
const MIXED: MmaTile = MmaTile { rows: 64, columns: 128, k_bytes: 64, warps: [2, 2], stages: 3 };

#[test]
fn operands_may_have_either_major_order() {
    for left in [true, false] {
        for right in [true, false] {
            multiply(matmul([64, 64, 96], [left, right]), &SMALL, false, ExecutionOrder::Sequential);
        }
    }
}

#[test]
fn tiles_of_every_shape() {
    for tile in [LARGE, MIXED] {
        for contiguous in [[true, false], [false, true]] {
            multiply(matmul([128, 128, 64], contiguous), &tile, false, ExecutionOrder::Random { seed: 1 });
        }
    }
}

/// A matmul of `f32` operands.
fn single(sizes: [u32; 3], k_contiguous: [bool; 2]) -> Matmul {
    Matmul { element: Ty::F32, ..matmul(sizes, k_contiguous) }
}

#[test]
fn operands_of_32_bits_may_have_either_major_order() {
    for left in [true, false] {
        for right in [true, false] {
            multiply(single([64, 128, 48], [left, right]), &MIXED, true, ExecutionOrder::Sequential);
            multiply(single([72, 40, 20], [left, right]), &SMALL, false, ExecutionOrder::Random { seed: 4 });
            let stats =
                multiply(single([128, 128, 64], [left, right]), &LARGE, false, ExecutionOrder::Sequential);
            assert_eq!(stats.conflicts(), 0, "{left} {right}");
            assert_eq!(stats.sectors("cpasync") * 32, stats.bytes("cpasync"));
        }
    }
}

#[test]
fn edges_are_neither_read_nor_stored() {
    for (sizes, contiguous) in [
        ([72, 40, 40], [true, false]),
        ([17, 19, 16], [true, true]),
        ([72, 72, 24], [false, false]),
        ([100, 65, 136], [true, true]),
    ] {
        multiply(matmul(sizes, contiguous), &SMALL, false, ExecutionOrder::Random { seed: 2 });
        multiply(matmul(sizes, contiguous), &MIXED, true, ExecutionOrder::Sequential);
    }
}

#[test]
fn few_stages_are_enough_and_many_are_too() {
    for k in [16, 32, 64, 96, 128, 160, 256] {
        multiply(matmul([64, 64, k], [true, false]), &SMALL, true, ExecutionOrder::Random { seed: 3 });
    }
}

#[test]
fn any_order_of_warps_gives_the_same_matmul() {
    for seed in 0..8 {
        multiply(matmul([64, 128, 160], [true, false]), &SMALL, false, ExecutionOrder::Random { seed });
    }
}

#[test]
fn shared_memory_has_no_conflicts_and_global_memory_no_waste() {
    for contiguous in [[true, false], [false, true]] {
        let stats = multiply(matmul([128, 128, 128], contiguous), &LARGE, false, ExecutionOrder::Sequential);
        assert_eq!(stats.conflicts(), 0, "{contiguous:?}");
        // One tile reads each element of A and B once, two bytes each.
        assert_eq!(stats.bytes("cpasync"), 2 * 2 * 128 * 128);
        assert_eq!(stats.sectors("cpasync") * 32, stats.bytes("cpasync"));
        assert_eq!(stats.sectors("store.global") * 32, 4 * 128 * 128);
    }
}

#[test]
fn results_are_stored_in_whole_lines() {
    for types in [&[Ty::B16][..], &[Ty::F32], &[Ty::B16, Ty::F32], &[Ty::F32; 3]] {
        let of = |sizes| stored(matmul(sizes, [true, false]), types);
        let bytes: u32 = types.iter().map(|ty| ty.bytes()).sum();
        for tile in [SMALL, MIXED, LARGE] {
            let matmul = of([tile.rows, tile.columns, 32]);
            let stats = multiply(matmul, &tile, false, ExecutionOrder::Random { seed: 5 });
            let all = u64::from(bytes * tile.rows * tile.columns);
            assert_eq!((stats.bytes("store.global"), stats.conflicts()), (all, 0), "{tile:?} {types:?}");
            // Each sector is written once, and each lane writes 16 bytes.
            assert_eq!(stats.sectors("store.global") * 32, all, "{tile:?} {types:?}");
            assert_eq!(stats.count("store.global") * 32 * 16, all, "{tile:?} {types:?}");
        }
        for seed in 0..4 {
            multiply(of([100, 72, 40]), &SMALL, false, ExecutionOrder::Random { seed });
            multiply(of([72, 200, 16]), &LARGE, false, ExecutionOrder::Random { seed });
        }
    }
}

#[test]
fn a_fragment_that_is_loaded_is_multiplied_often() {
    let Some(tools) = gpu::or_skip("a_fragment_that_is_loaded_is_multiplied_often", CudaTools::find()) else {
        return;
    };
    for target in [Target::Sm80, Target::Sm90a] {
        for (tile, contiguous) in [(LARGE, [true, false]), (LARGE, [false, true]), (MIXED, [true, true])] {
            let matmul = matmul([4096, 4096, 4096], contiguous);
            let module =
                PtxProgram { target, kernels: vec![kernel(&matmul, &MatmulKernel::Mma(tile), true)] };
            let made = tools.assemble(&print(&module), target.name()).unwrap_or_else(|said| panic!("{said}"));
            let made = &made["matmul"];
            let what = format!("{} {tile:?} {contiguous:?}: {made:?}", target.name());
            assert_eq!((made.spilled_bytes, made.stack_bytes), (0, 0), "{what}");
            let registers = if tile == LARGE { 232 } else { 168 };
            assert!(made.registers <= registers, "{what}");
            let single = Matmul { element: Ty::F32, ..matmul };
            let module =
                PtxProgram { target, kernels: vec![kernel(&single, &MatmulKernel::Mma(tile), true)] };
            let of_single =
                tools.assemble(&print(&module), target.name()).unwrap_or_else(|said| panic!("{said}"));
            let of_single = &of_single["matmul"];
            assert_eq!((of_single.spilled_bytes, of_single.count("HMMA")), (0, made.count("HMMA")), "{what}");
            let [rows, columns] = tile.warp_tile();
            assert_eq!(made.count("HMMA"), (rows / 16 * columns / 8 * tile.k_bytes / 32) as usize, "{what}");
            let fragments = (rows / 16 + columns / 16) * tile.k_bytes / 32;
            assert_eq!(made.count("LDSM"), fragments as usize, "{what}");
            assert!(made.count("HMMA") >= if tile == LARGE { 4 } else { 2 } * made.count("LDSM"), "{what}");
        }
    }
}

#[test]
fn blocks_that_share_a_row_of_tiles_run_together() {
    // The tile scheduler covers every tile; the last group has fewer rows.
    let sizes = [64 * 10, 64 * 3, 32];
    multiply(matmul(sizes, [true, false]), &SMALL, false, ExecutionOrder::Sequential);
}

#[test]
fn small_matmuls_have_small_tiles() {
    assert_eq!(MmaTile::of(&matmul([64, 64, 64], [true, true])), SMALL);
    assert_eq!(MmaTile::of(&matmul([4096, 4096, 64], [true, true])), LARGE);
}
