//! Typical generated programs, compared with the evaluator.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common;

use common::{check, machine};
use vector_asm::{
    Binary, CounterSum, Index, LaneType, LoopRange, StoredType, VectorAddress, VectorBuilder, VectorType,
};
use vector_evaluator::EvaluationState;

const F32: LaneType = LaneType::F32;

#[test]
fn an_elementwise_loop() {
    let mut b = VectorBuilder::new();
    let (scale, shift, zero) = (b.f32(1.5), b.f32(0.5), b.f32(0.0));
    b.repeat(LoopRange::Constant(7), |b, i| {
        let x = b.load(VectorAddress::at(0, F32).by(i, 128), VectorType::new(F32, 32));
        let y = b.fma(x, scale, shift);
        let y = b.max(y, zero);
        b.store(VectorAddress::at(1, F32).by(i, 128), y);
    });
    check(&b.finish(), machine(&[7 * 128, 7 * 128], &[], 0), 0..1);
}

#[test]
fn a_sum_with_partials_and_a_tree() {
    let mut b = VectorBuilder::new();
    let sum = b.variable(VectorType::new(F32, 32));
    b.repeat(LoopRange::Constant(9), |b, i| {
        let x = b.load(VectorAddress::at(0, F32).by(i, 128), VectorType::new(F32, 32));
        let s = b.get(sum);
        let s = b.add(s, x);
        b.set(sum, s);
    });
    let mut lanes = 32;
    while lanes > 1 {
        lanes /= 2;
        let (low, high) = (b.extract_lanes(sum, 0, lanes), b.extract_lanes(sum, lanes, lanes));
        let s = b.binary(Binary::Add, low, high);
        b.set(sum, s);
    }
    let total = b.extract_lanes(sum, 0, 1);
    b.store(VectorAddress::at(1, F32), total);
    check(&b.finish(), machine(&[9 * 128, 4], &[], 0), 0..1);
}

#[test]
fn a_tile_of_a_product() {
    let mut b = VectorBuilder::new();
    let (rows, columns, depth) = (6, 16, 19);
    let sums: Vec<_> = (0..rows).map(|_| b.variable(VectorType::new(F32, columns))).collect();
    b.repeat(LoopRange::Constant(depth), |b, k| {
        let right =
            b.load(VectorAddress::at(1, F32).by(k, 4 * i64::from(columns)), VectorType::new(F32, columns));
        for (row, &sum) in sums.iter().enumerate() {
            let left = b.load(
                VectorAddress::at(0, F32).plus(4 * row as i64).by(k, 4 * rows as i64),
                VectorType::new(F32, 1),
            );
            let s = b.get(sum);
            let s = b.fma(left, right, s);
            b.set(sum, s);
        }
    });
    for (row, &sum) in sums.iter().enumerate() {
        let s = b.get(sum);
        b.store(VectorAddress::at(2, F32).plus(4 * row as i64 * i64::from(columns)), s);
    }
    let bytes = |n: u64| n as usize * 4;
    check(&b.finish(), machine(&[bytes(depth * 6), bytes(depth * 16), bytes(96)], &[], 0), 0..1);
}

#[test]
fn the_part_of_a_call() {
    let mut b = VectorBuilder::new();
    b.repeat(LoopRange::Call, |b, i| {
        let x = b.load(VectorAddress::at(0, F32).by(i, 20), VectorType::new(F32, 5));
        let y = b.mul(x, x);
        b.store(VectorAddress::at(1, F32).by(i, 20), y);
    });
    let program = b.finish();
    for part in [0..10, 3..3, 4..9, 0..1, 1..3] {
        check(&program, machine(&[200, 200], &[], 0), part);
    }
}

/// Transposes blocks by strided loads, or by strided stores.
fn transposition(rows: u32, columns: i64, element: LaneType, by_store: bool) -> vector_asm::VectorProgram {
    let (size, mut b) = (i64::from(element.bytes()), VectorBuilder::new());
    let (long, short) = (size * columns, size * i64::from(rows));
    b.repeat(LoopRange::Constant(3), |b, block| {
        for i in 0..columns {
            let apart =
                VectorAddress::at(u32::from(by_store), element).plus(size * i).by(block, 3840).step(long);
            let beside = VectorAddress::at(u32::from(!by_store), element).plus(short * i).by(block, 3840);
            let (from, to) = if by_store { (beside, apart) } else { (apart, beside) };
            let x = b.load(from, VectorType::new(element, rows));
            b.store(to, x);
        }
    });
    b.finish()
}

