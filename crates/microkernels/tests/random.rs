//! Random contractions, against their definition.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::writer::{bias_and_relu, output};
use common::{check, matmul, numbers, size};
use microkernels::{Bounds, Factor, Offsets, Split};
use proptest::prelude::*;
use vector_asm::Element;

/// How a factor lies.
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

/// Lays out a factor of `outer` by `depth`, one for all of the batch, and its memory.
fn lay(factor: &mut Factor, lie: Lie, bytes: i64, [outer, depth]: [u64; 2], seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let (o, d) = (outer as i64, depth as i64);
    factor.terms.clear();
    let (outer_step, depth_step) = match lie {
        Lie::RowMajor => (d, 1),
        Lie::ColumnMajor => (1, o),
        Lie::Gaps => (2, 2 * o + 1),
        Lie::Tables | Lie::Bounded => (3, 2),
    };
    factor.outer = Offsets::Strided(outer_step * bytes);
    factor.depth = Offsets::Strided(depth_step * bytes);
    if matches!(lie, Lie::Tables | Lie::Bounded) {
        // Runs of neighbours of random lengths.
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
            Offsets::Table((0..count).map(entry).collect())
        };
        (factor.outer, factor.depth) = (table(o, 3), table(d, 2));
    }
    if matches!(lie, Lie::Bounded) {
        let mut summands = |count: i64, most: i64| (0..count).map(|_| random.i64(-2..most)).collect();
        factor.bounds = vec![
            Bounds { outer: summands(o, 9), depth: summands(d, 3), limit: 8 },
            Bounds { outer: (0..o).collect(), depth: summands(d, 40), limit: o },
        ];
    }
    (outer_step * o + depth_step * d + 1) as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_contractions_have_the_bits_of_their_definition(
        double: bool,
        batch in prop::collection::vec(1u64..4, 0..3),
        (m, n, k) in (1u64..40, 1u64..40, 0u64..40),
        left in lies(),
        right in lies(),
        seed: u64,
        split in prop_oneof![Just(Split::None), Just(Split::Batch), Just(Split::Rows), Just(Split::Columns)],
        start: bool,
        epilogue: bool,
    ) {
        let element = if double { Element::F64 } else { Element::F32 };
        let mut case = matmul(element, &batch, [m, n, k]);
        let needed = lay(&mut case.what.left, left, size(element), [m, k], seed);
        case.args[0] = numbers(element, seed, needed);
        let needed = lay(&mut case.what.right, right, size(element), [n, k], seed ^ 1);
        case.args[1] = numbers(element, seed ^ 1, needed);
        case.what.split = if batch.is_empty() && split == Split::Batch { Split::None } else { split };
        case.what.start = start.then(|| output(&case));
        if epilogue {
            bias_and_relu(&mut case);
        }
        check(&case);
    }
}
