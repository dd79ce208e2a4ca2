//! The ranges of letters, and checks that indices are in bounds.
//!
//! A letter takes its range from the first of these: a `where`, the first operand axis that it indexes alone,
//! the first axis of the left-hand side that it indexes alone. All other axes that it indexes alone must have
//! the same size, unless `where` makes the range smaller. Padded reads give no range, since they may go
//! outside. The range of a concatenated axis is the sum of the ranges of its letters. If one of these letters
//! has no range, it takes the remainder of the first such axis.

use tnode::TensorNode;

use super::error::{LocatedError, TextErrorKind};
use super::resolve::{AccessKind, NodeAccess, ResolvedStatement};
use crate::Assignments;
use crate::indexing::{axis_iterator, extent};
use lowered_ir::ir::{Affine, Var};
use lowered_ir::verify::Limits;

/// The range of each letter of the statement.
pub(super) fn letter_ranges(statement: &ResolvedStatement, text: &str) -> Result<Vec<i64>, LocatedError> {
    let letters = 0..statement.letters.len();
    let sized = letters.clone().map(|at| axes_range(statement, at, text)).collect::<Result<Vec<_>, _>>()?;
    let mut ranges =
        letters.clone().map(|at| declared_or(statement, at, sized[at])).collect::<Result<Vec<_>, _>>()?;
    letters.clone().for_each(|at| fill_open_part(at, &statement.letters[at].parts, &mut ranges));
    letters.map(|at| known_range(statement, at, &ranges)).collect()
}

/// The axes that a letter indexes alone, with their accesses. Padded reads are left out, since their axes may
/// have any size.
fn alone_axes(statement: &ResolvedStatement, at: usize) -> Vec<(&NodeAccess, usize)> {
    let alone = Affine::var(axis_iterator(at));
    let mut axes = Vec::new();
    statement.each_read(&mut |read| {
        if !matches!(read.how, AccessKind::Padded(_)) {
            let own = read.index.iter().enumerate().filter(|(_, (index, _))| *index == alone);
            axes.extend(own.map(|(axis, _)| (read, axis)));
        }
    });
    axes
}

/// The common size of the axes that a letter indexes alone; `None` if there are none.
fn axes_range(statement: &ResolvedStatement, at: usize, text: &str) -> Result<Option<i64>, LocatedError> {
    let letter = &statement.letters[at];
    let axes = alone_axes(statement, at);
    let Some(&(first, first_axis)) = axes.first() else { return Ok(None) };
    let expected = extent(first.dims[first_axis]);
    match axes.iter().find(|(read, axis)| extent(read.dims[*axis]) != expected) {
        Some(&(read, axis)) if letter.declared.is_none() => {
            let from = format!("{first_axis} of `{}`", text.get(first.span.clone()).unwrap_or_default());
            let (letter, node, found) = (letter.name.clone(), read.node.name(), read.dims[axis]);
            Err(TextErrorKind::Size { letter, expected, from, node, axis, found }
                .at(read.index[axis].1.clone()))
        }
        _ => Ok(Some(expected)),
    }
}

/// The range that a `where` declares, else `sized`.
fn declared_or(
    statement: &ResolvedStatement,
    at: usize,
    sized: Option<i64>,
) -> Result<Option<i64>, LocatedError> {
    let letter = &statement.letters[at];
    match &letter.declared {
        Some((range, span)) => range_of(*range).map(Some).map_err(|conflict| {
            TextErrorKind::BadRange { name: letter.name.clone(), range: *range, conflict }.at(span.clone())
        }),
        None => Ok(sized),
    }
}

/// Checks the range of a letter or symbol. The error is the end of a message.
pub(super) fn range_of(limit: i128) -> Result<i64, String> {
    let max = Limits::default().extent;
    match i64::try_from(limit) {
        Ok(range) if (1..=max).contains(&range) => Ok(range),
        _ if limit < 1 => Err("leaves no value; expected at least 1".to_owned()),
        _ => Err(format!("is too large; expected at most {max}")),
    }
}

/// Gives the only letter without a range on a concatenated axis the remainder of that axis.
fn fill_open_part(at: usize, parts: &[usize], ranges: &mut [Option<i64>]) {
    let Some(&open) = parts.iter().find(|&&part| ranges[part].is_none()) else { return };
    let known = parts.iter().filter(|&&part| part != open).map(|&part| ranges[part]);
    let times = extent(parts.iter().filter(|&&part| part == open).count());
    if let (Some(all), Some(known)) = (ranges[at], known.sum::<Option<i64>>()) {
        ranges[open] = Some((all - known).max(0) / times);
    }
}

