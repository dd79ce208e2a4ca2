//! Checks that indices are in bounds.

use super::open_scans::{OpenScan, letters_for_steps, with_letters};
use super::ranges::{below, size_symbol, with_margins};
use crate::error::{Result, TextErrorKind, bad_bound};
use crate::source::on_one_line;
use crate::tree::{AccessKind, NodeAccess, ResolvedStatement};
use assignments::indexing::bounded_space::{BoundedSpace, PointRanges};
use assignments::indexing::{StaticSymbol, extent};
use lowered_ir::ir::{Affine, SymbolId, index_bounds};

/// Checks every index against its axis. A symbol without a range counts as 0, since lowering finds its range.
///
/// Returns whether every access is within memory behind the ends of `scans` too, which a run gives.
pub(super) fn check_bounds(
    statement: &ResolvedStatement,
    ranges: &[i64],
    symbols: &[StaticSymbol],
    scans: &[OpenScan],
    text: &str,
) -> Result<bool> {
    if ranges.contains(&0) {
        return Ok(true);
    }
    let mut reads = Vec::new();
    statement.each_access(&mut |access| reads.push(access));
    let space = bounded_space(statement, ranges, symbols, text)?;
    let symbol = |id: SymbolId| StaticSymbol::range_in(symbols, id);
    let all_steps = PointRanges::new(ranges, space.clips(), &symbol);
    let (extents, clips) = with_letters(ranges, space.clips(), scans);
    let points = PointRanges::new(&extents, &clips, &symbol);
    let in_letters = |index: &Affine| letters_for_steps(index, ranges.len(), scans);
    let mut is_safe = true;
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
            let value = space.value(index);
            let bounds = value.as_ref().and_then(|index| index_bounds(&in_letters(index), &points));
            let (lo, hi) = bounds.unwrap_or((i64::MIN, i64::MAX));
            if !scans.is_empty() {
                let bounds = value.as_ref().and_then(|index| index_bounds(index, &all_steps));
                is_safe &= bounds.is_some_and(|(lo, hi)| min <= lo && hi <= max);
            }
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
                let beyond = space.value(&beyond);
                let bounds = beyond.and_then(|beyond| index_bounds(&in_letters(&beyond), &points));
                if bounds.is_none_or(|(_, greatest)| greatest >= 0) {
                    let (index, size, node) = (on_one_line(text, span), size.to_string(), read.name());
                    let padded = padded(read, text);
                    return Err(TextErrorKind::BeyondSize { index, size, node, axis, padded }.at(span));
                }
            }
        }
    }
    Ok(is_safe)
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
