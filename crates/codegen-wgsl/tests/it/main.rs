//! The integration tests that may share a process, as one program, since each program costs a link.

mod common;
mod corpus;
mod goldens;
mod random;
mod text;
mod unsupported;
