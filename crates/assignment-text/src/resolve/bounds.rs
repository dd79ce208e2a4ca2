//! Checks that indices are in bounds.

use super::ranges::with_margins;
use crate::error::{Result, TextErrorKind, bad_bound};
use crate::source::on_one_line;
use crate::tree::{AccessKind, NodeAccess, ResolvedStatement};
use assignments::indexing::bounded_space::{BoundedSpace, PointRanges};
use assignments::indexing::{StaticSymbol, extent};
use lowered_ir::ir::{Affine, SymbolId, index_bounds};

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
    let space = bounded_space(statement, ranges, text)?;
    let symbol = |id: SymbolId| symbols[id.index()].range;
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
        }
    }
    Ok(())
}

/// The loops over the points at which the statement assigns.
fn bounded_space(statement: &ResolvedStatement, ranges: &[i64], text: &str) -> Result<BoundedSpace> {
    let conditions: Vec<Affine> =
        statement.conditions.iter().map(|(condition, _)| condition.clone()).collect();
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
