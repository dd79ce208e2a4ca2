//! Derives a routine from the bytes, and compares the results of the optimized routine with those of the
//! original.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::optimized(data));
