//! Products with epilogues, against their definition.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::writer::{Writer, bias_and_relu, output};
use common::{Case, check, matmul, numbers};
use microkernels::{COLUMN, ROW, SUM, Split, batch_index};
use vector_asm::{Binary, Element, Memory, Op, Place, Stmt};

const SHAPES: [[u64; 3]; 6] =
    [[1, 1, 1], [5, 17, 9], [13, 16, 4], [33, 47, 70], [66, 100, 40], [140, 35, 300]];

#[test]
fn bias_and_relu_are_fused() {
    for shape in SHAPES {
        for split in [Split::None, Split::Rows, Split::Columns] {
            for element in [Element::F32, Element::F64] {
                let mut case = matmul(element, &[], shape);
                bias_and_relu(&mut case);
                case.what.split = split;
                check(&case);
            }
        }
    }
}

#[test]
fn epilogues_of_batches() {
    for split in [Split::None, Split::Batch, Split::Rows] {
        let mut case = matmul(Element::F32, &[3, 2], [7, 21, 40]);
        bias_and_relu(&mut case);
        case.what.split = split;
        // The bias of each outer iteration is another one, and there are as many more as the binding says.
        for stmt in &mut case.what.epilogue.body {
            if let Stmt::Let { op: Op::Load(place), .. } = stmt {
                place.terms.push((batch_index(0), 4 * 21));
                place.terms.push((vector_asm::Index::Binding(1), 8));
            }
        }
        case.args[3] = numbers(Element::F32, 8, 3 * 21 + 10);
        case.bindings = vec![100, 5];
        check(&case);
    }
}

/// `out := out + sum · other[row, column]`, `second := -3 · sum`, narrow.
#[test]
fn two_stores_and_another_matrix() {
    for shape in SHAPES {
        for memory in [Memory::F16, Memory::BF16] {
            let mut case = matmul(Element::F32, &[], shape);
            let output = output(&case);
            let [m, n, _] = shape;
            let mut writer = Writer::new(Element::F32);
            let sum = writer.define(Op::Get { variable: SUM, start: 0 });
            let other = writer.define(Op::Load(Place { base: Some(3), ..output.clone() }));
            let before = writer.define(Op::Load(output.clone()));
            let scale = writer.define(Op::Load(Place {
                base: Some(3),
                terms: vec![(ROW, 4)],
                step: 0,
                ..output.clone()
            }));
            let value = writer.define(Op::Fma(sum, other, before));
            writer.store(output.clone(), value);
            let value = writer.define(Op::Binary(Binary::Multiply, sum, scale));
            let terms = vec![(ROW, 2 * n as i64), (COLUMN, 2)];
            writer.store(Place { base: Some(4), terms, step: 2, memory, ..output }, value);
            case.what.epilogue = writer.program;
            case.args.push(numbers(Element::F32, 7, (m * n) as usize));
            case.args.push(vec![0; 2 * (m * n) as usize]);
            check(&case);
        }
    }
}

#[test]
fn sums_that_begin_elsewhere_are_fused() {
    for shape in SHAPES {
        for split in [Split::None, Split::Rows, Split::Columns] {
            let mut case = matmul(Element::F32, &[], shape);
            let output = output(&case);
            case.what.split = split;
            bias_and_relu(&mut case);
            // At what the output holds, at a row for all rows, and at an element for all columns.
            case.what.start = Some(output.clone());
            check(&case);
            let other = Place { base: Some(3), ..output };
            case.what.start = Some(Place { terms: vec![(COLUMN, 4)], ..other.clone() });
            check(&case);
            case.args[3] = numbers(Element::F32, 9, shape[0].max(shape[1]) as usize);
            case.what.start = Some(Place { terms: vec![(ROW, 4)], step: 0, ..other });
            check(&case);
        }
    }
}

/// So many operations that they are computed on sums in memory.
#[test]
fn long_epilogues() {
    for shape in SHAPES {
        for element in [Element::F32, Element::F64] {
            let mut case = matmul(element, &[], shape);
            let mut writer = Writer::new(element);
            let mut value = writer.define(Op::Get { variable: SUM, start: 0 });
            for _ in 0..20 {
                value = writer.define(Op::Binary(Binary::Add, value, value));
            }
            writer.store(output(&case), value);
            case.what.epilogue = writer.program;
            check(&case);
        }
    }
}

#[test]
fn what_could_be_observed_is_refused() {
    let here = microkernels::Machine::detect();
    let plan = |case: &Case| microkernels::Plan::new(&case.what, &here);
    let case = matmul(Element::F32, &[], [8, 8, 8]);
    assert_eq!(plan(&case).is_some(), here.vectors);
    // A factor that is written.
    let mut other = case.clone();
    other.what.left.base = 2;
    assert!(plan(&other).is_none());
    // Rows that overlap.
    let mut other = case.clone();
    if let Stmt::Store { place, .. } = &mut other.what.epilogue.body[1] {
        place.terms = vec![(ROW, 16), (COLUMN, 4)];
    }
    assert!(plan(&other).is_none());
    // Sums that begin at what another output leaves.
    let mut other = case.clone();
    other.what.start = Some(Place { offset: 4, ..output(&case) });
    assert!(plan(&other).is_none());
}
