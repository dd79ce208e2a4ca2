//! Schedules a routine and checks after every pass that the verifier accepts it and that the interpreter
//! gives the same bits.

use codegen_core::{
    Access, Caps, Codegen, DTypeSet, Interpreted, Kernel, Param, ScheduledRoutine, Transcendental,
    Workgroups, check_form,
};
use filetests::RunCase;
use lowered_ir::interp::{self, Buffer, InterpError, Memory, PreparedRoutine};
use lowered_ir::ir::{LoweredRoutine, Numerics, Symbol};
use lowered_ir::passes::runner::Trace as PassTrace;
use lowered_ir::{text, verify};
use random_programs::SplitMix64;
use scheduling::{ScheduleOptions, schedule_traced};
use tnode::{DType, MemoryMode, Scalar};

/// A CPU with 128-bit vectors and two threads.
pub(super) fn cpu() -> Caps {
    let caps = Interpreted::new().caps().clone();
    let native = DType::ALL.into_iter();
    let native = native.filter(|d| d.is_integer() || matches!(d, DType::Bool | DType::F32 | DType::F64));
    Caps {
        target: "test".into(),
        arithmetic: native.collect(),
        transcendental: Transcendental::Expanded,
        vector_bytes: 16,
        vector_registers: 16,
        contractions: DTypeSet::EMPTY,
        threads: 2,
        ..caps
    }
}

/// The interpreter in the place of a target.
pub(super) fn target(caps: &Caps) -> Interpreted {
    Interpreted::of_target(caps.clone())
}

/// The limits of [`gpu`].
const WORKGROUPS: Workgroups = Workgroups::new(256, 16_384);

/// A GPU with 32-bit types and the least workgroup that WebGPU guarantees.
pub(super) fn gpu() -> Caps {
    let native = [DType::Bool, DType::F32, DType::I32, DType::U32];
    Caps {
        target: "gpu".into(),
        arithmetic: DType::ALL.into_iter().filter(|d| native.contains(d) || d.size_bytes() == 8).collect(),
        transcendental: Transcendental::Native,
        workgroups: Some(WORKGROUPS),
        ..cpu()
    }
}

/// A GPU that states enough registers for large tiles.
pub(super) fn large_gpu() -> Caps {
    let workgroups = Workgroups { registers: 96, subgroup_size: 32, ..Workgroups::new(1024, 48 << 10) };
    Caps { workgroups: Some(workgroups), ..gpu() }
}

/// Options under which every loop with independent iterations is parallel.
pub(super) fn eager() -> ScheduleOptions {
    ScheduleOptions { grain_work: 1, ..ScheduleOptions::default() }
}

pub(super) fn parse(source: &str) -> LoweredRoutine {
    let routine = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verified("input", &routine);
    routine
}

fn verified(step: &str, routine: &LoweredRoutine) {
    verify::verify(routine).unwrap_or_else(|e| panic!("after {step}: {e}\n{}", text::print(routine)));
}

/// The routine on small values of both signs, the same in every run. Local nodes hold zeros.
pub(super) fn filled(routine: LoweredRoutine) -> RunCase {
    let is_float: Vec<bool> = routine.nodes.iter().map(|node| node.dtype.is_float()).collect();
    let bindings = vec![0; Symbol::parameters(&routine.symbols).len()];
    RunCase::filled(routine, bindings, |node, at| {
        let word = SplitMix64::new(((node as u64) << 32) + at as u64).word();
        let value = (word >> 40) as f64 / f64::from(1u32 << 24) * 4.0 - 2.0;
        if is_float[node] { value } else { value * 4.0 }
    })
}

/// The results of a case's routine as written.
pub(super) fn as_written(case: &RunCase) -> Vec<Vec<u8>> {
    interpreted(case, &case.routine)
}

/// The results of `routine`, which is the case's routine after some pass.
fn interpreted(case: &RunCase, routine: &LoweredRoutine) -> Vec<Vec<u8>> {
    let mut memory = Memory { merge: case.merge.clone(), ..Memory::zeroed(routine) };
    for ((node, bytes), input) in routine.nodes.iter().zip(&mut memory.nodes).zip(&case.inputs) {
        // A pass may pad a local node, whose values before a run do not matter.
        if bytes.len() == input.len() || node.mode.mode() != Some(MemoryMode::Local) {
            bytes.clone_from(input);
        }
    }
    let run = interp::run(routine, &mut memory, &case.bindings);
    run.unwrap_or_else(|e| panic!("{e}\n{}", text::print(routine)));
    results(routine, &memory.nodes)
}

/// The bytes of the nodes that outlive a run, with one pattern for all NaNs.
fn results(routine: &LoweredRoutine, nodes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let nodes = routine.nodes.iter().zip(nodes);
    let kept = nodes.filter(|(node, _)| node.mode.mode() != Some(MemoryMode::Local));
    kept.map(|(node, bytes)| same_nans(node.dtype, bytes)).collect()
}