/// The range of a letter. The size of a concatenated axis must be the sum of the ranges of its letters.
fn known_range(
    statement: &ResolvedStatement,
    at: usize,
    ranges: &[Option<i64>],
) -> Result<i64, LocatedError> {
    let letter = &statement.letters[at];
    if letter.parts.is_empty() {
        let open = || TextErrorKind::OpenRange { letter: letter.name.clone() }.at(letter.span.clone());
        return ranges[at].ok_or_else(open);
    }
    let parts = letter.parts.iter().map(|&part| known_range(statement, part, ranges));
    let parts = parts.collect::<Result<Vec<i64>, _>>()?;
    let all = parts.iter().fold(0i64, |sum, &part| sum.saturating_add(part));
    let fewer = letter.parts.iter().any(|&part| statement.letters[part].declared.is_some());
    match alone_axes(statement, at).first() {
        Some((read, axis)) if !fewer && all != extent(read.dims[*axis]) => {
            let (letter, node, found) = (letter.name.clone(), read.node.name(), read.dims[*axis]);
            Err(TextErrorKind::ConcatSize { letter, parts, node, axis: *axis, found }
                .at(read.index[*axis].1.clone()))
        }
        _ => Ok(all),
    }
}

/// Checks every index against its axis. A symbol without a range counts as 0, since lowering finds its range.
pub(super) fn check_bounds(
    statement: &ResolvedStatement,
    ranges: &[i64],
    assignments: &Assignments,
    text: &str,
) -> Result<(), LocatedError> {
    if ranges.contains(&0) {
        return Ok(());
    }
    let mut reads = Vec::new();
    for target in &statement.lhs {
        reads.push(target);
        target.each_index_read(&mut |read| reads.push(read));
    }
    statement.rhs.iter().for_each(|value| value.each_read(&mut |read| reads.push(read)));
    let last = |var| match var {
        Var::Loop(id) => ranges[id.index()] - 1,
        Var::Symbol(id) => assignments.symbols[id.index()].range.map_or(0, |range| range - 1),
    };
    for read in reads {
        for (axis, (index, span)) in
            read.index.iter().enumerate().filter(|(axis, _)| !read.is_computed(*axis))
        {
            let (min, max) = match read.how {
                // An access with a computed index has no guard at run time, so its other indices must be in
                // bounds.
                AccessKind::Padded(_) if read.computed.is_some() => {
                    with_margins(&read.node, axis, read.dims[axis])
                }
                AccessKind::Padded(_) => (i64::MIN, i64::MAX),
                AccessKind::Lhs => (0, extent(read.dims[axis]) - 1),
                AccessKind::Plain | AccessKind::Merge => with_margins(&read.node, axis, read.dims[axis]),
            };
            // An index that overflows is out of bounds even in a padded read.
            let (lo, hi) = index.bounds(|var| (0, last(var))).unwrap_or((i64::MIN, i64::MAX));
            if lo < min || hi > max || lo == i64::MIN || hi == i64::MAX {
                let (node, size) = (read.node.name(), read.dims[axis]);
                let index = super::on_one_line(text.get(span.clone()).unwrap_or_default());
                let padded = padded(read, text).filter(|_| lo != i64::MIN && hi != i64::MAX);
                return Err(
                    TextErrorKind::OutOfBounds { index, lo, hi, node, axis, size, padded }.at(span.clone())
                );
            }
        }
    }
    Ok(())
}

/// The padded form of an access, for a hint; `None` if the access cannot be padded.
fn padded(read: &NodeAccess, text: &str) -> Option<String> {
    let access = super::on_one_line(text.get(read.span.clone())?);
    let (name, indices) = access.split_once('[')?;
    let may = matches!(read.how, AccessKind::Plain) && read.computed.is_none();
    may.then(|| format!("pad({}, 0)[{indices}", name.trim_end()))
}

/// The least and the greatest index into an axis with its margins.
fn with_margins(node: &TensorNode, axis: usize, dim: usize) -> (i64, i64) {
    let margins = node.padding().and_then(|padding| padding.axes.get(axis).copied()).unwrap_or_default();
    (-extent(margins.left), extent(dim) + extent(margins.right) - 1)
}
