//! Clusters: ranks, barriers, and accesses to the shared memory of other blocks.

use smallvec::smallvec;

use super::{ExecutionOrder, FaultCause, ORDERS, words};
use crate::{SimFault, SimLaunch, SimTensorMap, SimulatedGpu, Swizzle, run};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBuilder, PtxKernel, PtxOperand, Reg, RegClass,
    SpecialReg, StateSpace, Ty,
};

#[test]
fn blocks_have_numbers_in_their_cluster() {
    let k = super::kernel(32, |b| {
        b.cluster(2);
        let (rank, block) = (b.special(SpecialReg::ClusterBlock), b.special(SpecialReg::Block));
        let both = b.mul_add(Ty::U32, block, 10_u32, rank);
        super::give(b, both);
    });
    let found = words(&k, 4, 128);
    assert_eq!([0, 32, 64, 96].map(|i| found[i]), [0, 11, 20, 31]);
    assert!(matches!(super::cause(&k, 3), FaultCause::Malformed(_)));
    // Without clusters, a block has rank 0.
    let alone = super::kernel(32, |b| {
        let rank = b.special(SpecialReg::ClusterBlock);
        super::give(b, rank);
    });
    assert_eq!(words(&alone, 2, 64), vec![0; 64]);
}

#[test]
fn all_blocks_reach_a_barrier_or_none() {
    let k = |threads: u32| {
        super::kernel(64, |b| {
            b.cluster(2);
            let (rank, thread) = (b.special(SpecialReg::ClusterBlock), b.special(SpecialReg::Thread));
            let number = b.mul_add(Ty::U32, rank, 64_u32, thread);
            let some = b.compare(CmpOp::Lt, Ty::U32, number, threads);
            b.when(GuardPredicate::on(some), |b| b.push(Inst::ClusterBarrier));
        })
    };
    words(&k(128), 4, 0);
    assert!(
        matches!(super::cause(&k(96), 2), FaultCause::Deadlock(what) if what.contains("waits for its cluster"))
    );
    assert!(matches!(super::cause(&k(97), 2), FaultCause::PartialWarp { .. }));
}

#[test]
fn addresses_of_others_are_for_arrivals() {
    let k = |write: fn(&mut PtxBuilder, AddressOperand)| {
        super::kernel(32, |b| {
            b.cluster(2);
            let at = AddressOperand::array(b.shared(16, 8));
            write(b, at);
        })
    };
    let outside = k(|b, at| {
        b.mapa(at, 2_u32);
    });
    assert_eq!(super::cause(&outside, 2), FaultCause::ClusterBlock { found: 2, blocks: 2 });
    let stored = k(|b, at| {
        let mapped = b.mapa(at, 1_u32);
        b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(mapped), 0_u32);
    });
    assert!(matches!(super::cause(&stored, 2), FaultCause::OutOfBounds { .. }));
    let nothing = k(|b, at| {
        let mapped = b.mapa(at, 1_u32);
        b.push(Inst::MbarrierArriveCluster { at: AddressOperand::at(mapped) });
    });
    assert!(matches!(super::cause(&nothing, 2), FaultCause::NoBarrier { .. }));
}

/// The synchronization that a variant of the kernel lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingSync {
    Nothing,
    FenceOfBarriers,
    FirstBarrier,
    /// The first cluster barrier. The kernel has a block barrier in its place.
    FirstClusterBarrier,
    LastBarrier,
    Expectation,
    WaitForOthers,
    WaitForEmpty,
    Release,
}

/// Bytes of half a tile. The tensor has one tile for each of two rounds.
const HALF: usize = 1024;

fn only(b: &mut PtxBuilder, special: SpecialReg, number: u32, write: impl FnOnce(&mut PtxBuilder)) {
    let found = b.special(special);
    let is_it = b.compare(CmpOp::Eq, Ty::U32, found, number);
    b.when(GuardPredicate::on(is_it), write);
}

fn wait(b: &mut PtxBuilder, at: AddressOperand, parity: u32, cluster: bool) {
    let parity = b.mov(RegClass::B32, parity);
    b.push(Inst::MbarrierWait { at, parity, cluster });
}

