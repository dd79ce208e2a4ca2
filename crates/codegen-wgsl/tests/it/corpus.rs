//! Every case of the corpus renders as text that the validator accepts, or is unsupported for a stated
//! reason.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic, and reports are printed"
)]

use crate::common;

use codegen_core::{Artifact, Caps, Payload};
use codegen_testkit::{Outcome, Report, compile_case};
use codegen_wgsl::{WgslOptions, baseline_caps, wgsl};
use filetests::RunCase;
use lowered_ir::pipeline::{self, optimize};

#[test]
fn the_corpus_on_the_least_device() {
    let report = render_all(baseline_caps());
    println!("{report}");
    assert!(report.conforms(), "{report}");
}

#[test]
fn the_corpus_on_a_device_with_all_types() {
    let report = render_all(common::full_caps());
    println!("{report}");
    assert!(report.conforms(), "{report}");
}

/// Renders each case optimized and, if it has memory for all nodes, as written.
fn render_all(caps: Caps) -> Report {
    let codegen = wgsl(caps.clone(), WgslOptions::default());
    let mut report = Report { subject: caps.target.clone(), ..Report::default() };
    for case in filetests::run_cases() {
        let path = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path).to_owned();
        let optimized =
            optimize(case.routine.clone(), &pipeline::OptimizeSettings::default()).unwrap().routine;
        let is_whole = case.routine.nodes.iter().all(|decl| !decl.mode.known_virtual());
        let variants = [(true, "optimized", optimized), (is_whole, "as written", case.routine.clone())];
        for (_, variant, routine) in variants.into_iter().filter(|(wanted, ..)| *wanted) {
            let case = RunCase { routine, ..case.clone() };
            let outcome = compile_case(&codegen, &case)
                .and_then(|(_, artifact)| apart(&artifact, &caps).map_err(Outcome::Failed));
            let name = format!("{}:{} {variant}", path.display(), case.line);
            report.outcomes.insert(name, outcome.err().unwrap_or(Outcome::Passed));
        }
    }
    report
}

/// Renders each kernel twice, with all parameters in one slab and with each parameter in a slab of its own,
/// and parses the texts again.
fn apart(artifact: &Artifact, caps: &Caps) -> Result<(), String> {
    let Payload::Shader(shaders) = artifact.payload() else { return Err("no shaders".into()) };
    for (at, kernel) in artifact.kernels().iter().enumerate() {
        let memory = common::memory_params(kernel);
        for slabs in [vec![0; memory], (0..memory as u32).collect()] {
            let shader = shaders.shader(at, &slabs).map_err(|e| e.to_string())?;
            common::parse_back(&shader.wgsl, caps).map_err(|e| format!("{e}\n{}", shader.wgsl))?;
        }
    }
    Ok(())
}
