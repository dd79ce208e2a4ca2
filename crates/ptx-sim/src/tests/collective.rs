//! Shuffles and votes.

use super::{Cause, cause, give, kernel, words};
use ptx_asm::{Builder, Class, Cmp, Guard, Inst, Operand, Reg, Shuffle, Special, Ty, Vote};

fn shuffled(b: &mut Builder, mode: Shuffle, src: Reg, lane: impl Into<Operand>, width: u32) -> Reg {
    let dst = b.register(Class::B32);
    b.push(Inst::Shuffle { mode, dst, src, lane: lane.into(), width });
    dst
}

#[test]
fn lanes_read_from_each_other() {
    for width in [1_u32, 2, 8, 32] {
        for by in [0, 1, 3, 7, 31] {
            for mode in [Shuffle::Up, Shuffle::Down, Shuffle::Xor, Shuffle::Index] {
                if by >= width && matches!(mode, Shuffle::Xor | Shuffle::Index) {
                    continue;
                }
                let k = kernel(64, |b| {
                    let thread = b.special(Special::Thread);
                    let found = shuffled(b, mode, thread, by, width);
                    give(b, found);
                });
                let expected = |thread: u32| {
                    let group = thread / width * width;
                    let partner = match mode {
                        Shuffle::Up => thread.checked_sub(by),
                        Shuffle::Down => Some(thread + by),
                        Shuffle::Xor => Some(thread ^ by),
                        Shuffle::Index => Some(group + by),
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

/// A sum of 32 numbers in five steps.
#[test]
fn a_butterfly_adds_up() {
    let k = kernel(32, |b| {
        let mut sum = b.special(Special::Lane);
        for by in [16_u32, 8, 4, 2, 1] {
            let other = shuffled(b, Shuffle::Xor, sum, by, 32);
            sum = b.add(Ty::U32, sum, other);
        }
        give(b, sum);
    });
    assert_eq!(words(&k, 1, 32), [31 * 32 / 2; 32]);
}

#[test]
fn a_torn_warp_shuffles_and_votes_nothing() {
    let k = |threads: u32, limit: u32, vote: bool| {
        kernel(threads, |b| {
            let lane = b.special(Special::Lane);
            let some = b.compare(Cmp::Lt, Ty::U32, lane, limit);
            b.when(Guard::on(some), |b| {
                if vote {
                    let dst = b.register(Class::Pred);
                    b.push(Inst::Vote { vote: Vote::All, dst, src: some });
                } else {
                    shuffled(b, Shuffle::Down, lane, 1_u32, 32);
                }
            });
        })
    };
    for vote in [false, true] {
        words(&k(32, 32, vote), 1, 0);
        assert_eq!(
            cause(&k(32, 31, vote), 1),
            Cause::PartialWarp { active: u32::MAX >> 1, expected: u32::MAX }
        );
        // A block's last warp may be torn from the start.
        assert!(matches!(cause(&k(48, 32, vote), 1), Cause::PartialWarp { active: 0xffff, .. }));
    }
}

/// Where the hardware and the definition part, there is no answer.
#[test]
fn partners_of_no_group() {
    let k = |mode, by: u32, width| {
        kernel(32, |b| {
            let lane = b.special(Special::Lane);
            shuffled(b, mode, lane, by, width);
        })
    };
    assert_eq!(cause(&k(Shuffle::Xor, 8, 8), 1), Cause::ShuffleLane { found: 8, limit: 8 });
    assert_eq!(cause(&k(Shuffle::Index, 16, 16), 1), Cause::ShuffleLane { found: 16, limit: 16 });
    assert_eq!(cause(&k(Shuffle::Up, 32, 32), 1), Cause::ShuffleLane { found: 32, limit: 32 });
    assert!(matches!(cause(&k(Shuffle::Up, 1, 5), 1), Cause::Malformed(_)));
}

#[test]
fn votes() {
    let k = kernel(64, |b| {
        let thread = b.special(Special::Thread);
        // All of the first warp, three of the second.
        let held = b.compare(Cmp::Lt, Ty::U32, thread, 35_u32);
        let [all, any] = [Vote::All, Vote::Any].map(|vote| {
            let dst = b.register(Class::Pred);
            b.push(Inst::Vote { vote, dst, src: held });
            b.select(Ty::U32, dst, 1_u32, 0_u32)
        });
        let ballot = b.register(Class::B32);
        b.push(Inst::Vote { vote: Vote::Ballot, dst: ballot, src: held });
        let sum = b.mul_add(Ty::U32, all, 1000_u32, ballot);
        let sum = b.mul_add(Ty::U32, any, 100_u32, sum);
        give(b, sum);
    });
    let found = words(&k, 1, 64);
    assert_eq!((found[0], found[31], found[32], found[63]), (1099, 1099, 107, 107));
}
