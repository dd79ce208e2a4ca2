//! `cargo xtask onnx-suite`: runs the node tests of the Python package `onnx`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

/// The version of the package whose tests are run.
const PACKAGE: &str = "onnx==1.23.2";

/// The arguments of `cargo xtask onnx-suite`.
#[derive(clap::Args)]
pub(crate) struct OnnxSuiteArgs {
    /// The backend that runs the models.
    #[arg(long, default_value = "inline")]
    backend: String,
    /// Run only the tests whose names contain this text, and print why each of them fails.
    #[arg(long, conflicts_with = "bless")]
    filter: Option<String>,
    /// Write the list of expected passes instead of comparing with it.
    #[arg(long)]
    bless: bool,
}

pub(crate) fn run(args: &OnnxSuiteArgs) -> Result<()> {
    let tests = generated()?;
    let built = Command::new("cargo")
        .args(["build", "--quiet", "-p", "arrayjit-onnx", "--bin", "onnx-suite"])
        .current_dir(xtask::root())
        .status()
        .context("building onnx-suite")?;
    if !built.success() {
        bail!("onnx-suite does not build");
    }
    let mut command = Command::new(xtask::root().join("target/debug/onnx-suite"));
    command.arg(&tests).args(["--backend", &args.backend]);
    if let Some(filter) = &args.filter {
        let status = command.args(["--filter", filter]).status().context("running onnx-suite")?;
        return if status.success() { Ok(()) } else { bail!("onnx-suite ended with {status}") };
    }
    // The messages of panics are in the report, so that they are not printed twice.
    let output = command.stderr(Stdio::null()).output().context("running onnx-suite")?;
    if !output.status.success() {
        bail!("onnx-suite ended with {}", output.status);
    }
    let report = String::from_utf8_lossy(&output.stdout);
    let passes: BTreeSet<&str> = report
        .lines()
        .filter_map(|line| line.strip_prefix("pass\t"))
        .filter_map(|rest| rest.split('\t').next())
        .collect();
    print_reasons(&report);
    println!("{} tests pass", passes.len());
    let list = xtask::root().join("crates/arrayjit-onnx/tests/suite/expected.txt");
    if args.bless {
        let text: String = passes.iter().map(|name| format!("{name}\n")).collect();
        return std::fs::write(&list, text).with_context(|| format!("writing {}", list.display()));
    }
    let expected = std::fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
    let expected: BTreeSet<&str> = expected.lines().collect();
    let new: Vec<&&str> = passes.difference(&expected).collect();
    let lost: Vec<&&str> = expected.difference(&passes).collect();
    if !new.is_empty() {
        println!("{} tests pass and are not in the list; `--bless` adds them", new.len());
    }
    match lost.is_empty() {
        true => Ok(()),
        false => bail!("{} tests of the list do not pass: {lost:?}", lost.len()),
    }
}

/// Prints how many tests fail for each reason, the most frequent first.
fn print_reasons(report: &str) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in report.lines().filter(|line| line.starts_with("fail") || line.starts_with("panic")) {
        let reason = line.splitn(3, '\t').nth(2).unwrap_or_default();
        let operator = reason.split("ai.onnx.").nth(1).map(|rest| rest.split(' ').next().unwrap_or_default());
        *counts.entry(operator.unwrap_or(reason)).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (reason, count) in counts {
        println!("{count:5} fail: {}", reason.chars().take(100).collect::<String>());
    }
}

/// The folder with the tests, which are written once.
fn generated() -> Result<PathBuf> {
    let folder = xtask::root().join("target/onnx-suite");
    let tests = folder.join(PACKAGE);
    if tests.exists() {
        return Ok(tests);
    }
    let python = python_in(&folder, &[PACKAGE, "numpy"])?;
    // Renamed when it is whole, so that an interrupted run leaves no part of it.
    let partial = folder.join("partial");
    let script = xtask::root().join("crates/arrayjit-onnx/tests/suite/generate.py");
    finish(Command::new(&python).arg(script).arg(&partial), &partial)?;
    std::fs::rename(&partial, &tests).with_context(|| format!("renaming {}", partial.display()))?;
    Ok(tests)
}

/// A Python with packages, in an environment of its own below `folder`.
pub(crate) fn python_in(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let venv = folder.join("venv");
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        finish(Command::new("python3").args(["-m", "venv"]).arg(&venv), &venv)?;
    }
    finish(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages), &venv)?;
    Ok(python)
}

/// Runs a command that makes the files of a folder.
pub(crate) fn finish(command: &mut Command, folder: &Path) -> Result<()> {
    let status = command.status().with_context(|| format!("making {}", folder.display()))?;
    if !status.success() {
        bail!("making {} ended with {status}: {command:?}", folder.display());
    }
    Ok(())
}
