//! The integration tests as one program, since each program costs a link.

mod common;
mod corpus;
mod export;
mod harness;
