//! Data races, and ordered accesses that are none.

use smallvec::smallvec;

use super::{ExecutionOrder, FaultCause, ORDERS, cause, give, index, kernel, own_word, words};
use crate::{AccessKind, Accessor, SimLaunch, SimulatedGpu, run};
use ptx_asm::{
    AddressOperand, AtomicOp, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxKernel, SpecialReg,
    StateSpace, Ty,
};

/// Each thread writes its word and, after `between`, reads the word of the thread `distance` away.
fn exchange(threads: u32, distance: u32, between: impl FnOnce(&mut PtxBuilder)) -> PtxKernel {
    kernel(threads, |b| {
        let array = b.shared(4 * threads, 4);
        let (at, i) = (own_word(b, array), index(b));
        b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(at), i);
        between(b);
        let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
        let other = b.binary(PtxBinaryOp::Xor, Ty::B32, thread, distance);
        let at = b.mul_add(Ty::U32, other, 4_u32, base);
        let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at));
        give(b, value);
    })
}

fn synchronize(id: u32, threads: u32) -> Inst {
    Inst::Barrier { id, threads: Some(threads) }
}

fn is_race(cause: &FaultCause) -> bool {
    matches!(cause, FaultCause::Race { .. })
}

#[test]
fn a_missing_barrier_is_found() {
    // In sequential order the later warp reads the earlier warp's write; in the other direction the word is
    // still uninitialized.
    for distance in [1, 32] {
        let expected: Vec<u32> = (0..64).map(|thread| thread ^ distance).collect();
        assert_eq!(words(&exchange(64, distance, PtxBuilder::barrier), 1, 64), expected);
        for order in ORDERS {
            let found =
                super::outcome(&exchange(64, distance, |_| ()), 1, 64, order).expect_err("no barrier").cause;
            assert!(is_race(&found) || matches!(*found, FaultCause::Uninitialized { .. }), "{found:?}");
        }
    }
    let fault =
        super::outcome(&exchange(32, 1, |_| ()), 1, 64, ExecutionOrder::Sequential).expect_err("no barrier");
    match *fault.cause {
        FaultCause::Race {
            location,
            access: AccessKind::Read,
            other: Accessor::Thread(1),
            other_access: AccessKind::Write,
        } => {
            assert_eq!((location.byte, fault.site.expect("it ran").thread), (4, 0));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn barriers_of_some_warps_order_those() {
    // Warps 0 and 1 exchange words, and so do warps 2 and 3.
    let pairs = |b: &mut PtxBuilder| {
        let thread = b.special(SpecialReg::Thread);
        let low = b.compare(CmpOp::Lt, Ty::U32, thread, 64_u32);
        b.if_else(GuardPredicate::on(low), |b| b.push(synchronize(1, 64)), |b| b.push(synchronize(2, 64)));
    };
    let expected: Vec<u32> = (0..128).map(|thread| thread ^ 32).collect();
    assert_eq!(words(&exchange(128, 32, pairs), 1, 128), expected);
    for order in ORDERS {
        let found = super::outcome(&exchange(128, 64, pairs), 1, 128, order).expect_err("other pairs").cause;
        assert!(is_race(&found) || matches!(*found, FaultCause::Uninitialized { .. }), "{found:?}");
    }
    // Order is transitive: warp 0 synchronizes with 1, then 1 with 2.
    let chain = kernel(96, |b| {
        let array = b.shared(4, 4);
        let thread = b.special(SpecialReg::Thread);
        let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
        let is =
            |b: &mut PtxBuilder, value: u32| GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, warp, value));
        let zero = is(b, 0);
        b.when(zero, |b| {
            b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 7_u32);
            b.push(synchronize(1, 64));
        });
        let one = is(b, 1);
        b.when(one, |b| {
            b.push(synchronize(1, 64));
            b.push(synchronize(2, 64));
        });
        let two = is(b, 2);
        b.when(two, |b| {
            b.push(synchronize(2, 64));
            let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
            give(b, value);
        });
    });
    assert_eq!(words(&chain, 1, 96)[64..], [7; 32]);
}

#[test]
fn writing_what_others_still_read_is_found() {
    // Every thread reads word 0, then thread 0 of the last warp writes it.
    let k = |barrier: bool| {
        kernel(96, |b| {
            let array = b.shared(4, 4);
            let thread = b.special(SpecialReg::Thread);
            let is = |b: &mut PtxBuilder, value: u32| {
                GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, thread, value))
            };
            let first = is(b, 0);
            b.when(first, |b| b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 1_u32));
            b.barrier();
            let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
            if barrier {
                b.barrier();
            }
            let last = is(b, 64);
            b.when(last, |b| b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 2_u32));
            give(b, value);
        })
    };
    assert_eq!(words(&k(true), 1, 96), [1; 96]);
    assert!(is_race(&cause(&k(false), 1)));
}

