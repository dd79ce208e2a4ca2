//! Trains a 64–128–10 network on 1,797 handwritten digits: forward, backward and update are one compiled routine.
//!
//! `cargo run --release -p arrayjit --example digits -- --backend multicore --epochs 40 --seed 5`
#![allow(clippy::print_stdout, reason = "an example talks on standard output")]

mod data;
mod network;
mod state;

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use arrayjit::{Backend, Context, HostArray, Routine, Settings};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use data::Digits;
use state::Network;

#[derive(Parser)]
#[command(about = "Trains a small network on handwritten digits")]
struct Cli {
    /// multicore, inline or interpreter
    #[arg(long, default_value = "multicore")]
    backend: String,
    /// Passes over the training set
    #[arg(long, default_value_t = 40)]
    epochs: u32,
    /// Seed of the split, the initial weights and the order of batches
    #[arg(long, default_value_t = 5)]
    seed: u64,
    /// The data file
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/digits.csv.gz"))]
    data: PathBuf,
}

fn main() -> Result<()> {
    let cli = Cli::parse_from(std::env::args().filter(|arg| !Settings::is_argument(arg)));
    let start = Instant::now();
    let mut rng = fastrand::Rng::with_seed(cli.seed);
    let (train, test) = data::split(&data::load(&cli.data)?, &mut rng);
    println!("seed {}: {} images to train on, {} to test with", cli.seed, train.count(), test.count());

    let backend = Backend::open(&cli.backend)?;
    let network = Network::new(train.count(), test.count())?;
    let (step, evaluate, context) = prepare(&backend, &network, &train, &test, &mut rng)?;
    println!(
        "{}: compiled and linked {:.0} ms after the start",
        backend.name(),
        start.elapsed().as_secs_f64() * 1e3
    );

    train_epochs(&cli, &network, &step, &context, &mut rng)?;
    evaluate.run(&[])?;
    let correct = evaluate.context().to_host(network.node("correct"))?.get_f64(&[])?;
    println!("{:.2} s in all", start.elapsed().as_secs_f64());
    println!("test accuracy: {:.3}", correct / test.count() as f64);
    Ok(())
}

/// Compiles both routines, uploads data and initial weights, and links.
fn prepare(
    backend: &Backend,
    network: &Network,
    train: &Digits,
    test: &Digits,
    rng: &mut fastrand::Rng,
) -> Result<(Routine, Routine, Context)> {
    let step = backend.compile_named("train_step", network::TRAIN, network.nodes())?;
    let evaluate = backend.compile_named("evaluate", state::EVALUATE, network.nodes())?;
    let mut context = backend.context()?;
    for (node, values) in network.initial_state(rng)? {
        context = context.init_from_host(&node, &values)?;
    }
    for (images, labels, digits) in [("x", "label", train), ("tx", "tlabel", test)] {
        let dims = network.node(images).dims()?;
        context =
            context.init_from_host(network.node(images), &HostArray::from_slice(&digits.images, dims)?)?;
        let labels_array = HostArray::from_slice(&digits.labels, [digits.count()])?;
        context = context.init_from_host(network.node(labels), &labels_array)?;
    }
    let step = step.link(&context)?;
    let evaluate = evaluate.link(step.context())?;
    Ok((step, evaluate, context))
}

/// Runs every batch of every epoch in a fresh random order; the loss is read once per epoch.
fn train_epochs(
    cli: &Cli,
    network: &Network,
    step: &Routine,
    context: &Context,
    rng: &mut fastrand::Rng,
) -> Result<()> {
    let steps = step.bindings()[0].range;
    let mut order: Vec<i64> = (0..steps).collect();
    let bar = ProgressBar::new(u64::from(cli.epochs)).with_style(
        ProgressStyle::with_template("{bar:40} epoch {pos}/{len}, loss {msg}")
            .expect("the template is constant"),
    );
    let loss = network.node("loss");
    let zero = HostArray::from_slice(&[0.0f32], [])?;
    for _ in 0..cli.epochs {
        rng.shuffle(&mut order);
        // Ordered on the stream like everything else: nothing to wait for.
        let _ = context.from_host(loss, &zero)?;
        for &batch in &order {
            step.run(&[batch])?;
        }
        let mean = context.to_host(loss)?.get_f64(&[])? / steps as f64;
        bar.set_message(format!("{mean:.4}"));
        bar.inc(1);
    }
    bar.finish();
    Ok(())
}
