//! Constant ends: loops that end where only a run knows have as many iterations as there are at most, so that
//! threads can share them.
//!
//! In `for i in 0..min(L, n) { … }` with independent iterations, `i` takes the values `0..L`, and the body
//! runs in a *guard*, `for _ in 0..min(1, n - i) { … }`: once, or not at all. Threads beyond the end stop at
//! once. Two kinds of nests have no guard, because the shapes that [`map_threads`](super::map_threads) knows
//! must stay visible:
//!
//! * An accumulation takes the neutral element beyond the end: `acc := acc + where(i < n, x, 0)`. This is a
//!   reduction of `L` elements, which threads combine in the order of those; so only class `Fast` does it.
//! * A contraction computes the outputs beyond the end from whatever memory holds there, and stores
//!   `where(i < n, x, T[i])`: the values that were there before.
//!
//! Both read memory beyond the end. Nests whose arrays do not reach to `L` are left as they are, since the
//! verifier does not draw conclusions from guards.

use codegen_core::Workgroups;
use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Block, Bound, Expr, Indices, LoweredRoutine, NodeRef, Range, Stmt, TernaryOp,
    walk,
};
use tnode::{DType, Scalar};

use crate::analysis::nest::{self, Loop, Nest};
use crate::analysis::uses::RoutineUses;
use crate::gpu::accumulation::{self, ScalarAccumulation};
use crate::gpu::context::Gpu;

/// Gives loops constant ends.
pub(crate) fn constant_ends(routine: &mut LoweredRoutine, workgroups: Workgroups, uses: &mut RoutineUses) {
    let mut ends = ConstantEnds { gpu: Gpu::of(routine, workgroups), uses };
    routine.body = ends.block(std::mem::take(&mut routine.body));
}

/// A statement in which every loop that ends at symbols or at another loop has as many iterations as there
/// are at most, as a measure of its work.
pub(crate) fn at_most(stmt: &Stmt) -> Stmt {
    let mut stmt = stmt.clone();
    if let Stmt::For { hi, body, .. } = &mut stmt {
        if hi.condition().is_none() {
            *hi = hi.limit.into();
        }
        *body = body.iter().map(at_most).collect();
    }
    stmt
}

fn has_constant_end(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { hi, .. } => hi.is_constant(),
        _ => true,
    }
}

struct ConstantEnds<'a> {
    gpu: Gpu,
    uses: &'a mut RoutineUses,
}

impl ConstantEnds<'_> {
    fn block(&mut self, block: Block) -> Block {
        block.into_iter().map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&mut self, stmt: Stmt) -> Stmt {
        if walk::stmts(std::slice::from_ref(&stmt)).all(has_constant_end) {
            return stmt;
        }
        let (loops, body) = nest::loops_and_body(&stmt);
        match body {
            _ if loops.is_empty() => stmt,
            [Stmt::SetLocal { .. }] => self.accumulation(&loops, body).unwrap_or(stmt),
            _ => self.nest(&stmt, &loops, body.to_vec()),
        }
    }

    /// A nest whose elements beyond the ends are neutral.
    fn accumulation(&mut self, loops: &[Loop], body: &[Stmt]) -> Option<Stmt> {
        let ends = Ends::of(loops.iter())?;
        let constant = ends.constant(loops);
        let whole = nest::wrap(&constant, body.to_vec()).pop()?;
        let chain = ScalarAccumulation::of(&whole, &self.gpu)?;
        if !self.gpu.fast || !self.is_within(body, &constant) {
            return None;
        }
        let step = chain.masked(|element, neutral| ends.select(element, neutral))?;
        nest::wrap(&constant, vec![Stmt::set_scalar(chain.acc, step)]).pop()
    }

    fn nest(&mut self, stmt: &Stmt, loops: &[Loop], body: Block) -> Stmt {
        let body = self.block(body);
        let names = &self.gpu.names;
        let free = nest::independent_loops(loops, std::slice::from_ref(stmt), names);
        let ends = Ends::of(loops.iter().filter(|l| free.contains(l)));
        let (loops, body) = match ends {
            Some(ends) if self.is_within(&body, &ends.constant(loops)) => {
                let constant = ends.constant(loops);
                let body = self.guarded(&constant, body, &ends);
                (constant, body)
            }
            _ => (loops.to_vec(), body),
        };
        nest::wrap(&loops, body).swap_remove(0)
    }

    /// The body for iterations that may be beyond the ends.
    fn guarded(&mut self, loops: &[Loop], body: Block, ends: &Ends) -> Block {
        let nest = Nest { loops: loops.to_vec(), body };
        if accumulation::is_contraction(&nest, &self.gpu)
            && let Some(body) = with_old_values(&nest.body, ends)
        {
            let stores = body.iter().filter_map(Stmt::store);
            let nodes = stores.filter_map(|(array, ..)| match array {
                ArrayRef::Node(node) => Some(node),
                ArrayRef::Local(_) => None,
            });
            nodes.for_each(|node| self.uses.keeps_part(node));
            return body;
        }
        let guard = Loop { hi: ends.guard(), ..self.gpu.once() };
        nest::wrap(&[guard], nest.body)
    }

    /// Whether all accesses of a body stay in their arrays.
    fn is_within(&mut self, body: &[Stmt], loops: &[Loop]) -> bool {
        self.gpu.names.note(&nest::wrap(loops, body.to_vec()));
        let names = &self.gpu.names;
        let is_inside = |node: NodeRef, index: &Indices, guard: &[Range]| {
            index.iter().zip(names.dims(node)).all(|(index, &dim)| {
                let dim = dim as i64;
                let in_range = |(lo, hi): (i64, i64)| lo >= 0 && hi < dim;
                names.range(index).is_some_and(in_range)
                    || guard.iter().any(|range| range.index == *index && range.lo >= 0 && range.hi <= dim)
            })
        };
        let reads = walk::parts_in(body).all(|part| match part {
            Expr::Get { node, index } | Expr::GetMerge { node, index } => is_inside(*node, index, &[]),
            Expr::GetGuarded { guard, node, index, .. } => is_inside(*node, index, guard),
            Expr::GetDynamic { node, index, .. } => is_inside(*node, index, &[]),
            Expr::GetLocal { index, .. } => index.is_empty(),
            _ => true,
        });
        let writes = walk::stmts(body).all(|stmt| match stmt {
            Stmt::Set { node, index, .. } | Stmt::SetDynamic { node, index, .. } => {
                is_inside(*node, index, &[])
            }
            Stmt::SetLocal { index, .. } => index.is_empty(),
            _ => true,
        });
        reads && writes
    }
}

