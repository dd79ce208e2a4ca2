//! Runs the benchmark cases: each is compiled, checked against an independent result, and only then timed, in
//! turns with its peers.
//!
//! The command line and the JSON are stable: other programs read them. Fields may be added, none renamed.
//!
//! # Benchmarks of another backend
//!
//! A crate with a backend of its own makes the program of this library, `mybackend-bench`:
//!
//! ```no_run
//! # mod mybackend {
//! #     arrayjit::register_backend!("mybackend", "an example", |_| Err("has no device".into()));
//! # }
//! use mybackend as _; // a crate that contains `arrayjit::register_backend!("mybackend", …)`
//!
//! fn main() -> std::process::ExitCode {
//!     benches::main()
//! }
//! ```
//!
//! `mybackend-bench --backend mybackend --smoke` then checks every case on it, and without `--smoke` times
//! them. `--help` lists the options.

mod arrays;
mod case;
mod cases;
mod check; // results against other results
mod contest;
mod data_parallel;
mod device;
#[cfg(test)]
mod gpu_threads;
mod growth;
mod idle;
mod kernels;
mod machine;
#[cfg(test)]
mod machine_code;
mod measure;
mod ours;
mod peers;
mod product;
mod reference;
mod report;
mod resident;
mod rivals;
mod sample;
mod streams;
mod tuned;

use std::{
    ffi::OsString,
    io::{self, Write as _, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context as _, Result, ensure};
use arrayjit::{Backend, Settings, profile::Profile};
use clap::Parser;
use device::{MeasuredDevice, Overhead};
use tuned::TunedBackend;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Checks and times the benchmark cases")]
struct Cli {
    /// The backend to measure, by name; by default that of the settings
    #[arg(long)]
    backend: Option<String>,
    /// Only cases whose name contains one of these; cases for NVIDIA GPUs run elsewhere only if selected by
    /// their whole name
    #[arg(long, value_delimiter = ',')]
    filter: Vec<String>,
    /// Threads that compute; 0 means one per core
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Other programs to measure in the same run, in turns: some of hand, gemm, matrixmultiply, ndarray,
    /// candle-core, torch, torch-compile and jax, or all; on an NVIDIA GPU, cublas; another backend by name;
    /// by-hand: gradients that were written by hand, for cases with derived ones
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Compile each case also with tuned kernels, measure both in turns, and show the gain. Choices are those
    /// of the file, which is made or extended if it lacks kernels; without a file, everything is measured
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "")]
    tune: Option<String>,
    /// Compare with the JSON of an earlier run
    #[arg(long)]
    against: Option<PathBuf>,
    /// Write the results as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Continue an interrupted run: leave out the cases that the file of `--json` has, and measure those last
    /// that it has only begun
    #[arg(long, requires = "json")]
    resume: bool,
    /// Measure nothing, and print the JSON of runs on several numbers of threads as one table
    #[arg(long, value_delimiter = ',', value_name = "FILE,..")]
    scaling: Vec<PathBuf>,
    /// Measure the cost of waiting threads too
    #[arg(long)]
    idle: bool,
    /// Write a page with pictures and the whole table
    #[arg(long)]
    report: Option<PathBuf>,
    /// After each case, show the time, work and code of each of its kernel calls
    #[arg(long)]
    kernels: bool,
    /// Write a page with the kernel calls of all cases; implies `--kernels`
    #[arg(long)]
    kernels_page: Option<PathBuf>,
    /// Append the results to the records in `benches/results`, a line per case
    #[arg(long)]
    record: bool,
    /// Measure peak memory, of peers in Python too: above an idle process with inputs and code loaded (Linux)
    #[arg(long)]
    memory: bool,
    /// Print the peak memory of the case with this name; how `--memory` starts this program
    #[arg(long, hide = true)]
    memory_of: Option<String>,
    /// Run the case with this name and write a line on standard error after each run; for `cargo xtask arm64
    /// --count`, which counts instructions
    #[arg(long, hide = true)]
    runs_of: Option<String>,
    /// Check every case but time it only once
    #[arg(long)]
    smoke: bool,
    /// Continue after a case that fails; the run fails at its end
    #[arg(long)]
    keep_going: bool,
    /// Describe the cases and measure nothing
    #[arg(long)]
    describe: bool,
}

