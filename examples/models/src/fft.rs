//! The fast Fourier transform as a graph: one call of the prelude's `fft_stage` per power of two.
//!
//! The signal has three tones and noise. [`dft`] is the same transform as two matrix products, whose factors
//! the graph computes from their positions.

use std::f64::consts::PI;

use anyhow::{Result, ensure};
use arrayjit_tensor::{Backend, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError};

/// The tones of the signal: periods in the whole signal, and amplitudes.
pub const TONES: [(usize, f64); 3] = [(17, 1.0), (60, 0.5), (201, 0.25)];

/// The real and the imaginary part of the transform of the last axis, whose size is a power of two:
/// y\[f\] = Σ x\[t\]·exp(-2πi·f·t / n).
///
/// # Errors
///
/// A size that is no power of two, or an error of the graph.
pub fn fft(re: &Tensor, im: &Tensor) -> Result<[Tensor; 2]> {
    let n = re.shape().last().copied().unwrap_or(0);
    ensure!(n.is_power_of_two(), "a transform of {n} elements; expected a power of two");
    let graph = re.graph();
    let [c, s] =
        graph.apply_all(&format!("c[h], s[h] := fft_factors({})", (n / 2).max(1)), &[], ["c", "s"])?;
    let mut parts = [re.unsqueeze(-1)?, im.unsqueeze(-1)?];
    let mut l = n / 2;
    while l > 0 {
        let m = n / 2 / l;
        let stage = format!("yr[b,t,v], yi[b,t,v] := fft_stage(re[b,t,v], im[b,t,v], c[h], s[h], {l}, {m})");
        let [re, im] = &parts;
        parts = graph.apply_all(&stage, &[("re", re), ("im", im), ("c", &c), ("s", &s)], ["yr", "yi"])?;
        l /= 2;
    }
    let [re, im] = parts;
    Ok([re.squeeze(-1)?, im.squeeze(-1)?])
}

/// The transform of [`fft`] by its definition, for a real signal `[batch, n]`, with n² multiplications.
///
/// # Errors
///
/// An error of the graph.
pub fn dft(x: &Tensor) -> Result<[Tensor; 2], TensorError> {
    // The angle is computed from f·t modulo n, since a large angle has few digits behind the point in f32.
    x.graph().apply_all(
        "yr[b,f] :+= x[b,t] * cos(-6.283185307179586 / size(t) * (f * t % size(t))) where f < n
         yi[b,f] :+= x[b,t] * sin(-6.283185307179586 / size(t) * (f * t % size(t))) where f < n",
        &[("x", x), ("n", &(x.shape()[1] as i64))],
        ["yr", "yi"],
    )
}

/// The amplitude of each frequency of the signal, by [`fft`] and by [`dft`].
pub struct Spectra {
    /// n/2 amplitudes by the fast transform.
    pub fast: Vec<f64>,
    /// n/2 amplitudes by the definition.
    pub slow: Vec<f64>,
}

/// Transforms a signal of `n` samples in both ways.
///
/// # Errors
///
/// A size that is no power of two, or an error of the backend.
pub fn spectra(backend: &Backend, n: usize, seed: u64) -> Result<Spectra> {
    let graph = Graph::new();
    let x = graph.input("x", [1, n], DType::F32)?;
    let [re, im] = fft(&x, &x.full_like(0.0)?)?;
    let [dft_re, dft_im] = dft(&x)?;
    let amplitudes = |re: &Tensor, im: &Tensor| -> Result<Tensor, TensorError> {
        let power = (re.square()? + im.square()?)?;
        (power.sqrt()? * (2. / n as f64))?.slice(1, 0..n / 2)
    };
    let results = [amplitudes(&re, &im)?, amplitudes(&dft_re, &dft_im)?];
    let weights = ModelState::new(backend, &Params::new(0))?;
    let model = graph.compile_named("fft", &weights, &[&results[0], &results[1]])?;
    let found = model.run(&[("x", &HostArray::from_slice(&signal(n, seed), [1, n])?)])?;
    Ok(Spectra { fast: found[0].values(), slow: found[1].values() })
}

/// The frequencies of the `count` largest amplitudes, in ascending order.
pub fn peaks(amplitudes: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..amplitudes.len()).collect();
    order.sort_by(|&a, &b| amplitudes[b].total_cmp(&amplitudes[a]));
    order.truncate(count);
    order.sort_unstable();
    order
}

/// The tones with noise in ±1.
fn signal(n: usize, seed: u64) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let tone =
        |t: usize, (f, amplitude): (usize, f64)| amplitude * (2. * PI * f as f64 * t as f64 / n as f64).sin();
    (0..n)
        .map(|t| TONES.iter().map(|&parts| tone(t, parts)).sum::<f64>() as f32 + rng.f32() * 2. - 1.)
        .collect()
}
