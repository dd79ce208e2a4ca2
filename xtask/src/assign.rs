//! `cargo xtask assign`: prints what a program in assignment text means.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use assignments::text::Program;

/// Options of `cargo xtask assign`.
#[derive(clap::Args)]
pub struct AssignArgs {
    #[command(subcommand)]
    task: AssignTask,
}

#[derive(clap::Subcommand)]
enum AssignTask {
    /// Print the statements of a program: sizes as numbers, repetitions unrolled, calls inlined.
    Expand {
        /// A file of assignment text.
        file: PathBuf,
        /// A size and its value, such as `batch=32`.
        #[arg(long = "size", value_name = "NAME=VALUE")]
        sizes: Vec<String>,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// If the file cannot be read, or is no valid program. The error shows the line.
pub fn run(args: &AssignArgs) -> Result<()> {
    match &args.task {
        AssignTask::Expand { file, sizes } => print!("{}", expand(file, sizes)?),
    }
    Ok(())
}

/// The expanded program of a file, as text.
///
/// # Errors
/// If the file cannot be read, or is no valid program. The error shows the line.
pub fn expand(file: &Path, sizes: &[String]) -> Result<String> {
    Ok(program(file, sizes)?.expand().with_context(|| file.display().to_string())?.to_string())
}

/// The program of a file, with sizes bound.
fn program(file: &Path, sizes: &[String]) -> Result<Program> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let program = Program::parse(&text).with_context(|| file.display().to_string())?;
    sizes.iter().try_fold(program, |program, size| {
        let (name, value) =
            size.split_once('=').ok_or_else(|| anyhow!("expected `--size NAME=VALUE`, found `{size}`"))?;
        let value = value.parse().with_context(|| format!("`--size {size}`"))?;
        Ok(program.bind(name, value)?)
    })
}
