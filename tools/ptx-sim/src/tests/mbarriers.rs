//! Mbarriers: phases, counts, the order that they establish, and misuse.

use super::{ExecutionOrder, FaultCause, cause, give, kernel, own_word, words};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxKernel, Reg, RegClass,
    SpecialReg, StateSpace, Ty,
};

/// An mbarrier for `count` arrivals, initialized and visible to all threads.
fn barrier(b: &mut PtxBuilder, count: u32) -> AddressOperand {
    let at = AddressOperand::array(b.shared(8, 8));
    only(b, 0, |b| b.push(Inst::MbarrierInit { at, count }));
    b.barrier();
    at
}

/// Executes `write` in one thread.
fn only(b: &mut PtxBuilder, thread: u32, write: impl FnOnce(&mut PtxBuilder)) {
    let number = b.special(SpecialReg::Thread);
    let is_it = b.compare(CmpOp::Eq, Ty::U32, number, thread);
    b.when(GuardPredicate::on(is_it), write);
}

fn wait(b: &mut PtxBuilder, at: AddressOperand, parity: impl Into<ptx_asm::PtxOperand>) {
    let parity = b.in_register(RegClass::B32, parity);
    b.push(Inst::MbarrierWait { at, parity, cluster: false });
}

/// Loads the word of the thread half a block away.
fn other_word(b: &mut PtxBuilder, array: u32, threads: u32) -> Reg {
    let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
    let other = b.binary(PtxBinaryOp::Xor, Ty::B32, thread, threads / 2);
    let at = b.mul_add(Ty::U32, other, 4_u32, base);
    b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at))
}

/// Each thread writes a word, executes `between`, and reads another thread's word.
fn exchange(between: impl FnOnce(&mut PtxBuilder, AddressOperand)) -> PtxKernel {
    kernel(64, |b| {
        let (array, all) = (b.shared(256, 4), barrier(b, 64));
        let (at, thread) = (own_word(b, array), b.special(SpecialReg::Thread));
        b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(at), thread);
        between(b, all);
        let value = other_word(b, array, 64);
        give(b, value);
    })
}

#[test]
fn whole_warps_arrive_and_wait() {
    let right = exchange(|b, all| {
        b.push(Inst::MbarrierArrive { at: all });
        wait(b, all, 0_u32);
    });
    assert_eq!(words(&right, 1, 64), (0..64).map(|thread| thread ^ 32).collect::<Vec<u32>>());
    // The phase before the first one counts as complete.
    let too_early = exchange(|b, all| {
        b.push(Inst::MbarrierArrive { at: all });
        wait(b, all, 1_u32);
    });
    let no_wait = exchange(|b, all| b.push(Inst::MbarrierArrive { at: all }));
    for (wrong, order) in super::ORDERS.into_iter().flat_map(|order| [(&too_early, order), (&no_wait, order)])
    {
        let found = super::outcome(wrong, 1, 64, order).expect_err("it is wrong").cause;
        // A wait for the first phase does not cover the second one.
        let stuck = std::ptr::eq(wrong, &too_early) && matches!(*found, FaultCause::Deadlock(_));
        assert!(
            stuck || matches!(*found, FaultCause::Race { .. } | FaultCause::Uninitialized { .. }),
            "{found}"
        );
    }
    let nobody_comes = exchange(|b, all| wait(b, all, 0_u32));
    match cause(&nobody_comes, 1) {
        FaultCause::Deadlock(what) => assert_eq!(
            what.split("; ").next(),
            Some(
                "warp 0 waits for parity 0 of the barrier at byte 0 of shared array `1`, whose phase 0 lacks 64 arrivals and 0 bytes"
            )
        ),
        other => panic!("{other}"),
    }
}

/// An arrival of a lane releases the lane's earlier accesses, and no later ones.
#[test]
fn lanes_arrive_and_wait_alone() {
    let k = |before: bool, waits: bool| {
        kernel(64, |b| {
            let (array, full) = (b.shared(4, 4), barrier(b, 1));
            only(b, 5, |b| {
                if before {
                    b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 7_u32);
                }
                b.push(Inst::MbarrierArrive { at: full });
                if !before {
                    b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 7_u32);
                }
            });
            // Another lane of the warp, and a lane of another warp.
            for thread in [6, 40] {
                only(b, thread, |b| {
                    if waits {
                        wait(b, full, 0_u32);
                    }
                    let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
                    give(b, value);
                });
            }
        })
    };
    let found = words(&k(true, true), 1, 64);
    assert_eq!((found[6], found[40]), (7, 7));
    for order in super::ORDERS {
        for wrong in [k(false, true), k(true, false), k(false, false)] {
            let found = super::outcome(&wrong, 1, 64, order).expect_err("it is wrong").cause;
            assert!(matches!(*found, FaultCause::Race { .. } | FaultCause::Uninitialized { .. }), "{found}");
        }
    }
}

