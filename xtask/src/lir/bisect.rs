//! `cargo xtask lir bisect`: finds the first stage of compilation that changes what a routine computes.
//!
//! Every run of a file is interpreted after each pass of the optimiser, after each pass of the scheduler for
//! a CPU and for a GPU, legalisation included, and as kernels. The results are compared with the
//! interpreter's results before the pass. A pass keeps every bit, with these exceptions in class `fast`,
//! where results may differ by rounding: the passes of the optimiser, `make_numerics_explicit`, and
//! `map_threads` on a GPU.
//!
//! A run whose expectations the routine itself does not meet is reported as such: then the file is wrong, or
//! lowering is.

use std::fmt;

use codegen_core::{Caps, DTypeSet, Interpreted, ScheduledRoutine, Slot, Transcendental, Workgroups};
use filetests::{Expected, RunCase};
use lowered_ir::{
    interp::{self, Memory},
    ir::{Numerics, Routine},
    pipeline::{OptimizeSettings, optimize_traced},
    text,
    verify::verify,
};
use scheduling::{ScheduleOptions, schedule_traced};
use tnode::DType;

/// By how much results may differ where rounding is free, relative to the greater of 1 and the magnitude.
const ROUNDING: f64 = 1e-3;

/// The byte that fills memory whose contents a pass has declared irrelevant.
const GARBAGE: u8 = 0xa5;

/// Passes that change a routine, each shown to the callback with its name. Returns the changed routine.
type RunPasses<'a> = dyn Fn(&Routine, &mut dyn FnMut(PassOutput<'_>)) -> Result<Routine, String> + 'a;

/// A list of passes with a name.
pub(super) struct Pipeline<'a> {
    name: &'static str,
    run: Box<RunPasses<'a>>,
}

/// A form of the routine after a pass.
enum PassOutput<'a> {
    /// A routine.
    Routine(&'a str, &'a Routine),
    /// The kernels and calls of a scheduled routine.
    Kernels(&'a ScheduledRoutine),
}

/// The first stage whose result is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The name of the list of passes.
    pub(super) pipeline: &'static str,
    /// The name of the pass.
    pub(super) pass: String,
    /// The difference in words: a node with both contents, or the error of the verifier.
    pub(super) what: String,
    /// The routine before the pass, and after it.
    pub(super) texts: [String; 2],
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { pipeline, pass, what, texts: [before, after] } = self;
        writeln!(f, "{pipeline}: `{pass}` is the first pass that differs: {what}")?;
        write!(f, "before {pass}:\n{before}after {pass}:\n{after}")
    }
}

/// The stages of compilation: the optimiser, and on its result the scheduler for each kind of target.
pub(super) fn stages() -> Vec<Pipeline<'static>> {
    let optimizer = |routine: &Routine, show: &mut dyn FnMut(PassOutput<'_>)| {
        let on_pass = &mut |pass: &str, routine: &Routine| show(PassOutput::Routine(pass, routine));
        let optimized = optimize_traced(routine.clone(), &OptimizeSettings::default(), on_pass);
        optimized.map(|optimized| optimized.routine).map_err(|error| error.to_string())
    };
    let on = |caps: Caps| {
        Box::new(move |routine: &Routine, show: &mut dyn FnMut(PassOutput<'_>)| {
            scheduled(&caps, routine, show)
        })
    };
    vec![
        Pipeline { name: "optimiser", run: Box::new(optimizer) },
        Pipeline { name: "scheduler for a CPU", run: on(cpu()) },
        Pipeline { name: "scheduler for a GPU", run: on(gpu()) },
    ]
}

