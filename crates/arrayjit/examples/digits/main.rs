//! Trains a 64–128–10 network on 1,797 handwritten digits: forward, backward and update are one compiled routine.
//!
//! `cargo run --release -p arrayjit --example digits -- --backend multicore --epochs 40 --seed 5`
#![allow(clippy::print_stdout, reason = "an example talks on standard output")]

mod data;
mod network;
mod state;
mod train;

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use arrayjit::{Backend, Settings};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use state::Network;
use train::Training;

#[derive(Parser)]
#[command(about = "Trains a small network on handwritten digits")]
struct Cli {
    /// multicore, inline, interpreter or, built with the feature of that name, wgpu
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
    let training = Training::prepare(&backend, &network, &train, &test, &mut rng)?;
    println!(
        "{}: compiled and linked {:.0} ms after the start",
        backend.name(),
        start.elapsed().as_secs_f64() * 1e3
    );

    train_epochs(cli.epochs, &training, &mut rng)?;
    let correct = training.correct()?;
    println!("{:.2} s in all", start.elapsed().as_secs_f64());
    println!("test accuracy: {:.3}", correct / test.count() as f64);
    Ok(())
}

/// Runs every batch of every epoch in a fresh random order; the loss is read once per epoch.
fn train_epochs(epochs: u32, training: &Training, rng: &mut fastrand::Rng) -> Result<()> {
    let mut order: Vec<i64> = (0..training.batches()).collect();
    let bar = ProgressBar::new(u64::from(epochs)).with_style(
        ProgressStyle::with_template("{bar:40} epoch {pos}/{len}, loss {msg}")
            .expect("the template is constant"),
    );
    for _ in 0..epochs {
        rng.shuffle(&mut order);
        let mean = training.epoch(&order)?;
        bar.set_message(format!("{mean:.4}"));
        bar.inc(1);
    }
    bar.finish();
    Ok(())
}
