//! The command line of the program: runs an example and prints its results.
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result};
use arrayjit_tensor::{Backend, Settings, profile::Profile};
use clap::{Parser, ValueEnum};

use crate::{char_gpt, fft, heat, lenet, mandelbrot, mlp, picture, resnet};

#[derive(Parser)]
#[command(name = "models", about = "Small simulations and models on arrayjit-tensor")]
struct Cli {
    /// The example to run
    example: Example,
    /// A backend by name, such as multicore, inline, wgpu or cuda (each in builds that have it)
    #[arg(long, default_value = "multicore")]
    backend: String,
    /// The folder for pictures
    #[arg(long, default_value = "target/models")]
    out: PathBuf,
    /// Writes a page with the time of each kernel call to this file
    #[arg(long)]
    profile: Option<PathBuf>,
    /// The seed of data and initial weights
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

#[derive(Clone, Copy, ValueEnum)]
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
    CharGpt,
}

/// The whole program: reads the arguments of the process, runs the example, and prints errors on standard
/// error.
pub fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let start = Instant::now();
    let backend = open(cli)?;
    match cli.example {
        Example::Heat => run_heat(cli, &backend)?,
        Example::Mandelbrot => run_mandelbrot(cli, &backend)?,
        Example::Fft => run_fft(cli, &backend)?,
        Example::Mlp => run_mlp(cli, &backend)?,
        Example::Lenet => run_lenet(cli, &backend)?,
        Example::Resnet => run_resnet(cli, &backend)?,
        Example::CharGpt => run_char_gpt(cli, &backend)?,
    }
    if let Some(path) = &cli.profile {
        write_profile(path, backend.take_profiles())?;
    }
    println!("{:.2} s in all on {}", start.elapsed().as_secs_f64(), backend.name());
    Ok(())
}

/// Opens the backend, which collects profiles if a page is asked for.
fn open(cli: &Cli) -> Result<Backend> {
    if cli.profile.is_none() {
        return Ok(Backend::open(&cli.backend)?);
    }
    let mut settings = Settings::load()?.settings;
    settings.debugging.profile = true;
    let backend = Backend::open_with(&cli.backend, settings)?;
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

fn run_heat(cli: &Cli, backend: &Backend) -> Result<()> {
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

fn run_mandelbrot(cli: &Cli, backend: &Backend) -> Result<()> {
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

fn run_fft(cli: &Cli, backend: &Backend) -> Result<()> {
    let spectra = fft::spectra(backend, 2048, cli.seed.into())?;
    for frequency in fft::peaks(&spectra.fast, fft::TONES.len()) {
        println!("frequency {frequency}: amplitude {:.3}", spectra.fast[frequency]);
    }
    let error = largest_difference(&spectra.fast, &spectra.slow);
    println!("2,048 samples; at most {error:.1e} from the transform by its definition");
    Ok(())
}

fn run_mlp(cli: &Cli, backend: &Backend) -> Result<()> {
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

fn run_lenet(cli: &Cli, backend: &Backend) -> Result<()> {
    let mut sum = 0.;
    for seed in cli.seed..cli.seed + 5 {
        let accuracy = lenet::train(backend, lenet::Options { epochs: lenet::EPOCHS, seed })?;
        println!("seed {seed}: {:.2} % of the test images", 100. * accuracy);
        sum += accuracy;
    }
    println!("mean: {:.2} %", 20. * sum);
    Ok(())
}

fn run_resnet(cli: &Cli, backend: &Backend) -> Result<()> {
    let options = resnet::Options { seed: cli.seed, ..resnet::OPTIONS };
    let trained = resnet::train(backend, options)?;
    println!("{} steps; {:.1} % of other pictures", trained.losses.len(), 100. * trained.accuracy);
    Ok(())
}

fn run_char_gpt(cli: &Cli, backend: &Backend) -> Result<()> {
    let options = char_gpt::Options { seed: cli.seed, ..char_gpt::OPTIONS };
    let trained = char_gpt::train(backend, options)?;
    println!("{} steps; {:.3} nats per letter at the end", trained.losses.len(), trained.final_loss());
    println!("{}", trained.writer()?.write("Unless required by applicable law", cli.seed.into())?);
    Ok(())
}

/// The largest distance of two elements at the same place.
pub fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0., f64::max)
}
