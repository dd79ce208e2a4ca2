//! The dimensions of targets and of views.
//!
//! The first statement that writes a node whose dimensions are open gives it its dimensions: the range of the
//! letter on an axis that a letter indexes alone, one more than the greatest index on any other axis.

use std::collections::BTreeMap;

use tnode::{DType, Dims, RunSize, RunSizes, TensorNode};

use crate::ast::View;
use crate::declare::axis_size as declared_size;
use crate::error::{Result, TextErrorKind};
use crate::linear::{Atom, IndexExprKind};
use crate::names::{Names, example, written};
use crate::tree::{Letter, NodeAccess, ResolvedStatement};
use assignments::indexing::{StaticSymbol, extent};
use lowered_ir::ir::{Affine, Var};

/// The dimensions of a view, which has as many elements as its node, and the sizes that a run gives.
pub(super) fn view_dims(view: &View, node: &TensorNode, names: &Names) -> Result<(Dims, RunSizes)> {
    let located = |kind: TextErrorKind| kind.at(&view.span);
    let found = node.dims_without_padding().map_err(|error| located(error.into()))?;
    let (mut sizes, mut named) = (Vec::new(), RunSizes::new());
    for size in &view.sizes {
        let (dim, name) = match &size.kind {
            IndexExprKind::Atom(Atom::Symbol(_)) => declared_size(size, names)?,
            _ => (usize::try_from(size.known_integer()?).unwrap_or(0), None),
        };
        let number = size.integer().ok().flatten().and_then(|number| i64::try_from(number).ok());
        sizes.push(number.unwrap_or(extent(dim)));
        named.push(name);
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
    let dims: Dims = sizes.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
    if run_axes(&dims, &named) != run_axes(&found, node.run_sizes()) {
        let (view, node) = (view.target.name.clone(), node.name());
        return Err(located(TextErrorKind::ViewOfSizes { view, node }));
    }
    Ok((dims, named))
}

/// The axes whose sizes a run gives: each name with the number of elements behind the axis.
fn run_axes<'a>(dims: &[usize], sizes: &'a [Option<RunSize>]) -> Vec<(&'a RunSize, usize)> {
    let behind = |axis: usize| dims[axis + 1..].iter().product();
    let named = sizes.iter().enumerate();
    named.filter_map(|(axis, size)| Some((size.as_ref()?, behind(axis)))).collect()
}

/// Settles the open dimensions of the targets.
pub(super) fn settle_dims(
    statement: &mut ResolvedStatement,
    ranges: &[i64],
    symbols: &[StaticSymbol],
) -> Result<()> {
    let is_open = |target: &&NodeAccess| target.node.dims_without_padding().is_err();
    let mut sizes: BTreeMap<TensorNode, Dims> = BTreeMap::new();
    let mut named: BTreeMap<TensorNode, RunSizes> = BTreeMap::new();
    for target in statement.lhs.iter().filter(is_open) {
        let found = target_sizes(target, ranges, symbols)?;
        named.entry(target.node.clone()).or_insert_with(|| letter_sizes(target, &statement.letters));
        let sizes = sizes.entry(target.node.clone()).or_insert_with(|| found.clone());
        sizes.iter_mut().zip(found).for_each(|(size, found)| *size = found.max(*size));
    }
    for target in &mut statement.lhs {
        let Some(dims) = sizes.get(&target.node) else { continue };
        let located = |kind: TextErrorKind| kind.at(&target.span);
        let named = named.get(&target.node).cloned().unwrap_or_default();
        target.node.set_dims_with(dims.iter().copied(), named).map_err(|error| located(error.into()))?;
        if dims.len() != target.index.len() {
            let (node, found) = (target.node.name(), target.index.len());
            return Err(located(TextErrorKind::Rank { node, dims: dims.clone(), found }));
        }
        target.dims = dims.clone();
        target.sizes = target.node.run_sizes().into();
    }
    Ok(())
}

/// The sizes that a run gives to the letters that index the axes of a target alone.
fn letter_sizes(target: &NodeAccess, letters: &[Letter]) -> RunSizes {
    let size = |(index, _): &(Affine, _)| match index.as_var() {
        Some(Var::Loop(id)) => letters[id.index()].size.clone(),
        _ => None,
    };
    target.index.iter().map(size).collect()
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
