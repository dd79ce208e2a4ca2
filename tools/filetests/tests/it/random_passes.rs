//! Random routines through the optimizer: after every pass the routine verifies, computes the same bits and
//! logs the same lines.
//!
//! The message of a failure has the text of a minimized case: save it with the files of the pass, under
//! `lir/passes/`.

use filetests::generate::{routine_from_bytes, routine_from_seed};
use filetests::{check_passes, effort};
use lowered_ir::{passes::PASSES, text};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn passes_keep_the_bits(bytes in prop::collection::vec(any::<u8>(), 0..400), seed in any::<u64>()) {
        check_passes(routine_from_bytes(&bytes), seed).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn seeds_keep_the_bits_and_are_mostly_accepted() {
    let accepted = effort::seeds(50)
        .filter(|&seed| check_passes(routine_from_seed(seed, 400), seed).unwrap_or_else(|e| panic!("{e}")));
    assert!(accepted.count() > 32);
}

/// Random routines contain one-hot sums and powers, which passes rewrite and which would be rare in random
/// expressions.
#[test]
fn drawn_routines_have_one_hot_sums_and_powers() {
    let changed = |pass: &str, seed: u64| {
        let before = routine_from_seed(seed, 400);
        let mut after = before.clone();
        let run = PASSES.iter().find(|p| p.name == pass).expect("a pass").run;
        run(&mut after).expect("no mode is decided");
        text::print(&after) != text::print(&before)
    };
    for pass in ["gather_one_hot", "expand_powers"] {
        let routines = (0..300).filter(|&seed| changed(pass, seed)).count();
        assert!(routines >= 5, "{pass} changes {routines} of 300 routines");
    }
}
