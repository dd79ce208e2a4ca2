//! GEMM that only stores its accumulators, against the reference.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Case, check, matmul, numbers};
use microkernels::{AxisOffsets, ParallelAxis};
use vector_asm::LaneType::{F32, F64};

#[test]
fn sizes_around_tiles() {
    // Tiles of 9 and of 10 rows are in 18 and 29.
    for m in (1..=8).chain(11..=14).chain([18, 29]) {
        for n in [1, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 65] {
            for k in [1, 3, 4, 9] {
                check(&matmul(F32, &[], [m, n, k]));
                check(&matmul(F64, &[], [m, n, k]));
            }
        }
    }
}

#[test]
fn sizes_around_blocks() {
    for shape in [
        [47, 64, 100],
        [20, 150, 70],
        [64, 47, 257],
        [100, 100, 100],
        [257, 65, 31],
        [31, 257, 64],
        [130, 33, 140],
    ] {
        check(&matmul(F32, &[], shape));
        check(&matmul(F64, &[], shape));
    }
}

#[test]
fn empty_axes() {
    for shape in [[0, 5, 6], [5, 0, 6], [5, 20, 0], [0, 0, 0]] {
        check(&matmul(F32, &[], shape));
        check(&matmul(F64, &[2], shape));
    }
    check(&matmul(F32, &[3, 0], [4, 5, 6]));
}

#[test]
fn batches() {
    check(&matmul(F32, &[5], [9, 20, 7]));
    check(&matmul(F32, &[2, 3, 2], [7, 9, 33]));
    check(&matmul(F64, &[2, 3], [70, 9, 33]));
}

/// The same problem with operands A or B in column-major order.
fn transposed(mut case: Case, a: bool, b: bool) -> Case {
    let problem = &mut case.problem;
    let size = common::size(problem.element);
    if a {
        problem.a.outer = AxisOffsets::Strided(size);
        problem.a.k = AxisOffsets::Strided(problem.m as i64 * size);
    }
    if b {
        problem.b.outer = AxisOffsets::Strided(problem.k as i64 * size);
        problem.b.k = AxisOffsets::Strided(size);
    }
    case
}

#[test]
fn transposed_operands() {
    for shape in [[1, 1, 1], [5, 17, 9], [33, 20, 31], [70, 40, 65], [130, 50, 140]] {
        for (a, b) in [(true, false), (false, true), (true, true)] {
            check(&transposed(matmul(F32, &[], shape), a, b));
            check(&transposed(matmul(F64, &[2], shape), a, b));
        }
    }
}

#[test]
fn every_split() {
    for split in [ParallelAxis::Batch, ParallelAxis::Rows, ParallelAxis::Columns] {
        for shape in [[50, 40, 30], [13, 5, 8], [32, 70, 90]] {
            let mut case = matmul(F32, &[4, 2], shape);
            case.problem.parallel = split;
            check(&case);
            check(&transposed(case, false, true));
        }
    }
}

#[test]
fn sums_begin_at_what_memory_holds() {
    for shape in [[5, 17, 9], [50, 40, 65], [140, 100, 140]] {
        for split in [ParallelAxis::None, ParallelAxis::Rows] {
            let mut case = matmul(F32, &[], shape);
            let output = store_place(&case);
            case.problem.parallel = split;
            case.problem.initial = Some(output.clone());
            check(&case);
            // The initial accumulators are one row for all rows, then one element per row for all columns.
            case.args.push(numbers(F32, 4, 1000));
            let other = vector_asm::VectorAddress { base: Some(3), ..output };
            let column = (microkernels::COLUMN, 4);
            case.problem.initial = Some(vector_asm::VectorAddress { terms: vec![column], ..other.clone() });
            check(&case);
            case.problem.initial =
                Some(vector_asm::VectorAddress { terms: vec![(microkernels::ROW, 8)], step: 0, ..other });
            check(&case);
        }
    }
}

fn store_place(case: &Case) -> vector_asm::VectorAddress {
    match &case.problem.epilogue.body[1] {
        vector_asm::VectorStmt::Store { place, .. } => place.clone(),
        _ => unreachable!(),
    }
}
