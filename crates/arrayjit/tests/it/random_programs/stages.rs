//! Runs a case through every stage, and compares the results.

use std::collections::BTreeSet;
use std::fmt;

use assignments::lower::{LowerOptions, lower};
use codegen_core::interpreted::Interpreted;
use codegen_core::{Artifact, Caps, Codegen, ScheduledRoutine};
use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift_with};
use lowered_ir::Lowered;
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{Numerics, Routine};
use lowered_ir::pipeline::{self, optimize_traced};
use lowered_ir::text::{parse, print};
use lowered_ir::verify::verify;
use scheduling::{ScheduleOptions, schedule_traced};
use tnode::{DType, Scalar};

use super::bound::{self, ErrorBound};
use super::case::{self, Case, NodeFill, NodeRole};
use super::machine::{self, KernelSplits};

/// A difference or an error.
#[derive(Debug)]
pub(crate) struct StageFailure {
    stage: String,
    message: String,
    routine: Option<Box<Routine>>,
}

impl fmt::Display for StageFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.message)?;
        self.routine.as_ref().map_or(Ok(()), |routine| write!(f, "\n{}", print(routine)))
    }
}

impl StageFailure {
    fn at(stage: impl Into<String>, message: impl ToString) -> StageFailure {
        StageFailure { stage: stage.into(), message: message.to_string(), routine: None }
    }

    fn of(mut self, routine: &Routine) -> StageFailure {
        self.routine = Some(Box::new(routine.clone()));
        self
    }
}

/// Counts of interesting events, for the summary.
#[derive(Debug, Default)]
pub(crate) struct StageTally {
    pub(crate) cases: usize,
    /// The number of results within their bounds whose bits differ.
    pub(crate) rounded: usize,
    /// The number of kernels of all schedules, and the number of those that may be split.
    pub(crate) kernels: usize,
    pub(crate) parallel: usize,
    /// Nodes that the optimiser inlined.
    pub(crate) inlined: usize,
}

/// The variants of the stages to run a case through.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StageVariants {
    /// All variants.
    All,
    /// Every variant of the optimiser. Only one of the optimised routines is scheduled and compiled, in one
    /// variant that differs between cases, so that many cases together cover all variants.
    One(u8),
}

impl StageVariants {
    /// Whether to run the variant at `position` of `of` variants; `digit` numbers independent choices.
    fn takes(self, digit: u32, position: usize, of: usize) -> bool {
        match self {
            StageVariants::All => true,
            StageVariants::One(way) => usize::from(way) / 4usize.pow(digit) % of == position,
        }
    }
}

/// Runs a case through every stage in a numeric class.
pub(crate) fn check(
    case: &Case,
    numerics: Numerics,
    variants: StageVariants,
    tally: &mut StageTally,
) -> Result<(), StageFailure> {
    let lowered = lowered(case, numerics)?;
    stages(&CaseRun::new(case, &lowered), variants, tally)
}

/// Runs a routine through every stage, on memory made for its types; nodes with a memory mode are compared.
pub(crate) fn check_routine(
    routine: &Routine,
    bindings: &[i64],
    variants: StageVariants,
    tally: &mut StageTally,
) -> Result<(), StageFailure> {
    verified("generation", routine)?;
    let decided = |at: usize| routine.nodes[at].mode.mode().is_some();
    let compared = (0..routine.nodes.len()).filter(|&at| decided(at)).collect();
    let mut memory = Memory::zeroed(routine);
    for (at, (bytes, node)) in
        memory.nodes.iter_mut().zip(&routine.nodes).enumerate().filter(|(at, _)| decided(*at))
    {
        *bytes = case::filled(NodeFill::Small, node.dtype, bytes.len(), at as u64);
    }
    stages(&CaseRun { routine, memory, bindings: bindings.to_vec(), compared }, variants, tally)
}

