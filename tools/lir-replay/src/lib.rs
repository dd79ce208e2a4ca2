#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

mod bisect; // the first pass that changes results
mod device_run;
mod reduce;
mod replay;

use std::{ffi::OsString, fs, path::Path, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, anyhow, ensure};
use arrayjit::{Backend, Settings, capsule::CapsuleCompilation};
use clap::Parser;
use filetests::RunCase;

#[derive(Parser)]
#[command(name = "cargo xtask lir", about = "Repeats, reduces and bisects runs of .lir files")]
enum Cli {
    /// Interpret each `; run:` line after every pass, and name the first pass that changes the results
    Bisect {
        /// A `.lir` file, such as a capsule
        file: PathBuf,
        /// The backend for whose target to schedule, by name, instead of the target of the capsule
        #[arg(long)]
        backend: Option<String>,
    },
    /// Run each `; run:` line on a backend, and compare with its expectations and with the digests of a
    /// capsule
    Replay {
        /// A `.lir` file, such as a capsule
        file: PathBuf,
        /// The backend, by name
        #[arg(long)]
        backend: String,
    },
    /// Print the smallest run, made of the first `; run:` line on which two backends differ, on which they
    /// still do
    Reduce {
        /// A `.lir` file, such as a capsule
        file: PathBuf,
        /// Two backends by name, or one to compare with the definition
        #[arg(long, value_delimiter = ',', num_args = 1..=2, required = true)]
        with: Vec<String>,
    },
}

/// The whole program: reads the arguments of the process, prints the result on standard output and errors on
/// standard error.
pub fn main() -> ExitCode {
    sigpipe::reset();
    match run(std::env::args_os()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", arrayjit::message_with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Runs the task of the arguments, and returns the text to print. The first argument is the name of the
/// program. Wrong arguments, and `--help`, end the process.
///
/// # Errors
///
/// A file that does not parse or has no run, a backend that does not open, runs that differ from what the
/// file expects, a file without a run on which the backends differ, and a wrong pass.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<String> {
    let is_setting = |arg: &OsString| Settings::is_argument(&arg.to_string_lossy());
    match Cli::parse_from(args.into_iter().filter(|arg| !is_setting(arg))) {
        Cli::Bisect { file, backend } => {
            let LirFile { compilation, cases, .. } = LirFile::read(&file)?;
            let named = |name: String| -> Result<_> {
                Ok(Backend::open_with(&name, &compilation.settings()?.settings)?.codegen().caps().clone())
            };
            let target = backend.map(named).transpose()?.or_else(|| compilation.caps().cloned());
            bisect::bisect(&cases, &compilation.settings()?.settings, target.as_ref())
        }
        Cli::Replay { file, backend } => {
            let LirFile { text, compilation, cases } = LirFile::read(&file)?;
            replay::replay(&text, &cases, &device_run::open(&backend, &compilation)?)
        }
        Cli::Reduce { file, with } => {
            let LirFile { compilation, cases, .. } = LirFile::read(&file)?;
            let open = |name: &String| device_run::open(name, &compilation);
            let backends = with.iter().map(open).collect::<Result<Vec<_>>>()?;
            reduce::reduce(cases, &compilation, &backends)
        }
    }
}

/// A `.lir` file with runs.
struct LirFile {
    text: String,
    compilation: CapsuleCompilation,
    /// The runs, at least one.
    cases: Vec<RunCase>,
}

impl LirFile {
    fn read(path: &Path) -> Result<LirFile> {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
        let cases = RunCase::parse_all(path, &text).map_err(|error| anyhow!("{shown}: {error}"))?;
        ensure!(!cases.is_empty(), "{shown} has no `; run:` line that expects results");
        let compilation = CapsuleCompilation::parse(&text).with_context(|| shown.to_string())?;
        Ok(LirFile { text, compilation, cases })
    }
}
