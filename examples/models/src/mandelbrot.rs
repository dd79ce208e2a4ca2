//! The Mandelbrot set: how many iterations of z ← z² + c each point c of a grid needs to leave the disc of
//! radius 2.
//!
//! One run is [`ITERATIONS_PER_RUN`] iterations, which `repeat` writes one behind the other; the compiler
//! fuses them, so z stays in registers between them. A point that has left keeps its z.

use anyhow::Result;
use arrayjit_tensor::{Backend, Graph, Init, ModelState, Params};

/// Iterations of one run.
pub const ITERATIONS_PER_RUN: usize = 8;

/// The lowest real and imaginary part of the grid, and its width and height.
const REGION: [f64; 4] = [-2.2, -1.2, 3.2, 2.4];

/// The number of iterations after which |z| > 2 for each point of a grid of `width` × `height` points, row by
/// row; `limit`, a multiple of [`ITERATIONS_PER_RUN`], for the points that stay within the disc.
///
/// # Errors
///
/// An error of the backend.
pub fn iterations(backend: &Backend, width: usize, height: usize, limit: usize) -> Result<Vec<f64>> {
    let params = Params::new(0);
    let buffer = |name: &str| params.buffer(name, [height, width], Init::ZEROS);
    let (re, im, count) = (buffer("re")?, buffer("im")?, buffer("count")?);
    let [left, top, across, down] = REGION;
    let graph = Graph::new();
    graph.apply_all(
        &format!(
            "repeat t in 0..{ITERATIONS_PER_RUN} {{
                 inside[t][i,j] := re[i,j] * re[i,j] + im[i,j] * im[i,j] <= 4
                 next[t][i,j] := re[i,j] * re[i,j] - im[i,j] * im[i,j] + left + j * dx
                 im[i,j] := where(inside[t][i,j], 2 * re[i,j] * im[i,j] + top + i * dy, im[i,j])
                 re[i,j] := where(inside[t][i,j], next[t][i,j], re[i,j])
                 count[i,j] += f32(inside[t][i,j])
             }}"
        ),
        &[
            ("re", &re),
            ("im", &im),
            ("count", &count),
            ("left", &left),
            ("top", &top),
            ("dx", &(across / width as f64)),
            ("dy", &(down / height as f64)),
        ],
        [],
    )?;
    let weights = ModelState::new(backend, &params)?;
    let step = graph.compile_named("mandelbrot_iterations", &weights, &[])?;
    for _ in 0..limit / ITERATIONS_PER_RUN {
        step.start(&[], &[])?;
    }
    Ok(weights.get(&count)?.values())
}

/// [`iterations`] by a loop over the points in f32, without the engine.
pub fn reference(width: usize, height: usize, limit: usize) -> Vec<f64> {
    let [left, top, across, down] = REGION;
    let (dx, dy) = ((across / width as f64) as f32, (down / height as f64) as f32);
    let count = |at: usize| {
        let (re0, im0) = (left as f32 + (at % width) as f32 * dx, top as f32 + (at / width) as f32 * dy);
        let (mut re, mut im, mut count) = (0f32, 0f32, 0);
        while count < limit && re * re + im * im <= 4. {
            (re, im) = (re * re - im * im + re0, 2. * re * im + im0);
            count += 1;
        }
        count as f64
    };
    (0..width * height).map(count).collect()
}
