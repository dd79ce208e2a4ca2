//! From parsed einsum text and dimensions to projections.

use std::collections::BTreeMap;
use std::ops::Range;

use tnode::Dims;

use super::parse::{Axis, Item, OperandSpec, Window};
use super::{Located, Resolved, SpecErrorKind};
use crate::indexing::{AxisIndex, Indexed, Place, Projections, axis_iterator, extent};
use crate::ir::Affine;

type Span = Range<usize>;

/// An array with the axes the text gives it.
struct Array<'a> {
    place: Place,
    dims: &'a [usize],
    /// One per dimension.
    axes: Vec<(Axis, Span)>,
}

pub(super) fn solve(
    spec: &str,
    operands: &[OperandSpec],
    rhs: &[Dims],
    lhs: &[usize],
) -> Result<Resolved, Located> {
    let found = operands.len() - 1;
    if found != rhs.len() {
        return Err(SpecErrorKind::Operands { expected: rhs.len(), found }.at(&(0..spec.len())));
    }
    let dims: Vec<&[usize]> = rhs.iter().map(|dims| dims.as_slice()).chain([lhs]).collect();
    let rows = row_lengths(operands, &dims)?;
    let mut anonymous = 0;
    let arrays = operands.iter().zip(&dims).enumerate().map(|(at, (operand, &dims))| {
        let place = if at == found { Place::Lhs } else { Place::Rhs(at) };
        Array { place, dims, axes: expand(operand, &rows, &mut anonymous) }
    });
    let mut arrays: Vec<Array> = arrays.collect();
    // The array written first: its labels are the outer product axes.
    arrays.rotate_right(1);
    let labels = Labels::new(&arrays)?;
    let indexed = arrays.iter().map(|array| labels.project(array)).collect::<Result<Vec<_>, _>>()?;
    let mut indexed = indexed.into_iter();
    let lhs = indexed.next().map(|(indexed, _)| indexed).unwrap_or_default();
    let (rhs, padding) = indexed.unzip();
    let projections = Projections::new(&labels.sizes, lhs, rhs, spec)
        .expect("ranks were checked with the rows, and iterators are those of the labels");
    Ok(Resolved { projections, padding })
}

/// How many axes each row variable stands for: solved from arrays with one unknown variable until none is left.
fn row_lengths(operands: &[OperandSpec], dims: &[&[usize]]) -> Result<BTreeMap<String, usize>, Located> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        let before = known.len();
        for (at, (operand, dims)) in operands.iter().zip(dims).enumerate() {
            solve_row(operand, dims, &mut known).map_err(|(found, open)| {
                let array = if at + 1 == operands.len() { Place::Lhs } else { Place::Rhs(at) };
                SpecErrorKind::Rank { array, dims: Dims::from_slice(dims), found, open }.at(&operand.span)
            })?;
        }
        if known.len() == before {
            break;
        }
    }
    for (item, span) in operands.iter().flat_map(|operand| &operand.items) {
        match item {
            Item::Row(row) if !known.contains_key(row) => {
                return Err(SpecErrorKind::OpenRow { row: row.clone() }.at(span));
            }
            _ => {}
        }
    }
    Ok(known)
}

/// Learns the length of the only unknown row variable of an array, or checks its rank; else its number of axes so far,
/// and whether there are unknown ones.
fn solve_row(
    operand: &OperandSpec,
    dims: &[usize],
    known: &mut BTreeMap<String, usize>,
) -> Result<(), (usize, bool)> {
    let mut fixed = 0;
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    for (item, _) in &operand.items {
        match item {
            Item::Axis(_) => fixed += 1,
            Item::Row(row) => match known.get(row) {
                Some(length) => fixed += length,
                None => *unknown.entry(row).or_default() += 1,
            },
        }
    }
    let mut unknown = unknown.into_iter();
    match (dims.len().checked_sub(fixed), unknown.next(), unknown.next()) {
        (Some(0), None, _) => Ok(()),
        (Some(rest), Some((row, times)), None) if rest % times == 0 => {
            known.insert(row.to_owned(), rest / times);
            Ok(())
        }
        (Some(_), Some(_), Some(_)) => Ok(()),
        (_, first, _) => Err((fixed, first.is_some())),
    }
}

/// The axes of an array, ellipses replaced by labels that no text can contain.
fn expand(operand: &OperandSpec, rows: &BTreeMap<String, usize>, anonymous: &mut usize) -> Vec<(Axis, Span)> {
    let mut axes = Vec::new();
    for (item, span) in &operand.items {
        match item {
            Item::Row(row) => {
                let label = |k| (Axis::Label(format!("..{row}..{k}")), span.clone());
                axes.extend((0..rows.get(row).copied().unwrap_or(0)).map(label));
            }
            Item::Axis(Axis::Anonymous) => {
                axes.push((Axis::Label(format!("_{anonymous}.")), span.clone()));
                *anonymous += 1;
            }
            Item::Axis(axis) => axes.push((axis.clone(), span.clone())),
        }
    }
    axes
}

