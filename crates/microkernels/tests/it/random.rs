//! Random problems, against the reference.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::writer::{bias_and_relu, output};
use common::{check, matmul, numbers, size};
use microkernels::{AxisOffsets, GemmOperand, OperandBound, ParallelAxis};
use proptest::prelude::*;
use vector_asm::LaneType;

/// How an operand lies in memory.
#[derive(Clone, Copy, Debug)]
enum Lie {
    RowMajor,
    ColumnMajor,
    Gaps,
    Tables,
    Bounded,
}

fn lies() -> impl Strategy<Value = Lie> {
    prop_oneof![
        Just(Lie::RowMajor),
        Just(Lie::ColumnMajor),
        Just(Lie::Gaps),
        Just(Lie::Tables),
        Just(Lie::Bounded)
    ]
}

/// Lays out an operand of `outer` by `k` that all iterations of the batch share. Returns the number of
/// elements that it spans.
fn lay(operand: &mut GemmOperand, lie: Lie, bytes: i64, [outer, k]: [u64; 2], seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let (o, d) = (outer as i64, k as i64);
    operand.terms.clear();
    let (outer_step, k_step) = match lie {
        Lie::RowMajor => (d, 1),
        Lie::ColumnMajor => (1, o),
        Lie::Gaps => (2, 2 * o + 1),
        Lie::Tables | Lie::Bounded => (3, 2),
    };
    operand.outer = AxisOffsets::Strided(outer_step * bytes);
    operand.k = AxisOffsets::Strided(k_step * bytes);
    if matches!(lie, Lie::Tables | Lie::Bounded) {
        // Contiguous runs of random lengths.
        let mut table = |count: i64, step: i64| {
            let mut at = 0;
            let entry = |_| {
                at = if random.u8(0..4) == 0 {
                    random.i64(0..=count * step)
                } else {
                    (at + 1).min(count * step)
                };
                at * bytes
            };
            AxisOffsets::Table((0..count).map(entry).collect())
        };
        (operand.outer, operand.k) = (table(o, 3), table(d, 2));
    }
    if matches!(lie, Lie::Bounded) {
        let mut summands = |count: i64, most: i64| (0..count).map(|_| random.i64(-2..most)).collect();
        operand.bounds = vec![
            OperandBound { outer: summands(o, 9), k: summands(d, 3), limit: 8 },
            OperandBound { outer: (0..o).collect(), k: summands(d, 40), limit: o },
        ];
    }
    (outer_step * o + k_step * d + 1) as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_contractions_have_the_bits_of_their_definition(
        double: bool,
        batch in prop::collection::vec(1u64..4, 0..3),
        (m, n, k) in (1u64..40, 1u64..40, 0u64..40),
        a in lies(),
        b in lies(),
        seed: u64,
        split in prop_oneof![Just(ParallelAxis::None), Just(ParallelAxis::Batch), Just(ParallelAxis::Rows), Just(ParallelAxis::Columns)],
        start: bool,
        epilogue: bool,
    ) {
        let element = if double { LaneType::F64 } else { LaneType::F32 };
        let mut case = matmul(element, &batch, [m, n, k]);
        let needed = lay(&mut case.problem.a, a, size(element), [m, k], seed);
        case.args[0] = numbers(element, seed, needed);
        let needed = lay(&mut case.problem.b, b, size(element), [n, k], seed ^ 1);
        case.args[1] = numbers(element, seed ^ 1, needed);
        case.problem.parallel = if batch.is_empty() && split == ParallelAxis::Batch { ParallelAxis::None } else { split };
        case.problem.initial = start.then(|| output(&case));
        if epilogue {
            bias_and_relu(&mut case);
        }
        check(&case);
    }
}
