//! Compares optimised with interpreted routines, which are derived from the bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::optimised(data));
