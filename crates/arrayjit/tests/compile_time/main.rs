//! How the time of a compilation grows with the program: every family of `filetests::generate::families`, at several sizes.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![cfg(feature = "cranelift")]

mod stages; // the stages of a compilation, one by one
mod times; // seconds
