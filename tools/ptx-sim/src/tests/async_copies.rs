//! Asynchronous copies with `cp.async`.

use super::{ExecutionOrder, FaultCause, ORDERS, kernel, own_word, words_of};
use crate::{KernelStats, SimFault, SimLaunch, SimulatedGpu, run};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxKernel, PtxOperand, Reg,
    RegClass, SpecialReg, StateSpace, Ty,
};

/// Starts a copy of the thread's word of the buffer at parameter 0.
fn begin(b: &mut PtxBuilder, to: Reg, read: Option<Reg>) {
    let (thread, source) = (b.special(SpecialReg::Thread), b.param(0));
    let from = b.mul_add_wide(Ty::U32, thread, 4_u32, source);
    b.push(Inst::CpAsync { bytes: 4, to: AddressOperand::at(to), from: AddressOperand::at(from), read });
}

/// Runs a kernel on a buffer of 64 words, which is its source and output, and returns the words afterwards.
fn outcome(kernel: &PtxKernel, order: ExecutionOrder) -> Result<(Vec<u32>, KernelStats), SimFault> {
    let mut gpu = SimulatedGpu::new();
    let x = gpu.put("x", (100..164_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let stats = run(kernel, &SimLaunch::new(1, &[x.address()]), &mut gpu, order)?;
    Ok((words_of(&gpu, x), stats))
}

fn cause(kernel: &PtxKernel, order: ExecutionOrder) -> FaultCause {
    *outcome(kernel, order).expect_err("it is wrong").cause
}

/// Each thread starts a copy of its own word, executes `between`, reads the word of the thread `distance`
/// away, and stores the word.
fn exchange(distance: u32, between: impl FnOnce(&mut PtxBuilder)) -> PtxKernel {
    kernel(64, |b| {
        let array = b.shared(256, 16);
        let at = own_word(b, array);
        begin(b, at, None);
        between(b);
        let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
        let other = b.binary(PtxBinaryOp::Xor, Ty::B32, thread, distance);
        let at = b.mul_add(Ty::U32, other, 4_u32, base);
        let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at));
        b.barrier();
        super::give(b, value);
    })
}

fn commit(b: &mut PtxBuilder) {
    b.push(Inst::CpAsyncCommit);
}

fn wait(b: &mut PtxBuilder, pending: u32) {
    b.push(Inst::CpAsyncWait { pending });
}

#[test]
fn copies_arrive_where_they_were_waited_for() {
    for distance in [0, 1, 32] {
        let k = exchange(distance, |b| {
            commit(b);
            wait(b, 0);
            b.barrier();
        });
        for order in ORDERS {
            let (found, stats) = outcome(&k, order).expect("it is right");
            assert_eq!(found, (0..64).map(|thread| 100 + (thread ^ distance)).collect::<Vec<u32>>());
            assert_eq!((stats.bytes("cpasync"), stats.sectors("cpasync")), (256, 8));
        }
    }
    // A thread sees its own copy without a barrier.
    let own = exchange(0, |b| {
        commit(b);
        wait(b, 0);
    });
    assert!(outcome(&own, ExecutionOrder::Sequential).is_ok());
}

#[test]
fn copies_in_flight_are_not_accessed() {
    type EmitBetween = fn(&mut PtxBuilder);
    let cases: [(u32, EmitBetween); 4] = [
        (0, |_| ()),
        (0, |b| {
            // The copy was not committed, so the wait does not cover it.
            wait(b, 0);
        }),
        (0, |b| {
            commit(b);
            wait(b, 1);
        }),
        (32, |b| {
            commit(b);
            b.barrier();
        }),
    ];
    for (distance, between) in cases {
        for order in ORDERS {
            let found = cause(&exchange(distance, between), order);
            assert!(matches!(found, FaultCause::PendingCopy { .. }), "{found:?}");
        }
    }
    // The barrier stands before the wait, so other threads must not read yet.
    let early = exchange(32, |b| {
        commit(b);
        b.barrier();
        wait(b, 0);
    });
    for order in ORDERS {
        let found = cause(&early, order);
        assert!(matches!(found, FaultCause::Race { .. } | FaultCause::PendingCopy { .. }), "{found:?}");
    }
    // The copying thread must not write the destination either.
    let written = kernel(64, |b| {
        let array = b.shared(256, 16);
        let at = own_word(b, array);
        begin(b, at, None);
        b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(at), 1_u32);
    });
    assert!(matches!(cause(&written, ExecutionOrder::Sequential), FaultCause::PendingCopy { owner: 0, .. }));
    // The copying thread must not start a second copy to the destination either.
    let twice = kernel(64, |b| {
        let array = b.shared(256, 16);
        let at = own_word(b, array);
        begin(b, at, None);
        begin(b, at, None);
    });
    assert!(matches!(cause(&twice, ExecutionOrder::Sequential), FaultCause::PendingCopy { .. }));
}

