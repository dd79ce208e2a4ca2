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

/// The place in the text that a rejection names, and the rejection.
fn placed(error: &arrayjit::CompileError) -> (&lowered_ir::SourceSpan, &arrayjit::CompileError) {
    match error {
        arrayjit::CompileError::Rejected { place, source } => (place, source),
        other => panic!("{other:?}"),
    }
}
