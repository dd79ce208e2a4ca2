//! The time per step of a small model: of its compiled graph alone, and of a session.
//! `cargo run --release -p arrayjit-tensor --example session_overhead`
use std::{sync::Arc, time::Instant};

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, Init, ModelState, Params, Tensor, TensorError,
    optim::{AdamW, OptimizerState},
    session::{Batch, BatchValues, Session},
};

/// The steps of a variant in a round.
const STEPS: usize = 200;
const ROUNDS: usize = 21;
const ROWS: usize = 64;

/// The parameters of a model with layers of 784, 128 and 10 values, and the weights.
fn model() -> Result<(Params, ModelState), Box<dyn std::error::Error>> {
    let params = Params::new(42);
    for (name, shape) in [("fc1", [128, 784]), ("fc2", [10, 128])] {
        params.sub(name).parameter("weight", shape, Init::kaiming_uniform(shape[1], 1.0))?;
    }
    let weights = ModelState::new(&Backend::open("multicore")?, &params)?;
    Ok((params, weights))
}

fn loss(params: &Params, x: &Tensor, label: &Tensor) -> Result<Tensor, TensorError> {
    let mut x = x.clone();
    for parameter in params.trainable() {
        x = x.einsum("n i, o i -> n o", &parameter)?.relu()?;
    }
    x.cross_entropy(label)
}

/// A way to run [`STEPS`] steps, and the last loss.
type Variant<'a> = (&'static str, Box<dyn FnMut() -> Result<f64, Box<dyn std::error::Error>> + 'a>);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sigpipe::reset();
    let images: Vec<f32> = (0..ROWS * 784).map(|at| (at % 97) as f32 / 97.0).collect();
    let labels: Vec<u8> = (0..ROWS).map(|at| (at % 10) as u8).collect();
    let images = HostArray::from_slice(&images, [ROWS, 784])?;
    let labels = HostArray::from_slice(&labels, [ROWS])?;
    let inputs = [("x", &images), ("label", &labels)];

    let (params, weights) = model()?;
    let graph = Graph::for_training();
    let x = graph.input("x", [ROWS, 784], DType::F32)?;
    let label = graph.input("label", [ROWS], DType::U8)?;
    let value = loss(&params, &x, &label)?;
    AdamW::new(1e-3).update(&value, &OptimizerState::new(&weights))?;
    let routine = graph.compile(&weights, &[&value])?;
    let mut number = 0;

    let shared = [("x", images.try_clone()?), ("label", labels.try_clone()?)];
    let shared = shared.map(|(name, array)| (name.to_owned(), Arc::new(array)));
    let values = BatchValues::new(shared)?;
    let session = || -> Result<Session, Box<dyn std::error::Error>> {
        let (params, weights) = model()?;
        let build = move |batch: &Batch| loss(&params, &batch.input("x")?, &batch.input("label")?);
        Ok(Session::new(&weights, AdamW::new(1e-3), build)?.progress_bar(false))
    };
    let (mut copying, mut sharing, mut fitting) = (session()?, session()?, session()?);
    let variants: [Variant<'_>; 4] = [
        (
            "the compiled graph",
            Box::new(|| {
                let mut step = || {
                    number += 1;
                    routine.start(&inputs, &[("step", number)])
                };
                (1..STEPS).try_for_each(|_| step().map(drop))?;
                Ok(step()?.result(0)?.values()[0])
            }),
        ),
        (
            "Session::step",
            Box::new(|| {
                (1..STEPS).try_for_each(|_| copying.step(&inputs).map(drop))?;
                Ok(copying.step(&inputs)?.metrics()?.loss())
            }),
        ),
        (
            "Session::step_by",
            Box::new(|| {
                (1..STEPS).try_for_each(|_| sharing.step_by(values.clone()).map(drop))?;
                Ok(sharing.step_by(values.clone())?.metrics()?.loss())
            }),
        ),
        ("Session::fit", Box::new(|| Ok(fitting.fit((0..STEPS).map(|_| values.clone()), |_| {})?.loss()))),
    ];
    report(variants)
}

/// Runs the variants in turn, so that all see the same load of the machine, and prints medians.
#[expect(clippy::print_stdout, reason = "the result of the program")]
fn report(mut variants: [Variant<'_>; 4]) -> Result<(), Box<dyn std::error::Error>> {
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let mut times = [0.0; 4];
        for (time, (name, run)) in times.iter_mut().zip(&mut variants) {
            let start = Instant::now();
            let last = run()?;
            *time = start.elapsed().as_secs_f64() * 1e6 / STEPS as f64;
            if round == ROUNDS {
                println!("{name}: loss {last:.6}");
            }
        }
        rounds.push(times);
    }
    rounds.remove(0); // compiles
    let median = |of: &dyn Fn(&[f64; 4]) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    for (at, (name, _)) in variants.iter().enumerate() {
        let (time, overhead) = (median(&|times| times[at]), median(&|times| times[at] - times[0]));
        println!("{name:20} {time:8.1} µs per step, {overhead:+6.1} µs");
    }
    Ok(())
}
