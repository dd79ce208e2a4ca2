//! The ranges of letters.
//!
//! A letter takes its range from the first of these: a `where`, the first operand axis that it indexes alone,
//! the first axis of the left-hand side that it indexes alone. All other axes that it indexes alone must have
//! the same size, unless `where` makes the range smaller. Padded reads give no range, since they may go
//! outside. The range of a concatenated axis is the sum of the ranges of its letters. If one of these letters
//! has no range, it takes the remainder of the first such axis.
//!
//! The left-hand side gives no range if the dimensions of its node are open. A letter on such a side that has
//! no range yet takes the largest one for which the reads stay in bounds: in `y[i] :+= x[i + k] * w[k]`, the
//! range of `k` is the size of `w`, and that of `i` follows. This is done in rounds: in each round, every
//! index with exactly one letter of open range limits that letter, and the least limit is its range.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{DType, RunSize, TensorNode};

use crate::error::{Result, TextErrorKind, counted_elements};
use crate::names::{example, written};
use crate::source::excerpt;
use crate::tree::{AccessKind, NodeAccess, ResolvedStatement};
use assignments::indexing::{StaticSymbol, axis_iterator, extent};
use lowered_ir::ir::{Affine, SymbolId, Var};
use lowered_ir::verify::limits;

/// The range of each letter of the statement. A letter below a size that a run gives has the size's bound.
pub(super) fn letter_ranges(
    statement: &mut ResolvedStatement,
    bounds_are_sizes: bool,
    symbols: &[StaticSymbol],
    text: &str,
) -> Result<Vec<i64>> {
    for at in 0..statement.letters.len() {
        if bounds_are_sizes && is_bound_of_size(statement, at) {
            statement.letters[at].declared = None;
        }
        statement.letters[at].size = letter_size(statement, at, symbols);
    }
    let statement = &*statement;
    let letters = 0..statement.letters.len();
    let sized =
        letters.clone().map(|at| axes_range(statement, at, symbols, text)).collect::<Result<Vec<_>, _>>()?;
    let mut ranges =
        letters.clone().map(|at| declared_or(statement, at, sized[at])).collect::<Result<Vec<_>, _>>()?;
    for (at, range) in ranges.iter_mut().enumerate() {
        let size = statement.letters[at].size.as_ref();
        *range = range.or_else(|| size.map(|size| extent(size.bound())));
    }
    letters.clone().for_each(|at| fill_open_part(at, &statement.letters[at].parts, &mut ranges));
    limit_by_reads(statement, symbols, &mut ranges);
    letters.map(|at| known_range(statement, at, &ranges)).collect()
}

/// The axes that a letter indexes alone, with their accesses. Padded reads are left out, since their axes may
/// have any size.
fn alone_axes(statement: &ResolvedStatement, at: usize) -> Vec<(&NodeAccess, usize)> {
    let alone = Affine::var(axis_iterator(at));
    let mut axes = Vec::new();
    statement.each_read(&mut |read| {
        if !matches!(read.how, AccessKind::Padded(..)) && !read.has_open_dims() {
            let own = read.index.iter().enumerate().filter(|(_, (index, _))| *index == alone);
            axes.extend(own.map(|(axis, _)| (read, axis)));
        }
    });
    axes
}

/// Whether a letter indexes an axis alone whose size a run gives, and has the range that bounds the size.
fn is_bound_of_size(statement: &ResolvedStatement, at: usize) -> bool {
    let Some((range, _)) = statement.letters[at].declared else { return false };
    let mut axes = alone_axes(statement, at).into_iter();
    axes.any(|(read, axis)| read.size(axis).is_some() && i128::from(extent(read.dims[axis])) == range)
}

/// The size that a run gives, below which a letter stays: that of an axis that it indexes alone, or of a
/// comparison.
fn letter_size(statement: &ResolvedStatement, at: usize, symbols: &[StaticSymbol]) -> Option<RunSize> {
    // A declared range may be less than the size.
    if statement.letters[at].declared.is_some() {
        return None;
    }
    let axes = alone_axes(statement, at);
    let own = axes.iter().find_map(|(read, axis)| read.size(*axis)).cloned();
    own.or_else(|| compared_size(statement, at, symbols))
}