/// In each of two rounds, each block loads one half of a tile and multicasts it to both blocks. Then one warp
/// of each block reads the whole tile, and arrives at the mbarriers of both blocks.
fn halves(missing: MissingSync) -> PtxKernel {
    let mut b = PtxBuilder::new("halves", 1, 64);
    b.cluster(2);
    b.tensor_map();
    let tile = b.shared(2 * HALF as u32, 1024);
    let [full, empty] = [(); 2].map(|()| AddressOperand::array(b.shared(8, 8)));
    only(&mut b, SpecialReg::Thread, 0, |b| {
        b.push(Inst::MbarrierInit { at: full, count: 1 });
        // Each of the two blocks arrives once.
        b.push(Inst::MbarrierInit { at: empty, count: 2 });
        if missing != MissingSync::FenceOfBarriers {
            b.push(Inst::FenceMbarrierInit);
        }
    });
    match missing {
        MissingSync::FirstBarrier => {}
        MissingSync::FirstClusterBarrier => b.barrier(),
        _ => b.push(Inst::ClusterBarrier),
    }
    for round in 0..2 {
        only(&mut b, SpecialReg::Thread, 0, |b| load_half(b, (tile, full, empty), round, missing));
        let thread = b.special(SpecialReg::Thread);
        let reads = b.compare(CmpOp::Ge, Ty::U32, thread, 32_u32);
        b.when(GuardPredicate::on(reads), |b| read_both(b, (tile, full, empty), round, missing));
    }
    if missing != MissingSync::LastBarrier {
        b.push(Inst::ClusterBarrier);
    }
    b.finish()
}

fn load_half(
    b: &mut PtxBuilder,
    (tile, full, empty): (u32, AddressOperand, AddressOperand),
    round: u32,
    missing: MissingSync,
) {
    let (rank, map) = (b.special(SpecialReg::ClusterBlock), b.map_address(0));
    if missing != MissingSync::WaitForEmpty {
        wait(b, empty, (round + 1) % 2, missing != MissingSync::WaitForOthers);
    }
    let bytes = if missing == MissingSync::Expectation { HALF as u32 } else { 2 * HALF as u32 };
    b.push(Inst::MbarrierArriveExpectTx { at: full, bytes });
    let mask = b.mov(RegClass::B16, 3_u32);
    let to = b.address(StateSpace::Shared, tile);
    let to = b.mul_add(Ty::U32, rank, HALF as u32, to);
    let line = b.mul_add(Ty::U32, rank, 8_u32, 16 * round);
    let at = smallvec![PtxOperand::from(0_u32), line.into()];
    b.push(Inst::TmaLoad { map, at, to: AddressOperand::at(to), barrier: full, multicast: Some(mask) });
}

fn read_both(
    b: &mut PtxBuilder,
    (tile, full, empty): (u32, AddressOperand, AddressOperand),
    round: u32,
    missing: MissingSync,
) {
    let (thread, lane, block) =
        (b.special(SpecialReg::Thread), b.special(SpecialReg::Lane), b.special(SpecialReg::Block));
    wait(b, full, round, false);
    let base = b.address(StateSpace::Shared, tile);
    let out = b.param(0);
    for word in 0..2 * HALF / 128 {
        let from = b.mul_add(Ty::U32, lane, 4_u32, base);
        let value =
            b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(from).plus(128 * word as i32));
        let first = (round as usize * 2 * HALF / 4 + word * 32) as u32;
        let to = b.mul_add(Ty::U32, block, HALF as u32, lane);
        let to = b.add(Ty::U32, to, first);
        let to = b.mul_add_wide(Ty::U32, to, 4_u32, out);
        b.store(StateSpace::Global, Ty::B32, AddressOperand::at(to), value);
    }
    // The lanes synchronize, then one arrives for all.
    b.push(Inst::Barrier { id: 1, threads: Some(32) });
    let first = b.compare(CmpOp::Eq, Ty::U32, thread, 32_u32);
    let others: &[u32] = if missing == MissingSync::Release { &[0] } else { &[0, 1] };
    b.when(GuardPredicate::on(first), |b| {
        for &rank in others {
            let at = b.mapa(empty, rank);
            b.push(Inst::MbarrierArriveCluster { at: AddressOperand::at(at) });
        }
    });
}

fn outcome(missing: MissingSync, order: ExecutionOrder) -> Result<Vec<u8>, SimFault> {
    let mut gpu = SimulatedGpu::new();
    let tensor: Vec<u8> = (0..4 * HALF).map(|i| (i * 37 % 249) as u8).collect();
    let maps = [SimTensorMap {
        address: gpu.put("tensor", tensor).address(),
        element: 2,
        sizes: vec![64, 32],
        strides: vec![128],
        tile: vec![64, 8],
        swizzle: Swizzle::None,
    }];
    let out = gpu.reserve("out", 2 * 4 * HALF);
    let params = [out.address()];
    let launch = SimLaunch { limit: 1 << 16, ..SimLaunch::new(2, &params).with_maps(&maps) };
    run(&halves(missing), &launch, &mut gpu, order)?;
    Ok(gpu.bytes(out).to_vec())
}

