//! The command line of the program: options, training, and what it prints.
//!
//! A crate with a backend of its own makes the program of it, without a change here:
//!
//! ```no_run
//! # mod mybackend {
//! #     arrayjit::register_backend!("mybackend", "an example", |_| Err("has no device".into()));
//! # }
//! use mybackend as _; // a crate that contains `arrayjit::register_backend!("mybackend", …)`
//!
//! fn main() -> std::process::ExitCode {
//!     digits::command_line::main() // --backend mybackend
//! }
//! ```
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::Result;
use arrayjit::{Backend, Settings, trace::TraceFile};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{data, network, state::Network, streams::SharedTraining, train::Training};

#[derive(Parser)]
#[command(name = "digits", about = "Trains a small network on handwritten digits")]
struct Cli {
    /// A backend by name: multicore, inline, interpreter, wgpu, cuda (each in builds that have it), auto, or
    /// one that a linked crate registers; by default that of the settings
    #[arg(long)]
    backend: Option<String>,
    /// Lists the backends with their devices, and trains nothing
    #[arg(long)]
    list_backends: bool,
    /// Passes over the training set
    #[arg(long, default_value_t = 40)]
    epochs: u32,
    /// Seed of the split, the initial weights and the order of batches
    #[arg(long, default_value_t = 5)]
    seed: u64,
    /// Divides every mini-batch over this number of streams; 0 for as many as the device suggests
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=network::BATCH as i64))]
    streams: Option<u16>,
    /// Writes a timeline to this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long)]
    trace: Option<PathBuf>,
    /// The data file
    #[arg(long, default_value = data::FILE)]
    data: PathBuf,
}

/// The whole program: reads the arguments of the process, trains, and prints errors on standard error.
pub fn main() -> ExitCode {
    sigpipe::reset();
    match run(std::env::args_os()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", arrayjit::message_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Trains as the arguments say; the first argument is the name of the program. Returns the fraction of the
/// test images that the network classifies correctly, from 0 to 1; `None` if the arguments only ask for a
/// list. Wrong arguments, and `--help`, end the process.
///
/// # Errors
///
/// A backend that does not open, a file that cannot be read or written, and errors of the backend.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<Option<f64>> {
    let is_setting = |arg: &OsString| Settings::is_argument(&arg.to_string_lossy());
    let cli = Cli::parse_from(args.into_iter().filter(|arg| !is_setting(arg)));
    if cli.list_backends {
        Backend::available()?.iter().for_each(|backend| println!("{backend}"));
        return Ok(None);
    }
    traced(cli.trace.as_deref(), || train(&cli)).map(Some)
}

/// Calls a function and writes its timeline, if a path is given.
///
/// # Errors
///
/// An error of the function or of the file.
pub fn traced<T>(path: Option<&Path>, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let trace = path.map(TraceFile::create).transpose()?;
    trace.iter().try_for_each(TraceFile::install)?;
    let result = body()?;
    trace.map_or(Ok(()), TraceFile::finish)?;
    Ok(result)
}

/// Trains and prints; returns the accuracy.
fn train(cli: &Cli) -> Result<f64> {
    let start = Instant::now();
    let mut rng = fastrand::Rng::with_seed(cli.seed);
    let (train, test) = data::split(&data::load(&cli.data)?, &mut rng);
    println!("seed {}: {} images to train on, {} to test with", cli.seed, train.count(), test.count());

    let named = cli.backend.clone();
    let name = named.map_or_else(|| Settings::load().map(|loaded| loaded.settings.backend), Ok)?;
    let backend = Backend::open(&name)?;
    let streams = cli.streams.map(|streams| match usize::from(streams) {
        0 => backend.device().suggested_num_streams().min(network::BATCH),
        streams => streams,
    });
    let network = Network::new(train.count(), test.count())?;
    let training = match streams {
        None => Trainer::OneStream(Training::prepare(&backend, &network, &train, &test, &mut rng)?),
        Some(n) => Trainer::Streams(SharedTraining::prepare(&backend, &network, &train, &test, &mut rng, n)?),
    };
    let linked = start.elapsed().as_secs_f64() * 1e3;
    println!("{}: compiled and linked {linked:.0} ms after the start", backend.name());

    train_epochs(cli.epochs, &training, &mut rng)?;
    let correct = training.correct()?;
    println!("{:.2} s in all", start.elapsed().as_secs_f64());
    let accuracy = correct / test.count() as f64;
    println!("test accuracy: {accuracy:.3}");
    Ok(accuracy)
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