#[test]
fn transpositions() {
    for (rows, columns) in [(8, 8), (4, 4), (16, 5), (3, 8), (13, 6), (2, 2), (9, 12)] {
        for element in [F32, LaneType::F64] {
            for by_store in [false, true] {
                let program = transposition(rows, columns, element, by_store);
                check(&program, machine(&[11520, 11520], &[], 0), 0..1);
            }
        }
    }
}

#[test]
fn variables_that_are_exchanged() {
    let mut b = VectorBuilder::new();
    let ty = VectorType::new(F32, 8);
    let pair = [b.variable(ty), b.variable(ty)];
    for (i, variable) in pair.into_iter().enumerate() {
        let x = b.load(VectorAddress::at(0, F32).plus(32 * i as i64), ty);
        b.set(variable, x);
    }
    b.repeat(LoopRange::Constant(3), |b, _| {
        let (first, second) = (b.get(pair[0]), b.get(pair[1]));
        b.set(pair[0], second);
        b.set(pair[1], first);
    });
    b.repeat(LoopRange::Constant(100), |b, _| {
        let (first, second) = (b.get(pair[0]), b.get(pair[1]));
        let sum = b.add(first, second);
        b.set(pair[0], second);
        b.set(pair[1], sum);
    });
    for (i, variable) in pair.into_iter().enumerate() {
        let x = b.get(variable);
        b.store(VectorAddress::at(1, F32).plus(32 * i as i64), x);
    }
    check(&b.finish(), machine(&[64, 64], &[], 0), 0..1);
}

/// Sums below a diagonal: the inner loop ends at the outer counter, a binding or a constant, and may have no
/// iteration.
#[test]
fn loops_end_at_outer_counters_and_bindings() {
    let mut b = VectorBuilder::new();
    let ty = VectorType::new(F32, 8);
    b.repeat(LoopRange::Call, |b, row| {
        let sum = b.variable(ty);
        let zero = b.constant(ty, 0);
        b.set(sum, zero);
        let diagonal = CounterSum { offset: -1, terms: vec![(row.into(), 2)] };
        let bound = CounterSum { offset: 0, terms: vec![(Index::Binding(0), 1), (row.into(), -1)] };
        b.repeat(LoopRange::Clipped { limit: 7, clips: vec![diagonal, bound] }, |b, k| {
            let (x, old) = (b.load(VectorAddress::at(0, F32).by(k, 32), ty), b.get(sum));
            let new = b.add(old, x);
            b.set(sum, new);
        });
        let total = b.get(sum);
        b.store(VectorAddress::at(1, F32).by(row, 32), total);
    });
    let program = b.finish();
    for binding in [-5, 0, 3, 9, 100] {
        for part in [0..8, 2..3, 5..5] {
            check(&program, machine(&[7 * 32, 8 * 32], &[binding], 0), part);
        }
    }
}

#[test]
fn more_pointers_than_registers_and_large_coefficients() {
    let mut b = VectorBuilder::new();
    let ty = VectorType::new(LaneType::I64, 4);
    b.repeat(LoopRange::Call, |b, i| {
        b.repeat(LoopRange::Constant(5), |b, j| {
            for k in 0..20 {
                let large = (k + 1) << 33;
                let terms = vec![(i.into(), large), (j.into(), -large - k), (Index::Binding(0), large + 1)];
                let x = b.index(ty, k, terms, 3);
                let place = VectorAddress::at(0, LaneType::I64).plus(32 * k).by(i, 5 * 640).by(j, 640);
                b.store(place, x);
            }
        });
        let x = b.index(ty, 1 << 40, vec![(i.into(), 1 << 35), (Index::Binding(1), -7)], 1 << 33);
        b.store(VectorAddress::at(1, LaneType::I64).by(i, 32), x);
    });
    let program = b.finish();
    for part in [0..4, 1..3, 2..2] {
        check(&program, machine(&[4 * 5 * 640, 128], &[1 << 20, -3], 0), part);
    }
}

