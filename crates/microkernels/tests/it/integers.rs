//! Products of 8-bit integers by all instructions of this machine, against the reference.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Case, check, matmul, numbers};
use microkernels::{
    ACCUMULATORS, AxisOffsets, COLUMN, CpuTarget, DotInstructions, EPILOGUE_LANES, GemmPlan, OperandBound,
    ParallelAxis, ROW,
};
use proptest::prelude::*;
use vector_asm::LaneType::I32;
use vector_asm::{Isa, StoredType, VectorAddress, VectorBuilder, VectorType};

pub(crate) const SIGNS: [[StoredType; 2]; 4] = [
    [StoredType::U8, StoredType::I8],
    [StoredType::I8, StoredType::U8],
    [StoredType::I8, StoredType::I8],
    [StoredType::U8, StoredType::U8],
];

/// A row-major product of random bytes.
pub(crate) fn product([a, b]: [StoredType; 2], batch: &[u64], [m, n, k]: [u64; 3]) -> Case {
    let mut case = matmul(I32, batch, [m, n, k]);
    let times: u64 = batch.iter().product();
    for (operand, memory, elements) in [(0, a, m * k), (1, b, k * n)] {
        let of = if operand == 0 { &mut case.problem.a } else { &mut case.problem.b };
        of.memory = memory;
        of.terms.iter_mut().for_each(|(_, step)| *step /= 4);
        for axis in [&mut of.outer, &mut of.k] {
            if let AxisOffsets::Strided(step) = axis {
                *step /= 4;
            }
        }
        let mut random = fastrand::Rng::with_seed(elements);
        case.args[operand] = (0..times * elements).map(|_| random.u8(..)).collect();
    }
    case
}

#[test]
fn sizes_around_tiles() {
    for signs in SIGNS {
        for m in [1, 2, 5, 6, 7, 13, 14, 15, 29, 32, 33] {
            for n in [1, 7, 8, 9, 16, 17, 32, 33, 47] {
                for k in [3, 4, 9, 64, 67, 140] {
                    check(&product(signs, &[], [m, n, k]));
                }
            }
        }
    }
}

#[test]
fn empty_axes_and_batches() {
    for shape in [[0, 5, 6], [5, 0, 6], [5, 20, 0], [0, 0, 0]] {
        check(&product(SIGNS[2], &[], shape));
    }
    check(&product(SIGNS[0], &[2, 3], [7, 9, 33]));
    check(&product(SIGNS[3], &[3, 0], [4, 5, 6]));
}

/// Iterations of the batch that share B find it packed, with its corrections.
#[test]
fn batches_share_b() {
    for signs in SIGNS {
        for shape in [[9, 33, 16], [20, 70, 300]] {
            let mut case = product(signs, &[2, 3], shape);
            case.problem.b.terms.clear();
            check(&case);
            check(&grouped(case));
        }
    }
}

/// Products whose pairs do not fit 16 bits, and sums of more than 2³¹, which wrap.
#[test]
fn extremes() {
    for signs in SIGNS {
        for bytes in [[0x80, 0x80], [0xff, 0xff], [0x7f, 0x80], [0x80, 0x7f]] {
            for k in [2, 7, 300] {
                let mut case = product(signs, &[], [15, 33, k]);
                case.args[0].fill(bytes[0]);
                case.args[1].fill(bytes[1]);
                check(&case);
            }
        }
    }
    let mut case = product(SIGNS[3], &[], [3, 5, 40_000]);
    case.args[0].fill(255);
    case.args[1].fill(255);
    check(&case);
}

/// The same problem with operands A or B in column-major order.
fn transposed(mut case: Case, a: bool, b: bool) -> Case {
    let problem = &mut case.problem;
    if a {
        problem.a.outer = AxisOffsets::Strided(1);
        problem.a.k = AxisOffsets::Strided(problem.m as i64);
    }
    if b {
        problem.b.outer = AxisOffsets::Strided(problem.k as i64);
        problem.b.k = AxisOffsets::Strided(1);
    }
    case
}

#[test]
fn transposed_operands() {
    for shape in [[1, 1, 1], [5, 17, 9], [33, 20, 31], [70, 40, 65]] {
        for (a, b) in [(true, false), (false, true), (true, true)] {
            check(&transposed(product(SIGNS[1], &[2], shape), a, b));
        }
    }
}

#[test]
fn every_split() {
    for split in [ParallelAxis::Batch, ParallelAxis::Rows, ParallelAxis::Columns] {
        for shape in [[50, 40, 30], [13, 5, 8], [32, 150, 90]] {
            let mut case = product(SIGNS[2], &[4, 2], shape);
            case.problem.parallel = split;
            check(&case);
        }
    }
}

/// B in groups of four positions along K, as microkernels read it.
fn grouped(mut case: Case) -> Case {
    let problem = &mut case.problem;
    let at = |p: i64| p / 4 * 4 * problem.n as i64 + p % 4;
    problem.b.outer = AxisOffsets::Strided(4);
    problem.b.k = AxisOffsets::Table((0..problem.k as i64).map(at).collect());
    case
}

#[test]
fn groups_are_read_in_place() {
    for signs in SIGNS {
        for shape in [[1, 5, 4], [16, 33, 8], [29, 70, 64], [40, 64, 68], [50, 48, 128]] {
            let mut case = grouped(product(signs, &[], shape));
            let here = CpuTarget::detect();
            if let Some(plan) = GemmPlan::new(&case.problem, &here) {
                assert!(plan.choices().ends_with("B in place"), "{}", plan.choices());
            }
            check(&case);
            case.problem.parallel = ParallelAxis::Columns;
            check(&case);
        }
    }
}

