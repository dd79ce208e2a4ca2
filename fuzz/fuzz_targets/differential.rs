//! Compares whole programs in assignment text with an independent evaluator;
//! `crates/arrayjit/tests/it/differential` contains the generator of the programs and the evaluator.
#![no_main]

#[path = "../../crates/arrayjit/tests/it/differential/check/mod.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(error) = check::check(data) {
        panic!("{error}");
    }
});