/// The size that a run gives, below which a comparison keeps a letter.
fn compared_size(statement: &ResolvedStatement, at: usize, symbols: &[StaticSymbol]) -> Option<RunSize> {
    statement.conditions.iter().find_map(|(condition, _)| below_size(condition, at, symbols))
}

/// The size that a run gives, if the condition is that a letter is less than it.
fn below_size(condition: &Affine, letter: usize, symbols: &[StaticSymbol]) -> Option<RunSize> {
    let terms = condition.terms().iter().find_map(|&(var, _)| match var {
        Var::Symbol(id) => Some(id),
        Var::Loop(_) => None,
    });
    let size = symbols.get(terms?.index())?.size.as_ref()?;
    (*condition == below(terms?.into(), letter)).then(|| size.clone())
}

/// The condition that a letter is less than a symbol.
pub(crate) fn below(symbol: Var, letter: usize) -> Affine {
    Affine::var(symbol).plus(&Affine::term(axis_iterator(letter), -1)).plus_constant(-1)
}

/// The symbol of a size that a run gives.
pub(super) fn size_symbol(size: &RunSize, symbols: &[StaticSymbol]) -> Option<Var> {
    let at = symbols.iter().position(|symbol| symbol.size.as_ref() == Some(size))?;
    Some(Var::Symbol(SymbolId(at as u32)))
}

/// States the bounds by sizes that a run gives, as far as the axes of nodes do not imply them.
///
/// A loop over a letter that indexes such an axis alone ends at the size. So the condition that a letter
/// stays below a size is removed, if all axes that it indexes alone have that size, or are read and have at
/// least as many elements as its bound. A letter with a lower bound becomes the sum of the bound and a count,
/// and gets the condition.
pub(super) fn state_sizes(statement: &mut ResolvedStatement, symbols: &[StaticSymbol]) {
    let is_implied = |condition: &Affine| {
        (0..statement.letters.len()).any(|at| {
            let Some(size) = below_size(condition, at, symbols) else { return false };
            let axes = alone_axes(statement, at);
            let has_it = |(read, axis): &&(&NodeAccess, usize)| read.size(*axis) == Some(&size);
            let Some((sized, axis)) = axes.iter().find(has_it) else { return false };
            let bound = sized.dims[*axis];
            let is_long = |(read, axis): &(&NodeAccess, usize)| {
                let is_target = statement.lhs.iter().any(|target| std::ptr::eq(target, *read));
                !is_target && read.size(*axis).is_none() && read.dims[*axis] >= bound
            };
            axes.iter().all(|access| has_it(&access) || is_long(access))
        })
    };
    let implied: Vec<bool> =
        statement.conditions.iter().map(|(condition, _)| is_implied(condition)).collect();
    let mut implied = implied.into_iter();
    statement.conditions.retain(|_| !implied.next().unwrap_or(false));
    for (at, letter) in statement.letters.iter().enumerate() {
        let bounds_it = |condition: &Affine| {
            let inner = condition.terms().iter().filter_map(|&(var, c)| match var {
                Var::Loop(id) => Some((id.index(), c)),
                Var::Symbol(_) => None,
            });
            inner.max() == Some((at, 1))
        };
        let lower = statement.conditions.iter().find(|(condition, _)| bounds_it(condition));
        let Some((_, span)) = lower else { continue };
        let symbol = letter.size.as_ref().and_then(|size| size_symbol(size, symbols));
        if let Some(below) = symbol.map(|symbol| below(symbol, at)) {
            let span = span.clone();
            statement.conditions.push((below, span));
        }
    }
}

