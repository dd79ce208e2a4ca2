//! Virtualisation: the computation of a virtual node is repeated at each of its uses, and the node needs no memory.
//!
//! This is inlining by direct substitution. A setter `%t[i, j] := e` inside loops over `i` and `j` says what any element is:
//! a use `%t[a, b]` becomes `e` with `a` for `i` and `b` for `j`. Loops of the setter that do not index the node (those of a
//! reduction) stay; the element is then accumulated in a fresh scalar local by statements put just before the using
//! statement. Whatever cannot be matched so is refused with a [`Refusal`]; nothing is ever half inlined.
//!
//! # Invariants
//! * A verified routine stays verified, and computes the same bits: the same operations run on the same values in the same
//!   order per element.
//! * A node that was inlined is not mentioned by any statement afterwards.
//! * A use that reads the node twice computes it once, so chains of virtual nodes cannot explode.

mod hazard;
mod instantiate;
mod producer;
mod refusal;

use std::collections::{BTreeMap, HashMap};

use tnode::DType;

use super::cost::{depth, size};
use super::effects::Effects;
use super::ranges::Ranges;
use crate::ir::{Affine, Block, Expr, Fresh, LoopId, LoopKind, NodeRef, Routine, Stmt, walk};

pub(in crate::passes) use instantiate::{rename, rename_locals};
pub use refusal::Refusal;

use instantiate::{Instance, Site, Use};
use producer::Producer;

/// Statements with more operations than this are not made by inlining.
pub const MAX_STATEMENT_SIZE: usize = 1 << 14;

/// Loops and parts of expressions are not nested deeper than this by inlining.
const MAX_NESTING: usize = 200;

/// Inlines each of the nodes if that can be done; answers which could not, and why.
///
/// Nodes that must be virtual come first, so that none is refused for what inlining another one made of it; among equals, in
/// the order in which they are first set.
///
/// A node that is never used loses its setters.
pub fn virtualize(routine: &mut Routine, candidates: &[NodeRef]) -> Vec<(NodeRef, Refusal)> {
    let mut fresh = routine.fresh();
    let first_new = fresh.clone().loop_id();
    let by_choice = |node: NodeRef| !routine.node(node).mode.known_virtual();
    let mut order: Vec<(bool, usize, NodeRef)> =
        candidates.iter().map(|&n| (by_choice(n), first_setter(routine, n), n)).collect();
    order.sort_unstable();
    let results = order.into_iter().map(|(_, _, node)| (node, inline(routine, node, &mut fresh)));
    let refused = results.filter_map(|(node, result)| result.err().map(|refusal| (node, refusal))).collect();
    routine.body = without_single_loops(std::mem::take(&mut routine.body), first_new);
    refused
}

/// The statements as one, in a loop that runs once, if they share a local: a setter and all that it needs must stay one
/// statement of the body, or it could not be inlined in its turn. In the end such loops are dissolved.
fn together(block: Block, fresh: &mut Fresh) -> Block {
    let shares = block.iter().any(|stmt| matches!(stmt, Stmt::Declare { .. }));
    if shares { vec![Stmt::serial(fresh.loop_id(), 1, block)] } else { block }
}

/// The block with the bodies of serial loops over `0..1` in their place, from the variable `first_new` on.
fn without_single_loops(block: Block, first_new: LoopId) -> Block {
    let mut out = Block::new();
    for stmt in block {
        match stmt {
            Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body }
                if hi == 1.into() && var >= first_new =>
            {
                let mut body = without_single_loops(body, first_new);
                walk::substitute(&mut body, var, &Affine::constant(0));
                out.extend(body);
            }
            Stmt::For { var, lo, hi, kind, body } => {
                out.push(Stmt::For { var, lo, hi, kind, body: without_single_loops(body, first_new) });
            }
            other => out.push(other),
        }
    }
    out
}

fn first_setter(routine: &Routine, node: NodeRef) -> usize {
    routine.body.iter().position(|s| producer::sets(s, node)).unwrap_or(usize::MAX)
}