fn orders() -> impl Iterator<Item = ExecutionOrder> {
    ORDERS.into_iter().chain((10..20).map(|seed| ExecutionOrder::Random { seed }))
}

#[test]
fn tiles_come_to_several_blocks() {
    let tensor: Vec<u8> = (0..4 * HALF).map(|i| (i * 37 % 249) as u8).collect();
    for order in orders() {
        let found = outcome(MissingSync::Nothing, order).unwrap_or_else(|fault| panic!("{order:?}: {fault}"));
        assert_eq!(found[..4 * HALF], tensor);
        assert_eq!(found[4 * HALF..], tensor);
    }
}

#[test]
fn blocks_that_do_not_wait_for_each_other_are_found() {
    for order in orders() {
        let cause = |missing| match outcome(missing, order) {
            Ok(_) => panic!("{missing:?} is not found, {order:?}"),
            Err(fault) => *fault.cause,
        };
        assert!(matches!(cause(MissingSync::FenceOfBarriers), FaultCause::Barrier { .. }));
        for missing in [MissingSync::FirstBarrier, MissingSync::FirstClusterBarrier] {
            let found = cause(missing);
            assert!(
                matches!(found, FaultCause::NoBarrier { .. } | FaultCause::Race { .. }),
                "{missing:?}: {found}"
            );
        }
        // The last arrivals may reach a block that has ended.
        assert!(matches!(cause(MissingSync::LastBarrier), FaultCause::Outstanding(_)), "{order:?}");
        let found = cause(MissingSync::Expectation);
        assert!(
            matches!(
                found,
                FaultCause::Barrier { .. }
                    | FaultCause::PendingCopy { .. }
                    | FaultCause::Uninitialized { .. }
                    | FaultCause::Race { .. }
            ),
            "{found}"
        );
        let found = cause(MissingSync::WaitForOthers);
        assert!(
            matches!(&found, FaultCause::Barrier { what, .. } if what.contains("other blocks arrive")),
            "{found}"
        );
        let found = cause(MissingSync::WaitForEmpty);
        assert!(
            matches!(
                found,
                FaultCause::Race { .. } | FaultCause::PendingCopy { .. } | FaultCause::Barrier { .. }
            ),
            "{found}"
        );
        assert!(matches!(cause(MissingSync::Release), FaultCause::Deadlock(_)));
    }
}

/// A multicast mask outside the cluster is a fault.
#[test]
fn masks_name_blocks_of_the_cluster() {
    let k = |mask: u32| -> PtxKernel {
        let mut b = PtxBuilder::new("k", 1, 32);
        b.tensor_map();
        let (tile, full) = (b.shared(1024, 1024), AddressOperand::array(b.shared(8, 8)));
        only(&mut b, SpecialReg::Thread, 0, |b| {
            b.push(Inst::MbarrierInit { at: full, count: 1 });
            b.push(Inst::FenceMbarrierInit);
            let (map, mask): (Reg, Reg) = (b.map_address(0), b.mov(RegClass::B16, mask));
            b.push(Inst::MbarrierArriveExpectTx { at: full, bytes: 1024 });
            let at = smallvec![PtxOperand::from(0_u32), PtxOperand::from(0_u32)];
            let (to, multicast) = (AddressOperand::array(tile), Some(mask));
            b.push(Inst::TmaLoad { map, at, to, barrier: full, multicast });
            wait(b, full, 0, false);
        });
        b.finish()
    };
    let outcome = |mask| {
        let mut gpu = SimulatedGpu::new();
        let maps = [SimTensorMap {
            address: gpu.put("tensor", vec![1; 1024]).address(),
            element: 2,
            sizes: vec![64, 8],
            strides: vec![128],
            tile: vec![64, 8],
            swizzle: Swizzle::None,
        }];
        run(&k(mask), &SimLaunch::new(1, &[0]).with_maps(&maps), &mut gpu, ExecutionOrder::Sequential)
            .map(|_| ())
    };
    assert_eq!(outcome(1), Ok(()));
    for mask in [0, 2, 3] {
        assert!(matches!(*outcome(mask).expect_err("there is one block").cause, FaultCause::InvalidTile(_)));
    }
}
