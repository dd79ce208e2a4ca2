//! Schedules a routine and checks after every pass that the verifier accepts it and that the interpreter
//! gives the same bits.

use codegen_core::{
    Access, Caps, Codegen, DTypeSet, Interpreted, Kernel, Param, ScheduledRoutine, Slot, Transcendental,
    Workgroups, check_form,
};
use lowered_ir::interp::{self, Buffer, Memory, PreparedRoutine};
use lowered_ir::ir::{NodeDecl, Numerics, Routine};
use lowered_ir::{text, verify};
use scheduling::{FmaPolicy, ScheduleOptions, schedule_traced};
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

pub(super) fn parse(source: &str) -> Routine {
    let routine = text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verified("input", &routine);
    routine
}

fn verified(step: &str, routine: &Routine) {
    verify::verify(routine).unwrap_or_else(|e| panic!("after {step}: {e}\n{}", text::print(routine)));
}

/// A routine with its memory and bindings.
#[derive(Clone)]
pub(super) struct Case {
    /// The routine to run.
    pub(super) routine: Routine,
    /// The memory before the run.
    pub(super) memory: Memory,
    /// The values of symbols.
    pub(super) bindings: Vec<i64>,
}

impl Case {
    /// The routine on small values of both signs, the same in every run. Local nodes hold zeros.
    pub(super) fn filled(routine: Routine) -> Case {
        let mut memory = Memory::zeroed(&routine);
        let mut state = 1u32;
        let nodes = memory.nodes.iter_mut().zip(&routine.nodes);
        for (bytes, node) in nodes.filter(|(_, node)| node.mode.mode() != Some(MemoryMode::Local)) {
            for element in bytes.chunks_exact_mut(node.dtype.size_bytes()) {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let value = f64::from(state >> 8) / f64::from(1u32 << 24) * 4.0 - 2.0;
                let value = if node.dtype.is_float() { value } else { value * 4.0 };
                Scalar::from_f64(node.dtype, value).write(element);
            }
        }
        let bindings = vec![0; routine.symbols.len()];
        Case { routine, memory, bindings }
    }

    /// The results of the routine as written.
    pub(super) fn as_written(&self) -> Vec<Vec<u8>> {
        self.interpreted(&self.routine)
    }

    /// The results of `routine`, which is this case's routine after some pass.
    fn interpreted(&self, routine: &Routine) -> Vec<Vec<u8>> {
        let mut memory = self.memory.clone();
        let bytes = |node: &NodeDecl| node.dims.iter().product::<usize>() * node.dtype.size_bytes();
        let added = routine.nodes.iter().skip(memory.nodes.len());
        memory.nodes.extend(added.map(|node| vec![0; bytes(node)]).collect::<Vec<_>>());
        let run = interp::run(routine, &mut memory, &self.bindings);
        run.unwrap_or_else(|e| panic!("{e}\n{}", text::print(routine)));
        results(routine, &memory)
    }
}

