//! `onnx-run`: runs an ONNX model on arrays of files or on random ones, and shows the interface of a model.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to its user")]

mod inputs; // arrays for the inputs of a model
mod report; // text about interfaces and outputs

use std::{
    io::{Write, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use arrayjit::{Backend, profile::Profile, settings::Settings};
use arrayjit_onnx::{HostArray, InferenceSession, Model, SessionOptions, ShapePolicy};
use clap::{Args, Parser, Subcommand};

use crate::inputs::InputArgs;

#[derive(Parser)]
#[command(name = "onnx-run", about, version, args_conflicts_with_subcommands = true)]
#[command(arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Show the inputs, outputs and operators of a model, which of its dimensions need a compilation for each
    /// value, and all nodes that are not supported.
    Inspect {
        /// The model file.
        model: PathBuf,
    },
}

#[derive(Args)]
struct RunArgs {
    /// The model file.
    model: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    /// The backend, such as multicore, inline, wgpu, cuda or auto; by default that of the settings.
    #[arg(long)]
    backend: Option<String>,
    /// Compile the model once for all values of the dimensions that it leaves open.
    #[arg(long)]
    symbolic: bool,
    /// Threads that compute; 0 means one per core.
    #[arg(long)]
    threads: Option<usize>,
    /// Run the model this often more, and print the median time and the best.
    #[arg(long, value_name = "N")]
    bench: Option<usize>,
    /// Write the time, the work and the code of each kernel: a page if the name ends in .html, else JSON.
    /// Runs the model once more if there is no --bench, and each kernel call is timed.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Write each output as NAME.npy into this folder; `/` in names becomes `_`.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

fn main() -> ExitCode {
    sigpipe::reset();
    let cli = Cli::parse();
    let outcome = match cli.command {
        Some(Command::Inspect { model }) => inspect(&model),
        None => run(&cli.run),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("onnx-run: {}", arrayjit::message_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn inspect(path: &Path) -> Result<()> {
    let model = Model::load(path).with_context(|| path.display().to_string())?;
    writeln!(stdout(), "{}", report::interface(&model))?;
    writeln!(stdout(), "operators:")?;
    for (operator, count) in model.operators() {
        writeln!(stdout(), "  {count:5} {operator}")?;
    }
    writeln!(stdout(), "every operator is supported")?;
    let settings = Settings::load()?.settings;
    let session = model.session(&Backend::open_with(&settings.backend, &settings)?)?;
    write!(stdout(), "{}", report::dimensions(&session))?;
    Ok(())
}

fn run(args: &RunArgs) -> Result<()> {
    let path = args.model.as_deref().context("no model file is given")?;
    let start = Instant::now();
    let model = Model::load(path).with_context(|| path.display().to_string())?;
    let loaded = start.elapsed();
    let inputs = args.inputs.arrays(&model)?;
    let named: Vec<(&str, &HostArray)> = inputs.iter().map(|(name, array)| (name.as_str(), array)).collect();

    let start = Instant::now();
    let backend = backend(args)?;
    let shapes = if args.symbolic { ShapePolicy::Symbolic } else { ShapePolicy::Exact };
    let session = model.session_with(&backend, SessionOptions::new().shapes(shapes))?;
    let outputs = session.run(&named)?;
    let first = start.elapsed();

    let names: Vec<String> = model.outputs().into_iter().map(|output| output.name).collect();
    for (name, array) in names.iter().zip(&outputs) {
        writeln!(stdout(), "{}", report::summary(name, array))?;
    }
    writeln!(stdout(), "load {}, compile and first run {}", millis(loaded), millis(first))?;
    if let Some(peak) = peak_memory() {
        writeln!(stdout(), "peak memory {peak} MiB")?;
    }
    if let Some(runs) = args.bench {
        let (median, best) = timed(&session, &named, runs)?;
        writeln!(stdout(), "{runs} runs: median {}, best {}", millis(median), millis(best))?;
    }
    if let Some(reshaped) = args.inputs.reshaped() {
        let inputs = reshaped.arrays(&model)?;
        let named: Vec<(&str, &HostArray)> =
            inputs.iter().map(|(name, array)| (name.as_str(), array)).collect();
        let start = Instant::now();
        session.run(&named)?;
        writeln!(stdout(), "new shape {}", millis(start.elapsed()))?;
    }
    if let Some(path) = &args.profile {
        if args.bench.is_none() {
            session.run(&named)?;
        }
        // A routine gives its profile when it is dropped.
        drop(session);
        write_profile(path, &backend.take_profiles())?;
    }
    match &args.save {
        Some(folder) => save(folder, &names, &outputs),
        None => Ok(()),
    }
}

/// Writes the profiles of the routines of a model, one for each part between steps on the host.
fn write_profile(path: &Path, profiles: &[Profile]) -> Result<()> {
    let text = match path.extension().is_some_and(|extension| extension == "html") {
        true => Profile::page(profiles),
        false => serde_json::to_string_pretty(profiles)?,
    };
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    writeln!(stdout(), "{} routines in {}", profiles.len(), path.display())?;
    Ok(())
}

/// The peak memory of this process in MiB, where the system tells it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

fn backend(args: &RunArgs) -> Result<Backend> {
    let mut settings = Settings::load()?.settings;
    settings.threads = args.threads.unwrap_or(settings.threads);
    settings.debugging.profile |= args.profile.is_some();
    let name = args.backend.clone().unwrap_or_else(|| settings.backend.clone());
    let backend = Backend::open_with(&name, &settings)?;
    if args.profile.is_some() {
        backend.collect_profiles();
    }
    Ok(backend)
}

/// The median time of a run and the shortest.
fn timed(
    session: &InferenceSession,
    inputs: &[(&str, &HostArray)],
    runs: usize,
) -> Result<(Duration, Duration)> {
    ensure!(runs > 0, "--bench needs at least one run");
    let mut times = Vec::with_capacity(runs.min(1 << 20));
    for _ in 0..runs {
        let start = Instant::now();
        session.run(inputs)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok((times[runs / 2], times[0]))
}

fn save(folder: &Path, names: &[String], outputs: &[HostArray]) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, array) in names.iter().zip(outputs) {
        let path = folder.join(format!("{}.npy", file_stem(name)));
        let file = std::fs::File::create(&path).with_context(|| format!("writing {}", path.display()))?;
        tnode::npy::write(array, file).with_context(|| format!("writing {}", path.display()))?;
        writeln!(stdout(), "wrote {}", path.display())?;
    }
    Ok(())
}

/// The name of an output as part of a file name that stays in its folder.
fn file_stem(name: &str) -> String {
    name.replace(['/', '\\', ':'], "_")
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
