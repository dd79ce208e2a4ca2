//! The stages of a compilation, run one by one so that each can be measured.

use arrayjit::{Backend, Compiled, Context, HostArray, MemoryMode};
use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use codegen_core::{Caps, Interpreted, Workgroups};
use filetests::generate::GeneratedProgram;
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::passes::runner::Trace;
use lowered_ir::pipeline::{self, optimize_traced};
use lowered_ir::verify::verify;
use scheduling::{ScheduleOptions, schedule_traced};

/// Compiles the program for the backend. After each stage and each pass, calls `lap` with the name of that
/// stage or pass.
pub(crate) fn compile(backend: &Backend, program: &GeneratedProgram, lap: &mut dyn FnMut(&str)) {
    let assignments = parse(&program.text, &program.nodes).unwrap();
    lap("text");
    let lowered = lower(&assignments, &LowerOptions::default()).unwrap().lowered;
    lap("lower");
    verify(&lowered.routine).unwrap();
    lap("verify lowered");
    let settings = pipeline::OptimizeSettings::default();
    let on_pass = &mut |pass: &str, _: &LoweredRoutine| lap(&format!("optimize: {pass}"));
    let optimized = optimize_traced(lowered.routine, &settings, &mut Trace::new(on_pass)).unwrap();
    lap("optimize: inputs and outputs");
    verify(&optimized.routine).unwrap();
    lap("verify optimized");
    let codegen = backend.codegen();
    let options = ScheduleOptions::default();
    let on_pass = &mut |pass: &str, _: &LoweredRoutine| lap(&format!("schedule: {pass}"));
    let trace = &mut Trace::new(on_pass);
    let schedule = schedule_traced(&optimized.routine, codegen, &options, trace).unwrap();
    lap("schedule: kernels");
    schedule.kernels().iter().for_each(|kernel| verify(kernel.ir()).unwrap());
    lap("verify kernels");
    codegen.compile(&schedule).unwrap();
    lap("codegen");
    let gpu = Caps { workgroups: Some(Workgroups::new(256, 16 << 10)), ..codegen.caps().clone() };
    let on_pass = &mut |pass: &str, _: &LoweredRoutine| lap(&format!("schedule for a GPU: {pass}"));
    let trace = &mut Trace::new(on_pass);
    schedule_traced(&optimized.routine, &Interpreted::of_target(gpu), &options, trace).unwrap();
    lap("schedule for a GPU: kernels");
}

/// A context in which every node with memory is zero.
pub(crate) fn context(backend: &Backend, program: &GeneratedProgram) -> Context {
    let kept = program.nodes.iter().filter(|node| node.mode().mode() == Some(MemoryMode::Materialized));
    kept.fold(backend.context().unwrap(), |context, node| {
        let zeros = HostArray::zeros(node.dtype(), node.dims().unwrap()).unwrap();
        context.init_from_host(node, &zeros).unwrap()
    })
}

/// The program, compiled by `Backend`.
pub(crate) fn compiled(backend: &Backend, program: &GeneratedProgram) -> Compiled {
    backend.compile(&program.text, &program.nodes).unwrap()
}
