//! Misuse of barriers, and their memory order.

use super::{ExecutionOrder, FaultCause, cause, kernel, outcome, words};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, SpecialReg, StateSpace, Ty,
};

fn below(b: &mut PtxBuilder, limit: u32) -> GuardPredicate {
    let thread = b.special(SpecialReg::Thread);
    GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, thread, limit))
}

#[test]
fn a_partial_warp_cannot_synchronize() {
    let k = |limit: u32| {
        kernel(40, |b| {
            let some = below(b, limit);
            b.when(some, |b| b.barrier());
        })
    };
    assert_eq!(cause(&k(8), 1), FaultCause::PartialWarp { active: 0xff, expected: u32::MAX });
    // In the last warp, 8 lanes exist. All of them execute the barrier, which is enough.
    words(&k(40), 1, 0);
    let guarded = kernel(32, |b| {
        let some = below(b, 31);
        b.push_predicated(some, Inst::Barrier { id: 0, threads: None });
    });
    assert!(matches!(cause(&guarded, 1), FaultCause::PartialWarp { .. }));
}

#[test]
fn a_missing_warp_is_a_deadlock() {
    let k = kernel(96, |b| {
        let some = below(b, 64);
        b.when(some, |b| b.barrier());
    });
    let fault = outcome(&k, 1, 0, ExecutionOrder::Sequential).expect_err("warp 2 does not come");
    expect_test::expect![[r#"
        kernel `k`, block 0, thread 0, at Barrier { id: 0, threads: None }: deadlock: warp 0 waits at barrier 0 of 96 threads; warp 1 waits at barrier 0 of 96 threads; warp 2 has ended"#]]
    .assert_eq(&fault.to_string());
    assert!(matches!(cause(&k, 1), FaultCause::Deadlock(_)));

    let crossed = kernel(64, |b| {
        let low = below(b, 32);
        b.if_else(
            low,
            |b| b.push(Inst::Barrier { id: 1, threads: None }),
            |b| b.push(Inst::Barrier { id: 2, threads: None }),
        );
    });
    assert!(matches!(cause(&crossed, 1), FaultCause::Deadlock(_)));
}

#[test]
fn warps_agree_on_the_size_of_a_barrier() {
    let k = kernel(96, |b| {
        let low = below(b, 32);
        b.if_else(
            low,
            |b| b.push(Inst::Barrier { id: 1, threads: Some(64) }),
            |b| b.push(Inst::Barrier { id: 1, threads: Some(96) }),
        );
    });
    assert!(matches!(cause(&k, 1), FaultCause::BarrierSize { id: 1, .. }));
    for (id, threads) in [(16, None), (0, Some(33)), (0, Some(0)), (0, Some(128))] {
        let k = kernel(96, |b| b.push(Inst::Barrier { id, threads }));
        assert!(matches!(cause(&k, 1), FaultCause::Malformed(_)), "{id} {threads:?}");
    }
}

/// A warp barrier orders accesses within the warp, but not between warps.
#[test]
fn lanes_synchronize_in_their_warp() {
    let passed_on = |threads: u32, synchronizes: bool, lane: u32| {
        kernel(threads, |b| {
            let array = b.shared(4 * threads, 4);
            let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
            let own = b.mul_add(Ty::U32, thread, 4_u32, base);
            b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(own), thread);
            if synchronizes {
                b.push(Inst::WarpBarrier);
            }
            let other = b.binary(PtxBinaryOp::Xor, Ty::B32, thread, lane);
            let at = b.mul_add(Ty::U32, other, 4_u32, base);
            let found = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at));
            super::give(b, found);
        })
    };
    let expected: Vec<u32> = (0..32).map(|lane| lane ^ 5).collect();
    assert_eq!(words(&passed_on(32, true, 5), 1, 32), expected);
    assert!(matches!(cause(&passed_on(32, false, 5), 1), FaultCause::Race { .. }));
    let other_warp = outcome(&passed_on(64, true, 32), 1, 64, ExecutionOrder::Random { seed: 1 });
    assert!(other_warp.is_err(), "{other_warp:?}");
    let torn = kernel(32, |b| {
        let some = below(b, 8);
        b.when(some, |b| b.push(Inst::WarpBarrier));
    });
    assert_eq!(cause(&torn, 1), FaultCause::PartialWarp { active: 0xff, expected: u32::MAX });
}

/// A barrier can be used again as soon as its threads have been released.
#[test]
fn barriers_are_used_again() {
    let k = kernel(128, |b| {
        let array = b.shared(4, 4);
        let at = ptx_asm::AddressOperand::array(array);
        let thread = b.special(SpecialReg::Thread);
        let first = GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32));
        let i = b.mov(ptx_asm::RegClass::B32, 0_u32);
        b.repeat(|b| {
            b.when(first, |b| b.store(ptx_asm::StateSpace::Shared, Ty::B32, at, i));
            b.barrier();
            let found = b.load(ptx_asm::StateSpace::Shared, Ty::B32, false, at);
            let next = b.add(Ty::U32, found, 1_u32);
            b.set(i, next);
            b.barrier();
            GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, i, 50_u32))
        });
        super::give(b, i);
    });
    assert_eq!(words(&k, 1, 128), [50; 128]);
}
