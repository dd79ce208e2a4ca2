//! Common subexpression elimination: a block computes equal values once.
//!
//! The pass shares two kinds of values, both only within one block (uses may be in its loops) and only while
//! the memory that they read does not change:
//! * *pure regions*: locals computed by equal statements, up to the names of their loops and locals
//!   (virtualization makes such copies if several statements use a reduction);
//! * *expressions* that occur more than once in the values of the block's own statements, if they cost enough
//!   to be worth a local.
//!
//! At the top level, a region is shared only if that saves at least the work of the unrelated statements in
//! between: all statements from a local's declaration to its last use run in one kernel, in order.
//!
//! Expressions are value-numbered. The key of a read includes the number of earlier writes of its node or
//! local, so equal numbers mean equal values. The pass walks the block once.
//!
//! # Invariants
//! * The value of every store keeps its bits.
//! * A binding precedes its first use in the same block, so it is in scope of all uses.

use std::collections::BTreeMap;
use std::hash::Hash;

use smallvec::SmallVec;

use crate::ir::{ArrayRef, Block, Expr, IdMap, LocalId, LoweredRoutine, NodeRef, Stmt, Words, walk};

use super::bind::Binder;
use super::cost::{own_cost, work};
use super::effects::Effects;
use super::pure_regions::{PureRegion, RegionIndex, canonical};
use super::virtualize::rename_locals;

/// Expressions cheaper than this are repeated rather than bound.
const WORTH_BINDING: u64 = 4;

/// Shares equal regions and expressions in every block of the routine.
pub fn cse(routine: &mut LoweredRoutine) {
    Binder::rewrite(routine, |binder, body| CommonEliminator { binder }.block(body, true));
}

/// Shares equal regions in every block, and no expressions.
pub(super) fn share_equal_regions(routine: &mut LoweredRoutine) {
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

struct CommonEliminator<'a> {
    binder: Binder<'a>,
}

impl CommonEliminator<'_> {
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
        let mut numbers = ValueNumbering::default();
        let numbered: Vec<ValueNumbers> = block.iter().map(|stmt| numbers.stmt(stmt)).collect();
        let parts = numbers.parts;
        if !parts.iter().any(NumberedExpr::is_worth_binding) {
            return block;
        }
        let mut emit =
            BlockEmitter { parts: &parts, bound: IdMap::default(), out: Block::new(), eliminator: self };
        for (mut stmt, roots) in block.into_iter().zip(numbered) {
            stmt.values_mut().into_iter().zip(roots).for_each(|(value, root)| emit.share(value, root));
            emit.out.push(stmt);
        }
        emit.out
    }
}

/// Drops each region that equals an earlier one of the block whose inputs have not changed since.
fn share_groups(block: &mut Block, top: bool) {
    // A region begins with a declaration.
    if block.iter().filter(|stmt| matches!(stmt, Stmt::Declare { .. })).count() < 2 {
        return;
    }
    let stmts = std::mem::take(block);
    let effects: Vec<Effects> = stmts.iter().map(|stmt| Effects::of(std::slice::from_ref(stmt))).collect();
    let places = RegionIndex::of(effects.iter());
    let mut seen: IdMap<Block, SharedRegion> = IdMap::default();
    let mut remaining = RemainingBlock::default();
    let mut dropped = DroppedRegions::default();
    let mut at = 0;
    while at < stmts.len() {
        let group = places.region_at(&stmts, at, |range| dropped.effects(&effects[range]));
        let Some(PureRegion { local, range, effects: reads }) = group else {
            remaining.push(dropped.renamed(&stmts[at], &effects[at]), dropped.effects(&effects[at..=at]));
            at += 1;
            continue;
        };
        let stmts_of: Block = range.clone().map(|i| dropped.renamed(&stmts[i], &effects[i])).collect();
        let canonical = canonical(&stmts_of);
        let earlier = seen.get(&canonical).filter(|first| {
            first.end <= at
                && remaining.is_unchanged(first.end, &first.effects)
                && (!top || remaining.foreign_work(first.end, first.local) <= u128::from(work(&stmts_of)))
        });
        if let Some(first) = earlier {
            dropped.names.insert(local, first.local);
            range.clone().for_each(|_| remaining.skip());
            at = range.end() + 1;
            continue;
        }
        seen.insert(canonical, SharedRegion { local, end: range.end() + 1, effects: reads });
        remaining.push(dropped.renamed(&stmts[at], &effects[at]), dropped.effects(&effects[at..=at]));
        at += 1;
    }
    *block = remaining.stmts;
}

