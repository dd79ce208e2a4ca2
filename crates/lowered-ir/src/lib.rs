//! Indexing, assignments and their text, the loop IR with its `.lir` text, verifier, passes and interpreter.
//!
//! # Should I be using this crate?
//!
//! To write a pass, a front end, or anything else that makes or reads the IR: yes. To compile the IR for a target, use
//! `codegen-core`; to compute something, `arrayjit`.
//!
//! # Example
//!
//! From assignment text to a routine, its meaning, and its optimised form:
//!
//! ```
//! use lowered_ir::{assign, interp, lower, pipeline, text, verify};
//! use tnode::{DType, TensorNode};
//!
//! let x = TensorNode::builder("x").dims([2, 3]).dtype(DType::F32).build()?;
//! let s = TensorNode::builder("s").dims([2]).dtype(DType::F32).build()?;
//! let assignments = assign::text::parse("s[i] :+= x[i,j] * x[i,j]", &[x, s])?;
//! let routine = lower::lower(&assignments, &lower::LowerOptions::default())?.routine;
//! verify::verify(&routine)?;
//!
//! let mut memory = interp::Memory::zeroed(&routine);
//! memory.nodes[0] = [1f32, 2., 3., 4., 5., 6.].iter().flat_map(|v| v.to_le_bytes()).collect();
//! interp::run(&routine, &mut memory, &[])?;
//! assert_eq!(memory.nodes[1], [14f32.to_le_bytes(), 77f32.to_le_bytes()].concat());
//!
//! let optimized = pipeline::optimize(routine, &pipeline::Settings::default())?.routine;
//! let listing = text::print(&optimized);
//! assert_eq!(text::print(&text::parse(&listing)?), listing);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * [`interp`] defines what a routine means, [`eval`] what an operation computes; both are total.
//! * A routine that [`verify`] accepts goes through every pass and the interpreter without a panic or an access out of bounds.
//! * Every pass keeps the bits of `strict` routines, but for which NaN an operation yields; `fast` ones may be rewritten by the
//!   equations that [`passes::simplify`] names.
//! * What [`text`] prints, it parses back to the same routine; printing is the same in every run.
//! * No text, however damaged, makes a parser panic; its errors point into the text.
#![forbid(unsafe_code)]

// Programs.
pub mod indexing; // projections from a product space to operands

pub mod assign; // assignments and their text

// The loop IR.
pub mod ir; // as data

pub mod text; // as text
pub mod verify; // the rules it keeps

pub mod eval; // what each operation computes
pub mod math; // polynomials of the transcendental functions
pub mod random; // generators of random bits

pub mod interp; // what a routine means
pub mod log; // the lines it logs, as text

// The way through it.
pub mod lower; // assignments -> loops

pub mod passes; // loops -> better loops
pub mod pipeline; // the passes in order

pub mod stack; // stack space for recursion

mod source_span; // a place in a text, and how it is shown

pub use source_span::SourceSpan;

tnode::debug_as_display!(
    assign::text::TextError,
    assign::text::TextErrorKind,
    assign::builder::BuildError,
    indexing::IndexError,
    indexing::einsum::SpecError,
    indexing::einsum::SpecErrorKind,
    interp::InterpError,
    lower::LowerError,
    lower::LowerErrorKind,
    passes::halves::LargeHalf,
    passes::ModeError,
    passes::Refusal,
    pipeline::OptimizeError,
    text::ParseError,
    verify::VerifyError,
    verify::Violation,
);
