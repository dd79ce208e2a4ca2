//! The integration tests that may share a process, as one program, since each program costs a link.

mod common;
mod convolutions;
mod epilogues;
mod products;
mod random;