/// The scheduler shows its passes and then the kernels. The routine stays as it is, so that another scheduler
/// can begin with it.
fn scheduled(
    caps: &Caps,
    routine: &Routine,
    show: &mut dyn FnMut(PassOutput<'_>),
) -> Result<Routine, String> {
    let target = Interpreted::of_target(caps.clone());
    let on_pass = &mut |pass: &str, routine: &Routine| show(PassOutput::Routine(pass, routine));
    // Small amounts of work are divided as well, so that small runs reach the passes that divide.
    let options = ScheduleOptions { grain_work: 1, ..ScheduleOptions::default() };
    let scheduled =
        schedule_traced(routine, &target, &options, on_pass).map_err(|error| error.to_string())?;
    show(PassOutput::Kernels(&scheduled));
    Ok(routine.clone())
}

/// A CPU with vectors and threads that leaves every transcendental function and narrow type to legalisation.
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

/// The first stage that changes the results of a run, if there is one.
///
/// # Errors
///
/// A routine that does not verify, a run that the interpreter does not take, or whose expectations the
/// routine does not meet before any pass; and a stage that rejects the routine.
pub(super) fn bisect(case: &RunCase, stages: &[Pipeline<'_>]) -> Result<Option<Finding>, String> {
    verify(&case.routine).map_err(|error| format!("the routine does not verify: {error}"))?;
    let nodes = case.interpret().map_err(|error| format!("the routine does not run: {error}"))?;
    case.check(&nodes).map_err(|why| format!("wrong before any pass: {why}"))?;
    let mut routine = case.routine.clone();
    let mut results = nodes;
    for stage in stages {
        let mut check = StageCheck::new(case, stage.name, &routine, results.clone());
        let changed = (stage.run)(&routine, &mut |step| check.step(step));
        if check.finding.is_some() {
            return Ok(check.finding);
        }
        routine = changed.map_err(|error| format!("{} rejects the routine: {error}", stage.name))?;
        // Each scheduler begins with the optimiser's results, without the rounding of another scheduler.
        results = check.interpret(&routine)?;
    }
    Ok(None)
}

/// Compares the forms of a routine, in the order of the passes.
struct StageCheck<'a> {
    case: &'a RunCase,
    pipeline: &'static str,
    /// The text of the routine after the last pass.
    before: String,
    /// The results after the last pass.
    results: Vec<Vec<u8>>,
    finding: Option<Finding>,
}

impl<'a> StageCheck<'a> {
    fn new(case: &'a RunCase, pipeline: &'static str, routine: &Routine, results: Vec<Vec<u8>>) -> Self {
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
                let (pipeline, pass) = (self.pipeline, pass.to_owned());
                self.finding = Some(Finding { pipeline, pass, what, texts: [before, after] });
            }
        }
    }

    /// The results of a routine, if they agree with those before the pass.
    fn routine(&self, pass: &str, routine: &Routine) -> Result<Vec<Vec<u8>>, String> {
        verify(routine).map_err(|error| format!("it does not verify: {error}"))?;
        let results = self.interpret(routine)?;
        let rounds = self.case.routine.numerics == Numerics::Fast
            && (self.pipeline == "optimiser" || matches!(pass, "make_numerics_explicit" | "map_threads"));
        self.compare(routine, &results, if rounds { ROUNDING } else { 0.0 })?;
        Ok(results)
    }

    fn kernels(&self, scheduled: &ScheduledRoutine) -> Result<Vec<Vec<u8>>, String> {
        let results = self.run_kernels(scheduled)?;
        let routine = Routine { nodes: scheduled.nodes().to_vec(), ..self.case.routine.clone() };
        self.compare(&routine, &results, 0.0)?;
        Ok(results)
    }

    fn compare(&self, routine: &Routine, results: &[Vec<u8>], tolerance: f64) -> Result<(), String> {
        let lasting = routine.node_refs().take(self.results.len());
        let lasting = lasting.filter(|(_, decl)| !decl.mode.known_not_materialized());
        let expected =
            lasting.map(|(node, _)| Expected { node, bytes: self.results[node.index()].clone(), tolerance });
        RunCase { routine: routine.clone(), expected: expected.collect(), ..self.case.clone() }.check(results)
    }

    /// The contents of every node before a run. Nodes that a pass has made local or has added hold garbage.
    fn memory(&self, routine: &Routine) -> Memory {
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

    fn interpret(&self, routine: &Routine) -> Result<Vec<Vec<u8>>, String> {
        let mut memory = self.memory(routine);
        interp::run(routine, &mut memory, &self.case.bindings).map_err(|error| error.to_string())?;
        Ok(memory.nodes)
    }

    /// Interprets the kernels, call by call, on the arguments that the calls name.
    fn run_kernels(&self, scheduled: &ScheduledRoutine) -> Result<Vec<Vec<u8>>, String> {
        let routine = Routine { nodes: scheduled.nodes().to_vec(), ..self.case.routine.clone() };
        let mut memory = self.memory(&routine);
        for node in scheduled.overwritten() {
            memory.nodes[node.index()].fill(GARBAGE);
        }
        let mut temps: Vec<u8> = vec![GARBAGE; scheduled.temp_bytes()];
        for call in scheduled.calls() {
            let kernel = scheduled.kernels()[call.kernel].ir();
            let ranges = |slot: &Slot| match slot {
                Slot::Temp(temp) => {
                    let temp = &scheduled.temps()[temp.0 as usize];
                    temp.offset..temp.offset + temp.bytes
                }
                Slot::Node(_) | Slot::Merge(_) => 0..0,
            };
            let argument = |slot: &Slot| match slot {
                Slot::Node(node) => memory.nodes[node.index()].clone(),
                Slot::Merge(_) => memory.merge.clone().unwrap_or_default(),
                Slot::Temp(_) => temps[ranges(slot)].to_vec(),
            };
            let arguments: Vec<Vec<u8>> = call.args.iter().map(argument).collect();
            let bindings: Vec<i64> =
                call.bindings.iter().map(|symbol| self.case.bindings[symbol.index()]).collect();
            let mut called = Memory { nodes: arguments, merge: memory.merge.clone() };
            interp::run(kernel, &mut called, &bindings).map_err(|error| error.to_string())?;
            for (slot, bytes) in call.args.iter().zip(called.nodes) {
                match slot {
                    Slot::Node(node) => memory.nodes[node.index()] = bytes,
                    Slot::Temp(_) => {
                        let range = ranges(slot);
                        temps[range.clone()].copy_from_slice(&bytes[..range.len()]);
                    }
                    Slot::Merge(_) => {}
                }
            }
        }
        Ok(memory.nodes)
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
    fn pass(name: &str, routine: &mut Routine, show: &mut dyn FnMut(PassOutput<'_>)) {
        passes::by_name(name).expect("a pass")(routine).expect("it applies");
        show(PassOutput::Routine(name, routine));
    }

    /// Doubles become triples: wrong.
    fn wrong(routine: &Routine) -> Routine {
        let text = text::print(routine).replace("2.0f32", "3.0f32");
        text::parse(&text).expect("it still parses")
    }

    #[test]
    fn the_wrong_pass_is_named() {
        let planted = Pipeline {
            name: "planted",
            run: Box::new(|routine, show| {
                let mut routine = routine.clone();
                pass("simplify", &mut routine, show);
                pass("cse", &mut routine, show);
                routine = wrong(&routine);
                show(PassOutput::Routine("triple", &routine));
                pass("dce", &mut routine, show);
                Ok(routine)
            }),
        };
        let case = case(SUM);
        let mut all = stages();
        all.insert(1, planted);
        let found = bisect(&case, &all).expect("it runs").expect("a pass is wrong");
        assert_eq!((found.pipeline, &*found.pass), ("planted", "triple"));
        assert!(found.what.contains("node %1 \"y\""), "{found}");
        assert!(found.texts[0].contains("2.0f32") && found.texts[1].contains("3.0f32"), "{found}");
        assert!(found.to_string().starts_with("planted: `triple` is the first pass that differs"), "{found}");
    }

    #[test]
    fn a_pass_whose_result_does_not_verify_is_named() {
        let planted = Pipeline {
            name: "planted",
            run: Box::new(|routine, show| {
                let text = text::print(routine).replace("for i1 in 0..30", "for i1 in 0..31");
                let routine = text::parse(&text).expect("it parses");
                show(PassOutput::Routine("widen", &routine));
                Ok(routine)
            }),
        };
        let found = bisect(&case(SUM), &[planted]).expect("it runs").expect("a pass is wrong");
        assert_eq!(found.pass, "widen");
        assert!(found.what.starts_with("it does not verify"), "{found}");
    }

    #[test]
    fn our_own_passes_differ_in_nothing_on_the_corpus() {
        let mut steps = 0;
        for case in filetests::run_cases().step_by(7) {
            match bisect(&case, &stages()) {
                Ok(found) => assert_eq!(found, None),
                // A virtual node that cannot be inlined, and types that a target lacks.
                Err(why) => assert!(why.contains("rejects the routine"), "{}: {why}", case.path.display()),
            }
            steps += 1;
        }
        assert!(steps > 10, "{steps} runs");
        assert_eq!(bisect(&case(SUM), &stages()), Ok(None));
    }

    #[test]
    fn a_file_that_expects_something_else_is_not_a_wrong_pass() {
        let mut case = case(SUM);
        case.expected[0].bytes.fill(0);
        let why = bisect(&case, &stages()).expect_err("the expectation is wrong");
        assert!(why.starts_with("wrong before any pass: sum.lir:"), "{why}");
    }
}
