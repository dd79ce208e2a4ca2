//! The stages of a compilation one by one, each with something measured around it.

use arrayjit::Backend;
use codegen_core::schedule::{ScheduleOptions, schedule_traced};
use filetests::generate::Program;
use lowered_ir::assign::text;
use lowered_ir::lower::{LowerOptions, lower};
use lowered_ir::pipeline::{self, optimize_traced};
use lowered_ir::verify::verify;

/// Compiles the program for the backend, and calls `lap` with its name after each stage and each pass.
pub(crate) fn compile(backend: &Backend, program: &Program, lap: &mut dyn FnMut(&str)) {
    let assignments = text::parse(&program.text, &program.nodes).unwrap();
    lap("text");
    let lowered = lower(&assignments, &LowerOptions::default()).unwrap();
    lap("lower");
    verify(&lowered.routine).unwrap();
    lap("verify lowered");
    let settings = pipeline::Settings::default();
    let optimized =
        optimize_traced(lowered.routine, &settings, &mut |pass, _| lap(&format!("optimize: {pass}")))
            .unwrap();
    lap("optimize: inputs and outputs");
    verify(&optimized.routine).unwrap();
    lap("verify optimised");
    let codegen = backend.codegen();
    let options = ScheduleOptions::default();
    let schedule = schedule_traced(&optimized.routine, codegen.caps(), &options, &mut |step, _| {
        lap(&format!("schedule: {step}"));
    })
    .unwrap();
    lap("schedule: kernels");
    schedule.kernels().iter().for_each(|kernel| verify(kernel.ir()).unwrap());
    lap("verify kernels");
    codegen.compile(&schedule).unwrap();
    lap("codegen");
}
