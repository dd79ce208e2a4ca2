//! Instructions of sm_90a: which threads must execute them together, and their limits.

use smallvec::smallvec;

use crate::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxError, PtxKernel, PtxProgram,
    Reg, RegClass, SpecialReg, Target, Ty, check,
};

fn checked(kernel: PtxKernel) -> Result<(), PtxError> {
    check(&PtxProgram { target: Target::Sm90a, kernels: vec![kernel] })
}

/// A kernel of three warpgroups.
fn kernel(write: impl FnOnce(&mut PtxBuilder)) -> PtxKernel {
    let mut b = PtxBuilder::new("kernel", 1, 384);
    b.min_blocks_per_sm(1);
    write(&mut b);
    b.finish()
}

fn divergent(found: Result<(), PtxError>) -> &'static str {
    match found {
        Err(PtxError::Divergent { threads, .. }) => threads,
        other => panic!("expected divergent threads, found {other:?}"),
    }
}

/// A `wgmma` of shape 64×8 with arbitrary descriptors.
fn multiply(b: &mut PtxBuilder, d: &[Reg]) {
    let [a, right] = [b.mov(RegClass::B64, 0_u64), b.mov(RegClass::B64, 0_u64)];
    let accumulate = b.mov(RegClass::Pred, 1_u32);
    b.push(Inst::WgmmaFence);
    b.push(Inst::Wgmma {
        element: Ty::Bf16,
        columns: 8,
        d: d.into(),
        a,
        b: right,
        transposed: [false; 2],
        accumulate,
    });
    b.push(Inst::WgmmaCommit);
    b.push(Inst::WgmmaWait { pending: 0 });
}

fn sums(b: &mut PtxBuilder) -> crate::Regs {
    (0..4).map(|_| b.mov(RegClass::F32, 0_u32)).collect()
}

/// A warp-specialized kernel: one thread of the producer warpgroup fills pipeline stages, and consumer
/// warpgroups empty them.
#[test]
fn warp_specialized_kernels() {
    let specialized = |all_multiply: bool| {
        kernel(|b| {
            let [full, empty] = [b.shared(8, 8), b.shared(8, 8)];
            let [tile, map] = [b.shared(4096, 1024), b.tensor_map()];
            let (thread, lane) = (b.special(SpecialReg::Thread), b.special(SpecialReg::Lane));
            let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
            b.when(GuardPredicate::on(first), |b| {
                b.push(Inst::MbarrierInit { at: AddressOperand::array(full), count: 1 });
                b.push(Inst::MbarrierInit { at: AddressOperand::array(empty), count: 8 });
                b.push(Inst::FenceMbarrierInit);
            });
            b.barrier();
            let produces = b.compare(CmpOp::Lt, Ty::U32, thread, 128_u32);
            b.if_else(
                GuardPredicate::on(produces),
                |b| {
                    b.push(Inst::SetMaxRegisters { count: 40, increase: false });
                    b.when(GuardPredicate::on(first), |b| {
                        let (map, stage) = (b.map_address(map), b.mov(RegClass::B32, 0_u32));
                        b.repeat(|b| {
                            let parity = b.binary(PtxBinaryOp::And, Ty::B32, stage, 1_u32);
                            b.push(Inst::MbarrierWait {
                                at: AddressOperand::array(empty),
                                parity,
                                cluster: false,
                            });
                            b.push(Inst::MbarrierArriveExpectTx {
                                at: AddressOperand::array(full),
                                bytes: 4096,
                            });
                            let at = smallvec![0_u32.into(), stage.into()];
                            let (to, barrier) = (AddressOperand::array(tile), AddressOperand::array(full));
                            b.push(Inst::TmaLoad { map, at, to, barrier, multicast: None });
                            let next = b.add(Ty::U32, stage, 1_u32);
                            b.set(stage, next);
                            GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, stage, 16_u32))
                        });
                    });
                },
                |b| {
                    b.push(Inst::SetMaxRegisters { count: 232, increase: true });
                    let (d, stage) = (sums(b), b.mov(RegClass::B32, 0_u32));
                    let one = b.compare(CmpOp::Eq, Ty::U32, lane, 0_u32);
                    let number = b.binary(PtxBinaryOp::Sub, Ty::U32, thread, 128_u32);
                    let half = b.compare(CmpOp::Lt, Ty::U32, number, 128_u32);
                    b.repeat(|b| {
                        let parity = b.binary(PtxBinaryOp::And, Ty::B32, stage, 1_u32);
                        b.push(Inst::MbarrierWait {
                            at: AddressOperand::array(full),
                            parity,
                            cluster: false,
                        });
                        if all_multiply {
                            b.when(GuardPredicate::on(half), |b| multiply(b, &d));
                        } else {
                            b.when(GuardPredicate::on(one), |b| multiply(b, &d));
                        }
                        b.push_predicated(
                            GuardPredicate::on(one),
                            Inst::MbarrierArrive { at: AddressOperand::array(empty) },
                        );
                        let next = b.add(Ty::U32, stage, 1_u32);
                        b.set(stage, next);
                        GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, stage, 16_u32))
                    });
                    b.push(Inst::Barrier { id: 1, threads: Some(256) });
                },
            );
        })
    };
    assert_eq!(checked(specialized(true)), Ok(()));
    assert_eq!(divergent(checked(specialized(false))), "the warps of a warpgroup");
}

