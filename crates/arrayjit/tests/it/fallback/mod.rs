//! Fallback without a GPU: code generators that reject some kernels, on a CPU device.
//!
//! Fallback must not change results: every program here runs undivided as well, and bits are compared.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod contexts;
mod failures;
mod merges;
mod programs;
mod random;
mod rejecting;
mod rejections;
