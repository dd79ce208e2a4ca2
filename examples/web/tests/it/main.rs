//! The integration tests as one program, since each program costs a link.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod common;
mod corpus;
mod export;
mod harness;
