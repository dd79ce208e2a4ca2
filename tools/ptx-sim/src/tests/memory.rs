//! Memory accesses: effects and checks.

use smallvec::smallvec;

use super::{
    ExecutionOrder, FaultCause, ORDERS, cause, constant, give, index, kernel, own_word, words, words_of,
};
use crate::{SimLaunch, SimulatedGpu, run};
use ptx_asm::{AddressOperand, Inst, PtxBinaryOp, PtxOperand, RegClass, SpecialReg, StateSpace, Ty};

#[test]
fn elements_are_extended_by_their_type() {
    let cases = [(Ty::U8, 0x80), (Ty::B8, 0x80), (Ty::S8, 0xff80), (Ty::U16, 0xff80), (Ty::S16, 0xff80)];
    for (ty, expected) in cases {
        let mut gpu = SimulatedGpu::new();
        let bytes = gpu.put("bytes", vec![0x80, 0xff, 0, 0]);
        let k = kernel(1, |b| {
            let from = b.param(0);
            let value = b.load(StateSpace::Global, ty, false, AddressOperand::at(from));
            let zero = constant(b, RegClass::B16, 0);
            let whole = b.pack(RegClass::B32, value, zero);
            b.store(StateSpace::Global, Ty::B32, AddressOperand::at(from), whole);
        });
        run(&k, &SimLaunch::new(1, &[bytes.address()]), &mut gpu, ExecutionOrder::Sequential)
            .expect("it is right");
        assert_eq!(words_of(&gpu, bytes), [expected], "{ty:?}");
    }
}

#[test]
fn vectors_are_contiguous_and_narrow_stores_truncate() {
    let mut gpu = SimulatedGpu::new();
    let x = gpu.put("x", (0..64).collect::<Vec<u8>>());
    let k = kernel(4, |b| {
        let (i, x) = (index(b), b.param(0));
        let at = b.mul_add_wide(Ty::U32, i, 16_u32, x);
        let mut values = b.load_vector(StateSpace::Global, Ty::B32, false, AddressOperand::at(at), 4);
        values.reverse();
        b.store_vector(StateSpace::Global, Ty::B32, AddressOperand::at(at), &values);
        let wide = constant(b, RegClass::B16, 0xabcd);
        b.store(StateSpace::Global, Ty::U8, AddressOperand::at(at).plus(3), wide);
    });
    run(&k, &SimLaunch::new(1, &[x.address()]), &mut gpu, ExecutionOrder::Sequential).expect("it is right");
    let row = |i: u8| {
        [12, 13, 14, 0xcd, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3]
            .map(|byte: u8| if byte == 0xcd { byte } else { byte + 16 * i })
    };
    assert_eq!(gpu.bytes(x), (0..4).flat_map(row).collect::<Vec<u8>>());
}

#[test]
fn accesses_stay_within_one_array() {
    let global = |offset: i32, bytes: usize| {
        let mut gpu = SimulatedGpu::new();
        gpu.put("below", vec![0; 64]);
        let x = gpu.put("x", vec![0; bytes]);
        gpu.put("above", vec![0; 64]);
        let k = kernel(1, |b| {
            let x = b.param(0);
            b.load_vector(StateSpace::Global, Ty::F32, false, AddressOperand::at(x).plus(offset), 4);
        });
        run(&k, &SimLaunch::new(1, &[x.address()]), &mut gpu, ExecutionOrder::Sequential)
            .map_err(|fault| *fault.cause)
    };
    assert!(global(16, 32).is_ok());
    for (offset, bytes) in [(32, 32), (16, 28), (-16, 32), (-256, 32), (256, 256), (i32::MIN, 32)] {
        let found = global(offset, bytes);
        assert!(
            matches!(found, Err(FaultCause::OutOfBounds { bytes: 16, .. })),
            "{offset} {bytes}: {found:?}"
        );
    }
    for space in [StateSpace::Shared, StateSpace::Local] {
        let access = |offset: i32| {
            kernel(32, |b| {
                let array = match space {
                    StateSpace::Shared => (b.shared(6, 1), b.shared(24, 8)).1,
                    _ => (b.local(6, 1), b.local(24, 8)).1,
                };
                b.store(space, Ty::B64, AddressOperand::array(array).plus(offset), 1_u64);
            })
        };
        words(&access(16), 1, 0);
        for offset in [24, -8, 20, -1000, -(1 << 20)] {
            let found = cause(&access(offset), 1);
            match found {
                FaultCause::OutOfBounds { space: found, .. } => assert_eq!(found, space),
                FaultCause::Misaligned { .. } => assert_eq!(offset, 20),
                _ => panic!("{found:?}"),
            }
        }
    }
}