/// The bytes of the nodes that outlive a run, with one pattern for all NaNs.
fn results(routine: &Routine, memory: &Memory) -> Vec<Vec<u8>> {
    let nodes = routine.nodes.iter().zip(&memory.nodes);
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

/// Runs the calls of a schedule one after another. Nodes that it overwrites hold garbage before.
fn run_calls(case: &Case, schedule: &ScheduledRoutine) -> Vec<Vec<u8>> {
    let mut memory = case.memory.clone();
    for node in schedule.overwritten() {
        memory.nodes[node.index()].fill(0x5A);
    }
    // The initial contents of temporaries are undefined.
    let mut pool = vec![0xA5u8; schedule.temp_bytes()];
    for call in schedule.calls() {
        let kernel = &schedule.kernels()[call.kernel];
        verified(&kernel.abi().name, kernel.ir());
        let args: Vec<Vec<u8>> = call.args.iter().map(|slot| take(slot, &memory, &pool, schedule)).collect();
        let bindings: Vec<i64> = call.bindings.iter().map(|symbol| case.bindings[symbol.index()]).collect();
        let program = PreparedRoutine::new(kernel.ir()).unwrap();
        let run = |args: &[Vec<u8>]| {
            let mut args = args.to_vec();
            let mut buffers: Vec<Buffer<'_>> = args.iter_mut().map(|bytes| Buffer::Write(bytes)).collect();
            program.run(&mut buffers, memory.merge.as_deref(), &bindings).unwrap();
            args
        };
        let after = run(&args);
        keeps_its_word(kernel, &args, &after, run);
        for (slot, bytes) in call.args.iter().zip(after) {
            put(slot, bytes, &mut memory, &mut pool, schedule);
        }
    }
    results(&case.routine, &memory)
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

fn take(slot: &Slot, memory: &Memory, pool: &[u8], schedule: &ScheduledRoutine) -> Vec<u8> {
    match slot {
        Slot::Node(node) => memory.nodes[node.index()].clone(),
        Slot::Merge(_) => memory.merge.clone().unwrap(),
        Slot::Temp(id) => {
            let temp = &schedule.temps()[id.0 as usize];
            pool[temp.offset..temp.offset + temp.bytes].to_vec()
        }
    }
}

fn put(slot: &Slot, bytes: Vec<u8>, memory: &mut Memory, pool: &mut [u8], schedule: &ScheduledRoutine) {
    match slot {
        Slot::Node(node) => memory.nodes[node.index()] = bytes,
        Slot::Merge(_) => {}
        Slot::Temp(id) => {
            let temp = &schedule.temps()[id.0 as usize];
            pool[temp.offset..temp.offset + temp.bytes].copy_from_slice(&bytes);
        }
    }
}

/// Whether two results differ by no more than reordered `f32` arithmetic may change.
fn close(a: &[Vec<u8>], b: &[Vec<u8>], routine: &Routine) -> bool {
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
    case: &'c Case,
    /// The routine after the pass before, as text: most passes leave most routines as they are.
    text: String,
    /// The results of that routine.
    bits: Vec<Vec<u8>>,
}

impl<'c> StepChecker<'c> {
    fn new(case: &'c Case) -> StepChecker<'c> {
        StepChecker { case, text: text::print(&case.routine), bits: case.interpreted(&case.routine) }
    }

    /// Checks the routine after a pass. Only a pass that `may_reorder` may change bits.
    fn check(&mut self, step: &str, after: &Routine, may_reorder: bool) {
        let text = text::print(after);
        if text == self.text {
            return;
        }
        verified(step, after);
        let now = self.case.interpreted(after);
        assert!(may_reorder || self.bits == now, "{step} changed bits:\n{text}");
        (self.text, self.bits) = (text, now);
    }
}

/// The name of each pass and the text of the routine after it.
pub(super) type Trace = Vec<(String, String)>;

/// Schedules in both classes and checks every pass. Returns the schedule of class `Fast` and its passes.
pub(super) fn check(case: &Case) -> (ScheduledRoutine, Trace) {
    let mut case = case.clone();
    let written = case.interpreted(&case.routine);
    case.routine.numerics = Numerics::Strict;
    assert!(steps(&case).1 == written, "strict changes bits:\n{}", text::print(&case.routine));
    case.routine.numerics = Numerics::Fast;
    let (schedule, fast, trace) = steps(&case);
    assert!(
        close(&fast, &written, &case.routine),
        "fast is far from strict:\n{}",
        text::print(&case.routine)
    );
    (schedule, trace)
}

/// Whether the scheduler may reorder reductions.
fn routine_is_fast(case: &Case) -> bool {
    case.routine.numerics == Numerics::Fast
}

/// Schedules and checks every pass. Returns the schedule, its results, and the passes.
pub(super) fn steps(case: &Case) -> (ScheduledRoutine, Vec<Vec<u8>>, Trace) {
    steps_with(case, &eager())
}

/// [`steps`] with these options.
pub(super) fn steps_with(case: &Case, options: &ScheduleOptions) -> (ScheduledRoutine, Vec<Vec<u8>>, Trace) {
    steps_on(case, &cpu(), options)
}

/// [`steps_with`] for another CPU.
pub(super) fn steps_on(
    case: &Case,
    caps: &Caps,
    options: &ScheduleOptions,
) -> (ScheduledRoutine, Vec<Vec<u8>>, Trace) {
    let mut steps = StepChecker::new(case);
    let mut trace = Trace::new();
    let explicit = routine_is_fast(case) || options.fma == FmaPolicy::Always;
    let schedule = schedule_traced(&case.routine, &target(caps), options, &mut |step, after| {
        steps.check(step, after, explicit && step == "make_numerics_explicit");
        trace.push((step.to_string(), steps.text.clone()));
    });
    let (schedule, bits) = (schedule.unwrap(), steps.bits);
    assert!(run_calls(case, &schedule) == bits, "cutting changed bits:\n{}", trace.last().unwrap().1);
    let interpreter = scheduling::schedule(&case.routine, &Interpreted::new(), options).unwrap();
    assert!(run_calls(case, &interpreter) == bits, "the interpreter's schedule has other bits");
    (schedule, bits, trace)
}

/// Schedules for a GPU in both classes: class `Strict` keeps all bits, class `Fast` the bits of integers and
/// floats within bounds, and every kernel has the form that workgroups can run. Returns the schedule of class
/// `Fast`.
pub(super) fn check_gpu(case: &Case) -> ScheduledRoutine {
    check_on(case, &gpu())
}

/// [`check_gpu`] for another GPU.
pub(super) fn check_on(case: &Case, caps: &Caps) -> ScheduledRoutine {
    let mut case = case.clone();
    let written = case.interpreted(&case.routine);
    case.routine.numerics = Numerics::Strict;
    assert!(on(&case, caps).1 == written, "strict changes bits:\n{}", text::print(&case.routine));
    case.routine.numerics = Numerics::Fast;
    let (schedule, fast) = on(&case, caps);
    assert!(
        close(&fast, &written, &case.routine),
        "fast is far from strict:\n{}",
        text::print(&case.routine)
    );
    schedule
}

/// Schedules for a GPU and checks every pass. Returns the schedule and its results.
pub(super) fn on_gpu(case: &Case) -> (ScheduledRoutine, Vec<Vec<u8>>) {
    on(case, &gpu())
}

/// [`on_gpu`] for another GPU.
pub(super) fn on(case: &Case, caps: &Caps) -> (ScheduledRoutine, Vec<Vec<u8>>) {
    let mut steps = StepChecker::new(case);
    let schedule =
        schedule_traced(&case.routine, &target(caps), &ScheduleOptions::default(), &mut |step, after| {
            let reorders = matches!(step, "make_numerics_explicit" | "map_threads");
            steps.check(step, after, reorders && routine_is_fast(case));
        });
    let (schedule, bits) = (schedule.unwrap(), steps.bits);
    for kernel in schedule.kernels() {
        check_form(kernel.ir(), caps.workgroups.unwrap())
            .unwrap_or_else(|e| panic!("{e}\n{}", text::print(kernel.ir())));
    }
    assert!(run_calls(case, &schedule) == bits, "cutting changed bits:\n{}", text::print(&case.routine));
    (schedule, bits)
}