fn output(columns: u64) -> VectorAddress {
    VectorAddress {
        base: Some(2),
        offset: 0,
        terms: vec![(ROW, 4 * columns as i64), (COLUMN, 4)],
        step: 4,
        memory: StoredType::Same,
    }
}

#[test]
fn sums_begin_at_what_memory_holds() {
    for signs in SIGNS {
        let mut case = product(signs, &[], [15, 37, 21]);
        case.args[2] = numbers(I32, 5, 15 * 37);
        case.problem.initial = Some(output(37));
        check(&case);
        case.args.push(numbers(I32, 4, 37));
        let row = VectorAddress { base: Some(3), terms: vec![(COLUMN, 4)], ..output(37) };
        case.problem.initial = Some(row);
        check(&case);
    }
}

#[test]
fn epilogues_read_the_sums() {
    for signs in SIGNS {
        for shape in [[15, 37, 21], [3, 8, 64], [30, 70, 5]] {
            let mut case = product(signs, &[], shape);
            let mut build = VectorBuilder::new();
            let lanes = VectorType::new(I32, EPILOGUE_LANES);
            let sums = build.variable(lanes);
            assert_eq!(sums, ACCUMULATORS);
            let sums = build.get(sums);
            let bias = build.load(VectorAddress::at(3, I32).by(COLUMN, 4), lanes);
            let sum = build.add(sums, bias);
            build.store(output(shape[1]), sum);
            case.problem.epilogue = build.finish();
            case.args.push(numbers(I32, 7, shape[1] as usize));
            check(&case);
            case.problem.parallel = ParallelAxis::Columns;
            check(&case);
        }
    }
}

/// Constants that are subtracted from the elements of either operand, of any size, and with initial sums.
#[test]
fn zero_points_are_taken_out_of_the_sums() {
    for signs in SIGNS {
        for (shape, zeros) in [
            ([15, 37, 21], [7, 0]),
            ([3, 8, 64], [0, -128]),
            ([30, 70, 5], [255, 1]),
            ([20, 9, 8], [-300, 99]),
        ] {
            let mut case = product(signs, &[2], shape);
            [case.problem.a.zero, case.problem.b.zero] = zeros;
            check(&case);
            case.problem.batch.clear();
            case.problem.a.terms.clear();
            case.problem.b.terms.clear();
            case.problem.initial = Some(output(shape[1]));
            case.problem.epilogue = common::store(I32, output(shape[1]));
            check(&case);
        }
    }
}

/// A plan can be limited to older instructions of the machine.
#[test]
fn plans_name_their_instructions() {
    let problem = product(SIGNS[0], &[], [30, 64, 64]).problem;
    let names = [
        (DotInstructions::Avx2, "tiles of 6x8 by vpmaddwd"),
        (DotInstructions::AvxVnni, "tiles of 6x16 by vpdpbusd"),
        (DotInstructions::Avx512VlVnni, "tiles of 6x16 by vpdpbusd"),
        (DotInstructions::Avx512Vnni, "tiles of 14x32 by vpdpbusd"),
        (DotInstructions::Amx, "tiles of 32x32 by tdpbusd"),
        (DotInstructions::Neon, "tiles of 6x8 by smull"),
        (DotInstructions::NeonDot, "tiles of 12x8 by sdot"),
        (DotInstructions::NeonMatrix, "tiles of 12x8 by smmla"),
    ];
    for (dot, name) in names.into_iter().filter(|(dot, _)| dot.is_available()) {
        let isa = Isa::ALL.into_iter().find(|isa| isa.is_available());
        let cpu = CpuTarget { isa, dot: Some(dot), ..CpuTarget::detect() };
        let choices = GemmPlan::new(&problem, &cpu).unwrap().choices();
        assert!(choices.starts_with(name), "{choices}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_layouts(
        (m, n, k) in (1u64..40, 1u64..70, 1u64..50),
        signs in 0usize..4,
        (tables, bounded, seed) in (any::<bool>(), any::<bool>(), any::<u64>()),
        zeros in proptest::array::uniform2(prop_oneof![Just(0), -128..256]),
    ) {
        let mut case = product(SIGNS[signs], &[], [m, n, k]);
        let mut random = fastrand::Rng::with_seed(seed);
        for operand in [0, 1] {
            let of = if operand == 0 { &mut case.problem.a } else { &mut case.problem.b };
            let outer = if operand == 0 { m } else { n };
            of.zero = zeros[operand];
            let mut span = 1;
            if tables {
                let mut table = |count: u64| {
                    let mut at = 0;
                    let next = |_| {
                        at = if random.u8(0..4) == 0 { random.i64(0..100) } else { at + 1 };
                        span = span.max(at + 1);
                        at
                    };
                    AxisOffsets::Table((0..count).map(next).collect())
                };
                (of.outer, of.k) = (table(outer), table(k));
                case.args[operand] = (0..2 * span).map(|_| random.u8(..)).collect();
            }
            if bounded {
                let mut summands =
                    |count: u64| (0..count).map(|_| random.i64(-3..9)).collect::<Vec<_>>().into();
                let (outer, k) = (summands(outer), summands(k));
                of.bounds = vec![OperandBound { outer, k, limit: 8 }];
                of.outside = random.u8(..);
            }
        }
        check(&case);
    }
}
