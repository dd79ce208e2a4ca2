//! Programs whose results are known from their mathematics: computed by hand, or by loops written in plain
//! Rust beside them. Each runs on the interpreter and as compiled code, on the caller's thread and on
//! workers.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod attention;
mod concatenation;
mod convolution;
mod derivatives;
mod einsum;
mod embedding;
mod mixed;
mod normalisation;
mod program;
