//! Common subexpressions: what a block computes twice it computes once.
//!
//! Two kinds are shared, both only within one block (the uses may stand in its loops) and only while nothing they read changes:
//! * *groups*: locals computed by equal statements, up to the names of their loops and locals (what virtualisation leaves
//!   when a reduction is used by several statements);
//! * *expressions* that occur more than once in the values of the block's own statements, if they cost enough to be worth
//!   a local.
//!
//! At the top level a group is shared only if that saves at least the work of the statements in between that have nothing to do
//! with it: all statements from a local's declaration to its last use run in one kernel, in order.
//!
//! Expressions are numbered: equal parts get one number, where a read also carries how often its node or local has been
//! written so far, so equal numbers mean equal values. The whole block takes one walk.
//!
//! # Invariants
//! * The value of every store keeps its bits.
//! * A binding stands before its first use in the same block, so it is in scope of all of them.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use crate::ir::{Block, Expr, LocalId, NodeRef, Routine, Stmt, walk};

use super::bind::Binder;
use super::cost::{own_cost, work};
use super::effects::Effects;
use super::groups::group_at;
use super::virtualize::rename_locals;

/// Expressions cheaper than this are repeated rather than bound.
const WORTH_BINDING: u64 = 4;

/// Shares common groups and expressions in every block of the routine.
pub fn eliminate_common(routine: &mut Routine) {
    let body = routine.body.clone();
    routine.body = Sharer { binder: Binder::of(routine) }.block(body, true);
}

/// Shares common groups in every block, and no expressions.
pub(super) fn eliminate_common_groups(routine: &mut Routine) {
    share_groups_within(&mut routine.body, true);
}

fn share_groups_within(block: &mut Block, top: bool) {
    for stmt in block.iter_mut() {
        if let Stmt::For { body, .. } = stmt {
            share_groups_within(body, false);
        }
    }
    share_groups(block, top);
}

struct Sharer<'a> {
    binder: Binder<'a>,
}

impl Sharer<'_> {
    fn block(&mut self, mut block: Block, top: bool) -> Block {
        for stmt in &mut block {
            if let Stmt::For { body, .. } = stmt {
                *body = self.block(std::mem::take(body), false);
            }
        }
        share_groups(&mut block, top);
        self.share_expressions(block)
    }

    fn share_expressions(&mut self, block: Block) -> Block {
        let mut numbers = Numbering::default();
        let numbered: Vec<Roots> = block.iter().map(|stmt| numbers.stmt(stmt)).collect();
        let mut emit = Emit { numbers: &numbers, bound: HashMap::new(), out: Block::new(), sharer: self };
        for (mut stmt, roots) in block.into_iter().zip(numbered) {
            for (value, root) in stmt.values_mut().into_iter().zip(roots) {
                *value = emit.expr(root);
            }
            emit.out.push(stmt);
        }
        emit.out
    }
}

/// Drops each group that equals an earlier one of the block whose inputs have not changed since.
fn share_groups(block: &mut Block, top: bool) {
    let mut seen: HashMap<Block, Shared> = HashMap::new();
    let mut at = 0;
    while at < block.len() {
        let Some(group) = group_at(block, at) else {
            at += 1;
            continue;
        };
        let canonical = group.canonical(block);
        let earlier = seen.get(&canonical).filter(|first| {
            block.get(first.end..at).is_some_and(|between| {
                unchanged(between, &first.effects)
                    && (!top || pays(&block[group.range.clone()], between, first.local))
            })
        });
        if let Some(first) = earlier.map(|first| first.local) {
            block.drain(group.range.clone());
            rename_locals(&mut block[at..], &BTreeMap::from([(group.local, first)]));
            // Groups around the one that went end earlier now.
            for outer in seen.values_mut().filter(|g| g.end > at) {
                outer.end -= group.range.clone().count();
            }
            continue;
        }
        seen.insert(
            canonical,
            Shared { local: group.local, end: group.range.end() + 1, effects: group.effects },
        );
        at += 1;
    }
}

/// A group that later equal ones may be dropped for.
struct Shared {
    local: LocalId,
    /// One past its last statement.
    end: usize,
    effects: Effects,
}

