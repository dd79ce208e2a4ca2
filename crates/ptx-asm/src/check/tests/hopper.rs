//! What 9.0 alone has: who has to come by, and what fits.

use smallvec::smallvec;

use crate::{
    Binary, Builder, Class, Cmp, Guard, Inst, Kernel, Module, Place, ProgramError, Reg, Special, Target, Ty,
    check,
};

fn checked(kernel: Kernel) -> Result<(), ProgramError> {
    check(&Module { target: Target::Sm90a, kernels: vec![kernel] })
}

/// A kernel of three warpgroups.
fn kernel(write: impl FnOnce(&mut Builder)) -> Kernel {
    let mut b = Builder::new("kernel", 1, 384);
    b.blocks_per_processor(1);
    write(&mut b);
    b.finish()
}

fn divergent(found: Result<(), ProgramError>) -> &'static str {
    match found {
        Err(ProgramError::Divergent { threads, .. }) => threads,
        other => panic!("expected threads that part, found {other:?}"),
    }
}

/// A product of 64×8 of what is in shared memory somewhere.
fn product(b: &mut Builder, d: &[Reg]) {
    let [a, right] = [b.moved(Class::B64, 0_u64), b.moved(Class::B64, 0_u64)];
    let accumulate = b.moved(Class::Pred, 1_u32);
    b.push(Inst::WarpgroupFence);
    b.push(Inst::WarpgroupMma {
        factor: Ty::Bf16,
        columns: 8,
        d: d.into(),
        a,
        b: right,
        transposed: [false; 2],
        accumulate,
    });
    b.push(Inst::WarpgroupCommit);
    b.push(Inst::WarpgroupWait { left: 0 });
}

fn sums(b: &mut Builder) -> crate::Regs {
    (0..4).map(|_| b.moved(Class::F32, 0_u32)).collect()
}

/// A producer that fills stages, and consumers that empty them, by the numbers of their threads.
#[test]
fn warps_with_roles() {
    let roles = |products_of_all: bool| {
        kernel(|b| {
            let [full, empty] = [b.shared(8, 8), b.shared(8, 8)];
            let [tile, map] = [b.shared(4096, 1024), b.tensor_map()];
            let (thread, lane) = (b.special(Special::Thread), b.special(Special::Lane));
            let first = b.compare(Cmp::Eq, Ty::U32, thread, 0_u32);
            b.when(Guard::on(first), |b| {
                b.push(Inst::BarrierInit { at: Place::array(full), count: 1 });
                b.push(Inst::BarrierInit { at: Place::array(empty), count: 8 });
                b.push(Inst::BarrierInitFence);
            });
            b.barrier();
            let produces = b.compare(Cmp::Lt, Ty::U32, thread, 128_u32);
            b.either(
                Guard::on(produces),
                |b| {
                    b.push(Inst::SetMaxRegisters { count: 40, increase: false });
                    b.when(Guard::on(first), |b| {
                        let (map, stage) = (b.map_address(map), b.moved(Class::B32, 0_u32));
                        b.repeat(|b| {
                            let parity = b.binary(Binary::And, Ty::B32, stage, 1_u32);
                            b.push(Inst::BarrierWait { at: Place::array(empty), parity, cluster: false });
                            b.push(Inst::ArriveExpect { at: Place::array(full), bytes: 4096 });
                            let at = smallvec![0_u32.into(), stage.into()];
                            let (to, barrier) = (Place::array(tile), Place::array(full));
                            b.push(Inst::LoadTile { map, at, to, barrier, multicast: None });
                            let next = b.add(Ty::U32, stage, 1_u32);
                            b.set(stage, next);
                            Guard::on(b.compare(Cmp::Lt, Ty::U32, stage, 16_u32))
                        });
                    });
                },
                |b| {
                    b.push(Inst::SetMaxRegisters { count: 232, increase: true });
                    let (d, stage) = (sums(b), b.moved(Class::B32, 0_u32));
                    let one = b.compare(Cmp::Eq, Ty::U32, lane, 0_u32);
                    let number = b.binary(Binary::Sub, Ty::U32, thread, 128_u32);
                    let half = b.compare(Cmp::Lt, Ty::U32, number, 128_u32);
                    b.repeat(|b| {
                        let parity = b.binary(Binary::And, Ty::B32, stage, 1_u32);
                        b.push(Inst::BarrierWait { at: Place::array(full), parity, cluster: false });
                        if products_of_all {
                            b.when(Guard::on(half), |b| product(b, &d));
                        } else {
                            b.when(Guard::on(one), |b| product(b, &d));
                        }
                        b.push_when(Guard::on(one), Inst::Arrive { at: Place::array(empty) });
                        let next = b.add(Ty::U32, stage, 1_u32);
                        b.set(stage, next);
                        Guard::on(b.compare(Cmp::Lt, Ty::U32, stage, 16_u32))
                    });
                    b.push(Inst::Barrier { id: 1, threads: Some(256) });
                },
            );
        })
    };
    assert_eq!(checked(roles(true)), Ok(()));
    assert_eq!(divergent(checked(roles(false))), "the warps of a warpgroup");
}

