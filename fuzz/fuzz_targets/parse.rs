//! Feeds any bytes to the parser of the loop IR.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::parse(data));