/// An access of the byte just after an array, or just before it, is a fault.
#[test]
fn arrays_end_after_their_last_byte() {
    for space in [StateSpace::Shared, StateSpace::Local] {
        let k = |offset: i32| {
            kernel(1, |b| {
                let array = if space == StateSpace::Shared { b.shared(7, 1) } else { b.local(7, 1) };
                let value = constant(b, RegClass::B16, 1);
                b.store(space, Ty::U8, AddressOperand::array(array).plus(offset), value);
            })
        };
        words(&k(6), 1, 0);
        for offset in [7, -1] {
            assert!(matches!(cause(&k(offset), 1), FaultCause::OutOfBounds { .. }), "{space:?} {offset}");
        }
    }
}

#[test]
fn halves_are_packed_and_unpacked() {
    let k = kernel(1, |b| {
        let whole = b.mov(RegClass::B64, 0x8765_4321_fedc_ba98_u64);
        let [low, high] = b.unpack(RegClass::B32, whole);
        let swapped = b.pack(RegClass::B64, high, low);
        // A register keeps only its own width of a stored word.
        let zero = b.mov(RegClass::B32, 0_u32);
        let low = b.pack(RegClass::B64, low, zero);
        let [quarter, other] = b.unpack(RegClass::B16, high);
        let swapped_quarters = b.pack(RegClass::B32, other, quarter);
        let out = b.param(0);
        b.store(StateSpace::Global, Ty::B64, AddressOperand::at(out), swapped);
        b.store(StateSpace::Global, Ty::B64, AddressOperand::at(out).plus(8), low);
        b.store(StateSpace::Global, Ty::B32, AddressOperand::at(out).plus(16), swapped_quarters);
    });
    assert_eq!(words(&k, 1, 5), [0x8765_4321, 0xfedc_ba98, 0xfedc_ba98, 0, 0x4321_8765]);
}

/// Addresses computed in 32 bits miss every buffer.
#[test]
fn regions_cross_the_32_bits() {
    let mut gpu = SimulatedGpu::new();
    let x = gpu.put("x", vec![0; 512]);
    assert_ne!(x.address() >> 32, (x.address() + 511) >> 32);
    let k = kernel(1, |b| {
        let x = b.param(0);
        let [low, high] = b.unpack(RegClass::B32, x);
        let low = b.add(Ty::U32, low, 256_u32);
        let wrong = b.pack(RegClass::B64, low, high);
        b.load(StateSpace::Global, Ty::U32, false, AddressOperand::at(wrong));
    });
    let fault = run(&k, &SimLaunch::new(1, &[x.address()]), &mut gpu, ExecutionOrder::Sequential)
        .expect_err("no carry");
    assert!(matches!(*fault.cause, FaultCause::OutOfBounds { .. }));
}

#[test]
fn accesses_are_aligned_to_their_size() {
    for (space, ty, count, offset) in [
        (StateSpace::Global, Ty::F32, 1, 2),
        (StateSpace::Global, Ty::F32, 4, 8),
        (StateSpace::Global, Ty::F64, 2, 8),
        (StateSpace::Shared, Ty::F32, 2, 4),
        (StateSpace::Shared, Ty::U16, 1, 1),
        (StateSpace::Local, Ty::B64, 1, 4),
    ] {
        let k = kernel(1, |b| {
            let base = match space {
                StateSpace::Global => AddressOperand::at(b.param(0)),
                StateSpace::Shared => AddressOperand::array(b.shared(64, 16)),
                StateSpace::Local => AddressOperand::array(b.local(64, 16)),
            };
            b.load_vector(space, ty, false, base.plus(offset), count);
        });
        let align = ty.bytes() * count as u32;
        assert!(
            matches!(cause(&k, 1), FaultCause::Misaligned { align: found, .. } if found == align),
            "{space:?} {ty:?}"
        );
    }
    let too_wide = kernel(1, |b| {
        let base = b.param(0);
        b.load_vector(StateSpace::Global, Ty::F64, false, AddressOperand::at(base), 4);
    });
    assert!(matches!(cause(&too_wide, 1), FaultCause::Malformed(_)));
}

