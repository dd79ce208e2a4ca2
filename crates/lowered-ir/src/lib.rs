#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The loop IR.
pub mod ir;

pub mod text;
pub mod verify;

pub mod eval;
pub mod math;
pub mod random; // generators of random bits

pub mod interp;
pub mod log;

// Optimization.
pub mod passes; // loops -> better loops
pub mod pipeline;

pub mod stack;

mod lowered;
mod source_span;

pub use lowered::Lowered;
pub use source_span::{SourceSpan, SourceText, SpanList};

tnode::debug_as_display!(
    interp::InterpError,
    passes::half_overflow::HalfOverflow,
    passes::ModeError,
    passes::InlineRejection,
    pipeline::OptimizeError,
    text::ParseError,
    verify::VerifyError,
    verify::Violation,
    stack::NoStack,
);