/// Warps 0 and 1 read at the same time; the writer has synchronized with one of them, or with both.
#[test]
fn every_reader_counts() {
    let k = |met: [u32; 2]| {
        kernel(96, |b| {
            let array = b.shared(4, 4);
            let thread = b.special(SpecialReg::Thread);
            let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
            let is = |b: &mut PtxBuilder, value: u32| {
                GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, warp, value))
            };
            let warps: [GuardPredicate; 3] = std::array::from_fn(|i| is(b, i as u32));
            b.when(warps[2], |b| b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 7_u32));
            b.barrier();
            for &reader in &warps[..2] {
                b.when(reader, |b| {
                    b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
                });
            }
            for (i, reader) in met.into_iter().enumerate() {
                b.when(warps[reader as usize], |b| b.push(synchronize(1 + i as u32, 64)));
                b.when(warps[2], |b| b.push(synchronize(1 + i as u32, 64)));
            }
            b.when(warps[2], |b| b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 8_u32));
        })
    };
    for met in [[0, 1], [1, 0]] {
        words(&k(met), 1, 0);
    }
    for met in [[0, 0], [1, 1]] {
        assert!(is_race(&cause(&k(met), 1)));
    }
}

/// Warps 0 and 1 read a word at different times, then warp 2 writes it, or one byte of it. The write is a
/// race if a barrier orders only the read of warp 1 before it.
#[test]
fn early_readers_are_not_forgotten() {
    let k = |meet_early_reader: bool, write: Ty| {
        kernel(96, |b| {
            let array = b.shared(4, 4);
            let thread = b.special(SpecialReg::Thread);
            let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 5_u32);
            let is = |b: &mut PtxBuilder, value: u32| {
                GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, warp, value))
            };
            let read = |b: &mut PtxBuilder| {
                b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
            };
            let zero = is(b, 0);
            let one = is(b, 1);
            let two = is(b, 2);
            b.when(zero, |b| b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 7_u32));
            b.barrier();
            // Warp 0 reads at an early time. Warp 1 synchronizes with warp 2 once more, then reads at a later
            // time.
            b.when(zero, read);
            b.when(one, |b| {
                b.push(synchronize(1, 64));
                read(b);
                b.push(synchronize(2, if meet_early_reader { 96 } else { 64 }));
            });
            if meet_early_reader {
                b.when(zero, |b| b.push(synchronize(2, 96)));
            }
            b.when(two, |b| {
                b.push(synchronize(1, 64));
                b.push(synchronize(2, if meet_early_reader { 96 } else { 64 }));
                let place = AddressOperand::array(array).plus(4 - write.bytes() as i32);
                b.store(StateSpace::Shared, write, place, 8_u32);
            });
        })
    };
    for (order, write) in ORDERS.into_iter().flat_map(|order| [(order, Ty::B32), (order, Ty::B8)]) {
        super::outcome(&k(true, write), 1, 0, order).expect("it is right");
        // In some orders warp 0 finds the write of warp 2.
        let found = super::outcome(&k(false, write), 1, 0, order).expect_err("warp 0 was not met").cause;
        let ends = |other| matches!(other, Accessor::Warp(0 | 2));
        assert!(matches!(*found, FaultCause::Race { other, .. } if ends(other)), "{found:?}");
    }
}

#[test]
fn lanes_that_store_at_one_address() {
    let k = |same: bool| {
        kernel(32, |b| {
            let array = b.shared(4, 4);
            let lane = b.special(SpecialReg::Lane);
            let value = if same { b.mov(ptx_asm::RegClass::B32, 9_u32) } else { lane };
            b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), value);
            b.barrier();
            let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
            give(b, value);
        })
    };
    assert_eq!(words(&k(true), 1, 32), [9; 32]);
    assert!(matches!(cause(&k(false), 1), FaultCause::ConflictingLanes { lanes: [0, 1], .. }));
    // Several lanes stored the word, so no lane may read it without a barrier, not even the last one.
    let own = kernel(32, |b| {
        let array = b.shared(4, 4);
        let lane = b.special(SpecialReg::Lane);
        b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 9_u32);
        let last = b.compare(CmpOp::Eq, Ty::U32, lane, 31_u32);
        b.when(GuardPredicate::on(last), |b| {
            b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
        });
    });
    assert!(matches!(cause(&own, 1), FaultCause::Race { other: Accessor::Warp(0), .. }));
    // Two store instructions race even with equal values.
    let twice = kernel(32, |b| {
        let array = b.shared(4, 4);
        for _ in 0..2 {
            b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 9_u32);
        }
    });
    assert!(is_race(&cause(&twice, 1)));
}

