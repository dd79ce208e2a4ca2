//! The text form of the loop IR: `.lir`.
//!
//! [`print()`] and [`parse()`] are inverse to each other: printing a parsed routine gives the printed text
//! back, and parsing a printed routine gives the routine back, bit patterns of constants and odd names
//! included. The text holds no address and no hash order, so equal routines print alike in every run.
//! `docs/lowered-ir.md` has the grammar.
//!
//! The text declares nodes, locals, loop variables and symbols by name, so a mention of an undeclared name is
//! a [`ParseError`]. The [verifier](crate::verify) checks all other rules: scopes, types, bounds.
//!
//! The text keeps the name of a memory mode, not the decisions behind it: the only reason of a parsed mode is
//! that it was "declared in the text".

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
pub(crate) use print::print_index;
pub use print::{print, print_stmt};

pub(crate) use print::{LOOSEST, precedence};

/// How deep loops, and how deep the parts of one expression, may nest in a text.
///
/// The verifier's [limits](crate::verify::limits) allow the same depth, so the parser rejects no text
/// that could be verified.
pub const MAX_NESTING: usize = 256;
