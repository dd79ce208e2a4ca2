//! Kernels that log, on the simulated GPU: their buffers decode to the text that the interpreter of the IR
//! logs, or to its beginning if a buffer is too small.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing test may panic, and reports are printed"
)]

use crate::common;
use crate::common::device;

use codegen_core::log_buffer::HEADER_BYTES;
use codegen_core::{Codegen, Payload};
use codegen_ptx::{PtxOptions, Target, ptx, ptx_caps};
use codegen_testkit::assembler::CudaTools;
use codegen_testkit::{Outcome, Report, gpu};
use filetests::RunCase;
use filetests::generate::{bytes_of_seed, routine_from_seed};
use lowered_ir::interp::{Buffer, Memory, PreparedRoutine};
use lowered_ir::ir::LoweredRoutine;
use lowered_ir::passes::{log::log_values, runner::Trace};
use lowered_ir::pipeline::{self, optimize};
use ptx_sim::ExecutionOrder;
use scheduling::schedule_serial;
use tnode::DType;

/// The case with every value of its optimized routine logged.
fn logging(case: &RunCase) -> Option<RunCase> {
    let optimized = optimize(case.routine.clone(), &pipeline::OptimizeSettings::default()).ok()?;
    Some(RunCase { routine: log_values(&optimized.routine), ..case.clone() })
}

/// The log of the interpreter of the IR.
fn defined(case: &RunCase) -> String {
    let (mut nodes, mut log) = (case.inputs.clone(), String::new());
    let mut buffers: Vec<Buffer<'_>> = nodes.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
    let mut line = |line: &str| {
        log.push_str(line);
        log.push('\n');
    };
    let program = PreparedRoutine::new(&case.routine).unwrap();
    program.run_logged(&mut buffers, case.merge.as_deref(), &case.bindings, &mut line).unwrap();
    log
}

fn compared(case: &RunCase, target: Target, order: ExecutionOrder) -> Outcome {
    match device::run_logged(&ptx(target, PtxOptions::default()), case, order) {
        Err(outcome) => outcome,
        Ok(log) => match log.lines().zip(defined(case).lines()).find(|(found, expected)| found != expected) {
            Some((found, expected)) => {
                Outcome::Failed(format!("{found:?}, but by the interpreter {expected:?}"))
            }
            None if log != defined(case) => Outcome::Failed(format!("{} lines", log.lines().count())),
            None => Outcome::Passed,
        },
    }
}

#[test]
fn the_corpus_logs_what_the_interpreter_logs() {
    let mut report = Report { subject: "logs of PTX on its interpreter".into(), ..Report::default() };
    for (case, target) in filetests::run_cases().zip(Target::ALL.into_iter().cycle()) {
        let Some(logging) = logging(&case) else { continue };
        let order = ExecutionOrder::Random { seed: case.line as u64 };
        let path = case.path.strip_prefix(filetests::corpus_dir()).unwrap_or(&case.path);
        let name = format!("{}:{} for {}", path.display(), case.line, target.name());
        report.outcomes.insert(name, compared(&logging, target, order));
    }
    println!("{report}");
    assert!(report.conforms() && report.passed() > 100, "{report}");
    assert!(report.skipped().count() * 20 < report.outcomes.len(), "{report}");
}

#[test]
fn random_routines_log_what_the_interpreter_logs() {
    let mut passed = 0;
    for seed in filetests::effort::seeds(15) {
        let (routine, bytes) = (routine_from_seed(seed, 256), bytes_of_seed(seed ^ 0x109, 4096));
        let case = RunCase::drawn(routine, &bytes);
        let Some(case) = logging(&case) else { continue };
        match compared(&case, Target::ALL[seed as usize % 3], ExecutionOrder::Sequential) {
            Outcome::Passed => passed += 1,
            Outcome::Skipped(_) => {}
            failed => panic!("seed {seed}: {failed:?}"),
        }
    }
    assert!(passed > 10, "{passed} passed");
}