/// Whether doing without the group saves more than the work of the statements that would have to run in its kernel.
fn pays(group: &[Stmt], between: &[Stmt], local: LocalId) -> bool {
    let foreign = between.iter().filter(|stmt| {
        let effects = Effects::of(std::slice::from_ref(*stmt));
        matches!(stmt, Stmt::For { .. }) && !effects.local_reads.contains(&local)
    });
    foreign.fold(0u64, |sum, stmt| sum.saturating_add(work(std::slice::from_ref(stmt)))) <= work(group)
}

/// Whether the statements leave everything alone that a group with these effects reads.
fn unchanged(between: &[Stmt], effects: &Effects) -> bool {
    let between = Effects::of(between);
    between.writes.is_disjoint(&effects.reads) && between.local_writes.is_disjoint(&effects.local_reads)
}

/// A part of an expression: what it does, on which numbers, and the state of the memory it reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// The part with its operands blanked out.
    shape: Expr,
    operands: Vec<usize>,
    version: u64,
}

/// A number's part.
struct Part {
    key: Key,
    /// Of the part with its operands.
    cost: u64,
    /// How many different places use it.
    uses: u32,
}

/// The numbers of a statement's values.
type Roots = SmallVec<[usize; 2]>;

/// Numbers the parts of a block's values, equal ones alike.
#[derive(Default)]
struct Numbering {
    numbers: HashMap<Key, usize>,
    parts: Vec<Part>,
    nodes: HashMap<NodeRef, u64>,
    locals: HashMap<LocalId, u64>,
}

impl Numbering {
    /// Numbers the values that the statement evaluates, and takes note of what it writes.
    fn stmt(&mut self, stmt: &Stmt) -> Roots {
        let roots: Roots = stmt.values().into_iter().map(|value| self.expr(value)).collect();
        for &root in &roots {
            self.parts[root].uses += 1;
        }
        let effects = Effects::of(std::slice::from_ref(stmt));
        for node in effects.writes {
            *self.nodes.entry(node).or_default() += 1;
        }
        for local in effects.local_writes {
            *self.locals.entry(local).or_default() += 1;
        }
        roots
    }

    fn expr(&mut self, expr: &Expr) -> usize {
        let mut operands = Vec::new();
        let shape = walk::map_children(expr.clone(), &mut |child| {
            operands.push(self.expr(&child));
            blank()
        });
        let version = match expr {
            Expr::Get { node, .. } | Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } => {
                self.nodes.get(node).copied()
            }
            Expr::GetLocal { local, .. } => self.locals.get(local).copied(),
            _ => None,
        };
        self.number(Key { shape, operands, version: version.unwrap_or(0) })
    }

    fn number(&mut self, key: Key) -> usize {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let operands = key.operands.iter().fold(0u64, |sum, &o| sum.saturating_add(self.parts[o].cost));
        for &operand in &key.operands {
            self.parts[operand].uses += 1;
        }
        let cost = own_cost(&key.shape).saturating_add(operands);
        self.parts.push(Part { key: key.clone(), cost, uses: 0 });
        self.numbers.insert(key, self.parts.len() - 1);
        self.parts.len() - 1
    }
}

/// Stands where an operand was.
fn blank() -> Expr {
    Expr::local(LocalId(u32::MAX))
}

/// Writes numbered values back as statements, binding what is worth it.
struct Emit<'a, 'b> {
    numbers: &'a Numbering,
    bound: HashMap<usize, LocalId>,
    out: Block,
    sharer: &'a mut Sharer<'b>,
}

impl Emit<'_, '_> {
    fn expr(&mut self, number: usize) -> Expr {
        if let Some(&local) = self.bound.get(&number) {
            return Expr::local(local);
        }
        let part = &self.numbers.parts[number];
        let mut operands = part.key.operands.iter();
        let expr = walk::map_children(part.key.shape.clone(), &mut |blank| match operands.next() {
            Some(&operand) => self.expr(operand),
            None => blank,
        });
        if part.uses < 2 || part.cost < WORTH_BINDING {
            return expr;
        }
        let local = self.sharer.binder.bind(expr, &mut self.out);
        self.bound.insert(number, local);
        Expr::local(local)
    }
}
