//! Random programs of several routines against an independent evaluator.
//!
//! The fuzz target `differential` checks the same on bytes that a fuzzer finds. `DIFFERENTIAL_PROGRAMS=1000`
//! compares more programs, `DIFFERENTIAL_FIRST=77` begins at another seed, and `DIFFERENTIAL_REJECTED=1`
//! prints the rejected programs.
#![allow(clippy::print_stdout, reason = "rejected programs are printed on request")]

mod check;

use check::{Report, check};
use random_programs::bytes_of_seed;

/// The number of programs that the test compares.
const PROGRAMS: u64 = 120;

/// The number in an environment variable, or the default.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn random_programs_agree_with_the_evaluator() {
    let (first, count) = (number("DIFFERENTIAL_FIRST", 0), number("DIFFERENTIAL_PROGRAMS", PROGRAMS));
    let (mut report, mut failures) = (Report::default(), Vec::new());
    for seed in first..first + count {
        let bytes = bytes_of_seed(seed ^ 0xd1ff, 60 + seed as usize % 400);
        match check(&bytes) {
            Ok(one) => report.add(one),
            Err(error) => {
                println!("seed {seed}: {error}");
                failures.push(seed);
            }
        }
    }
    println!("{report:?}");
    assert!(failures.is_empty(), "seeds {failures:?}");
    // Most programs must run, and most elements must have a determined value; otherwise the comparison shows
    // little.
    assert!(report.runs > 2 * report.rejected, "{report:?}");
    assert!(report.exact > report.bounded + report.skipped, "{report:?}");
}
