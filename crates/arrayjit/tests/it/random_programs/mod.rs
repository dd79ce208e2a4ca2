//! Random programs mean the same at every stage: lowered, optimised, scheduled and compiled.
//!
//! In the class `Strict` every stage has the same bits. In `Fast` the scheduled IR fixes the order of
//! floating-point operations; it stays within a stated bound ([`bound`]) of the lowered IR, and from there on
//! bits are equal: on every choice of the scheduler, on every choice of the code generator, and however
//! parallel kernels are cut.
//!
//! The variable `EFFORT` says how many programs (`random_programs::effort`). A failure prints the program:
//! save it under `regressions/` as a test.

mod bound;
mod case;
mod half_contractions;
mod in_place;
mod machine;
mod stages;

use std::cell::RefCell;
use std::path::Path;

use case::Case;
use filetests::generate::without_rejected;
use lowered_ir::ir::Numerics;
use lowered_ir::text::print;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use random_programs::{ProgramWeights, effort, program_from_bytes};
use stages::{StageTally, StageVariants, check, check_routine};

/// The configuration of a test that generates `count` programs for every change.
fn config(count: u32) -> Config {
    let seeds = effort::seeds(count.into());
    let (rng_seed, cases) = (RngSeed::Fixed(seeds.start + 2), (seeds.end - seeds.start) as u32);
    Config { cases, rng_seed, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() }
}

/// The first routine of the program that the bytes describe, as a case.
fn case(weights: &ProgramWeights, bytes: &[u8]) -> Case {
    Case::of_program(&without_rejected(program_from_bytes(bytes, weights)))
}

fn programs(weights: &ProgramWeights, numerics: Numerics, default: u32) -> StageTally {
    let choices = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..250));
    let mut tally = StageTally::default();
    let shared = RefCell::new(&mut tally);
    let result = TestRunner::new(config(default)).run(&choices, |(way, bytes)| {
        let outcome =
            check(&case(weights, &bytes), numerics, StageVariants::One(way), &mut shared.borrow_mut());
        outcome.map_err(|failure| TestCaseError::fail(failure.to_string()))
    });
    if let Err(error) = result {
        let TestError::Fail(reason, (_, bytes)) = error else { panic!("{error}") };
        panic!("{reason}\n\nthe program, for regressions/:\n{}", case(weights, &bytes));
    }
    tally
}

fn nests(numerics: Numerics, default: u32) -> StageTally {
    let choices = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..=4);
    let mut tally = StageTally::default();
    let shared = RefCell::new(&mut tally);
    let result =
        TestRunner::new(config(default)).run(&(any::<u8>(), 0..6i64, choices), |(way, step, choices)| {
            let routine = in_place::routine(numerics, &choices);
            let outcome = check_routine(&routine, &[step], StageVariants::One(way), &mut shared.borrow_mut());
            outcome.map_err(|failure| TestCaseError::fail(format!("{failure}\n\nof\n{}", print(&routine))))
        });
    result.unwrap_or_else(|error| panic!("{error}"));
    tally
}

#[test]
fn nests_in_place_keep_their_order_when_strict() {
    let tally = nests(Numerics::Strict, 100);
    assert!(tally.parallel > 0, "{tally:?}");
}

#[test]
fn nests_in_place_keep_their_order_when_fast() {
    let tally = nests(Numerics::Fast, 100);
    assert!(tally.parallel > 0, "{tally:?}");
}

#[test]
fn strict_programs_have_the_same_bits_everywhere() {
    let tally = programs(&ProgramWeights::large_nodes(), Numerics::Strict, 60);
    assert!(tally.inlined > 0 && tally.parallel > 0, "{tally:?}");
}

#[test]
fn fast_programs_have_the_bits_of_their_schedule() {
    let tally = programs(&ProgramWeights::large_nodes(), Numerics::Fast, 60);
    assert!(tally.inlined > 0 && tally.parallel > 0, "{tally:?}");
}

#[test]
fn fast_programs_stay_within_bounds() {
    let tally = programs(&ProgramWeights::bounded_errors(), Numerics::Fast, 60);
    assert!(tally.rounded > 0 && tally.kernels > 0 && tally.cases > 0, "{tally:?}");
}

#[test]
fn contractions_of_16_bit_floats_beside_copies() {
    let mut tally = StageTally::default();
    for seed in effort::seeds(24) {
        let case = half_contractions::case(&random_programs::bytes_of_seed(seed, 40));
        for (class, numerics) in [Numerics::Fast, Numerics::Strict].into_iter().enumerate() {
            let way = StageVariants::One((seed as u8).wrapping_mul(37).wrapping_add(class as u8));
            if let Err(failure) = check(&case, numerics, way, &mut tally) {
                panic!("{failure}\n\nseed {seed}, {numerics:?}, the program, for regressions/:\n{case}");
            }
        }
    }
    assert!(tally.cases > 0 && tally.kernels > 0, "{tally:?}");
}

#[test]
fn generated_cases_have_a_text_that_parses_to_the_same_case() {
    for seed in 0..40 {
        let case = case(&ProgramWeights::large_nodes(), &random_programs::bytes_of_seed(seed, 200));
        assert_eq!(Case::from_text(&case.to_string()).as_ref(), Some(&case), "seed {seed}:\n{case}");
    }
}

#[test]
fn regressions_stay_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/random_programs/regressions");
    let mut paths: Vec<_> = std::fs::read_dir(folder).expect("the folder is there").flatten().collect();
    paths.sort_by_key(|entry| entry.file_name());
    assert!(!paths.is_empty());
    for path in paths.iter().map(|entry| entry.path()) {
        let text = std::fs::read_to_string(&path).expect("a readable file");
        let case = Case::from_text(&text).unwrap_or_else(|| panic!("{}: not a case", path.display()));
        for numerics in [Numerics::Strict, Numerics::Fast] {
            if let Err(failure) = check(&case, numerics, StageVariants::All, &mut StageTally::default()) {
                panic!("{}, {numerics:?}: {failure}", path.display());
            }
        }
    }
}
