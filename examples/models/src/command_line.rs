//! The command line of the program: runs an example and prints its results.
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use arrayjit_collectives::{BucketSizes, HostGroup, Transport};
use arrayjit_tensor::{Backend, Settings, profile::Profile, session};
use clap::{Args, Parser, Subcommand};
use digits::command_line::traced;

use crate::{char_gpt, fft, heat, lenet, mandelbrot, mlp, picture, ranks::RankSource, resnet};

#[derive(Parser)]
#[command(name = "models", about = "Small simulations and models on arrayjit-tensor")]
struct Cli {
    #[command(subcommand)]
    example: Example,
    #[command(flatten)]
    options: Options,
}

/// The options of all examples.
#[derive(Args)]
struct Options {
    /// A backend by name, such as multicore, inline, wgpu or cuda (each in builds that have it)
    #[arg(long, global = true, default_value = "multicore")]
    backend: String,
    /// The folder for pictures
    #[arg(long, global = true, default_value = "target/models")]
    out: PathBuf,
    /// Writes a page with the time of each kernel call to this file
    #[arg(long, global = true)]
    profile: Option<PathBuf>,
    /// The seed of data and initial weights
    #[arg(long, global = true, default_value_t = 1)]
    seed: u32,
}

#[derive(Subcommand)]
enum Example {
    /// 1,000 steps of the heat equation, as heat.png
    Heat,
    /// The Mandelbrot set, as mandelbrot.png
    Mandelbrot,
    /// Three tones in noise, found by a fast Fourier transform
    Fft,
    /// A network that separates two moons, as mlp.svg
    Mlp,
    /// LeNet on handwritten digits, with five seeds
    Lenet,
    /// A residual network on made pictures
    Resnet,
    /// A small GPT that learns a text and continues it
    CharGpt(CharGptArgs),
}

/// The options of the GPT.
#[derive(Args)]
struct CharGptArgs {
    /// Training steps
    #[arg(long, default_value_t = char_gpt::OPTIONS.steps)]
    steps: usize,
    /// Windows of the text in a step
    #[arg(long, default_value_t = char_gpt::OPTIONS.batch)]
    batch: usize,
    /// Goes on from this file if it exists, and writes it every 100 steps and at the end
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Divides each step over ranks: this number of threads, or `mpi` for the processes that `mpirun` started
    /// (in builds with the feature `mpi`)
    #[arg(long)]
    ranks: Option<RankSource>,
    /// The bytes of gradients that ranks sum together
    #[arg(long, default_value_t = 64 << 10)]
    bucket_bytes: usize,
    /// Divides the state of the optimizer over the ranks
    #[arg(long)]
    sharded: bool,
    /// Writes a timeline to this file, for ui.perfetto.dev or chrome://tracing, with the tracks of all ranks
    #[arg(long)]
    trace: Option<PathBuf>,
}

/// The whole program: reads the arguments of the process, runs the example, and prints errors on standard
/// error.
pub fn main() -> ExitCode {
    sigpipe::reset();
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", arrayjit_tensor::message_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let options = &cli.options;
    if let Example::CharGpt(args) = &cli.example {
        return char_gpt_on_ranks(options, args);
    }
    let start = Instant::now();
    let backend = open(options)?;
    match &cli.example {
        Example::Heat => run_heat(options, &backend)?,
        Example::Mandelbrot => run_mandelbrot(options, &backend)?,
        Example::Fft => run_fft(options, &backend)?,
        Example::Mlp => run_mlp(options, &backend)?,
        Example::Lenet => run_lenet(options, &backend)?,
        Example::Resnet => run_resnet(options, &backend)?,
        Example::CharGpt(_) => {}
    }
    finish(options, &backend, start)
}

/// Writes the profile, if one is asked for, and prints the time.
fn finish(options: &Options, backend: &Backend, start: Instant) -> Result<()> {
    if let Some(path) = &options.profile {
        write_profile(path, backend.take_profiles())?;
    }
    println!("{:.2} s in all on {}", start.elapsed().as_secs_f64(), backend.name());
    Ok(())
}

/// Opens the backend, which collects profiles if a page is asked for.
fn open(cli: &Options) -> Result<Backend> {
    if cli.profile.is_none() {
        return Ok(Backend::open(&cli.backend)?);
    }
    let mut settings = Settings::load()?.settings;
    settings.debugging.profile = true;
    let backend = Backend::open_with(&cli.backend, &settings)?;
    backend.collect_profiles();
    Ok(backend)
}

