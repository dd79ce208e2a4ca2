//! Products without epilogues, against their definition.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Case, check, matmul, numbers};
use microkernels::{Offsets, Split};
use vector_asm::Element::{F32, F64};

#[test]
fn sizes_around_tiles() {
    for m in 1..=14 {
        for n in [1, 2, 4, 7, 8, 9, 12, 15, 16, 17, 20, 31, 33] {
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

/// The same product with factors that lie otherwise.
fn transposed(mut case: Case, left: bool, right: bool) -> Case {
    let what = &mut case.what;
    let size = common::size(what.element);
    if left {
        what.left.outer = Offsets::Strided(size);
        what.left.depth = Offsets::Strided(what.rows as i64 * size);
    }
    if right {
        what.right.outer = Offsets::Strided(what.depth as i64 * size);
        what.right.depth = Offsets::Strided(size);
    }
    case
}

#[test]
fn transposed_factors() {
    for shape in [[1, 1, 1], [5, 17, 9], [33, 20, 31], [70, 40, 65], [130, 50, 140]] {
        for (left, right) in [(true, false), (false, true), (true, true)] {
            check(&transposed(matmul(F32, &[], shape), left, right));
            check(&transposed(matmul(F64, &[2], shape), left, right));
        }
    }
}

#[test]
fn every_split() {
    for split in [Split::Batch, Split::Rows, Split::Columns] {
        for shape in [[50, 40, 30], [13, 5, 8], [32, 70, 90]] {
            let mut case = matmul(F32, &[4, 2], shape);
            case.what.split = split;
            check(&case);
            check(&transposed(case, false, true));
        }
    }
}

#[test]
fn sums_begin_at_what_memory_holds() {
    for shape in [[5, 17, 9], [50, 40, 65], [140, 100, 140]] {
        for split in [Split::None, Split::Rows] {
            let mut case = matmul(F32, &[], shape);
            let output = store_place(&case);
            case.what.split = split;
            case.what.start = Some(output.clone());
            check(&case);
            // A row for all rows, and an element for all columns.
            case.args.push(numbers(F32, 4, 1000));
            let other = vector_asm::Place { base: Some(3), ..output };
            let column = (microkernels::COLUMN, 4);
            case.what.start = Some(vector_asm::Place { terms: vec![column], ..other.clone() });
            check(&case);
            case.what.start =
                Some(vector_asm::Place { terms: vec![(microkernels::ROW, 8)], step: 0, ..other });
            check(&case);
        }
    }
}

fn store_place(case: &Case) -> vector_asm::Place {
    match &case.what.epilogue.body[1] {
        vector_asm::Stmt::Store { place, .. } => place.clone(),
        _ => unreachable!(),
    }
}
