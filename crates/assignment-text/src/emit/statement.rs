//! Turns statements over letters into accumulations.
//!
//! A statement with concatenated axes becomes one accumulation per component, with the only target and the
//! only value whose letters are active in that component.

use tnode::{DType, RunSize};

use super::component::{
    StatementComponent, TargetsAndValues, check_once, check_reduction, collected, written_once,
};
use super::operands::Emitter;
use super::projections::LetterSpace;
use super::warnings::ValueWarnings;
use crate::error::{Result, TextErrorKind};
use crate::resolve::below;
use crate::source::framed;
use crate::tree::{Letter, ResolvedStatement};
use assignments::indexing::{StaticSymbol, concat};
use assignments::{Accum, Assignments, ProgramStep, SymbolTable, Warning, WarningKind};
use lowered_ir::ir::SymbolId;
use lowered_ir::{SourceSpan, SourceText};

/// The size that a run gives to the range of a letter, with its symbol.
fn run_size(letter: &Letter, symbols: &mut SymbolTable) -> Option<(RunSize, SymbolId)> {
    let size = letter.size.clone()?;
    let symbol = symbols.enter(&StaticSymbol::size(&size));
    Some((size, symbol))
}

/// Appends the steps of a statement, and warnings about it. `ranges` has the range of each letter.
pub(super) fn emit(
    statement: &ResolvedStatement,
    ranges: &[i64],
    text: &SourceText,
    assignments: &mut Assignments,
) -> Result<()> {
    let Assignments { steps, warnings, symbols, .. } = assignments;
    let sizes: Vec<_> = statement.letters.iter().map(|letter| run_size(letter, symbols)).collect();
    let is_stated = |at: usize| {
        let (_, symbol) = sizes[at].as_ref()?;
        statement.conditions.iter().find(|(condition, _)| *condition == below((*symbol).into(), at))
    };
    let ended: Vec<bool> =
        (0..sizes.len()).map(|at| sizes[at].is_some() && is_stated(at).is_none()).collect();
    let space = LetterSpace { ranges, sizes: &sizes, ended: &ended, conditions: &statement.conditions, text };
    let parts = statement.letters.iter().map(|letter| letter.parts.clone());
    let axes: Vec<Vec<usize>> = parts.filter(|parts| !parts.is_empty()).collect();
    let Some(components) = concat::components(ranges, &axes) else {
        let limit = concat::MAX_COMPONENTS;
        return Err(TextErrorKind::TooManyParts { limit }.at(&statement.op_span));
    };
    let sides = TargetsAndValues::of(statement);
    let part = |component| StatementComponent::new(statement, &sides, component, &space);
    let parts = components.iter().map(part).collect::<Result<Vec<StatementComponent>, _>>()?;
    let once = written_once(&parts);
    for part in &parts {
        check_reduction(statement, part)?;
        check_once(statement, part, &once)?;
        let letters: Vec<&str> = collected(|into| part.target.letters(into))
            .into_iter()
            .map(|letter| statement.letters[letter].name.as_str())
            .collect();
        let repeats = part.letters.iter().any(|&letter| ranges[letter] > 1);
        ValueWarnings { text, node: &part.target.node, letters: &letters, repeats, warnings }
            .value(&part.value);
    }
    // Letters and nodes of functions have scopes of their own.
    if statement.frame.is_none() {
        warnings.extend(statement.letters.iter().filter(|letter| letter.node.is_some()).map(|letter| {
            let kind = WarningKind::LetterOfNode { name: letter.name.clone() };
            Warning::new(kind, Some(SourceSpan::new(text.clone(), letter.span.clone())))
        }));
    }
    let span = framed(statement.span.clone(), &statement.frame, text);
    let mut emitter = Emitter { space, statement: &span, written: DType::F32, steps };
    let accums = parts.iter().map(|part| emitter.accum(statement, part));
    let mut accums = accums.collect::<Result<Vec<Accum>, _>>()?;
    match (accums.pop(), accums.is_empty()) {
        (Some(only), true) => steps.push(ProgramStep::Accum(Box::new(only))),
        (last, _) => {
            accums.extend(last);
            steps.push(ProgramStep::Concat(accums));
        }
    }
    Ok(())
}
