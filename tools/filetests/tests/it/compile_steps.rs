//! The steps of every stage from the text to the schedule double with the number of statements.
//!
//! A step is a visit of a statement or of a part of an expression ([`walk::visits`]), or an allocation. The
//! test has a process of its own, because allocations are counted for the whole process. Visits are counted
//! if debug assertions are on.

#![allow(unsafe_code, reason = "wraps the system's allocator to count")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[path = "../../../../crates/scheduler-multicore/tests/it/counting_allocator/mod.rs"]
mod counting_allocator;

use std::collections::BTreeMap;

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use codegen_core::{Caps, Codegen, Interpreted, Workgroups};
use codegen_testkit::in_own_process;
use counting_allocator::allocations;
use filetests::generate::{
    GeneratedProgram,
    families::{FAMILIES, Family},
};
use lowered_ir::ir::{LoweredRoutine, walk};
use lowered_ir::passes::runner::Trace;
use lowered_ir::pipeline::{self, Optimized, optimize_traced};
use lowered_ir::verify::verify;
use scheduling::{ScheduleOptions, schedule_traced};
use tnode::{DType, MemoryMode, TensorNode};

fn steps() -> u64 {
    walk::visits() + allocations() as u64
}

/// The targets of schedules: a processor with vectors, and a GPU.
fn targets() -> [(&'static str, Caps); 2] {
    let cpu =
        Caps { vector_bytes: 32, vector_registers: 16, threads: 2, ..Interpreted::new().caps().clone() };
    let gpu = Caps { workgroups: Some(Workgroups::new(256, 16 << 10)), ..cpu.clone() };
    [("CPU", cpu), ("GPU", gpu)]
}

/// Counts the steps of each stage and each pass.
fn counted(family: &Family, size: usize) -> BTreeMap<String, u64> {
    let GeneratedProgram { text, nodes } = (family.program)(size);
    let mut laps = StepCounter { counts: BTreeMap::new(), before: steps() };
    let assignments = parse(&text, &nodes).unwrap();
    laps.end("text");
    let lowered = lower(&assignments, &LowerOptions::default()).unwrap().lowered;
    laps.end("lower");
    verify(&lowered.routine).unwrap();
    laps.end("verify");
    let settings = pipeline::OptimizeSettings::default();
    let on_pass = &mut |pass: &str, _: &LoweredRoutine| laps.end(pass);
    let Optimized { routine, .. } =
        optimize_traced(lowered.routine, &settings, &mut Trace::new(on_pass)).unwrap();
    laps.end("inputs and outputs");
    for (target, caps) in targets() {
        let options = ScheduleOptions::default();
        let on_step = &mut |step: &str, _: &LoweredRoutine| laps.end(&format!("{target}: {step}"));
        let trace = &mut Trace::new(on_step);
        let schedule = schedule_traced(&routine, &Interpreted::of_target(caps), &options, trace).unwrap();
        laps.end(&format!("{target}: kernels"));
        schedule.kernels().iter().for_each(|kernel| verify(kernel.ir()).unwrap());
        laps.end(&format!("{target}: verify kernels"));
    }
    laps.counts
}

/// The steps since the last stage ended.
struct StepCounter {
    counts: BTreeMap<String, u64>,
    before: u64,
}

impl StepCounter {
    fn end(&mut self, stage: &str) {
        *self.counts.entry(stage.to_owned()).or_default() += steps() - self.before;
        self.before = steps();
    }
}

/// The smaller size, above all limits on the range of a pass's searches.
const SIZE: usize = 300;

/// The largest allowed ratio of steps for twice the statements: slightly above 2, because some sorts take n
/// log n steps.
const MOST: f64 = 2.4;

/// The stages whose steps grow too fast from one size to the next.
fn grown(family: &Family, sizes: [usize; 2]) -> Vec<String> {
    let [once, twice] = sizes.map(|size| counted(family, size));
    let ratio = |stage: &String, steps: u64| {
        let before = once.get(stage).copied().unwrap_or(0).max(sizes[0] as u64);
        (before, steps as f64 / before as f64)
    };
    let of = |(stage, &steps): (&String, &u64)| {
        let (before, ratio) = ratio(stage, steps);
        let told = format!("{}, {stage}: {before} steps, then {steps}: {ratio:.2} times", family.name);
        (ratio > MOST).then_some(told)
    };
    twice.iter().filter_map(of).collect()
}

/// A program with a concatenated axis of `letters` letters; each is a part of the statement.
fn concatenated(letters: usize) -> GeneratedProgram {
    let node = |label: String, dim: usize| {
        TensorNode::builder(label)
            .dims([dim])
            .dtype(DType::F32)
            .mode(MemoryMode::Materialized)
            .build()
            .unwrap()
    };
    let axis: Vec<String> = (0..letters).map(|k| format!("i{k}")).collect();
    let values: Vec<String> = (0..letters).map(|k| format!("x{k}[i{k}]")).collect();
    let mut nodes: Vec<TensorNode> = (0..letters).map(|k| node(format!("x{k}"), 2)).collect();
    nodes.push(node("y".into(), 2 * letters));
    GeneratedProgram { text: format!("y[{}] := {}", axis.join("^"), values.join(", ")), nodes }
}

#[test]
fn twice_the_statements_take_twice_the_steps() {
    if !in_own_process("compile_steps::twice_the_statements_take_twice_the_steps") {
        return;
    }
    if cfg!(not(debug_assertions)) {
        return;
    }
    let concatenated =
        Family { name: "concatenated", about: "an axis of many letters", program: concatenated };
    let families = FAMILIES.iter().flat_map(|family| grown(family, [SIZE, 2 * SIZE]));
    let grown: Vec<String> = families.chain(grown(&concatenated, [120, 240])).collect();
    assert!(grown.is_empty(), "expected at most {MOST} times the steps:\n{}", grown.join("\n"));
}
