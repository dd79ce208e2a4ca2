//! Assignments: accumulating operations over projections, with their text, and lowering to loops.
//!
//! # Should I be using this crate?
//!
//! To write a front end that makes programs of array assignments, with text or without: yes. To work on the
//! loop IR that they are lowered to, use `lowered-ir`; to compute something, `arrayjit`.
//!
//! # Example
//!
//! Parses assignment text, lowers it to a verified routine of the loop IR, and interprets the routine:
//!
//! ```
//! use assignments::{lower, text};
//! use lowered_ir::{interp, verify};
//! use tnode::{DType, TensorNode};
//!
//! let x = TensorNode::builder("x").dims([2, 3]).dtype(DType::F32).build()?;
//! let s = TensorNode::builder("s").dims([2]).dtype(DType::F32).build()?;
//! let assignments = text::parse("s[i] :+= x[i,j] * x[i,j]", &[x, s])?;
//! let routine = lower::lower(&assignments, &lower::LowerOptions::default())?.lowered.routine;
//! verify::verify(&routine)?;
//!
//! let mut memory = interp::Memory::zeroed(&routine);
//! memory.nodes[0] = [1f32, 2., 3., 4., 5., 6.].iter().flat_map(|v| v.to_le_bytes()).collect();
//! interp::run(&routine, &mut memory, &[])?;
//! assert_eq!(memory.nodes[1], [14f32.to_le_bytes(), 77f32.to_le_bytes()].concat());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! * [`lower::lower`] returns a routine that [`lowered_ir::verify`] accepts, or a typed error that names the
//!   user's nodes. It settles no memory mode.
//! * No text, however damaged, makes [`text::parse`] panic; its errors point into the text.
//! * The listing of equal assignments is the same in every run.
//!
//! # Features
//!
//! None.
#![forbid(unsafe_code)]

// Programs.
pub mod indexing; // projections from a product space to operands

mod accum_op; // accumulating operations
mod assignments; // steps over tensor nodes
pub mod builder; // makes assignments without a text
mod gather_scatter; // makes assignments with computed indices
mod nodes; // nodes by name
mod random; // keys of random numbers
mod symbol_table; // static symbols by name
pub mod text; // makes assignments of a text

// Queries and reports about programs.
mod analysis; // nodes that steps mention
mod listing; // listings
mod origin; // source spans of steps
mod warning; // legal statements that are often mistakes

pub mod lower; // assignments -> loops

pub use self::accum_op::{AccumOp, binary_dtype, ternary_dtype, unary_dtype};
pub(crate) use self::analysis::{
    each_step, identifier, mentioned, projections_into, read_whole, sliced, written,
};
pub(crate) use self::assignments::literal;
pub use self::assignments::{Accum, Assignments, CONSTANT_FILL_LIMIT, FetchOp, Operand, ProgramStep, Rhs};
pub(crate) use self::listing::{affine as affine_text, listing};
pub use self::nodes::{Nodes, UnknownNode};
pub(crate) use self::origin::AccessSpan;
pub use self::origin::Origin;
pub use self::random::{KeyPart, Random, SampleValues};
pub use self::symbol_table::SymbolTable;
pub use self::warning::{Warning, WarningKind};

tnode::debug_as_display!(
    builder::BuildError,
    indexing::ConditionError,
    indexing::IndexError,
    indexing::einsum::SpecError,
    indexing::einsum::SpecErrorKind,
    lower::LowerError,
    lower::LowerErrorKind,
    UnknownNode,
    text::TextError,
    text::TextErrorKind,
    text::TextGradientError,
);
