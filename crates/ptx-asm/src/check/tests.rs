//! What the checker refuses, and what it lets pass.

mod hopper;

use smallvec::smallvec;

use crate::{
    Binary, Builder, Class, Cmp, Guard, Inst, Mma, Module, Place, ProgramError, Shuffle, Space, Special,
    Target, Ty, check,
};

fn checked(target: Target, write: impl FnOnce(&mut Builder)) -> Result<(), ProgramError> {
    let mut b = Builder::new("kernel", 2, 128);
    write(&mut b);
    check(&Module { target, kernels: vec![b.finish()] })
}

fn message(write: impl FnOnce(&mut Builder)) -> String {
    checked(Target::Sm80, write).expect_err("it is wrong").to_string()
}

#[test]
fn names_and_limits() {
    for name in ["", "1st", "a-b"] {
        let module = Module { target: Target::Sm70, kernels: vec![Builder::new(name, 0, 32).finish()] };
        assert_eq!(check(&module), Err(ProgramError::Name { kernel: name.into() }));
    }
    let one = Builder::new("one", 0, 32).finish();
    let twice = Module { target: Target::Sm70, kernels: vec![one.clone(), one] };
    assert!(matches!(check(&twice), Err(ProgramError::Name { .. })));
    let many = Module { target: Target::Sm70, kernels: vec![Builder::new("k", 0, 1025).finish()] };
    assert_eq!(
        check(&many).expect_err("too many").to_string(),
        "kernel `k`: the number of threads is 1025, expected 1 to 1024"
    );
    let shared = checked(Target::Sm70, |b| {
        b.shared(97 << 10, 16);
    });
    assert!(matches!(shared, Err(ProgramError::Limit { what: "the shared memory of a block in bytes", .. })));
}

#[test]
fn operands_have_the_class_that_the_type_says() {
    let found = message(|b| {
        let whole = b.moved(Class::B32, 1_u32);
        b.binary(Binary::Add, Ty::F32, whole, whole);
    });
    assert!(found.ends_with("%r0 is of class B32, expected F32"), "{found}");
    let found = message(|b| {
        b.binary(Binary::Add, Ty::Bf16, 1_u32, 1_u32);
    });
    assert!(found.ends_with("it does not exist for Bf16"), "{found}");
}

#[test]
fn what_a_target_lacks_is_named() {
    let multiply = |b: &mut Builder| {
        let [a, c] = [Class::B32, Class::F32].map(|class| b.moved(class, 0_u32));
        let d = b.registers(Class::F32, 4);
        b.push(Inst::Mma {
            shape: Mma::Bf16K16,
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
fn places_lie_in_their_arrays() {
    let found = message(|b| {
        let array = b.shared(64, 16);
        b.loads(Space::Shared, Ty::F32, false, Place::array(array).plus(56), 4);
    });
    assert!(found.ends_with("bytes 56..72 of an array of 64"), "{found}");
    let found = message(|b| {
        let array = b.shared(64, 4);
        b.loads(Space::Shared, Ty::F32, false, Place::array(array), 4);
    });
    assert!(found.ends_with("expected an alignment of 16 bytes"), "{found}");
}

#[test]
fn a_register_is_written_on_every_path() {
    let branch = |both: bool| {
        checked(Target::Sm70, |b| {
            let thread = b.special(Special::Thread);
            let first = b.compare(Cmp::Eq, Ty::U32, thread, 0_u32);
            let value = b.register(Class::B32);
            b.either(
                Guard::on(first),
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
    assert_eq!(
        branch(false),
        Err(ProgramError::Undefined { kernel: "kernel".into(), register: "%r1".into() })
    );
    let guarded = checked(Target::Sm70, |b| {
        let thread = b.special(Special::Thread);
        let first = b.compare(Cmp::Eq, Ty::U32, thread, 0_u32);
        let value = b.register(Class::B32);
        b.push_when(Guard::on(first), Inst::Move { dst: value, src: 1_u32.into() });
        b.add(Ty::U32, value, 1_u32);
    });
    assert!(matches!(guarded, Err(ProgramError::Undefined { .. })));
}

#[test]
fn barriers_stand_where_all_threads_come_by() {
    let behind = |special| {
        checked(Target::Sm70, |b| {
            let number = b.special(special);
            let first = b.compare(Cmp::Eq, Ty::U32, number, 0_u32);
            b.when(Guard::on(first), |b| b.barrier());
        })
    };
    assert_eq!(behind(Special::Block), Ok(()));
    let found = behind(Special::Thread).expect_err("some are elsewhere");
    assert!(matches!(found, ProgramError::Divergent { threads: "the threads of a block", .. }), "{found}");
}

#[test]
fn warps_may_part_from_each_other_but_not_within() {
    let of_some = |shift: u32, meets: bool| {
        checked(Target::Sm70, |b| {
            let thread = b.special(Special::Thread);
            let part = b.binary(Binary::ShiftRight, Ty::U32, thread, shift);
            let first = b.compare(Cmp::Eq, Ty::U32, part, 0_u32);
            b.when(Guard::on(first), |b| {
                let (mode, dst) = (Shuffle::Xor, b.register(Class::B32));
                let exchange = Inst::Shuffle { mode, dst, src: thread, lane: 1_u32.into(), width: 32 };
                b.push(if meets { Inst::WarpBarrier } else { exchange });
            });
        })
    };
    for meets in [false, true] {
        assert_eq!(of_some(5, meets), Ok(()));
        let found = of_some(4, meets);
        assert!(matches!(found, Err(ProgramError::Divergent { threads: "the lanes of a warp", .. })));
    }
}

#[test]
fn what_a_loop_changes_is_found() {
    // The second iteration's guard depends on the thread, through a register that was alike before.
    let found = checked(Target::Sm70, |b| {
        let thread = b.special(Special::Thread);
        let (value, before) = (b.moved(Class::B32, 0_u32), b.register(Class::B32));
        b.repeat(|b| {
            b.set(before, value);
            b.barrier();
            b.set(value, thread);
            Guard::on(b.compare(Cmp::Lt, Ty::U32, before, 5_u32))
        });
    });
    assert!(matches!(found, Err(ProgramError::Divergent { .. })), "{found:?}");
}

#[test]
fn deep_nests_are_refused() {
    fn nest(b: &mut Builder, guard: Guard, depth: usize) {
        if depth > 0 {
            b.when(guard, |b| nest(b, guard, depth - 1));
        }
    }
    let found = checked(Target::Sm70, |b| {
        let block = b.special(Special::Block);
        let first = b.compare(Cmp::Eq, Ty::U32, block, 0_u32);
        nest(b, Guard::on(first), 300);
    });
    assert!(matches!(found, Err(ProgramError::Limit { what: "the depth of statements", .. })), "{found:?}");
}