#[test]
fn uninitialized_bytes_are_not_read() {
    for space in [StateSpace::Global, StateSpace::Shared, StateSpace::Local] {
        let k = |write: bool| {
            kernel(1, |b| {
                let base = match space {
                    StateSpace::Global => AddressOperand::at(b.param(0)),
                    StateSpace::Shared => AddressOperand::array(b.shared(64, 16)),
                    StateSpace::Local => AddressOperand::array(b.local(64, 16)),
                };
                b.store(space, Ty::U16, base, 1_u32);
                let high = constant(b, RegClass::B16, 2);
                b.store(space, Ty::U8, base.plus(2), high);
                if write {
                    b.store(space, Ty::U8, base.plus(3), high);
                }
                b.load(space, Ty::U32, false, base);
            })
        };
        words(&k(true), 1, 16);
        let found = cause(&k(false), 1);
        assert!(matches!(&found, FaultCause::Uninitialized { location } if location.byte == 3), "{found:?}");
    }
}

/// Shared memory does not persist from block to block, and local memory belongs to one thread.
#[test]
fn memory_of_blocks_and_threads_is_theirs() {
    let shared = kernel(1, |b| {
        let array = b.shared(4, 4);
        let block = b.special(SpecialReg::Block);
        let first = b.compare(ptx_asm::CmpOp::Eq, Ty::U32, block, 0_u32);
        b.if_else(
            ptx_asm::GuardPredicate::on(first),
            |b| b.store(StateSpace::Shared, Ty::B32, AddressOperand::array(array), 1_u32),
            |b| {
                b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(array));
            },
        );
    });
    assert!(matches!(cause(&shared, 2), FaultCause::Uninitialized { .. }));

    let in_first = kernel(1, |b| {
        let array = b.local(4, 4);
        let block = b.special(SpecialReg::Block);
        let first = b.compare(ptx_asm::CmpOp::Eq, Ty::U32, block, 0_u32);
        let store = ptx_asm::Inst::Store {
            space: StateSpace::Local,
            ty: Ty::B32,
            to: AddressOperand::array(array),
            srcs: smallvec![1_u32.into()],
        };
        b.push_predicated(ptx_asm::GuardPredicate::on(first), store);
        b.load(StateSpace::Local, Ty::B32, false, AddressOperand::array(array));
    });
    assert!(super::outcome(&in_first, 1, 0, ExecutionOrder::Sequential).is_ok());
    assert!(matches!(cause(&in_first, 2), FaultCause::Uninitialized { .. }));

    let local = kernel(64, |b| {
        let array = b.local(8, 4);
        let i = index(b);
        let at = b.address(StateSpace::Local, array);
        b.store(StateSpace::Local, Ty::B32, AddressOperand::at(at).plus(4), i);
        let value = b.load(StateSpace::Local, Ty::B32, false, AddressOperand::array(array).plus(4));
        give(b, value);
    });
    assert_eq!(words(&local, 2, 128), (0..128).collect::<Vec<u32>>());
}

