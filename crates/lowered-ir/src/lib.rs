#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The loop IR.
pub mod ir; // as data

pub mod text; // as text
pub mod verify; // the rules of valid routines

pub mod eval; // the result of each operation
pub mod math; // polynomials of the transcendental functions
pub mod random; // generators of random bits

pub mod interp; // the meaning of a routine
pub mod log; // the lines it logs, as text

// Optimisation.
pub mod passes; // loops -> better loops
pub mod pipeline; // the passes in order

pub mod stack; // stack space for recursion

mod lowered; // a routine with its nodes
mod source_span; // a range of a text, and the line with carets that shows it

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
