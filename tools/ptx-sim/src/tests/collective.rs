//! Shuffles and votes.

use super::{FaultCause, cause, give, kernel, words};
use ptx_asm::{
    CmpOp, GuardPredicate, Inst, PtxBuilder, PtxOperand, Reg, RegClass, ShuffleMode, SpecialReg, Ty,
};

fn shuffled(b: &mut PtxBuilder, mode: ShuffleMode, src: Reg, lane: impl Into<PtxOperand>, width: u32) -> Reg {
    let dst = b.register(RegClass::B32);
    b.push(Inst::Shuffle { mode, dst, src, lane: lane.into(), width });
    dst
}

#[test]
fn lanes_read_from_each_other() {
    for width in [1_u32, 2, 8, 32] {
        for by in [0, 1, 3, 7, 31] {
            for mode in [ShuffleMode::Up, ShuffleMode::Down, ShuffleMode::Xor, ShuffleMode::Index] {
                if by >= width && matches!(mode, ShuffleMode::Xor | ShuffleMode::Index) {
                    continue;
                }
                let k = kernel(64, |b| {
                    let thread = b.special(SpecialReg::Thread);
                    let found = shuffled(b, mode, thread, by, width);
                    give(b, found);
                });
                let expected = |thread: u32| {
                    let group = thread / width * width;
                    let partner = match mode {
                        ShuffleMode::Up => thread.checked_sub(by),
                        ShuffleMode::Down => Some(thread + by),
                        ShuffleMode::Xor => Some(thread ^ by),
                        ShuffleMode::Index => Some(group + by),
                    };
                    partner.filter(|&partner| partner / width * width == group).unwrap_or(thread)
                };
                assert_eq!(
                    words(&k, 1, 64),
                    (0..64).map(expected).collect::<Vec<u32>>(),
                    "{mode:?} {by} {width}"
                );
            }
        }
    }
}

/// A warp-shuffle reduction of 32 numbers in five steps.
#[test]
fn a_butterfly_adds_up() {
    let k = kernel(32, |b| {
        let mut sum = b.special(SpecialReg::Lane);
        for by in [16_u32, 8, 4, 2, 1] {
            let other = shuffled(b, ShuffleMode::Xor, sum, by, 32);
            sum = b.add(Ty::U32, sum, other);
        }
        give(b, sum);
    });
    assert_eq!(words(&k, 1, 32), [31 * 32 / 2; 32]);
}

#[test]
fn a_torn_warp_shuffles_nothing() {
    let k = |threads: u32, limit: u32| {
        kernel(threads, |b| {
            let lane = b.special(SpecialReg::Lane);
            let some = b.compare(CmpOp::Lt, Ty::U32, lane, limit);
            b.when(GuardPredicate::on(some), |b| {
                shuffled(b, ShuffleMode::Down, lane, 1_u32, 32);
            });
        })
    };
    words(&k(32, 32), 1, 0);
    let torn = FaultCause::PartialWarp { active: u32::MAX >> 1, expected: u32::MAX };
    assert_eq!(cause(&k(32, 31), 1), torn);
    // The last warp of a block may have fewer lanes.
    assert!(matches!(cause(&k(48, 32), 1), FaultCause::PartialWarp { active: 0xffff, .. }));
}

/// Shuffle operands for which the hardware differs from the definition in `ptx-asm` are faults.
#[test]
fn partners_of_no_group() {
    let k = |mode, by: u32, width| {
        kernel(32, |b| {
            let lane = b.special(SpecialReg::Lane);
            shuffled(b, mode, lane, by, width);
        })
    };
    assert_eq!(cause(&k(ShuffleMode::Xor, 8, 8), 1), FaultCause::ShuffleLane { found: 8, limit: 8 });
    assert_eq!(cause(&k(ShuffleMode::Index, 16, 16), 1), FaultCause::ShuffleLane { found: 16, limit: 16 });
    assert_eq!(cause(&k(ShuffleMode::Up, 32, 32), 1), FaultCause::ShuffleLane { found: 32, limit: 32 });
    assert!(matches!(cause(&k(ShuffleMode::Up, 1, 5), 1), FaultCause::Malformed(_)));
}