/// The common size of the axes that a letter indexes alone; `None` if there are none.
fn axes_range(
    statement: &ResolvedStatement,
    at: usize,
    symbols: &[StaticSymbol],
    text: &str,
) -> Result<Option<i64>> {
    let letter = &statement.letters[at];
    let axes = alone_axes(statement, at);
    let Some(&(first, first_axis)) = axes.first() else { return Ok(None) };
    let expected = extent(first.dims[first_axis]);
    let is_compared = letter.size.is_some() && letter.size == compared_size(statement, at, symbols);
    let is_bounded = letter.declared.is_some() || is_compared;
    let other = axes.iter().find(|(read, axis)| read.size(*axis) != first.size(first_axis));
    if let Some(&(read, axis)) = other.filter(|_| !is_bounded) {
        let shown = |read: &NodeAccess, axis: usize| match read.size(axis) {
            Some(size) => format!("`{size}` elements"),
            None => counted_elements(extent(read.dims[axis])),
        };
        let from = format!("{first_axis} of `{}`", excerpt(text, &first.span));
        let sizes = Box::new([shown(first, first_axis), shown(read, axis)]);
        let (letter, node) = (letter.name.clone(), read.name());
        return Err(TextErrorKind::SizesDiffer { letter, sizes, from, node, axis }.at(&read.index[axis].1));
    }
    if is_compared {
        return Ok(axes.iter().map(|(read, axis)| extent(read.dims[*axis])).min());
    }
    match axes.iter().find(|(read, axis)| extent(read.dims[*axis]) != expected) {
        Some(&(read, axis)) if letter.declared.is_none() => {
            let from = format!("{first_axis} of `{}`", excerpt(text, &first.span));
            let (letter, node, found) = (letter.name.clone(), read.name(), read.dims[axis]);
            Err(TextErrorKind::Size { letter, expected, from, node, axis, found }.at(&read.index[axis].1))
        }
        _ => Ok(Some(expected)),
    }
}

