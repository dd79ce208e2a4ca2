//! Makes projections of a parsed einsum text and dimensions.

use std::collections::BTreeMap;

use tnode::Dims;

use super::parse::{Axis, Item, OperandSpec, SpecArrays, WindowSpec};
use super::{EinsumComponent, LocatedSpecError, SpecErrorKind};
use crate::indexing::concat::{self, Component};
use crate::indexing::{ArrayRole, AxisIndex, Indexed, Projections, axis_iterator, extent};
use crate::origin::ByteRange;
use lowered_ir::ir::Affine;

/// An array with the axes that the text gives it.
struct SpecArray<'a> {
    place: ArrayRole,
    dims: &'a [usize],
    /// The byte range of the array's axes in the text.
    span: ByteRange,
    /// One axis per dimension, with its byte range.
    axes: Vec<(Axis, ByteRange)>,
}

/// The components of a text. With `together`, one component has all operands; otherwise each component has
/// one target and one operand: the only ones all of whose labels are active in it.
pub(super) fn solve(
    spec: &str,
    text: &SpecArrays,
    rhs: &[Dims],
    lhs: &[Dims],
    together: bool,
) -> Result<Vec<EinsumComponent>, LocatedSpecError> {
    for (specs, dims, written) in [(&text.read, rhs, false), (&text.written, lhs, true)] {
        let (expected, found) = (dims.len(), specs.len());
        if expected != found {
            return Err(SpecErrorKind::Operands { expected, found, written }.at(&(0..spec.len())));
        }
    }
    // The arrays written come first because their labels are the outer product axes.
    let specs: Vec<&OperandSpec> = text.written.iter().chain(&text.read).collect();
    let dims: Vec<&[usize]> = lhs.iter().chain(rhs).map(|dims| dims.as_slice()).collect();
    let place = |at: usize| at.checked_sub(lhs.len()).map_or(ArrayRole::Lhs, ArrayRole::Rhs);
    let rows = row_lengths(&specs, &dims, place)?;
    let mut anonymous = 0;
    let arrays = specs.iter().zip(&dims).enumerate().map(|(at, (operand, &dims))| SpecArray {
        place: place(at),
        dims,
        span: operand.span.clone(),
        axes: expand(operand, &rows, &mut anonymous),
    });
    let arrays: Vec<SpecArray> = arrays.collect();
    let labels = LabelTable::new(&arrays)?;
    let (targets, operands) = arrays.split_at(lhs.len());
    labels
        .components(spec)?
        .iter()
        .map(|component| labels.part(spec, component, targets, operands, together))
        .collect()
}

