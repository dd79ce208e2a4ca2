//! Shrinks failed cases to small runs that fail in the same way.

use std::time::{Duration, Instant};

use codegen_core::Codegen;
use filetests::{
    RunCase,
    reduce::{TRIES, reduce},
};

use crate::{
    case::{Case, Variant},
    report::Outcome,
    score::judge,
};

/// The time for shrinking one case.
const LIMIT: Duration = Duration::from_secs(20);

/// A small run that fails in the same way as a case.
#[derive(Clone, Debug)]
pub struct ShrunkCase {
    /// The run.
    pub run: RunCase,
    /// The message of its failure.
    pub how: String,
}

/// Shrinks a case that failed with the message `how`, in this process.
pub fn shrink(codegen: &dyn Codegen, case: &Case, how: &str) -> ShrunkCase {
    shrink_with(case, how, &mut |candidate| judge_run(codegen, candidate))
}

/// Shrinks a case that failed with the message `how`. `judge` runs a candidate.
pub(crate) fn shrink_with(case: &Case, how: &str, judge: &mut dyn FnMut(&RunCase) -> Outcome) -> ShrunkCase {
    let mut last = None;
    let deadline = Instant::now() + LIMIT;
    let run = reduce(case.run.clone(), TRIES, &mut |candidate| {
        if Instant::now() > deadline {
            return false;
        }
        match judge(candidate) {
            Outcome::Failed(found) if kind(&found) == kind(how) => {
                last = Some(found);
                true
            }
            _ => false,
        }
    });
    ShrunkCase { run, how: last.unwrap_or_else(|| how.to_owned()) }
}

/// The outcome of a run as written, optimized and with logs: the first failure of these.
pub(crate) fn judge_run(codegen: &dyn Codegen, run: &RunCase) -> Outcome {
    let mut outcome = Outcome::Passed;
    for variant in [Variant::Both, Variant::Logged] {
        let found = judge(codegen, &Case { variant, ..Case::of_run(run.clone()) });
        match found {
            Outcome::Failed(_) => return found,
            Outcome::Skipped(_) => outcome = found,
            Outcome::Passed => {}
        }
    }
    outcome
}

/// How a case fails: the words before the details.
fn kind(message: &str) -> String {
    let words = message.split(':').next().unwrap_or_default().split_whitespace();
    words.filter(|word| !word.contains(|c: char| c.is_ascii_digit())).take(4).collect::<Vec<_>>().join(" ")
}
