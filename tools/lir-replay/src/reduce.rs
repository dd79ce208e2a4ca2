//! Reduces a run on which two backends differ.

use anyhow::{Result, bail};
use arrayjit::{Backend, capsule::CapsuleCompilation};
use filetests::{
    Expected, RunCase,
    reduce::{TRIES, reduce as smallest},
};
use lowered_ir::ir::Numerics;

use crate::device_run::{self, Results};

/// By how much floats may differ in class `fast`, relative to the greater of 1 and the magnitude.
const ROUNDING: f64 = 1e-3;

/// The smallest run found on which the backends differ, as a `.lir` text with the settings and the target of
/// the file, and the difference below. One backend is compared with the definition.
///
/// # Errors
///
/// [`describe`]'s words for every run, if the backends differ on none.
pub(crate) fn reduce(
    cases: Vec<RunCase>,
    compilation: &CapsuleCompilation,
    backends: &[Backend],
) -> Result<String> {
    let mut described = Vec::new();
    for case in cases {
        match outcome(&case, backends) {
            Outcome::Differs(_) => {
                let is_failing = &mut |case: &RunCase| matches!(outcome(case, backends), Outcome::Differs(_));
                let small = smallest(case, TRIES, is_failing);
                let Outcome::Differs(difference) = outcome(&small, backends) else {
                    bail!(
                        "the backends differ on the run in some attempts only: their results depend on time"
                    )
                };
                let difference: String = difference.lines().map(|line| format!("; {line}\n")).collect();
                return Ok(format!("{}{compilation}{difference}", small.to_lir()));
            }
            other => described.push(format!("{}:{}: {}", case.path.display(), case.line, describe(&other))),
        }
    }
    bail!("there is nothing to reduce:\n{}", described.join("\n"))
}

/// The comparison of two backends.
enum Outcome {
    Agrees,
    /// The first node that differs, with both contents.
    Differs(String),
    /// A backend, or the definition, does not run the routine.
    Fails(String),
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Agrees => "the results agree".to_owned(),
        Outcome::Differs(difference) => difference.clone(),
        Outcome::Fails(why) => why.clone(),
    }
}

fn outcome(case: &RunCase, backends: &[Backend]) -> Outcome {
    let run = |backend: &Backend| {
        device_run::run(backend, case).map_err(|error| format!("{}: {error:#}", backend.name()))
    };
    let both = match backends {
        [one] => run(one)
            .and_then(|found| Ok((found, device_run::defined(case).map_err(|error| format!("{error:#}"))?))),
        [one, two, ..] => run(one).and_then(|found| Ok((found, run(two)?))),
        [] => Err("no backend is named".to_owned()),
    };
    match both {
        Ok((found, expected)) => match compare(case, found, expected) {
            Ok(()) => Outcome::Agrees,
            Err(difference) => Outcome::Differs(difference),
        },
        Err(why) => Outcome::Fails(why),
    }
}

/// Compares the nodes that both have: bit for bit, or within rounding in class `fast`.
fn compare(case: &RunCase, found: Results, expected: Results) -> Result<(), String> {
    let tolerance = if case.routine.numerics == Numerics::Fast { ROUNDING } else { 0.0 };
    let pairs = case.routine.node_refs().zip(expected).zip(&found);
    let both = pairs.filter(|(_, found)| found.is_some());
    let expected =
        both.filter_map(|(((node, _), bytes), _)| Some(Expected { node, bytes: bytes?, tolerance }));
    let case = RunCase { expected: expected.collect(), ..case.clone() };
    case.check(&found.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>())
}
