//! `test log`: the section is the log of each `; run:` line of the file, when the routine logs its values.

use lowered_ir::{
    interp::{Buffer, PreparedRoutine},
    passes::log::log_values,
    verify::verify,
};

use super::Kind;
use crate::{
    Chunk, File, RunCase,
    run_line::{self, RunLine},
};

pub(super) struct Log;

impl Kind for Log {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        let mut logs = String::new();
        for chunk in file.chunks() {
            chunk_logs(&chunk, file, &mut logs)?;
        }
        Ok(Some(logs))
    }
}

fn chunk_logs(chunk: &Chunk<'_>, file: &File, logs: &mut String) -> Result<(), String> {
    let routine = chunk.parse().map_err(|e| e.to_string())?.routine;
    for (line, text) in chunk.annotations("run") {
        if let RunLine::Runs(case) = run_line::parse(text, &routine, &file.path, line)? {
            logs.push_str(&format!("@{}\n", routine.name));
            logs.push_str(&log(&case).map_err(|e| format!("line {line}: {e}"))?);
        }
    }
    Ok(())
}

/// The log of a run, which must also meet its expectations.
fn log(case: &RunCase) -> Result<String, String> {
    let logging = log_values(&case.routine);
    verify(&logging).map_err(|e| format!("after log: {e}"))?;
    let program = PreparedRoutine::new(&logging).map_err(|e| e.to_string())?;
    let (mut nodes, mut log) = (case.inputs.clone(), String::new());
    let mut buffers: Vec<Buffer<'_>> = nodes.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
    let mut line = |line: &str| {
        log.push_str(line);
        log.push('\n');
    };
    program
        .run_logged(&mut buffers, case.merge.as_deref(), &case.bindings, &mut line)
        .map_err(|e| e.to_string())?;
    case.check(&nodes)?;
    Ok(log)
}