fn same_nans(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if dtype.is_float() {
        for element in bytes.chunks_exact_mut(dtype.size_bytes()) {
            if Scalar::read(dtype, element).unwrap().as_f64().is_nan() {
                element.fill(0xFF);
            }
        }
    }
    bytes
}

/// Runs the calls of a schedule one after another.
fn run_calls(case: &RunCase, schedule: &ScheduledRoutine) -> Vec<Vec<u8>> {
    let nodes = filetests::run_calls(schedule, case, |kernel, args, bindings| {
        let kernel = &schedule.kernels()[kernel];
        verified(&kernel.abi().name, kernel.ir());
        let program = PreparedRoutine::new(kernel.ir())?;
        let run = |args: &[Vec<u8>]| {
            let mut args = args.to_vec();
            let mut buffers: Vec<Buffer<'_>> = args.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
            program.run(&mut buffers, case.merge.as_deref(), bindings).unwrap();
            args
        };
        let after = run(&args);
        keeps_its_word(kernel, &args, &after, run);
        Ok::<_, InterpError>(after)
    });
    results(&case.routine, &nodes.unwrap())
}

/// Runs a kernel a second time, with other initial contents in the memory that it must not read. Checks that
/// both runs leave the same elements. If the kernel may write a part of the memory only, an element may also
/// keep its initial value in both runs.
fn keeps_its_word(
    kernel: &Kernel,
    args: &[Vec<u8>],
    after: &[Vec<u8>],
    run: impl Fn(&[Vec<u8>]) -> Vec<Vec<u8>>,
) {
    let accesses: Vec<Access> = kernel.abi().params.iter().filter_map(access).collect();
    let is_unread = |access: Access| matches!(access, Access::Write | Access::WritePart);
    if !accesses.iter().copied().any(is_unread) {
        return;
    }
    let mut soiled = args.to_vec();
    for (bytes, _) in soiled.iter_mut().zip(&accesses).filter(|(_, access)| is_unread(**access)) {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let again = run(&soiled);
    for (at, access) in accesses.iter().enumerate() {
        let size = kernel.ir().nodes[at].dtype.size_bytes();
        let element = |bytes: &[Vec<u8>], i: usize| bytes[at][i * size..][..size].to_vec();
        for i in 0..after[at].len() / size {
            let is_same = element(after, i) == element(&again, i);
            let is_kept = element(after, i) == element(args, i) && element(&again, i) == element(&soiled, i);
            assert!(
                is_same || *access == Access::WritePart && is_kept,
                "parameter {at} is {access:?}, but element {i} depends on what was there:\n{}",
                text::print(kernel.ir())
            );
        }
    }
}

/// The access to a memory parameter. Merge buffers are read.
fn access(param: &Param) -> Option<Access> {
    match param {
        Param::Node { access, .. } => Some(*access),
        Param::MergeBuffer { .. } => Some(Access::Read),
        Param::StaticIndex { .. } => None,
    }
}

/// Whether two results differ by no more than reordered `f32` arithmetic may change.
fn close(a: &[Vec<u8>], b: &[Vec<u8>], routine: &LoweredRoutine) -> bool {
    let kept = routine.nodes.iter().filter(|n| n.mode.mode() != Some(MemoryMode::Local));
    a.iter().zip(b).zip(kept).all(|((a, b), node)| {
        let each = |bytes: &[u8]| -> Vec<f64> {
            let elements = bytes.chunks_exact(node.dtype.size_bytes());
            elements.map(|e| Scalar::read(node.dtype, e).unwrap().as_f64()).collect()
        };
        let tolerance = if node.dtype.size_bytes() < 4 { 0.1 } else { 2e-3 };
        each(a).iter().zip(each(b)).all(|(x, y)| {
            (x - y).abs() <= tolerance * (1.0 + x.abs())
                || x.to_bits() == y.to_bits()
                || (x.is_nan() && y.is_nan())
        })
    })
}

/// Verifies and interprets a routine after each pass that changes it.
struct StepChecker<'c> {
    case: &'c RunCase,
    /// The routine after the pass before, as text: most passes leave most routines as they are.
    text: String,
    /// The results of that routine.
    bits: Vec<Vec<u8>>,
}

