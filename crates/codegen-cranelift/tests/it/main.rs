//! The integration tests that may share a process, as one program, since each program costs a link.

mod code;
mod common;
mod conformance;
mod contractions;
mod fuzz_targets;
mod goldens;
mod operations;
mod programs;
mod random;
mod structure;