/// Lanes of a register and of an operand in memory, whose address is a word of the stack frame.
#[test]
fn lanes_of_memory_behind_a_pointer_in_the_frame() {
    let (arrays, mut b) = (20, VectorBuilder::new());
    b.repeat(LoopRange::Constant(3), |b, i| {
        for array in 0..arrays {
            let place = VectorAddress::at(array, F32).by(i, 64);
            let lanes = b.variable(VectorType::new(F32, 16));
            let x = b.load(place.clone(), VectorType::new(F32, 16));
            b.set(lanes, x);
            let low = b.load(VectorAddress::at(arrays, F32), VectorType::new(F32, 8));
            let low = b.mul(low, low);
            b.insert_lanes(lanes, 0, low);
            let y = b.get(lanes);
            b.store(place, y);
        }
    });
    let mut bytes = vec![3 * 64; arrays as usize];
    bytes.push(32);
    check(&b.finish(), machine(&bytes, &[], 0), 0..1);
}

#[test]
fn a_tile_that_does_not_fit_the_registers() {
    let mut b = VectorBuilder::new();
    let ty = VectorType::new(LaneType::F64, 12);
    let sums: Vec<_> = (0..7).map(|_| b.variable(ty)).collect();
    b.repeat(LoopRange::Constant(11), |b, k| {
        let right = b.load(VectorAddress::at(1, LaneType::F64).by(k, 96), ty);
        for (row, &sum) in sums.iter().enumerate() {
            let left = b.load(
                VectorAddress::at(0, LaneType::F64).plus(8 * row as i64).by(k, 56),
                VectorType::new(LaneType::F64, 1),
            );
            let s = b.get(sum);
            let s = b.fma(left, right, s);
            b.set(sum, s);
        }
    });
    for (row, &sum) in sums.iter().enumerate() {
        let s = b.get(sum);
        b.store_streaming(VectorAddress::at(2, LaneType::F64).plus(96 * row as i64), s);
    }
    check(&b.finish(), machine(&[11 * 56, 11 * 96, 7 * 96], &[], 0), 0..1);
}

#[test]
fn stores_past_the_caches_are_fenced() {
    let program = |offset: i64| {
        let mut b = VectorBuilder::new();
        b.repeat(LoopRange::Constant(40), |b, i| {
            let x = b.load(VectorAddress::at(0, F32).by(i, 64), VectorType::new(F32, 16));
            b.store_streaming(VectorAddress::at(1, F32).plus(offset).by(i, 64), x);
        });
        b.finish()
    };
    let text =
        |offset: i64| common::listing(&vector_asm::compile(&program(offset), vector_asm::Isa::Avx2).unwrap());
    assert!(text(32).contains("vmovntps") && text(32).contains("sfence"), "aligned: {}", text(32));
    assert!(!text(4).contains("vmovntps") && !text(4).contains("sfence"), "not aligned: {}", text(4));
    check(&program(32), machine(&[2560, 2592], &[], 0), 0..1);
    check(&program(4), machine(&[2560, 2564], &[], 0), 0..1);
}

#[test]
fn conversions_at_the_ends_of_ranges() {
    let interesting = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.999_999,
        1.5,
        2_147_483_520.0,
        2_147_483_647.0,
        2_147_483_648.0,
        -2_147_483_648.0,
        -2_147_483_904.0,
        4_294_967_040.0,
        4_294_967_295.0,
        4_294_967_296.0,
        9_223_372_036_854_774_784.0,
        9_223_372_036_854_775_808.0,
        -9_223_372_036_854_775_808.0,
        -9_223_372_036_854_777_856.0,
        4_503_599_627_370_495.5,
        -4_503_599_627_370_497.0,
        1e300,
        -1e300,
        1e-310,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let n = interesting.len() as u32;
    let doubles: Vec<u8> = interesting.iter().flat_map(|x| x.to_le_bytes()).collect();
    let singles: Vec<u8> = interesting.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    for (from, bytes) in [(LaneType::F64, doubles), (F32, singles)] {
        for to in [F32, LaneType::F64, LaneType::I32, LaneType::U32, LaneType::I64] {
            let mut b = VectorBuilder::new();
            let x = b.load(VectorAddress::at(0, from), VectorType::new(from, n));
            let y = b.convert(x, to);
            b.store(VectorAddress::at(1, to), y);
            let args = vec![bytes.clone(), vec![0; (n * to.bytes()) as usize]];
            check(&b.finish(), EvaluationState { args, ..Default::default() }, 0..1);
        }
    }
}