impl<'c> StepChecker<'c> {
    fn new(case: &'c RunCase) -> StepChecker<'c> {
        StepChecker { case, text: text::print(&case.routine), bits: as_written(case) }
    }

    /// Checks the routine after a pass. Only a pass that `may_reorder` may change bits.
    fn check(&mut self, step: &str, after: &LoweredRoutine, may_reorder: bool) {
        let text = text::print(after);
        if text == self.text {
            return;
        }
        verified(step, after);
        let now = interpreted(self.case, after);
        assert!(may_reorder || self.bits == now, "{step} changed bits:\n{text}");
        (self.text, self.bits) = (text, now);
    }
}

/// The name of each pass and the text of the routine after it.
pub(super) type Trace = Vec<(String, String)>;

/// Schedules in both classes: class `Strict` keeps all bits, class `Fast` the bits of integers and floats
/// within bounds. Returns what `steps` returns for class `Fast`, without the results in the middle.
fn in_both_classes<T>(
    case: &RunCase,
    steps: impl Fn(&RunCase) -> (ScheduledRoutine, Vec<Vec<u8>>, T),
) -> (ScheduledRoutine, T) {
    let of =
        |numerics| RunCase { routine: LoweredRoutine { numerics, ..case.routine.clone() }, ..case.clone() };
    let (written, listing) = (as_written(case), text::print(&case.routine));
    assert!(steps(&of(Numerics::Strict)).1 == written, "strict changes bits:\n{listing}");
    let (schedule, fast, trace) = steps(&of(Numerics::Fast));
    assert!(close(&fast, &written, &case.routine), "fast is far from strict:\n{listing}");
    (schedule, trace)
}

/// Schedules in both classes and checks every pass. Returns the schedule of class `Fast` and its passes.
pub(super) fn check(case: &RunCase) -> (ScheduledRoutine, Trace) {
    in_both_classes(case, steps)
}

/// Schedules and checks every pass. Returns the schedule, its results, and the passes.
pub(super) fn steps(case: &RunCase) -> (ScheduledRoutine, Vec<Vec<u8>>, Trace) {
    steps_with(case, &eager())
}

/// [`steps`] with these options.
pub(super) fn steps_with(
    case: &RunCase,
    options: &ScheduleOptions,
) -> (ScheduledRoutine, Vec<Vec<u8>>, Trace) {
    steps_on(case, &cpu(), options)
}

/// [`steps_with`] for another CPU.
pub(super) fn steps_on(
    case: &RunCase,
    caps: &Caps,
    options: &ScheduleOptions,
) -> (ScheduledRoutine, Vec<Vec<u8>>, Trace) {
    let reorders = |step: &str| case.routine.numerics == Numerics::Fast && step == "make_numerics_explicit";
    let (schedule, bits, trace) = traced(case, caps, options, reorders);
    let interpreter = scheduling::schedule(&case.routine, &Interpreted::new(), options).unwrap();
    assert!(run_calls(case, &interpreter) == bits, "the interpreter's schedule has other bits");
    (schedule, bits, trace)
}

/// Schedules and checks every pass; only one that `reorders` may change bits.
fn traced(
    case: &RunCase,
    caps: &Caps,
    options: &ScheduleOptions,
    reorders: impl Fn(&str) -> bool,
) -> (ScheduledRoutine, Vec<Vec<u8>>, Trace) {
    let mut steps = StepChecker::new(case);
    let mut trace = Trace::new();
    let schedule = schedule_traced(
        &case.routine,
        &target(caps),
        options,
        &mut PassTrace::new(&mut |step, after| {
            steps.check(step, after, reorders(step));
            trace.push((step.to_string(), steps.text.clone()));
        }),
    );
    let (schedule, bits) = (schedule.unwrap(), steps.bits);
    assert!(run_calls(case, &schedule) == bits, "cutting changed bits:\n{}", trace.last().unwrap().1);
    (schedule, bits, trace)
}

/// Schedules for a GPU in both classes and checks every pass; every kernel has the form that workgroups can
/// run. Returns the schedule of class `Fast`.
pub(super) fn check_gpu(case: &RunCase) -> ScheduledRoutine {
    check_on(case, &gpu())
}

/// [`check_gpu`] for another GPU.
pub(super) fn check_on(case: &RunCase, caps: &Caps) -> ScheduledRoutine {
    let steps = |case: &RunCase| {
        let (schedule, results) = on(case, caps);
        (schedule, results, ())
    };
    in_both_classes(case, steps).0
}

/// Schedules for a GPU and checks every pass. Returns the schedule and its results.
pub(super) fn on_gpu(case: &RunCase) -> (ScheduledRoutine, Vec<Vec<u8>>) {
    on(case, &gpu())
}

/// [`on_gpu`] for another GPU.
pub(super) fn on(case: &RunCase, caps: &Caps) -> (ScheduledRoutine, Vec<Vec<u8>>) {
    let is_fast = case.routine.numerics == Numerics::Fast;
    let reorders = |step: &str| is_fast && matches!(step, "make_numerics_explicit" | "map_threads");
    let (schedule, bits, _) = traced(case, caps, &ScheduleOptions::default(), reorders);
    for kernel in schedule.kernels() {
        check_form(kernel.ir(), caps.workgroups.unwrap())
            .unwrap_or_else(|e| panic!("{e}\n{}", text::print(kernel.ir())));
    }
    (schedule, bits)
}
