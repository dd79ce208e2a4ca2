//! Rotary embeddings: pairs of coordinates rotated by an angle that grows with the position.

use arrayjit::DType::F32;

use crate::worked_programs::program::{WorkedProgram, numbers};

const POSITIONS: usize = 5;
const HALF: usize = 4;

/// The angle per position of each pair, 10000^(−i/4).
fn frequencies() -> Vec<f64> {
    (0..HALF).map(|i| 10_000f64.powf(-(i as f64) / HALF as f64)).collect()
}

/// Coordinates `i` and `i + 4` are a pair. `@first` is the position of the first row.
const ROTATE: &str = "
    y[t, i^j] := x[t, i] * cos((t + @first) * w[i]) - x[t, i + 4] * sin((t + @first) * w[i]),
                 x[t, j + 4] * cos((t + @first) * w[j]) + x[t, j] * sin((t + @first) * w[j])
                 where i < 4, j < 4, @first < 4096
";

fn rotation(x: &[f64], first: i64) -> WorkedProgram {
    WorkedProgram::new(ROTATE)
        .given("x", F32, &[POSITIONS, 2 * HALF], x)
        .given("w", F32, &[HALF], &frequencies())
        .kept("y", F32, &[POSITIONS, 2 * HALF])
        .bindings(&[first])
}

/// Computes the rotation with complex numbers: (a + bi)·e^(iφ).
fn rotated(x: &[f64], first: usize) -> Vec<f64> {
    let mut y = x.to_vec();
    for (t, (x, y)) in x.chunks(2 * HALF).zip(y.chunks_mut(2 * HALF)).enumerate() {
        for (i, w) in frequencies().into_iter().enumerate() {
            let (sin, cos) = ((t + first) as f64 * w).sin_cos();
            (y[i], y[i + HALF]) = (x[i] * cos - x[i + HALF] * sin, x[i] * sin + x[i + HALF] * cos);
        }
    }
    y
}

#[test]
fn pairs_turn_by_their_position() {
    let x = numbers(10, POSITIONS * 2 * HALF);
    for (first, tolerance) in [(0, 1e-6), (7, 1e-5), (4095, 1e-3)] {
        for outcome in rotation(&x, first as i64).run() {
            outcome.expect("y", &rotated(&x, first), tolerance);
        }
    }
    for outcome in rotation(&x, 0).run() {
        outcome.expect_row("y", 0, &x[..2 * HALF], 0.0);
    }
}

/// Rotated vectors keep their length, and the product of two depends on their distance, not on their
/// positions.
#[test]
fn products_depend_on_the_distance_alone() {
    let row = numbers(11, 2 * HALF);
    let x = row.repeat(POSITIONS);
    let product = |y: &[f64], a: usize, b: usize| -> f64 {
        (0..2 * HALF).map(|i| y[a * 2 * HALF + i] * y[b * 2 * HALF + i]).sum()
    };
    for outcome in rotation(&x, 3).run() {
        let y = outcome.values("y");
        let length: f64 = row.iter().map(|x| x * x).sum();
        for t in 0..POSITIONS {
            assert!((product(y, t, t) - length).abs() < 1e-4 * length);
        }
        for t in 0..POSITIONS - 2 {
            assert!((product(y, t, t + 2) - product(y, 0, 2)).abs() < 1e-4 * length);
        }
    }
}

/// Neighboring coordinates are a pair: each of two statements writes half of the elements.
#[test]
fn neighboring_pairs() {
    let x = numbers(12, POSITIONS * 2 * HALF);
    let text = "
        y[t, 2*i] :+= x[t, 2*i] * cos(t * w[i]) - x[t, 2*i + 1] * sin(t * w[i])
        y[t, 2*i + 1] += x[t, 2*i + 1] * cos(t * w[i]) + x[t, 2*i] * sin(t * w[i])
    ";
    let program = WorkedProgram::new(text)
        .given("x", F32, &[POSITIONS, 2 * HALF], &x)
        .given("w", F32, &[HALF], &frequencies())
        .kept("y", F32, &[POSITIONS, 2 * HALF]);
    let apart = |x: &[f64]| -> Vec<f64> {
        let halves = |row: &[f64]| {
            let (even, odd) = (row.iter().step_by(2), row.iter().skip(1).step_by(2));
            even.chain(odd).copied().collect::<Vec<f64>>()
        };
        x.chunks(2 * HALF).flat_map(halves).collect()
    };
    for outcome in program.run() {
        let found = apart(outcome.values("y"));
        for (found, expected) in found.iter().zip(rotated(&apart(&x), 0)) {
            assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
        }
    }
}
