//! Steps per second of a small model, of its compiled graph alone and of a session:
//! `cargo run --release -p arrayjit-tensor --example session_overhead`.
use std::{error::Error, sync::Arc, time::Instant};

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, Init, Params, Tensor, TensorError, Weights,
    optim::{AdamW, OptimizerState},
    session::{Batch, BatchValues, Session},
};

const STEPS: usize = 500;
const ROWS: usize = 64;

/// The parameters of a model with layers of 784, 128 and 10 values, and the weights.
fn model() -> Result<(Params, Weights), Box<dyn Error>> {
    let params = Params::new(42);
    for (name, shape) in [("fc1", [128, 784]), ("fc2", [10, 128])] {
        params.sub(name).parameter("weight", shape, Init::kaiming_uniform(shape[1], 1.0))?;
    }
    let weights = Weights::new(&Backend::open("multicore")?, &params)?;
    Ok((params, weights))
}

fn loss(params: &Params, x: &Tensor, label: &Tensor) -> Result<Tensor, TensorError> {
    let mut x = x.clone();
    for parameter in params.trainable() {
        x = x.einsum("n i, o i -> n o", &parameter)?.relu()?;
    }
    x.cross_entropy(label)
}

fn main() -> Result<(), Box<dyn Error>> {
    let images: Vec<f32> = (0..ROWS * 784).map(|at| (at % 97) as f32 / 97.0).collect();
    let labels: Vec<u8> = (0..ROWS).map(|at| (at % 10) as u8).collect();
    let images = HostArray::from_slice(&images, [ROWS, 784])?;
    let labels = HostArray::from_slice(&labels, [ROWS])?;

    let (params, weights) = model()?;
    let graph = Graph::for_training();
    let x = graph.input("x", [ROWS, 784], DType::F32)?;
    let label = graph.input("label", [ROWS], DType::U8)?;
    let value = loss(&params, &x, &label)?;
    AdamW::new(1e-3).update(&value, &OptimizerState::new(&weights))?;
    let step = graph.compile(&weights, &[&value])?;
    step.run_with(&[("x", &images), ("label", &labels)], &[("step", 0)])?;
    let start = Instant::now();
    for at in 1..=STEPS {
        step.start(&[("x", &images), ("label", &labels)], &[("step", at as i64)])?;
    }
    let last = step.result(0)?.values();
    report("the compiled graph", start, last.first().copied());

    let shared = [("x".to_owned(), Arc::new(images)), ("label".to_owned(), Arc::new(labels))];
    let values = BatchValues::new(shared)?;
    let session = || -> Result<Session, Box<dyn Error>> {
        let (params, weights) = model()?;
        let build = move |batch: &Batch| loss(&params, &batch.input("x")?, &batch.input("label")?);
        let mut session = Session::new(&weights, AdamW::new(1e-3), build)?;
        session.step_by(values.clone())?.metrics()?;
        Ok(session)
    };
    let mut stepped = session()?;
    let start = Instant::now();
    for _ in 1..STEPS {
        stepped.step_by(values.clone())?;
    }
    let last = stepped.step_by(values.clone())?.metrics()?;
    report("Session::step", start, Some(last.loss()));

    let mut fitted = session()?;
    let start = Instant::now();
    let last = fitted.fit((0..STEPS).map(|_| values.clone()), |_| {})?;
    report("Session::fit", start, Some(last.loss()));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result of the program")]
fn report(name: &str, start: Instant, loss: Option<f64>) {
    let rate = STEPS as f64 / start.elapsed().as_secs_f64();
    println!("{name:20} {rate:8.1} steps/s, loss {:?}", loss.unwrap_or(f64::NAN));
}
