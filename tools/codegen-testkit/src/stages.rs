//! A run means the same at every stage: as written, after every pass of the optimizer and of the scheduler,
//! and compiled, however its kernels are split.
//!
//! In the class `Strict` every stage has the same bits. In `Fast` the scheduled kernels fix the order of
//! floating-point operations. They stay within the [bounds of any order](Bounds::of_any_order), and from
//! there on bits are equal: on every choice of the scheduler, on every choice of the code generator,
//! and however parallel kernels are cut.

use codegen_core::{Codegen, ScheduledRoutine};
use filetests::{RunCase, effort};
use lowered_ir::ir::{LoweredRoutine, Numerics};
use lowered_ir::passes::runner::Trace;
use lowered_ir::text::{parse, print};
use lowered_ir::verify::verify;
use scheduling::{ScheduleOptions, schedule_traced};

use crate::bounds::Bounds;
use crate::case::Case;
use crate::corpus::{compare, defined};
use crate::host::{Cuts, Order, run_in};
use crate::report::Outcome;
use crate::small_case::shrink_with;

/// Counts of interesting events, for the summary of a test.
#[derive(Clone, Debug, Default)]
pub struct StageTally {
    /// The number of runs.
    pub cases: usize,
    /// The number of results within their bounds whose bits differ.
    pub rounded: usize,
    /// The number of kernels of all schedules.
    pub kernels: usize,
    /// The number of these that may be split.
    pub parallel: usize,
    /// Nodes that the optimizer inlined.
    pub inlined: usize,
}

/// The variants of the stages to run a case through.
#[derive(Clone, Copy, Debug)]
pub enum StageVariants {
    /// All variants.
    All,
    /// Every variant of the optimizer. Only one of the optimized routines is scheduled and compiled, in one
    /// variant that the number selects, so that many cases together cover all variants.
    One(u8),
}

impl StageVariants {
    /// Whether to run the variant at `position` of `of` variants; `digit` numbers independent choices.
    fn takes(self, digit: u32, position: usize, of: usize) -> bool {
        match self {
            StageVariants::All => true,
            StageVariants::One(way) => usize::from(way) / 5usize.pow(digit) % of == position,
        }
    }
}

/// The stages behind the optimizer: the schedules and the code generators that compile them.
pub struct Stages {
    /// Code generators with their names. The first one's target schedules for the interpreter.
    pub codegens: Vec<(&'static str, Box<dyn Codegen>)>,
}

impl Stages {
    /// Runs the cases that `draw` gives for `count` seeds, with a listing of each case for the message.
    ///
    /// # Panics
    ///
    /// If a stage fails, with the seed, the listing and a small test file that fails in the same way.
    pub fn check_seeds(&self, count: u64, draw: impl Fn(u64) -> (RunCase, String)) -> StageTally {
        let mut tally = StageTally::default();
        for seed in effort::seeds(count) {
            let (case, listing) = draw(seed);
            let variants = StageVariants::One((seed as u8).wrapping_mul(37));
            if let Err(failure) = self.check(&case, variants, &mut tally) {
                panic!("{}", self.shrunk(&case, variants, &failure, &format!("seed {seed}\n{listing}")));
            }
        }
        tally
    }

    /// The message of a failure, with a small test file that fails in the same way.
    fn shrunk(&self, case: &RunCase, variants: StageVariants, failure: &str, listing: &str) -> String {
        let small = shrink_with(&Case::of_run(case.clone()), failure, &mut |candidate| {
            let found = self.check(candidate, variants, &mut StageTally::default());
            found.map_or_else(Outcome::Failed, |()| Outcome::Passed)
        });
        let file = small.run.to_lir();
        format!(
            "{failure}\nof {listing}\nshrunk, for a test file under tools/filetests/lir/run:\n{file}{}",
            small.how
        )
    }

    /// Runs a case through every stage.
    ///
    /// # Errors
    ///
    /// The stage that fails, and how, with the routine.
    pub fn check(
        &self,
        case: &RunCase,
        variants: StageVariants,
        tally: &mut StageTally,
    ) -> Result<(), String> {
        tally.cases += 1;
        reads_back(&case.routine)?;
        let expected = case.interpret().map_err(|error| of("interpreting", error, &case.routine))?;
        let optimized = filetests::check_optimizer(case)?;
        for (at, (name, routine)) in optimized.iter().enumerate() {
            let Some(routine) = routine else { continue };
            reads_back(routine)?;
            tally.inlined += routine.nodes.iter().filter(|node| node.mode.known_virtual()).count();
            if variants.takes(0, at, optimized.len()) {
                let scheduled = RunCase { routine: routine.clone(), ..case.clone() };
                let bounds = Bounds::of_any_order(case);
                let mut schedules = Schedules {
                    stages: self,
                    case: &scheduled,
                    expected: &expected,
                    bounds,
                    variants,
                    tally,
                };
                schedules.check().map_err(|failure| of(&format!("optimized ({name})"), failure, routine))?;
            }
        }
        Ok(())
    }
}

/// The checks of an optimized routine behind the optimizer.
struct Schedules<'s> {
    stages: &'s Stages,
    case: &'s RunCase,
    /// The results of the routine before the optimizer.
    expected: &'s [Vec<u8>],
    bounds: Option<Bounds>,
    variants: StageVariants,
    tally: &'s mut StageTally,
}

