//! Softmax and layer normalization, including inputs for which a naive formula overflows or cancels.

use arrayjit::DType::F32;

use crate::worked_programs::program::{WorkedProgram, numbers};

const INF: f64 = f64::INFINITY;

fn softmax(rows: usize, columns: usize, x: &[f64]) -> WorkedProgram {
    let text = "
        top[b] :max= x[b,k]
        e[b,k] := exp(x[b,k] - top[b])
        z[b] :+= e[b,k]
        p[b,k] := e[b,k] / z[b]
        loss[b] := log(z[b]) + top[b] - x[b,0]
    ";
    WorkedProgram::new(text)
        .given("x", F32, &[rows, columns], x)
        .inner("top", F32, &[rows])
        .inner("e", F32, &[rows, columns])
        .inner("z", F32, &[rows])
        .kept("p", F32, &[rows, columns])
        .kept("loss", F32, &[rows])
}

/// Inputs around 10⁴, whose exponentials overflow every float type, computed by hand; −∞ masks an element.
#[test]
fn softmax_of_large_inputs() {
    let x = [
        [1e4, 1e4, 1e4, 1e4],
        [1e4, -1e4, 0.0, -1e4],
        [-1e4, -1e4, -1e4, -1e4],
        [0.0, -INF, 0.0, -INF],
        [1e4, 1e4 - 1.0, -INF, -INF],
    ];
    let e = (-1f64).exp();
    let expected = [
        [0.25; 4],
        [1.0, 0.0, 0.0, 0.0],
        [0.25; 4],
        [0.5, 0.0, 0.5, 0.0],
        [1.0 / (1.0 + e), e / (1.0 + e), 0.0, 0.0],
    ];
    let losses = [4f64.ln(), 0.0, 4f64.ln(), 2f64.ln(), (1.0 + e).ln()];
    for outcome in softmax(5, 4, x.as_flattened()).run() {
        outcome.expect("p", expected.as_flattened(), 1e-6);
        // The unit in the last place of 10⁴ is about 10⁻³.
        outcome.expect("loss", &losses, 1e-3);
    }
}

#[test]
fn softmax_of_ordinary_inputs() {
    let (rows, columns) = (7, 37);
    let x = numbers(6, rows * columns);
    let mut expected = Vec::new();
    for row in x.chunks(columns) {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        expected.extend(row.iter().map(|x| x.exp() / sum));
    }
    for outcome in softmax(rows, columns, &x).run() {
        outcome.expect("p", &expected, 1e-6);
        for row in outcome.values("p").chunks(columns) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5);
        }
    }
}

/// The mean is subtracted before numbers are squared, so the variance of numbers around 10⁴ is accurate.
#[test]
fn layer_normalization() {
    let (rows, columns) = (3, 16);
    let noise = numbers(7, rows * columns);
    let x: Vec<f64> = noise.iter().enumerate().map(|(at, n)| n + 1e4 * (at / columns) as f64).collect();
    let (gain, bias) = (numbers(8, columns), numbers(9, columns));
    let mut expected = Vec::new();
    for row in noise.chunks(columns) {
        let mean = row.iter().sum::<f64>() / columns as f64;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / columns as f64;
        let scaled = row.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt());
        expected.extend(scaled.zip(gain.iter().zip(&bias)).map(|(x, (g, b))| x * g + b));
    }
    let text = "
        mean[b] :+= x[b,i] / 16
        centered[b,i] := x[b,i] - mean[b]
        variance[b] :+= centered[b,i] * centered[b,i] / 16
        y[b,i] := centered[b,i] * recip_sqrt(variance[b] + 0.00001) * gain[i] + bias[i]
    ";
    let program = WorkedProgram::new(text)
        .given("x", F32, &[rows, columns], &x)
        .given("gain", F32, &[columns], &gain)
        .given("bias", F32, &[columns], &bias)
        .inner("mean", F32, &[rows])
        .inner("centered", F32, &[rows, columns])
        .inner("variance", F32, &[rows])
        .kept("y", F32, &[rows, columns]);
    for outcome in program.run() {
        // The mean of the last row is rounded at 2·10⁴, with a relative error of 2⁻²⁴.
        outcome.expect("y", &expected, 2e-2);
        outcome.expect_row("y", 0, &expected[..columns], 1e-5);
    }
}

/// A row of equal values has no variance, so only the bias remains.
#[test]
fn a_constant_row_is_normalized_to_the_bias() {
    let text = "
        mean[] :+= x[i] / 4
        variance[] :+= (x[i] - mean) * (x[i] - mean) / 4
        y[i] := (x[i] - mean) * recip_sqrt(variance + 0.00001) + bias[i]
    ";
    let program = WorkedProgram::new(text)
        .given("x", F32, &[4], &[3.0; 4])
        .given("bias", F32, &[4], &[1.0, 2.0, 3.0, 4.0])
        .inner("mean", F32, &[])
        .inner("variance", F32, &[])
        .kept("y", F32, &[4]);
    for outcome in program.run() {
        outcome.expect("y", &[1.0, 2.0, 3.0, 4.0], 0.0);
    }
}
