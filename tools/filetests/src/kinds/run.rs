//! `test run`: interprets each routine on the inputs of its `; run:` lines and checks the expectations.

use lowered_ir::verify::verify;

use super::Kind;
use crate::{
    Chunk, File,
    run_line::{self, RunLine},
};

pub(super) struct RunKind;

impl Kind for RunKind {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        let mut runs = 0;
        for chunk in file.chunks() {
            runs += check(chunk, file)?;
        }
        if runs == 0 { Err("the file has no `; run:` line".into()) } else { Ok(None) }
    }
}

/// Runs the lines of a chunk and returns their number.
fn check(chunk: Chunk<'_>, file: &File) -> Result<usize, String> {
    let parsed = chunk.parse().map_err(|e| e.to_string())?;
    verify(&parsed.routine).map_err(|e| e.to_string())?;
    let mut runs = 0;
    for (line, text) in chunk.annotations("run") {
        let run = run_line::parse(text, &parsed.routine, &file.path, line);
        outcome(&run.map_err(|e| format!("line {line}: {e}"))?)?;
        runs += 1;
    }
    Ok(runs)
}

fn outcome(run: &RunLine) -> Result<(), String> {
    match run {
        RunLine::Runs(case) => {
            let nodes = case.interpret().map_err(|e| format!("line {}: {e}", case.line))?;
            case.check(&nodes)
        }
        RunLine::Fails(case, text) => match case.interpret() {
            Err(error) if error.to_string().contains(text) => Ok(()),
            Err(error) => Err(format!("line {}: expected the error `{text}`, found `{error}`", case.line)),
            Ok(_) => Err(format!("line {}: expected the error `{text}`, found none", case.line)),
        },
    }
}
