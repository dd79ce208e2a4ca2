//! The integration tests that may share a process. They are one program, since each program has to be linked.

mod choices;
mod common;
mod convolutions;
mod epilogues;
mod integers;
#[cfg(feature = "assembler")]
mod plan_data;
mod products;
mod random;
