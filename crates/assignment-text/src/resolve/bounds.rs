//! Checks that indices are in bounds.

use tnode::{RunSize, SizeSum};

use super::ranges::{below, size_symbol, with_margins};
use crate::error::{Result, TextErrorKind, bad_bound};
use crate::source::on_one_line;
use crate::tree::{AccessKind, NodeAccess, ResolvedStatement};
use assignments::indexing::bounded_space::{BoundedSpace, PointRanges};
use assignments::indexing::{StaticSymbol, extent};
use lowered_ir::ir::{Affine, SymbolId, Var, index_bounds};

/// Checks every index against its axis. A symbol without a range counts as 0, since lowering finds its range.
pub(super) fn check_bounds(
    statement: &ResolvedStatement,
    ranges: &[i64],
    symbols: &[StaticSymbol],
    text: &str,
) -> Result<()> {
    if ranges.contains(&0) {
        return Ok(());
    }
    let mut reads = Vec::new();
    statement.each_access(&mut |access| reads.push(access));
    let space = bounded_space(statement, ranges, symbols, text)?;
    let symbol = |id: SymbolId| symbols[id.index()].interval();
    let points = PointRanges::new(ranges, space.clips(), &symbol);
    for read in reads {
        for (axis, (index, span)) in
            read.index.iter().enumerate().filter(|(axis, _)| !read.is_computed(*axis))
        {
            let (min, max) = match read.how {
                // An access with a computed index has no guard at run time, so its other indices must be in
                // bounds.
                AccessKind::Padded(..) if read.computed.is_some() => {
                    with_margins(&read.node, axis, read.dims[axis])
                }
                AccessKind::Padded(..) => (i64::MIN, i64::MAX),
                // A view has no margins.
                AccessKind::Plain if read.view.is_some() => (0, extent(read.dims[axis]) - 1),
                AccessKind::Lhs => (0, extent(read.dims[axis]) - 1),
                AccessKind::Plain | AccessKind::Merge => with_margins(&read.node, axis, read.dims[axis]),
            };
            // An index that overflows is out of bounds even in a padded read.
            let bounds = space.value(index).and_then(|index| index_bounds(&index, &points));
            let (lo, hi) = bounds.unwrap_or((i64::MIN, i64::MAX));
            if lo < min || hi > max || lo == i64::MIN || hi == i64::MAX {
                let (node, size) = (read.name(), read.dims[axis]);
                let index = on_one_line(text, span);
                let padded = padded(read, text).filter(|_| lo != i64::MIN && hi != i64::MAX);
                let inferred = None;
                return Err(
                    TextErrorKind::OutOfBounds { index, lo, hi, node, axis, size, padded, inferred }.at(span)
                );
            }
            let guarded = matches!(read.how, AccessKind::Padded(..)) && read.computed.is_none();
            if let Some(size) = read.size(axis).filter(|_| !guarded)
                && let Some(symbol) = size_symbol(size, symbols)
            {
                let beyond = index.plus(&Affine::term(symbol, -1));
                let bounds = space.value(&beyond).and_then(|beyond| index_bounds(&beyond, &points));
                let is_beyond = bounds.is_none_or(|(_, greatest)| greatest >= 0);
                if is_beyond && !stays_below(statement, index, size, ranges, symbols) {
                    let (index, size, node) = (on_one_line(text, span), size.to_string(), read.name());
                    let padded = padded(read, text);
                    return Err(TextErrorKind::BeyondSize { index, size, node, axis, padded }.at(span));
                }
            }
        }
    }
    Ok(())
}

/// Whether an index is less than a size in every run, by how the sizes follow from each other.
fn stays_below(
    statement: &ResolvedStatement,
    index: &Affine,
    size: &RunSize,
    ranges: &[i64],
    symbols: &[StaticSymbol],
) -> bool {
    let one_less = |sum: SizeSum| sum.plus(&(-1).into());
    let greatest = |var: Var, factor: i64| match var {
        Var::Loop(_) if factor < 0 => Some(SizeSum::from(0)),
        Var::Loop(id) => match statement.letters[id.index()].size.as_ref() {
            Some(size) => one_less(size.into()),
            None => ranges[id.index()].checked_sub(1).map(SizeSum::from),
        },
        Var::Symbol(id) => match symbols[id.index()].size.as_ref() {
            Some(size) => Some(size.into()),
            None => {
                let (least, greatest) = symbols[id.index()].interval().unwrap_or((0, 0));
                Some(if factor < 0 { least } else { greatest }.into())
            }
        },
    };
    let start = SizeSum::from(size).negated().and_then(|below| below.plus(&index.offset().into()));
    let beyond = index
        .terms()
        .iter()
        .fold(start, |sum, &(var, factor)| sum?.plus(&greatest(var, factor)?.times(&factor.into())?));
    beyond.is_some_and(|beyond| beyond.is_always_negative())
}

/// The loops over the points at which the statement assigns.
fn bounded_space(
    statement: &ResolvedStatement,
    ranges: &[i64],
    symbols: &[StaticSymbol],
    text: &str,
) -> Result<BoundedSpace> {
    let mut conditions: Vec<Affine> =
        statement.conditions.iter().map(|(condition, _)| condition.clone()).collect();
    for (at, letter) in statement.letters.iter().enumerate() {
        let size = letter.size.as_ref().and_then(|size| size_symbol(size, symbols));
        conditions.extend(size.map(|size| below(size, at)));
    }
    BoundedSpace::new(ranges, &conditions).map_err(|(at, why)| {
        let span = &statement.conditions[at].1;
        bad_bound(span, &why, text)
    })
}

/// The padded form of an access, for a hint; `None` if the access cannot be padded.
fn padded(read: &NodeAccess, text: &str) -> Option<String> {
    let access = on_one_line(text, &read.span);
    let (name, indices) = access.split_once('[')?;
    let may = matches!(read.how, AccessKind::Plain) && read.computed.is_none() && read.view.is_none();
    may.then(|| format!("pad({}, 0)[{indices}", name.trim_end()))
}
