//! Derives a routine from the bytes, and compares the results of its compiled code with the interpreter's.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| arrayjit_fuzz::compiled(data));
