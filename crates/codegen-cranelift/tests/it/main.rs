//! The integration tests that may share a process. They are one program, since each program has to be linked.

mod code;
mod common;
mod conformance;
mod contractions;
#[cfg(target_os = "linux")]
mod freeing;
mod fuzz_targets;
mod goldens;
mod operations;
mod programs;
mod random;
mod structure;
