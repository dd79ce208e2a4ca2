//! Runs every stage on text of the loop IR that verifies.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::verified(data));
