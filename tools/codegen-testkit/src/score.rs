//! The score of a code generator: counts for each level, and the coverage matrix.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use codegen_core::{Caps, Codegen};
use serde_json::json;
use tnode::DType;

use crate::{
    access::{AccessForm, OperationUse, uses},
    case::Case,
    claims::false_claims,
    level::Level,
    report::Outcome,
};

/// A row of the matrix: for each type the forms of access, and whether all of their cases passed.
type OperationRow = BTreeMap<DType, Vec<(AccessForm, bool)>>;

/// The cases that a code generator passed, failed and rejected, and the level that it thereby has.
#[derive(Clone, Debug)]
pub struct Conformance {
    /// The code generator and its target.
    pub subject: String,
    /// False claims of its capabilities, each with the level that it rules out.
    pub claims: Vec<(Level, String)>,
    /// The cases, with their outcomes, in order.
    pub results: Vec<Judged>,
}

/// A case with its outcome.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The case.
    pub case: Case,
    /// Its outcome.
    pub outcome: Outcome,
    /// Whether the target may reject it ([`Case::is_optional`]).
    pub optional: bool,
}

/// A reason for which cases were rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectionReason<'a> {
    /// The lowest level that needs one of the cases.
    pub level: Level,
    /// The message of the code generator, without the name of the kernel.
    pub reason: &'a str,
    /// The number of rejected cases, at all levels.
    pub cases: usize,
    /// The name of the first case of the lowest level.
    pub first: &'a str,
}

/// The counts of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelScore {
    /// Cases that the level needs; optional ones count where they were not rejected.
    pub needed: usize,
    /// Cases that passed.
    pub passed: usize,
    /// Cases that were rejected and may not be.
    pub rejected: usize,
    /// Cases with wrong values, errors, crashes.
    pub failed: usize,
    /// Cases that were rejected, for a type that the target does not store.
    pub excused: usize,
}

impl Conformance {
    /// A score without results yet.
    pub fn new(codegen: &dyn Codegen) -> Conformance {
        let caps = codegen.caps();
        let subject = format!("{} for {}", codegen.name(), caps.target);
        Conformance { subject, claims: false_claims(caps), results: Vec::new() }
    }

    /// Whether routines can be scheduled: the capabilities do not contradict themselves at the lowest level.
    pub(crate) fn is_schedulable(&self) -> bool {
        self.claims.iter().all(|(level, _)| *level > Level::L0)
    }

    /// Adds the outcome of a case.
    pub fn record(&mut self, caps: &Caps, case: Case, outcome: Outcome) {
        let outcome = match (&case.claim, outcome) {
            (Some(claim), Outcome::Failed(how)) => {
                Outcome::Failed(format!("{how}\n(the claim of {claim} is false)"))
            }
            (_, outcome) => outcome,
        };
        let optional = case.is_optional(caps);
        self.results.push(Judged { case, outcome, optional });
    }

    /// The counts of a level, without the counts of lower levels.
    pub fn level(&self, level: Level) -> LevelScore {
        let mut score = LevelScore::default();
        for Judged { outcome, optional, .. } in self.results.iter().filter(|r| r.case.level == level) {
            match outcome {
                Outcome::Passed => score.passed += 1,
                Outcome::Skipped(_) if *optional => score.excused += 1,
                Outcome::Skipped(_) => score.rejected += 1,
                Outcome::Failed(_) => score.failed += 1,
            }
        }
        score.needed = score.passed + score.rejected + score.failed;
        score
    }

    /// The highest level whose needed cases all passed, with those of all lower levels. `None` if L0 lacks a
    /// case.
    pub fn awarded(&self) -> Option<Level> {
        let has = |level: &Level| {
            let score = self.level(*level);
            let honest = !self.claims.iter().any(|(lost, _)| lost <= level);
            honest && score.needed > 0 && score.passed == score.needed
        };
        Level::ALL.into_iter().take_while(has).last()
    }

    /// Whether the code generator has the level, and no case of any level failed. Above the level it may
    /// reject anything.
    pub fn conforms(&self, level: Level) -> bool {
        self.awarded() >= Some(level) && self.failures().next().is_none()
    }