/// A region that may replace later equal regions.
struct SharedRegion {
    local: LocalId,
    /// One past its last statement.
    end: usize,
    effects: Effects,
}

/// The locals of dropped regions, each with the local that replaces it.
#[derive(Default)]
struct DroppedRegions {
    names: BTreeMap<LocalId, LocalId>,
}

impl DroppedRegions {
    fn renamed(&self, stmt: &Stmt, effects: &Effects) -> Stmt {
        let mut stmt = stmt.clone();
        if effects.local_reads.iter().any(|local| self.names.contains_key(local)) {
            rename_locals(std::slice::from_mut(&mut stmt), &self.names);
        }
        stmt
    }

    /// The effects of the statements together, after dropped locals are replaced.
    fn effects(&self, each: &[Effects]) -> Effects {
        let mut all = Effects::default();
        each.iter().for_each(|effects| all.add(effects));
        if all.local_reads.iter().any(|local| self.names.contains_key(local)) {
            let new = |local: &LocalId| self.names.get(local).copied().unwrap_or(*local);
            all.local_reads = all.local_reads.iter().map(new).collect();
        }
        all
    }
}

/// The remaining statements of a block, with queries about the statements after a position.
#[derive(Default)]
struct RemainingBlock {
    stmts: Block,
    /// For each statement of the original block, the number of statements before it that were kept.
    before: Vec<usize>,
    written: IdMap<NodeRef, usize>,
    written_locals: IdMap<LocalId, usize>,
    /// The work of the loops before each statement that is kept.
    work: Vec<u128>,
    all_work: u128,
    /// The loops that read each local, in order: the position of each, and the work of these loops up to and
    /// including it.
    readers: IdMap<LocalId, Vec<(usize, u128)>>,
}

impl RemainingBlock {
    fn push(&mut self, stmt: Stmt, effects: Effects) {
        let at = self.stmts.len();
        self.before.push(at);
        self.work.push(self.all_work);
        self.written.extend(effects.writes.iter().map(|&node| (node, at)));
        self.written_locals.extend(effects.local_writes.iter().map(|&local| (local, at)));
        if matches!(stmt, Stmt::For { .. }) {
            let own = u128::from(work(std::slice::from_ref(&stmt)));
            self.all_work += own;
            for local in effects.local_reads {
                let readers = self.readers.entry(local).or_default();
                readers.push((at, own + readers.last().map_or(0, |last| last.1)));
            }
        }
        self.stmts.push(stmt);
    }

    /// Leaves the next statement out.
    fn skip(&mut self) {
        self.before.push(self.stmts.len());
    }

    /// Whether no statement from a position on writes a node or local that a region with these effects reads.
    fn is_unchanged(&self, from: usize, effects: &Effects) -> bool {
        let from = self.position(from);
        let since = |at: &usize| *at >= from;
        !effects.reads.iter().filter_map(|node| self.written.get(node)).any(since)
            && !effects.local_reads.iter().filter_map(|local| self.written_locals.get(local)).any(since)
    }

    /// The work of the loops from a position on that do not read a local, but would have to run in one kernel
    /// with its declaration and its next use.
    fn foreign_work(&self, from: usize, local: LocalId) -> u128 {
        let from = self.position(from);
        let all = self.all_work - self.work.get(from).copied().unwrap_or(self.all_work);
        let readers = self.readers.get(&local).map_or(&[][..], Vec::as_slice);
        let earlier = readers.partition_point(|&(at, _)| at < from);
        let up_to = |count: usize| count.checked_sub(1).map_or(0, |last| readers[last].1);
        all - (up_to(readers.len()) - up_to(earlier))
    }

