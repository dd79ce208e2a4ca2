//! Array contraction: an array whose elements live for one iteration becomes a local of that iteration.
//!
//! `for r { … T[r, c] … } = for r { declare t; … t[c] … }`, for a local node `T` that only this loop
//! accesses, if different iterations access different elements. Every iteration then reuses the same scratch
//! memory, which stays in the innermost cache, and each thread has its own. An array that loses all
//! dimensions becomes a scalar.

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, Block, Expr, Indices, LocalId, LoopId, LoopKind, NodeDecl, NodeRef, Routine, Space, Stmt, Var,
    walk,
};
use tnode::Dims;

use crate::analysis::access;
use crate::analysis::nodes::is_local;
use crate::analysis::nodes::node_bytes;
use codegen_core::Caps;
use codegen_core::dependence::{self, Touch, VariableRanges};

/// Replaces each local node whose elements live for one iteration of a loop by a local of that loop.
pub(crate) fn contract_arrays(routine: &mut Routine, caps: &Caps) {
    let ranges = VariableRanges::of(routine);
    let mut fresh = routine.fresh();
    let mut body = std::mem::take(&mut routine.body);
    let owners = access::owners(&body);
    for (node, decl) in routine.node_refs().filter(|(_, decl)| is_local(decl)) {
        let Some(Some(owner)) = owners.get(&node) else { continue };
        let Some(found) = find(&body[*owner..=*owner], node, &ranges) else { continue };
        let kept = found.kept(decl);
        let bytes = kept.iter().product::<usize>() * decl.dtype.size_bytes();
        if bytes < node_bytes(decl) && bytes <= caps.l2_bytes {
            found.replace(&mut body[*owner..=*owner], node, decl, fresh.local_id());
        }
    }
    routine.body = body;
}

/// The innermost loop that contains all accesses to a node.
struct ContractedArray {
    /// The path to the loop: the position of each loop in the block of the loop around it.
    path: Vec<usize>,
    /// The dimensions whose index is equal in all accesses of one iteration.
    fixed: BTreeSet<usize>,
}

fn find(body: &[Stmt], node: NodeRef, ranges: &VariableRanges) -> Option<ContractedArray> {
    let mut path = Vec::new();
    let mut vars = BTreeSet::new();
    let mut block = body;
    while let Some((at, var, inner)) = only_loop(block, node, ranges) {
        path.push(at);
        vars.insert(var);
        block = inner;
    }
    let indices: Vec<&Indices> = dependence::touches(block)
        .iter()
        .filter(|t| t.node == node)
        .map(|t| t.index)
        .collect::<Option<_>>()?;
    let first = indices.first()?;
    let is_fixed = |dim: &usize| {
        let index = &first[*dim];
        index.terms().iter().all(|(var, _)| matches!(var, Var::Loop(id) if vars.contains(id)))
            && indices.iter().all(|other| other[*dim] == *index)
    };
    let fixed: BTreeSet<usize> = (0..first.len()).filter(is_fixed).collect();
    (!path.is_empty() && !is_guarded(block, node)).then_some(ContractedArray { path, fixed })
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

fn is_guarded(block: &[Stmt], node: NodeRef) -> bool {
    let mut found = false;
    walk::each_value(block, &mut |value| {
        walk::each_expr(value, &mut |e| {
            found |= matches!(e, Expr::GetGuarded { node: read, .. } if *read == node);
        });
    });
    found
}

impl ContractedArray {
    /// The sizes of the dimensions that are not fixed.
    fn kept(&self, decl: &NodeDecl) -> Dims {
        decl.dims
            .iter()
            .enumerate()
            .filter(|(dim, _)| !self.fixed.contains(dim))
            .map(|(_, &size)| size)
            .collect()
    }

    fn replace(&self, body: &mut [Stmt], node: NodeRef, decl: &NodeDecl, local: LocalId) {
        let Some(block) = self.block(body) else { return };
        replace(block, node, &|index| self.rest(index), local);
        let dims = self.kept(decl);
        let space = if dims.is_empty() { Space::Register } else { Space::Stack };
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

    fn rest(&self, index: &Indices) -> Indices {
        let kept = index.iter().enumerate().filter(|(dim, _)| !self.fixed.contains(dim));
        kept.map(|(_, index): (usize, &Affine)| index.clone()).collect()
    }
}

fn replace(block: &mut Block, node: NodeRef, rest: &dyn Fn(&Indices) -> Indices, local: LocalId) {
    for stmt in block.iter_mut() {
        walk::map_own_values(stmt, &mut |value| {
            walk::map_expr(value, &mut |e| match e {
                Expr::Get { node: read, index } if read == node => {
                    Expr::GetLocal { local, index: rest(&index) }
                }
                other => other,
            })
        });
        match stmt {
            Stmt::For { body, .. } => replace(body, node, rest, local),
            Stmt::Set { node: set, index, value } if *set == node => {
                *stmt = Stmt::SetLocal { local, index: rest(index), value: value.clone() };
            }
            _ => {}
        }
    }
}
