//! Programs that the checker rejects, and programs that it accepts.

mod hopper;

use smallvec::smallvec;

use crate::{
    AddressOperand, CmpOp, GuardPredicate, Inst, MmaShape, PtxBinaryOp, PtxBuilder, PtxError, PtxProgram,
    RegClass, ShuffleMode, SpecialReg, StateSpace, Target, Ty, check,
};

fn checked(target: Target, write: impl FnOnce(&mut PtxBuilder)) -> Result<(), PtxError> {
    let mut b = PtxBuilder::new("kernel", 2, 128);
    write(&mut b);
    check(&PtxProgram { target, kernels: vec![b.finish()] })
}

fn message(write: impl FnOnce(&mut PtxBuilder)) -> String {
    checked(Target::Sm80, write).expect_err("it is wrong").to_string()
}

#[test]
fn names_and_limits() {
    for name in ["", "1st", "a-b"] {
        let module =
            PtxProgram { target: Target::Sm70, kernels: vec![PtxBuilder::new(name, 0, 32).finish()] };
        assert_eq!(check(&module), Err(PtxError::Name { kernel: name.into() }));
    }
    let one = PtxBuilder::new("one", 0, 32).finish();
    let twice = PtxProgram { target: Target::Sm70, kernels: vec![one.clone(), one] };
    assert!(matches!(check(&twice), Err(PtxError::Name { .. })));
    let many = PtxProgram { target: Target::Sm70, kernels: vec![PtxBuilder::new("k", 0, 1025).finish()] };
    assert_eq!(
        check(&many).expect_err("too many").to_string(),
        "kernel `k`: the number of threads is 1025, expected 1 to 1024"
    );
    let shared = checked(Target::Sm70, |b| {
        b.shared(97 << 10, 16);
    });
    assert!(matches!(shared, Err(PtxError::Limit { what: "the shared memory of a block in bytes", .. })));
}

#[test]
fn operands_have_the_class_that_the_type_says() {
    let found = message(|b| {
        let whole = b.mov(RegClass::B32, 1_u32);
        b.binary(PtxBinaryOp::Add, Ty::F32, whole, whole);
    });
    assert!(found.ends_with("%r0 is of class B32, expected F32"), "{found}");
    let found = message(|b| {
        b.binary(PtxBinaryOp::Add, Ty::Bf16, 1_u32, 1_u32);
    });
    assert!(found.ends_with("it does not exist for Bf16"), "{found}");
}

#[test]
fn missing_features_of_a_target_are_named() {
    let multiply = |b: &mut PtxBuilder| {
        let [a, c] = [RegClass::B32, RegClass::F32].map(|class| b.mov(class, 0_u32));
        let d = b.registers(RegClass::F32, 4);
        b.push(Inst::Mma {
            shape: MmaShape::Bf16K16,
            d,
            a: smallvec![a; 4],
            b: smallvec![a; 2],
            c: smallvec![c; 4],
        });
    };
    assert_eq!(checked(Target::Sm80, multiply), Ok(()));
    let found = checked(Target::Sm70, multiply).expect_err("it has none").to_string();
    assert!(found.ends_with("it takes sm_80, the target is sm_70"), "{found}");
}

#[test]
fn addresses_lie_in_their_arrays() {
    let found = message(|b| {
        let array = b.shared(64, 16);
        b.load_vector(StateSpace::Shared, Ty::F32, false, AddressOperand::array(array).plus(56), 4);
    });
    assert!(found.ends_with("bytes 56..72 of an array of 64"), "{found}");
    let found = message(|b| {
        let array = b.shared(64, 4);
        b.load_vector(StateSpace::Shared, Ty::F32, false, AddressOperand::array(array), 4);
    });
    assert!(found.ends_with("expected an alignment of 16 bytes"), "{found}");
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
    let guarded = checked(Target::Sm70, |b| {
        let thread = b.special(SpecialReg::Thread);
        let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
        let value = b.register(RegClass::B32);
        b.push_predicated(GuardPredicate::on(first), Inst::Move { dst: value, src: 1_u32.into() });
        b.add(Ty::U32, value, 1_u32);
    });
    assert!(matches!(guarded, Err(PtxError::Undefined { .. })));
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
    let of_some = |shift: u32, synchronises: bool| {
        checked(Target::Sm70, |b| {
            let thread = b.special(SpecialReg::Thread);
            let part = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, shift);
            let first = b.compare(CmpOp::Eq, Ty::U32, part, 0_u32);
            b.when(GuardPredicate::on(first), |b| {
                let (mode, dst) = (ShuffleMode::Xor, b.register(RegClass::B32));
                let exchange = Inst::Shuffle { mode, dst, src: thread, lane: 1_u32.into(), width: 32 };
                b.push(if synchronises { Inst::WarpBarrier } else { exchange });
            });
        })
    };
    for synchronises in [false, true] {
        assert_eq!(of_some(5, synchronises), Ok(()));
        let found = of_some(4, synchronises);
        assert!(matches!(found, Err(PtxError::Divergent { threads: "the lanes of a warp", .. })));
    }
}

#[test]
fn changes_in_a_loop_are_found() {
    // The guard is uniform in the first iteration and depends on the thread from the second one on.
    let found = checked(Target::Sm70, |b| {
        let thread = b.special(SpecialReg::Thread);
        let (value, before) = (b.mov(RegClass::B32, 0_u32), b.register(RegClass::B32));
        b.repeat(|b| {
            b.set(before, value);
            b.barrier();
            b.set(value, thread);
            GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, before, 5_u32))
        });
    });
    assert!(matches!(found, Err(PtxError::Divergent { .. })), "{found:?}");
}

#[test]
fn deep_nests_are_rejected() {
    fn nest(b: &mut PtxBuilder, guard: GuardPredicate, depth: usize) {
        if depth > 0 {
            b.when(guard, |b| nest(b, guard, depth - 1));
        }
    }
    let found = checked(Target::Sm70, |b| {
        let block = b.special(SpecialReg::Block);
        let first = b.compare(CmpOp::Eq, Ty::U32, block, 0_u32);
        nest(b, GuardPredicate::on(first), 300);
    });
    assert!(matches!(found, Err(PtxError::Limit { what: "the depth of statements", .. })), "{found:?}");
}
