//! GEMM with fused epilogues, against the reference.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::writer::{Writer, bias_and_relu, output};
use common::{Case, check, check_within, matmul, numbers};
use microkernels::{ACCUMULATORS, COLUMN, ParallelAxis, ROW, batch_index};
use vector_asm::{Binary, LaneType, StoredType, VectorAddress, VectorOp, VectorStmt};

const SHAPES: [[u64; 3]; 6] =
    [[1, 1, 1], [5, 17, 9], [13, 16, 4], [33, 47, 70], [66, 100, 40], [140, 35, 300]];

#[test]
fn bias_and_relu_are_fused() {
    for shape in SHAPES {
        for split in [ParallelAxis::None, ParallelAxis::Rows, ParallelAxis::Columns] {
            for element in [LaneType::F32, LaneType::F64] {
                let mut case = matmul(element, &[], shape);
                bias_and_relu(&mut case);
                case.problem.parallel = split;
                check(&case);
            }
        }
    }
}

/// Calls with few of the planned rows read operands in place that the plan packs.
#[test]
fn calls_with_fewer_rows_than_planned() {
    for split in [ParallelAxis::None, ParallelAxis::Rows, ParallelAxis::Columns] {
        for batch in [&[][..], &[2]] {
            let mut case = matmul(LaneType::F32, batch, [90, 70, 33]);
            check_within(&case, [31, 70, 33]);
            bias_and_relu(&mut case);
            case.problem.parallel = split;
            for extents in [[0, 70, 33], [1, 70, 33], [6, 70, 33], [30, 69, 33], [31, 70, 32], [90, 70, 33]] {
                check_within(&case, extents);
            }
        }
    }
}

/// Iterations of a batch that share B use blocks of its columns that the first one packs, unless a call has
/// few rows in all of them together.
#[test]
fn batches_share_b() {
    for split in [ParallelAxis::None, ParallelAxis::Batch, ParallelAxis::Rows, ParallelAxis::Columns] {
        for (columns, k) in [(70, 33), (460, 300)] {
            let mut case = matmul(LaneType::F32, &[2], [20, columns, k]);
            case.problem.b.terms.clear();
            case.problem.parallel = split;
            check(&case);
            bias_and_relu(&mut case);
            for extents in [[1, columns, k], [16, columns - 1, k], [20, columns, k - 1]] {
                check_within(&case, extents);
            }
        }
    }
}

#[test]
fn epilogues_of_batches() {
    for split in [ParallelAxis::None, ParallelAxis::Batch, ParallelAxis::Rows] {
        let mut case = matmul(LaneType::F32, &[3, 2], [7, 21, 40]);
        bias_and_relu(&mut case);
        case.problem.parallel = split;
        // The bias depends on the batch index and on a binding.
        for stmt in &mut case.problem.epilogue.body {
            if let VectorStmt::Let { op: VectorOp::Load(place), .. } = stmt {
                place.terms.push((batch_index(0), 4 * 21));
                place.terms.push((vector_asm::Index::Binding(1), 8));
            }
        }
        case.args[3] = numbers(LaneType::F32, 8, 3 * 21 + 10);
        case.bindings = vec![100, 5];
        check(&case);
    }
}

/// A product with the epilogue `out := out + sum · other[row, column]` in the element type, and with a second
/// output `sum · scale[row]` in half precision.
fn two_stores(shape: [u64; 3], memory: StoredType) -> Case {
    let mut case = matmul(LaneType::F32, &[], shape);
    let output = output(&case);
    let [m, n, _] = shape;
    let mut writer = Writer::new(LaneType::F32);
    let sum = writer.define(VectorOp::Get { variable: ACCUMULATORS, start: 0 });
    let other = writer.define(VectorOp::Load(VectorAddress { base: Some(3), ..output.clone() }));
    let before = writer.define(VectorOp::Load(output.clone()));
    let scale = writer.define(VectorOp::Load(VectorAddress {
        base: Some(3),
        terms: vec![(ROW, 4)],
        step: 0,
        ..output.clone()
    }));
    let value = writer.define(VectorOp::Fma(sum, other, before));
    writer.store(output.clone(), value);
    let value = writer.define(VectorOp::Binary(Binary::Multiply, sum, scale));
    let terms = vec![(ROW, 2 * n as i64), (COLUMN, 2)];
    writer.store(VectorAddress { base: Some(4), terms, step: 2, memory, ..output }, value);
    case.problem.epilogue = writer.program;
    case.args.push(numbers(LaneType::F32, 7, (m * n) as usize));
    case.args.push(vec![0; 2 * (m * n) as usize]);
    case
}

#[test]
fn two_stores_and_another_matrix() {
    for shape in SHAPES {
        for memory in [StoredType::F16, StoredType::BF16] {
            check(&two_stores(shape, memory));
        }
    }
}

/// Sums so long that they are cut, with no output for the sums between blocks: all that is stored has been
/// read before.
#[test]
fn long_sums_in_scratch_memory() {
    for shape in [[40, 40, 1100], [17, 33, 2050], [61, 150, 1024]] {
        for split in [ParallelAxis::None, ParallelAxis::Rows, ParallelAxis::Columns] {
            let mut case = two_stores(shape, StoredType::BF16);
            case.problem.parallel = split;
            check(&case);
        }
    }
}