/// The range that a `where` declares, else `sized`.
fn declared_or(statement: &ResolvedStatement, at: usize, sized: Option<i64>) -> Result<Option<i64>> {
    let letter = &statement.letters[at];
    match &letter.declared {
        Some((range, span)) => range_of(*range).map(Some).map_err(|conflict| {
            TextErrorKind::BadRange { name: letter.name.clone(), range: *range, conflict }.at(span)
        }),
        None => Ok(sized),
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

/// Gives the letters of targets with open dimensions the largest ranges for which the reads stay in bounds.
fn limit_by_reads(statement: &ResolvedStatement, symbols: &[StaticSymbol], ranges: &mut [Option<i64>]) {
    let mut written = BTreeSet::new();
    statement
        .lhs
        .iter()
        .filter(|target| target.has_open_dims())
        .for_each(|target| target.letters(&mut written));
    written.retain(|&at| statement.letters[at].parts.is_empty());
    while written.iter().any(|&at| ranges[at].is_none()) {
        let mut limits: BTreeMap<usize, i64> = BTreeMap::new();
        statement.rhs.iter().for_each(|value| {
            value.each_read(&mut |read| {
                for (at, limit) in index_limits(read, symbols, ranges) {
                    limits.entry(at).and_modify(|least| *least = limit.min(*least)).or_insert(limit);
                }
            });
        });
        limits.retain(|at, _| written.contains(at));
        if limits.is_empty() {
            return;
        }
        limits.into_iter().for_each(|(at, limit)| ranges[at] = Some(limit));
    }
}

/// The letters of open range that are the only ones in an index of this read, each with its largest range.
fn index_limits(read: &NodeAccess, symbols: &[StaticSymbol], ranges: &[Option<i64>]) -> Vec<(usize, i64)> {
    if matches!(read.how, AccessKind::Padded(..)) {
        return Vec::new();
    }
    let limit = |axis: usize| {
        let bounds = with_margins(&read.node, axis, read.dims[axis]);
        largest_range(&read.index[axis].0, bounds, symbols, ranges)
    };
    // A size that a run gives is no number from which a range could follow.
    let is_constant = |axis: usize| !read.is_computed(axis) && read.size(axis).is_none();
    (0..read.index.len()).filter(|&axis| is_constant(axis)).filter_map(limit).collect()
}

/// The only letter of open range in an index, with the largest range for which the index stays within
/// `bounds`. The range is at least 1, so that an index that leaves the bounds is reported as such.
fn largest_range(
    index: &Affine,
    bounds: (i64, i64),
    symbols: &[StaticSymbol],
    ranges: &[Option<i64>],
) -> Option<(usize, i64)> {
    let range = |var: Var| match var {
        Var::Loop(id) => ranges[id.index()],
        Var::Symbol(id) => symbols[id.index()].range,
    };
    let mut open = index.terms().iter().filter(|(var, _)| range(*var).is_none());
    let (Some(&(Var::Loop(letter), coefficient)), None) = (open.next(), open.next()) else { return None };
    let rest = index.substitute(letter, &Affine::constant(0));
    let (least, greatest) = rest.bounds(|var| (0, range(var).unwrap_or(1).max(1) - 1))?;
    let room = match coefficient > 0 {
        true => i128::from(bounds.1) - i128::from(greatest),
        false => i128::from(least) - i128::from(bounds.0),
    };
    let range = room.div_euclid(i128::from(coefficient.unsigned_abs())) + 1;
    Some((letter.index(), i64::try_from(range.max(1)).ok()?))
}

/// The range of a letter. The size of a concatenated axis must be the sum of the ranges of its letters.
fn known_range(statement: &ResolvedStatement, at: usize, ranges: &[Option<i64>]) -> Result<i64> {
    let letter = &statement.letters[at];
    if letter.parts.is_empty() {
        let open = || {
            let declaration = open_target(statement, at, ranges);
            TextErrorKind::OpenRange { letter: letter.name.clone(), declaration }.at(&letter.span)
        };
        return ranges[at].ok_or_else(open);
    }
    let parts = letter.parts.iter().map(|&part| known_range(statement, part, ranges));
    let parts = parts.collect::<Result<Vec<i64>, _>>()?;
    let mut sized =
        letter.parts.iter().chain([&at]).filter_map(|&part| statement.letters[part].size.as_ref());
    if let Some(size) = sized.next() {
        let (axis, size) = (letter.name.clone(), size.to_string());
        return Err(TextErrorKind::SizedConcat { axis, size }.at(&letter.span));
    }
    let all = parts.iter().fold(0i64, |sum, &part| sum.saturating_add(part));
    let fewer = letter.parts.iter().any(|&part| statement.letters[part].declared.is_some());
    match alone_axes(statement, at).first() {
        Some((read, axis)) if !fewer && all != extent(read.dims[*axis]) => {
            let (letter, node, found) = (letter.name.clone(), read.name(), read.dims[*axis]);
            Err(TextErrorKind::ConcatSize { letter, parts, node, axis: *axis, found }
                .at(&read.index[*axis].1))
        }
        _ => Ok(all),
    }
}

/// A declaration of the target with open dimensions that the letter indexes, as an example.
fn open_target(statement: &ResolvedStatement, at: usize, ranges: &[Option<i64>]) -> Option<String> {
    let alone = |index: &Affine, at: usize| *index == Affine::var(axis_iterator(at));
    let indexed = |target: &&NodeAccess| target.index.iter().any(|(index, _)| alone(index, at));
    let target = statement.lhs.iter().filter(|target| target.has_open_dims()).find(indexed)?;
    let size = |(index, _): &(Affine, _)| {
        let letter = (0..ranges.len()).find(|&at| alone(index, at))?;
        ranges[letter].and_then(|range| usize::try_from(range).ok())
    };
    let sizes: Vec<Option<usize>> = target.index.iter().map(size).collect();
    Some(example(&written(&target.node), DType::F32, &sizes))
}

/// The least and the greatest index into an axis with its margins.
pub(super) fn with_margins(node: &TensorNode, axis: usize, dim: usize) -> (i64, i64) {
    let margins = node.padding().and_then(|padding| padding.axes.get(axis).copied()).unwrap_or_default();
    (-extent(margins.left), extent(dim) + extent(margins.right) - 1)
}
/// Checks the range of a letter or symbol. The error is the end of a message.
pub(super) fn range_of(limit: i128) -> Result<i64, String> {
    let max = limits::EXTENT;
    match i64::try_from(limit) {
        Ok(range) if (1..=max).contains(&range) => Ok(range),
        _ if limit < 1 => Err("leaves no value; expected at least 1".to_owned()),
        _ => Err(format!("is too large; expected at most {max}")),
    }
}