/// The labels in the order of the product axes, with their sizes.
struct Labels {
    names: Vec<String>,
    sizes: Vec<usize>,
}

impl Labels {
    fn new(arrays: &[Array]) -> Result<Labels, Located> {
        let mut names: Vec<(String, Span)> = Vec::new();
        let mut sizes: BTreeMap<String, (usize, Place)> = BTreeMap::new();
        for array in arrays {
            for ((axis, span), &dim) in array.axes.iter().zip(array.dims) {
                for label in labels_of(axis) {
                    if !names.iter().any(|(name, _)| name == label) {
                        names.push((label.to_owned(), span.clone()));
                    }
                }
                if let Axis::Label(label) = axis {
                    note_size(label, dim, array.place, span, &mut sizes)?;
                }
            }
        }
        let size = |(name, span): &(String, Span)| match sizes.get(name) {
            Some(&(size, _)) => Ok(size),
            None => Err(SpecErrorKind::OpenSize { label: name.clone() }.at(span)),
        };
        let sizes = names.iter().map(size).collect::<Result<_, _>>()?;
        Ok(Labels { names: names.into_iter().map(|(name, _)| name).collect(), sizes })
    }

    fn position(&self, label: &str) -> usize {
        self.names.iter().position(|name| name == label).unwrap_or(usize::MAX)
    }

    fn size(&self, label: &str) -> i64 {
        self.sizes.get(self.position(label)).map_or(0, |&size| extent(size))
    }

    /// The array's projection and the padding it needs.
    fn project(&self, array: &Array) -> Result<(Indexed, Vec<(usize, usize)>), Located> {
        let axes = array.axes.iter().zip(array.dims).enumerate();
        let projected = axes.map(|(axis, ((spec, span), &dim))| {
            let (index, bounds, margins) = match spec {
                Axis::Label(label) => return Ok((AxisIndex::axis(self.position(label)), (0, 0))),
                Axis::Anonymous => return Ok((AxisIndex::Fixed(0), (0, 0))),
                Axis::Fixed(at) => (Affine::constant(*at), (*at, *at), false),
                Axis::Window(window) => self.window(window),
            };
            let (lo, hi) = bounds;
            let padding =
                (usize::try_from(-lo).unwrap_or(0), usize::try_from(hi - extent(dim) + 1).unwrap_or(0));
            if padding != (0, 0) && (!margins || array.place == Place::Lhs) {
                return Err(
                    SpecErrorKind::OutOfBounds { lo, hi, array: array.place, axis, size: dim }.at(span)
                );
            }
            Ok((AxisIndex::new(index), padding))
        });
        let (index, padding): (Vec<AxisIndex>, Vec<(usize, usize)>) =
            projected.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        Ok(((Dims::from_slice(array.dims), index.into_iter().collect()), padding))
    }

    /// The index of a window, its least and greatest value, and whether it may reach into margins.
    fn window(&self, window: &Window) -> (Affine, (i64, i64), bool) {
        let variable = |label: &str| Affine::var(axis_iterator(self.position(label)));
        let last = |label: &str| (self.size(label) - 1).max(0);
        let mut index = variable(&window.output).times(window.stride).plus_constant(window.offset);
        let mut hi = window.stride.saturating_mul(last(&window.output)).saturating_add(window.offset);
        let mut left = 0;
        if let Some((dilation, kernel)) = &window.kernel {
            let span = dilation.saturating_mul(last(kernel));
            index = index.plus(&variable(kernel).times(*dilation));
            hi = hi.saturating_add(span);
            left = if window.padded { span / 2 } else { 0 };
        }
        (index.plus_constant(-left), (-left, hi - left), window.padded && window.kernel.is_some())
    }
}

fn labels_of(axis: &Axis) -> Vec<&str> {
    match axis {
        Axis::Label(label) => vec![label],
        Axis::Anonymous | Axis::Fixed(_) => Vec::new(),
        Axis::Window(Window { output, kernel, .. }) => std::iter::once(output)
            .chain(kernel.as_ref().map(|(_, label)| label))
            .map(String::as_str)
            .collect(),
    }
}

fn note_size(
    label: &str,
    dim: usize,
    place: Place,
    span: &Span,
    sizes: &mut BTreeMap<String, (usize, Place)>,
) -> Result<(), Located> {
    let &mut (expected, first) = sizes.entry(label.to_owned()).or_insert((dim, place));
    if expected == dim {
        return Ok(());
    }
    let label = label.to_owned();
    Err(SpecErrorKind::Size { label, expected, first, found: dim }.at(span))
}
