//! Programs as they are generated: code computes what the evaluator does.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{check, machine};
use vector_asm::{Binary, Builder, Element, Place, Range, Type};

const F32: Element = Element::F32;

#[test]
fn an_elementwise_loop() {
    let mut b = Builder::new();
    let (scale, shift, zero) = (b.f32(1.5), b.f32(0.5), b.f32(0.0));
    b.repeat(Range::To(7), |b, i| {
        let x = b.load(Place::at(0, F32).by(i, 128), Type::new(F32, 32));
        let y = b.fma(x, scale, shift);
        let y = b.max(y, zero);
        b.store(Place::at(1, F32).by(i, 128), y);
    });
    check(&b.finish(), machine(&[7 * 128, 7 * 128], &[], 0), 0..1);
}

#[test]
fn a_sum_with_partials_and_a_tree() {
    let mut b = Builder::new();
    let sum = b.variable(Type::new(F32, 32));
    b.repeat(Range::To(9), |b, i| {
        let x = b.load(Place::at(0, F32).by(i, 128), Type::new(F32, 32));
        let s = b.get(sum);
        let s = b.add(s, x);
        b.set(sum, s);
    });
    let mut lanes = 32;
    while lanes > 1 {
        lanes /= 2;
        let (low, high) = (b.get_lanes(sum, 0, lanes), b.get_lanes(sum, lanes, lanes));
        let s = b.binary(Binary::Add, low, high);
        b.set(sum, s);
    }
    let total = b.get_lanes(sum, 0, 1);
    b.store(Place::at(1, F32), total);
    check(&b.finish(), machine(&[9 * 128, 4], &[], 0), 0..1);
}

#[test]
fn a_tile_of_a_product() {
    let mut b = Builder::new();
    let (rows, columns, depth) = (6, 16, 19);
    let sums: Vec<_> = (0..rows).map(|_| b.variable(Type::new(F32, columns))).collect();
    b.repeat(Range::To(depth), |b, k| {
        let right = b.load(Place::at(1, F32).by(k, 4 * i64::from(columns)), Type::new(F32, columns));
        for (row, &sum) in sums.iter().enumerate() {
            let left =
                b.load(Place::at(0, F32).plus(4 * row as i64).by(k, 4 * rows as i64), Type::new(F32, 1));
            let s = b.get(sum);
            let s = b.fma(left, right, s);
            b.set(sum, s);
        }
    });
    for (row, &sum) in sums.iter().enumerate() {
        let s = b.get(sum);
        b.store(Place::at(2, F32).plus(4 * row as i64 * i64::from(columns)), s);
    }
    let bytes = |n: u64| n as usize * 4;
    check(&b.finish(), machine(&[bytes(depth * 6), bytes(depth * 16), bytes(96)], &[], 0), 0..1);
}

#[test]
fn the_part_of_a_call() {
    let mut b = Builder::new();
    b.repeat(Range::Part, |b, i| {
        let x = b.load(Place::at(0, F32).by(i, 20), Type::new(F32, 5));
        let y = b.mul(x, x);
        b.store(Place::at(1, F32).by(i, 20), y);
    });
    let program = b.finish();
    for part in [0..10, 3..3, 4..9, 0..1, 1..3] {
        check(&program, machine(&[200, 200], &[], 0), part);
    }
}

/// Blocks that are transposed by loads that are apart, or by stores.
fn transposition(rows: u32, columns: i64, element: Element, by_store: bool) -> vector_asm::Program {
    let (size, mut b) = (i64::from(element.bytes()), Builder::new());
    let (long, short) = (size * columns, size * i64::from(rows));
    b.repeat(Range::To(3), |b, block| {
        for i in 0..columns {
            let apart = Place::at(u32::from(by_store), element).plus(size * i).by(block, 3840).step(long);
            let beside = Place::at(u32::from(!by_store), element).plus(short * i).by(block, 3840);
            let (from, to) = if by_store { (beside, apart) } else { (apart, beside) };
            let x = b.load(from, Type::new(element, rows));
            b.store(to, x);
        }
    });
    b.finish()
}

#[test]
fn transpositions() {
    for (rows, columns) in [(8, 8), (4, 4), (16, 5), (3, 8), (13, 6), (2, 2), (9, 12)] {
        for element in [F32, Element::F64] {
            for by_store in [false, true] {
                let program = transposition(rows, columns, element, by_store);
                check(&program, machine(&[11520, 11520], &[], 0), 0..1);
            }
        }
    }
}

#[test]
fn variables_that_are_exchanged() {
    let mut b = Builder::new();
    let ty = Type::new(F32, 8);
    let pair = [b.variable(ty), b.variable(ty)];
    for (i, variable) in pair.into_iter().enumerate() {
        let x = b.load(Place::at(0, F32).plus(32 * i as i64), ty);
        b.set(variable, x);
    }
    b.repeat(Range::To(3), |b, _| {
        let (first, second) = (b.get(pair[0]), b.get(pair[1]));
        b.set(pair[0], second);
        b.set(pair[1], first);
    });
    b.repeat(Range::To(100), |b, _| {
        let (first, second) = (b.get(pair[0]), b.get(pair[1]));
        let sum = b.add(first, second);
        b.set(pair[0], second);
        b.set(pair[1], sum);
    });
    for (i, variable) in pair.into_iter().enumerate() {
        let x = b.get(variable);
        b.store(Place::at(1, F32).plus(32 * i as i64), x);
    }
    check(&b.finish(), machine(&[64, 64], &[], 0), 0..1);
}