    /// Whether a case of the level passed and no case of any level failed. The code generator may reject the
    /// others, so this says nothing about [`Conformance::awarded`].
    pub fn begins(&self, level: Level) -> bool {
        let is_honest = !self.claims.iter().any(|(lost, _)| *lost <= level);
        is_honest && self.level(level).passed > 0 && self.failures().next().is_none()
    }

    /// The failed cases, with the details.
    pub fn failures(&self) -> impl Iterator<Item = (&Case, &str)> {
        self.results.iter().filter_map(|judged| match &judged.outcome {
            Outcome::Failed(how) => Some((&judged.case, how.as_str())),
            _ => None,
        })
    }

    /// The rejected cases that a level needs, with the reasons.
    pub fn rejections(&self) -> impl Iterator<Item = (&Case, &str)> {
        self.results.iter().filter_map(|judged| match &judged.outcome {
            Outcome::Skipped(why) if !judged.optional => Some((&judged.case, why.as_str())),
            _ => None,
        })
    }

    /// The reasons of the rejections: those that the lowest level needs first, and of these the most frequent
    /// first.
    pub fn reasons(&self) -> Vec<RejectionReason<'_>> {
        let mut reasons: Vec<RejectionReason<'_>> = Vec::new();
        for (case, why) in self.rejections() {
            let reason = without_kernel(why);
            let at = reasons.iter().position(|known| known.reason == reason).unwrap_or(reasons.len());
            if at == reasons.len() {
                reasons.push(RejectionReason { level: case.level, reason, cases: 0, first: &case.name });
            }
            let known = &mut reasons[at];
            known.cases += 1;
            if case.level < known.level {
                (known.level, known.first) = (case.level, &case.name);
            }
        }
        reasons.sort_by_key(|known| (known.level, Reverse(known.cases)));
        reasons
    }

    /// How many cases exercise each combination of operation, type and access, and how many of them passed.
    pub fn coverage(&self) -> BTreeMap<OperationUse, (usize, usize)> {
        let mut coverage: BTreeMap<OperationUse, (usize, usize)> = BTreeMap::new();
        for Judged { case, outcome, .. } in &self.results {
            for found in uses(&case.run.routine) {
                let (cases, passed) = coverage.entry(found).or_default();
                *cases += 1;
                *passed += usize::from(*outcome == Outcome::Passed);
            }
        }
        coverage
    }

    /// The whole score for other programs.
    pub fn to_json(&self) -> serde_json::Value {
        let levels: Vec<_> = Level::ALL
            .into_iter()
            .map(|level| {
                let score = self.level(level);
                json!({
                    "level": level.to_string(), "needed": score.needed, "passed": score.passed,
                    "rejected": score.rejected, "failed": score.failed, "excused": score.excused,
                })
            })
            .collect();
        let coverage = self.coverage().into_iter().map(|(found, (cases, passed))| {
            json!({
                "operation": found.operation, "type": found.dtype.token(),
                "access": found.access.to_string(), "cases": cases, "passed": passed,
            })
        });
        let listed = |cases: Vec<(&Case, &str)>| -> Vec<_> {
            cases.into_iter().map(|(case, text)| json!({ "case": case.name, "level": case.level.to_string(), "text": text })).collect()
        };
        json!({
            "subject": self.subject,
            "awarded": self.awarded().map(|level| level.to_string()),
            "false_claims": self.claims.iter().map(|(_, claim)| claim).collect::<Vec<_>>(),
            "levels": levels,
            "failures": listed(self.failures().collect()),
            "rejections": listed(self.rejections().collect()),
            "coverage": coverage.collect::<Vec<_>>(),
        })
    }

    /// The matrix as text: a line per operation, and for each type the letters of the forms of access of
    /// which all cases passed, then `!` with the letters of the others.
    pub fn matrix(&self) -> String {
        let coverage = self.coverage();
        let mut rows: BTreeMap<&str, OperationRow> = BTreeMap::new();
        for (found, (cases, passed)) in &coverage {
            let row = rows.entry(&found.operation).or_default();
            row.entry(found.dtype).or_default().push((found.access, cases == passed));
        }
        let mut text = String::from("operation x type: access forms passed (!: not all passed)\n");
        for (operation, row) in rows {
            text += &format!("  {operation:<18}");
            for (dtype, forms) in row {
                let good: String =
                    forms.iter().filter(|(_, all)| *all).map(|(form, _)| form.letter()).collect();
                let bad: String =
                    forms.iter().filter(|(_, all)| !*all).map(|(form, _)| form.letter()).collect();
                let bad = if bad.is_empty() { bad } else { format!("!{bad}") };
                text += &format!(" {dtype}:{good}{bad}");
            }
            text.push('\n');
        }
        let letters = AccessForm::ALL.map(|form| format!("{} {form}", form.letter()));
        text + &format!("  ({})\n", letters.join(", "))
    }
}

