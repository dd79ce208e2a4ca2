//! Hazards of moving a computation to a use: nothing may overwrite its inputs in between.

use crate::ir::{Affine, Expr, IdSet, Indices, LoopId, NodeRef, Stmt, Var, walk};
use crate::passes::access::visits_of;
use crate::passes::ranges::Ranges;

use super::body::IndexedBody;
use super::producer::Producer;

/// The first input that a statement overwrites from the first setter up to, but not including, the statement
/// at `user`; `None` if there is none.
pub(super) fn on_the_way(producer: &Producer, body: &IndexedBody, user: usize) -> Option<NodeRef> {
    let from = producer.setters.0;
    producer.inputs.iter().find(|&&input| body.is_written_between(input, from, user)).copied()
}

/// Whether a statement from `from` up to, but not including, `to` overwrites one of the inputs.
pub(super) fn between(inputs: &IdSet<NodeRef>, body: &IndexedBody, from: usize, to: usize) -> bool {
    if inputs.len() < to.saturating_sub(from) {
        return inputs.iter().any(|&input| body.is_written_between(input, from, to));
    }
    (from..to).any(|top| !body.touches(top).writes.is_disjoint(inputs))
}

/// The first input that the using statement itself overwrites too early, if any; `stmts` are the statement
/// with the computation inlined.
///
/// A statement may store to an input if every read of the input comes no later than the store, and accesses
/// an element that no iteration stores, or the one that this iteration stores and no other one touches.
pub(super) fn at_the_use(producer: &Producer, stmts: &[Stmt], ranges: &Ranges) -> Option<NodeRef> {
    let mut written = IdSet::default();
    walk::stmts(stmts).for_each(|stmt| match stmt {
        Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => {
            written.insert(*node);
        }
        _ => {}
    });
    producer
        .inputs
        .iter()
        .find(|&&input| written.contains(&input) && !reads_own_elements(stmts, input, ranges))
        .copied()
}

fn reads_own_elements(stmts: &[Stmt], node: NodeRef, ranges: &Ranges) -> bool {
    let mut order = AccessOrder { node, loops: Vec::new(), reads: Vec::new(), store: None, clear: true };
    order.block(stmts);
    let Some((index, loops)) = order.store else { return false };
    let is_own = |read: &Indices| *read == index || never_meet(read, &index);
    order.clear && visits_of(&index, &loops, ranges) == 1 && order.reads.iter().all(is_own)
}

/// Whether two elements differ on an axis whose indices are those of symbols.
fn never_meet(a: &Indices, b: &Indices) -> bool {
    let by_symbols = |index: &Affine| index.terms().iter().all(|(var, _)| matches!(var, Var::Symbol(_)));
    a.iter().zip(b).any(|(a, b)| {
        let distance = a.plus(&b.times(-1)).as_constant();
        by_symbols(a) && distance.is_some_and(|distance| distance != 0)
    })
}

/// The reads of a node up to its one store.
struct AccessOrder {
    node: NodeRef,
    loops: Vec<LoopId>,
    reads: Vec<Indices>,
    store: Option<(Indices, Vec<LoopId>)>,
    /// No read follows the store, and there is no second store.
    clear: bool,
}

impl AccessOrder {
    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            stmt.values().for_each(|value| self.value(value));
            match stmt {
                Stmt::For { var, body, .. } => {
                    self.loops.push(*var);
                    self.block(body);
                    self.loops.pop();
                }
                Stmt::Set { node, index, .. } if *node == self.node => {
                    self.clear &= self.store.is_none();
                    self.store = Some((index.clone(), self.loops.clone()));
                }
                // The element at a computed index is unknown.
                Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => self.clear &= *node != self.node,
                Stmt::Set { .. }
                | Stmt::SetLocal { .. }
                | Stmt::Declare { .. }
                | Stmt::Comment(_)
                | Stmt::Log { .. } => {}
            }
        }
    }

    fn value(&mut self, value: &Expr) {
        walk::parts(value).for_each(|part| match part {
            Expr::Get { node, index } | Expr::GetGuarded { node, index, .. } if *node == self.node => {
                self.clear &= self.store.is_none();
                self.reads.push(index.clone());
            }
            Expr::GetDynamic { node, .. } if *node == self.node => self.clear = false,
            _ => {}
        });
    }
}
