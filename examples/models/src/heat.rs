//! The heat equation on a square plate whose edges are kept at temperature 0.
//!
//! One run is one explicit step, u ← u + r·Δu, where Δ is the Laplacian of the prelude. The temperatures are
//! a buffer, so they stay on the device between the steps.
//!
//! The steps are linear, and the discrete Laplacian has known eigenvectors: products of sines. A step
//! multiplies each of them by 1 - 4r·(sin²(aπ/2(n+1)) + sin²(bπ/2(n+1))). [`exact`] computes the state after
//! any number of steps from them.

use std::f64::consts::PI;

use anyhow::Result;
use arrayjit_tensor::{Backend, Graph, HostArray, Init, ModelState, Params};

/// The rate r of a step; steps are stable up to 1/4.
pub const RATE: f64 = 0.2;

/// The temperatures of a plate of n × n points after a number of steps, row by row.
///
/// # Errors
///
/// An error of the backend.
pub fn simulate(backend: &Backend, n: usize, steps: usize) -> Result<Vec<f64>> {
    let params = Params::new(0);
    let plate = params.buffer("plate", [n, n], Init::ZEROS)?;
    let graph = Graph::new();
    graph.apply(
        "change[i,j] := laplace(u[i,j])
         u[i,j] += rate * change[i,j]",
        &[("u", &plate), ("rate", &RATE)],
    )?;
    let weights = ModelState::new(backend, &params)?;
    let start: Vec<f32> = start(n).iter().map(|&value| value as f32).collect();
    weights.set(&plate, HostArray::from_slice(&start, [n, n])?)?;
    let step = graph.compile_named("heat_step", &weights, &[])?;
    for _ in 0..steps {
        step.start(&[], &[])?;
    }
    Ok(weights.get(&plate)?.values())
}

/// The temperatures at the start: 1 on a ring and on a small disc, else 0.
pub fn start(n: usize) -> Vec<f64> {
    let unit = |at: usize| (2 * at + 1) as f64 / n as f64 - 1.; // -1 to 1
    let points = (0..n).flat_map(|i| (0..n).map(move |j| (unit(i), unit(j))));
    let is_hot = |(y, x): (f64, f64)| {
        let ring = (0.5..0.75).contains(&y.hypot(x));
        ring || (y - 0.1).hypot(x - 0.15) < 0.15
    };
    points.map(|point| f64::from(u8::from(is_hot(point)))).collect()
}

/// The state after `steps` steps in closed form: transforms the start to sines, multiplies each by the power
/// of its eigenvalue, and transforms back.
pub fn exact(n: usize, steps: usize) -> Vec<f64> {
    let angle = PI / (n + 1) as f64;
    let sine = |i: usize, a: usize| (angle * ((i + 1) * (a + 1)) as f64).sin() * (2. / (n + 1) as f64).sqrt();
    let transform = |values: &[f64]| -> Vec<f64> {
        let sines: Vec<f64> = (0..n * n).map(|at| sine(at / n, at % n)).collect();
        let columns = product(n, &sines, values);
        product(n, &columns, &sines)
    };
    let mut modes = transform(&start(n));
    let quarter = |a: usize| (angle * (a + 1) as f64 / 2.).sin().powi(2);
    for (at, mode) in modes.iter_mut().enumerate() {
        let eigenvalue = 1. - 4. * RATE * (quarter(at / n) + quarter(at % n));
        *mode *= eigenvalue.powi(steps as i32);
    }
    transform(&modes)
}

/// The product of two n × n matrices.
fn product(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![0.; n * n];
    for (i, row) in c.chunks_mut(n).enumerate() {
        for k in 0..n {
            row.iter_mut().zip(&b[k * n..]).for_each(|(c, b)| *c += a[i * n + k] * b);
        }
    }
    c
}
