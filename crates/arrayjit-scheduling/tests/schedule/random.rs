//! Random optimised routines keep their bits after every pass of the scheduler.

use super::common::{Case, on_gpu, steps};
use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use filetests::generate::{
    bindings_from_bytes, bytes_of_seed, memory_from_bytes, program_from_seed, routine_from_seed,
};
use lowered_ir::ir::{Numerics, Routine};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use tnode::MemoryMode;

/// The optimised routine of a seed with its memory. Local nodes hold zeros.
fn case(seed: u64, numerics: Numerics) -> Option<Case> {
    let mut routine = optimize(routine_from_seed(seed, 400), &OptimizeSettings::default()).ok()?.routine;
    routine.numerics = numerics;
    let bytes = bytes_of_seed(seed ^ 0x5eed, 4000);
    let mut memory = memory_from_bytes(&routine, &bytes);
    for (bytes, node) in memory.nodes.iter_mut().zip(&routine.nodes) {
        if node.mode.mode() == Some(MemoryMode::Local) {
            bytes.fill(0);
        }
    }
    let bindings = bindings_from_bytes(&routine, &bytes);
    Some(Case { routine, memory, bindings })
}

/// Every pass of the scheduler on many routines. Each numeric class has a test, so that the two run in
/// parallel: no test of the workspace takes longer.
#[allow(clippy::print_stdout, reason = "tests say which routine failed")]
fn routines_keep_their_bits(numerics: Numerics) {
    let (mut count, seeds) = (0, filetests::effort::seeds(60));
    for seed in seeds.clone() {
        if let Some(case) = case(seed, numerics) {
            println!("seed {seed}");
            steps(&case);
            on_gpu(&case);
            count += 1;
        }
    }
    assert!(count > seeds.count() / 2, "only {count} routines could be optimised");
}

#[test]
fn random_strict_routines_keep_their_bits_through_every_step() {
    routines_keep_their_bits(Numerics::Strict);
}

#[test]
fn random_fast_routines_keep_their_bits_through_every_step() {
    routines_keep_their_bits(Numerics::Fast);
}

#[test]
fn random_programs_keep_their_bits_on_a_gpu() {
    let (mut count, seeds) = (0, filetests::effort::seeds(15));
    for seed in seeds.clone() {
        let program = program_from_seed(seed, 300);
        let assignments = parse(&program.text, &program.nodes).unwrap();
        let options = LowerOptions { numerics: Numerics::Strict, ..LowerOptions::default() };
        let Ok(lowered) = lower(&assignments, &options) else { continue };
        let Ok(optimized) = optimize(lowered.lowered.routine, &OptimizeSettings::default()) else { continue };
        let routine = optimized.routine;
        let mut memory = memory_from_bytes(&routine, &bytes_of_seed(seed, 4096));
        for (bytes, node) in memory.nodes.iter_mut().zip(&routine.nodes) {
            if node.mode.mode() == Some(MemoryMode::Local) {
                bytes.fill(0);
            }
        }
        let bindings = bindings_from_bytes(&routine, &bytes_of_seed(seed, 4096));
        for numerics in [Numerics::Strict, Numerics::Fast] {
            let routine = Routine { numerics, ..routine.clone() };
            on_gpu(&Case { routine, memory: memory.clone(), bindings: bindings.clone() });
        }
        count += 1;
    }
    assert!(count > seeds.count() / 2, "only {count} programs could be optimised");
}