#[test]
fn sums_that_begin_elsewhere_are_fused() {
    for shape in SHAPES {
        for split in [ParallelAxis::None, ParallelAxis::Rows, ParallelAxis::Columns] {
            let mut case = matmul(LaneType::F32, &[], shape);
            let output = output(&case);
            case.problem.parallel = split;
            bias_and_relu(&mut case);
            // The initial accumulators are, in turn, the output, one row for all rows, and one element per
            // row for all columns.
            case.problem.initial = Some(output.clone());
            check(&case);
            let other = VectorAddress { base: Some(3), ..output };
            case.problem.initial = Some(VectorAddress { terms: vec![(COLUMN, 4)], ..other.clone() });
            check(&case);
            case.args[3] = numbers(LaneType::F32, 9, shape[0].max(shape[1]) as usize);
            case.problem.initial = Some(VectorAddress { terms: vec![(ROW, 4)], step: 0, ..other });
            check(&case);
        }
    }
}

/// The slices of an array of gates, `gates[row, slice, column]`: one is stored, two accumulate, the last is
/// the value of another. The array is in both orders of its rows and columns.
#[test]
fn slices_of_one_array_are_stored() {
    for [m, n, k] in SHAPES {
        for by_columns in [false, m > 1] {
            let mut case = matmul(LaneType::F32, &[], [m, n, k]);
            let (row, column, slice) = match by_columns {
                false => (4 * 4 * n as i64, 4, 4 * n as i64),
                true => (4, 4 * 4 * m as i64, 4 * m as i64),
            };
            let terms = vec![(ROW, row), (COLUMN, column)];
            let output = VectorAddress { terms, step: column, ..output(&case) };
            let place = |at: i64| VectorAddress { offset: at * slice, ..output.clone() };
            case.args[2] = numbers(LaneType::F32, 5, 4 * (m * n) as usize);
            let mut writer = Writer::new(LaneType::F32);
            let sum = writer.define(VectorOp::Get { variable: ACCUMULATORS, start: 0 });
            writer.store(place(3), sum);
            for at in [2, 0] {
                let before = writer.define(VectorOp::Load(place(at)));
                let value = writer.define(VectorOp::Fma(sum, sum, before));
                writer.store(place(at), value);
            }
            let last = writer.define(VectorOp::Load(place(2)));
            writer.store(place(1), last);
            case.problem.epilogue = writer.program;
            check(&case);
        }
    }
}

/// Epilogues too long to be fused, which run on accumulators in memory.
#[test]
fn long_epilogues() {
    for shape in SHAPES {
        for element in [LaneType::F32, LaneType::F64] {
            let mut case = matmul(element, &[], shape);
            let mut writer = Writer::new(element);
            let mut value = writer.define(VectorOp::Get { variable: ACCUMULATORS, start: 0 });
            for _ in 0..20 {
                value = writer.define(VectorOp::Binary(Binary::Add, value, value));
            }
            writer.store(output(&case), value);
            case.problem.epilogue = writer.program;
            check(&case);
        }
    }
}

#[test]
fn problems_with_an_observable_order_have_no_plan() {
    let here = microkernels::CpuTarget::detect();
    let plan = |case: &Case| microkernels::GemmPlan::new(&case.problem, &here);
    let case = matmul(LaneType::F32, &[], [8, 8, 8]);
    assert_eq!(plan(&case).is_some(), here.isa.is_some());
    // An operand is written.
    let mut other = case.clone();
    other.problem.a.base = 2;
    assert!(plan(&other).is_none());
    // The rows of the output overlap.
    let mut other = case.clone();
    if let VectorStmt::Store { place, .. } = &mut other.problem.epilogue.body[1] {
        place.terms = vec![(ROW, 16), (COLUMN, 4)];
    }
    assert!(plan(&other).is_none());
    // Slices overlap by one column, or one piece of a slice lies within another slice.
    let stored_at = |offset: i64, row: i64| {
        let mut case = matmul(LaneType::F32, &[], [8, 8, 8]);
        let terms = vec![(ROW, row), (COLUMN, 4)];
        let first = VectorAddress { terms, ..output(&case) };
        let mut writer = Writer::new(LaneType::F32);
        let sum = writer.define(VectorOp::Get { variable: ACCUMULATORS, start: 0 });
        writer.store(first.clone(), sum);
        writer.store(VectorAddress { offset, ..first }, sum);
        case.problem.epilogue = writer.program;
        plan(&case).is_some()
    };
    for (offset, row, apart) in [
        (32, 64, true),
        (28, 64, false),
        (36, 64, false),
        (32 + 64, 64, true),
        (28 + 64, 64, false),
        (256, 32, true),
        (-256, 32, true),
        (224, 32, false),
    ] {
        assert_eq!(stored_at(offset, row), apart && here.isa.is_some(), "offset {offset}, rows {row} apart");
    }
    // The initial accumulators overlap other outputs.
    let mut other = case.clone();
    other.problem.initial = Some(VectorAddress { offset: 4, ..output(&case) });
    assert!(plan(&other).is_none());
}