/// Inlines one node everywhere and drops its setters, or leaves the routine as it was.
fn inline(routine: &mut Routine, node: NodeRef, fresh: &mut Fresh) -> Result<(), Refusal> {
    if reads_at_computed_index(routine, node) {
        return Err(Refusal::ComputedIndex);
    }
    let ranges = Ranges::of(routine);
    let producer = producer::extract(routine, node, &ranges)?;
    let replaced = replace_uses(routine, &producer, &ranges, fresh)?;
    let body = std::mem::take(&mut routine.body);
    routine.body = body
        .into_iter()
        .enumerate()
        .flat_map(|(top, stmt)| replaced.get(&top).cloned().unwrap_or_else(|| vec![stmt]))
        .filter(|stmt| !sets_alone(stmt, node))
        .filter_map(|stmt| without_setters(stmt, node))
        .collect();
    Ok(())
}

fn reads_at_computed_index(routine: &Routine, node: NodeRef) -> bool {
    let mut found = false;
    walk::each_value(&routine.body, &mut |value| {
        walk::each_expr(value, &mut |part| {
            found |= matches!(part, Expr::GetDynamic { node: n, .. } if *n == node);
        });
    });
    found
}

/// Each statement of the body that uses the node, with the computation inlined.
fn replace_uses(
    routine: &Routine,
    producer: &Producer,
    ranges: &Ranges,
    fresh: &mut Fresh,
) -> Result<BTreeMap<usize, Block>, Refusal> {
    let effects: Vec<Effects> = routine.body.iter().map(|s| Effects::of(std::slice::from_ref(s))).collect();
    let mut replaced = BTreeMap::new();
    for (top, stmt) in routine.body.iter().enumerate() {
        let sets = producer::sets(stmt, producer.node);
        if sets && uses_besides_accumulation(stmt, producer.node) {
            return Err(Refusal::SetAfterUse);
        }
        if sets || !effects[top].reads.contains(&producer.node) {
            continue;
        }
        if top < producer.setters.1 {
            return Err(Refusal::SetAfterUse);
        }
        let overwritten =
            |input: NodeRef| Refusal::InputOverwritten { input: routine.node(input).name.clone() };
        if let Some(input) = hazard::on_the_way(producer, &effects, top) {
            return Err(overwritten(input));
        }
        let mut inliner = Inliner { producer, ranges, routine, fresh, loops: 0 };
        let block = inliner.block(std::slice::from_ref(stmt), false)?;
        let mut wider = ranges.clone();
        wider.add(&block);
        if let Some(input) = hazard::at_the_use(producer, &block, &wider) {
            return Err(overwritten(input));
        }
        replaced.insert(top, together(block, fresh));
    }
    Ok(replaced)
}

/// Whether a statement that sets the node reads it for something else than the node's own value.
fn uses_besides_accumulation(stmt: &Stmt, node: NodeRef) -> bool {
    let alone = sets_alone(stmt, node);
    let mut found = false;
    walk::each_stmt(std::slice::from_ref(stmt), &mut |s| match s {
        Stmt::Set { node: target, value, .. } if *target != node => found |= mentions(value, node),
        Stmt::Set { .. } => {}
        Stmt::SetLocal { .. } if alone => {}
        _ => found |= s.values().into_iter().any(|value| mentions(value, node)),
    });
    found
}

/// Whether the statement sets this node and no other.
fn sets_alone(stmt: &Stmt, node: NodeRef) -> bool {
    Effects::of(std::slice::from_ref(stmt)).writes.iter().eq([&node])
}

/// Whether the expression reads the node's memory.
fn mentions(value: &Expr, node: NodeRef) -> bool {
    let mut found = false;
    walk::each_expr(value, &mut |part| {
        found |= matches!(part, Expr::Get { node: n, .. } | Expr::GetGuarded { node: n, .. } if *n == node);
    });
    found
}

/// The statement without stores to the node and without loops that become empty.
fn without_setters(stmt: Stmt, node: NodeRef) -> Option<Stmt> {
    match stmt {
        Stmt::Set { node: n, .. } | Stmt::SetDynamic { node: n, .. } | Stmt::Zero { node: n }
            if n == node =>
        {
            None
        }
        Stmt::For { var, lo, hi, kind, body } => {
            let was_empty = body.is_empty();
            let body: Block = body.into_iter().filter_map(|s| without_setters(s, node)).collect();
            (was_empty || !body.is_empty()).then_some(Stmt::For { var, lo, hi, kind, body })
        }
        other => Some(other),
    }
}

