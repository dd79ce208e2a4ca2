//! Branches and loops.

use super::{ExecutionOrder, FaultCause, cause, give, kernel, outcome, words};
use crate::{SimLaunch, SimulatedGpu, run};
use ptx_asm::{CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxOperand, Reg, SpecialReg, Ty};

fn is(b: &mut PtxBuilder, cmp: CmpOp, a: Reg, value: impl Into<PtxOperand>) -> GuardPredicate {
    GuardPredicate::on(b.compare(cmp, Ty::U32, a, value))
}

#[test]
fn lanes_diverge_and_reconverge() {
    let k = kernel(64, |b| {
        let thread = b.special(SpecialReg::Thread);
        let result = b.mov(ptx_asm::RegClass::B32, 0_u32);
        let low = is(b, CmpOp::Lt, thread, 20_u32);
        let add = |b: &mut PtxBuilder, value: u32| {
            b.push(Inst::Binary {
                op: PtxBinaryOp::Add,
                ty: Ty::U32,
                dst: result,
                a: result.into(),
                b: value.into(),
            });
        };
        b.if_else(
            low,
            |b| {
                let even = b.binary(PtxBinaryOp::And, Ty::B32, thread, 1_u32);
                let even = is(b, CmpOp::Eq, even, 0_u32);
                b.if_else(even, |b| add(b, 1), |b| add(b, 2));
                add(b, 10);
            },
            |b| add(b, 3),
        );
        add(b, 100);
        give(b, result);
    });
    let expected: Vec<u32> = (0..64)
        .map(|thread| match (thread < 20, thread % 2) {
            (true, 0) => 111,
            (true, _) => 112,
            _ => 103,
        })
        .collect();
    assert_eq!(words(&k, 1, 64), expected);
}

/// Number of Collatz steps to 1, which differs between lanes.
#[test]
fn lanes_leave_loops_one_by_one() {
    let k = kernel(96, |b| {
        let thread = b.special(SpecialReg::Thread);
        let n = b.add(Ty::U32, thread, 1_u32);
        let count = b.mov(ptx_asm::RegClass::B32, 0_u32);
        let above = is(b, CmpOp::Gt, n, 1_u32);
        b.when(above, |b| {
            b.repeat(|b| {
                let odd = b.binary(PtxBinaryOp::And, Ty::B32, n, 1_u32);
                let odd = is(b, CmpOp::Eq, odd, 1_u32);
                b.if_else(
                    odd,
                    |b| {
                        let next = b.mul_add(Ty::U32, n, 3_u32, 1_u32);
                        b.set(n, next);
                    },
                    |b| {
                        let next = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, n, 1_u32);
                        b.set(n, next);
                    },
                );
                let next = b.add(Ty::U32, count, 1_u32);
                b.set(count, next);
                is(b, CmpOp::Ne, n, 1_u32)
            });
        });
        give(b, count);
    });
    let steps = |mut n: u32| {
        let mut count = 0;
        while n > 1 {
            n = if n % 2 == 1 { 3 * n + 1 } else { n / 2 };
            count += 1;
        }
        count
    };
    assert_eq!(words(&k, 1, 96), (1..=96).map(steps).collect::<Vec<u32>>());
}

#[test]
fn guarded_instructions_run_for_some_lanes() {
    let k = kernel(32, |b| {
        let lane = b.special(SpecialReg::Lane);
        let high = b.compare(CmpOp::Ge, Ty::U32, lane, 30_u32);
        let value = b.mov(ptx_asm::RegClass::B32, 5_u32);
        b.push_predicated(GuardPredicate::on(high), Inst::Move { dst: value, src: 6_u32.into() });
        b.push_predicated(
            GuardPredicate::not(high),
            Inst::Binary { op: PtxBinaryOp::Add, ty: Ty::U32, dst: value, a: value.into(), b: lane.into() },
        );
        give(b, value);
    });
    let found = words(&k, 1, 32);
    assert_eq!((found[3], found[29], found[30], found[31]), (8, 34, 6, 6));
    // An instruction that no lane executes is not counted.
    let never = kernel(32, |b| {
        let lane = b.special(SpecialReg::Lane);
        let none = b.compare(CmpOp::Gt, Ty::U32, lane, 31_u32);
        b.push_predicated(GuardPredicate::on(none), Inst::CpAsyncCommit);
        b.when(GuardPredicate::on(none), |b| b.push(Inst::CpAsyncCommit));
    });
    let (_, stats) = outcome(&never, 1, 0, ExecutionOrder::Sequential).expect("it is right");
    assert_eq!((stats.count("cpasynccommit"), stats.count("compare.u32")), (0, 1));
}

#[test]
fn loops_without_end_are_found() {
    let k = kernel(32, |b| {
        let lane = b.special(SpecialReg::Lane);
        b.repeat(|b| is(b, CmpOp::Lt, lane, 32_u32));
    });
    let mut gpu = SimulatedGpu::new();
    let launch = SimLaunch { limit: 1000, ..SimLaunch::new(1, &[0]) };
    let fault = run(&k, &launch, &mut gpu, ExecutionOrder::Sequential).expect_err("no end");
    assert_eq!(*fault.cause, FaultCause::Limit(1000));
    // Loops without instructions reach the limit, too.
    let lane = SpecialReg::Lane;
    let empty = kernel(32, |b| {
        let lane = b.special(lane);
        let always = b.compare(CmpOp::Lt, Ty::U32, lane, 32_u32);
        b.repeat(|_| GuardPredicate::on(always));
    });
    let fault = run(&empty, &launch, &mut gpu, ExecutionOrder::Sequential).expect_err("no end");
    assert_eq!(*fault.cause, FaultCause::Limit(1000));
}

#[test]
fn operations_that_there_are_not() {
    let malformed = |inst: Inst| {
        let k = kernel(32, |b| {
            let (word, half, wide, held) = (
                ptx_asm::RegClass::B32,
                ptx_asm::RegClass::B16,
                ptx_asm::RegClass::B64,
                ptx_asm::RegClass::Pred,
            );
            for class in [word, half, wide] {
                b.mov(class, 1_u32);
            }
            b.mov(held, 1_u32);
            b.push(inst);
        });
        assert!(matches!(cause(&k, 1), FaultCause::Malformed(_)));
    };
    let word = Reg { class: ptx_asm::RegClass::B32, number: 0 };
    malformed(Inst::Binary { op: PtxBinaryOp::Div, ty: Ty::F16, dst: word, a: word.into(), b: word.into() });
    malformed(Inst::Unary { op: ptx_asm::PtxUnaryOp::Exp2Approx, ty: Ty::F64, dst: word, src: word.into() });
    malformed(Inst::Ternary {
        op: ptx_asm::PtxTernaryOp::MulAddWide,
        ty: Ty::B64,
        dst: word,
        a: word.into(),
        b: word.into(),
        c: word.into(),
    });
    malformed(Inst::Compare { cmp: CmpOp::IsNan, ty: Ty::U32, dst: word, a: word.into(), b: word.into() });
    malformed(Inst::Convert {
        to: Ty::F32,
        from: Ty::U32,
        rounding: ptx_asm::RoundingMode::None,
        dst: word,
        src: word,
    });
    malformed(Inst::LoadParam { dst: word, param: 1 });
    malformed(Inst::ArrayAddress { dst: word, space: ptx_asm::StateSpace::Shared, array: 0 });
}
