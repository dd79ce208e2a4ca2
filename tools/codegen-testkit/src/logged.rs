//! Runs the corpus with every value logged: the log must equal the interpreter's, character for character.

use std::sync::{Arc, Mutex, PoisonError};

use codegen_core::{Artifact, Caps, Codegen, Interpreted, Logging, ScheduledRoutine};
use filetests::RunCase;
use lowered_ir::{
    log::LogStyle,
    passes::{log::log_values, runner::Trace},
    verify::verify,
};
use scheduling::schedule_serial;

use crate::{
    corpus::{compare, failed, illegal, rejected},
    host,
    report::Outcome,
};

/// Runs a case that logs, compiled and interpreted, and compares memory and logs.
pub(crate) fn run_case(codegen: &dyn Codegen, case: &RunCase) -> Result<Outcome, Outcome> {
    let case = RunCase { routine: log_values(&case.routine), ..case.clone() };
    verify(&case.routine).map_err(|e| failed("logging", e))?;
    let (found, log) = run(codegen, &case)?;
    // The routine as written, without legalization.
    let (defined, expected) = run(&Interpreted::new(), &case)?;
    compare(&case.routine, &found, &defined)?;
    compare_logs(&log, &expected)?;
    Ok(Outcome::Passed)
}

/// The bytes of the nodes after a run, and its log.
fn run(codegen: &dyn Codegen, case: &RunCase) -> Result<(Vec<Vec<u8>>, String), Outcome> {
    let scheduled = schedule_serial(&case.routine, codegen, &mut Trace::none()).map_err(illegal)?;
    let artifact = codegen.compile(&scheduled).map_err(rejected)?;
    collect(&scheduled, artifact, codegen.caps(), case)
}

fn collect(
    scheduled: &ScheduledRoutine,
    artifact: Artifact,
    caps: &Caps,
    case: &RunCase,
) -> Result<(Vec<Vec<u8>>, String), Outcome> {
    let log = Arc::new(Mutex::new(String::new()));
    let lock = |log: &Mutex<String>| log.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let sink = Arc::clone(&log);
    let append = move |lines: &str| sink.lock().unwrap_or_else(PoisonError::into_inner).push_str(lines);
    let artifact = artifact.logging_to(Logging { sink: Arc::new(append), style: LogStyle::Exact });
    let nodes = host::run(scheduled, &artifact, caps, case, 0xa5)?;
    Ok((nodes, lock(&log)))
}

fn compare_logs(found: &str, expected: &str) -> Result<(), Outcome> {
    if found == expected {
        return Ok(());
    }
    let (mut found, mut expected) = (found.lines(), expected.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (found.next(), expected.next()) {
            (None, None) => return Err(Outcome::Failed("logs differ in their line ends".into())),
            (a, b) if a == b => {}
            (a, b) => {
                let message = format!("line {number} of the log is {a:?}, but by the interpreter {b:?}");
                return Err(Outcome::Failed(message));
            }
        }
    }
}