/// How deep the loops of the block nest.
fn nesting(block: &[Stmt]) -> usize {
    let depths = block.iter().map(|stmt| match stmt {
        Stmt::For { body, .. } => 1 + nesting(body),
        _ => 0,
    });
    depths.max().unwrap_or(0)
}

/// Rewrites the statements that use one node.
struct Inliner<'a> {
    producer: &'a Producer,
    ranges: &'a Ranges,
    routine: &'a Routine,
    fresh: &'a mut Fresh,
    /// The loops around.
    loops: usize,
}

impl Inliner<'_> {
    fn block(&mut self, block: &[Stmt], in_vector: bool) -> Result<Block, Refusal> {
        let mut out = Block::new();
        for stmt in block {
            match stmt {
                Stmt::For { var, lo, hi, kind, body } => {
                    self.loops += 1;
                    let body = self.block(body, in_vector || *kind == LoopKind::Vector)?;
                    self.loops -= 1;
                    out.push(Stmt::For { var: *var, lo: *lo, hi: *hi, kind: *kind, body });
                }
                _ => {
                    let mut stmt = stmt.clone();
                    for value in stmt.values_mut() {
                        *value = self.value(value, in_vector, &mut out)?;
                    }
                    out.push(stmt);
                }
            }
        }
        Ok(out)
    }

    /// The value with its uses replaced; what must run before goes to `prelude`.
    fn value(&mut self, value: &Expr, in_vector: bool, prelude: &mut Block) -> Result<Expr, Refusal> {
        let uses = self.uses(value);
        if uses.is_empty() {
            return Ok(value.clone());
        }
        if uses.len().saturating_mul(self.producer.size()) > MAX_STATEMENT_SIZE {
            return Err(Refusal::TooLarge { limit: MAX_STATEMENT_SIZE });
        }
        let movable = self.routine.node(self.producer.node).dtype != DType::U32x4;
        if !movable && uses.iter().any(|(wanted, _)| wanted.guard.is_some()) {
            return Err(Refusal::Unguardable { what: "a value of type u32x4" });
        }
        let mut values = HashMap::new();
        for (wanted, count) in uses {
            let mut site = Site { ranges: self.ranges, fresh: self.fresh, routine: self.routine };
            let Instance { prelude: before, value } =
                instantiate::instantiate(self.producer, &wanted, count > 1, &mut site)?;
            if self.loops + nesting(&before) > MAX_NESTING {
                return Err(Refusal::TooLarge { limit: MAX_STATEMENT_SIZE });
            }
            if in_vector && before.iter().any(|s| matches!(s, Stmt::For { .. })) {
                return Err(Refusal::LoopInVector);
            }
            prelude.extend(before);
            values.insert(wanted, value);
        }
        let value = walk::map_expr(value.clone(), &mut |e| self.replace(e, &values));
        if size(&value) > MAX_STATEMENT_SIZE || depth(&value) > MAX_NESTING {
            return Err(Refusal::TooLarge { limit: MAX_STATEMENT_SIZE });
        }
        Ok(value)
    }

    /// The distinct uses in the value, in order, each with its number of occurrences.
    fn uses(&self, value: &Expr) -> Vec<(Use, usize)> {
        let mut uses: Vec<(Use, usize)> = Vec::new();
        walk::each_expr(value, &mut |part| {
            if let Some(found) = self.as_use(part) {
                match uses.iter_mut().find(|(u, _)| *u == found) {
                    Some((_, count)) => *count += 1,
                    None => uses.push((found, 1)),
                }
            }
        });
        uses
    }

    fn as_use(&self, expr: &Expr) -> Option<Use> {
        match expr {
            Expr::Get { node, index } if *node == self.producer.node => {
                Some(Use { index: index.clone(), guard: None })
            }
            Expr::GetGuarded { guard, node, index, .. } if *node == self.producer.node => {
                Some(Use { index: index.clone(), guard: Some(guard.clone()) })
            }
            _ => None,
        }
    }

    fn replace(&self, expr: Expr, values: &HashMap<Use, Expr>) -> Expr {
        let Some(value) = self.as_use(&expr).and_then(|wanted| values.get(&wanted)) else { return expr };
        match expr {
            Expr::GetGuarded { guard, otherwise, .. } => {
                instantiate::select(&guard, value.clone(), *otherwise)
            }
            _ => value.clone(),
        }
    }
}
