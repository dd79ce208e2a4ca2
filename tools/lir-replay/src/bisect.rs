//! `cargo xtask lir bisect`: finds the first stage of compilation that changes what a routine computes.
//!
//! Every run of a file is interpreted after each pass of the optimizer, after each pass of the scheduler,
//! legalization included, and as kernels. The scheduler runs for the target of the capsule or of a backend,
//! if there is one, and for a CPU and a GPU of our own. The optimizer and the scheduler of that target have
//! the settings of the capsule. The results are compared with the interpreter's results before the pass. A
//! pass keeps every bit, with these exceptions in class `fast`, where results may differ by rounding: the
//! passes of the optimizer, `make_numerics_explicit`, and `map_threads` on a GPU. With the setting `fma =
//! "always"`, `make_numerics_explicit` may round differently in every class.
//!
//! A run whose expectations the routine itself does not meet is reported as such: then the file is wrong, or
//! lowering is.

use std::fmt::{self, Write as _};

use anyhow::{Result as AnyResult, anyhow, bail};
use arrayjit::Settings;
use codegen_core::{Caps, DTypeSet, Interpreted, ScheduledRoutine, Transcendental, Workgroups};
use filetests::{Expected, RunCase};
use lowered_ir::{
    interp::{self, Memory},
    ir::{LoweredRoutine, Numerics},
    passes::{log::log_values, runner::Trace},
    pipeline::optimize_traced,
    text,
    verify::verify,
};
use scheduling::{ScheduleOptions, schedule_serial, schedule_traced};
use tnode::DType;

/// By how much results may differ where rounding is free, relative to the greater of 1 and the magnitude.
const ROUNDING: f64 = 1e-3;

/// The byte that fills memory whose contents a pass has declared irrelevant.
const GARBAGE: u8 = 0xa5;

/// Passes that change a routine, each shown to the callback with its name. Returns the changed routine.
type RunPasses<'a> =
    dyn Fn(&LoweredRoutine, &mut dyn FnMut(PassOutput<'_>)) -> Result<LoweredRoutine, String> + 'a;

/// A list of passes with a name.
pub(crate) struct Pipeline<'a> {
    name: String,
    run: Box<RunPasses<'a>>,
}

/// A form of the routine after a pass.
enum PassOutput<'a> {
    /// A routine.
    Routine(&'a str, &'a LoweredRoutine),
    /// The kernels and calls of a scheduled routine.
    Kernels(&'a ScheduledRoutine),
}

/// The first stage whose result is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The name of the list of passes.
    pipeline: String,
    /// The name of the pass.
    pass: String,
    /// The difference in words: a node with both contents, or the error of the verifier.
    what: String,
    /// The routine before the pass, and after it.
    texts: [String; 2],
}

/// The search in all stages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    finding: Option<Finding>,
    /// The schedulers whose target does not support the routine, each with the reason.
    rejections: Vec<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { pipeline, pass, what, texts: [before, after] } = self;
        writeln!(f, "{pipeline}: `{pass}` is the first pass that differs: {what}")?;
        write!(f, "before {pass}:\n{before}after {pass}:\n{after}")
    }
}

/// Searches each run for the first wrong pass, and describes the results.
///
/// # Errors
///
/// The description, if a pass is wrong; the errors of [`search`].
pub(crate) fn bisect(cases: &[RunCase], settings: &Settings, target: Option<&Caps>) -> AnyResult<String> {
    let (mut report, mut wrong) = (String::new(), 0);
    for case in cases {
        let place = format!("{}:{}", case.path.display(), case.line);
        let stages = stages(settings, target);
        let Search { finding, rejections } =
            search(case, &stages).map_err(|why| anyhow!("{place}: {why}"))?;
        for rejection in rejections {
            let _ = writeln!(report, "{place}: {rejection}");
        }
        match finding {
            None => report += &format!("{place}: no pass changes the results\n"),
            Some(finding) => {
                let _ = writeln!(report, "{place}: {finding}");
                wrong += 1;
            }
        }
    }
    if wrong == 0 {
        Ok(report)
    } else {
        bail!("a pass is wrong in {wrong} of {} runs:\n{report}", cases.len())
    }
}