/// The other lanes of a warp acquire a lane's wait only when they synchronize.
#[test]
fn single_lanes_acquire() {
    let k = |synchronizes: bool| {
        kernel(64, |b| {
            let (array, full) = (b.shared(4, 4), barrier(b, 1));
            only(b, 32, |b| {
                b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 7_u32);
                b.push(Inst::MbarrierArrive { at: full });
            });
            only(b, 0, |b| wait(b, full, 0_u32));
            let thread = b.special(SpecialReg::Thread);
            let first_warp = b.compare(CmpOp::Lt, Ty::U32, thread, 32_u32);
            b.when(GuardPredicate::on(first_warp), |b| {
                if synchronizes {
                    b.push(Inst::Barrier { id: 1, threads: Some(32) });
                }
                let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
                give(b, value);
            });
        })
    };
    assert_eq!(words(&k(true), 1, 64)[31], 7);
    assert!(matches!(cause(&k(false), 1), FaultCause::Race { .. }));
}

/// The parity alternates in a loop over phases.
#[test]
fn phases_follow_each_other() {
    let k = kernel(64, |b| {
        let (array, all) = (b.shared(256, 4), barrier(b, 64));
        let at = own_word(b, array);
        let (sum, step) = (b.mov(RegClass::B32, 0_u32), b.mov(RegClass::B32, 0_u32));
        b.repeat(|b| {
            b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(at), step);
            for half in 0..2 {
                b.push(Inst::MbarrierArrive { at: all });
                wait(b, all, half as u32);
                if half == 0 {
                    let value = other_word(b, array, 64);
                    let more = b.add(Ty::U32, sum, value);
                    b.set(sum, more);
                }
            }
            let next = b.add(Ty::U32, step, 1_u32);
            b.set(step, next);
            GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, step, 5_u32))
        });
        give(b, sum);
    });
    assert_eq!(words(&k, 1, 64), vec![10; 64]);
}

#[test]
fn misuses_of_mbarriers_are_found() {
    type BarrierMisuse = fn(&mut PtxBuilder, AddressOperand);
    let k = |count: u32, write: BarrierMisuse| {
        kernel(64, |b| {
            let at = barrier(b, count);
            only(b, 0, |b| write(b, at));
        })
    };
    let broken: [(u32, BarrierMisuse); 4] = [
        (1, |b, at| b.push(Inst::MbarrierInit { at, count: 1 })),
        (2, |b, at| {
            b.push(Inst::MbarrierArriveExpectTx { at, bytes: (1 << 20) - 1 });
            b.push(Inst::MbarrierArriveExpectTx { at, bytes: 1 });
        }),
        // The phase waits for bytes, not for a second arrival.
        (1, |b, at| {
            b.push(Inst::MbarrierArriveExpectTx { at, bytes: 16 });
            b.push(Inst::MbarrierArrive { at });
        }),
        (1, |b, at| wait(b, at, 2_u32)),
    ];
    for (count, write) in broken {
        let found = cause(&k(count, write), 1);
        assert!(matches!(found, FaultCause::Barrier { .. }), "{found}");
    }
    let touched: [BarrierMisuse; 2] = [
        |b, at| {
            b.load(StateSpace::Shared, Ty::B32, false, at.plus(4));
        },
        |b, at| b.store(StateSpace::Shared, Ty::B64, at, 0_u64),
    ];
    for write in touched {
        assert!(matches!(cause(&k(1, write), 1), FaultCause::IsBarrier { .. }));
    }
    let none = |write: BarrierMisuse| {
        kernel(32, |b| {
            let at = AddressOperand::array(b.shared(16, 8));
            write(b, at);
        })
    };
    assert!(matches!(
        cause(&none(|b, at| b.push(Inst::MbarrierArrive { at })), 1),
        FaultCause::NoBarrier { .. }
    ));
    assert!(matches!(cause(&none(|b, at| wait(b, at, 1_u32)), 1), FaultCause::NoBarrier { .. }));
    let no_arrivals = none(|b, at| b.push(Inst::MbarrierInit { at, count: 0 }));
    assert!(matches!(cause(&no_arrivals, 1), FaultCause::Malformed(_)));
    let between = none(|b, at| b.push(Inst::MbarrierArrive { at: at.plus(4) }));
    assert!(matches!(cause(&between, 1), FaultCause::Misaligned { align: 8, .. }));
    let beyond = none(|b, at| b.push(Inst::MbarrierArrive { at: at.plus(16) }));
    assert!(matches!(cause(&beyond, 1), FaultCause::OutOfBounds { .. }));
}

/// A thread that has not synchronized with the initializing thread must not use the mbarrier.
#[test]
fn initializations_need_a_barrier() {
    let k = |synchronizes: bool| {
        kernel(64, |b| {
            let at = AddressOperand::array(b.shared(8, 8));
            only(b, 0, |b| b.push(Inst::MbarrierInit { at, count: 1 }));
            if synchronizes {
                b.barrier();
            }
            only(b, 32, |b| b.push(Inst::MbarrierArrive { at }));
        })
    };
    words(&k(true), 1, 0);
    assert!(matches!(
        *super::outcome(&k(false), 1, 0, ExecutionOrder::Sequential).expect_err("there is no barrier").cause,
        FaultCause::Race { .. }
    ));
}
