//! The parser of assignment text, by recursive descent.
//!
//! Words such as `size` and `def` begin an item only where a second name follows, which no statement has, so
//! nodes may have these names too.

mod declarations;
mod expressions;
mod fills;
mod indices;
mod items;
mod lex;
mod parser;
mod program;
mod random;
mod statements;

pub(crate) use self::declarations::declarations;
pub(crate) use self::program::{ParsedProgram, load, program};
