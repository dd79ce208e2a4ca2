//! Whole programs in assignment text against an independent evaluator; `crates/arrayjit/tests/differential` has both.
#![no_main]

#[path = "../../crates/arrayjit/tests/differential/check/mod.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(error) = check::check(data) {
        panic!("{error}");
    }
});