/// The stages of compilation: the optimizer, and on its result the scheduler for each target.
fn stages(settings: &Settings, target: Option<&Caps>) -> Vec<Pipeline<'static>> {
    let options = settings.optimizer();
    let optimizer = move |routine: &LoweredRoutine, show: &mut dyn FnMut(PassOutput<'_>)| {
        let on_pass = &mut |pass: &str, routine: &LoweredRoutine| show(PassOutput::Routine(pass, routine));
        let optimized = optimize_traced(routine.clone(), &options, &mut Trace::new(on_pass));
        optimized.map(|optimized| optimized.routine).map_err(|error| error.to_string())
    };
    let on = |caps: Caps, options: ScheduleOptions, logs: bool| Pipeline {
        name: format!("scheduler for {}", caps.target),
        run: Box::new(move |routine: &LoweredRoutine, show: &mut dyn FnMut(PassOutput<'_>)| {
            scheduled(&caps, &options, logs, routine, show)
        }),
    };
    let optimizer = Pipeline { name: "optimizer".to_owned(), run: Box::new(optimizer) };
    let target = target.map(|caps| on(caps.clone(), ScheduleOptions::default(), settings.has_logs()));
    // Small amounts of work are divided as well, so that small runs reach the passes that divide.
    let divided = || ScheduleOptions { grain_work: 1, ..ScheduleOptions::default() };
    let own = [on(cpu(), divided(), false), on(gpu(), divided(), false)];
    [optimizer].into_iter().chain(target).chain(own).collect()
}

