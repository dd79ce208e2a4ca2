//! Statistics: executions, sectors and bank conflicts.

use super::{ExecutionOrder, kernel, outcome};
use crate::KernelStats;
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, RegClass, SpecialReg, StateSpace,
    Ty,
};

fn stats(threads: u32, write: impl FnOnce(&mut PtxBuilder)) -> KernelStats {
    outcome(&kernel(threads, write), 1, 4096, ExecutionOrder::Sequential).expect("it is right").1
}

#[test]
fn instructions_are_counted() {
    let found = stats(64, |b| {
        let thread = b.special(SpecialReg::Thread);
        let i = b.mov(RegClass::B32, 0_u32);
        b.repeat(|b| {
            let next = b.add(Ty::U32, i, 1_u32);
            b.set(i, next);
            GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, i, 5_u32))
        });
        let low = b.compare(CmpOp::Lt, Ty::U32, thread, 8_u32);
        b.when(GuardPredicate::on(low), |b| {
            b.add(Ty::F32, 1.0_f32, 2.0_f32);
        });
        b.barrier();
    });
    assert_eq!(found.count("add.u32"), 2 * 5);
    assert_eq!((found.count("add.f32"), found.count("barrier"), found.count("mul.f32")), (1, 2, 0));
    let lanes: Vec<(&str, u64)> =
        found.insts.iter().map(|inst| (inst.opcode.as_str(), inst.threads)).collect();
    let expected = [("readspecial", 64), ("move", 64), ("add.u32", 320), ("move", 320), ("compare.u32", 320)];
    assert_eq!(lanes[..5], expected);
    assert_eq!(lanes[5..], [("compare.u32", 64), ("add.f32", 8), ("barrier", 64)]);
    assert_eq!(found.counts()["move"], 12);
}

/// Sectors of a store by all lanes, `stride` bytes apart.
fn sectors(stride: u32, ty: Ty, count: usize) -> u64 {
    let found = stats(32, |b| {
        let (lane, out) = (b.special(SpecialReg::Lane), b.param(0));
        let at = b.mul_add_wide(Ty::U32, lane, stride, out);
        let values: Vec<_> = (0..count).map(|_| b.mov(ty.class(), 0_u64)).collect();
        b.store_vector(StateSpace::Global, ty, AddressOperand::at(at), &values);
    });
    assert_eq!(found.bytes("store.global"), 32 * u64::from(ty.bytes()) * count as u64);
    found.sectors("store.global")
}

#[test]
fn sectors_show_whether_accesses_are_coalesced() {
    assert_eq!(sectors(4, Ty::B32, 1), 4);
    assert_eq!(sectors(8, Ty::B32, 1), 8);
    assert_eq!(sectors(32, Ty::B32, 1), 32);
    assert_eq!(sectors(128, Ty::B32, 1), 32);
    assert_eq!(sectors(0, Ty::B32, 1), 1);
    assert_eq!(sectors(1, Ty::U8, 1), 1);
    assert_eq!(sectors(16, Ty::B32, 4), 16);
    assert_eq!(sectors(8, Ty::B64, 1), 8);
    assert_eq!(sectors(64, Ty::B64, 2), 32);
}

/// Bank conflicts of a store by all lanes to shared memory, `stride` bytes apart.
fn conflicts(stride: u32, ty: Ty, count: usize) -> u64 {
    let found = stats(32, |b| {
        let array = b.shared(32 * 256, 16);
        let (lane, base) = (b.special(SpecialReg::Lane), b.address(StateSpace::Shared, array));
        let at = b.mul_add(Ty::U32, lane, stride, base);
        let values: Vec<_> = (0..count).map(|_| b.mov(ty.class(), 0_u64)).collect();
        b.store_vector(StateSpace::Shared, ty, AddressOperand::at(at), &values);
    });
    found.conflicts()
}

#[test]
fn passes_over_banks_are_counted() {
    assert_eq!(conflicts(4, Ty::B32, 1), 0);
    assert_eq!(conflicts(0, Ty::B32, 1), 0);
    assert_eq!(conflicts(2, Ty::U16, 1), 0);
    assert_eq!(conflicts(8, Ty::B32, 1), 1);
    assert_eq!(conflicts(128, Ty::B32, 1), 31);
    assert_eq!(conflicts(132, Ty::B32, 1), 0);
    // Accesses of 8 bytes, which half a warp makes at a time, and of 16 bytes, which a quarter makes at a
    // time.
    assert_eq!(conflicts(8, Ty::B64, 1), 0);
    assert_eq!(conflicts(16, Ty::B64, 1), 2);
    assert_eq!(conflicts(16, Ty::B32, 4), 0);
    assert_eq!(conflicts(32, Ty::B32, 4), 4);
    assert_eq!(conflicts(128, Ty::B32, 4), 4 * 7);
    assert_eq!(conflicts(144, Ty::B32, 4), 0);
}

/// Matrix rows, plain and with an xor swizzle.
#[test]
fn rows_of_matrices_have_bank_conflicts() {
    let loads = |swizzled: bool| {
        stats(32, |b| {
            let array = b.shared(32 * 128, 128);
            let (lane, base) = (b.special(SpecialReg::Lane), b.address(StateSpace::Shared, array));
            // Initializes the array, one word per thread at a time.
            let word = b.mul_add(Ty::U32, lane, 4_u32, base);
            for row in 0..32 {
                b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(word).plus(128 * row), 0_u32);
            }
            b.barrier();
            let row = b.mul_add(Ty::U32, lane, 128_u32, base);
            let low_bits = b.binary(PtxBinaryOp::And, Ty::B32, lane, 7_u32);
            let chunk = if swizzled { b.mul_add(Ty::U32, low_bits, 16_u32, row) } else { row };
            let dsts = b.registers(RegClass::B32, 4);
            b.push(Inst::Ldmatrix { transposed: false, dsts, from: AddressOperand::at(chunk) });
        })
    };
    assert_eq!(loads(false).conflicts(), 4 * 7);
    assert_eq!(loads(true).conflicts(), 0);
}
