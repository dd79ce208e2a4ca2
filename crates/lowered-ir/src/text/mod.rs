//! The text form of the loop IR: `.lir`.
//!
//! [`print()`] and [`parse()`] are inverse to each other: printing a parsed routine gives the printed text
//! back, and parsing a printed routine gives the routine back, bit patterns of constants and odd names
//! included. The text holds no address and no hash order, so equal routines print alike in every run.
//! `docs/lowered-ir.md` has the grammar.
//!
//! The text names what it declares, so a reference to a node, local, loop variable or symbol that nothing
//! earlier declares is a [`ParseError`]. Everything else that can be wrong with a routine is left to [the
//! verifier](crate::verify): scopes, types, bounds.
//!
//! Of a memory mode the text keeps the name, not the decisions behind it: a parsed mode was "declared in the
//! text".

mod error;
mod lex;
mod lines;
mod literal;
mod parse;
mod parse_expr;
mod print;

pub use error::ParseError;
pub use lex::is_identifier;
pub use lines::RoutineLines;
pub use parse::{ParsedRoutine, parse, parse_file};
pub use print::{print, print_expr, print_index, print_stmt};

pub(crate) use print::{LOOSEST, precedence};

/// How deep loops, and how deep the parts of one expression, may nest in a text.
///
/// It is what the verifier's [default limits](crate::verify::Limits) allow, so no text that could be verified
/// is refused.
pub const MAX_NESTING: usize = 256;
