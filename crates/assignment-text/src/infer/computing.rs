//! The types in which the functions of the prelude compute.
//!
//! A function of the prelude computes in the type to which the floats among its arrays promote, and in `f32`
//! at least: a statement of its body converts narrower elements when it reads them, numbers and functions of
//! integers take that type, and so do the function's own nodes. What it writes for its caller is converted
//! once: to the type of the caller's node, or, if that is open, to the type to which the arrays promote.
//! Scalar parameters do not widen the type, since a rate of `f64` is no reason to update parameters of `f32`
//! in `f64`; only a function without arrays takes the type of its scalars.
//!
//! A copy of elements as they are converts nothing.

use std::sync::Arc;

use tnode::{DType, TensorNode};

use super::table::{TypeTable, has_open_type};
use crate::names::NamesAt;
use crate::source::{CallNodes, Frame, FrameKind};
use crate::tree::{ExprType, ResolvedExpr, ResolvedExprKind, ResolvedStatement};
use crate::types::type_of;

/// Converts the operands and values of a statement of the prelude. Other statements stay as they are.
pub(super) fn convert(statement: &mut ResolvedStatement, names: NamesAt<'_>, types: &TypeTable) {
    let calls = library_calls(&statement.frame);
    let (Some(innermost), Some(outermost)) = (calls.first(), calls.last()) else { return };
    let Some(arguments) = type_of_arguments(innermost, names, types) else { return };
    let computing = arguments.promote(DType::F32);
    let is_result = |node: &TensorNode| outermost.results.iter().any(|name| is_node(name, node, names));
    let written =
        statement.lhs.first().map(|target| &target.node).and_then(|node| match has_open_type(node) {
            true if is_result(node) => type_of_arguments(outermost, names, types),
            true => None,
            false => Some(node.dtype()),
        });
    for value in statement.rhs.iter_mut().filter(|value| !value.children().is_empty()) {
        widen(value, computing);
        if matches!(type_of(value), ExprType::Widened | ExprType::Fraction) {
            cast(value, computing);
        }
        if let (Some(written), ExprType::Known(found)) = (written, type_of(value))
            && written.is_float()
            && is_narrower(written, found)
        {
            cast(value, written);
        }
    }
}

/// Whether a statement of the prelude computes a value of no type of its own, as a function of integers does.
/// The first use of its target gives the type.
pub(super) fn is_open(statement: &ResolvedStatement, value: ExprType) -> bool {
    value == ExprType::Widened && !library_calls(&statement.frame).is_empty()
}

/// The calls of the prelude that the statement comes from, the innermost first.
fn library_calls(frame: &Option<Arc<Frame>>) -> Vec<&CallNodes> {
    let frames = std::iter::successors(frame.as_deref(), |frame| frame.outer.as_deref());
    let calls = frames.filter_map(|frame| match &frame.kind {
        FrameKind::Call { library, .. } => Some(library.as_deref()),
        FrameKind::Repeat { .. } => None,
    });
    calls.map_while(|library| library).collect()
}

/// The type to which the floats among the arguments promote.
fn type_of_arguments(call: &CallNodes, names: NamesAt<'_>, types: &TypeTable) -> Option<DType> {
    let promoted = |nodes: &[String]| {
        let floats = nodes.iter().filter_map(|name| float_type(name, names, types));
        floats.reduce(DType::promote)
    };
    promoted(&call.arrays).or_else(|| promoted(&call.scalars))
}

/// The type of a node or view of floats.
fn float_type(name: &str, names: NamesAt<'_>, types: &TypeTable) -> Option<DType> {
    let name = names.view(name).map_or(Some(name), |view| names.viewed(view).ok())?;
    let node = names.find(name).ok()?;
    let is_open = types.numbers(&node).is_some() && !node.is_dtype_settled();
    let dtype = (!is_open).then(|| node.dtype())?;
    dtype.is_float().then_some(dtype)
}

fn is_node(name: &str, node: &TensorNode, names: NamesAt<'_>) -> bool {
    names.find(name).is_ok_and(|found| found == *node)
}

fn is_narrower(dtype: DType, than: DType) -> bool {
    dtype != than && dtype.promote(than) == than
}

/// Converts every element of a narrower float that the expression reads.
fn widen(tree: &mut ResolvedExpr, computing: DType) {
    if let ResolvedExprKind::NodeAccess(_) = &tree.kind {
        match type_of(tree) {
            ExprType::Known(dtype) if dtype.is_float() && is_narrower(dtype, computing) => {
                cast(tree, computing)
            }
            _ => {}
        }
        return;
    }
    tree.children_mut().iter_mut().for_each(|child| widen(child, computing));
}

fn cast(tree: &mut ResolvedExpr, dtype: DType) {
    let span = tree.span.clone();
    let inner = std::mem::replace(&mut tree.kind, ResolvedExprKind::Size(0));
    tree.kind = ResolvedExprKind::Cast(dtype, Box::new(ResolvedExpr { kind: inner, span }));
}