#[test]
fn atomic_operations_combine() {
    use ptx_asm::AtomicOp;
    let cases: [(AtomicOp, Ty, &[PtxOperand], u64, u64); 12] = [
        (AtomicOp::Add, Ty::U32, &[PtxOperand::Const(5)], 0xffff_fffe, 3),
        (AtomicOp::Add, Ty::U64, &[PtxOperand::Const(5)], 0xffff_fffe, 0x1_0000_0003),
        (AtomicOp::Min, Ty::S32, &[PtxOperand::Const(5)], 0xffff_fffe, 0xffff_fffe),
        (AtomicOp::Min, Ty::U32, &[PtxOperand::Const(5)], 0xffff_fffe, 5),
        (AtomicOp::Max, Ty::S64, &[PtxOperand::Const(5)], u64::MAX, 5),
        (AtomicOp::And, Ty::B32, &[PtxOperand::Const(12)], 10, 8),
        (AtomicOp::Or, Ty::B32, &[PtxOperand::Const(12)], 10, 14),
        (AtomicOp::Xor, Ty::B64, &[PtxOperand::Const(12)], 10, 6),
        (AtomicOp::Exchange, Ty::B32, &[PtxOperand::Const(12)], 10, 12),
        (AtomicOp::CompareSwap, Ty::B32, &[PtxOperand::Const(10), PtxOperand::Const(7)], 10, 7),
        (AtomicOp::CompareSwap, Ty::B64, &[PtxOperand::Const(11), PtxOperand::Const(7)], 10, 10),
        (AtomicOp::Add, Ty::F32, &[PtxOperand::Const(0x3f80_0000)], 0x4000_0000, 0x4040_0000),
    ];
    for (op, ty, operands, before, after) in cases {
        let mut gpu = SimulatedGpu::new();
        let x = gpu.put("x", before.to_le_bytes());
        let old = gpu.put("old", [0; 8]);
        let mut b = ptx_asm::PtxBuilder::new("k", 2, 1);
        let (at, to) = (b.param(0), b.param(1));
        let dst = b.register(ty.class());
        let operands = operands.iter().copied().collect();
        b.push(Inst::Atomic {
            space: StateSpace::Global,
            op,
            ty,
            dst: Some(dst),
            at: AddressOperand::at(at),
            operands,
        });
        b.store(StateSpace::Global, ty, AddressOperand::at(to), dst);
        let params = [x.address(), old.address()];
        run(&b.finish(), &SimLaunch::new(1, &params), &mut gpu, ExecutionOrder::Sequential)
            .expect("it is right");
        assert_eq!(gpu.bytes(x), after.to_le_bytes(), "{op:?} {ty:?}");
        assert_eq!(gpu.bytes(old), before.to_le_bytes(), "{op:?} {ty:?}");
    }
}

/// Every thread of every block adds to a global and to a shared word.
#[test]
fn atomic_operations_of_all_threads_add_up() {
    for order in ORDERS {
        let mut gpu = SimulatedGpu::new();
        let sum = gpu.put("sum", vec![0; 4]);
        let k = kernel(96, |b| {
            let array = b.shared(4, 4);
            let thread = b.special(SpecialReg::Thread);
            let first = b.compare(ptx_asm::CmpOp::Eq, Ty::U32, thread, 0_u32);
            b.when(ptx_asm::GuardPredicate::on(first), |b| {
                b.store(StateSpace::Shared, Ty::U32, AddressOperand::array(array), 0_u32)
            });
            b.barrier();
            let add = |space, at, value: PtxOperand| Inst::Atomic {
                space,
                op: ptx_asm::AtomicOp::Add,
                ty: Ty::U32,
                dst: None,
                at,
                operands: smallvec![value],
            };
            b.push(add(StateSpace::Shared, AddressOperand::array(array), thread.into()));
            b.barrier();
            b.when(ptx_asm::GuardPredicate::on(first), |b| {
                let value = b.load(StateSpace::Shared, Ty::U32, false, AddressOperand::array(array));
                let out = b.param(0);
                b.push(add(StateSpace::Global, AddressOperand::at(out), value.into()));
            });
        });
        run(&k, &SimLaunch::new(3, &[sum.address()]), &mut gpu, order).expect("it is right");
        assert_eq!(words_of(&gpu, sum), [3 * (95 * 96 / 2)]);
    }
    let local = kernel(1, |b| {
        let array = b.local(4, 4);
        let operands = smallvec![1_u32.into()];
        let (at, op) = (AddressOperand::array(array), ptx_asm::AtomicOp::Add);
        b.push(Inst::Atomic { space: StateSpace::Local, op, ty: Ty::U32, dst: None, at, operands });
    });
    assert!(matches!(cause(&local, 1), FaultCause::Malformed(_)));
}

/// Reverses a block's words through shared memory.
#[test]
fn threads_exchange_through_shared_memory() {
    let k = kernel(64, |b| {
        let array = b.shared(256, 4);
        let (at, i) = (own_word(b, array), index(b));
        b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(at), i);
        b.barrier();
        let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array));
        let other = b.binary(PtxBinaryOp::Sub, Ty::U32, 63_u32, thread);
        let at = b.mul_add(Ty::U32, other, 4_u32, base);
        let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(at));
        give(b, value);
    });
    let expected: Vec<u32> = (0..64).rev().chain((64..128).rev()).collect();
    assert_eq!(words(&k, 2, 128), expected);
}
