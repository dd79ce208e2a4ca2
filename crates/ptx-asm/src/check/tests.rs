//! Programs that the checker accepts, beside similar ones that it rejects; and a table of others that it
//! rejects.

mod hopper;
mod rejected;

use smallvec::smallvec;

use crate::{
    CmpOp, GuardPredicate, Inst, MmaShape, PtxBinaryOp, PtxBuilder, PtxError, PtxProgram, RegClass,
    ShuffleMode, SpecialReg, Target, Ty, check,
};

fn checked(target: Target, write: impl FnOnce(&mut PtxBuilder)) -> Result<(), PtxError> {
    let mut b = PtxBuilder::new("kernel", 2, 128);
    write(&mut b);
    check(&PtxProgram { target, kernels: vec![b.finish()] })
}

/// Adds a matrix product, which targets from sm_80 on have.
fn multiply_matrices(b: &mut PtxBuilder) {
    let [a, c] = [RegClass::B32, RegClass::F32].map(|class| b.mov(class, 0_u32));
    let d = b.registers(RegClass::F32, 4);
    b.push(Inst::Mma {
        shape: MmaShape::Bf16K16,
        d,
        a: smallvec![a; 4],
        b: smallvec![a; 2],
        c: smallvec![c; 4],
    });
}

#[test]
fn a_target_has_the_instructions_of_older_ones() {
    for target in [Target::Sm80, Target::Sm90a] {
        assert_eq!(checked(target, multiply_matrices), Ok(()));
    }
}

#[test]
fn two_kernels_have_two_names() {
    let one = PtxBuilder::new("one", 0, 32).finish();
    let twice = PtxProgram { target: Target::Sm70, kernels: vec![one.clone(), one] };
    assert_eq!(check(&twice), Err(PtxError::Name { kernel: "one".into() }));
}

#[test]
fn a_register_is_written_on_every_path() {
    let branch = |both: bool| {
        checked(Target::Sm70, |b| {
            let thread = b.special(SpecialReg::Thread);
            let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
            let value = b.register(RegClass::B32);
            b.if_else(
                GuardPredicate::on(first),
                |b| b.set(value, 1_u32),
                |b| {
                    if both {
                        b.set(value, 2_u32);
                    }
                },
            );
            b.add(Ty::U32, value, 1_u32);
        })
    };
    assert_eq!(branch(true), Ok(()));
    assert_eq!(branch(false), Err(PtxError::Undefined { kernel: "kernel".into(), register: "%r1".into() }));
}

#[test]
fn barriers_stand_under_uniform_control_flow() {
    let behind = |special| {
        checked(Target::Sm70, |b| {
            let number = b.special(special);
            let first = b.compare(CmpOp::Eq, Ty::U32, number, 0_u32);
            b.when(GuardPredicate::on(first), |b| b.barrier());
        })
    };
    assert_eq!(behind(SpecialReg::Block), Ok(()));
    let found = behind(SpecialReg::Thread).expect_err("some are elsewhere");
    assert!(matches!(found, PtxError::Divergent { threads: "the threads of a block", .. }), "{found}");
}

#[test]
fn warps_may_diverge_from_each_other_but_not_within() {
    let of_some = |shift: u32, synchronizes: bool| {
        checked(Target::Sm70, |b| {
            let thread = b.special(SpecialReg::Thread);
            let part = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, shift);
            let first = b.compare(CmpOp::Eq, Ty::U32, part, 0_u32);
            b.when(GuardPredicate::on(first), |b| {
                let (mode, dst) = (ShuffleMode::Xor, b.register(RegClass::B32));
                let exchange = Inst::Shuffle { mode, dst, src: thread, lane: 1_u32.into(), width: 32 };
                b.push(if synchronizes { Inst::WarpBarrier } else { exchange });
            });
        })
    };
    for synchronizes in [false, true] {
        assert_eq!(of_some(5, synchronizes), Ok(()));
        let found = of_some(4, synchronizes);
        assert!(matches!(found, Err(PtxError::Divergent { threads: "the lanes of a warp", .. })));
    }
}
