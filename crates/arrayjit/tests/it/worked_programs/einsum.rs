//! Sums and maxima over index expressions: index maps that are surjective but not injective, and the reverse,
//! and other semirings.

use arrayjit::DType::{F32, I32};

use crate::worked_programs::program::{WorkedProgram, expect, numbers};

const INF: f64 = f64::INFINITY;

/// The coefficients of a product of polynomials: most sums of positions are reached several times.
#[test]
fn polynomials_multiply() {
    // (1 + 2x + 3x²)(4 + 5x + 6x² + 7x³)
    let program = WorkedProgram::new("y[i + j] :+= a[i] * b[j]")
        .given("a", F32, &[3], &[1.0, 2.0, 3.0])
        .given("b", F32, &[4], &[4.0, 5.0, 6.0, 7.0])
        .given("y", F32, &[6], &[9.0; 6]);
    expect(&program, "y", &[4.0, 13.0, 28.0, 34.0, 32.0, 21.0], 0.0);
}

/// Without a neutral start, sums are added to the previous values.
#[test]
fn sums_go_on_top_of_what_is_there() {
    let program = WorkedProgram::new("y[i + j] += a[i] * b[j]")
        .given("a", I32, &[2], &[1.0, 2.0])
        .given("b", I32, &[2], &[3.0, 4.0])
        .given("y", I32, &[3], &[100.0, 200.0, 300.0]);
    expect(&program, "y", &[103.0, 210.0, 308.0], 0.0);
}

/// Overlapping windows are written back: one or two windows reach the position 2i + k.
#[test]
fn overlapping_windows_add_up() {
    let program = WorkedProgram::new("y[2*i + k] :+= x[i] * w[k]")
        .given("x", F32, &[3], &[1.0, 10.0, 100.0])
        .given("w", F32, &[3], &[1.0, 2.0, 3.0])
        .kept("y", F32, &[7]);
    expect(&program, "y", &[1.0, 2.0, 13.0, 20.0, 130.0, 200.0, 300.0], 0.0);
}

#[test]
fn rows_columns_and_the_whole_reduce() {
    let x = numbers(1, 5 * 7);
    let program = WorkedProgram::new(
        "rows[i] :+= x[i,j]\n columns[j] :max= x[i,j]\n all :+= x[i,j]\n least :min= x[i,j]\n product :*= d[k]",
    )
    .given("x", F32, &[5, 7], &x)
    .given("d", F32, &[4], &[2.0, -0.5, 8.0, 3.0])
    .kept("rows", F32, &[5])
    .kept("columns", F32, &[7])
    .kept("all", F32, &[])
    .kept("least", F32, &[])
    .kept("product", F32, &[]);
    let rows: Vec<f64> = x.chunks(7).map(|row| row.iter().sum()).collect();
    let columns: Vec<f64> = (0..7).map(|j| (0..5).map(|i| x[i * 7 + j]).fold(-INF, f64::max)).collect();
    for outcome in program.run() {
        outcome.expect("rows", &rows, 0.0);
        outcome.expect("columns", &columns, 0.0);
        outcome.expect("all", &[x.iter().sum()], 0.0);
        outcome.expect("least", &[x.iter().copied().fold(INF, f64::min)], 0.0);
        outcome.expect("product", &[-24.0], 0.0);
    }
}

/// A trace reads only the diagonal.
#[test]
fn traces() {
    let program = WorkedProgram::new("t :+= m[i,i]\n s :+= m[i, 2 - i]")
        .given("m", F32, &[3, 3], &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0])
        .kept("t", F32, &[])
        .kept("s", F32, &[]);
    for outcome in program.run() {
        outcome.expect("t", &[273.0], 0.0);
        outcome.expect("s", &[84.0], 0.0);
    }
}

/// Writes values to a diagonal; the other elements become the neutral element, whatever their previous
/// values.
#[test]
fn diagonals_scatter_among_neutral_elements() {
    let text = "y[i,i] :+= x[i]\n top[i, 2*i + 1] :max= x[i]\n anti[i, 2 - i] :*= x[i]";
    let program = WorkedProgram::new(text)
        .given("x", F32, &[3], &[5.0, -6.0, 7.0])
        .given("y", F32, &[3, 3], &[9.0; 9])
        .given("top", F32, &[3, 6], &[9.0; 18])
        .given("anti", F32, &[3, 3], &[9.0; 9]);
    let on = |rows: usize, columns: usize, elsewhere: f64, at: fn(usize) -> usize| {
        let mut values = vec![elsewhere; rows * columns];
        for (i, x) in [5.0, -6.0, 7.0].into_iter().enumerate() {
            values[i * columns + at(i)] = x;
        }
        values
    };
    for outcome in program.run() {
        outcome.expect("y", &on(3, 3, 0.0, |i| i), 0.0);
        outcome.expect("top", &on(3, 6, -INF, |i| 2 * i + 1), 0.0);
        outcome.expect("anti", &on(3, 3, 1.0, |i| 2 - i), 0.0);
    }
}

/// A matrix product over (max, +) gives the heaviest walk of two steps; −∞ stands for a missing edge.
#[test]
fn tropical_products() {
    let (n, none) = (6, f64::NEG_INFINITY);
    let mut weights = numbers(2, n * n);
    weights.iter_mut().step_by(5).for_each(|w| *w = none);
    let heaviest = |i: usize, j: usize| {
        (0..n)
            .map(|k| weights[i * n + k] + weights[k * n + j])
            .fold(none, |best, w| if w > best { w } else { best })
    };
    let expected: Vec<f64> = (0..n * n).map(|at| heaviest(at / n, at % n)).collect();
    let program = WorkedProgram::new("c[i,j] :max= a[i,k] + a[k,j]").given("a", F32, &[n, n], &weights).kept(
        "c",
        F32,
        &[n, n],
    );
    expect(&program, "c", &expected, 0.0);
}

/// Shortest paths over (min, +), by hand: 0 →3→ 1 →1→ 2, and 0 →7→ 2 directly; no edge leads back.
#[test]
fn shortest_paths() {
    let edges = [0.0, 3.0, 7.0, INF, 0.0, 1.0, INF, INF, 0.0];
    let program = WorkedProgram::new("d[i,j] :min= w[i,k] + w[k,j]").given("w", F32, &[3, 3], &edges).kept(
        "d",
        F32,
        &[3, 3],
    );
    expect(&program, "d", &[0.0, 3.0, 4.0, INF, 0.0, 1.0, INF, INF, 0.0], 0.0);
}
