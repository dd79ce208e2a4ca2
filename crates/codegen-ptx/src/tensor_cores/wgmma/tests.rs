//! `wgmma` kernels, run on the simulated GPU and assembled.

use codegen_testkit::{assembler::CudaTools, gpu};
use ptx_asm::{PtxProgram, Target, Ty, print};
use ptx_sim::{ExecutionOrder, KernelStats};

use super::WgmmaTile;
use super::tile::TILES;
use crate::tensor_cores::test_harness::{self, kernel, matmul, stored};
use crate::tensor_cores::{Matmul, MatmulKernel};

const SMALL: WgmmaTile = WgmmaTile { consumers: 1, columns: 64, stages: 3, cluster: 1 };
const PAIR: WgmmaTile = WgmmaTile { consumers: 2, columns: 128, stages: 2, cluster: 2 };

const EITHER_WAY: [[bool; 2]; 4] = [[true, true], [true, false], [false, true], [false, false]];

fn multiply(matmul: &Matmul, tile: &WgmmaTile, accumulates: bool, order: ExecutionOrder) -> KernelStats {
    test_harness::multiply(matmul, &MatmulKernel::Wgmma(*tile), accumulates, order)
}

#[test]
fn operands_may_have_either_major_order() {
    for contiguous in EITHER_WAY {
        multiply(&matmul([64, 64, 192], contiguous), &SMALL, false, ExecutionOrder::Sequential);
        multiply(&matmul([64, 64, 192], contiguous), &SMALL, true, ExecutionOrder::Random { seed: 1 });
    }
}

#[test]
fn blocks_of_a_cluster_share_columns() {
    for contiguous in EITHER_WAY {
        multiply(&matmul([256, 128, 192], contiguous), &PAIR, true, ExecutionOrder::Sequential);
        multiply(&matmul([256, 128, 192], contiguous), &PAIR, false, ExecutionOrder::Random { seed: 2 });
    }
}

#[test]
fn tiles_of_every_shape() {
    for (tile, _) in TILES {
        let [rows, columns] = tile.cluster_tile();
        multiply(
            &matmul([rows, columns, 128], [true, false]),
            &tile,
            false,
            ExecutionOrder::Random { seed: 3 },
        );
    }
}

#[test]
fn edges_are_neither_read_nor_stored() {
    for (sizes, contiguous) in [
        ([72, 40, 40], [true, false]),
        ([17, 19, 16], [true, true]),
        ([72, 72, 24], [false, false]),
        ([100, 65, 136], [true, true]),
        ([304, 200, 72], [false, true]),
    ] {
        multiply(&matmul(sizes, contiguous), &SMALL, true, ExecutionOrder::Random { seed: 4 });
        multiply(&matmul(sizes, contiguous), &PAIR, false, ExecutionOrder::Sequential);
    }
}

#[test]
fn any_order_gives_the_same_matmul() {
    for seed in 0..3 {
        multiply(&matmul([64, 128, 320], [true, false]), &SMALL, false, ExecutionOrder::Random { seed });
        multiply(&matmul([256, 128, 256], [false, true]), &PAIR, true, ExecutionOrder::Random { seed });
    }
}

#[test]
fn a_block_has_several_tiles() {
    // More tiles than SMs: the pipeline continues from tile to tile.
    let sizes = [64 * 17, 64 * 9, 64];
    multiply(&matmul(sizes, [true, false]), &SMALL, true, ExecutionOrder::Random { seed: 5 });
    // With one staging tile per warp, an output tile reuses the staging tile of the output tile before.
    let narrow = stored(matmul([64 * 17, 64 * 8 + 16, 64], [true, false]), &[Ty::B16]);
    multiply(&narrow, &SMALL, false, ExecutionOrder::Random { seed: 6 });
}

#[test]
fn each_element_is_copied_once_for_a_cluster() {
    let stats = multiply(&matmul([256, 128, 128], [true, false]), &PAIR, false, ExecutionOrder::Sequential);
    // Each of the two blocks loads its 128 rows of A, and the cluster loads its 128 columns of B once.
    assert_eq!(stats.bytes("tmaload"), 2 * 128 * (256 + 128));
    assert_eq!(stats.sectors("tmastore") * 32, 4 * 256 * 128);
}

/// Element types of the outputs: one output, and several outputs of the same accumulators.
pub(super) const STORED: [&[Ty]; 4] =
    [&[Ty::B16], &[Ty::F32], &[Ty::B16, Ty::F32], &[Ty::B16, Ty::B16, Ty::B16]];

