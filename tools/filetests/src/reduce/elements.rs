//! Proposals with fewer nodes, elements and symbols.

use std::collections::BTreeMap;

use lowered_ir::ir::{Affine, Expr, LoweredRoutine, NodeRef, Stmt, SymbolId, Var, walk};
use tnode::Dims;

use crate::RunCase;

/// The run with the value of the last symbol in its place.
pub(super) fn without_symbol(case: &RunCase, position: usize) -> Option<RunCase> {
    let is_last = case.bindings.len() == case.routine.symbols.len();
    let (last, &value) = case.bindings.iter().enumerate().next_back().filter(|_| position == 0 && is_last)?;
    let mut case = case.clone();
    let symbol = SymbolId(last as u32);
    walk::substitute(&mut case.routine.body, Var::Symbol(symbol), &Affine::constant(value));
    case.routine.symbols.pop();
    case.bindings.pop();
    Some(case)
}

/// The run without the nodes that no statement mentions.
pub(super) fn without_unused_nodes(case: &RunCase, position: usize) -> Option<RunCase> {
    if position > 0 {
        return None;
    }
    let mut used = BTreeMap::new();
    let mut case = case.clone();
    each_node(&mut case.routine, &mut |node| {
        used.insert(*node, NodeRef(0));
    });
    for (new, node) in used.values_mut().enumerate() {
        *node = NodeRef(new as u32);
    }
    let kept: Vec<usize> = used.keys().map(|node| node.index()).collect();
    case.routine.nodes = kept.iter().map(|&at| case.routine.nodes[at].clone()).collect();
    case.inputs = kept.iter().map(|&at| case.inputs[at].clone()).collect();
    each_node(&mut case.routine, &mut |node| {
        if let Some(new) = used.get(node) {
            *node = *new;
        }
    });
    Some(case)
}

/// Calls `f` on every mention of a node.
fn each_node(routine: &mut LoweredRoutine, f: &mut impl FnMut(&mut NodeRef)) {
    each_stored(&mut routine.body, f);
    walk::map_parts(&mut routine.body, &mut |mut expr| {
        if let Expr::Get { node, .. }
        | Expr::GetGuarded { node, .. }
        | Expr::GetDynamic { node, .. }
        | Expr::GetMerge { node, .. } = &mut expr
        {
            f(node);
        }
        expr
    });
}

fn each_stored(block: &mut [Stmt], f: &mut impl FnMut(&mut NodeRef)) {
    for stmt in block {
        match stmt {
            Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => f(node),
            Stmt::For { body, .. } => each_stored(body, f),
            Stmt::Declare { .. } | Stmt::SetLocal { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
        }
    }
}

/// Resizes one dimension of one node; the position counts the dimensions of all nodes.
fn resize(case: &RunCase, position: usize, size: impl Fn(usize) -> usize) -> Option<RunCase> {
    let mut dims = case
        .routine
        .nodes
        .iter()
        .enumerate()
        .flat_map(|(node, decl)| (0..decl.dims.len()).map(move |axis| (node, axis)));
    let (node, axis) = dims.nth(position)?;
    let mut case = case.clone();
    let decl = &mut case.routine.nodes[node];
    let (before, element) = (decl.dims.clone(), decl.dtype.size_bytes());
    decl.dims[axis] = size(before[axis]);
    let after = decl.dims.clone();
    case.inputs[node] = cropped(&case.inputs[node], &before, &after, element);
    let merged = case.merge.as_ref().is_some_and(|merge| merge.len() == elements(&before) * element);
    if let Some(merge) = case.merge.take_if(|_| merged) {
        case.merge = Some(cropped(&merge, &before, &after, element));
    }
    Some(case)
}

fn elements(dims: &Dims) -> usize {
    dims.iter().product()
}

/// The first elements of each dimension, row-major.
fn cropped(bytes: &[u8], before: &Dims, after: &Dims, element: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(elements(after) * element);
    for number in 0..elements(after) {
        let (mut rest, mut offset, mut stride) = (number, 0, 1);
        for (&new, &old) in after.iter().zip(before).rev() {
            offset += rest % new * stride;
            rest /= new;
            stride *= old;
        }
        out.extend_from_slice(&bytes[offset * element..(offset + 1) * element]);
    }
    out
}

/// The run with half of one dimension of a node.
pub(super) fn half_dim(case: &RunCase, position: usize) -> Option<RunCase> {
    resize(case, position, |size| size.div_ceil(2))
}

/// The run with one element less in one dimension of a node.
pub(super) fn one_less(case: &RunCase, position: usize) -> Option<RunCase> {
    resize(case, position, |size| size.saturating_sub(1))
}

/// The run with zeros in one node.
pub(super) fn zeros(case: &RunCase, position: usize) -> Option<RunCase> {
    let mut case = case.clone();
    case.inputs.get_mut(position)?.fill(0);
    Some(case)
}