/// The scheduler shows its passes and then the kernels. The routine stays as it is, so that another scheduler
/// can begin with it.
fn scheduled(
    caps: &Caps,
    options: &ScheduleOptions,
    logs: bool,
    routine: &LoweredRoutine,
    show: &mut dyn FnMut(PassOutput<'_>),
) -> Result<LoweredRoutine, String> {
    let target = Interpreted::of_target(caps.clone());
    let on_pass = &mut |pass: &str, routine: &LoweredRoutine| show(PassOutput::Routine(pass, routine));
    let scheduled = if logs {
        let logging = log_values(routine);
        on_pass("log", &logging);
        schedule_serial(&logging, &target, &mut Trace::new(on_pass))
    } else {
        schedule_traced(routine, &target, options, &mut Trace::new(on_pass))
    };
    show(PassOutput::Kernels(&scheduled.map_err(|error| error.to_string())?));
    Ok(routine.clone())
}

/// A CPU with vectors and threads that leaves every transcendental function and narrow type to legalization.
fn cpu() -> Caps {
    let wide = [DType::Bool, DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64];
    Caps {
        arithmetic: wide.into_iter().collect(),
        transcendental: Transcendental::Expanded,
        vector_bytes: 32,
        vector_registers: 16,
        threads: 4,
        fma: true,
        contractions: DTypeSet::EMPTY.with(DType::F32).with(DType::F64),
        ..Caps::host("a CPU")
    }
}

/// A GPU with arithmetic on every type, so that no run is rejected.
fn gpu() -> Caps {
    let caps = Caps::gpu("a GPU", Workgroups::new(256, 16 << 10));
    Caps { arithmetic: DType::ALL.into_iter().collect(), ..caps }
}

/// The first stage that changes the results of a run, if there is one. The first stage is the optimizer; each
/// other one begins with the optimizer's results.
///
/// # Errors
///
/// A routine that does not verify or that the optimizer rejects, a run that the interpreter does not take, or
/// whose expectations the routine does not meet before any pass.
fn search(case: &RunCase, stages: &[Pipeline<'_>]) -> Result<Search, String> {
    verify(&case.routine).map_err(|error| format!("the routine does not verify: {error}"))?;
    let mut results = case.interpret().map_err(|error| format!("the routine does not run: {error}"))?;
    case.check(&results).map_err(|why| format!("wrong before any pass: {why}"))?;
    let mut routine = case.routine.clone();
    let mut rejections = Vec::new();
    for (nth, stage) in stages.iter().enumerate() {
        let mut check = StageCheck::new(case, stage, &routine, results.clone());
        let changed = (stage.run)(&routine, &mut |step| check.step(step));
        if check.finding.is_some() {
            return Ok(Search { finding: check.finding, rejections });
        }
        let name = &stage.name;
        match changed.map_err(|error| format!("the {name} rejects the routine: {error}")) {
            // Each scheduler begins with the optimizer's results, without the rounding of another scheduler.
            Ok(changed) => {
                results = check.interpret(&changed)?;
                routine = changed;
            }
            Err(rejection) if nth == 0 => return Err(rejection),
            Err(rejection) => rejections.push(rejection),
        }
    }
    Ok(Search { finding: None, rejections })
}

/// Compares the forms of a routine, in the order of the passes.
struct StageCheck<'a> {
    case: &'a RunCase,
    pipeline: &'a Pipeline<'a>,
    /// The text of the routine after the last pass.
    before: String,
    /// The results after the last pass.
    results: Vec<Vec<u8>>,
    finding: Option<Finding>,
}

impl<'a> StageCheck<'a> {
    fn new(
        case: &'a RunCase,
        pipeline: &'a Pipeline<'a>,
        routine: &LoweredRoutine,
        results: Vec<Vec<u8>>,
    ) -> Self {
        StageCheck { case, pipeline, before: text::print(routine), results, finding: None }
    }

    fn step(&mut self, step: PassOutput<'_>) {
        if self.finding.is_some() {
            return;
        }
        let (pass, after, outcome) = match step {
            PassOutput::Routine(pass, routine) => (pass, text::print(routine), self.routine(pass, routine)),
            PassOutput::Kernels(scheduled) => {
                let kernels = scheduled.kernels().iter().map(|kernel| text::print(kernel.ir())).collect();
                ("partition", kernels, self.kernels(scheduled))
            }
        };
        let before = std::mem::replace(&mut self.before, after.clone());
        match outcome {
            Ok(results) => self.results = results,
            Err(what) => {
                let (pipeline, pass) = (self.pipeline.name.clone(), pass.to_owned());
                self.finding = Some(Finding { pipeline, pass, what, texts: [before, after] });
            }
        }
    }

    /// The results of a routine, if they agree with those before the pass.
    fn routine(&self, pass: &str, routine: &LoweredRoutine) -> Result<Vec<Vec<u8>>, String> {
        verify(routine).map_err(|error| format!("it does not verify: {error}"))?;
        let results = self.interpret(routine)?;
        let is_fast = self.case.routine.numerics == Numerics::Fast;
        let rounds = match pass {
            "make_numerics_explicit" | "map_threads" => is_fast,
            _ => is_fast && self.pipeline.name == "optimizer",
        };
        self.compare(routine, &results, if rounds { ROUNDING } else { 0.0 })?;
        Ok(results)
    }

    fn kernels(&self, scheduled: &ScheduledRoutine) -> Result<Vec<Vec<u8>>, String> {
        let results = self.run_kernels(scheduled)?;
        let routine = LoweredRoutine { nodes: scheduled.nodes().to_vec(), ..self.case.routine.clone() };
        self.compare(&routine, &results, 0.0)?;
        Ok(results)
    }

    fn compare(&self, routine: &LoweredRoutine, results: &[Vec<u8>], tolerance: f64) -> Result<(), String> {
        let lasting = routine.node_refs().take(self.results.len());
        let lasting = lasting.filter(|(_, decl)| !decl.mode.known_not_materialized());
        let expected =
            lasting.map(|(node, _)| Expected { node, bytes: self.results[node.index()].clone(), tolerance });
        RunCase { routine: routine.clone(), expected: expected.collect(), ..self.case.clone() }.check(results)
    }

    /// The contents of every node before a run. Nodes that a pass has made local or has added hold garbage.
    fn memory(&self, routine: &LoweredRoutine) -> Memory {
        let mut nodes = Memory::zeroed(routine).nodes;
        for ((at, bytes), decl) in nodes.iter_mut().enumerate().zip(&routine.nodes) {
            let was = self.case.routine.nodes.get(at);
            let is_new = decl.mode.known_not_materialized()
                && was.is_none_or(|was| !was.mode.known_not_materialized());
            match self.case.inputs.get(at) {
                Some(input) if !is_new => bytes.clone_from(input),
                _ => bytes.fill(GARBAGE),
            }
        }
        Memory { nodes, merge: self.case.merge.clone() }
    }

    fn interpret(&self, routine: &LoweredRoutine) -> Result<Vec<Vec<u8>>, String> {
        let mut memory = self.memory(routine);
        interp::run(routine, &mut memory, &self.case.bindings).map_err(|error| error.to_string())?;
        Ok(memory.nodes)
    }

    /// Interprets the kernels, call by call, on the arguments that the calls name.
    fn run_kernels(&self, scheduled: &ScheduledRoutine) -> Result<Vec<Vec<u8>>, String> {
        let routine = LoweredRoutine { nodes: scheduled.nodes().to_vec(), ..self.case.routine.clone() };
        let case = RunCase { inputs: self.memory(&routine).nodes, ..self.case.clone() };
        filetests::run_calls(scheduled, &case, |kernel, nodes, bindings| {
            let mut called = Memory { nodes, merge: case.merge.clone() };
            interp::run(scheduled.kernels()[kernel].ir(), &mut called, bindings)
                .map_err(|error| error.to_string())?;
            Ok(called.nodes)
        })
    }
}

#[cfg(test)]
mod tests {
    use lowered_ir::passes;

    use super::*;

    const SUM: &str = "routine @sum fast {
  node %0 \"x\" f32[40, 30] on_device
  node %1 \"y\" f32[40] on_device
  node %2 \"t\" f32[40, 30]
  for i0 in 0..40 {
    for i1 in 0..30 {
      %2[i0, i1] := exp(%0[i0, i1]) * 2.0f32
    }
  }
  for i2 in 0..40 {
    %1[i2] := 0.0f32
    for i3 in 0..30 {
      %1[i2] := %1[i2] + %2[i2, i3]
    }
  }
}
";

    fn case(text: &str) -> RunCase {
        let text = format!("{text}; run: %0 = random(7) => %0 = random(7)\n");
        RunCase::parse_all("sum.lir", &text).expect("it parses").remove(0)
    }

    /// Shows a pass and its result.
    fn pass(name: &str, routine: &mut LoweredRoutine, show: &mut dyn FnMut(PassOutput<'_>)) {
        passes::by_name(name).expect("a pass")(routine).expect("it applies");
        show(PassOutput::Routine(name, routine));
    }

    /// The stages with the default settings.
    fn default_stages() -> Vec<Pipeline<'static>> {
        stages(&Settings::default(), None)
    }

    fn planted(
        run: impl Fn(&LoweredRoutine, &mut dyn FnMut(PassOutput<'_>)) -> Result<LoweredRoutine, String> + 'static,
    ) -> Pipeline<'static> {
        Pipeline { name: "planted".to_owned(), run: Box::new(run) }
    }

    fn found(case: &RunCase, stages: &[Pipeline<'_>]) -> Finding {
        search(case, stages).expect("it runs").finding.expect("a pass is wrong")
    }

    /// Doubles become triples: wrong.
    fn wrong(routine: &LoweredRoutine) -> LoweredRoutine {
        let text = text::print(routine).replace("2.0f32", "3.0f32");
        text::parse(&text).expect("it still parses")
    }

    #[test]
    fn the_wrong_pass_is_named() {
        let planted = planted(|routine, show| {
            let mut routine = routine.clone();
            pass("simplify", &mut routine, show);
            pass("cse", &mut routine, show);
            routine = wrong(&routine);
            show(PassOutput::Routine("triple", &routine));
            pass("dce", &mut routine, show);
            Ok(routine)
        });
        let case = case(SUM);
        let mut all = default_stages();
        all.insert(1, planted);
        let found = found(&case, &all);
        assert_eq!((&*found.pipeline, &*found.pass), ("planted", "triple"));
        assert!(found.what.contains("node %1 \"y\""), "{found}");
        assert!(found.texts[0].contains("2.0f32") && found.texts[1].contains("3.0f32"), "{found}");
        assert!(found.to_string().starts_with("planted: `triple` is the first pass that differs"), "{found}");
    }

    #[test]
    fn a_pass_whose_result_does_not_verify_is_named() {
        let planted = planted(|routine, show| {
            let text = text::print(routine).replace("for i1 in 0..30", "for i1 in 0..31");
            let routine = text::parse(&text).expect("it parses");
            show(PassOutput::Routine("widen", &routine));
            Ok(routine)
        });
        let found = found(&case(SUM), &[planted]);
        assert_eq!(found.pass, "widen");
        assert!(found.what.starts_with("it does not verify"), "{found}");
    }

    #[test]
    fn our_own_passes_differ_in_nothing_on_the_corpus() {
        let mut steps = 0;
        for case in filetests::run_cases().step_by(7) {
            match search(&case, &default_stages()) {
                Ok(Search { finding, .. }) => assert_eq!(finding, None),
                // A virtual node that cannot be inlined.
                Err(why) => assert!(why.contains("rejects the routine"), "{}: {why}", case.path.display()),
            }
            steps += 1;
        }
        assert!(steps > 10, "{steps} runs");
        assert_eq!(search(&case(SUM), &default_stages()), Ok(Search::default()));
    }

    /// Constants of a sum are added if the settings say so.
    #[test]
    fn the_passes_have_the_settings_and_the_target_of_the_capsule() {
        let text = "routine @r fast {
  node %0 \"x\" f32[40] on_device
  node %1 \"y\" f32[40] on_device
  for i0 in 0..40 {
    %1[i0] := (%0[i0] + 1.0f32) + 2.0f32
  }
}
";
        let case = case(text);
        let shown = |settings: &Settings, target: &Caps| {
            let mut shown = Vec::new();
            for stage in stages(settings, Some(target)) {
                let mut texts = String::new();
                let ran = (stage.run)(&case.routine, &mut |step| {
                    if let PassOutput::Kernels(scheduled) = step {
                        texts.extend(scheduled.kernels().iter().map(|kernel| text::print(kernel.ir())));
                    }
                });
                let routine = ran.unwrap_or_else(|why| panic!("{why}"));
                shown.push((stage.name, text::print(&routine) + &texts));
            }
            assert_eq!(search(&case, &stages(settings, Some(target))), Ok(Search::default()));
            shown
        };
        let target = Caps::host("a machine of the test");
        let mut settings = Settings::default();
        let fast = shown(&settings, &target);
        settings.numerics = arrayjit::settings::NumericClass::Real;
        let real = shown(&settings, &target);
        for (shown, is_added) in [(&fast, false), (&real, true)] {
            let optimized = &shown[0].1;
            assert_eq!(optimized.contains("3.0f32"), is_added, "{optimized}");
            assert_eq!(shown[1].0, "scheduler for a machine of the test");
        }
        settings.debugging.logs = "logs".to_owned();
        assert!(shown(&settings, &target)[1].1.contains("log "), "a routine that logs is scheduled as such");
        let narrow = Caps { arithmetic: DTypeSet::EMPTY.with(DType::I64), ..target };
        let Search { finding, rejections } =
            search(&case, &stages(&settings, Some(&narrow))).expect("it runs");
        assert_eq!((finding, rejections.len()), (None, 1));
        assert!(rejections[0].starts_with("the scheduler for a machine of the test rejects the routine: "));
    }

    #[test]
    fn a_file_that_expects_something_else_is_not_a_wrong_pass() {
        let mut case = case(SUM);
        case.expected[0].bytes.fill(0);
        let why = search(&case, &default_stages()).expect_err("the expectation is wrong");
        assert!(why.starts_with("wrong before any pass: sum.lir:"), "{why}");
    }
}
