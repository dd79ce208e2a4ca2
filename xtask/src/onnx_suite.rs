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
    let outcomes = Outcomes::of(&report)?;
    let passes = outcomes.passes();
    outcomes.print_reasons();
    println!("{}", outcomes.summary());
    let list = xtask::root().join("crates/arrayjit-onnx/tests/suite/expected.txt");
    if args.bless {
        let text: String = passes.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(&list, text).with_context(|| format!("writing {}", list.display()))?;
        let table = xtask::root().join("docs/onnx-operators.md");
        return std::fs::write(&table, outcomes.page())
            .with_context(|| format!("writing {}", table.display()));
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

/// The outcomes of all tests.
struct Outcomes<'a> {
    tests: Vec<Test<'a>>,
}

/// The outcome of a test.
struct Test<'a> {
    outcome: &'a str,
    name: &'a str,
    operator: &'a str,
    reason: &'a str,
    /// The reason for which the test is out of scope.
    excluded: Option<&'static str>,
}

/// The tests that are out of scope: patterns of names, and the reason of each.
static EXCLUDED: &str = include_str!("../../crates/arrayjit-onnx/tests/suite/excluded.txt");

impl Outcomes<'_> {
    fn of(report: &str) -> Result<Outcomes<'_>> {
        let mut tests = Vec::new();
        for line in report.lines() {
            let [outcome, name, operator, reason] = line.splitn(4, '\t').collect::<Vec<_>>()[..] else {
                bail!("onnx-suite wrote {line:?}");
            };
            if outcome == "total" || name == "total" {
                continue;
            }
            let excluded = EXCLUDED
                .lines()
                .filter_map(|line| line.split_once(' '))
                .find(|(pattern, _)| matches(pattern, name))
                .map(|(_, reason)| reason.trim());
            if outcome == "pass" && excluded.is_some() {
                bail!("{name} passes, but excluded.txt says that it is out of scope");
            }
            tests.push(Test { outcome, name, operator, reason, excluded });
        }
        Ok(Outcomes { tests })
    }

    fn passes(&self) -> BTreeSet<&str> {
        self.tests.iter().filter(|test| test.outcome == "pass").map(|test| test.name).collect()
    }

    fn summary(&self) -> String {
        let passes = self.passes().len();
        let scope = self.tests.iter().filter(|test| test.excluded.is_none()).count();
        let percent = 100.0 * passes as f64 / scope.max(1) as f64;
        format!(
            "{passes} of {scope} tests in scope pass ({percent:.1} %); {} are out of scope",
            self.tests.len() - scope
        )
    }

    /// Prints how many tests in scope fail for each reason, the most frequent first.
    fn print_reasons(&self) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for test in self.tests.iter().filter(|test| test.outcome != "pass" && test.excluded.is_none()) {
            let reason: String = test.reason.chars().take(120).collect();
            *counts.entry(format!("{}: {reason}", test.operator)).or_default() += 1;
        }
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (reason, count) in counts {
            println!("{count:5} fail: {reason}");
        }
    }

    /// The table of operators as a page in Markdown.
    fn page(&self) -> String {
        let mut operators: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for test in &self.tests {
            match test.excluded {
                Some(reason) => *reasons.entry(reason).or_default() += 1,
                None => {
                    let (passes, all) = operators.entry(test.operator).or_default();
                    *passes += usize::from(test.outcome == "pass");
                    *all += 1;
                }
            }
        }
        let row = |(operator, (passes, all)): (&&str, &(usize, usize))| {
            format!("| `{operator}` | {passes} | {all} |\n")
        };
        let rows: String = operators.iter().map(row).collect();
        let excluded: String =
            reasons.iter().map(|(reason, count)| format!("| {reason} | {count} |\n")).collect();
        format!(
            "# Operators of ONNX\n\nWritten by `cargo xtask onnx-suite --bless`: the node tests of `{PACKAGE}` by \
             operator.\n\n{}.\n\n| operator | tests that pass | tests in scope |\n|---|--:|--:|\n{rows}\n\
             ## Out of scope\n\n| reason | tests |\n|---|--:|\n{excluded}",
            self.summary()
        )
    }
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name.strip_prefix(front).is_some_and(|name| {
            (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| matches(rest, name)))
        }),
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
