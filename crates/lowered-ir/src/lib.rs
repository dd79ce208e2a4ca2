//! The loop IR with its `.lir` text, verifier, passes and interpreter.
//!
//! # Should I be using this crate?
//!
//! To write a pass, or anything else that makes or reads the IR: yes. To make it from assignments, use
//! `assignments`; to compile it for a target, `scheduling` and a code generator such as `codegen-cranelift`;
//! to compute something, `arrayjit`.
//!
//! # Example
//!
//! From the text of a routine to its meaning and its optimised form:
//!
//! ```
//! use lowered_ir::{interp, pipeline, text, verify};
//!
//! let routine = text::parse(
//!     "routine @square_sums strict {
//!        node %0 \"x\" f32[2, 3] on_device
//!        node %1 \"s\" f32[2] on_device
//!        for i0 in 0..2 {
//!          %1[i0] := 0.0f32
//!          for i1 in 0..3 { %1[i0] := fma(%0[i0, i1], %0[i0, i1], %1[i0]) }
//!        }
//!      }",
//! )?;
//! verify::verify(&routine)?;
//!
//! let mut memory = interp::Memory::zeroed(&routine);
//! memory.nodes[0] = [1f32, 2., 3., 4., 5., 6.].iter().flat_map(|v| v.to_le_bytes()).collect();
//! interp::run(&routine, &mut memory, &[])?;
//! assert_eq!(memory.nodes[1], [14f32.to_le_bytes(), 77f32.to_le_bytes()].concat());
//!
//! let optimized = pipeline::optimize(routine, &pipeline::OptimizeSettings::default())?.routine;
//! let listing = text::print(&optimized);
//! assert_eq!(text::print(&text::parse(&listing)?), listing);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * [`interp`] defines the meaning of a routine, [`eval`] the result of each operation; both are total.
//! * A routine that [`verify`] accepts goes through every pass and the interpreter without a panic or an
//!   access out of bounds.
//! * Every pass keeps the bits of `strict` routines, except for the choice of NaN. The equations that
//!   [`passes::simplify`] names may rewrite `fast` ones.
//! * [`text`] parses each printed routine back to the same routine; printing is the same in every run.
//! * No text, however damaged, makes a parser panic; its errors point into the text.
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
);
