//! Choices of packing and block sizes: those that do not fit are errors. All tests of this program that
//! compare bits do so with other choices, too.

#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use crate::common;

use common::matmul;
use microkernels::{BlockingChoice, ChoiceError, CpuTarget, GemmPlan};
use vector_asm::{Isa, LaneType};

/// This machine with AVX2, on whose tiles of 6 rows and 16 columns the sizes in the messages depend.
fn cpu() -> CpuTarget {
    CpuTarget { isa: Some(Isa::Avx2), ..CpuTarget::detect() }
}

fn error(choice: &str, prepare: impl FnOnce(&mut common::Case)) -> Option<String> {
    if !Isa::Avx2.is_available() {
        println!("skipped: this machine has no GEMM plans");
        return None;
    }
    let mut case = matmul(LaneType::F32, &[], [20, 40, 50]);
    prepare(&mut case);
    let choice: BlockingChoice = choice.parse().expect("a choice");
    let error = GemmPlan::with_blocking(&case.problem, &cpu(), &choice).expect_err("it does not fit");
    Some(error.to_string())
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    for (choice, expected) in [
        ("blocks:mc=7,kc=10,nc=16", "the block size mc is 7, expected a multiple of 6 up to 24"),
        ("blocks:mc=0,kc=10,nc=16", "the block size mc is 0, expected a multiple of 6 up to 24"),
        ("blocks:mc=30,kc=10,nc=16", "the block size mc is 30, expected a multiple of 6 up to 24"),
        ("blocks-of-b:mc=6,kc=0,nc=16", "the block size kc is 0, expected 1 to 50"),
        ("whole-a:kc=51,nc=16", "the block size kc is 51, expected 1 to 50"),
        ("whole-a:kc=50,nc=24", "the block size nc is 24, expected a multiple of 16 up to 48"),
        ("whole-a:kc=50,nc=64", "the block size nc is 64, expected a multiple of 16 up to 48"),
    ] {
        let Some(found) = error(choice, |_| ()) else { return };
        assert_eq!(found, expected, "{choice}");
    }
}

/// Products with few rows read a B that the L2 cache does not hold in place, in shorter blocks if it is far,
/// and with more rows they pack it.
#[test]
fn operands_in_a_far_cache_are_packed() {
    if !Isa::Avx2.is_available() {
        return println!("skipped: this machine has no GEMM plans");
    }
    let caches = CpuTarget { l1_bytes: 48 << 10, l2_bytes: 2 << 20, l3_bytes: 64 << 20, ..cpu() };
    let choice = |rows: u64, l3_is_far: bool| {
        let case = matmul(LaneType::F32, &[], [rows, 512, 384]);
        let plan = GemmPlan::new(&case.problem, &CpuTarget { l3_is_far, ..caches });
        plan.expect("a product of floats has a plan").blocking().to_string()
    };
    for (rows, near, far) in [
        (6, "in-place:columns", "in-place:columns"),
        (20, "in-place:columns", "blocks-of-a:mc=24,kc=192,nc=512"),
        (50, "in-place:columns", "whole-a:kc=384,nc=64"),
    ] {
        assert_eq!(
            (choice(rows, false), choice(rows, true)),
            (near.to_owned(), far.to_owned()),
            "{rows} rows"
        );
    }
}

#[test]
fn operands_that_microkernels_cannot_read_are_not_read_in_place() {
    let half = vector_asm::StoredType::F16;
    for (choice, operand) in [("in-place:rows", 'A'), ("blocks-of-b:mc=6,kc=10,nc=16", 'A')] {
        let Some(found) = error(choice, |case| case.problem.a.memory = half) else { return };
        assert_eq!(found, ChoiceError::NotInPlace { operand }.to_string());
    }
    let transposed = |case: &mut common::Case| {
        (case.problem.b.outer, case.problem.b.k) =
            (microkernels::AxisOffsets::Strided(200), microkernels::AxisOffsets::Strided(4));
    };
    let Some(found) = error("in-place:columns", transposed) else { return };
    assert_eq!(found, ChoiceError::NotInPlace { operand: 'B' }.to_string());
}

#[test]
fn packed_operands_have_bounded_memory() {
    let large = |case: &mut common::Case| *case = matmul(LaneType::F32, &[], [16, 16, 1]);
    let Some(_) = error("whole-a:kc=2,nc=16", large) else { return };
    let mut case = matmul(LaneType::F32, &[], [16, 16, 1]);
    case.problem.k = 1 << 26;
    let choice = BlockingChoice::WholeA { kc: 1 << 26, nc: 16 };
    let error = GemmPlan::with_blocking(&case.problem, &cpu(), &choice).err();
    assert!(matches!(error, Some(ChoiceError::Memory { .. })), "{error:?}");
}