/// Writes the page, with the routines that took the most time first.
fn write_profile(path: &Path, mut profiles: Vec<Profile>) -> Result<()> {
    let total = |profile: &Profile| profile.run_time.map_or(0., |time| time.total_us);
    profiles.sort_by(|a, b| total(b).total_cmp(&total(a)));
    std::fs::write(path, Profile::page(&profiles)).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

fn run_heat(cli: &Options, backend: &Backend) -> Result<()> {
    const SIZE: usize = 256;
    const STEPS: usize = 1000;
    let plate = heat::simulate(backend, SIZE, STEPS)?;
    let error = largest_difference(&plate, &heat::exact(SIZE, STEPS));
    println!("{STEPS} steps on {SIZE} x {SIZE} points; at most {error:.1e} from the closed form");
    let path = cli.out.join("heat.png");
    picture::write_png(&path, SIZE, &plate)?;
    println!("{}", path.display());
    Ok(())
}

fn run_mandelbrot(cli: &Options, backend: &Backend) -> Result<()> {
    const LIMIT: usize = 400;
    let (width, height) = (1024, 768);
    let counts = mandelbrot::iterations(backend, width, height, LIMIT)?;
    let inside = counts.iter().filter(|&&count| count == LIMIT as f64).count();
    println!("{width} x {height} points, {inside} of them within radius 2 after {LIMIT} iterations");
    let shade = |&count: &f64| if count < LIMIT as f64 { (count / LIMIT as f64).powf(0.4) } else { 0.0 };
    let path = cli.out.join("mandelbrot.png");
    picture::write_png(&path, width, &counts.iter().map(shade).collect::<Vec<_>>())?;
    println!("{}", path.display());
    Ok(())
}

fn run_fft(cli: &Options, backend: &Backend) -> Result<()> {
    let spectra = fft::spectra(backend, 2048, cli.seed.into())?;
    for frequency in fft::peaks(&spectra.fast, fft::TONES.len()) {
        println!("frequency {frequency}: amplitude {:.3}", spectra.fast[frequency]);
    }
    let error = largest_difference(&spectra.fast, &spectra.slow);
    println!("2,048 samples; at most {error:.1e} from the transform by its definition");
    Ok(())
}

fn run_mlp(cli: &Options, backend: &Backend) -> Result<()> {
    let moons = mlp::two_moons(400, 0.15, cli.seed.into());
    let trained = mlp::train(backend, &moons, 500, cli.seed)?;
    let others = mlp::two_moons(400, 0.15, u64::from(cli.seed) + 1);
    println!("{:.1} % of other points are classified correctly", 100. * trained.accuracy(&others)?);
    let path = cli.out.join("mlp.svg");
    std::fs::create_dir_all(&cli.out)?;
    std::fs::write(&path, trained.svg(&moons)?)?;
    println!("{}", path.display());
    Ok(())
}

fn run_lenet(cli: &Options, backend: &Backend) -> Result<()> {
    let mut sum = 0.;
    for seed in cli.seed..cli.seed + 5 {
        let accuracy = lenet::train(backend, lenet::Options { epochs: lenet::EPOCHS, seed })?;
        println!("seed {seed}: {:.2} % of the test images", 100. * accuracy);
        sum += accuracy;
    }
    println!("mean: {:.2} %", 20. * sum);
    Ok(())
}

fn run_resnet(cli: &Options, backend: &Backend) -> Result<()> {
    let options = resnet::Options { seed: cli.seed, ..resnet::OPTIONS };
    let trained = resnet::train(backend, options)?;
    println!("{} steps; {:.1} % of other pictures", trained.losses.len(), 100. * trained.accuracy);
    Ok(())
}

/// Runs the GPT alone, or on ranks, of which each opens a backend of its own.
fn char_gpt_on_ranks(cli: &Options, args: &CharGptArgs) -> Result<()> {
    let trace = args.trace.as_deref();
    match args.ranks {
        None => traced(trace, || run_char_gpt(cli, args, None)),
        Some(ranks) => ranks.run(trace, |transport| run_char_gpt(cli, args, Some(transport))),
    }
}

fn run_char_gpt(cli: &Options, args: &CharGptArgs, transport: Option<Box<dyn Transport>>) -> Result<()> {
    let start = Instant::now();
    let backend = open(cli)?;
    let is_first = transport.as_ref().is_none_or(|transport| transport.rank() == 0);
    let group =
        transport.map(|transport| anyhow::Ok(Arc::new(HostGroup::new(transport, backend.new_stream()?))));
    let group = group.transpose()?;
    let ranks = group.clone().map(|group| {
        let buckets = BucketSizes { first: args.bucket_bytes, others: args.bucket_bytes };
        session::Ranks::new(group).buckets(buckets).sharded_optimizer(args.sharded)
    });
    let options =
        char_gpt::Options { seed: cli.seed, steps: args.steps, batch: args.batch, ..char_gpt::OPTIONS };
    let trained = char_gpt::train_on(&backend, options, ranks, args.checkpoint.as_deref())?;
    if !is_first {
        return Ok(());
    }
    match trained.losses.len() {
        0 => println!("nothing to train: all {} steps are done", args.steps),
        steps => println!("{steps} steps; {:.3} nats per letter at the end", trained.final_loss()),
    }
    print_speed(&trained, group.as_deref());
    println!("{}", trained.writer()?.write("Unless required by applicable law", cli.seed.into())?.text);
    finish(cli, &backend, start)
}

/// Prints the time of a step without the first ones, and that of its exchanges.
fn print_speed(trained: &char_gpt::Trained, group: Option<&HostGroup>) {
    let Some(step) = trained.seconds_per_step else { return };
    println!("{:.2} ms for a step", 1e3 * step);
    if let Some(group) = group {
        let statistics = group.statistics();
        let per_step = |time: Duration| 1e3 * time.as_secs_f64() / trained.losses.len() as f64;
        println!(
            "{} exchanges; for a step, {:.2} ms of waiting for ranks and {:.2} ms of exchange, beside the routines",
            statistics.operations,
            per_step(statistics.waiting),
            per_step(statistics.exchanging)
        );
    }
}

/// The largest distance of two elements at the same place.
pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0., f64::max)
}
