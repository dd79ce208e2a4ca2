//! A page of a `.lir` file: a context for each routine, and a run for each of its `; run:` lines.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use codegen_core::{Code, Codegen};
use codegen_testkit::bounds::Bounds;
use filetests::{
    Chunk, File, RunCase,
    run_line::{self, RunLine},
};
use lowered_ir::{
    ir::{LoweredRoutine, NodeDecl},
    pipeline::{self, optimize},
    verify::verify,
};
use scheduling::{ScheduleOptions, schedule};
use tnode::{DType, MemoryMode, Scalar};

use crate::{
    link::{add_node, add_nodes, link},
    page::{Contents, Context, Expected, Page, PageRun, RunStep},
};

/// The page of a file, with kernels from `codegen`.
///
/// # Errors
///
/// The errors of [`add_file`].
pub fn page(path: &Path, codegen: &dyn Codegen) -> Result<Page> {
    let title = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let about = "Routines in lowered IR, compiled to WGSL and compared with the interpreter, each element as closely as WGSL promises.";
    let mut page = Page { title, about: about.to_owned(), ..Page::default() };
    add_file(&mut page, path, codegen)?;
    Ok(page)
}

/// Compiles the routines of a file that have runs, and adds a context for each.
///
/// # Errors
///
/// The file cannot be read or has no run, a routine or a run of it is wrong, or the target lacks something
/// that a routine needs.
pub fn add_file(page: &mut Page, path: &Path, codegen: &dyn Codegen) -> Result<()> {
    let file = File::read(path).with_context(|| format!("reading `{}`", path.display()))?;
    page.source.push_str(&file.source);
    let mut runs = 0;
    for chunk in file.chunks() {
        let cases = cases(chunk, &file)?;
        runs += cases.len();
        if !cases.is_empty() {
            add(page, &cases, codegen).with_context(|| format!("in `{}`", path.display()))?;
        }
    }
    if runs == 0 {
        let kinds: Vec<&str> = file.tests.iter().filter_map(|test| test.words().next()).collect();
        bail!(
            "`{}` has no `; run:` line that gives inputs and results; its kinds of test are: {}",
            path.display(),
            if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
        );
    }
    Ok(())
}

/// The runs of a chunk that are expected to succeed.
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
            // A run that must fail is rejected before a device sees it.
            RunLine::Fails(..) => {}
        }
    }
    Ok(cases)
}

/// A routine that is linked into a context.
struct Linked {
    /// The optimized routine, before it was scheduled.
    routine: LoweredRoutine,
    /// The position in the context of each of the routine's nodes; `None` for a node that no kernel accesses.
    nodes: Vec<Option<usize>>,
    merge: Option<usize>,
}

/// Adds a context with the runs of one routine.
fn add(page: &mut Page, cases: &[RunCase], codegen: &dyn Codegen) -> Result<()> {
    let routine = optimize(cases[0].routine.clone(), &pipeline::OptimizeSettings::default())?.routine;
    let code = compile(&routine, codegen)?;
    let mut context = Context { name: format!("@{}", code.schedule().name()), ..Context::default() };
    let nodes = add_nodes(&mut context, &code, &BTreeMap::new())?;
    let merge = cases.iter().find_map(|case| case.merge.as_ref());
    let merge = merge.map(|bytes| add_merge_buffer(&mut context, bytes.len())).transpose()?;
    link(page, &mut context, &code, &nodes, merge)?;
    let linked = Linked { routine, nodes, merge };
    for case in cases {
        context.runs.push(run(page, &linked, case)?);
    }
    page.contexts.push(context);
    Ok(())
}

/// Schedules and compiles a routine.
fn compile(routine: &LoweredRoutine, codegen: &dyn Codegen) -> Result<Code> {
    let schedule = schedule(routine, codegen, &ScheduleOptions::default())?;
    let artifact = codegen.compile(&schedule)?;
    Ok(Code::new(schedule, artifact)?)
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

/// The page's run of a run line: its inputs, the interpreter's results, and how far each element may deviate
/// on a device that conforms to WGSL.
fn run(page: &mut Page, linked: &Linked, case: &RunCase) -> Result<PageRun> {
    let case = RunCase { routine: linked.routine.clone(), ..case.clone() };
    let wrong = |message| anyhow!("line {}: {message}", case.line);
    let bounds = Bounds::of(&case).map_err(wrong)?;
    let results: Vec<Vec<u8>> =
        bounds.values().map(|values| values.into_iter().flat_map(bytes).collect()).collect();
    bounds
        .check_expected(&case, &results)
        .map_err(|e| anyhow!("the interpreter disagrees with the file: {e}"))?;

    let held = linked.nodes.iter().zip(&case.inputs).map(|(node, bytes)| (*node, bytes));
    let merge = linked.merge.map(Some).into_iter().zip(&case.merge);
    let filled = held.chain(merge).filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
    let before =
        filled.filter_map(|(node, bytes)| Some(Contents { node: node?, data: page.data.add(bytes) }));
    let before = before.collect();

    let mut after = Vec::new();
    for (((node, decl), bytes), radii) in
        linked.nodes.iter().zip(&case.routine.nodes).zip(&results).zip(bounds.radii())
    {
        let Some(node) = node.filter(|_| outlives(decl)) else { continue };
        let data = page.data.add(bytes);
        let is_exact = radii.iter().all(|radius| *radius == 0.0);
        let radii: Vec<u8> = radii.into_iter().flat_map(f64::to_le_bytes).collect();
        let radii = (!is_exact).then(|| page.data.add(&radii));
        after.push(Expected { node, data, tolerance: 0.0, radii });
    }
    ensure!(!after.is_empty(), "line {}: no node outlives the run", case.line);
    let steps = vec![RunStep { routine: 0, bindings: case.bindings.clone() }];
    Ok(PageRun { title: format!("line {}", case.line), before, steps, after, score: None })
}

fn bytes(value: Scalar) -> impl Iterator<Item = u8> {
    value.bits().to_le_bytes().into_iter().take(value.dtype().size_bytes())
}

/// Whether a node's memory can be read after a run.
fn outlives(decl: &NodeDecl) -> bool {
    !decl.mode.known_virtual() && decl.mode.mode() != Some(MemoryMode::Local)
}
