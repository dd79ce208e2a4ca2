//! Repeats runs of `.lir` files on any backend, and reduces runs on which backends disagree.
//!
//! `cargo xtask lir replay FILE --backend NAME` runs each `; run:` line of a file on a backend and compares
//! the results with the line's expectations and with the digests of a [capsule](arrayjit::capsule). `cargo
//! xtask lir reduce FILE --with NAME,NAME` makes the smallest run on which two backends still differ.
//!
//! A crate with a backend of its own makes the same program for it:
//!
//! ```no_run
//! # mod mybackend {
//! #     arrayjit::register_backend!("mybackend", "an example", |_| Err("has no device".into()));
//! # }
//! use mybackend as _; // a crate that contains `arrayjit::register_backend!("mybackend", …)`
//!
//! fn main() -> std::process::ExitCode {
//!     lir_replay::main() // replay FILE --backend mybackend
//! }
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line program talks on standard output")]

mod device_run; // a run on a backend's device
mod reduce; // smaller runs on which backends differ
mod replay; // comparison with expectations and digests

use std::{ffi::OsString, fs, path::Path, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, anyhow, ensure};
use arrayjit::{Backend, Settings};
use clap::Parser;
use filetests::RunCase;

#[derive(Parser)]
#[command(name = "cargo xtask lir", about = "Repeats and reduces runs of .lir files")]
enum Cli {
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
    match run(std::env::args_os()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Replays or reduces as the arguments say, and returns the text to print. The first argument is the name of
/// the program. Wrong arguments, and `--help`, end the process.
///
/// # Errors
///
/// A file that does not parse or has no run, a backend that does not open, runs that differ from what the
/// file expects, and a file without a run on which the backends differ.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<String> {
    let is_setting = |arg: &OsString| Settings::is_argument(&arg.to_string_lossy());
    match Cli::parse_from(args.into_iter().filter(|arg| !is_setting(arg))) {
        Cli::Replay { file, backend } => {
            let (text, cases) = read(&file)?;
            replay::replay(&text, &cases, &Backend::open(&backend)?)
        }
        Cli::Reduce { file, with } => {
            let open = |name: &String| -> Result<Backend> { Ok(Backend::open(name)?) };
            let backends = with.iter().map(open).collect::<Result<Vec<_>>>()?;
            reduce::reduce(read(&file)?.1, &backends)
        }
    }
}

/// The text of a file and its runs, at least one.
fn read(path: &Path) -> Result<(String, Vec<RunCase>)> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let cases = RunCase::parse_all(path, &text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    ensure!(!cases.is_empty(), "{} has no `; run:` line that expects results", path.display());
    Ok((text, cases))
}