/// Guards computed from the thread index, and whether `wgmma` may stand under them.
#[test]
fn warpgroups_stay_together() {
    let behind = |guard: fn(&mut PtxBuilder, Reg) -> Reg| {
        checked(kernel(|b| {
            let (d, thread) = (sums(b), b.special(SpecialReg::Thread));
            let pred = guard(b, thread);
            b.when(GuardPredicate::on(pred), |b| multiply(b, &d));
        }))
    };
    let group = |b: &mut PtxBuilder, thread| {
        let group = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 7_u32);
        b.compare(CmpOp::Eq, Ty::U32, group, 1_u32)
    };
    assert_eq!(behind(group), Ok(()));
    let swapped = |b: &mut PtxBuilder, thread| b.compare(CmpOp::Gt, Ty::S32, 256_u32, thread);
    assert_eq!(behind(swapped), Ok(()));
    let last = |b: &mut PtxBuilder, thread| b.compare(CmpOp::Le, Ty::U32, thread, 127_u32);
    assert_eq!(behind(last), Ok(()));
    let divided = |b: &mut PtxBuilder, thread| {
        let group = b.binary(PtxBinaryOp::Div, Ty::U32, thread, 384_u32);
        b.compare(CmpOp::Eq, Ty::U32, group, 0_u32)
    };
    assert_eq!(behind(divided), Ok(()));
    let masked = |b: &mut PtxBuilder, thread| {
        let group = b.binary(PtxBinaryOp::And, Ty::B32, thread, 0x180_u32);
        b.compare(CmpOp::Eq, Ty::U32, group, 128_u32)
    };
    assert_eq!(behind(masked), Ok(()));
    let wrong: [fn(&mut PtxBuilder, Reg) -> Reg; 6] = [
        |b, thread| b.compare(CmpOp::Lt, Ty::U32, thread, 96_u32),
        |b, thread| b.compare(CmpOp::Le, Ty::U32, thread, 128_u32),
        |b, thread| b.compare(CmpOp::Ne, Ty::U32, thread, 128_u32),
        |b, thread| {
            let warp = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, thread, 6_u32);
            b.compare(CmpOp::Eq, Ty::U32, warp, 1_u32)
        },
        // Signed division truncates towards zero, so -127..=127 give 0.
        |b, thread| {
            let number = b.binary(PtxBinaryOp::Sub, Ty::S32, thread, 128_u32);
            let group = b.binary(PtxBinaryOp::Div, Ty::S32, number, 128_u32);
            b.compare(CmpOp::Eq, Ty::S32, group, 0_u32)
        },
        |b, thread| {
            let number = b.binary(PtxBinaryOp::Sub, Ty::U32, thread, 32_u32);
            b.compare(CmpOp::Lt, Ty::U32, number, 128_u32)
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
            let block = b.special(SpecialReg::Block);
            let cluster = b.binary(PtxBinaryOp::ShiftRight, Ty::U32, block, shift);
            let first = b.compare(CmpOp::Eq, Ty::U32, cluster, 0_u32);
            b.when(GuardPredicate::on(first), |b| b.push(Inst::ClusterBarrier));
        }))
    };
    assert_eq!(behind(2), Ok(()));
    assert_eq!(divergent(behind(1)), "the threads of a cluster");
    // The blocks of a cluster may read different values from their shared memory.
    let loaded = kernel(|b| {
        b.cluster(2);
        let array = b.shared(16, 16);
        let value = b.load(crate::StateSpace::Shared, Ty::U32, false, AddressOperand::array(array));
        let zero = b.compare(CmpOp::Eq, Ty::U32, value, 0_u32);
        b.when(GuardPredicate::on(zero), |b| b.push(Inst::ClusterBarrier));
    });
    assert_eq!(divergent(checked(loaded)), "the threads of a cluster");
}

#[test]
fn parameters_take_up_to_4_kib() {
    assert_eq!(checked(PtxBuilder::new("kernel", 512, 32).finish()), Ok(()));
}