/// The wait covers the oldest groups first.
#[test]
fn groups_are_waited_for_in_order() {
    let k = |left: u32| {
        kernel(64, |b| {
            let [first, second] = [(); 2].map(|()| {
                let array = b.shared(256, 16);
                let at = own_word(b, array);
                begin(b, at, None);
                commit(b);
                at
            });
            wait(b, left);
            b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(first));
            wait(b, 0);
            b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(second));
        })
    };
    assert!(outcome(&k(0), ExecutionOrder::Sequential).is_ok());
    assert!(outcome(&k(1), ExecutionOrder::Sequential).is_ok());
    assert!(matches!(cause(&k(2), ExecutionOrder::Sequential), FaultCause::PendingCopy { .. }));
}

/// A copy that a block does not wait for has no effect on the next block.
#[test]
fn copies_end_with_their_block() {
    let k = kernel(64, |b| {
        let array = b.shared(256, 16);
        let (at, block) = (own_word(b, array), b.special(SpecialReg::Block));
        let first = b.compare(CmpOp::Eq, Ty::U32, block, 0_u32);
        b.when(GuardPredicate::on(first), |b| {
            begin(b, at, None);
            commit(b);
        });
        b.when(GuardPredicate::not(first), |b| {
            b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(at), block);
            wait(b, 0);
            let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at));
            let same = b.compare(CmpOp::Eq, Ty::U32, value, block);
            // A copy of no bytes may have any source address.
            let nowhere = b.mov(RegClass::B64, 0_u64);
            b.when(GuardPredicate::not(same), |b| {
                b.store(StateSpace::Global, Ty::B32, AddressOperand::at(nowhere), value)
            });
        });
    });
    let mut gpu = SimulatedGpu::new();
    let x = gpu.put("x", vec![1; 256]);
    run(&k, &SimLaunch::new(2, &[x.address()]), &mut gpu, ExecutionOrder::Sequential).expect("it is right");
}

#[test]
fn bytes_beyond_the_source_are_zero() {
    let k = |read: u32, outside: bool| {
        kernel(64, |b| {
            let array = b.shared(256, 16);
            let at = own_word(b, array);
            let read = b.mov(RegClass::B32, read);
            let source = b.param(0);
            let far = if outside { 1 << 20 } else { 0 };
            let from = AddressOperand::at(source).plus(far);
            b.push(Inst::CpAsync { bytes: 4, to: AddressOperand::at(at), from, read: Some(read) });
            commit(b);
            wait(b, 0);
            let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at));
            b.barrier();
            super::give(b, value);
        })
    };
    let first = |kernel: &PtxKernel| outcome(kernel, ExecutionOrder::Sequential).expect("it is right").0[0];
    assert_eq!(first(&k(4, false)), 100);
    assert_eq!(first(&k(0, false)), 0);
    assert_eq!(first(&k(0, true)), 0);
    assert!(matches!(
        cause(&k(1, true), ExecutionOrder::Sequential),
        FaultCause::OutOfBounds { bytes: 1, .. }
    ));
    assert_eq!(cause(&k(5, false), ExecutionOrder::Sequential), FaultCause::CopySize { bytes: 4, read: 5 });
}

