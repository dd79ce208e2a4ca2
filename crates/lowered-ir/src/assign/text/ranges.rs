//! The ranges of letters, and whether every index stays within its array.
//!
//! A letter takes its range from, in this order: `where`; the first operand axis it indexes alone; the first axis of the
//! left-hand side it indexes alone. All other axes it indexes alone must have that size, unless `where` makes it smaller.
//! Padded reads give no range: they may go outside.

use tnode::TensorNode;

use super::error::{Located, TextErrorKind};
use super::resolve::{How, Read, Resolved};
use crate::assign::Assignments;
use crate::indexing::{axis_iterator, extent};
use crate::ir::{Affine, Var};

/// The range of each letter of the statement.
pub(super) fn letter_ranges(statement: &Resolved, text: &str) -> Result<Vec<i64>, Located> {
    let mut reads: Vec<&Read> = Vec::new();
    statement.rhs.each_read(&mut |read| reads.push(read));
    reads.push(&statement.lhs);
    (0..statement.letters.len()).map(|letter| letter_range(statement, letter, &reads, text)).collect()
}

fn letter_range(statement: &Resolved, at: usize, reads: &[&Read], text: &str) -> Result<i64, Located> {
    let letter = &statement.letters[at];
    let alone = Affine::var(axis_iterator(at));
    let axes = reads.iter().filter(|read| !matches!(read.how, How::Padded(_))).flat_map(|read| {
        read.index
            .iter()
            .enumerate()
            .filter(|(_, (index, _))| *index == alone)
            .map(move |(axis, _)| (*read, axis))
    });
    let mut axes = axes.peekable();
    if let Some((range, span)) = &letter.declared {
        if *range < 1 {
            let (name, conflict) = (letter.name.clone(), "leaves no value; expected at least 1".to_owned());
            return Err(TextErrorKind::BadRange { name, range: *range, conflict }.at(span.clone()));
        }
        return Ok(*range);
    }
    let Some(&(first, first_axis)) = axes.peek() else {
        return Err(TextErrorKind::OpenRange { letter: letter.name.clone() }.at(letter.span.clone()));
    };
    let expected = extent(first.dims[first_axis]);
    match axes.find(|(read, axis)| extent(read.dims[*axis]) != expected) {
        None => Ok(expected),
        Some((read, axis)) => {
            let from = format!("{first_axis} of `{}`", text.get(first.span.clone()).unwrap_or_default());
            let (letter, node, found) = (letter.name.clone(), read.node.name(), read.dims[axis]);
            Err(TextErrorKind::Size { letter, expected, from, node, axis, found }
                .at(read.index[axis].1.clone()))
        }
    }
}

/// Checks every index against its array. A symbol without a range counts as 0: lowering finds its range.
pub(super) fn check_bounds(
    statement: &Resolved,
    ranges: &[i64],
    assignments: &Assignments,
    text: &str,
) -> Result<(), Located> {
    if ranges.contains(&0) {
        return Ok(());
    }
    let mut reads = vec![&statement.lhs];
    statement.rhs.each_read(&mut |read| reads.push(read));
    let last = |var| match var {
        Var::Loop(id) => ranges[id.index()] - 1,
        Var::Symbol(id) => assignments.symbols[id.index()].range.map_or(0, |range| range - 1),
    };
    for read in reads {
        for (axis, (index, span)) in read.index.iter().enumerate() {
            let (min, max) = match read.how {
                How::Padded(_) => (i64::MIN, i64::MAX),
                How::Lhs => (0, extent(read.dims[axis]) - 1),
                How::Plain | How::Merge => with_margins(&read.node, axis, read.dims[axis]),
            };
            // An index too large to compute is out of bounds even where going outside is allowed.
            let (lo, hi) = index.bounds(|var| (0, last(var))).unwrap_or((i64::MIN, i64::MAX));
            if lo < min || hi > max || lo == i64::MIN || hi == i64::MAX {
                let (node, size) = (read.node.name(), read.dims[axis]);
                let index = text.get(span.clone()).unwrap_or_default().to_owned();
                let is_read = matches!(read.how, How::Plain);
                return Err(
                    TextErrorKind::OutOfBounds { index, lo, hi, node, axis, size, is_read }.at(span.clone())
                );
            }
        }
    }
    Ok(())
}

/// The least and greatest index into an axis, margins included.
fn with_margins(node: &TensorNode, axis: usize, dim: usize) -> (i64, i64) {
    let margins = node.padding().and_then(|padding| padding.axes.get(axis).copied()).unwrap_or_default();
    (-extent(margins.left), extent(dim) + extent(margins.right) - 1)
}