/// The whole program: reads the arguments of the process, measures, prints results on standard output and
/// errors on standard error.
pub fn main() -> ExitCode {
    match run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has enough of it, as in `benches … | head`. The signal that ends other
        // programs then would end this one too when the process of a peer dies.
        Err(error) if is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", arrayjit::message_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Measures as the arguments say, of which the first is the name of the program. Arguments that are settings
/// of arrayjit are left out. Wrong arguments, and `--help`, end the process.
///
/// # Errors
///
/// A backend or peer that does not open, a filter that selects no case, a case that fails or computes a wrong
/// result, and files that cannot be read or written.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<()> {
    let is_setting = |arg: &OsString| Settings::is_argument(&arg.to_string_lossy());
    measure_all(&Cli::parse_from(args.into_iter().filter(|arg| !is_setting(arg))))
}

fn measure_all(cli: &Cli) -> Result<()> {
    if !cli.scaling.is_empty() {
        let reports = cli.scaling.iter().map(|file| report::read(file)).collect::<Result<_>>()?;
        write!(stdout(), "{}", report::scaling::table(reports))?;
        return Ok(());
    }
    let earlier = cli.against.as_deref().map(report::read).transpose()?;
    let backend = open(cli)?;
    if let Some(name) = &cli.memory_of {
        return resident::print_peak(&backend, &cases::all(), name);
    }
    if let Some(name) = &cli.runs_of {
        return resident::mark_runs(&backend, &cases::all(), name);
    }
    let measuree = MeasuredDevice::of(&backend);
    if cli.describe {
        writeln!(stdout(), "{measuree}")?;
        return Ok(());
    }
    let gpu = device::cuda_ordinal(&backend);
    let mut selected = cases::selected(&cli.filter, gpu.is_some());
    let is_selected = |case: &streams::StreamCase| cases::is_selected(case.name, &cli.filter);
    let mut streams: Vec<_> = streams::all().into_iter().filter(is_selected).collect();
    let is_data_parallel = measuree.is_host
        && data_parallel::divides(cli.threads)
        && cases::is_selected(data_parallel::NAME, &cli.filter);
    ensure!(
        selected.len() + streams.len() + usize::from(is_data_parallel) > 0,
        "no case for this device has a name that contains `{}`",
        cli.filter.join("`, `")
    );
    if let Some(earlier) = &earlier {
        earlier.check_comparable(&measuree)?;
    }
    writeln!(stdout(), "{measuree}: {} thread(s)", cli.threads)?;
    let machine = measuree.is_host.then(|| machine::Machine::measure(cli.threads, cli.smoke));
    machine.iter().try_for_each(|machine| writeln!(stdout(), "{machine}"))?;
    let roofline = match &machine {
        Some(machine) => machine.roofline(&backend, cli.threads, cli.smoke),
        None => measuree.is_gpu().then(|| backend.roofline()).flatten(),
    };
    roofline.iter().try_for_each(|roofline| writeln!(stdout(), "{roofline}"))?;
    let limits = machine.as_ref().zip(roofline.as_ref());
    let roofline_of_bytes = limits.and_then(|(machine, roofline)| machine.roofline_of_bytes(roofline));
    let overhead = Overhead::measure(&backend)?;
    writeln!(stdout(), "{overhead}")?;
    let mut peers = peers::open(&cli.peers, cli.threads, gpu)?;
    let rivals = rivals::open(&cli.peers, backend.settings())?;
    let tuned = cli.tune.as_deref().map(|file| TunedBackend::open(file, &backend)).transpose()?;
    let sample = if measuree.is_host { contest::Sample::HOST } else { contest::Sample::GPU };
    let mut results = report::Report::new(cli.threads, measuree, overhead, machine, &peers);
    results.add_rivals(&rivals);
    let by_hand = cli.peers.iter().any(|name| name == peers::BY_HAND);
    if by_hand {
        results.add_peer(peers::BY_HAND);
    }
    if is_data_parallel {
        results.add_peer(data_parallel::ONE_STREAM);
    }
    results.set_roofline(roofline.clone());
    if cli.idle && results.is_about_host() {
        let idle = idle::IdleCost::measure(&backend)?;
        idle.iter().try_for_each(|idle| writeln!(stdout(), "{idle}"))?;
        results.set_idle(idle);
    }
    if let Some(file) = cli.json.as_deref().filter(|file| cli.resume && file.exists()) {
        results.resume(report::read(file)?)?;
        selected.retain(|case| !results.has(case.name));
        selected.sort_by_key(|case| results.has_begun(case.name));
        streams.retain(|case| !results.has(case.name));
    }
    let is_data_parallel = is_data_parallel && !results.has(data_parallel::NAME);
    if tuned.is_some() {
        results.add_tuned();
    }

    writeln!(stdout(), "{}", results.heading())?;
    for (name, measured) in results.in_order() {
        writeln!(stdout(), "{}", results.line(name, measured, None))?;
    }
    let effort = if cli.smoke { measure::Effort::Smoke } else { measure::Effort::Full };
    let roofline = roofline.as_ref();
    let (backend, rivals) = (&backend, &rivals[..]);
    let (threads, memory) = (cli.threads, cli.memory);
    let tuned = tuned.as_ref();
    let keep_going = cli.keep_going;
    let setup = measure::Setup {
        backend,
        tuned,
        rivals,
        by_hand,
        threads,
        is_host: results.is_about_host(),
        roofline,
        roofline_of_bytes: roofline_of_bytes.as_ref(),
        sample,
        effort,
        memory,
        keep_going,
    };
    let is_profiled = cli.kernels || cli.kernels_page.is_some();
    let profiler = is_profiled.then(|| kernels::Profiler::open(backend)).transpose()?;
    let mut profiles = Vec::new();
    let mut failures = Vec::new();
    // After every case, so that an interrupted run leaves its results.
    let write = |results: &report::Report| cli.json.as_deref().map_or(Ok(()), |path| results.write(path));
    let mut report = |name: &str, measure: &mut dyn FnMut() -> Result<MeasuredCase>| -> Result<()> {
        results.begin(name);
        write(&results)?;
        match measure() {
            Ok((measured, profile)) => {
                writeln!(stdout(), "{}", results.line(name, &measured, earlier.as_ref()))?;
                profile.iter().try_for_each(|profile| write!(stdout(), "{}", profile.to_table()))?;
                for (peer, error) in &measured.failed_peers {
                    writeln!(stdout(), "{name:<24} peer `{peer}` FAILED: {error}")?;
                    failures.push(format!("{name} of peer {peer}"));
                }
                results.insert(name, measured);
                if let Some(profile) = profile {
                    results.insert_kernels(name, &profile)?;
                    profiles.push(profile);
                }
            }
            Err(error) if cli.keep_going => {
                writeln!(stdout(), "{name:<24} FAILED: {error:#}")?;
                failures.push(name.to_owned());
            }
            Err(error) => return Err(error),
        }
        write(&results)
    };
    for case in &selected {
        report(case.name, &mut || {
            let measured = measure::measure(&setup, case, &mut peers)?;
            let profile = |profiler: &kernels::Profiler| profiler.profile(case, roofline, effort);
            Ok((measured, profiler.as_ref().map(profile).transpose()?))
        })?;
    }
    for case in &streams {
        report(case.name, &mut || Ok((streams::measure(backend, case, effort)?, None)))?;
    }
    if is_data_parallel {
        report(data_parallel::NAME, &mut || Ok((data_parallel::measure(backend, threads, effort)?, None)))?;
    }
    write!(stdout(), "{}", results.costs())?;
    write!(stdout(), "{}", results.summary())?;
    if let Some(path) = &cli.kernels_page {
        std::fs::write(path, Profile::page(&profiles))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    if let Some(path) = &cli.report {
        if results.is_about_host() {
            results.set_growth(growth::measure(backend, cli.smoke)?);
        }
        results.write_page(path)?;
    }
    if cli.record {
        writeln!(stdout(), "recorded in {}", results.record()?.display())?;
    }
    ensure!(failures.is_empty(), "{} case(s) failed: {}", failures.len(), failures.join(", "));
    Ok(())
}

/// The figures of a case, and the profile of its kernel calls if it is asked for.
type MeasuredCase = (measure::Measured, Option<Profile>);

fn open(cli: &Cli) -> Result<Backend> {
    let mut settings = Settings::load()?.settings;
    settings.threads = cli.threads;
    settings.code_cache_bytes = 0;
    settings.narrow_gradients = true;
    if let Some(name) = &cli.backend {
        settings.backend.clone_from(name);
    }
    Ok(Backend::open_with(&settings.backend, &settings)?)
}