/// A routine with its inputs that logs a loaded value and a constant of every type, in an unrolled loop.
fn every_type() -> RunCase {
    let (mut nodes, mut logs) = (String::new(), String::new());
    for (at, dtype) in DType::ALL.into_iter().enumerate() {
        nodes += &format!("node %{at} \"x\" {dtype}[5] on_device ");
        let known = match dtype {
            DType::U32x4 => "lanes(1u32, 2u32, 4000000000u32, 4u32)".to_owned(),
            DType::Bool => "true".to_owned(),
            _ => format!("convert {dtype}(-3i32)"),
        };
        logs += &format!("log \"{dtype}: \", %{at}[i1], \" and \", {known} ");
    }
    let text = format!(
        "routine @types strict {{ symbol @n in 0..3 {nodes} for i0 in 0..min(2, @n) {{ for i1 in 0..5 unrolled {{ {logs}
         log \"end of \", index i32(5*i0 + i1) }} }} }}"
    );
    let routine = lowered_ir::text::parse(&text).unwrap();
    lowered_ir::verify::verify(&routine).unwrap();
    let bytes = |(at, dtype): (usize, DType)| {
        let bytes = (0..5 * dtype.size_bytes()).map(|byte| (byte * 89 + at * 31 + 150) as u8);
        bytes.map(|byte| if dtype == DType::Bool { byte & 1 } else { byte }).collect()
    };
    let nodes = DType::ALL.into_iter().enumerate().map(bytes).collect();
    RunCase::of(routine, Memory { nodes, merge: None }, vec![2])
}

#[test]
fn values_of_every_type_keep_their_bits() {
    let case = every_type();
    assert_eq!(defined(&case).lines().count(), 2 * 5 * 16);
    for target in Target::ALL {
        assert_eq!(compared(&case, target, ExecutionOrder::Sequential), Outcome::Passed, "{}", target.name());
    }
}

/// Whatever the size of the buffer, no write goes beyond it; the simulator would report one.
#[test]
fn a_buffer_that_is_too_small_has_the_beginning_and_the_count_of_the_rest() {
    let case = every_type();
    let log = defined(&case);
    let lines: Vec<&str> = log.lines().collect();
    let run = |log_bytes| {
        let options = PtxOptions { log_bytes, ..PtxOptions::default() };
        device::run_logged(&ptx(Target::Sm80, options), &case, ExecutionOrder::Sequential).unwrap()
    };
    let mut lengths = Vec::new();
    for bytes in (0..400).step_by(7).chain([2000, 1 << 20]) {
        let found = run(bytes);
        let (kept, last) = match found.lines().last().filter(|line| line.starts_with("DROPPED: ")) {
            Some(last) => (found.lines().count() - 1, Some(last)),
            None => (found.lines().count(), None),
        };
        assert!(found.lines().take(kept).eq(lines.iter().copied().take(kept)), "{bytes} bytes: {found}");
        let room = bytes.max(HEADER_BYTES as u32);
        let dropped =
            format!("DROPPED: {} lines; the log of a run has room for {room} bytes", lines.len() - kept);
        assert_eq!(last, (kept < lines.len()).then_some(dropped.as_str()), "{bytes} bytes");
        lengths.push(kept);
    }
    assert!(lengths.is_sorted() && lengths[0] == 0 && *lengths.last().unwrap() == lines.len(), "{lengths:?}");
    assert!(lengths.iter().any(|kept| (1..lines.len()).contains(kept)), "{lengths:?}");
}

#[test]
fn a_kernel_that_logs_nothing_has_no_buffer() {
    let text = "routine @r strict { node %0 \"x\" f32[4] on_device for i0 in 0..4 { %0[i0] := 1.0f32 } }";
    let kernel = common::kernel(text, &ptx_caps(Target::Sm80));
    let rendered = ptx(Target::Sm80, PtxOptions::default()).render(&[kernel]).unwrap();
    assert_eq!((rendered.launches[0].log_bytes, rendered.module.kernels[0].params), (0, 1));
}

#[test]
fn an_assembler_takes_logs() {
    let Some(tools) = gpu::or_skip("assembling logs", CudaTools::find()) else { return };
    let is_about_logs = |case: &RunCase| case.path.to_string_lossy().contains("passes/log");
    let cases: Vec<RunCase> =
        filetests::run_cases().filter(is_about_logs).filter_map(|case| logging(&case)).collect();
    assert!(!cases.is_empty());
    let routines: Vec<LoweredRoutine> =
        cases.into_iter().chain([every_type()]).map(|case| case.routine).collect();
    for (routine, target) in routines.iter().flat_map(|routine| Target::ALL.map(|target| (routine, target))) {
        let codegen = ptx(target, PtxOptions::default());
        let artifact =
            codegen.compile(&schedule_serial(routine, &codegen, &mut Trace::none()).unwrap()).unwrap();
        let Payload::Ptx(module) = artifact.payload() else { panic!("no PTX") };
        tools.accepts(module.text(), target.name()).unwrap();
    }
}
