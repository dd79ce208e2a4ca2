#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod ast;
mod axis_sizes;
mod computing;
mod constraint;
mod declare;
mod emit;
mod error;
mod expand;
mod fetch;
mod gradient;
mod infer;
mod lex;
mod linear;
mod names;
mod parse;
mod prelude;
mod print;
mod program;
mod random;
mod ranges;
mod recomputed;
mod report;
mod resolve;
mod synonyms;
mod types;
mod unparse;
mod views;
mod warnings;

use tnode::TensorNode;

use self::ast::{Atom, ExpandedStep, Statement};
pub use self::declare::parse_nodes;
use self::error::LocatedError;
pub use self::error::{Synonym, TextError, TextErrorKind};
pub use self::gradient::TextGradientError;
use self::infer::{Analysed, Inference};
use self::names::NodeNames;
pub use self::program::Program;
pub use self::report::{ProgramReport, StatementRanges};
pub use self::unparse::unparse;
use assignments::indexing::StaticSymbol;
use assignments::{Assignments, ProgramStep};
use lowered_ir::SourceText;

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

/// Reads the steps of an expanded program into `assignments`, over the nodes of `names`. Returns the analysis
/// of each too.
fn read<'a>(
    steps: &mut [ExpandedStep],
    mut names: NodeNames,
    text: &'a SourceText,
    assignments: &mut Assignments,
) -> Result<(Inference<'a>, Vec<Analysed>), LocatedError> {
    names.expect_writes(steps, text);
    steps.iter().try_for_each(|step| {
        declare_symbols(step, assignments).map_err(|error| error.within(step.frame()))
    })?;
    let mut inference = Inference::new(text, names);
    let mut analysed = Vec::with_capacity(steps.len());
    let mut result = Ok(());
    for step in &mut *steps {
        match inference.step(step, assignments) {
            Ok(done) => analysed.push(done),
            Err(error) => {
                result = Err(error.within(step.frame()));
                break;
            }
        }
    }
    inference.settle_types();
    // An error of a statement precedes the errors of later ones, whichever stage finds them.
    for (step, analysed) in steps.iter().zip(&analysed) {
        // A detached node has no loops to remark upon.
        if !matches!(step, ExpandedStep::Detach(_)) {
            assignments.steps.push(ProgramStep::Remark(source(step, text)));
        }
        let emitted = match (analysed, step) {
            (Analysed::Ranged(resolved, ranges), _) => emit::emit(resolved, ranges, text, assignments),
            (Analysed::Fill, ExpandedStep::Statement(statement)) => {
                fetch::emit(statement, text, inference.names(), assignments)
            }
            (Analysed::Gradient(gradient), _) => {
                assignments.steps.push(gradient.clone());
                Ok(())
            }
            (Analysed::Detach(node), _) => {
                assignments.steps.push(ProgramStep::Detach(node.clone()));
                Ok(())
            }
            (Analysed::Fill, ExpandedStep::Gradient(_) | ExpandedStep::Detach(_)) => Ok(()),
        };
        emitted.map_err(|error| error.within(step.frame()))?;
    }
    result.map(|()| (inference, analysed))
}

/// A step on one line: as the text has it, or as expansion made it.
fn source(step: &ExpandedStep, text: &str) -> String {
    match step {
        ExpandedStep::Statement(statement) if statement.is_expanded => statement.to_string(),
        ExpandedStep::Statement(Statement { span, .. }) => on_one_line(&text[span.clone()]),
        ExpandedStep::Gradient(gradient) => gradient.to_string(),
        ExpandedStep::Detach(detach) => detach.to_string(),
    }
}

/// Enters the symbols whose range a `where` declares; the range holds for the whole text.
fn declare_symbols(step: &ExpandedStep, assignments: &mut Assignments) -> Result<(), LocatedError> {
    let ExpandedStep::Statement(statement) = step else { return Ok(()) };
    for constraint in &statement.constraints {
        let Some((Atom::Symbol(name), limit)) = constraint.range()? else { continue };
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
