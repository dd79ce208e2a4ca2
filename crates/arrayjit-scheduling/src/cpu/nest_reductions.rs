//! Nested reductions: a reduction whose results another reduction reads once runs inside of that one.
//!
//! ```text
//! for b, i { s := 0; for k { s := s + f(b,k,i) }; T[b,i] := s }
//! for i { acc := 0; for b { acc := g(T[b,i], acc) }; … }
//! = for i { acc := 0; for b { s := 0; for k { s := s + f(b,k,i) }; acc := g(s, acc) }; … }
//! ```
//!
//! The local node `T` is gone, and both reductions read their operands at the same time, so that memory is
//! never idle while the second one runs. Products of one row with quantized weights sum a block of weights in
//! this way before they multiply by its scale. Each element is computed once, from the same values in the
//! same order, so no bit changes.
//!
//! Both nests must have the same loop as lanes (`i`), since that loop encloses the others. The pass changes
//! only statements inside of a loop: the iterations over `b` are independent in the first nest, and several
//! threads may need them where no loop is around. Contractions keep their form.

use std::collections::BTreeMap;

use lowered_ir::ir::{Affine, Block, Expr, Indices, LoopKind, LoweredRoutine, NodeRef, Stmt, Var, walk};

use crate::analysis::access::{self, Effects};
use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop, Nest};
use crate::analysis::nodes::is_local;
use crate::cpu::fusible_contractions::has_contraction;
use codegen_core::dependence;

/// Moves each reduction into the one that reads all its results once.
pub(crate) fn nest_reductions(routine: &mut LoweredRoutine) {
    let names = Names::of(routine);
    let mut accesses: BTreeMap<NodeRef, usize> = BTreeMap::new();
    for touch in dependence::touches(&routine.body) {
        *accesses.entry(touch.node).or_default() += 1;
    }
    // One store and one load.
    accesses.retain(|node, count| *count == 2 && is_local(routine.node(*node)));
    for stmt in &mut routine.body {
        nest_inside(stmt, &accesses, &names);
    }
}

/// Nests reductions that are statements of a loop.
fn nest_inside(stmt: &mut Stmt, inner: &BTreeMap<NodeRef, usize>, names: &Names) {
    let Stmt::For { body, kind: LoopKind::Serial, .. } = stmt else { return };
    body.iter_mut().for_each(|stmt| nest_inside(stmt, inner, names));
    let mut at = 0;
    while at < body.len() {
        let behind = body[at + 1..].iter().position(|stmt| !matches!(stmt, Stmt::Comment(_)));
        let nested = behind.and_then(|behind| {
            let first = InnerReduction::of(&body[at]).filter(|first| inner.contains_key(&first.node))?;
            Some((at + 1 + behind, first.inside(&body[at], &body[at + 1 + behind], names)?))
        });
        match nested {
            Some((behind, nested)) => {
                body[behind] = nested;
                body.remove(at);
            }
            None => at += 1,
        }
    }
}

/// A nest of loops that ends with its only store, behind a loop that reduces.
struct InnerReduction {
    loops: Vec<Loop>,
    body: Block,
    node: NodeRef,
    index: Indices,
    value: Expr,
}

impl InnerReduction {
    fn of(stmt: &Stmt) -> Option<InnerReduction> {
        let Nest { loops, mut body } = Nest::of(stmt)?;
        let Some(Stmt::Set { node, index, value }) = body.pop() else { return None };
        let is_loop = |stmt: &Stmt| matches!(stmt, Stmt::For { .. });
        let stays = |stmt: &Stmt| {
            matches!(stmt, Stmt::For { .. } | Stmt::Declare { .. } | Stmt::SetLocal { .. } | Stmt::Comment(_))
        };
        let reduces = body.iter().any(is_loop) && walk::stmts(&body).all(stays) && !has_contraction(stmt);
        reduces.then_some(InnerReduction { loops, body, node, index, value })
    }

