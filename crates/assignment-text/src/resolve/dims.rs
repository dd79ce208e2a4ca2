//! The dimensions of targets and of views.
//!
//! The first statement that writes a node whose dimensions are open gives it its dimensions: the range of the
//! letter on an axis that a letter indexes alone, one more than the greatest index on any other axis.

use std::collections::BTreeMap;

use tnode::{DType, Dims, TensorNode};

use crate::ast::View;
use crate::error::{Result, TextErrorKind};
use crate::names::{example, written};
use crate::tree::{NodeAccess, ResolvedStatement};
use assignments::indexing::{StaticSymbol, extent};
use lowered_ir::ir::{Affine, Var};

/// The dimensions of a view, which has as many elements as its node.
pub(super) fn view_dims(view: &View, node: &TensorNode) -> Result<Dims> {
    let located = |kind: TextErrorKind| kind.at(&view.span);
    let found = node.dims_without_padding().map_err(|error| located(error.into()))?;
    let mut sizes = Vec::new();
    for size in &view.sizes {
        sizes.push(size.known_integer()?);
    }
    let elements = |sizes: &[i64]| {
        let positive = sizes.iter().all(|&size| size >= 0);
        sizes.iter().try_fold(1i64, |all, &size| all.checked_mul(size)).filter(|_| positive)
    };
    let all: Vec<i64> = found.iter().map(|&dim| extent(dim)).collect();
    if elements(&sizes).is_none() || elements(&sizes) != elements(&all) {
        let (view, node) = (view.target.name.clone(), node.name());
        return Err(located(TextErrorKind::ViewSize { view, dims: sizes, node, found }));
    }
    Ok(sizes.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect())
}

/// Settles the open dimensions of the targets.
pub(super) fn settle_dims(
    statement: &mut ResolvedStatement,
    ranges: &[i64],
    symbols: &[StaticSymbol],
) -> Result<()> {
    let is_open = |target: &&NodeAccess| target.node.dims_without_padding().is_err();
    let mut sizes: BTreeMap<TensorNode, Dims> = BTreeMap::new();
    for target in statement.lhs.iter().filter(is_open) {
        let found = target_sizes(target, ranges, symbols)?;
        let sizes = sizes.entry(target.node.clone()).or_insert_with(|| found.clone());
        sizes.iter_mut().zip(found).for_each(|(size, found)| *size = found.max(*size));
    }
    for target in &mut statement.lhs {
        let Some(dims) = sizes.get(&target.node) else { continue };
        let located = |kind: TextErrorKind| kind.at(&target.span);
        target.node.set_dims(dims.iter().copied()).map_err(|error| located(error.into()))?;
        if dims.len() != target.index.len() {
            let (node, found) = (target.node.name(), target.index.len());
            return Err(located(TextErrorKind::Rank { node, dims: dims.clone(), found }));
        }
        target.dims = dims.clone();
    }
    Ok(())
}

/// The sizes that the indices of a target ask for: one more than the greatest index on each axis.
fn target_sizes(target: &NodeAccess, ranges: &[i64], symbols: &[StaticSymbol]) -> Result<Dims> {
    let size = |axis: usize| axis_size(target, axis, ranges, symbols);
    let sizes: Vec<Result<usize, String>> = (0..target.index.len()).map(size).collect();
    if let Some((axis, why)) =
        sizes.iter().enumerate().find_map(|(axis, size)| Some((axis, size.as_ref().err()?)))
    {
        let node = target.node.name();
        let known: Vec<Option<usize>> = sizes.iter().map(|size| size.as_ref().ok().copied()).collect();
        let example = example(&written(&target.node), DType::F32, &known);
        let why = why.clone();
        return Err(TextErrorKind::OpenAxis { node, axis, why, example }.at(&target.index[axis].1));
    }
    Ok(sizes.into_iter().flatten().collect())
}

/// One more than the greatest index on an axis of a target, or the reason why it is not known.
fn axis_size(
    target: &NodeAccess,
    axis: usize,
    ranges: &[i64],
    symbols: &[StaticSymbol],
) -> Result<usize, String> {
    if target.is_computed(axis) {
        return Err("its index is computed".to_owned());
    }
    let index: &Affine = &target.index[axis].0;
    let symbol = |var: Var| match var {
        Var::Symbol(id) => Some(&symbols[id.index()]),
        Var::Loop(_) => None,
    };
    let mut mentioned = index.terms().iter().filter_map(|(var, _)| symbol(*var));
    if let Some(open) = mentioned.find(|symbol| symbol.range.is_none()) {
        return Err(format!("`@{0}` lacks a range such as `where @{0} < 8`", open.name));
    }
    let range = |var: Var| match var {
        Var::Loop(id) => ranges[id.index()],
        Var::Symbol(id) => symbols[id.index()].range.unwrap_or(1),
    };
    if index.terms().iter().any(|(var, _)| range(*var) == 0) {
        return Ok(0);
    }
    let greatest = index.bounds(|var| (0, range(var) - 1)).map_or(i64::MAX, |(_, greatest)| greatest);
    usize::try_from(i128::from(greatest) + 1).map_err(|_| "its index is negative".to_owned())
}
