//! Virtualization inlines the computation of a virtual node at each of its uses, so that the node needs no
//! memory.
//!
//! A setter `%t[e₁, …, eₙ] := value` inside loops defines the elements that it reaches; elements that no
//! setter reaches keep the value 0. For a use `%t[w₁, …, wₙ]` the equations `eₖ = wₖ` are solved for the loop
//! variables of the setter:
//!
//! * **direct**: `%t[i, j]` is set, `%t[a, b]` is used: `a` for `i`, `b` for `j`;
//! * **affine**: `%t[i + 1]`, `%t[2*i + j]` and similar indices are set; the solution must lie in the ranges
//!   of the loops;
//! * **diagonal**: `%t[i, i]` is set: `a` for `i`, if `a = b`; a constant index and a symbol are tested in
//!   the same way.
//!
//! Equations that the ranges of the variables do not decide become a condition: the use is the value of the
//! setter where the condition holds, else the value that earlier setters left. Both are evaluated, so the
//! reads of the value are guarded. Loops of the setter that do not index the node (those of a reduction)
//! stay; statements just before the using statement then accumulate the element in a fresh scalar local. For
//! nodes that must be virtual, the loops of an index with more loops than dimensions stay too, and are
//! searched for the iterations that reach the element.
//!
//! A use may be inside the nest that sets the node, if the iteration that sets its element has completed by
//! then.
//!
//! A node that cannot be inlined completely is rejected with an [`InlineRejection`] and left unchanged.
//!
//! # Invariants
//! * A verified routine stays verified, and computes the same bits: the same operations run on the same
//!   values in the same order per element.
//! * A node that was inlined is not mentioned by any statement afterwards.
//! * A use that reads the node twice computes it once, so chains of virtual nodes cannot explode.
//! * The time is proportional to the rewritten statements, not to the whole routine for each node.

mod body;
mod extend;
mod hazard;
mod inline;
mod instantiate;
mod producer;
mod protect;
mod rejection;
mod rename;
mod single_element;
mod statement_position;

use super::effects::Effects;
use super::ranges::Ranges;
use crate::ir::{Affine, Block, IdSet, LoopId, LoopKind, LoweredRoutine, NodeRef, Stmt, walk};

pub use rejection::InlineRejection;
pub(crate) use rename::{rename, rename_locals};

use body::IndexedBody;
use inline::InlineContext;

/// The maximum number of operations of a statement that inlining makes.
pub const MAX_STATEMENT_SIZE: usize = 1 << 14;

/// The maximum cost of the computation that is inlined at a use of a node that may have memory, in the units
/// of [`cost`](super::cost). Longer chains of nodes become several statements, because one statement becomes
/// one kernel, and compilers of kernels take more time and worse code for very long ones.
const MAX_INLINED_COST: u64 = 1 << 10;

/// The maximum cost of a statement into which such a node is inlined.
const MAX_STATEMENT_COST: u64 = 2 * MAX_INLINED_COST;

/// A node of at most this cost is inlined into the most costly statement too: a read would cost as much.
const CHEAP: u64 = 4;

/// The maximum depth of loops and of expressions that inlining makes.
const MAX_NESTING: usize = 200;

/// Inlines each of the nodes that can be inlined. Returns the others with the reasons.
///
/// Nodes that must be virtual are inlined first, so that inlining another node cannot make them unfit; nodes
/// of equal priority are inlined in the order of their first setters.
///
/// A node that is never used loses its setters.
pub fn virtualize(routine: &mut LoweredRoutine, candidates: &[NodeRef]) -> Vec<(NodeRef, InlineRejection)> {
    virtualize_keeping(routine, candidates).rejected
}

/// The outcome for each candidate: rejected, or inlined with its computation.
pub(crate) struct VirtualizeOutcome {
    /// The candidates that could not be inlined, with the reasons.
    pub(crate) rejected: Vec<(NodeRef, InlineRejection)>,
    /// The computations of the inlined candidates, for use in other routines.
    pub(crate) computed: Vec<InlinedComputation>,
}

