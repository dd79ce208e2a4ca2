//! Optimised equals interpreted, on routines drawn from the bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::optimised(data));
