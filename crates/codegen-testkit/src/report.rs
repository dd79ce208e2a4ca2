//! What became of each run of the corpus.

use std::{collections::BTreeMap, fmt};

/// What became of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It gave what it should.
    Passed,
    /// The target does not support something it needs.
    Skipped(String),
    /// It went wrong.
    Failed(String),
}

/// What became of every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Who was tested.
    pub subject: String,
    /// Each run by its file, line and variant.
    pub outcomes: BTreeMap<String, Outcome>,
}

impl Report {
    /// How many runs gave what they should.
    pub fn passed(&self) -> usize {
        self.outcomes.values().filter(|o| **o == Outcome::Passed).count()
    }

    /// The runs that were skipped, with the reasons.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outcomes.iter().filter_map(|(run, outcome)| match outcome {
            Outcome::Skipped(why) => Some((run.as_str(), why.as_str())),
            _ => None,
        })
    }

    /// The runs that went wrong, and how.
    pub fn failed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outcomes.iter().filter_map(|(run, outcome)| match outcome {
            Outcome::Failed(how) => Some((run.as_str(), how.as_str())),
            _ => None,
        })
    }

    /// Whether nothing went wrong, and something went right.
    pub fn conforms(&self) -> bool {
        self.failed().next().is_none() && self.passed() > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (skipped, failed) = (self.skipped().count(), self.failed().count());
        writeln!(f, "{}: {} passed, {skipped} skipped, {failed} failed", self.subject, self.passed())?;
        for (run, why) in self.skipped() {
            writeln!(f, "skip({run}): {why}")?;
        }
        for (run, how) in self.failed() {
            writeln!(f, "FAILED {run}: {how}")?;
        }
        Ok(())
    }
}
