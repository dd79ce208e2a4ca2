//! `test pass NAME…`: the section is each routine after the passes, which must pass the verifier. `optimize`
//! is the whole pipeline, `log` is [`passes::log::log_values`]. Given the same memory, the routine must
//! compute the same bits before and after: each `; run:` line of the file is run both ways.

use lowered_ir::{
    ir::{LoweredRoutine, NodeDecl},
    passes,
    pipeline::optimize,
    text::print,
    verify::verify,
};

use tnode::MemoryMode;

use super::{Kind, joined};
use crate::{
    Chunk, Expected, File, RunCase,
    run_line::{self, RunLine},
};

pub(super) struct Pass {
    names: Vec<String>,
}

impl Pass {
    pub(super) fn new(args: &[&str]) -> Result<Pass, String> {
        match args
            .iter()
            .find(|&&name| !matches!(name, "optimize" | "log") && passes::by_name(name).is_none())
        {
            Some(name) => Err(format!("there is no pass `{name}`")),
            None if args.is_empty() => Err("expected the name of a pass".into()),
            None => Ok(Pass { names: args.iter().map(|&name| name.to_owned()).collect() }),
        }
    }

    fn apply(&self, mut routine: LoweredRoutine) -> Result<LoweredRoutine, String> {
        verify(&routine).map_err(|e| e.to_string())?;
        for name in &self.names {
            routine = apply(routine, name)?;
            verify(&routine).map_err(|e| format!("after {name}: {e}\n{}", print(&routine)))?;
        }
        Ok(routine)
    }

    fn chunk(&self, chunk: Chunk<'_>, file: &File) -> Result<String, String> {
        let before = chunk.parse().map_err(|e| e.to_string())?.routine;
        let after = self.apply(before.clone())?;
        for (line, text) in chunk.annotations("run") {
            if let Ok(RunLine::Runs(case)) = run_line::parse(text, &before, &file.path, line) {
                same_bits(&case, &after).map_err(|e| format!("line {line}: {e}\n{}", print(&after)))?;
            }
        }
        Ok(print(&after))
    }
}

impl Kind for Pass {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        let texts = file.chunks().map(|chunk| self.chunk(chunk, file)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(joined(texts)))
    }
}

fn apply(mut routine: LoweredRoutine, name: &str) -> Result<LoweredRoutine, String> {
    if name == "optimize" {
        return optimize(routine, &passes::OptimizeSettings::default())
            .map(|o| o.routine)
            .map_err(|e| e.to_string());
    }
    if name == "log" {
        return Ok(passes::log::log_values(&routine));
    }
    let pass = passes::by_name(name).ok_or_else(|| format!("there is no pass `{name}`"))?;
    pass(&mut routine).map_err(|e| e.to_string())?;
    Ok(routine)
}

/// Runs a case on the original routine and on the one after the passes, and compares the nodes that outlive
/// the run.
fn same_bits(case: &RunCase, after: &LoweredRoutine) -> Result<(), String> {
    let before = case.interpret().map_err(|e| e.to_string())?;
    let transformed = RunCase { routine: after.clone(), expected: Vec::new(), ..case.clone() };
    let found = transformed.interpret().map_err(|e| e.to_string())?;
    let kept = after.node_refs().filter(|(_, decl)| !decl.mode.known_virtual() && !is_local(decl));
    let expected = kept.filter_map(|(node, _)| {
        Some(Expected { node, bytes: before.get(node.index())?.clone(), tolerance: 0.0 })
    });
    RunCase { expected: expected.collect(), ..transformed }.check(&found)
}

fn is_local(decl: &NodeDecl) -> bool {
    decl.mode.mode() == Some(MemoryMode::Local)
}