impl Schedules<'_> {
    fn check(&mut self) -> Result<(), String> {
        let mut first: Option<Vec<Vec<u8>>> = None;
        for (at, (name, options)) in schedules().into_iter().enumerate() {
            let check = |this: &mut Self| {
                let interpreted = this.interpreted(&options, first.as_deref())?;
                if this.variants.takes(1, at, 4) {
                    this.compiled(&options, &interpreted)?;
                }
                Ok(interpreted)
            };
            let interpreted = check(self).map_err(|failure: String| format!("schedule {name}: {failure}"))?;
            first.get_or_insert(interpreted);
        }
        Ok(())
    }

    /// The results of the scheduled kernels by the interpreter.
    fn interpreted(
        &mut self,
        options: &ScheduleOptions,
        first: Option<&[Vec<u8>]>,
    ) -> Result<Vec<Vec<u8>>, String> {
        let (_, codegen) = &self.stages.codegens[0];
        let routine = &self.case.routine;
        let schedule = scheduled(routine, &**codegen, options)?;
        self.tally.kernels += schedule.kernels().len();
        self.tally.parallel +=
            schedule.kernels().iter().filter(|kernel| kernel.abi().launch.extent > 1).count();
        let found = defined(&**codegen, &schedule, self.case).map_err(message)?;
        // Integer results do not depend on the order of operations.
        let is_exact = routine.nodes.iter().all(|node| !node.dtype.is_float());
        let compared = match (first, &self.bounds) {
            (Some(first), _) => compare(routine, &found, first).map_err(|e| against("the first schedule", e)),
            _ if is_exact || routine.numerics == Numerics::Strict => {
                compare(routine, &found, self.expected).map_err(|e| against("the routine", e))
            }
            (None, Some(bounds)) => bounds.check(routine, &found, 1.0).map(|close| {
                self.tally.rounded += close.elements - close.equal;
            }),
            (None, None) => Ok(()),
        };
        compared.map(|()| found).map_err(|failure| format!("{failure}\n{}", listing(&schedule)))
    }

    /// Compares the kernels that the code generators compile, each on a schedule of its own: it asks for
    /// contractions that others reject.
    fn compiled(&self, options: &ScheduleOptions, interpreted: &[Vec<u8>]) -> Result<(), String> {
        let codegens = self.stages.codegens.iter().enumerate();
        for (_, (name, codegen)) in codegens.filter(|(at, _)| self.variants.takes(2, *at, 3)) {
            let schedule = scheduled(&self.case.routine, &**codegen, options)?;
            let artifact = codegen.compile(&schedule);
            let artifact = artifact.map_err(|e| format!("compiled ({name}): {e}\n{}", listing(&schedule)))?;
            for cuts in [Cuts::Whole, Cuts::Backwards, Cuts::Uneven] {
                let found =
                    run_in(&schedule, &artifact, codegen.caps(), self.case, 0xa5, Order::InTurn(cuts));
                let compared = found.and_then(|found| compare(&self.case.routine, &found, interpreted));
                compared.map_err(|outcome| {
                    format!("compiled ({name}, {cuts:?}): {}\n{}", message(outcome), listing(&schedule))
                })?;
                if schedule.kernels().iter().all(|kernel| kernel.abi().launch.extent < 2) {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Options of the scheduler that lead to different code but, within a class, to the same bits.
fn schedules() -> [(&'static str, ScheduleOptions); 4] {
    let base = ScheduleOptions::default();
    [
        ("default", base.clone()),
        ("serial", ScheduleOptions { parallel: false, vectorize: false, ..base.clone() }),
        ("split", ScheduleOptions { grain_work: 1, ..base.clone() }),
        ("no stack", ScheduleOptions { grain_work: 1, stack_bytes: 0, ..base }),
    ]
}

/// The schedule of an optimized routine for a code generator. Every kernel and the output of every pass keep
/// the verifier's rules.
fn scheduled(
    routine: &LoweredRoutine,
    codegen: &dyn Codegen,
    options: &ScheduleOptions,
) -> Result<ScheduledRoutine, String> {
    let mut passes = Ok(());
    let on_pass = &mut |pass: &str, output: &LoweredRoutine| {
        if passes.is_ok() {
            passes = verify(output).map_err(|error| of(&format!("verifying after {pass}"), error, output));
        }
    };
    let schedule = schedule_traced(routine, codegen, options, &mut Trace::new(on_pass));
    passes?;
    let schedule = schedule.map_err(|error| error.to_string())?;
    for kernel in schedule.kernels() {
        verify(kernel.ir()).map_err(|error| of("verifying a kernel", error, kernel.ir()))?;
    }
    Ok(schedule)
}

/// The text of a routine reads back as the same routine.
fn reads_back(routine: &LoweredRoutine) -> Result<(), String> {
    let text = print(routine);
    let again = parse(&text).map_err(|error| of("reading the printed text", error, routine))?;
    if again.body == routine.body && print(&again) == text {
        return Ok(());
    }
    Err(of("round trip", "the text reads back as something else", routine))
}

fn of(stage: &str, failure: impl std::fmt::Display, routine: &LoweredRoutine) -> String {
    format!("{stage}: {failure}\n{}", print(routine))
}

fn against(what: &str, outcome: Outcome) -> String {
    format!("against {what}: {}", message(outcome))
}

fn message(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed(message) | Outcome::Skipped(message) => message,
        Outcome::Passed => String::new(),
    }
}

fn listing(schedule: &ScheduledRoutine) -> String {
    schedule.kernels().iter().map(|kernel| print(kernel.ir())).collect()
}
