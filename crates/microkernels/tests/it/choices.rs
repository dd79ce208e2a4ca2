//! Choices of packing and block sizes: those that do not fit are errors. All tests of this program that
//! compare bits do so with other choices, too.

#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use crate::common;

use common::matmul;
use microkernels::{BlockingChoice, ChoiceError, CpuTarget, GemmPlan};
use vector_asm::{Isa, LaneType};

/// This machine with AVX2 or NEON, and the rows and columns of a tile, on which the sizes in the messages
/// depend.
fn cpu() -> Option<(CpuTarget, [u64; 2])> {
    let tiles = [(Isa::Avx2, [6, 16]), (Isa::Neon, [12, 8])];
    let Some((isa, tile)) = tiles.into_iter().find(|(isa, _)| isa.is_available()) else {
        println!("skipped: this machine has no GEMM plans");
        return None;
    };
    Some((CpuTarget { isa: Some(isa), ..CpuTarget::detect() }, tile))
}

fn error(choice: &str, prepare: impl FnOnce(&mut common::Case)) -> Option<String> {
    let (cpu, _) = cpu()?;
    let mut case = matmul(LaneType::F32, &[], [20, 40, 50]);
    prepare(&mut case);
    let choice: BlockingChoice = choice.parse().expect("a choice");
    let error = GemmPlan::with_blocking(&case.problem, &cpu, &choice).expect_err("it does not fit");
    Some(error.to_string())
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let Some((_, [rows, columns])) = cpu() else { return };
    let [of_rows, of_columns] = [(rows, 20u64), (columns, 40)]
        .map(|(of, size)| format!("a multiple of {of} up to {}", size.next_multiple_of(of)));
    for (choice, wrong, expected) in [
        ("blocks:mc=7,kc=10,nc=16", "mc is 7", &*of_rows),
        ("blocks:mc=0,kc=10,nc=16", "mc is 0", &of_rows),
        ("blocks:mc=36,kc=10,nc=16", "mc is 36", &of_rows),
        ("blocks-of-b:mc=12,kc=0,nc=16", "kc is 0", "1 to 50"),
        ("whole-a:kc=51,nc=16", "kc is 51", "1 to 50"),
        ("whole-a:kc=50,nc=20", "nc is 20", &of_columns),
        ("whole-a:kc=50,nc=64", "nc is 64", &of_columns),
    ] {
        let expected = format!("the block size {wrong}, expected {expected}");
        assert_eq!(error(choice, |_| ()), Some(expected), "{choice}");
    }
}

/// Products with few rows read a B that the L2 cache does not hold in place, in shorter blocks if it is far,
/// and with more rows they pack it.
#[test]
fn operands_in_a_far_cache_are_packed() {
    let Some((cpu, [height, width])) = cpu() else { return };
    let caches = CpuTarget { l1_bytes: 48 << 10, l2_bytes: 2 << 20, l3_bytes: 64 << 20, ..cpu };
    let choice = |rows: u64, l3_is_far: bool| {
        let case = matmul(LaneType::F32, &[], [rows, 512, 384]);
        let plan = GemmPlan::new(&case.problem, &CpuTarget { l3_is_far, ..caches });
        plan.expect("a product of floats has a plan").blocking().to_string()
    };
    let in_place = "in-place:columns".to_owned();
    for (tiles, far) in [
        (1, in_place.clone()),
        (4, format!("blocks-of-a:mc={},kc=192,nc=512", 4 * height)),
        (9, format!("whole-a:kc=384,nc={}", 4 * width)),
    ] {
        let rows = tiles * height;
        assert_eq!((choice(rows, false), choice(rows, true)), (in_place.clone(), far), "{rows} rows");
    }
}

#[test]
fn operands_that_microkernels_cannot_read_are_not_read_in_place() {
    let half = vector_asm::StoredType::F16;
    for (choice, operand) in [("in-place:rows", 'A'), ("blocks-of-b:mc=12,kc=10,nc=16", 'A')] {
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
    let Some((cpu, _)) = cpu() else { return };
    error("whole-a:kc=2,nc=16", large);
    let mut case = matmul(LaneType::F32, &[], [16, 16, 1]);
    case.problem.k = 1 << 26;
    let choice = BlockingChoice::WholeA { kc: 1 << 26, nc: 16 };
    let error = GemmPlan::with_blocking(&case.problem, &cpu, &choice).err();
    assert!(matches!(error, Some(ChoiceError::Memory { .. })), "{error:?}");
}
