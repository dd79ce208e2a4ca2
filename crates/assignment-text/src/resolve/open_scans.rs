//! The scans around a statement whose number of steps a run gives.
//!
//! Such a scan has as many steps as that number has at most, and a condition ends it. In the steps that run,
//! its symbol is less than the number, so an index such as `n - 1 - t` is in bounds. The checks behind this
//! crate know the range of the symbol alone. Where that is not enough, reads are padded: their value does
//! not matter in the other steps. A statement whose target mentions the symbol gets one more letter instead:
//! in `y[n - 1 - t - k]` with `k < 1` and `k < n - t`, the letter is 0 in the steps that run, and has no
//! value in the others.

use crate::number::Number;
use crate::tree::{AccessKind, Letter, NodeAccess, ResolvedExprKind, ResolvedStatement};
use assignments::ByteRange;
use assignments::indexing::axis_iterator;
use lowered_ir::ir::{Affine, LoopId, SymbolId, Var};

/// A scan around a statement, whose number of steps a run gives.
#[derive(Clone)]
pub(super) struct OpenScan {
    pub(super) symbol: SymbolId,
    /// The greatest number of steps.
    pub(super) bound: i64,
    /// The number of steps, over symbols.
    pub(super) end: Affine,
}

/// An index with a letter, behind the others, in place of the symbol of each scan.
pub(super) fn letters_for_steps(index: &Affine, letters: usize, scans: &[OpenScan]) -> Affine {
    scans.iter().enumerate().fold(index.clone(), |index, (at, scan)| {
        index.substitute(scan.symbol, &Affine::var(axis_iterator(letters + at)))
    })
}

/// Returns the ranges and clips of letters, and of those that stand for the symbols of scans.
pub(super) fn with_letters(
    ranges: &[i64],
    clips: &[Vec<Affine>],
    scans: &[OpenScan],
) -> (Vec<i64>, Vec<Vec<Affine>>) {
    let ends = |clips: &Vec<Affine>| -> Vec<Affine> {
        clips.iter().map(|clip| letters_for_steps(clip, ranges.len(), scans)).collect()
    };
    let steps = scans.iter().map(|scan| vec![scan.end.clone()]);
    let extents = ranges.iter().copied().chain(scans.iter().map(|scan| scan.bound));
    (extents.collect(), clips.iter().map(ends).chain(steps).collect())
}

/// Makes the indices of a statement stay in bounds where steps of a scan do not run.
pub(super) fn guard(statement: &mut ResolvedStatement, ranges: &mut Vec<i64>, scan: &OpenScan) {
    let is_mentioned = |index: &Affine| index.mentions(scan.symbol);
    let mentions = |access: &NodeAccess| access.index.iter().any(|(index, _)| is_mentioned(index));
    if !statement.lhs.iter().any(mentions) {
        return statement.each_source_mut(&mut |read| {
            if matches!(read.how, AccessKind::Plain) && read.view.is_none() && mentions(read) {
                read.how = AccessKind::Padded(Number::integer(0), read.span.clone());
            }
        });
    }
    behind_new_letter(statement);
    let guard = axis_iterator(0);
    let step = Affine::var(scan.symbol).plus(&Affine::var(guard));
    let replace = |access: &mut NodeAccess| {
        access.index.iter_mut().for_each(|(index, _)| *index = index.substitute(scan.symbol, &step));
    };
    statement.lhs.iter_mut().for_each(replace);
    statement.each_source_mut(&mut |access| replace(access));
    let span = statement.span.clone();
    let rest = scan.end.plus(&step.times(-1)).plus_constant(-1);
    statement.conditions.push((rest, span.clone()));
    statement.letters.insert(0, letter(span));
    ranges.insert(0, 1);
}

fn letter(span: ByteRange) -> Letter {
    let name = "in_scan".to_owned();
    Letter { name, declared: Some((1, span.clone())), span, size: None, parts: Vec::new(), node: None }
}

/// Moves every letter of a statement by one.
fn behind_new_letter(statement: &mut ResolvedStatement) {
    let moved = |index: &Affine| {
        let start = Affine::constant(index.offset());
        index.terms().iter().fold(start, |sum, &(var, factor)| {
            let var = match var {
                Var::Loop(LoopId(letter)) => Var::Loop(LoopId(letter + 1)),
                symbol => symbol,
            };
            sum.plus(&Affine::term(var, factor))
        })
    };
    statement.lhs.iter_mut().for_each(|target| target.map(&moved));
    statement.rhs.iter_mut().for_each(|value| value.map(&moved));
    statement.each_kind_mut(&mut |kind| {
        if let ResolvedExprKind::Size(letter) = kind {
            *letter += 1;
        }
    });
    statement.conditions.iter_mut().for_each(|(condition, _)| *condition = moved(condition));
    statement.letters.iter_mut().flat_map(|letter| &mut letter.parts).for_each(|part| *part += 1);
}