/// The computation of a node that was inlined.
pub(crate) struct InlinedComputation {
    pub(crate) node: NodeRef,
    /// The statements that compute the node, given that it is zero before.
    pub(crate) body: Block,
    /// The first of its inputs that the routine overwrites after the first setter.
    pub(crate) overwritten: Option<NodeRef>,
}

/// Like [`virtualize`], but also returns the computations that disappear from the routine.
pub(crate) fn virtualize_keeping(routine: &mut LoweredRoutine, candidates: &[NodeRef]) -> VirtualizeOutcome {
    let mut fresh = routine.fresh();
    let first_new = fresh.clone().loop_id();
    let mut ranges = Ranges::of(routine);
    let conditions: IdSet<NodeRef> = walk::stmts(&routine.body).filter_map(Stmt::condition).collect();
    let mut body = IndexedBody::new(std::mem::take(&mut routine.body));
    let mut outcome = VirtualizeOutcome { rejected: Vec::new(), computed: Vec::new() };
    for node in in_order(routine, &body, candidates) {
        let mut ctx = InlineContext { routine, ranges: &mut ranges, fresh: &mut fresh };
        let inlined = match conditions.contains(&node) {
            true => Err(InlineRejection::Condition),
            false => inline(&mut body, node, &mut ctx),
        };
        match inlined {
            Ok(computed) => outcome.computed.push(computed),
            Err(rejection) => outcome.rejected.push((node, rejection)),
        }
    }
    routine.body = without_single_loops(body.into_block(), first_new);
    outcome
}

fn in_order(routine: &LoweredRoutine, body: &IndexedBody, candidates: &[NodeRef]) -> Vec<NodeRef> {
    let by_choice = |node: NodeRef| !routine.node(node).mode.known_virtual();
    let first_setter = |node| body.writers(node).next().unwrap_or(usize::MAX);
    let mut order = candidates.to_vec();
    order.sort_by_key(|&node| (by_choice(node), first_setter(node), node));
    order
}

/// Inlines one node everywhere and drops its setters, or leaves the body as it was.
fn inline(
    body: &mut IndexedBody,
    node: NodeRef,
    ctx: &mut InlineContext<'_>,
) -> Result<InlinedComputation, InlineRejection> {
    if !ctx.routine.node(node).mode.known_virtual() {
        check_cost(body, node)?;
    }
    if let Some(computed) = extend::extend(body, node, ctx) {
        return Ok(computed);
    }
    let producer = producer::extract(ctx.routine, body, node, ctx.ranges)?;
    let overwritten = hazard::on_the_way(&producer, body, usize::MAX);
    for (top, stmt) in inline::replace_uses(&producer, body, ctx)? {
        body.replace(top, Some(stmt));
    }
    let setters: Vec<usize> = body.writers(node).collect();
    for top in setters {
        let rest = body.stmt(top).filter(|_| !body.sets_alone(top, node)).cloned();
        body.replace(top, rest.and_then(|stmt| without_setters(stmt, node)));
    }
    let pieces = producer.pieces.into_iter().map(|piece| piece.stmt).collect();
    Ok(InlinedComputation { node, body: pieces, overwritten })
}

/// Rejects a node that would make the statements that use it too costly. The time is that of a look-up for
/// each statement that mentions the node.
fn check_cost(body: &IndexedBody, node: NodeRef) -> Result<(), InlineRejection> {
    let sets = |&top: &usize| body.sets_alone(top, node);
    let own: u64 = body.writers(node).filter(sets).map(|top| body.touches(top).cost).sum();
    let users = body.readers(node).filter(|top| !sets(top)).map(|top| body.touches(top).cost);
    if own > MAX_INLINED_COST || own > CHEAP && own + users.max().unwrap_or(0) > MAX_STATEMENT_COST {
        return Err(InlineRejection::TooCostly { limit: MAX_INLINED_COST });
    }
    Ok(())
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

/// The block with the bodies of serial loops over `0..1` in their place, from the variable `first_new` on.
fn without_single_loops(block: Block, first_new: LoopId) -> Block {
    let mut out = Block::with_capacity(block.len());
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
