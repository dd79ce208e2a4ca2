//! Layouts of local nodes: the axis along which nests walk becomes the contiguous one.
//!
//! ```text
//! for j, i { e[j, i] := f(x[i, j]) }; for j, i { y[i, j] := g(e[j, i]) }
//! =
//! for j, i { e[i, j] := f(x[i, j]) }; for j, i { y[i, j] := g(e[i, j]) }
//! ```
//!
//! Only the routine sees a local node, so the order of its axes is free, and a program may write the axes of
//! its intermediates in any order. In each elementwise statement, the other arrays determine the loop that is
//! best as lanes ([`MIN_LANES`]), and the axis of the local node that this loop indexes gets a vote for each
//! iteration. The axis with the most votes becomes the last one. Nodes that no elementwise statement decides,
//! such as a product that a convolution reads, follow the reductions over windows that read them. A loop over
//! the axis along which a matrix product is repeated is not best as lanes: the lengths of a batch, which
//! masks of attention read, are contiguous along the batch, but scores with the batch as their last axis are
//! no matrix product. No bit changes.

use std::collections::BTreeMap;

use lowered_ir::ir::{Affine, Expr, IdSet, Indices, LoopId, LoweredRoutine, NodeRef, Stmt, Var, walk};

use crate::analysis::nodes::is_local;
use crate::analysis::reduction::multiply_add;
use codegen_core::dependence;

/// The least number of iterations of a loop that is worth a contiguous axis.
const MIN_LANES: i64 = 8;

/// How often votes are counted. A node whose axis was chosen counts as one of the other arrays afterwards, so
/// the choice reaches nodes that are only computed from it.
const ROUNDS: usize = 3;

/// Permutes the axes of local nodes, if that makes more accesses contiguous.
pub(crate) fn permute_axes(routine: &mut LoweredRoutine) {
    if dependence::logs(&routine.body) {
        return;
    }
    let mut layouts = candidates(routine);
    keep_batches(&routine.body, &mut layouts);
    let contiguous = contiguous_axes(routine);
    for round in 0..=ROUNDS {
        if layouts.values().all(|layout| layout.last.is_some()) {
            break;
        }
        let voters = if round < ROUNDS { Voters::Maps } else { Voters::Windows };
        vote(&routine.body, &mut Vec::new(), voters, &contiguous, &mut layouts);
        layouts.values_mut().for_each(Layout::decide);
    }
    let moved = |layout: &Layout| layout.last.filter(|&axis| axis + 1 < layout.votes.len());
    let moved: BTreeMap<NodeRef, usize> =
        layouts.iter().filter_map(|(&node, layout)| Some((node, moved(layout)?))).collect();
    for (node, &axis) in &moved {
        let dims = &mut routine.nodes[node.index()].dims;
        let dim = dims.remove(axis);
        dims.push(dim);
    }
    if !moved.is_empty() {
        permute(&mut routine.body, &moved);
    }
}

/// The statements that vote.
#[derive(Clone, Copy)]
enum Voters {
    /// Elementwise statements.
    Maps,
    /// Reductions over windows: those with an index that is a sum of loops.
    Windows,
}

impl Voters {
    fn have(self, index: &Indices, value: &Expr, loops: &[(LoopId, i64)]) -> bool {
        let is_map = loops.iter().all(|(var, _)| index.iter().any(|i| i.mentions(*var)));
        match self {
            Voters::Maps => is_map,
            Voters::Windows => !is_map && has_window(value),
        }
    }
}

fn has_window(value: &Expr) -> bool {
    let has_sum = |index: &Indices| index.iter().any(|i| i.terms().len() > 1);
    walk::parts(value)
        .any(|e| matches!(e, Expr::Get { index, .. } | Expr::GetGuarded { index, .. } if has_sum(index)))
}

/// For each node, its last axis that has several elements.
fn contiguous_axes(routine: &LoweredRoutine) -> Vec<usize> {
    routine.nodes.iter().map(|decl| decl.dims.iter().rposition(|&size| size != 1).unwrap_or(0)).collect()
}

/// The layout of a local node.
struct Layout {
    /// For each axis, the iterations that access neighboring elements along it.
    votes: Vec<f64>,
    /// The axis that becomes the last one, once it is known.
    last: Option<usize>,
    /// The axes along which matrix products are repeated.
    batch: IdSet<usize>,
}

impl Layout {
    fn of(axes: usize) -> Layout {
        Layout { votes: vec![0.0; axes], last: None, batch: IdSet::default() }
    }

    fn decide(&mut self) {
        let own = self.votes.len() - 1;
        let better = |best: usize, axis: usize| if self.votes[axis] > self.votes[best] { axis } else { best };
        let best = (0..own).fold(own, better);
        if self.last.is_none() && self.votes[best] > 0.0 {
            self.last = Some(best);
        }
    }
}

/// The local nodes with several axes and known indices.
fn candidates(routine: &LoweredRoutine) -> BTreeMap<NodeRef, Layout> {
    let local = routine.node_refs().filter(|(_, decl)| is_local(decl) && decl.dims.len() > 1);
    let mut layouts: BTreeMap<NodeRef, Layout> =
        local.map(|(node, decl)| (node, Layout::of(decl.dims.len()))).collect();
    for touch in dependence::touches(&routine.body) {
        if touch.computed.is_some() {
            layouts.remove(&touch.node);
        }
    }
    walk::parts_in(&routine.body).for_each(|e| {
        if let Expr::GetMerge { node, .. } = e {
            layouts.remove(node);
        }
    });
    layouts
}

