//! Loop interchange: brings the loops of a nest into the order of another nest that accesses the same data,
//! so that the two fuse.
//!
//! `for i, j, k { a[i, j, k] := … }; for j, i, k { b[j, i, k] := f(a[i, j, k]) }`: the loops of the second
//! nest are reordered until each is at the depth of the loop that indexes the same dimension in the first
//! nest. Loops with independent iterations may be in any order. The innermost loop must stay the contiguous
//! one, because fusion may prevent interchanging it back.

use lowered_ir::ir::{Affine, Stmt};

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop};
use codegen_core::dependence::{self, Touch};

/// The nest `second` with its loops in the order of `first`; none if they are in that order already, or must
/// not be reordered.
pub(crate) fn like(first: &Stmt, second: &Stmt, names: &Names) -> Option<Stmt> {
    let (loops, body) = nest::loops_and_body(second);
    if loops.len() < 2 || body.iter().any(|stmt| matches!(stmt, Stmt::For { .. })) {
        return None;
    }
    let order = order(nest::loops_and_body(first), (loops.as_slice(), body))?;
    if order == loops {
        return None;
    }
    let score = |l: &Loop| nest::lane_score(body, l.var, names);
    let innermost = score(order.last()?);
    let is_movable = || {
        let whole = std::slice::from_ref(second);
        nest::independent_loops(&loops, whole, names).len() == loops.len()
    };
    if !order.iter().all(|l| score(l) <= innermost) || !is_movable() {
        return None;
    }
    nest::wrap(&order, body.to_vec()).pop()
}

/// The loops of the second nest: those with a counterpart in the first, in its order, then the others.
fn order(first: (Vec<Loop>, &[Stmt]), second: (&[Loop], &[Stmt])) -> Option<Vec<Loop>> {
    let (of_first, of_second) = (dependence::touches(first.1), dependence::touches(second.1));
    let mut order: Vec<Loop> = Vec::new();
    for outer in &first.0 {
        let counterpart = |l: &&Loop| {
            !order.contains(l) && l.extent() == outer.extent() && run_alike(outer, &of_first, l, &of_second)
        };
        order.extend(second.0.iter().find(counterpart).cloned());
    }
    order.extend(second.0.iter().filter(|l| !order.contains(l)).cloned().collect::<Vec<_>>());
    order.iter().all(|l| l.extent().is_some()).then_some(order)
}

/// Whether two loops index the same dimension of a node that both nests access.
fn run_alike(a: &Loop, of_first: &[Touch<'_>], b: &Loop, of_second: &[Touch<'_>]) -> bool {
    let (a, b) = (Affine::var(a.var), Affine::var(b.var));
    of_first.iter().any(|x| {
        of_second.iter().filter(|y| y.node == x.node).any(|y| match (x.index, y.index) {
            (Some(x), Some(y)) => x.iter().zip(y).any(|(x, y)| *x == a && *y == b),
            _ => false,
        })
    })
}