/// Which part of the thread's number a guard looks at, and whether products may stand behind it.
#[test]
fn warpgroups_stay_together() {
    let behind = |guard: fn(&mut Builder, Reg) -> Reg| {
        checked(kernel(|b| {
            let (d, thread) = (sums(b), b.special(Special::Thread));
            let pred = guard(b, thread);
            b.when(Guard::on(pred), |b| product(b, &d));
        }))
    };
    let group = |b: &mut Builder, thread| {
        let group = b.binary(Binary::ShiftRight, Ty::U32, thread, 7_u32);
        b.compare(Cmp::Eq, Ty::U32, group, 1_u32)
    };
    assert_eq!(behind(group), Ok(()));
    let turned = |b: &mut Builder, thread| b.compare(Cmp::Gt, Ty::S32, 256_u32, thread);
    assert_eq!(behind(turned), Ok(()));
    let last = |b: &mut Builder, thread| b.compare(Cmp::Le, Ty::U32, thread, 127_u32);
    assert_eq!(behind(last), Ok(()));
    let divided = |b: &mut Builder, thread| {
        let group = b.binary(Binary::Div, Ty::U32, thread, 384_u32);
        b.compare(Cmp::Eq, Ty::U32, group, 0_u32)
    };
    assert_eq!(behind(divided), Ok(()));
    let masked = |b: &mut Builder, thread| {
        let group = b.binary(Binary::And, Ty::B32, thread, 0x180_u32);
        b.compare(Cmp::Eq, Ty::U32, group, 128_u32)
    };
    assert_eq!(behind(masked), Ok(()));
    let wrong: [fn(&mut Builder, Reg) -> Reg; 6] = [
        |b, thread| b.compare(Cmp::Lt, Ty::U32, thread, 96_u32),
        |b, thread| b.compare(Cmp::Le, Ty::U32, thread, 128_u32),
        |b, thread| b.compare(Cmp::Ne, Ty::U32, thread, 128_u32),
        |b, thread| {
            let warp = b.binary(Binary::ShiftRight, Ty::U32, thread, 6_u32);
            b.compare(Cmp::Eq, Ty::U32, warp, 1_u32)
        },
        // Signed numbers are divided towards zero.
        |b, thread| {
            let number = b.binary(Binary::Sub, Ty::S32, thread, 128_u32);
            let group = b.binary(Binary::Div, Ty::S32, number, 128_u32);
            b.compare(Cmp::Eq, Ty::S32, group, 0_u32)
        },
        |b, thread| {
            let number = b.binary(Binary::Sub, Ty::U32, thread, 32_u32);
            b.compare(Cmp::Lt, Ty::U32, number, 128_u32)
        },
    ];
    for guard in wrong {
        assert_eq!(divergent(behind(guard)), "the warps of a warpgroup");
    }
}

#[test]
fn clusters_stay_together() {
    let behind = |shift: u32| {
        checked(kernel(|b| {
            b.cluster(4);
            let block = b.special(Special::Block);
            let cluster = b.binary(Binary::ShiftRight, Ty::U32, block, shift);
            let first = b.compare(Cmp::Eq, Ty::U32, cluster, 0_u32);
            b.when(Guard::on(first), |b| b.push(Inst::ClusterBarrier));
        }))
    };
    assert_eq!(behind(2), Ok(()));
    assert_eq!(divergent(behind(1)), "the threads of a cluster");
    // What blocks find in memory of their own, others do not.
    let loaded = kernel(|b| {
        b.cluster(2);
        let array = b.shared(16, 16);
        let value = b.load(crate::Space::Shared, Ty::U32, false, Place::array(array));
        let zero = b.compare(Cmp::Eq, Ty::U32, value, 0_u32);
        b.when(Guard::on(zero), |b| b.push(Inst::ClusterBarrier));
    });
    assert_eq!(divergent(checked(loaded)), "the threads of a cluster");
}

#[test]
fn limits() {
    let limited = |write: fn(&mut Builder)| {
        let mut b = Builder::new("kernel", 1, 128);
        write(&mut b);
        checked(b.finish()).expect_err("it is too much").to_string()
    };
    let found = limited(|b| b.cluster(9));
    assert_eq!(found, "kernel `kernel`: the blocks of a cluster is 9, expected 0 to 8");
    let found = limited(|b| b.push(Inst::SetMaxRegisters { count: 40, increase: false }));
    assert!(found.ends_with("does not say how many blocks a multiprocessor has room for"), "{found}");
    let found = limited(|b| {
        let array = b.shared(4, 4);
        b.push(Inst::Arrive { at: Place::array(array) });
    });
    assert!(found.ends_with("bytes 0..8 of an array of 4"), "{found}");
    let found = limited(|b| {
        let (array, d) = (b.shared(256, 64), b.moved(Class::B64, 0_u64));
        b.push(Inst::StoreTile { map: d, at: smallvec![0_u32.into()], from: Place::array(array) });
    });
    assert!(found.ends_with("expected an alignment of 128 bytes"), "{found}");
    let found = limited(|b| {
        let array = b.shared(8, 8);
        b.push(Inst::ArriveCluster { at: Place::array(array) });
    });
    assert!(found.ends_with("expected an address that the cluster gave"), "{found}");
    let short = checked(Builder::new("kernel", 512, 32).finish());
    assert_eq!(short, Ok(()));
    let mut b = Builder::new("kernel", 512, 32);
    b.tensor_map();
    assert!(matches!(checked(b.finish()), Err(ProgramError::Limit { found: 4224, .. })));
    let half = {
        let mut b = Builder::new("kernel", 0, 192);
        b.push(Inst::WarpgroupFence);
        checked(b.finish())
    };
    assert!(half.expect_err("a warpgroup is torn").to_string().ends_with("expected whole warpgroups of 128"));
}
