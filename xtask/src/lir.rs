//! `cargo xtask lir`: prints, checks, transforms and runs the routines of a `.lir` file with the tools of the
//! tests.

mod diff; // differences between dumps
mod replay;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use filetests::{File, run_line::RunLine};
use lowered_ir::{
    passes, pipeline,
    text::{ParsedRoutine, print},
    verify::verify,
};

/// Options of `cargo xtask lir`.
#[derive(clap::Args)]
pub(crate) struct LirArgs {
    #[command(subcommand)]
    task: LirTask,
}

#[derive(clap::Subcommand)]
enum LirTask {
    /// Print each routine in the printer's form.
    Cat {
        /// A `.lir` file.
        file: PathBuf,
    },
    /// Check each routine against the verifier's rules.
    Verify {
        /// A `.lir` file.
        file: PathBuf,
    },
    /// Print each routine after passes, in order; `optimize` means all of them.
    Pass {
        /// Names of passes, joined by commas.
        names: String,
        /// A `.lir` file.
        file: PathBuf,
    },
    /// Interpret each `; run:` line, and print the final contents of the nodes.
    Run {
        /// A `.lir` file.
        file: PathBuf,
    },
    /// Interpret each `; run:` line after every pass, and name the first pass that changes the results.
    Bisect {
        /// A `.lir` file, such as a capsule.
        file: PathBuf,
        /// The backend for whose target to schedule, by name, instead of the target of the capsule.
        #[arg(long)]
        backend: Option<String>,
        /// Settings that override those of the capsule, as `--arrayjit-KEY=VALUE` behind `--`.
        #[arg(last = true)]
        settings: Vec<String>,
    },
    /// Run each `; run:` line on a backend, and compare with its expectations and with the digests of a
    /// capsule.
    Replay {
        /// A `.lir` file, such as a capsule.
        file: PathBuf,
        /// The backend, by name.
        #[arg(long)]
        backend: String,
        /// Settings that override those of the capsule, as `--arrayjit-KEY=VALUE` behind `--`.
        #[arg(last = true)]
        settings: Vec<String>,
    },
    /// Print the smallest run, made of the first `; run:` line on which two backends differ, on which they
    /// still do.
    Reduce {
        /// A `.lir` file, such as a capsule.
        file: PathBuf,
        /// Two backends by name, or one to compare with the definition.
        #[arg(long, value_delimiter = ',', required = true)]
        with: Vec<String>,
        /// Settings that override those of the capsule, as `--arrayjit-KEY=VALUE` behind `--`.
        #[arg(last = true)]
        settings: Vec<String>,
    },
    /// Compare two dumps: two `.lir` files, or two folders of the setting `dump_folder`.
    Diff {
        /// A file or a folder.
        old: PathBuf,
        /// A file or a folder.
        new: PathBuf,
    },
}

/// Runs the subcommand.
pub(crate) fn run(args: &LirArgs) -> Result<()> {
    match &args.task {
        LirTask::Cat { file } => each(file, |parsed| Ok(print(&parsed.routine))),
        LirTask::Verify { file } => each(file, |parsed| {
            verify(&parsed.routine)?;
            Ok(format!("routine @{} keeps every rule\n", parsed.routine.name))
        }),
        LirTask::Pass { names, file } => each(file, |parsed| {
            verify(&parsed.routine)?;
            names.split(',').try_fold(parsed, pass).map(|p| print(&p.routine))
        }),
        LirTask::Run { file } => run_lines(&read(file)?),
        LirTask::Bisect { file, backend, settings } => {
            replay::run("bisect", file, "--backend", backend.as_slice(), settings)
        }
        LirTask::Replay { file, backend, settings } => {
            replay::run("replay", file, "--backend", std::slice::from_ref(backend), settings)
        }
        LirTask::Reduce { file, with, settings } => replay::run("reduce", file, "--with", with, settings),
        LirTask::Diff { old, new } => {
            let differences = diff::diff(old, new)?;
            print!("{differences}");
            if differences.is_empty() { Ok(()) } else { bail!("the dumps differ") }
        }
    }
}

fn read(path: &Path) -> Result<File> {
    File::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Prints the result of `f` for each routine of a file.
fn each(path: &Path, f: impl Fn(ParsedRoutine) -> Result<String>) -> Result<()> {
    for parsed in read(path)?.routines().with_context(|| format!("in {}", path.display()))? {
        let line = parsed.lines.routine;
        print!("{}", f(parsed).with_context(|| format!("{}, routine on line {line}", path.display()))?);
    }
    Ok(())
}

fn pass(mut parsed: ParsedRoutine, name: &str) -> Result<ParsedRoutine> {
    if name == "optimize" {
        parsed.routine = pipeline::optimize(parsed.routine, &passes::OptimizeSettings::default())?.routine;
        return Ok(parsed);
    }
    let known = || passes::PASSES.iter().map(|pass| pass.name).collect::<Vec<_>>().join(", ");
    let run = passes::by_name(name)
        .ok_or_else(|| anyhow!("there is no pass `{name}`; known are optimize, {}", known()))?;
    run(&mut parsed.routine)?;
    verify(&parsed.routine).with_context(|| format!("after {name}:\n{}", print(&parsed.routine)))?;
    Ok(parsed)
}

fn run_lines(file: &File) -> Result<()> {
    let mut wrong = 0;
    for chunk in file.chunks() {
        let parsed = chunk.parse()?;
        verify(&parsed.routine)?;
        for (line, text) in chunk.annotations("run") {
            let run = filetests::run_line::parse(text, &parsed.routine, &file.path, line);
            println!("; run: {text}");
            wrong += usize::from(!run_line(&run.map_err(|e| anyhow!("line {line}: {e}"))?));
        }
    }
    if wrong == 0 { Ok(()) } else { bail!("{wrong} runs did not give what they should") }
}

/// Prints the results of a run line, and returns whether they meet its expectations.
fn run_line(run: &RunLine) -> bool {
    let (case, error) = match run {
        RunLine::Runs(case) => (case, None),
        RunLine::Fails(case, error) => (case, Some(error)),
    };
    match (case.interpret(), error) {
        (Ok(nodes), None) => {
            case.print(&nodes).for_each(|line| println!("{line}"));
            case.check(&nodes).inspect_err(|message| println!("{message}")).is_ok()
        }
        (Ok(_), Some(error)) => {
            println!("no error, expected `{error}`");
            false
        }
        (Err(found), expected) => {
            println!("error: {found}");
            expected.is_some_and(|expected| found.to_string().contains(expected))
        }
    }
}
