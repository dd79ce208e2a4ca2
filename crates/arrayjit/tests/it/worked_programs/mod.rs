//! Programs whose results are known mathematically: computed by hand, or by plain Rust loops in the same
//! file. Each runs on the interpreter and as compiled code, on the caller's thread and on workers.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod attention;
mod causal_attention;
mod concatenation;
mod convolution;
mod derivatives;
mod einsum;
mod embedding;
mod mixed;
mod normalization;
mod program;
