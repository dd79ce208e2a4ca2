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
