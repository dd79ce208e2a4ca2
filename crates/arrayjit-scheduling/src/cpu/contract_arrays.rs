//! Array contraction: an array whose elements live for one iteration becomes a local of that iteration.
//!
//! `for r { … T[r, c] … } = for r { declare t; … t[c] … }`, for a local node `T` that only this loop
//! accesses, if different iterations access different elements. Every iteration then reuses the same scratch
//! memory, which stays in the innermost cache, and each thread has its own. An array that loses all
//! dimensions becomes a scalar.
//!
//! If the array would still exceed the L2 cache, dimensions shrink to ranges too: each iteration of `b`
//! accesses `R` rows of `T[R·b + r, c]` for `r` in `0..R`, so the local has `R` rows.

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, ArrayRef, Block, Indices, LocalId, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef, Space,
    Stmt, Var, walk,
};
use tnode::Dims;

use crate::analysis::access;
use crate::analysis::nodes::{is_local, node_bytes, reads_guarded};
use codegen_core::Caps;
use codegen_core::dependence::{self, Touch, VariableRanges};

/// How many times as large as the L2 cache an array may be that has the size of one iteration's ranges.
const WINDOW_L2_CACHES: usize = 8;

/// The most bytes of an array that has the size of one iteration's ranges.
pub(crate) fn window_limit(caps: &Caps) -> usize {
    caps.l2_bytes.saturating_mul(WINDOW_L2_CACHES)
}

/// Replaces each local node whose elements live for one iteration of a loop by a local of that loop.
pub(crate) fn contract_arrays(routine: &mut LoweredRoutine, caps: &Caps) {
    let ranges = VariableRanges::of(routine);
    let mut fresh = routine.fresh();
    let mut body = std::mem::take(&mut routine.body);
    let owners = access::owners(&body);
    for (node, decl) in routine.node_refs().filter(|(_, decl)| is_local(decl)) {
        let Some(Some(owner)) = owners.get(&node) else { continue };
        let Some(found) = find(&body[*owner..=*owner], node, decl, caps, &ranges) else { continue };
        found.replace(&mut body[*owner..=*owner], node, decl, fresh.local_id());
    }
    routine.body = body;
}

/// The innermost loop that contains all accesses to a node.
struct ContractedArray {
    /// The path to the loop: the position of each loop in the block of the loop around it.
    path: Vec<usize>,
    /// The part of each dimension that one iteration accesses.
    windows: Vec<Window>,
}

/// The part of a dimension that one iteration of a loop accesses.
enum Window {
    /// The index is equal in all accesses.
    Element,
    /// The indices are this start, which all accesses have in common, plus less than `size`.
    Range { start: Affine, size: usize },
    /// Possibly all elements.
    Whole,
}

fn find(
    body: &[Stmt],
    node: NodeRef,
    decl: &NodeDecl,
    caps: &Caps,
    ranges: &VariableRanges,
) -> Option<ContractedArray> {
    let mut path = Vec::new();
    let mut vars = BTreeSet::new();
    let mut block = body;
    while let Some((at, var, inner)) = only_loop(block, node, ranges) {
        path.push(at);
        vars.insert(var);
        block = inner;
    }
    if path.is_empty() || reads_guarded(block, node) {
        return None;
    }
    let indices: Vec<&Indices> = dependence::touches(block)
        .iter()
        .filter(|t| t.node == node)
        .map(|t| t.index)
        .collect::<Option<_>>()?;
    let is_element = |dim: usize| {
        let index = &indices.first()?[dim];
        let is_fixed = index.terms().iter().all(|(var, _)| is_outer(*var, &vars));
        (is_fixed && indices.iter().all(|other| other[dim] == *index)).then_some(Window::Element)
    };
    let dims = 0..indices.first()?.len();
    let elements = dims.clone().map(|dim| is_element(dim).unwrap_or(Window::Whole)).collect();
    let contracted = ContractedArray { path, windows: elements };
    if contracted.bytes(decl) <= caps.l2_bytes {
        return (contracted.bytes(decl) < node_bytes(decl)).then_some(contracted);
    }
    let of_dim = |dim: usize| is_element(dim).or_else(|| range(dim, &indices, &vars, decl, ranges));
    let windows = dims.map(|dim| of_dim(dim).unwrap_or(Window::Whole)).collect();
    let contracted = ContractedArray { windows, ..contracted };
    let has_ranges = contracted.windows.iter().any(|window| matches!(window, Window::Range { .. }));
    (has_ranges && contracted.bytes(decl) <= window_limit(caps)).then_some(contracted)
}

