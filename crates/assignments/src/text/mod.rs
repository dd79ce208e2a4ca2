//! The parser of assignment text: statements over named nodes in index notation.
//!
//! ```
//! use assignments::text::parse;
//! use tnode::TensorNode;
//!
//! let node = |name, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).build();
//! let nodes = [node("x", &[32, 64])?, node("w1", &[64, 128])?, node("hid", &[32, 128])?];
//! let program = parse("hid[b,h] :+= x[b,i] * w1[i,h]", &nodes)?;
//! assert_eq!(program.steps.len(), 2, "a remark and one accumulation");
//!
//! let error = parse("hid[b,h] :+= x[b,i] * w1[h,i]", &nodes).unwrap_err();
//! assert_eq!(error.to_string(), "\
//! line 1, column 7: letter `h` runs over 64 elements (axis 0 of `w1[h,i]`), but axis 1 of node `hid` has 128
//! 1 | hid[b,h] :+= x[b,i] * w1[h,i]
//!   |       ^");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Names are resolved against the given nodes, and the ranges of letters follow from their dimensions. An
//! ambiguity or a misfit is an error that points into the text.

mod ast;
mod emit;
mod error;
mod expand;
mod fetch;
mod lex;
mod linear;
mod names;
mod parse;
mod print;
mod program;
mod random;
mod ranges;
mod resolve;
mod synonyms;
mod types;
mod warnings;

use std::sync::Arc;

use tnode::TensorNode;

use self::ast::{Atom, Statement};
use self::error::LocatedError;
pub use self::error::{Synonym, TextError, TextErrorKind};
use self::names::NodeNames;
pub use self::program::Program;
use super::{Assignments, ProgramStep};
use crate::indexing::StaticSymbol;

/// Parses a program over the given nodes. A node is found by the last part of its label, or by its whole name
/// as in `w1.grad`. Settles the element types of the nodes that occur. Symbols are bound in order of mention.
///
/// # Errors
/// If the text does not follow the grammar, does not fit the nodes or is ambiguous. The error points to the
/// first such position.
pub fn parse(text: &str, nodes: &[TensorNode]) -> Result<Assignments, TextError> {
    Program::parse(text)?.assignments(nodes)
}

fn resolved(program: &Program, nodes: &[TensorNode]) -> Result<Assignments, LocatedError> {
    let names = NodeNames::new(nodes);
    let statements = program.statements(&|name| names.has(name))?;
    let mut assignments = Assignments::default();
    for name in program.symbols() {
        assignments.symbol(&StaticSymbol::open(name));
    }
    statements.iter().try_for_each(|statement| {
        declare_symbols(statement, program.text(), &mut assignments)
            .map_err(|error| error.within(&statement.frame))
    })?;
    statements.iter().try_for_each(|statement| {
        append(statement, program.text(), &names, &mut assignments)
            .map_err(|error| error.within(&statement.frame))
    })?;
    Ok(assignments)
}

/// Appends the steps of a statement.
fn append(
    statement: &Statement,
    text: &Arc<str>,
    names: &NodeNames,
    assignments: &mut Assignments,
) -> Result<(), LocatedError> {
    if let (Some(fetch), Some(target)) = (&statement.fetch, statement.lhs.first()) {
        resolve::reject_letters(statement)?;
        let origin = fetch::origin(text, statement, target);
        let step = fetch::resolve(fetch, target, text, names, assignments, origin)?;
        assignments.steps.extend([remark(statement, text), step]);
        return Ok(());
    }
    let resolved = resolve::resolve(statement, text, names, assignments)?;
    let ranges = ranges::letter_ranges(&resolved, text)?;
    ranges::check_bounds(&resolved, &ranges, assignments, text)?;
    assignments.steps.push(remark(statement, text));
    emit::emit(&resolved, &ranges, text, assignments)
}

/// The statement as a remark: as the text has it, or as expansion made it.
fn remark(statement: &Statement, text: &str) -> ProgramStep {
    ProgramStep::Remark(match statement.is_expanded {
        true => statement.to_string(),
        false => on_one_line(&text[statement.span.clone()]),
    })
}

/// Enters the symbols whose range a `where` declares; the range holds for the whole text.
fn declare_symbols(
    statement: &Statement,
    text: &str,
    assignments: &mut Assignments,
) -> Result<(), LocatedError> {
    for constraint in &statement.constraints {
        let Atom::Symbol(name) = &constraint.atom else { continue };
        let limit = resolve::limit(constraint, text)?;
        let reject = |conflict: String| {
            let (name, range) = (format!("@{name}"), limit);
            error::TextErrorKind::BadRange { name, range, conflict }.at(constraint.span.clone())
        };
        let range = ranges::range_of(limit).map_err(reject)?;
        match assignments.symbols.find(name).and_then(|symbol| symbol.range) {
            Some(other) if other != range => return Err(reject(format!("contradicts `@{name} < {other}`"))),
            _ => assignments.symbol(&StaticSymbol::ranged(name, range)),
        };
    }
    Ok(())
}

fn on_one_line(statement: &str) -> String {
    statement.split_whitespace().collect::<Vec<_>>().join(" ")
}