    /// The reduction that reads the results of this one, `stmt`, with this one inside.
    fn inside(&self, stmt: &Stmt, reader: &Stmt, names: &Names) -> Option<Stmt> {
        let mut loops = Vec::new();
        let read = read_of(reader, self.node, &mut loops)?.clone();
        let places = self.places(&read, &loops, names)?;
        let mut own = Effects::of(std::slice::from_ref(stmt));
        own.nodes.remove(&self.node);
        own.written.remove(&self.node);
        let commutes = own.commute(&Effects::of(std::slice::from_ref(reader)));
        if !commutes || has_contraction(reader) || !self.shares_lanes(&places, reader, names) {
            return None;
        }
        let mut body = self.body.clone();
        let mut value = self.value.clone();
        for (own, place) in self.loops.iter().zip(&places) {
            walk::substitute(&mut body, own.var, place);
            value = walk::map_expr_indices(value, &mut |index| index.substitute(own.var, place));
        }
        let mut reader = reader.clone();
        insert(std::slice::from_mut(&mut reader), self.node, &mut body, &value);
        Some(reader)
    }

    /// The value of each loop variable where a reader inside of `loops` reads the element at `read`; none if
    /// the reader does not read every element once.
    fn places(&self, read: &Indices, loops: &[Loop], names: &Names) -> Option<Vec<Affine>> {
        let at = |own: &Loop| {
            let axis = self.index.iter().position(|index| index.as_var() == Some(own.var.into()))?;
            Some(read[axis].clone())
        };
        let places: Vec<Affine> = self.loops.iter().map(at).collect::<Option<_>>()?;
        let mut index = self.index.clone();
        for (own, place) in self.loops.iter().zip(&places) {
            index.iter_mut().for_each(|index| *index = index.substitute(own.var, place));
        }
        let count = |loops: &[Loop]| loops.iter().try_fold(1i64, |count, l| count.checked_mul(l.extent()?));
        let vars: Vec<_> = loops.iter().map(|l| l.var).collect();
        let is_once = count(&self.loops)? == count(loops)? && access::injective(read, &vars, &names.ranges);
        (is_once && index == *read).then_some(places)
    }

    /// Whether the loop that suits best as lanes of this nest is the best one for the reader too, and another
    /// loop is inside of it there.
    fn shares_lanes(&self, places: &[Affine], reader: &Stmt, names: &Names) -> bool {
        let Some(nest) = Nest::of(reader) else { return false };
        let stored = Stmt::Set { node: self.node, index: self.index.clone(), value: self.value.clone() };
        let body: Block = self.body.iter().cloned().chain([stored]).collect();
        let own = self.loops.iter().zip(places);
        let scored = own.map(|(own, place)| (nest::lane_score(&body, own.var, names), place.as_var()));
        let Some((1.., Some(Var::Loop(lane)))) = scored.max_by_key(|(score, _)| *score) else {
            return false;
        };
        let possible = nest.possible_lanes(names);
        let best = possible.iter().max_by_key(|l| nest::lane_score(&nest.body, l.var, names));
        best.is_some_and(|best| best.var == lane)
            && nest.body.iter().any(|stmt| matches!(stmt, Stmt::For { .. }))
    }
}

/// The index at which a statement of serial loops with constant bounds loads from a node. `loops` gets the
/// loops around the load.
fn read_of<'a>(stmt: &'a Stmt, node: NodeRef, loops: &mut Vec<Loop>) -> Option<&'a Indices> {
    let Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body } = stmt else {
        return stmt.parts().find_map(|part| match part {
            Expr::Get { node: read, index } if *read == node => Some(index),
            _ => None,
        });
    };
    loops.push(Loop { var: *var, lo: 0, hi: hi.clone() });
    let found = body.iter().find_map(|stmt| read_of(stmt, node, loops));
    if found.is_none() {
        loops.pop();
    }
    found
}

/// Puts statements before the one that loads from a node, which uses the value instead.
fn insert(block: &mut [Stmt], node: NodeRef, before: &mut Block, value: &Expr) {
    for stmt in block {
        let Stmt::For { body, .. } = stmt else { continue };
        let loads = |part: &Expr| matches!(part, Expr::Get { node: read, .. } if *read == node);
        match body.iter().position(|stmt| stmt.parts().any(loads)) {
            Some(at) => {
                walk::map_own_parts(&mut body[at], &mut |part| {
                    if loads(&part) { value.clone() } else { part }
                });
                body.splice(at..at, std::mem::take(before));
                return;
            }
            None => insert(body, node, before, value),
        }
    }
}