fn stages(run: &CaseRun<'_>, variants: StageVariants, tally: &mut StageTally) -> Result<(), StageFailure> {
    tally.cases += 1;
    let routine = run.routine;
    round_trip(routine)?;
    let expected = run.interpret("lowered", routine)?;
    let mut seen = BTreeSet::new();
    for (at, (name, settings)) in settings().into_iter().enumerate() {
        let mut passes = PassOutputs::default();
        let optimized = optimize_traced(routine.clone(), &settings, &mut |pass, output| {
            passes.verify(name, pass, output)
        })
        .map_err(|e| StageFailure::at(format!("optimise {name}"), e).of(routine))?
        .routine;
        passes.finish()?;
        round_trip(&optimized)?;
        // The settings often lead to the same routine.
        if seen.insert(print(&optimized)) {
            let found = run.interpret(name, &optimized)?;
            run.same(&format!("optimised ({name}) against lowered"), &expected, &found)
                .map_err(|e| e.of(&optimized))?;
        }
        let virtual_nodes = optimized.nodes.iter().filter(|node| node.mode.known_virtual());
        tally.inlined += virtual_nodes.count();
        if variants.takes(0, at, 4) {
            let bound = bound::of(routine, &run.memory, &run.bindings);
            scheduled(run, name, &optimized, &expected, bound.as_ref(), variants, tally)?;
        }
    }
    Ok(())
}

fn lowered(case: &Case, numerics: Numerics) -> Result<Lowered, StageFailure> {
    let handles = case.handles();
    let assignments = case.parse(&handles).map_err(|e| StageFailure::at("text", e))?;
    let lowered = lower(&assignments, &LowerOptions { numerics, ..LowerOptions::default() });
    let lowered = lowered.map_err(|e| StageFailure::at("lowering", e))?.lowered;
    verified("lowering", &lowered.routine)?;
    Ok(lowered)
}

fn verified(stage: &str, routine: &Routine) -> Result<(), StageFailure> {
    verify(routine).map_err(|e| StageFailure::at(format!("verify after {stage}"), e).of(routine))
}

/// The first output of a pass that breaks a rule, if there is one.
#[derive(Default)]
struct PassOutputs(Option<StageFailure>);

impl PassOutputs {
    fn verify(&mut self, stage: &str, pass: &str, output: &Routine) {
        if self.0.is_none() {
            self.0 = verified(&format!("{stage}: {pass}"), output).err();
        }
    }

    fn finish(self) -> Result<(), StageFailure> {
        self.0.map_or(Ok(()), Err)
    }
}

/// The schedule of an optimised routine for a codegen. Every kernel and the output of every pass keep the
/// verifier's rules.
fn schedule_for(
    optimized: &Routine,
    target: &dyn Codegen,
    options: &ScheduleOptions,
    stage: &str,
) -> Result<ScheduledRoutine, StageFailure> {
    let mut passes = PassOutputs::default();
    let schedule =
        schedule_traced(optimized, target, options, &mut |pass, output| passes.verify(stage, pass, output));
    passes.finish()?;
    let schedule = schedule.map_err(|e| StageFailure::at(stage, e).of(optimized))?;
    for kernel in schedule.kernels() {
        verified(stage, kernel.ir())?;
    }
    Ok(schedule)
}

fn round_trip(routine: &Routine) -> Result<(), StageFailure> {
    let text = print(routine);
    let again = parse(&text).map_err(|e| StageFailure::at("reading the printed text", e).of(routine))?;
    if again.body == routine.body && print(&again) == text {
        return Ok(());
    }
    Err(StageFailure::at("round trip", "the text reads back as something else").of(routine))
}

/// Settings of the optimiser that lead to different code.
fn settings() -> Vec<(&'static str, pipeline::OptimizeSettings)> {
    let base = pipeline::OptimizeSettings::default();
    let keep = pipeline::OptimizeSettings { enable_device_only: false, ..base.clone() };
    let inline =
        pipeline::OptimizeSettings { max_visits: 1000, inline_complex_computations: true, ..base.clone() };
    let spill = pipeline::OptimizeSettings {
        stack_threshold_bytes: 0,
        inline_simple_computations: false,
        ..base.clone()
    };
    vec![("default", base), ("kept", keep), ("inlined", inline), ("local", spill)]
}

