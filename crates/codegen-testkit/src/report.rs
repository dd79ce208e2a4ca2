//! What became of each run of the corpus.

use std::{collections::BTreeMap, fmt};

use crate::bounds::Closeness;

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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Who was tested.
    pub subject: String,
    /// Each run by its file, line and variant.
    pub outcomes: BTreeMap<String, Outcome>,
    /// How close the elements came, where that is measured.
    pub closeness: Closeness,
}

impl Report {
    /// Enters what became of a run.
    pub fn record(&mut self, run: String, outcome: Result<Closeness, Outcome>) {
        let outcome = match outcome {
            Ok(close) => {
                self.closeness = self.closeness.and(close);
                Outcome::Passed
            }
            Err(outcome) => outcome,
        };
        self.outcomes.insert(run, outcome);
    }

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

    /// What is skipped and was not expected to be: runs whose reason contains none of the texts, and texts that more reasons
    /// contain than stands beside them.
    pub fn unexpected_skips(&self, expected: &[(&str, usize)]) -> Vec<String> {
        let mut counts = vec![0; expected.len()];
        let mut unexpected = Vec::new();
        for (run, why) in self.skipped() {
            match expected.iter().position(|(text, _)| why.contains(text)) {
                Some(at) => counts[at] += 1,
                None => unexpected.push(format!("{run}: {why}")),
            }
        }
        let over = expected.iter().zip(&counts).filter(|((_, most), count)| *count > most);
        unexpected.extend(
            over.map(|((text, most), count)| format!("{count} for `{text}`, expected at most {most}")),
        );
        unexpected
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
        if self.closeness.elements + self.closeness.open > 0 {
            writeln!(f, "{}", self.closeness)?;
        }
        for (run, why) in self.skipped() {
            writeln!(f, "skip({run}): {why}")?;
        }
        for (run, how) in self.failed() {
            writeln!(f, "FAILED {run}: {how}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_expected_by_reason_and_number() {
        let mut report = Report::default();
        for (run, why) in [("a", "k: no f64 here"), ("b", "k: no f64 here"), ("c", "something new")] {
            report.record(run.into(), Err(Outcome::Skipped(why.into())));
        }
        assert_eq!(report.unexpected_skips(&[("no f64", 2), ("new", 1)]), Vec::<String>::new());
        assert_eq!(
            report.unexpected_skips(&[("no f64", 1), ("new", 1)]),
            ["2 for `no f64`, expected at most 1"]
        );
        assert_eq!(report.unexpected_skips(&[("no f64", 2)]), ["c: something new"]);
    }
}
