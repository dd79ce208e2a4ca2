#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Passes, in order, and the program between them.
mod pipeline;

mod conditions; // conditions of scans as statements
mod declare; // the names of nodes and views
mod emit;
mod expand; // items -> steps
mod infer; // element types
mod initial; // the statements of initial values
mod parse; // text -> items
mod resolve; // names, ranges, dimensions
mod views; // reads of views // steps -> assignments

mod ast; // items and steps, with unresolved names
mod names; // what a step sees under a name
mod tree; // steps with resolved names

// The public face.
mod error;
mod program;
mod report;
mod unparse; // assignments and items -> text
mod usage; // kept and unused nodes

// What several passes share.
mod constraint; // comparisons behind `where`
mod linear; // indices
mod number;
mod prelude; // functions in assignment text
mod random; // keys of random numbers
mod source; // places in the text
mod synonyms; // functions of other languages
mod types; // element types of expressions

use tnode::TensorNode;

pub use self::declare::parse_nodes;
pub use self::error::{Synonym, TextError, TextErrorKind, TextGradientError};
pub use self::program::Program;
pub use self::report::{ProgramReport, StatementRanges};
pub use self::unparse::{declared_sizes, unparse};
use assignments::Assignments;

tnode::debug_as_display!(TextError, TextErrorKind, TextGradientError);

/// Parses a program over the given nodes: [`Program::assignments`] for a program without sizes to bind and
/// nodes to keep.
///
/// # Errors
/// If the text does not follow the grammar, does not fit the nodes or is ambiguous. The error points to the
/// first such position.
pub fn parse(text: &str, nodes: &[TensorNode]) -> Result<Assignments, TextError> {
    Program::parse(text)?.assignments(nodes)
}