/// The stores of a contraction with the values that were there before in the place of those beyond the ends;
/// none if it stores otherwise.
fn with_old_values(body: &[Stmt], ends: &Ends) -> Option<Block> {
    let stored = |stmt: &Stmt| match stmt {
        Stmt::Set { node, index, value } => {
            let old = Expr::Get { node: *node, index: index.clone() };
            let value = ends.select(value.clone(), old);
            Some(Stmt::Set { node: *node, index: index.clone(), value })
        }
        Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Log { .. } => None,
        Stmt::Declare { .. } | Stmt::SetLocal { .. } | Stmt::Comment(_) | Stmt::For { .. } => {
            Some(stmt.clone())
        }
    };
    body.iter().map(stored).collect()
}

/// The end of a guard around the iterations for which the stores of a contraction keep no old values; `None`
/// if they keep none at all.
pub(crate) fn guard_of(stores: &[Stmt]) -> Option<Bound> {
    stores.iter().find_map(|stmt| {
        let Stmt::Set { node, index, value: Expr::Ternary { op: TernaryOp::Where, a, c, .. } } = stmt else {
            return None;
        };
        let keeps = **c == Expr::Get { node: *node, index: index.clone() };
        let left = walk::parts(a).filter_map(|part| match part {
            Expr::Index { index, .. } if keeps => Some(index.clone()),
            _ => None,
        });
        let ends = Ends { left: left.collect() };
        let is_whole = !ends.left.is_empty() && ends.condition().as_ref() == Some(&**a);
        is_whole.then(|| ends.guard())
    })
}

/// For each loop and each of its ends, the end less the variable: at least 1 where the loop runs.
struct Ends {
    left: Vec<Affine>,
}

impl Ends {
    /// The ends of loops; `None` if all are constant, or if one is too large to compare or a node ends it.
    fn of<'l>(loops: impl Iterator<Item = &'l Loop>) -> Option<Ends> {
        let mut left = Vec::new();
        for l in loops {
            if l.hi.condition().is_some() || i32::try_from(l.hi.limit).is_err() {
                return None;
            }
            left.extend(l.hi.clips().iter().map(|clip| clip.plus(&Affine::term(l.var, -1))));
        }
        (!left.is_empty()).then_some(Ends { left })
    }

    /// The same loops, except that those with these ends have their limits as ends.
    fn constant(&self, loops: &[Loop]) -> Vec<Loop> {
        let is_ended = |l: &Loop| self.left.iter().any(|left| left.mentions(l.var));
        let constant = |l: &Loop| match is_ended(l) {
            true => Loop { hi: l.hi.limit.into(), ..l.clone() },
            false => l.clone(),
        };
        loops.iter().map(constant).collect()
    }

    /// The end of a loop that runs once if no loop is beyond its end, else never.
    fn guard(&self) -> Bound {
        self.left.iter().cloned().fold(Bound::from(1), Bound::clipped)
    }

    /// `inside`, or `beyond` if a loop is beyond its end.
    fn select(&self, inside: Expr, beyond: Expr) -> Expr {
        match self.condition() {
            Some(condition) => Expr::select(condition, inside, beyond),
            None => inside,
        }
    }

    /// Whether no loop is beyond its end; `None` if there are no ends.
    fn condition(&self) -> Option<Expr> {
        let zero = Expr::Const(Scalar::zero(DType::I32));
        let runs = self.left.iter().map(|left| {
            let left = Expr::Index { index: left.clone(), dtype: DType::I32 };
            Expr::binary(BinaryOp::Lt, zero.clone(), left)
        });
        runs.reduce(|all, next| Expr::binary(BinaryOp::And, all, next))
    }
}
