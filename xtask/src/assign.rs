//! `cargo xtask assign`: prints the statements and nodes of a program in assignment text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use assignment_text::{Program, ProgramReport, unparse};
use assignments::lower::{LowerOptions, lower};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use tnode::MemoryMode;

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
        /// Print the statements that compute gradients too, and the declarations of all nodes.
        #[arg(long)]
        grad: bool,
    },
    /// Print the element type, dimensions and memory mode of every name, and the ranges of the letters of
    /// every statement.
    Check {
        /// A file of assignment text that declares its inputs.
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
#[allow(clippy::print_stdout, reason = "a command line program talks on standard output")]
pub fn run(args: &AssignArgs) -> Result<()> {
    match &args.task {
        AssignTask::Expand { file, sizes, grad: false } => print!("{}", expand(file, sizes)?),
        AssignTask::Expand { file, sizes, grad: true } => print!("{}", differentiate(file, sizes)?),
        AssignTask::Check { file, sizes } => print!("{}", check(file, sizes)?),
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

/// The program of a file with its gradients as statements, as text that declares all nodes.
///
/// # Errors
/// If the file cannot be read, is no valid program, or has no gradient. The error shows the line.
pub fn differentiate(file: &Path, sizes: &[String]) -> Result<String> {
    Ok(unparse(&differentiated(file, sizes)?.assignments))
}

/// The report about the program of a file, whose gradients are replaced by accumulations.
fn differentiated(file: &Path, sizes: &[String]) -> Result<ProgramReport> {
    let in_file = || file.display().to_string();
    let mut report = program(file, sizes)?.report(&[]).with_context(in_file)?;
    autodiff::expand(&mut report.assignments).with_context(in_file)?;
    Ok(report)
}

/// The names of a program with their element types, dimensions and memory modes, then its statements with the
/// ranges of their letters. The modes are those of the program compiled alone.
///
/// # Errors
/// If the file cannot be read, is no valid program, or cannot be compiled. The error shows the line.
pub fn check(file: &Path, sizes: &[String]) -> Result<String> {
    let in_file = || file.display().to_string();
    let report = differentiated(file, sizes)?;
    let lowered = lower(&report.assignments, &LowerOptions::default()).with_context(in_file)?.lowered;
    let optimized = optimize(lowered.routine, &OptimizeSettings::default()).with_context(in_file)?.routine;
    let modes: BTreeMap<_, _> = lowered
        .nodes
        .iter()
        .zip(&optimized.nodes)
        .map(|(node, decl)| (node, decl.mode.mode().map_or("open", MemoryMode::token)))
        .collect();
    let mut text = String::new();
    for (name, node) in report.assignments.text_nodes.by_name() {
        let dims: Vec<String> = node.dims_without_padding()?.iter().map(usize::to_string).collect();
        let mode = modes.get(node).map_or("not used", |mode| mode);
        text += &format!("{name} {}[{}]  # {mode}\n", node.dtype().token(), dims.join(", "));
    }
    text += "\n";
    report.statements.iter().for_each(|statement| text += &format!("{statement}\n"));
    Ok(text)
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
