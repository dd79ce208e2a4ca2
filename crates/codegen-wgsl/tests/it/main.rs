//! The integration tests that may share a process. They are one program, since each program has to be linked.

mod common;
mod corpus;
mod goldens;
mod random;
mod text;
mod unsupported;