/// The bytes of a word are tracked separately, even after accesses of the whole word.
#[test]
fn bytes_of_a_word_are_apart() {
    let k = |own: bool| {
        kernel(4, |b| {
            let array = b.shared(4, 4);
            let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
            let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
            b.when(GuardPredicate::on(first), |b| {
                b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(base), 0x0403_0201_u32)
            });
            b.barrier();
            let at = b.add(Ty::U32, base, thread);
            let old = b.load(StateSpace::Shared, Ty::U8, false, AddressOperand::at(at));
            b.store(StateSpace::Shared, Ty::U8, AddressOperand::at(at), old);
            let next = b.binary(PtxBinaryOp::Xor, Ty::B32, at, u32::from(!own));
            let value = b.load(StateSpace::Shared, Ty::U8, false, AddressOperand::at(next));
            let zero = b.mov(ptx_asm::RegClass::B16, 0_u32);
            let value = b.pack(ptx_asm::RegClass::B32, value, zero);
            give(b, value);
        })
    };
    assert_eq!(words(&k(true), 1, 4), [1, 2, 3, 4]);
    assert!(matches!(cause(&k(false), 1), FaultCause::Race { location, .. } if location.byte == 1));
}

#[test]
fn blocks_are_not_ordered() {
    let k = |write: fn(&mut PtxBuilder, ptx_asm::Reg, ptx_asm::Reg)| {
        kernel(32, |b| {
            let (block, out) = (b.special(SpecialReg::Block), b.param(0));
            write(b, block, out);
        })
    };
    let of_block = |b: &mut PtxBuilder, block: ptx_asm::Reg, value: u32| {
        GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, block, value))
    };
    // Two writes race even with equal values.
    let both = k(|b, _, out| b.store(StateSpace::Global, Ty::B32, AddressOperand::at(out), 1_u32));
    words(&both, 1, 1);
    let found = cause(&both, 2);
    assert!(
        matches!(found, FaultCause::Race { other: Accessor::Block(_), other_access: AccessKind::Write, .. }),
        "{found:?}"
    );
    // A write races with another block's read.
    for order in ORDERS {
        let mut gpu = SimulatedGpu::new();
        let x = gpu.put("x", vec![0; 4]);
        let mut b = PtxBuilder::new("k", 1, 32);
        let (block, at) = (b.special(SpecialReg::Block), b.param(0));
        let first = of_block(&mut b, block, 0);
        b.if_else(
            first,
            |b| {
                b.load(StateSpace::Global, Ty::B32, false, AddressOperand::at(at));
            },
            |b| b.store(StateSpace::Global, Ty::B32, AddressOperand::at(at), 1_u32),
        );
        let fault =
            run(&b.finish(), &SimLaunch::new(2, &[x.address()]), &mut gpu, order).expect_err("a race");
        assert!(is_race(&fault.cause));
    }
    // Two atomics do not race, but an atomic and a read do.
    let add = |at| Inst::Atomic {
        space: StateSpace::Global,
        op: AtomicOp::Add,
        ty: Ty::U32,
        dst: None,
        at: AddressOperand::at(at),
        operands: smallvec![1_u32.into()],
    };
    for reads in [false, true] {
        for order in ORDERS {
            let mut gpu = SimulatedGpu::new();
            let x = gpu.put("x", vec![0; 4]);
            let mut b = PtxBuilder::new("k", 1, 32);
            let (block, at) = (b.special(SpecialReg::Block), b.param(0));
            b.push(add(at));
            if reads {
                let last = of_block(&mut b, block, 2);
                b.when(last, |b| {
                    b.barrier();
                    b.load(StateSpace::Global, Ty::U32, false, AddressOperand::at(at));
                });
            }
            let result = run(&b.finish(), &SimLaunch::new(3, &[x.address()]), &mut gpu, order);
            assert_eq!(result.is_err(), reads, "{result:?}");
        }
    }
}

