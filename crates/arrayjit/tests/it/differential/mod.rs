//! Random programs of several routines against an independent evaluator.
//!
//! The fuzz target `differential` checks the same on bytes that a fuzzer finds. `DIFFERENTIAL_REJECTED=1`
//! prints the rejected programs.
#![allow(clippy::print_stdout, reason = "rejected programs are printed on request")]

mod check;

use check::{Report, check};
use random_programs::{bytes_of_seed, effort};

#[test]
fn random_programs_agree_with_the_evaluator() {
    let (mut report, mut failures) = (Report::default(), Vec::new());
    for seed in effort::seeds(30) {
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
