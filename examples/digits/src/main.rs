//! Trains a 64–128–10 network on 1,797 handwritten digits: forward, backward and update are one compiled
//! routine.
//!
//! `cargo run --release -p digits -- --backend multicore --epochs 40 --seed 5`
//!
//! With `--streams 4` training is divided among four streams, each of which computes the gradient of a shard
//! of every mini-batch.
#![allow(clippy::print_stdout, reason = "an example talks on standard output")]

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use arrayjit::{Backend, Settings, trace::TraceFile};
use clap::Parser;
use digits::{
    data, network,
    state::Network,
    streams::{self, SharedTraining},
    train::Training,
};
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Parser)]
#[command(about = "Trains a small network on handwritten digits")]
struct Cli {
    /// multicore, inline, interpreter, or the name of a backend whose feature is enabled (wgpu, cuda)
    #[arg(long, default_value = "multicore")]
    backend: String,
    /// Passes over the training set
    #[arg(long, default_value_t = 40)]
    epochs: u32,
    /// Seed of the split, the initial weights and the order of batches
    #[arg(long, default_value_t = 5)]
    seed: u64,
    /// Divides every mini-batch over this number of streams
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=network::BATCH as i64))]
    streams: Option<u16>,
    /// Writes a timeline to this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long)]
    trace: Option<PathBuf>,
    /// The data file
    #[arg(long, default_value = data::FILE)]
    data: PathBuf,
}

fn main() -> Result<()> {
    let cli =
        Cli::parse_from(std::env::args_os().filter(|arg| !Settings::is_argument(&arg.to_string_lossy())));
    let trace = cli.trace.as_deref().map(TraceFile::create).transpose()?;
    trace.iter().try_for_each(TraceFile::install)?;
    let start = Instant::now();
    let mut rng = fastrand::Rng::with_seed(cli.seed);
    let (train, test) = data::split(&data::load(&cli.data)?, &mut rng);
    println!("seed {}: {} images to train on, {} to test with", cli.seed, train.count(), test.count());

    let backend = Backend::open(&cli.backend)?;
    let streams = cli.streams.map(usize::from);
    let network = match streams {
        None => Network::new(train.count(), test.count())?,
        Some(streams) => Network::with_rows(train.count(), test.count(), streams::rows(streams))?,
    };
    let training = match streams {
        None => Trainer::OneStream(Training::prepare(&backend, &network, &train, &test, &mut rng)?),
        Some(n) => Trainer::Streams(SharedTraining::prepare(&backend, &network, &train, &test, &mut rng, n)?),
    };
    println!(
        "{}: compiled and linked {:.0} ms after the start",
        backend.name(),
        start.elapsed().as_secs_f64() * 1e3
    );

    train_epochs(cli.epochs, &training, &mut rng)?;
    let correct = training.correct()?;
    println!("{:.2} s in all", start.elapsed().as_secs_f64());
    println!("test accuracy: {:.3}", correct / test.count() as f64);
    trace.map_or(Ok(()), TraceFile::finish)?;
    Ok(())
}

/// Training on one stream or on several.
enum Trainer<'n> {
    OneStream(Training<'n>),
    Streams(SharedTraining<'n>),
}

impl Trainer<'_> {
    fn batches(&self) -> i64 {
        match self {
            Trainer::OneStream(training) => training.batches(),
            Trainer::Streams(training) => training.batches(),
        }
    }

    fn epoch(&self, order: &[i64]) -> Result<f64> {
        match self {
            Trainer::OneStream(training) => training.epoch(order),
            Trainer::Streams(training) => training.epoch(order),
        }
    }

    fn correct(&self) -> Result<f64> {
        match self {
            Trainer::OneStream(training) => training.correct(),
            Trainer::Streams(training) => training.correct(),
        }
    }
}

/// Runs every batch of every epoch in a fresh random order; the loss is read once per epoch.
fn train_epochs(epochs: u32, training: &Trainer<'_>, rng: &mut fastrand::Rng) -> Result<()> {
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
