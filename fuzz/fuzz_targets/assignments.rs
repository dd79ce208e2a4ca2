//! Feeds any bytes to the parser of assignment text, and lowers the accepted programs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::assignments(data));