/// The number of axes of each row variable, solved repeatedly from arrays with one unknown variable.
fn row_lengths(
    operands: &[&OperandSpec],
    dims: &[&[usize]],
    place: impl Fn(usize) -> ArrayRole,
) -> Result<BTreeMap<String, usize>, LocatedSpecError> {
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        let before = known.len();
        for (at, (operand, dims)) in operands.iter().zip(dims).enumerate() {
            solve_row(operand, dims, &mut known).map_err(|(found, open)| {
                SpecErrorKind::Rank { array: place(at), dims: Dims::from_slice(dims), found, open }
                    .at(&operand.span)
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

/// Solves for the length of the only unknown row variable of an array, or checks the rank. The error has the
/// number of axes with known length, and whether there is an unknown row variable.
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

/// The axes of an array. Ellipses and `_` are replaced by labels that no text can contain.
fn expand(
    operand: &OperandSpec,
    rows: &BTreeMap<String, usize>,
    anonymous: &mut usize,
) -> Vec<(Axis, ByteRange)> {
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

/// The labels of a text in the order of the product axes, with their sizes.
struct LabelTable {
    names: Vec<String>,
    sizes: Vec<usize>,
    /// The positions of the labels of each distinct concatenated axis.
    concats: Vec<Vec<usize>>,
}

impl LabelTable {
    fn new(arrays: &[SpecArray]) -> Result<LabelTable, LocatedSpecError> {
        let axes = || {
            arrays.iter().flat_map(|array| array.axes.iter().zip(array.dims).map(move |axis| (array, axis)))
        };
        let mut names: Vec<(String, ByteRange)> = Vec::new();
        let mut sizes: BTreeMap<String, (usize, ArrayRole)> = BTreeMap::new();
        for (array, ((axis, span), &dim)) in axes() {
            for label in labels_of(axis) {
                if !names.iter().any(|(name, _)| name == label) {
                    names.push((label.to_owned(), span.clone()));
                }
            }
            if let Axis::Label(label) = axis {
                note_size(label, dim, array.place, span, &mut sizes)?;
            }
        }
        for (array, ((axis, span), &dim)) in axes() {
            if let Axis::Concat(parts) = axis {
                check_parts(parts, dim, array.place, span, &sizes)?;
            }
        }
        let size = |(name, span): &(String, ByteRange)| match sizes.get(name) {
            Some(&(size, _)) => Ok(size),
            None => Err(SpecErrorKind::OpenSize { label: name.clone() }.at(span)),
        };
        let sizes = names.iter().map(size).collect::<Result<_, _>>()?;
        let names = names.into_iter().map(|(name, _)| name).collect();
        let mut labels = LabelTable { names, sizes, concats: Vec::new() };
        for (_, ((axis, _), _)) in axes() {
            if let Axis::Concat(parts) = axis {
                let parts = labels.positions(parts);
                if !labels.concats.contains(&parts) {
                    labels.concats.push(parts);
                }
            }
        }
        Ok(labels)
    }

    fn positions(&self, labels: &[String]) -> Vec<usize> {
        labels.iter().map(|label| self.position(label)).collect()
    }

    /// All combinations that pick one label of each concatenated axis.
    fn components(&self, spec: &str) -> Result<Vec<Component>, LocatedSpecError> {
        let sizes: Vec<i64> = self.sizes.iter().map(|&size| extent(size)).collect();
        let limit = concat::MAX_COMPONENTS;
        concat::components(&sizes, &self.concats)
            .ok_or_else(|| SpecErrorKind::TooManyParts { limit }.at(&(0..spec.len())))
    }

    fn part(
        &self,
        spec: &str,
        component: &Component,
        targets: &[SpecArray],
        operands: &[SpecArray],
        together: bool,
    ) -> Result<EinsumComponent, LocatedSpecError> {
        let runs = |array: &SpecArray| {
            let mut labels = array.axes.iter().filter(|(axis, _)| !matches!(axis, Axis::Concat(_)));
            labels.all(|(axis, _)| labels_of(axis).iter().all(|label| component.live[self.position(label)]))
        };
        let only = |arrays: &[SpecArray], what: &'static str| {
            let found: Vec<usize> = (0..arrays.len()).filter(|&at| runs(&arrays[at])).collect();
            match found.as_slice() {
                [one] => Ok(*one),
                _ => {
                    let labels = component.letters().iter().map(|&at| self.names[at].clone()).collect();
                    let text = |at: &usize| spec.get(arrays[*at].span.clone()).unwrap_or_default().to_owned();
                    let place = found.get(1).map_or(0..spec.len(), |&at| arrays[at].span.clone());
                    let found = found.iter().map(text).collect();
                    Err(SpecErrorKind::Ambiguous { labels, what, found }.at(&place))
                }
            }
        };
        let target = only(targets, "array written")?;
        let operands: Vec<(usize, &SpecArray)> = match together {
            true => operands.iter().enumerate().collect(),
            false => vec![only(operands, "operand").map(|at| (at, &operands[at]))?],
        };
        let (lhs, _) = self.project(&targets[target], component)?;
        let indexed = operands
            .iter()
            .map(|(_, array)| self.project(array, component))
            .collect::<Result<Vec<_>, _>>()?;
        let (rhs, padding): (Vec<Indexed>, _) = indexed.into_iter().unzip();
        let (sizes, lhs, rhs) = self.used(lhs, rhs);
        let projections = Projections::new(&sizes, lhs, rhs, spec)
            .expect("ranks were checked with the rows, and iterators are those of the labels");
        Ok(EinsumComponent {
            target,
            operands: operands.into_iter().map(|(at, _)| at).collect(),
            projections,
            padding,
        })
    }

    /// Renumbers the iterators of the indices so that unused labels are left out. Returns the sizes of the
    /// used labels too.
    fn used(&self, lhs: Indexed, rhs: Vec<Indexed>) -> (Vec<usize>, Indexed, Vec<Indexed>) {
        let mut used: Vec<usize> = Vec::new();
        for (_, projection) in std::iter::once(&lhs).chain(&rhs) {
            used.extend(projection.iter().flat_map(|index| index.loop_terms()).map(|(id, _)| id.index()));
        }
        used.sort_unstable();
        used.dedup();
        // Each iterator gets an equal or lower number. Renaming in increasing order ensures that this number
        // is free and that no iterator is renamed twice.
        let renamed = |index: Affine| {
            used.iter().enumerate().fold(index, |index, (to, &from)| {
                index.substitute(axis_iterator(from), &Affine::var(axis_iterator(to)))
            })
        };
        let all = |(dims, projection): Indexed| -> Indexed {
            (dims, projection.iter().map(|index| index.map(renamed)).collect())
        };
        (used.iter().map(|&at| self.sizes[at]).collect(), all(lhs), rhs.into_iter().map(all).collect())
    }

    fn position(&self, label: &str) -> usize {
        self.names.iter().position(|name| name == label).unwrap_or(usize::MAX)
    }

    fn size(&self, label: &str) -> i64 {
        self.sizes.get(self.position(label)).map_or(0, |&size| extent(size))
    }

    /// The array's projection, and the padding that its windows need.
    fn project(
        &self,
        array: &SpecArray,
        component: &Component,
    ) -> Result<(Indexed, Vec<(usize, usize)>), LocatedSpecError> {
        let axes = array.axes.iter().zip(array.dims).enumerate();
        let projected = axes.map(|(axis, ((spec, span), &dim))| {
            let (index, bounds, margins) = match spec {
                Axis::Label(label) => return Ok((AxisIndex::axis(self.position(label)), (0, 0))),
                Axis::Anonymous => return Ok((AxisIndex::Fixed(0), (0, 0))),
                Axis::Fixed(at) => (Affine::constant(*at), (*at, *at), false),
                Axis::WindowSpec(window) => self.window(window),
                Axis::Concat(parts) => {
                    let at = self.concats.iter().position(|known| *known == self.positions(parts));
                    let (letter, before) = at.map_or((0, 0), |at| component.picked[at]);
                    return Ok((
                        AxisIndex::new(Affine::var(axis_iterator(letter)).plus_constant(before)),
                        (0, 0),
                    ));
                }
            };
            let (lo, hi) = bounds;
            let padding =
                (usize::try_from(-lo).unwrap_or(0), usize::try_from(hi - extent(dim) + 1).unwrap_or(0));
            if padding != (0, 0) && (!margins || array.place == ArrayRole::Lhs) {
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

    /// The index of a window, its least and its greatest value, and whether it may reach into padding.
    fn window(&self, window: &WindowSpec) -> (Affine, (i64, i64), bool) {
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
        Axis::Concat(parts) => parts.iter().map(String::as_str).collect(),
        Axis::WindowSpec(WindowSpec { output, kernel, .. }) => std::iter::once(output)
            .chain(kernel.as_ref().map(|(_, label)| label))
            .map(String::as_str)
            .collect(),
    }
}

fn note_size(
    label: &str,
    dim: usize,
    place: ArrayRole,
    span: &ByteRange,
    sizes: &mut BTreeMap<String, (usize, ArrayRole)>,
) -> Result<(), LocatedSpecError> {
    let &mut (expected, first) = sizes.entry(label.to_owned()).or_insert((dim, place));
    if expected == dim {
        return Ok(());
    }
    let label = label.to_owned();
    Err(SpecErrorKind::Size { label, expected, first, found: dim }.at(span))
}

/// Checks that the sizes of the labels of a concatenated axis add up to its size, if all of them are known.
fn check_parts(
    parts: &[String],
    dim: usize,
    place: ArrayRole,
    span: &ByteRange,
    sizes: &BTreeMap<String, (usize, ArrayRole)>,
) -> Result<(), LocatedSpecError> {
    let known: Option<Vec<usize>> =
        parts.iter().map(|label| sizes.get(label).map(|&(size, _)| size)).collect();
    match known {
        Some(known) if known.iter().copied().fold(0, usize::saturating_add) != dim => {
            let label = parts.join("^");
            Err(SpecErrorKind::Parts { label, parts: known, array: place, found: dim }.at(span))
        }
        Some(_) | None => Ok(()),
    }
}
