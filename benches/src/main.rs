//! Runs the benchmark cases: each is compiled, checked against an independent result, and only then timed.
//!
//! The command line and the JSON are stable: other programs read them. Fields may be added, none renamed.
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

mod case;
mod cases;
mod device;
mod machine;
mod measure;
#[path = "../../crates/arrayjit/examples/digits/network.rs"]
mod network;
mod report;
mod streams;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, ensure};
use arrayjit::{Backend, Settings};
use clap::Parser;
use device::{Measuree, Overhead};

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Checks and times the benchmark cases")]
struct Cli {
    /// Which backend to measure
    #[arg(long, default_value = "multicore")]
    backend: String,
    /// Only cases whose name contains this
    #[arg(long, default_value = "")]
    filter: String,
    /// Threads that compute; 0 means one per core
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Compare with the JSON of an earlier run
    #[arg(long)]
    against: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Check every case but time it once only
    #[arg(long)]
    smoke: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let earlier = cli.against.as_deref().map(report::read).transpose()?;
    let mut settings = Settings::load()?.settings;
    settings.threads = cli.threads;
    settings.cache = false;
    let backend = Backend::open_with(&cli.backend, settings)?;
    let selected: Vec<_> = cases::all().into_iter().filter(|case| case.name.contains(&cli.filter)).collect();
    let streams: Vec<_> = streams::all().into_iter().filter(|case| case.name.contains(&cli.filter)).collect();
    ensure!(selected.len() + streams.len() > 0, "no case has a name that contains `{}`", cli.filter);

    let measuree = Measuree::of(&backend);
    if let Some(earlier) = &earlier {
        earlier.check_comparable(&measuree)?;
    }
    let machine = measuree.is_host.then(|| machine::Machine::measure(cli.smoke));
    match &machine {
        Some(machine) => println!("{measuree}: {} thread(s), {machine}", cli.threads),
        None => println!("{measuree}"),
    }
    let overhead = Overhead::measure(&backend)?;
    println!("{overhead}");
    println!("{}", report::HEADING);
    let effort = if cli.smoke { measure::Effort::Smoke } else { measure::Effort::Full };
    let mut results = report::Report::new(cli.threads, measuree, overhead);
    let mut report = |name, result| {
        println!("{}", report::line(name, &result, earlier.as_ref()));
        results.insert(name, result);
    };
    for case in &selected {
        report(case.name, measure::measure(&backend, case, machine.as_ref(), effort)?);
    }
    for case in &streams {
        report(case.name, streams::measure(&backend, case, effort)?);
    }
    if let Some(path) = &cli.json {
        results.write(path)?;
    }
    Ok(())
}
