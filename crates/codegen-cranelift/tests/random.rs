//! Random verified routines and the corpus, as written and as scheduled kernels, against the interpreter, bit for bit.

mod common;

use codegen_core::legalise::legalise;
use codegen_core::schedule::{ScheduleOptions, schedule};
use codegen_core::{CodegenError, Kernel};
use codegen_cranelift::{CraneliftOptions, host_caps};
use common::{compare, compile, kernel, run_native};
use filetests::generate::{bindings_from_bytes, bytes_of_seed, memory_from_bytes, routine_from_seed};
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::Routine;

const SEEDS: u64 = 400;

/// Runs a kernel both ways.
fn agrees(kernel: &Kernel, memory: &Memory, bindings: &[i64], options: &CraneliftOptions) {
    let mut expected = memory.clone();
    interp::run(&kernel.ir, &mut expected, bindings).expect("verified routines run");
    let artifact = match compile(kernel, options) {
        Ok(artifact) => artifact,
        Err(error) => panic!("{error}\n{}", lowered_ir::text::print(&kernel.ir)),
    };
    let found = run_native(&artifact, kernel, memory, bindings);
    compare(kernel, memory, &expected, &found, &format!("{options:?}"));
}

fn both_options() -> [CraneliftOptions; 2] {
    let base = CraneliftOptions::default();
    [CraneliftOptions { vectors: false, ..base.clone() }, base]
}

fn legal(routine: &Routine) -> Routine {
    legalise(routine, &host_caps()).expect("the host stores and computes every type")
}

#[test]
fn random_routines() {
    for seed in 0..SEEDS {
        let routine = legal(&routine_from_seed(seed, 200));
        let (memory, bindings) = inputs(&routine, seed);
        let kernel = kernel(routine);
        for options in both_options() {
            agrees(&kernel, &memory, &bindings, &options);
        }
    }
}

#[test]
fn random_routines_scheduled() {
    let caps = host_caps();
    for seed in 0..SEEDS {
        let routine = legal(&routine_from_seed(seed, 200));
        let Ok(scheduled) =
            schedule(&routine, &caps, &ScheduleOptions { grain_work: 1, ..Default::default() })
        else {
            continue;
        };
        for kernel in &scheduled.kernels {
            let (memory, bindings) = inputs(&kernel.ir, seed);
            for options in both_options() {
                agrees(kernel, &memory, &bindings, &options);
            }
        }
    }
}

fn inputs(routine: &Routine, seed: u64) -> (Memory, Vec<i64>) {
    let bytes = bytes_of_seed(seed ^ 0x5eed, 4096);
    (memory_from_bytes(routine, &bytes), bindings_from_bytes(routine, &bytes))
}

#[test]
fn what_is_not_legalised_is_refused_or_right() {
    let mut refused = 0;
    for seed in 0..SEEDS {
        let routine = routine_from_seed(seed, 200);
        let (memory, bindings) = inputs(&routine, seed);
        let kernel = kernel(routine);
        match compile(&kernel, &CraneliftOptions::default()) {
            Ok(_) => agrees(&kernel, &memory, &bindings, &CraneliftOptions::default()),
            Err(CodegenError::Unsupported { .. }) => refused += 1,
            Err(error) => panic!("{error}\n{}", lowered_ir::text::print(&kernel.ir)),
        }
    }
    assert!(refused > 0 && refused < SEEDS, "{refused} of {SEEDS} routines refused");
}

#[test]
fn the_corpus() {
    let mut ran = 0;
    for case in filetests::run_cases() {
        let memory = Memory { nodes: case.inputs.clone(), merge: case.merge.clone() };
        let kernel = kernel(legal(&case.routine));
        for options in both_options() {
            agrees(&kernel, &memory, &case.bindings, &options);
        }
        ran += 1;
    }
    assert!(ran > 0, "the corpus has runs");
}