#[test]
fn sources_do_not_change() {
    let k = kernel(64, |b| {
        let array = b.shared(256, 16);
        let at = own_word(b, array);
        begin(b, at, None);
        commit(b);
        super::give(b, 1_u32);
        wait(b, 0);
    });
    assert!(matches!(cause(&k, ExecutionOrder::Sequential), FaultCause::SourceChanged { .. }));
    // Before the wait, a write by another thread is a race.
    let other = kernel(64, |b| {
        let array = b.shared(256, 16);
        let at = own_word(b, array);
        let thread = b.special(SpecialReg::Thread);
        let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
        begin(b, at, None);
        commit(b);
        let x = b.param(0);
        b.when(GuardPredicate::on(first), |b| {
            b.store(StateSpace::Global, Ty::B32, AddressOperand::at(x).plus(4), 1_u32)
        });
        wait(b, 0);
    });
    assert!(matches!(cause(&other, ExecutionOrder::Sequential), FaultCause::Race { .. }));
}

/// A copy to bytes that other threads may still read is a race, as a store is.
#[test]
fn copies_race_like_stores() {
    let k = |barrier: bool| {
        exchange(32, move |b| {
            commit(b);
            wait(b, 0);
            b.barrier();
            let value = {
                let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, 0));
                let other = b.binary(PtxBinaryOp::Xor, Ty::B32, thread, 32_u32);
                let at = b.mul_add(Ty::U32, other, 4_u32, base);
                b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at))
            };
            b.mov(RegClass::B32, PtxOperand::Reg(value));
            if barrier {
                b.barrier();
            }
            let at = own_word(b, 0);
            begin(b, at, None);
            commit(b);
            wait(b, 0);
            b.barrier();
        })
    };
    for order in ORDERS {
        assert!(outcome(&k(true), order).is_ok());
        let found = cause(&k(false), order);
        assert!(matches!(found, FaultCause::Race { .. } | FaultCause::PendingCopy { .. }), "{found:?}");
    }
    // A copy from bytes that another thread wrote is a race, too.
    let from_written = kernel(64, |b| {
        let array = b.shared(256, 16);
        let at = own_word(b, array);
        let (thread, x) = (b.special(SpecialReg::Thread), b.param(0));
        let other = b.binary(PtxBinaryOp::Xor, Ty::B32, thread, 1_u32);
        let place = b.mul_add_wide(Ty::U32, other, 4_u32, x);
        b.store(StateSpace::Global, Ty::B32, AddressOperand::at(place), 1_u32);
        begin(b, at, None);
    });
    assert!(matches!(cause(&from_written, ExecutionOrder::Sequential), FaultCause::Race { .. }));
    let from_nothing = super::cause(
        &kernel(1, |b| {
            let array = b.shared(4, 16);
            let x = b.param(0);
            b.push(Inst::CpAsync {
                bytes: 4,
                to: AddressOperand::array(array),
                from: AddressOperand::at(x),
                read: None,
            });
        }),
        1,
    );
    assert!(matches!(from_nothing, FaultCause::Uninitialized { .. }));
    // Alignment and bounds of destination and source are checked.
    let k = |bytes: u32, to: i32, from: i32| {
        kernel(1, |b| {
            let array = b.shared(64, 16);
            let x = b.param(0);
            let (to, from) = (AddressOperand::array(array).plus(to), AddressOperand::at(x).plus(from));
            b.push(Inst::CpAsync { bytes, to, from, read: None });
        })
    };
    assert!(outcome(&k(16, 48, 240), ExecutionOrder::Sequential).is_ok());
    assert!(matches!(cause(&k(16, 64, 0), ExecutionOrder::Sequential), FaultCause::OutOfBounds { .. }));
    assert!(matches!(cause(&k(16, 0, 256), ExecutionOrder::Sequential), FaultCause::OutOfBounds { .. }));
    assert!(matches!(cause(&k(16, 8, 0), ExecutionOrder::Sequential), FaultCause::Misaligned { .. }));
    assert!(matches!(cause(&k(16, 0, 8), ExecutionOrder::Sequential), FaultCause::Misaligned { .. }));
    assert!(matches!(cause(&k(12, 0, 0), ExecutionOrder::Sequential), FaultCause::Malformed(_)));
}
