//! `tract-run MODEL RUNS THREADS NAME=FILE.npy...`: runs a model with tract on arrays of files, and prints
//! the times as `onnx-run` does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tract_linalg::multithread;
use tract_onnx::prelude::*;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, runs, threads, inputs @ ..] = arguments.as_slice() else {
        bail!("usage: tract-run MODEL RUNS THREADS NAME=FILE.npy...");
    };
    let threads: usize = threads.parse()?;
    if threads > 1 {
        multithread::set_default_executor(multithread::Executor::multithread(threads));
    }
    let named: Vec<(&str, Tensor)> = inputs
        .iter()
        .map(|input| {
            let (name, file) = input.split_once('=').context("expected NAME=FILE.npy")?;
            Ok((name, tensor(file)?))
        })
        .collect::<Result<_>>()?;

    let start = Instant::now();
    let mut model = tract_onnx::onnx().model_for_path(path)?;
    let loaded = start.elapsed();
    let start = Instant::now();
    let mut values: TVec<TValue> = tvec!();
    for (position, outlet) in model.input_outlets()?.to_vec().into_iter().enumerate() {
        let name = model.node(outlet.node).name.clone();
        let (_, tensor) =
            named.iter().find(|(own, _)| *own == name).with_context(|| format!("no input {name}"))?;
        model =
            model.with_input_fact(position, InferenceFact::dt_shape(tensor.datum_type(), tensor.shape()))?;
        values.push(tensor.clone().into_tvalue());
    }
    let plan = model.into_optimized()?.into_runnable()?;
    plan.run(values.clone())?;
    println!("load {}, compile and first run {}", millis(loaded), millis(start.elapsed()));

    let mut times = Vec::new();
    for _ in 0..runs.parse::<usize>()? {
        let start = Instant::now();
        plan.run(values.clone())?;
        times.push(start.elapsed());
    }
    times.sort();
    if let (Some(median), Some(best)) = (times.get(times.len() / 2), times.first()) {
        println!("{} runs: median {}, best {}", times.len(), millis(*median), millis(*best));
    }
    Ok(())
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// The array of a file of f32, i32 or i64.
fn tensor(path: &str) -> Result<Tensor> {
    if let Ok(array) = ndarray_npy::read_npy::<_, ndarray::ArrayD<f32>>(path) {
        return Tensor::from_shape(array.shape(), array.as_slice().context("not contiguous")?);
    }
    if let Ok(array) = ndarray_npy::read_npy::<_, ndarray::ArrayD<i32>>(path) {
        return Tensor::from_shape(array.shape(), array.as_slice().context("not contiguous")?);
    }
    let array: ndarray::ArrayD<i64> = ndarray_npy::read_npy(path)?;
    Tensor::from_shape(array.shape(), array.as_slice().context("not contiguous")?)
}
