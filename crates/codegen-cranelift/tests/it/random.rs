//! Random verified routines and the corpus, as written and as scheduled kernels, against the interpreter, bit
//! for bit.

use crate::common;

use std::collections::BTreeSet;

use codegen_core::{Codegen as _, CodegenError, Kernel};
use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift, host_caps};
use codegen_testkit::{Outcome, generated_routine, run_generated};
use common::{compare, compile, kernel, run_native};
use filetests::generate::{bindings_from_bytes, bytes_of_seed, memory_from_bytes, routine_from_seed};
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::LoweredRoutine;
use scheduling::legalize;

/// The seeds of the random routines.
fn seeds() -> std::ops::Range<u64> {
    filetests::effort::seeds(100)
}

/// Runs a kernel by the interpreter and as machine code, and compares the results.
fn agrees(kernel: &Kernel, memory: &Memory, bindings: &[i64], options: &CraneliftOptions) {
    let mut expected = memory.clone();
    interp::run(kernel.ir(), &mut expected, bindings).expect("verified routines run");
    let artifact = match compile(kernel, options) {
        Ok(artifact) => artifact,
        Err(CodegenError::Unsupported { .. }) => return,
        Err(error) => panic!("{error}\n{}", lowered_ir::text::print(kernel.ir())),
    };
    let found = run_native(&artifact, kernel, memory, bindings);
    compare(kernel, memory, &expected, &found, &format!("{options:?}"));
}

fn all_widths() -> impl Iterator<Item = CraneliftOptions> {
    let available = VectorWidth::ALL.into_iter().filter(|width| width.is_available());
    available.map(|vector| CraneliftOptions { vector, ..CraneliftOptions::default() })
}

fn legal(routine: &LoweredRoutine) -> LoweredRoutine {
    legalize(routine, &host_caps(VectorWidth::default())).expect("the host stores and computes every type")
}

/// Each routine in one width of vectors, in turn. The conformance kit runs random routines in every width.
#[test]
fn random_routines() {
    let widths: Vec<CraneliftOptions> = all_widths().collect();
    for (seed, options) in seeds().zip(widths.iter().cycle()) {
        let routine = legal(&routine_from_seed(seed, 200));
        let (memory, bindings) = inputs(&routine, seed);
        agrees(&kernel(routine), &memory, &bindings, options);
    }
}

/// Compares optimized and scheduled kernels, on guarded memory and in parts, with the routine itself.
#[test]
fn random_routines_scheduled() {
    let codegen = cranelift(CraneliftOptions::default()).expect("a host target");
    let (mut passed, mut skipped) = (0, BTreeSet::new());
    for seed in seeds() {
        let bytes = bytes_of_seed(seed ^ 0x5eed, 4096);
        match run_generated(&codegen, &generated_routine(codegen.caps(), &bytes_of_seed(seed, 200)), &bytes) {
            Outcome::Passed => passed += 1,
            Outcome::Skipped(reason) => drop(skipped.insert(reason)),
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    let count = seeds().count();
    assert!(passed > count / 2, "{passed} of {count} routines compiled; {skipped:?}");
}

fn inputs(routine: &LoweredRoutine, seed: u64) -> (Memory, Vec<i64>) {
    let bytes = bytes_of_seed(seed ^ 0x5eed, 4096);
    (memory_from_bytes(routine, &bytes), bindings_from_bytes(routine, &bytes))
}

#[test]
fn kernels_that_are_not_legalized_are_rejected_or_correct() {
    let mut rejected = 0;
    for seed in seeds() {
        let routine = routine_from_seed(seed, 200);
        let (memory, bindings) = inputs(&routine, seed);
        let kernel = kernel(routine);
        match compile(&kernel, &CraneliftOptions::default()) {
            Ok(_) => agrees(&kernel, &memory, &bindings, &CraneliftOptions::default()),
            Err(CodegenError::Unsupported { .. }) => rejected += 1,
            Err(error) => panic!("{error}\n{}", lowered_ir::text::print(kernel.ir())),
        }
    }
    let count = seeds().count();
    assert!(rejected > 0 && rejected < count, "{rejected} of {count} routines rejected");
}

#[test]
fn the_corpus() {
    let mut ran = 0;
    // In a routine with a merge buffer, a node and its copy have the same name; in a kernel they do not. The
    // conformance kit partitions such routines first.
    for case in filetests::run_cases().filter(|case| case.merge.is_none()) {
        let memory = Memory { nodes: case.inputs.clone(), merge: case.merge.clone() };
        let kernel = kernel(legal(&case.routine));
        for options in all_widths() {
            agrees(&kernel, &memory, &case.bindings, &options);
        }
        ran += 1;
    }
    assert!(ran > 0, "the corpus has runs");
}
