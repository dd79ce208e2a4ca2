//! Fusion of neighboring loops whose iterations stay independent.
//!
//! `for i in 0..n { A }; for j in 0..n { B(j) } = for i in 0..n { A; B(i) }`, if both loops touch a common
//! node and the iterations of the fused loop are independent: iteration `i` of the second loop then depends
//! on iteration `i` of the first alone. The second body finds the data of the first in the cache, and one
//! barrier replaces two. No bit changes.

use std::collections::BTreeSet;

use lowered_ir::ir::{Affine, Block, Bound, Indices, LoopId, LoopKind, LoweredRoutine, Stmt, walk};

use crate::analysis::access;
use crate::analysis::cost::{FUSED_COST, FUSED_STATEMENTS, fusion_cost};
use codegen_core::dependence::{self, VariableRanges};

/// The most arrays of a loop that is fused with the loop before it once more. The values and addresses of
/// others would need too many registers.
const ARRAYS: usize = 5;

/// Decides whether two neighboring loops become one. The arguments are the two loops and the fused one.
type Wanted<'a> = &'a dyn Fn(&Stmt, &Stmt, &Stmt) -> bool;

/// Fuses neighboring top-level loops that `wanted` accepts, and all neighbors in a fused body.
pub(crate) fn fuse_where(routine: &mut LoweredRoutine, wanted: Wanted<'_>) {
    let ranges = VariableRanges::of(routine);
    routine.body = fuse_block(std::mem::take(&mut routine.body), &ranges, wanted);
}

fn fuse_block(block: Block, ranges: &VariableRanges, wanted: Wanted<'_>) -> Block {
    let mut out = Block::new();
    for mut stmt in block {
        // A loop that has become longer may have an array in common with the loop before it. A scalar is no
        // reason: all updates of an optimizer read the same ones.
        let mut is_fused = false;
        while let Some(fused) = fused_with_last(&mut out, &stmt, ranges, &|first, second, fused| {
            (!is_fused || share_array(first, second)) && wanted(first, second, fused)
        }) {
            (stmt, is_fused) = (fused, true);
        }
        out.push(stmt);
    }
    out
}

/// Whether two loops access a node at indices that move, and not too many of them together.
fn share_array(first: &Stmt, second: &Stmt) -> bool {
    let arrays = |stmt| {
        let touches = dependence::touches(std::slice::from_ref(stmt)).into_iter();
        let moves = |index: &Indices| index.iter().any(|index| index.as_constant().is_none());
        let moving = touches.filter(|touch| touch.index.is_none_or(moves));
        moving.map(|touch| touch.node).collect::<BTreeSet<_>>()
    };
    let (first, second) = (arrays(first), arrays(second));
    !first.is_disjoint(&second) && first.union(&second).count() <= ARRAYS
}

/// Fuses a statement with the loop before it. Comments between the two move into the fused loop.
fn fused_with_last(
    out: &mut Block,
    stmt: &Stmt,
    ranges: &VariableRanges,
    wanted: Wanted<'_>,
) -> Option<Stmt> {
    let at = out.iter().rposition(|stmt| !matches!(stmt, Stmt::Comment(_)))?;
    let (var, end, first) = serial(&out[at])?;
    let (second_var, second_end, second) = serial(stmt)?;
    let is_long = first.len() + second.len() > FUSED_STATEMENTS
        || fusion_cost(first) + fusion_cost(second) > FUSED_COST;
    if end != second_end || is_long || access::nodes(first).is_disjoint(&access::nodes(second)) {
        return None;
    }
    let mut second = second.clone();
    walk::substitute(&mut second, second_var, &Affine::var(var));
    let body: Block = first.iter().chain(&out[at + 1..]).chain(&second).cloned().collect();
    if !dependence::independent(var, &body, ranges) {
        return None;
    }
    let body = fuse_block(body, ranges, &|_, _, _| true);
    let fused = Stmt::For { var, lo: 0, hi: end.clone(), kind: LoopKind::Serial, body };
    if !wanted(&out[at], stmt, &fused) {
        return None;
    }
    out.truncate(at);
    Some(fused)
}

/// The variable, end and body of a serial loop that starts at 0 and that no node ends.
fn serial(stmt: &Stmt) -> Option<(LoopId, &Bound, &Block)> {
    match stmt {
        Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body } if hi.condition().is_none() => {
            Some((*var, hi, body))
        }
        _ => None,
    }
}