/// Finds the axes along which matrix products are repeated.
fn keep_batches(block: &[Stmt], layouts: &mut BTreeMap<NodeRef, Layout>) {
    for stmt in walk::stmts(block) {
        let Stmt::Set { node, index, value } = stmt else { continue };
        let batch = batch_of(index, value);
        if batch.is_empty() {
            continue;
        }
        let reads = walk::parts(value).filter_map(|e| match e {
            Expr::Get { node, index } => Some((*node, index)),
            _ => None,
        });
        for (node, index) in reads.chain([(*node, index)]) {
            let Some(layout) = layouts.get_mut(&node) else { continue };
            let is_batch = |index: &Affine| batch.iter().any(|&var| index.mentions(var));
            layout.batch.extend(index.iter().enumerate().filter(|(_, i)| is_batch(i)).map(|(axis, _)| axis));
        }
    }
}

/// The loops of a matrix product that index both factors and the result: `b` in `y[b, i, j] +=
/// p[b, i, k] * q[b, j, k]`, where other loops index the result and one factor.
fn batch_of(index: &Indices, value: &Expr) -> IdSet<LoopId> {
    let Some((a, b, ..)) = multiply_add(value) else { return IdSet::default() };
    let (mut batch, mut has_rows, mut has_columns) = (IdSet::default(), false, false);
    for (var, _) in index.iter().flat_map(Affine::terms) {
        let Var::Loop(var) = *var else { continue };
        match (dependence::mentions(a, var), dependence::mentions(b, var)) {
            (true, true) => drop(batch.insert(var)),
            (true, false) => has_rows = true,
            (false, true) => has_columns = true,
            (false, false) => {}
        }
    }
    if has_rows && has_columns { batch } else { IdSet::default() }
}

/// Counts the votes of statements of a block inside of loops.
fn vote(
    block: &[Stmt],
    loops: &mut Vec<(LoopId, i64)>,
    voters: Voters,
    contiguous: &[usize],
    layouts: &mut BTreeMap<NodeRef, Layout>,
) {
    for stmt in block {
        match stmt {
            Stmt::For { var, lo, hi, body, .. } => {
                loops.push((*var, hi.limit - lo));
                vote(body, loops, voters, contiguous, layouts);
                loops.pop();
            }
            Stmt::Set { node, index, value } if voters.have(index, value, loops) => {
                vote_of(*node, index, value, loops, contiguous, layouts);
            }
            _ => {}
        }
    }
}

fn vote_of(
    node: NodeRef,
    index: &Indices,
    value: &Expr,
    loops: &[(LoopId, i64)],
    contiguous: &[usize],
    layouts: &mut BTreeMap<NodeRef, Layout>,
) {
    let mut accesses: Vec<(NodeRef, &Indices, i64)> = vec![(node, index, 3)];
    walk::parts(value).for_each(|e| {
        if let Expr::Get { node, index } | Expr::GetGuarded { node, index, .. } = e {
            accesses.push((*node, index, 1));
        }
    });
    let score = |var: LoopId| -> i64 {
        let known = accesses.iter().filter_map(|&(node, index, weight)| {
            let own = contiguous.get(node.index()).copied().filter(|&axis| axis < index.len());
            let last = layouts.get(&node).map_or(own, |layout| layout.last)?;
            Some(weight * contiguity(index, last, var))
        });
        known.sum()
    };
    let repeats = |(node, index, _): &(NodeRef, &Indices, i64), var: LoopId| {
        layouts.get(node).is_some_and(|layout| layout.batch.iter().any(|&axis| index[axis].mentions(var)))
    };
    let wide = loops
        .iter()
        .filter(|(var, extent)| *extent >= MIN_LANES && !accesses.iter().any(|access| repeats(access, *var)));
    let best = wide.map(|(var, _)| (score(*var), *var)).max_by_key(|(score, _)| *score);
    let Some((1.., lane)) = best else { return };
    let iterations: f64 = loops.iter().map(|(_, extent)| *extent as f64).product();
    for (node, index, _) in accesses {
        let axis = index.iter().position(|i| i.coefficient(lane) == 1);
        if let (Some(axis), Some(layout)) = (axis, layouts.get_mut(&node)) {
            layout.votes[axis] += iterations;
        }
    }
}

/// 1 if iterations of the loop access neighbors along the axis `last`, −2 if they stride, 0 if they access
/// the same element.
fn contiguity(index: &[Affine], last: usize, var: LoopId) -> i64 {
    let strides = index.iter().enumerate().any(|(axis, i)| axis != last && i.mentions(var));
    match index[last].coefficient(var) {
        _ if strides => -2,
        0 => 0,
        1 => 1,
        _ => -2,
    }
}

/// Makes one axis of each of these nodes the last one in all indices.
fn permute(block: &mut [Stmt], moved: &BTreeMap<NodeRef, usize>) {
    let to_end = |node: NodeRef, index: &mut Indices| {
        if let Some(&axis) = moved.get(&node) {
            index[axis..].rotate_left(1);
        }
    };
    for stmt in block {
        match stmt {
            Stmt::For { body, .. } => permute(body, moved),
            Stmt::Set { node, index, .. } => to_end(*node, index),
            _ => {}
        }
        walk::map_own_parts(stmt, &mut |mut e| {
            if let Expr::Get { node, index } | Expr::GetGuarded { node, index, .. } = &mut e {
                to_end(*node, index);
            }
            e
        });
    }
}