#[test]
fn results_are_stored_as_tiles() {
    for types in STORED {
        let of = |sizes| stored(matmul(sizes, [true, false]), types);
        for (tile, sizes) in [(SMALL, [128, 128, 64]), (PAIR, [512, 256, 64])] {
            let stats = multiply(&of(sizes), &tile, false, ExecutionOrder::Random { seed: 7 });
            let bytes: u32 = types.iter().map(|ty| ty.bytes()).sum();
            assert_eq!(stats.bytes("tmastore"), u64::from(bytes * sizes[0] * sizes[1]));
            assert_eq!(stats.sectors("tmastore") * 32, stats.bytes("tmastore"));
            assert_eq!((stats.count("store.global"), stats.conflicts()), (0, 0), "{types:?}");
        }
        multiply(&of([100, 72, 40]), &PAIR, false, ExecutionOrder::Random { seed: 8 });
    }
}

#[test]
fn partial_rows_are_stored_from_registers() {
    let stats = multiply(&matmul([64, 66, 64], [true, true]), &SMALL, false, ExecutionOrder::Sequential);
    assert_eq!((stats.count("tmastore"), stats.count("store.global") > 0), (0, true));
}

#[test]
fn every_tile_has_room_for_its_staging_tiles() {
    for (tile, _) in TILES {
        for types in STORED {
            let matmul = stored(matmul([4096, 4096, 4096], [true, false]), types);
            let kernel = kernel(&matmul, &MatmulKernel::Wgmma(tile), false);
            let most = Target::Sm90a.shared_bytes();
            assert!(kernel.shared_bytes() <= most, "{tile:?} {types:?}: {}", kernel.shared_bytes());
        }
    }
}

#[test]
fn the_tile_with_the_fewest_empty_waves_is_taken() {
    let of = |sizes| {
        let tile = WgmmaTile::of(&matmul(sizes, [true, false]));
        [tile.cluster, tile.rows(), tile.columns]
    };
    assert_eq!(of([8192, 8192, 8192]), [2, 128, 256]);
    assert_eq!(of([2048, 2048, 2048]), [2, 128, 256]);
    assert_eq!(of([1024, 1024, 1024]), [1, 64, 128]);
    assert_eq!(of([128, 128, 4096]), [1, 64, 64]);
}

#[test]
fn every_tile_assembles_without_spills() {
    let Some(tools) = gpu::or_skip("every_tile_assembles_without_spills", CudaTools::find()) else {
        return;
    };
    for (tile, _) in TILES {
        for (element, contiguous, results) in
            [(Ty::Bf16, [true, false], Ty::B16), (Ty::F16, [false, true], Ty::F32)]
        {
            let matmul = Matmul { element, ..matmul([4096, 4096, 4096], contiguous) };
            let matmul = stored(matmul, &[results]);
            let kernels = vec![kernel(&matmul, &MatmulKernel::Wgmma(tile), true)];
            let text = print(&PtxProgram { target: Target::Sm90a, kernels });
            let made = tools.assemble(&text, "sm_90a").unwrap_or_else(|said| panic!("{said}"));
            let made = &made["matmul"];
            let what = format!("{tile:?} {contiguous:?}: {made:?}");
            assert_eq!((made.spilled_bytes, made.stack_bytes), (0, 0), "{what}");
            match tile.consumers {
                // The registers that consumers request must exist, or they wait for ever.
                2 => assert_eq!(made.registers * tile.threads(), 128 * (24 + 2 * 240), "{what}"),
                _ => assert!(made.registers <= 128, "{what}"),
            }
            // One `wgmma` per 16 along K, none of which waits for the one before.
            let count = |opcode: &str| made.opcodes.get(opcode).copied().unwrap_or(0);
            assert_eq!((made.count("HGMMA"), count("WARPGROUP.ARRIVE")), (4, 1), "{what}");
            assert_eq!(made.count("USETMAXREG"), if tile.consumers == 2 { 2 } else { 0 }, "{what}");
            assert_eq!(count("UTMALDG.2D.MULTICAST") > 0, tile.cluster == 2, "{what}");
            // Staging tiles are 16 rows of 128 bytes; an `stmatrix` stores four 8×8 matrices of 16-bit
            // elements.
            let bytes = tile.columns * results.bytes();
            assert_eq!((made.count("STG"), count("UTMASTG.2D")), (0, (bytes / 128) as usize), "{what}");
            let matrices = if results == Ty::B16 { tile.columns / 16 } else { 0 };
            assert_eq!(made.count("STSM"), matrices as usize, "{what}");
            // Device-wide fences occur at cluster barriers only, not in loops.
            assert!(count("MEMBAR.ALL.GPU") <= 2, "{what}");
        }
    }
}
