//! Runs the tests of a file and compares their output with its sections.

use std::{fmt, path::PathBuf};

use similar::TextDiff;

use crate::{File, Section, TestLine, kinds};

/// How to treat sections that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Report them.
    Compare,
    /// Rewrite them.
    Bless,
}

impl Mode {
    /// [`Bless`](Mode::Bless) where the variable `BLESS` is set to something other than `0`.
    pub fn from_env() -> Mode {
        let bless = std::env::var("BLESS").is_ok_and(|value| !value.is_empty() && value != "0");
        if bless { Mode::Bless } else { Mode::Compare }
    }
}

/// A failed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestFailure {
    /// The path of the test file.
    pub path: PathBuf,
    /// The words of the `test` line.
    pub test: String,
    /// The error or the difference.
    pub message: String,
}

impl fmt::Display for TestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: test {}\n{}", self.path.display(), self.test, self.message)
    }
}

/// Runs every test of a file. When blessing, rewrites the file if its sections differ.
pub fn check(file: &File, mode: Mode) -> Vec<TestFailure> {
    let mut failures = Vec::new();
    let mut fail = |test: &str, message: String| {
        failures.push(TestFailure { path: file.path.clone(), test: test.to_owned(), message });
    };
    if file.tests.is_empty() {
        fail("", "the file has no `test` line before its first routine".into());
    }
    let mut sections = Vec::new();
    for test in &file.tests {
        match run(test, file) {
            Ok(Some(text)) => sections.push(Section { title: test.title.clone(), text }),
            Ok(None) => {}
            Err(message) => fail(&test.title, message),
        }
    }
    // A blessed file must not lose the section of a test that failed.
    if failures.is_empty() && sections != file.sections {
        let (written, expected) = (file.with_sections(&file.sections), file.with_sections(&sections));
        let result = match mode {
            Mode::Bless => std::fs::write(&file.path, expected).map_err(|e| e.to_string()),
            Mode::Compare => Err(diff(&written, &expected)),
        };
        if let Err(message) = result {
            failures.push(TestFailure { path: file.path.clone(), test: "sections".into(), message });
        }
    }
    failures
}

/// Runs one test and returns its section, if it has one.
fn run(test: &TestLine, file: &File) -> Result<Option<String>, String> {
    let words: Vec<&str> = test.words().collect();
    let (name, args) = words.split_first().ok_or("the test line is empty")?;
    let text = kinds::by_name(name, args)?.run(file)?;
    Ok(text.map(|text| text.trim_matches('\n').to_owned()))
}

/// The lines that differ, with some context.
pub(crate) fn diff(written: &str, found: &str) -> String {
    let diff = TextDiff::from_lines(written, found);
    let hunks = diff.unified_diff().context_radius(3).header("expected", "found").to_string();
    format!("{hunks}(`cargo xtask bless` takes over what was found)")
}
