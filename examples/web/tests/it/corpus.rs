//! Checks every kernel of the corpus, as it is generated for browsers, with the browser's own compiler, which
//! is independent of naga.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic, and counts are printed"
)]

use std::collections::BTreeMap;

use codegen_core::{Artifact, CodegenError, Param, Payload};
use codegen_testkit::{Outcome, compile_case};
use filetests::RunCase;
use lowered_ir::pipeline::{self, optimize};
use scheduling::ScheduleError;
use web::{
    lir,
    page::{Kernel, Page},
};

/// Kernels by their text, and runs that the target does not support, with the reason.
#[derive(Default)]
struct Rendered {
    kernels: BTreeMap<String, Kernel>,
    runs: usize,
    skipped: Vec<String>,
}

#[test]
#[ignore = "long: `cargo xtask ci --full` runs it"]
fn the_browser_accepts_every_kernel_of_the_corpus() {
    let Some(browser) = crate::common::browser("the_browser_accepts_every_kernel_of_the_corpus") else {
        return;
    };
    let rendered = render();
    let kernels: Vec<Kernel> = rendered.kernels.into_values().collect();
    let page = Page { title: "corpus".into(), kernels, ..Page::default() };
    let outcome = crate::common::run(&browser, &page);
    let rejected: Vec<_> = outcome.kernels.iter().filter(|kernel| !kernel.errors.is_empty()).collect();
    println!(
        "{} runs, {} skipped; {} kernels, {} rejected",
        rendered.runs,
        rendered.skipped.len(),
        page.kernels.len(),
        rejected.len()
    );
    for skipped in &rendered.skipped {
        println!("skipped {skipped}");
    }
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.kernels.len(), page.kernels.len());
    assert!(rejected.is_empty(), "{rejected:#?}");
    assert_eq!(outcome.status, "pass");
    // Most runs must not be skipped.
    assert!(rendered.runs > 4 * rendered.skipped.len(), "{:#?}", rendered.skipped);
}

/// The kernels compute the expected results in a browser, on one page with every file of the corpus that has
/// runs.
#[test]
fn the_corpus_passes_in_the_browser() {
    let Some(browser) = crate::common::browser("the_corpus_passes_in_the_browser") else { return };
    let mut page = Page { title: "corpus".into(), ..Page::default() };
    let mut skipped = Vec::new();
    let with_runs = |file: &filetests::File| file.tests.iter().any(|test| test.words().next() == Some("run"));
    for file in filetests::corpus().filter(with_runs) {
        let name =
            file.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&file.path).display().to_string();
        let first = page.contexts.len();
        if let Err(error) = lir::add_file(&mut page, &file.path, &crate::common::codegen()) {
            assert!(is_unsupported(&error), "{error:#}");
            skipped.push(format!("{error:#}"));
        }
        for context in &mut page.contexts[first..] {
            context.name = format!("{name} {}", context.name);
        }
    }
    let outcome = crate::common::run(&browser, &page);
    let passed = outcome.runs.iter().filter(|run| run.status == "pass").count();
    println!("{passed} of {} runs passed; {} files skipped", outcome.runs.len(), skipped.len());
    println!("{skipped:#?}");
    assert_eq!(outcome.status, "pass", "{:#?}", outcome.complaints());
    assert_eq!(outcome.runs.len(), page.contexts.iter().map(|context| context.runs.len()).sum::<usize>());
    assert!(passed > 60, "only {passed} runs");
}

/// Whether a routine was rejected because browsers lack something that it needs.
fn is_unsupported(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ScheduleError::Illegal(_)))
        || matches!(error.downcast_ref(), Some(CodegenError::Unsupported { .. }))
}

/// Renders the routine of every run twice: optimized, and as it is written if all its nodes have memory.
fn render() -> Rendered {
    let codegen = crate::common::codegen();
    let mut rendered = Rendered::default();
    for case in filetests::run_cases() {
        let optimized =
            optimize(case.routine.clone(), &pipeline::OptimizeSettings::default()).unwrap().routine;
        let is_whole = case.routine.nodes.iter().all(|decl| !decl.mode.known_virtual());
        for routine in [optimized].into_iter().chain(is_whole.then(|| case.routine.clone())) {
            let case = RunCase { routine, ..case.clone() };
            let path = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path);
            let name = format!("{}:{}", path.display(), case.line);
            rendered.runs += 1;
            match compile_case(&codegen, &case) {
                Ok((_, artifact)) => add(&mut rendered.kernels, &name, &artifact),
                Err(Outcome::Skipped(why)) => rendered.skipped.push(format!("{name}: {why}")),
                Err(other) => panic!("{name}: {other:?}"),
            }
        }
    }
    rendered
}

/// Adds each kernel twice: with all its parameters in one slab, and distributed over eight slabs, which every
/// browser can bind.
fn add(kernels: &mut BTreeMap<String, Kernel>, name: &str, artifact: &Artifact) {
    let Payload::Shader(shaders) = artifact.payload() else { panic!("{name}: no shaders") };
    for (at, abi) in artifact.kernels().iter().enumerate() {
        let memory = abi.params.iter().filter(|param| !matches!(param, Param::StaticIndex { .. })).count();
        for most in [1, 8] {
            let numbered: Vec<u32> = (0..memory as u32).map(|parameter| parameter % most).collect();
            let shader = shaders.shader(at, &numbered).unwrap();
            let kernel = Kernel {
                name: format!("{name} {}", abi.name),
                wgsl: shader.wgsl.clone(),
                groups: shader.groups,
                table_words: shader.table_words,
                slabs: memory.min(most as usize),
            };
            kernels.entry(shader.wgsl).or_insert(kernel);
        }
    }
}