/// Options of the scheduler that lead to different code but, within a class, to the same bits.
fn schedules(caps: &Caps) -> Vec<(&'static str, Caps, ScheduleOptions)> {
    let base = ScheduleOptions::default();
    let threads = Caps { threads: 4, ..caps.clone() };
    let serial = ScheduleOptions { parallel: false, vectorize: false, ..base.clone() };
    let split = ScheduleOptions { grain_work: 1, ..base.clone() };
    let temps = ScheduleOptions { grain_work: 1, stack_bytes: 0, ..base.clone() };
    vec![
        ("default", threads.clone(), base),
        ("serial", caps.clone(), serial),
        ("split", threads.clone(), split),
        ("no stack", threads, temps),
    ]
}

fn scheduled(
    run: &CaseRun<'_>,
    settings: &str,
    optimized: &Routine,
    expected: &Memory,
    bound: Option<&ErrorBound>,
    variants: StageVariants,
    tally: &mut StageTally,
) -> Result<(), StageFailure> {
    let codegens = [
        ("widest", CraneliftOptions::default()),
        ("vectors", CraneliftOptions { vector: VectorWidth::Bits128, ..CraneliftOptions::default() }),
        (
            "scalars",
            CraneliftOptions { vector: VectorWidth::None, optimise: true, ..CraneliftOptions::default() },
        ),
    ];
    let mut first: Option<Memory> = None;
    for (at, (name, caps, options)) in
        schedules(&codegen_cranelift::host_caps(VectorWidth::default())).into_iter().enumerate()
    {
        let stage = format!("schedule {settings}/{name}");
        let target = cranelift_with(caps.clone(), CraneliftOptions::default());
        let schedule = schedule_for(optimized, &target, &options, &stage)?;
        tally.kernels += schedule.kernels().len();
        tally.parallel += schedule.kernels().iter().filter(|kernel| kernel.abi().launch.extent > 1).count();
        let kernels = || schedule.kernels().iter().map(|k| print(k.ir())).collect::<String>();
        let artifact = Interpreted::of_target(caps.clone()).compile(&schedule);
        let artifact = artifact.map_err(|e| StageFailure::at(&stage, format!("{e}\n{}", kernels())))?;
        let launch = |schedule: &ScheduledRoutine, artifact: &Artifact, cuts| {
            let mut memory = run.memory.clone();
            machine::run(schedule, artifact, &mut memory.nodes, &run.bindings, cuts)
                .map_err(|e| StageFailure::at(&stage, format!("{e}\n{}", kernels())))?;
            Ok(memory)
        };
        let interpreted = launch(&schedule, &artifact, KernelSplits::Whole)?;
        let explain = |f: StageFailure| {
            StageFailure { message: format!("{}\n{}", f.message, kernels()), ..f }.of(optimized)
        };
        // Integer results do not depend on the order of operations.
        let exact = optimized.nodes.iter().all(|node| !node.dtype.is_float());
        let numerics = if exact { Numerics::Strict } else { optimized.numerics };
        match (&first, numerics, bound) {
            (Some(first), ..) => {
                run.same(&format!("{stage} against the first schedule"), first, &interpreted)
                    .map_err(explain)?;
            }
            (None, Numerics::Strict, _) => {
                run.same(&format!("{stage} against lowered"), expected, &interpreted).map_err(explain)?;
            }
            (None, Numerics::Fast, Some(bound)) => {
                let within = bound.check(&run.compared(), expected, &interpreted);
                tally.rounded += within.map_err(|e| explain(StageFailure::at(&stage, e)))?;
            }
            (None, Numerics::Fast, None) => {}
        }
        for (codegen, choice) in codegens
            .iter()
            .filter(|_| variants.takes(1, at, 4))
            .enumerate()
            .filter(|(at, _)| variants.takes(2, *at, 2))
            .map(|(_, c)| c)
        {
            // Each codegen has a schedule of its own, because it asks for contractions that others reject.
            let caps = Caps { threads: caps.threads, ..codegen_cranelift::host_caps(choice.vector) };
            let target = cranelift_with(caps, choice.clone());
            let own = schedule_for(optimized, &target, &options, &format!("{stage} for {codegen}"))?;
            let artifact = target
                .compile(&own)
                .map_err(|error| StageFailure::at(&stage, format!("{codegen}: {error}\n{}", kernels())))?;
            let splits = own.kernels().iter().any(|kernel| kernel.abi().launch.extent > 1);
            let cuts = [KernelSplits::Whole, KernelSplits::Backwards, KernelSplits::Uneven];
            for &cuts in if splits { &cuts[..] } else { &cuts[..1] } {
                let compiled = launch(&own, &artifact, cuts)?;
                run.same(
                    &format!("{stage} compiled ({codegen}, {cuts:?}) against interpreted"),
                    &interpreted,
                    &compiled,
                )
                .map_err(explain)?;
            }
        }
        first.get_or_insert(interpreted);
    }
    Ok(())
}

