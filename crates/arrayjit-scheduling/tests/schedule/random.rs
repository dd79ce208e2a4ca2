//! Random optimized routines keep their bits after every pass of the scheduler.

use super::common::{on_gpu, steps_with};
use super::lifetimes::options;
use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use filetests::RunCase;
use filetests::generate::{bytes_of_seed, program_from_seed, routine_from_seed};
use lowered_ir::ir::{LoweredRoutine, Numerics};
use lowered_ir::pipeline::{OptimizeSettings, optimize};

/// The optimized routine with the memory of a seed, in each class.
fn cases(routine: LoweredRoutine, seed: u64) -> Option<[RunCase; 2]> {
    let routine = optimize(routine, &OptimizeSettings::default()).ok()?.routine;
    let of =
        |numerics| RunCase::drawn(LoweredRoutine { numerics, ..routine.clone() }, &bytes_of_seed(seed, 4096));
    Some([Numerics::Strict, Numerics::Fast].map(of))
}

/// Every pass of the scheduler on many routines. Each numeric class has a test, so that the two run in
/// parallel: no test of the workspace takes longer.
#[allow(clippy::print_stdout, reason = "tests say which routine failed")]
fn routines_keep_their_bits(numerics: Numerics) {
    let (mut count, seeds) = (0, filetests::effort::seeds(60));
    for seed in seeds.clone() {
        let cases = cases(routine_from_seed(seed, 400), seed ^ 0x5eed);
        for case in cases.into_iter().flatten().filter(|case| case.routine.numerics == numerics) {
            println!("seed {seed}");
            steps_with(&case, &options(seed % 2 == 0));
            on_gpu(&case);
            count += 1;
        }
    }
    assert!(count > seeds.count() / 2, "only {count} routines could be optimized");
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
        let Some(cases) = cases(lowered.lowered.routine, seed) else { continue };
        cases.iter().for_each(|case| drop(on_gpu(case)));
        count += 1;
    }
    assert!(count > seeds.count() / 2, "only {count} programs could be optimized");
}
