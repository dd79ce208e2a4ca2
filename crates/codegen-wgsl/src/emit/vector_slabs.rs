//! Slabs with vectors of four words as elements. A slab has such elements if all stores into it write whole
//! vectors and some vector loop accesses neighboring elements. Four iterations of the loop then load or
//! store one vector.
//!
//! A store into one lane of a vector may write the other lanes too, which may belong to another thread, so a
//! single such store makes the slab's elements words. Offsets in slabs are multiples of four words, so the
//! index alone determines where vectors begin.

use std::collections::BTreeSet;

use codegen_core::ir::{Affine, Expr, Indices, LoopId, LoopKind, LoweredRoutine, NodeRef, Stmt, walk};

use codegen_core::threads::Plan;

use super::Emitter;
use crate::builder::{Ty, Value};

/// The accesses to a kernel's nodes.
#[derive(Debug, Default)]
pub(super) struct VectorAccesses {
    /// Nodes with loads or stores of whole vectors.
    along: BTreeSet<NodeRef>,
    /// Nodes with a store of less than a vector.
    scattered: BTreeSet<NodeRef>,
}

impl VectorAccesses {
    pub(super) fn of(routine: &LoweredRoutine, plan: &Plan) -> VectorAccesses {
        let mut vector_slabs = VectorAccesses::default();
        vector_slabs.block(routine, plan, &routine.body, None);
        vector_slabs
    }

    /// Whether a slab has vectors as elements; `holds` says which nodes are in it.
    pub(super) fn has_vector_elements(&self, holds: impl Fn(NodeRef) -> bool) -> bool {
        self.along.iter().any(|&node| holds(node)) && !self.scattered.iter().any(|&node| holds(node))
    }

    fn block(&mut self, routine: &LoweredRoutine, plan: &Plan, block: &[Stmt], lanes: Option<LoopId>) {
        for (at, stmt) in block.iter().enumerate() {
            for value in stmt.values() {
                self.reads(routine, value, lanes);
            }
            match stmt {
                Stmt::For { var, hi, kind, body, .. } => {
                    let fits = *kind == LoopKind::Vector && plan.unrolled.contains(var) && hi.limit % 4 == 0;
                    self.block(routine, plan, body, fits.then_some(*var));
                }
                Stmt::Set { node, index, .. } => {
                    let whole = routine.node(*node).dtype.size_bytes() == 16
                        || is_along(routine, *node, index, lanes) && is_last_mention(block, at, *node);
                    if whole {
                        self.along.insert(*node)
                    } else {
                        self.scattered.insert(*node)
                    };
                }
                Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => {
                    self.scattered.insert(*node);
                }
                Stmt::SetLocal { .. } | Stmt::Declare { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
            }
        }
    }

    fn reads(&mut self, routine: &LoweredRoutine, value: &Expr, lanes: Option<LoopId>) {
        for e in walk::parts(value) {
            if let Expr::Get { node, index } | Expr::GetMerge { node, index } = e
                && is_along(routine, *node, index, lanes)
            {
                self.along.insert(*node);
            }
        }
    }
}

/// Whether consecutive iterations of a vector loop access neighboring elements, beginning at a vector
/// boundary.
fn is_along(routine: &LoweredRoutine, node: NodeRef, index: &Indices, lanes: Option<LoopId>) -> bool {
    let (Some(var), decl) = (lanes, routine.node(node)) else { return false };
    let flat = Affine::row_major(index, &decl.dims);
    let rest = |(v, factor): &(codegen_core::ir::Var, i64)| *v == var.into() || factor % 4 == 0;
    decl.dtype.size_bytes() == 4
        && flat.coefficient(var) == 1
        && flat.offset() % 4 == 0
        && flat.terms().iter().all(rest)
}

/// Whether a store is the only one to its node in the block and no later statement reads the node, so that
/// the store may wait for the other lanes.
fn is_last_mention(block: &[Stmt], at: usize, node: NodeRef) -> bool {
    let stores = |stmt: &Stmt| matches!(stmt, Stmt::Set { node: n, .. } | Stmt::SetDynamic { node: n, .. } | Stmt::Zero { node: n } if *n == node);
    let mut mentions = block.iter().filter(|stmt| stores(stmt)).count() > 1;
    for e in walk::parts_in(&block[at + 1..]) {
        mentions |= matches!(
            e,
            Expr::Get { node: n, .. } | Expr::GetGuarded { node: n, .. } | Expr::GetDynamic { node: n, .. } if *n == node
        );
    }
    !mentions
}

impl<'k> Emitter<'k> {
    /// The vector, and the lane in it, that holds a four-byte element of a slab of vectors; `None` if the
    /// lane is not known at compile time.
    pub(super) fn vector_of(&mut self, node: NodeRef, flat: &Affine) -> Option<(Value, u32)> {
        let param = self.params[node.index()];
        if !self.b.has_vector_elements(self.slabs[param.slab])
            || self.routine.node(node).dtype.size_bytes() != 4
        {
            return None;
        }
        let (terms, offset) = self.scope.split(flat);
        if terms.terms().iter().any(|(_, factor)| factor % 4 != 0) {
            return None;
        }
        let mut quarter = Affine::constant(offset.div_euclid(4));
        terms.terms().iter().for_each(|&(var, factor)| quarter.add_term(var, factor / 4));
        let index = self.index(&quarter);
        Some((self.vector_at(node, index), offset.rem_euclid(4) as u32))
    }

    /// The number in the slab of vector `index` of a node.
    pub(super) fn vector_at(&mut self, node: NodeRef, index: Value) -> Value {
        let two = self.b.u32(2);
        let base = self.b.binary(naga::BinaryOperator::ShiftRight, self.params[node.index()].offset, two);
        let index = self.b.convert(Ty::U32, index);
        self.b.binary(naga::BinaryOperator::Add, base, index)
    }

    /// Collects one lane of a vector, and stores the vector once all four are known.
    pub(super) fn store_lane(&mut self, stmt: &'k Stmt, node: NodeRef, index: &Indices, value: Value) {
        let word = self.b.bitcast(Ty::U32, value);
        let pending_lanes = self.pending_lanes.entry(std::ptr::from_ref(stmt)).or_default();
        pending_lanes.push(word);
        let &[a, b, c, d] = pending_lanes.as_slice() else { return };
        pending_lanes.clear();
        let flat = Affine::row_major(index, &self.routine.node(node).dims);
        if let Some((vector, _)) = self.vector_of(node, &flat) {
            let lanes = self.b.lanes([a, b, c, d]);
            let pointer = self.b.word(self.slabs[self.params[node.index()].slab], vector);
            self.b.store(pointer, lanes);
        }
    }
}
