//! Random routines through the optimiser: after every pass the routine is verified, computes the same bits and logs the same
//! lines.
//!
//! A failing case is minimised, and its text is in the message: save it under `lir/regressions/`.

use filetests::check_passes;
use filetests::generate::{routine_from_bytes, routine_from_seed};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn passes_keep_the_bits(bytes in prop::collection::vec(any::<u8>(), 0..400), seed in any::<u64>()) {
        check_passes(routine_from_bytes(&bytes), seed).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn a_fixed_set_of_seeds_keeps_the_bits_and_is_mostly_accepted() {
    let accepted = (0..200)
        .filter(|&seed| check_passes(routine_from_seed(seed, 400), seed).unwrap_or_else(|e| panic!("{e}")));
    assert!(accepted.count() > 130);
}