#[test]
fn atomic_operations_race_with_others_only() {
    let k = |plain: bool| {
        kernel(32, |b| {
            let array = b.shared(4, 4);
            let (thread, at) = (b.special(SpecialReg::Thread), AddressOperand::array(array));
            let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
            b.when(GuardPredicate::on(first), |b| b.store(StateSpace::Shared, Ty::U32, at, 0_u32));
            b.barrier();
            let (space, op, ty) = (StateSpace::Shared, AtomicOp::Add, Ty::U32);
            b.push(Inst::Atomic { space, op, ty, dst: None, at, operands: smallvec![1_u32.into()] });
            b.push(Inst::Atomic { space, op, ty, dst: None, at, operands: smallvec![1_u32.into()] });
            if !plain {
                b.barrier();
            }
            let value = b.load(space, ty, false, at);
            give(b, value);
        })
    };
    assert_eq!(words(&k(false), 1, 32), [64; 32]);
    assert!(matches!(cause(&k(true), 1), FaultCause::Race { other_access: AccessKind::Atomic, .. }));
}

#[test]
fn stores_race_with_atomic_operations() {
    let k = |store_first: bool| {
        kernel(2, |b| {
            let at = b.param(0);
            let thread = b.special(SpecialReg::Thread);
            let first = GuardPredicate::on(b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32));
            let (space, op, ty) = (StateSpace::Global, AtomicOp::Exchange, Ty::B32);
            let operands = smallvec![1_u32.into()];
            let exchange = Inst::Atomic { space, op, ty, dst: None, at: AddressOperand::at(at), operands };
            if store_first {
                b.when(first, |b| b.store(space, ty, AddressOperand::at(at), 0_u32));
            }
            b.push(exchange);
            if !store_first {
                b.when(first, |b| b.store(space, ty, AddressOperand::at(at), 0_u32));
            }
        })
    };
    for store_first in [false, true] {
        let mut gpu = SimulatedGpu::new();
        let x = gpu.put("x", vec![0; 4]);
        let launch = [x.address()];
        let fault = run(&k(store_first), &SimLaunch::new(1, &launch), &mut gpu, ExecutionOrder::Sequential);
        assert!(is_race(&fault.expect_err("thread 1 updates, thread 0 stores").cause));
    }
}

#[test]
fn constants_are_not_written() {
    let k = |read_first: bool| {
        kernel(1, |b| {
            let at = b.param(0);
            let read = |b: &mut PtxBuilder| {
                b.load(StateSpace::Global, Ty::U32, true, AddressOperand::at(at));
            };
            let write =
                |b: &mut PtxBuilder| b.store(StateSpace::Global, Ty::U32, AddressOperand::at(at), 0_u32);
            if read_first {
                read(b);
                write(b);
            } else {
                write(b);
                read(b);
            }
        })
    };
    for (read_first, blocks) in [(true, 1), (false, 1), (true, 2)] {
        let mut gpu = SimulatedGpu::new();
        let x = gpu.put("x", vec![0; 4]);
        let launch = [x.address()];
        let fault =
            run(&k(read_first), &SimLaunch::new(blocks, &launch), &mut gpu, ExecutionOrder::Sequential);
        assert!(matches!(*fault.expect_err("a constant").cause, FaultCause::NotConstant { .. }));
    }
    // A constant load excludes atomics, even by the same thread.
    let updated = kernel(1, |b| {
        let at = b.param(0);
        let (space, op, ty) = (StateSpace::Global, AtomicOp::Exchange, Ty::B32);
        let operands = smallvec![1_u32.into()];
        b.push(Inst::Atomic { space, op, ty, dst: None, at: AddressOperand::at(at), operands });
        b.load(space, ty, true, AddressOperand::at(at));
    });
    let mut gpu = SimulatedGpu::new();
    let x = gpu.put("x", vec![0; 4]);
    let fault = run(&updated, &SimLaunch::new(1, &[x.address()]), &mut gpu, ExecutionOrder::Sequential);
    assert!(matches!(
        *fault.expect_err("a constant").cause,
        FaultCause::NotConstant { other: Accessor::Thread(0), .. }
    ));
    // Writes of an earlier launch do not conflict with constant loads.
    let mut gpu = SimulatedGpu::new();
    let x = gpu.reserve("x", 4);
    let write = kernel(1, |b| {
        let at = b.param(0);
        b.store(StateSpace::Global, Ty::U32, AddressOperand::at(at), 3_u32);
    });
    let read = kernel(64, |b| {
        let at = b.param(0);
        b.load(StateSpace::Global, Ty::U32, true, AddressOperand::at(at));
    });
    for kernel in [write, read] {
        run(&kernel, &SimLaunch::new(1, &[x.address()]), &mut gpu, ExecutionOrder::Sequential)
            .expect("it is right");
    }
    assert!(gpu.is_written(x));
}