fn is_outer(var: Var, vars: &BTreeSet<LoopId>) -> bool {
    matches!(var, Var::Loop(id) if vars.contains(&id))
}

/// The range of a dimension that one iteration of the loops `vars` accesses, if that is a part of it.
fn range(
    dim: usize,
    indices: &[&Indices],
    vars: &BTreeSet<LoopId>,
    decl: &NodeDecl,
    ranges: &VariableRanges,
) -> Option<Window> {
    let mut start = Affine::default();
    let first = indices.first()?[dim].terms();
    first.iter().filter(|(var, _)| is_outer(*var, vars)).for_each(|&(var, step)| start.add_term(var, step));
    let (mut lo, mut hi) = (i64::MAX, i64::MIN);
    for index in indices {
        let inside = index[dim].plus(&start.times(-1));
        if inside.terms().iter().any(|(var, _)| is_outer(*var, vars)) {
            return None;
        }
        let (least, greatest) = inside.bounds(|var| ranges.get(var))?;
        (lo, hi) = (lo.min(least), hi.max(greatest));
    }
    let size = usize::try_from(hi.checked_sub(lo)?.checked_add(1)?).ok()?;
    (size < decl.dims[dim]).then_some(Window::Range { start: start.plus_constant(lo), size })
}

/// The only statement of a block that accesses a node, if it is a loop whose iterations access different
/// elements.
fn only_loop<'a>(
    block: &'a [Stmt],
    node: NodeRef,
    ranges: &VariableRanges,
) -> Option<(usize, LoopId, &'a [Stmt])> {
    let touches = |stmt: &Stmt| access::nodes(std::slice::from_ref(stmt)).contains(&node);
    let mut touching = block.iter().enumerate().filter(|(_, stmt)| touches(stmt));
    let ((at, Stmt::For { var, kind: LoopKind::Serial, body, .. }), None) =
        (touching.next()?, touching.next())
    else {
        return None;
    };
    let all: Vec<Touch<'_>> = dependence::touches(body);
    dependence::separates_iterations(node, *var, &all, &walk::loops_in(body), ranges)
        .then_some((at, *var, body))
}

impl ContractedArray {
    /// The sizes of the dimensions of the local.
    fn dims(&self, decl: &NodeDecl) -> Dims {
        let size = |(window, &whole): (&Window, &usize)| match window {
            Window::Element => None,
            Window::Range { size, .. } => Some(*size),
            Window::Whole => Some(whole),
        };
        self.windows.iter().zip(&decl.dims).filter_map(size).collect()
    }

    fn bytes(&self, decl: &NodeDecl) -> usize {
        let elements = self.dims(decl).iter().copied().fold(1, usize::saturating_mul);
        elements.saturating_mul(decl.dtype.size_bytes())
    }

    fn replace(&self, body: &mut [Stmt], node: NodeRef, decl: &NodeDecl, local: LocalId) {
        let Some(block) = self.block(body) else { return };
        walk::move_elements(block, &mut |array, index| {
            (array == ArrayRef::Node(node)).then(|| (ArrayRef::Local(local), self.within(index)))
        });
        let dims = self.dims(decl);
        // Every element of a local node is written before it is read (`initialize_locals`). The loops around
        // arrays with sizes of the run do not show it, and zeros would take as long as the bound is large.
        let space = if dims.is_empty() { Space::Register } else { Space::Scratch };
        block.insert(0, Stmt::Declare { local, dtype: decl.dtype, dims, space });
    }

    /// The body of the loop at the end of the path.
    fn block<'a>(&self, body: &'a mut [Stmt]) -> Option<&'a mut Block> {
        let (&last, outer) = self.path.split_last()?;
        let mut block = body;
        for &at in outer {
            let Stmt::For { body, .. } = block.get_mut(at)? else { return None };
            block = body;
        }
        let Stmt::For { body, .. } = block.get_mut(last)? else { return None };
        Some(body)
    }

    /// The index of the local for an index of the node.
    fn within(&self, index: &Indices) -> Indices {
        let own = |(window, index): (&Window, &Affine)| match window {
            Window::Element => None,
            Window::Range { start, .. } => Some(index.plus(&start.times(-1))),
            Window::Whole => Some(index.clone()),
        };
        self.windows.iter().zip(index).filter_map(own).collect()
    }
}
