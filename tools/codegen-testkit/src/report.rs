//! The outcomes of the runs of the corpus.

use std::{collections::BTreeMap, fmt};

use crate::bounds::Closeness;

/// The outcome of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The result was correct.
    Passed,
    /// The target does not support an operation or type of the run; the reason.
    Skipped(String),
    /// The result was wrong, or an error occurred; the details.
    Failed(String),
}

/// The outcomes of all runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The tested code generator or device.
    pub subject: String,
    /// The outcome of each run, by its file, line and variant.
    pub outcomes: BTreeMap<String, Outcome>,
    /// How close the elements are to the interpreter's, where that is measured.
    pub closeness: Closeness,
}

impl Report {
    /// Records the outcome of a run.
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

    /// The number of runs with a correct result.
    pub fn passed(&self) -> usize {
        self.outcomes.values().filter(|o| **o == Outcome::Passed).count()
    }

    /// The skipped runs, with the reasons.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outcomes.iter().filter_map(|(run, outcome)| match outcome {
            Outcome::Skipped(why) => Some((run.as_str(), why.as_str())),
            _ => None,
        })
    }

    /// The failed runs, with the details.
    pub fn failed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outcomes.iter().filter_map(|(run, outcome)| match outcome {
            Outcome::Failed(how) => Some((run.as_str(), how.as_str())),
            _ => None,
        })
    }

    /// Unexpected skips: runs whose reason contains none of the expected texts, and texts that occur in more
    /// reasons than the number beside them.
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

    /// Whether no run failed and at least one passed.
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
