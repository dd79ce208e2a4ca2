//! A network of three layers that separates two moons, and a picture of its decision boundary.

use std::{f64::consts::PI, fmt::Write, iter::repeat_n, sync::Arc};

use anyhow::Result;
use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError,
    nn::{Linear, Module},
    optim::Adam,
    session::{Batch, BatchValues, Metrics, Session},
};

/// Points of a plane, each on one of two interleaved half circles.
pub struct Moons {
    /// `[count, 2]`, row by row.
    pub points: Vec<f32>,
    /// `[count]`: 0 for the upper moon, 1 for the lower one.
    pub labels: Vec<i32>,
}

/// `count` points, half of them on each moon, with normal noise of the given standard deviation.
pub fn two_moons(count: usize, noise: f64, seed: u64) -> Moons {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Box and Muller's transform of uniform numbers.
    let mut normal = || (-2. * (1. - rng.f64()).ln()).sqrt() * (2. * PI * rng.f64()).cos();
    let mut moons = Moons { points: Vec::new(), labels: Vec::new() };
    for at in 0..count {
        let label = at % 2;
        let angle = PI * (at / 2) as f64 / (count / 2).max(2) as f64;
        let (x, y) =
            if label == 0 { (angle.cos(), angle.sin()) } else { (1. - angle.cos(), 0.5 - angle.sin()) };
        moons.points.extend([x + noise * normal(), y + noise * normal()].map(|value| value as f32));
        moons.labels.push(label as i32);
    }
    moons
}

/// Two hidden layers, and a logit for each moon.
pub struct Mlp {
    layers: [Linear; 3],
}

impl Mlp {
    /// Makes the parameters of `width` hidden units per layer.
    ///
    /// # Errors
    ///
    /// Names that exist already.
    pub fn new(params: &Params, width: usize) -> Result<Mlp, TensorError> {
        let layer = |at: usize, inputs, outputs| Linear::new(&params.sub(at), inputs, outputs);
        Ok(Mlp { layers: [layer(0, 2, width)?, layer(1, width, width)?, layer(2, width, 2)?] })
    }
}

impl Module for Mlp {
    /// The logits `[count, 2]` of points `[count, 2]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let [first, second, last] = &self.layers;
        last.forward(&second.forward(&first.forward(x)?.tanh()?)?.tanh()?)
    }
}

/// A trained network.
pub struct Trained {
    model: Arc<Mlp>,
    weights: ModelState,
    /// The loss of each step.
    pub losses: Vec<f64>,
}

/// Trains with all points in each step.
///
/// # Errors
///
/// An error of the backend.
pub fn train(backend: &Backend, moons: &Moons, steps: usize, seed: u32) -> Result<Trained> {
    let params = Params::new(seed);
    let model = Arc::new(Mlp::new(&params, 16)?);
    let weights = ModelState::new(backend, &params)?;
    let trained = model.clone();
    let mut session = Session::new(&weights, Adam::new(0.02), move |batch: &Batch| {
        trained.forward(&batch.input("x")?)?.cross_entropy(&batch.input("y")?)
    })?;
    let count = moons.labels.len();
    let batch = BatchValues::new([
        ("x".to_owned(), Arc::new(HostArray::from_slice(&moons.points, [count, 2])?)),
        ("y".to_owned(), Arc::new(HostArray::from_slice(&moons.labels, [count])?)),
    ])?;
    let mut losses = Vec::new();
    session.fit(repeat_n(batch, steps), |progress| {
        losses.extend(progress.metrics().iter().map(Metrics::loss));
    })?;
    Ok(Trained { model, weights, losses })
}

impl Trained {
    /// The probability that each point `[count, 2]` is of the lower moon.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub fn probabilities(&self, points: &[f32]) -> Result<Vec<f64>> {
        let graph = Graph::new();
        let x = graph.input("x", [points.len() / 2, 2], DType::F32)?;
        let lower = self.model.forward(&x)?.softmax(-1)?.select(-1, 1)?;
        let model = graph.compile_named("mlp", &self.weights, &[&lower])?;
        let found = model.run(&[("x", &HostArray::from_slice(points, [points.len() / 2, 2])?)])?;
        Ok(found[0].values())
    }

    /// The fraction of points that are classified correctly.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub fn accuracy(&self, moons: &Moons) -> Result<f64> {
        let found = self.probabilities(&moons.points)?;
        let correct = found.iter().zip(&moons.labels).filter(|&(&p, &label)| (p > 0.5) == (label == 1));
        Ok(correct.count() as f64 / moons.labels.len() as f64)
    }

    /// A picture of the plane, colored by the probability, with the points on top.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub fn svg(&self, moons: &Moons) -> Result<String> {
        const CELLS: usize = 80;
        const CELL: usize = 6;
        let (left, top, size) = (-1.5, 1.75, 4.0); // the region of the plane
        let coordinate = |at: usize| (at as f64 + 0.5) / CELLS as f64 * size;
        let grid: Vec<f32> = (0..CELLS * CELLS)
            .flat_map(|at| [left + coordinate(at % CELLS), top - coordinate(at / CELLS)])
            .map(|value| value as f32)
            .collect();
        let side = CELLS * CELL;
        let mut svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\">\n");
        for (at, p) in self.probabilities(&grid)?.into_iter().enumerate() {
            let (x, y) = (at % CELLS * CELL, at / CELLS * CELL);
            let shade = (100. + 140. * (2. * p - 1.).abs()) as u8;
            let (red, blue) = if p > 0.5 { (shade, 100) } else { (100, shade) };
            writeln!(svg, "<path d=\"M{x} {y}h{CELL}v{CELL}h-{CELL}z\" fill=\"rgb({red},110,{blue})\"/>")?;
        }
        for (point, label) in moons.points.chunks(2).zip(&moons.labels) {
            let pixel = |distance: f64| distance / size * side as f64;
            let (x, y) = (pixel(f64::from(point[0]) - left), pixel(top - f64::from(point[1])));
            let fill = if *label == 1 { "#8a1010" } else { "#10108a" };
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"#222\"/>")?;
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }
}
