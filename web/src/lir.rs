//! A page of a `.lir` file: a context for each routine, a run for each of its `; run:` lines.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use codegen_core::{Code, Codegen, ScheduleOptions, schedule};
use filetests::{
    Chunk, File, RunCase,
    run_line::{self, RunLine},
};
use lowered_ir::{
    ir::{NodeDecl, Routine},
    pipeline::{self, optimize},
    verify::verify,
};
use tnode::{DType, MemoryMode};

use crate::{
    link::{add_node, link},
    page::{Contents, Context, Expected, Page, Run, Step},
    reference,
};

/// Compiles the routines of a file that have runs, for what a code generator says a browser can do.
///
/// # Errors
///
/// Where the file cannot be read or has nothing to run, a routine or a run of it is wrong, or the target lacks something it needs.
pub fn page(path: &Path, codegen: &dyn Codegen) -> Result<Page> {
    let file = File::read(path).with_context(|| format!("reading `{}`", path.display()))?;
    let title = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let about =
        "Routines in lowered IR, compiled to WGSL, and what the interpreter says they compute.".to_owned();
    let mut page = Page { title, about, source: file.source.clone(), ..Page::default() };
    for chunk in file.chunks() {
        let cases = cases(chunk, &file)?;
        if !cases.is_empty() {
            add(&mut page, &cases, codegen).with_context(|| format!("in `{}`", path.display()))?;
        }
    }
    if page.contexts.is_empty() {
        let kinds: Vec<&str> = file.tests.iter().filter_map(|test| test.words().next()).collect();
        bail!(
            "`{}` has no `; run:` line that gives inputs and results; its kinds of test are: {}",
            path.display(),
            if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
        );
    }
    Ok(page)
}

/// The runs of a chunk that succeed.
fn cases(chunk: Chunk<'_>, file: &File) -> Result<Vec<RunCase>> {
    let mut lines = chunk.annotations("run").peekable();
    if lines.peek().is_none() {
        return Ok(Vec::new());
    }
    let parsed = chunk.parse()?;
    verify(&parsed.routine)?;
    let mut cases = Vec::new();
    for (line, text) in lines {
        let run = run_line::parse(text, &parsed.routine, &file.path, line);
        match run.map_err(|e| anyhow!("`{}`, line {line}: {e}", file.path.display()))? {
            RunLine::Runs(case) => cases.push(case),
            // That a run is refused is decided before a device sees it.
            RunLine::Fails(..) => {}
        }
    }
    Ok(cases)
}

/// Adds a context with the runs of one routine.
fn add(page: &mut Page, cases: &[RunCase], codegen: &dyn Codegen) -> Result<()> {
    let code = compile(&cases[0].routine, codegen)?;
    let mut context = Context { name: format!("@{}", code.schedule.name), ..Context::default() };
    let declared = code.schedule.nodes.iter();
    let nodes = declared.map(|decl| add_node(&mut context, &decl.name, decl)).collect::<Result<Vec<_>>>()?;
    let merge = cases.iter().find_map(|case| case.merge.as_ref());
    let merge = merge.map(|bytes| add_merge_buffer(&mut context, bytes.len())).transpose()?;
    link(page, &mut context, &code, &nodes, merge)?;
    for case in cases {
        context.runs.push(run(page, &code, case, merge)?);
    }
    page.contexts.push(context);
    Ok(())
}

/// Optimises and schedules a routine, and compiles it.
pub(crate) fn compile(routine: &Routine, codegen: &dyn Codegen) -> Result<Code> {
    let optimized = optimize(routine.clone(), &pipeline::Settings::default())?.routine;
    let schedule = schedule(&optimized, codegen.caps(), &ScheduleOptions::default())?;
    let artifact = codegen.compile(&schedule)?;
    Ok(Code { schedule, artifact })
}

fn add_merge_buffer(context: &mut Context, bytes: usize) -> Result<usize> {
    let decl = NodeDecl {
        name: "merge buffer".into(),
        dtype: DType::U8,
        dims: [bytes].into_iter().collect(),
        mode: Default::default(),
    };
    add_node(context, "merge buffer", &decl)
}

/// A run of a file with the results of the interpreter, which must be those that the file expects.
fn run(page: &mut Page, code: &Code, case: &RunCase, merge: Option<usize>) -> Result<Run> {
    let results = reference::run(&code.schedule, &case.inputs, case.merge.as_deref(), &case.bindings)?;
    case.check(&results).map_err(|message| anyhow!("the interpreter disagrees with the file: {message}"))?;
    let mut before: Vec<Contents> = Vec::new();
    for (node, bytes) in case.inputs.iter().enumerate().filter(|(_, bytes)| bytes.iter().any(|b| *b != 0)) {
        before.push(Contents { node, data: page.data.add(bytes) });
    }
    if let (Some(node), Some(bytes)) = (merge, &case.merge) {
        before.push(Contents { node, data: page.data.add(bytes) });
    }
    let mut after: Vec<Expected> = Vec::new();
    let lasting =
        code.schedule.nodes.iter().zip(&results).enumerate().filter(|(_, (decl, _))| outlives(decl));
    for (node, (decl, bytes)) in lasting {
        let stated = case.expected.iter().find(|e| e.node.index() == node).map_or(0.0, |e| e.tolerance);
        let tolerance = if decl.dtype.is_float() { stated.max(tolerance(decl.dtype)) } else { 0.0 };
        after.push(Expected { node, data: page.data.add(bytes), tolerance });
    }
    ensure!(!after.is_empty(), "line {}: no node outlives the run", case.line);
    let steps = vec![Step { routine: 0, bindings: case.bindings.clone() }];
    Ok(Run { title: format!("line {}", case.line), before, steps, after, score: None })
}

/// Whether a node's memory can be looked at after a run.
fn outlives(decl: &NodeDecl) -> bool {
    !decl.mode.known_virtual() && decl.mode.mode() != Some(MemoryMode::Local)
}

/// How far a browser's arithmetic may be off: its division, roots and fused operations round differently, and it may take subnormals
/// for zeros. A few units in the last place of the type.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-13,
        DType::F32 => 1e-5,
        DType::F16 => 4e-3,
        DType::Bf16 => 3.2e-2,
        DType::Fp8E5m2 => 5e-1,
        DType::Fp8E4m3fn => 2.5e-1,
        DType::Bool | DType::U8 | DType::I8 | DType::U16 | DType::I32 | DType::U32 => 0.0,
        DType::I64 | DType::U64 | DType::U32x4 => 0.0,
    }
}