    /// The index among the remaining statements for a position of the original block.
    fn position(&self, at: usize) -> usize {
        self.before.get(at).copied().unwrap_or(self.stmts.len())
    }
}

/// An expression that has a value number.
struct NumberedExpr {
    operands: Operands,
    /// The cost of the expression with its operands.
    cost: u64,
    /// How many different places use it.
    uses: u32,
}

impl NumberedExpr {
    fn is_worth_binding(&self) -> bool {
        self.uses >= 2 && self.cost >= WORTH_BINDING
    }
}

/// The numbers of an expression's operands.
type Operands = SmallVec<[usize; 3]>;

/// The numbers of a statement's values.
type ValueNumbers = SmallVec<[usize; 2]>;

/// Gives numbers to the parts of a block's values. Equal parts get the same number.
#[derive(Default)]
struct ValueNumbering {
    /// The number for an operation, the numbers of its operands, and the version of the memory that it reads.
    numbers: IdMap<Box<[u64]>, usize>,
    /// The key that is being looked up.
    key: Words,
    parts: Vec<NumberedExpr>,
    /// The number of stores into each array so far.
    versions: IdMap<ArrayRef, u64>,
}

impl ValueNumbering {
    /// Numbers the values that the statement evaluates, and records the memory that it writes.
    fn stmt(&mut self, stmt: &Stmt) -> ValueNumbers {
        let roots: ValueNumbers = stmt.values().map(|value| self.expr(value)).collect();
        for &root in &roots {
            self.parts[root].uses += 1;
        }
        let stored = walk::stmts(std::slice::from_ref(stmt)).filter_map(Stmt::array);
        stored.for_each(|array| *self.versions.entry(array).or_default() += 1);
        roots
    }

    fn expr(&mut self, expr: &Expr) -> usize {
        let operands: Operands = expr.children().into_iter().map(|child| self.expr(child)).collect();
        let version = expr.array().and_then(|array| self.versions.get(&array)).copied();
        self.key.0.clear();
        expr.hash_own(&mut self.key);
        (&operands[..], version.unwrap_or(0)).hash(&mut self.key);
        if let Some(&number) = self.numbers.get(self.key.0.as_slice()) {
            return number;
        }
        let mut cost = own_cost(expr);
        for &operand in &operands {
            self.parts[operand].uses += 1;
            cost = cost.saturating_add(self.parts[operand].cost);
        }
        self.parts.push(NumberedExpr { operands, cost, uses: 0 });
        self.numbers.insert(self.key.0.as_slice().into(), self.parts.len() - 1);
        self.parts.len() - 1
    }
}

/// Emits the statements with their numbered values, and binds values that are worth a local.
struct BlockEmitter<'a, 'b> {
    parts: &'a [NumberedExpr],
    bound: IdMap<usize, LocalId>,
    out: Block,
    eliminator: &'a mut CommonEliminator<'b>,
}

impl BlockEmitter<'_, '_> {
    /// Replaces the parts of a value that are bound, or worth it, by locals.
    fn share(&mut self, value: &mut Expr, number: usize) {
        if let Some(&local) = self.bound.get(&number) {
            *value = Expr::local(local);
            return;
        }
        let part = &self.parts[number];
        let mut operands = part.operands.iter();
        walk::each_child_mut(value, &mut |child| {
            operands.next().into_iter().for_each(|&operand| self.share(child, operand));
        });
        if part.is_worth_binding() {
            let unbound = std::mem::replace(value, Expr::local(LocalId(u32::MAX)));
            let local = self.eliminator.binder.bind(unbound, &mut self.out);
            self.bound.insert(number, local);
            *value = Expr::local(local);
        }
    }
}
