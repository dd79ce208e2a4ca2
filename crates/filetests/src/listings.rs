//! The code that a code generator writes for the corpus, compared with the golden files beside it.
//!
//! For each file `NAME.lir` of the corpus with a `test run` line, the golden file is `NAME.EXTENSION` beside
//! it: the sources of the kernels of every routine, optimised and scheduled for the code generator's target.
//! A reviewer sees in its diff how a change of a pass, the scheduler or the code generator changes code.
//! `cargo xtask bless` rewrites the files.

use std::{fs, path::Path};

use codegen_core::Codegen;
use lowered_ir::ir::Routine;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use scheduling::{ScheduleOptions, schedule};

use crate::golden::diff;
use crate::{File, Mode, TestFailure, corpus};

/// Asserts that the sources that a code generator writes for the corpus are those of the golden files of an
/// extension, or rewrites the files if `BLESS=1`.
///
/// `comment` begins the lines that say which kernel follows, in the code generator's language. The target
/// must be the same on every machine: the code generator's capabilities decide how routines are scheduled. If
/// the target lacks an operation of a routine, the golden file has the reason in place of the source.
///
/// # Panics
///
/// With all differences, if there are any, or if the capabilities of the target contradict one another.
pub fn assert_listings(codegen: &dyn Codegen, extension: &str, comment: &str) {
    assert_eq!(codegen.caps().check(), Ok(()), "the capabilities of {}", codegen.name());
    let failures = check_listings(codegen, extension, comment, Mode::from_env());
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check_listings(codegen: &dyn Codegen, extension: &str, comment: &str, mode: Mode) -> Vec<TestFailure> {
    let is_run = |file: &File| file.tests.iter().any(|test| test.words().next() == Some("run"));
    let mut failures = Vec::new();
    for file in corpus().filter(is_run) {
        let path = file.path.with_extension(extension);
        let result = listing(&file, codegen, comment).and_then(|found| compare(&path, &found, mode));
        if let Err(message) = result {
            failures.push(TestFailure { path, test: codegen.name().to_owned(), message });
        }
    }
    failures
}

/// The sources of every routine of a file.
fn listing(file: &File, codegen: &dyn Codegen, comment: &str) -> Result<String, String> {
    let routines = file.routines().map_err(|error| error.to_string())?;
    let texts = routines.into_iter().map(|parsed| kernels(parsed.routine, codegen, comment));
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn kernels(routine: Routine, codegen: &dyn Codegen, comment: &str) -> Result<String, String> {
    let name = routine.name.clone();
    let optimised =
        optimize(routine, &OptimizeSettings::default()).map_err(|error| error.to_string())?.routine;
    let scheduled = match schedule(&optimised, codegen, &ScheduleOptions::default()) {
        Ok(scheduled) => scheduled,
        Err(error) => return Ok(format!("{comment} routine {name} is rejected: {error}\n")),
    };
    let mut text = String::new();
    for (number, kernel) in scheduled.kernels().iter().enumerate() {
        let extent = kernel.abi().launch.extent;
        text += &format!("{comment} routine {name}, kernel {number}, extent {extent}\n");
        match codegen.listing(kernel) {
            Ok(listing) => text += &format!("{}\n", listing.source.trim_end()),
            Err(error) => text += &format!("{comment} rejected: {error}\n"),
        }
    }
    Ok(text)
}

/// Compares a golden file with the text found, or rewrites it where they differ.
fn compare(path: &Path, found: &str, mode: Mode) -> Result<(), String> {
    let written = fs::read_to_string(path).unwrap_or_default();
    match mode {
        _ if written == found => Ok(()),
        Mode::Bless => fs::write(path, found).map_err(|error| error.to_string()),
        Mode::Compare => Err(diff(&written, found)),
    }
}
