//! The passes from a text to assignments, in their order.
//!
//! Two passes make a list of steps of a text:
//!
//! * [`parse`](mod@crate::parse): the text follows the grammar, and is a tree of items.
//! * [`expand`](crate::expand): the program is a list of steps, without functions, repetitions and sizes.
//!
//! The passes of [`run`] turn the steps into assignments. From `resolve` on they share one tree, the
//! [`ResolvedProgram`](crate::tree::ResolvedProgram).

use std::sync::Arc;

use crate::ast::ExpandedStep;
use crate::declare::declare;
use crate::emit::emit;
use crate::error::Result;
use crate::expand::Expanded;
use crate::infer::infer;
use crate::initial::{InitialValues, initial};
use crate::names::{GivenNodes, Names};
use crate::resolve::{declare_symbols, resolve};
use crate::tree::ResolvedStep;
use crate::views::views;
use assignments::Assignments;
use assignments::indexing::StaticSymbol;
use lowered_ir::SourceText;

/// The assignments of a program, with its names and its steps.
pub(crate) struct Emitted {
    pub(crate) assignments: Assignments,
    pub(crate) names: Names,
    pub(crate) steps: Vec<ResolvedStep>,
}

/// Runs the passes on an expanded program over the given nodes. `path` has the first parts of the labels of
/// nodes that the text makes, and `symbols` the names of its symbols.
pub(crate) fn run(
    expanded: &mut Expanded,
    given: GivenNodes,
    path: &[String],
    symbols: &[String],
    text: &SourceText,
) -> Result<Emitted> {
    // Every name that the text gives a node or a view has that node or view. No later pass changes a name.
    let names = declare(expanded, given, path, text)?;
    let mut assignments = Assignments::default();
    if let Some(InitialValues { steps, names, nodes }) = initial(&expanded.declarations, &names, text)? {
        let mut initial = Assignments::default();
        enter_sizes(expanded, &mut initial);
        passes(steps, &names, text, &mut initial)?;
        initial.kept = nodes;
        assignments.initial = Some(Arc::new(initial.named("initialize")));
    }
    enter_sizes(expanded, &mut assignments);
    for symbol in symbols {
        assignments.symbol(&StaticSymbol::open(symbol));
    }
    let steps = passes(std::mem::take(&mut expanded.steps), &names, text, &mut assignments)?;
    Ok(Emitted { assignments, names, steps })
}

/// Enters the sizes that a run gives and those that follow from them: they are the first symbols.
fn enter_sizes(expanded: &Expanded, assignments: &mut Assignments) {
    for size in &expanded.sizes {
        assignments.symbol(&StaticSymbol::size(&size.size));
    }
}

/// Runs the passes behind `declare`. The comment above each pass states its postcondition.
fn passes(
    steps: Vec<ExpandedStep>,
    names: &Names,
    text: &SourceText,
    assignments: &mut Assignments,
) -> Result<Vec<ResolvedStep>> {
    declare_symbols(&steps, &mut assignments.symbols)?;
    // Every name is a letter, a symbol or a node; every letter has its range, every node its dimensions, and
    // every index is in bounds.
    let program = resolve(steps, names, text, &mut assignments.symbols);
    // Every access is to a node, in the dimensions of the node.
    let program = views(program, &assignments.symbols);
    // Every node has its element type, and every value fits the type of its target.
    let program = infer(program, names, text);
    // Every statement is a step of the assignments, behind the virtual nodes of its subexpressions.
    emit(program, text, &names.made, assignments)
}