#[test]
fn integers_to_floats_round_once() {
    let words = [0, 1, 0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x0100_0001, 0xff00_0003, 0x0200_0003_u32];
    let mut longs: Vec<u64> = words.iter().map(|w| u64::from(*w)).collect();
    longs.extend([
        u64::MAX,
        1 << 63,
        (1 << 63) - 1,
        (1 << 53) + 1,
        (1 << 54) + 3,
        0x7fff_ffff_ffff_fc01,
        0xdead_beef_1234_5678,
    ]);
    let short: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let long: Vec<u8> = longs.iter().flat_map(|w| w.to_le_bytes()).collect();
    let cases = [
        (LaneType::I32, F32),
        (LaneType::U32, F32),
        (LaneType::I32, LaneType::F64),
        (LaneType::U32, LaneType::F64),
        (LaneType::I64, LaneType::F64),
        (LaneType::U64, LaneType::F64),
    ];
    for (from, to) in cases {
        let bytes = if from.bits() == 32 { &short } else { &long };
        let n = bytes.len() as u32 / from.bytes();
        let mut b = VectorBuilder::new();
        let x = b.load(VectorAddress::at(0, from), VectorType::new(from, n));
        let y = b.convert(x, to);
        b.store(VectorAddress::at(1, to), y);
        let args = vec![bytes.clone(), vec![0; (n * to.bytes()) as usize]];
        check(&b.finish(), EvaluationState { args, ..Default::default() }, 0..1);
    }
}

/// Every pair of special values, as two arrays and with a constant on the right.
#[test]
fn extremes_of_special_values() {
    let special = [0.0, -0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-310];
    let left: Vec<f64> = special.iter().flat_map(|x| [*x; 8]).collect();
    let right = special.repeat(8);
    for element in [F32, LaneType::F64] {
        let bytes = |values: &[f64]| -> Vec<u8> {
            let one = |x: &f64| match element {
                F32 => (*x as f32).to_le_bytes().to_vec(),
                _ => x.to_le_bytes().to_vec(),
            };
            values.iter().flat_map(one).collect()
        };
        let ty = VectorType::new(element, 64);
        for op in [Binary::Maximum, Binary::Minimum] {
            let mut b = VectorBuilder::new();
            let [x, y] = [0, 1].map(|argument| b.load(VectorAddress::at(argument, element), ty));
            let result = b.binary(op, x, y);
            b.store(VectorAddress::at(2, element), result);
            let args = vec![bytes(&left), bytes(&right), vec![0; 64 * element.bytes() as usize]];
            let state = EvaluationState { args, ..Default::default() };
            check(&b.finish(), state, 0..1);
            for constant in special {
                let mut b = VectorBuilder::new();
                let x = b.load(VectorAddress::at(0, element), ty);
                let c = if element == F32 { b.f32(constant as f32) } else { b.f64(constant) };
                let result = b.binary(op, x, c);
                b.store(VectorAddress::at(1, element), result);
                let args = vec![bytes(&special.repeat(8)), vec![0; 64 * element.bytes() as usize]];
                check(&b.finish(), EvaluationState { args, ..Default::default() }, 0..1);
            }
        }
    }
}

/// Both halves of every byte as numbers, with and without an offset, and with a second use of the bits.
#[test]
fn numbers_of_four_bits() {
    let mut b = VectorBuilder::new();
    let (mask, four) = (b.i32(15), b.i32(4));
    for (at, (offset, is_high, is_shared)) in
        [(0, false, false), (-8, false, false), (-8, true, false), (1 << 30, true, false), (-8, false, true)]
            .into_iter()
            .enumerate()
    {
        let offset = b.i32(offset);
        b.repeat(LoopRange::Constant(6), |b, i| {
            let bytes = VectorAddress::at(0, LaneType::I32).holding(StoredType::U8).step(1).by(i, 41);
            let bytes = b.load(bytes, VectorType::new(LaneType::I32, 41));
            let bytes = if is_high { b.binary(Binary::ShiftRight, bytes, four) } else { bytes };
            let nibble = b.binary(Binary::And, bytes, mask);
            let number = b.add(nibble, offset);
            let mut float = b.convert(number, F32);
            if is_shared {
                let bits = b.convert(nibble, F32);
                float = b.add(float, bits);
            }
            b.store(VectorAddress::at(1, F32).plus(at as i64 * 6 * 164).by(i, 164), float);
        });
    }
    let mut machine = machine(&[256, 5 * 6 * 164], &[], 0);
    machine.args[0] = (0..=255).collect();
    check(&b.finish(), machine, 0..1);
}
