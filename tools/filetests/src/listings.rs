//! The code that a code generator writes for the corpus, compared with the golden files beside it.
//!
//! For each file `NAME.lir` of the corpus with a `test run` line, the golden file is `NAME.EXTENSION` beside
//! it: the sources of the kernels of every routine, optimized and scheduled for the code generator's target.
//! A reviewer sees in its diff how a change of a pass, the scheduler or the code generator changes code. A
//! kernel too long for a review, such as an unrolled cipher, is abbreviated. `cargo xtask bless` rewrites the
//! files.

use std::{fs, path::Path};

use codegen_core::Codegen;
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use scheduling::{ScheduleOptions, schedule};
use xxhash_rust::xxh3::xxh3_64;

use crate::golden::diff;
use crate::{File, Mode, TestFailure, corpus};

/// The lines of the longest source that a golden file shows whole.
const MOST_LINES: usize = 250;
/// The first lines that it shows of a longer one.
const FIRST_LINES: usize = 20;
/// The last lines that it shows of a longer one.
const LAST_LINES: usize = 10;

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

fn kernels(routine: LoweredRoutine, codegen: &dyn Codegen, comment: &str) -> Result<String, String> {
    let name = routine.name.clone();
    let optimized =
        optimize(routine, &OptimizeSettings::default()).map_err(|error| error.to_string())?.routine;
    let scheduled = match schedule(&optimized, codegen, &ScheduleOptions::default()) {
        Ok(scheduled) => scheduled,
        Err(error) => return Ok(format!("{comment} routine {name} is rejected: {error}\n")),
    };
    let mut text = String::new();
    for (number, kernel) in scheduled.kernels().iter().enumerate() {
        let extent = kernel.abi().launch.extent;
        text += &format!("{comment} routine {name}, kernel {number}, extent {extent}\n");
        match codegen.listing(kernel) {
            Ok(listing) => text += &format!("{}\n", abbreviated(listing.source.trim_end(), comment)),
            Err(error) => text += &format!("{comment} rejected: {error}\n"),
        }
    }
    Ok(text)
}

/// The source, or the first and last lines of a long one. The digest of the lines between them changes with
/// each of them.
fn abbreviated(source: &str, comment: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    if lines.len() <= MOST_LINES {
        return source.to_owned();
    }
    let (first, rest) = lines.split_at(FIRST_LINES);
    let (others, last) = rest.split_at(rest.len() - LAST_LINES);
    let digest = xxh3_64(others.join("\n").as_bytes());
    let omission = format!("{comment} … {} lines, digest {digest:016x} …", others.len());
    [first, &[&omission], last].concat().join("\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_long_source_counts() {
        let lines: Vec<String> = (0..=MOST_LINES).map(|line| line.to_string()).collect();
        let short = lines[1..].join("\n");
        assert_eq!(abbreviated(&short, ";"), short);
        let abbreviation = abbreviated(&lines.join("\n"), ";");
        assert_eq!(abbreviation.lines().count(), FIRST_LINES + 1 + LAST_LINES);
        for changed in 0..lines.len() {
            let mut others = lines.clone();
            others[changed].push('x');
            assert_ne!(abbreviated(&others.join("\n"), ";"), abbreviation, "line {changed}");
        }
    }
}
