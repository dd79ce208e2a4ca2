//! Text of the loop IR that verifies, through every stage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::verified(data));