impl fmt::Display for Conformance {
    /// The levels, false claims, reasons for rejections, and failures.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let awarded = self.awarded().map_or("no level".to_owned(), |level| level.to_string());
        writeln!(f, "{}: {awarded}", self.subject)?;
        for level in Level::ALL {
            let LevelScore { needed, passed, rejected, failed, excused } = self.level(level);
            writeln!(
                f,
                "  {level}: {passed} of {needed} passed, {rejected} rejected, {failed} failed \
                 ({excused} not needed: types that the target does not store)"
            )?;
        }
        for (level, claim) in &self.claims {
            writeln!(f, "false claim, no {level}: {claim}")?;
        }
        for RejectionReason { level, reason, cases, first } in self.reasons() {
            let cases = if cases == 1 { "1 case".to_owned() } else { format!("{cases} cases") };
            writeln!(f, "rejected from {level} on, {cases}, first {first}: {reason}")?;
        }
        self.failures()
            .try_for_each(|(case, how)| writeln!(f, "FAILED at {}, {}: {how}", case.level, case.name))
    }
}

/// A message without the name of the kernel, by which the messages of a rejected operation differ.
fn without_kernel(why: &str) -> &str {
    let behind_name = why.strip_prefix("kernel `").and_then(|named| named.split_once("`: "));
    behind_name.map_or(why, |(_, reason)| reason)
}

/// Scores a code generator on cases in this process, which a faulty one may end: [`conform`](crate::conform)
/// scores in child processes.
pub fn score(codegen: &dyn Codegen, cases: &[Case]) -> Conformance {
    let mut score = Conformance::new(codegen);
    if score.is_schedulable() {
        for case in cases {
            score.record(codegen.caps(), case.clone(), judge(codegen, case));
        }
    }
    score
}

/// The outcome of a case in this process, also if the code generator panics.
pub(crate) fn judge(codegen: &dyn Codegen, case: &Case) -> Outcome {
    let run = std::panic::AssertUnwindSafe(|| case.run(codegen));
    std::panic::catch_unwind(run).unwrap_or_else(|payload| {
        Outcome::Failed(format!("panicked: {}", codegen_core::panic_message(payload)))
    })
}

#[cfg(test)]
mod tests {
    use codegen_core::Interpreted;

    use super::*;
    use crate::case::cases;

    #[test]
    fn rejections_are_listed_by_reason_and_by_the_lowest_level_that_needs_them() {
        let codegen = Interpreted::new();
        let mut score = Conformance::new(&codegen);
        let all = cases(codegen.caps());
        let of_level = |level| all.iter().find(|case| case.level == level).expect("a case").clone();
        let rejections = [(Level::L2, "k0", "log"), (Level::L2, "k1", "i32"), (Level::L1, "k2", "i32")];
        for (level, kernel, op) in rejections {
            let why = format!("kernel `{kernel}`: mine does not support {op}: not yet");
            score.record(codegen.caps(), of_level(level), Outcome::Skipped(why));
        }
        let [l1, l2] = [Level::L1, Level::L2].map(|level| of_level(level).name);
        let text = score.to_string();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("rejected")).collect();
        let expected = [
            format!("rejected from L1 on, 2 cases, first {l1}: mine does not support i32: not yet"),
            format!("rejected from L2 on, 1 case, first {l2}: mine does not support log: not yet"),
        ];
        assert_eq!(lines, expected);
    }
}