/// The inputs of a case, in the order of the routine's nodes and symbols.
struct CaseRun<'a> {
    routine: &'a Routine,
    memory: Memory,
    bindings: Vec<i64>,
    /// The positions of the compared nodes.
    compared: Vec<usize>,
}

impl<'a> CaseRun<'a> {
    fn new(case: &Case, lowered: &'a Lowered) -> CaseRun<'a> {
        let first = case.memory();
        let mut memory = Memory::zeroed(&lowered.routine);
        let mut compared = Vec::new();
        for (at, node) in lowered.nodes.iter().enumerate() {
            let name = node.label().last().map(String::as_str);
            let found = case.nodes.iter().position(|known| Some(known.name.as_str()) == name);
            if let Some(found) = found.filter(|&found| case.nodes[found].role != NodeRole::Inner) {
                memory.nodes[at].clone_from(&first[found]);
                compared.push(at);
            }
        }
        let value = |name: &str| case.bindings.iter().find(|(known, _)| known == name).map_or(0, |(_, v)| *v);
        let bindings = lowered.routine.symbols.iter().map(|symbol| value(&symbol.name)).collect();
        CaseRun { routine: &lowered.routine, memory, bindings, compared }
    }

    fn interpret(&self, stage: &str, routine: &Routine) -> Result<Memory, StageFailure> {
        let mut memory = self.memory.clone();
        interp::run(routine, &mut memory, &self.bindings)
            .map_err(|e| StageFailure::at(format!("interpret {stage}"), e).of(routine))?;
        Ok(memory)
    }

    /// The compared nodes, with their types.
    fn compared(&self) -> Vec<(usize, DType)> {
        self.compared.iter().map(|&at| (at, self.routine.nodes[at].dtype)).collect()
    }

    /// Fails if the compared nodes of two memories differ; all NaNs are equal.
    fn same(&self, what: &str, expected: &Memory, found: &Memory) -> Result<(), StageFailure> {
        for (node, dtype) in self.compared() {
            let pairs = elements(dtype, &expected.nodes[node]).zip(elements(dtype, &found.nodes[node]));
            for (at, (e, f)) in pairs.enumerate() {
                let nan = dtype.is_float() && e.as_f64().is_nan() && f.as_f64().is_nan();
                if e != f && !nan {
                    let name = &self.routine.nodes[node].name;
                    let message = format!(
                        "element {at} of %{node} \"{name}\" is {f:?} ({:#x}), expected {e:?} ({:#x})",
                        f.bits(),
                        e.bits()
                    );
                    return Err(StageFailure::at(what, message));
                }
            }
        }
        Ok(())
    }
}

/// The elements in a node's bytes.
pub(crate) fn elements(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = Scalar> + '_ {
    bytes.chunks(dtype.size_bytes()).map(move |chunk| Scalar::read(dtype, chunk).expect("a whole element"))
}
