//! Instantiates a producer for one element: as an expression where possible, else as statements on a fresh
//! local.
//!
//! Each setter nest is solved for the iterations that set the element. Loops with known variables are
//! dropped. The remaining conditions select between the value that the nest stores and the earlier value of
//! the local, so nests that set other elements leave the local unchanged. Both values are evaluated; the
//! reads of the nest's value are guarded.

use std::collections::BTreeMap;

use tnode::{DType, Scalar};

use crate::ir::{
    Affine, BinaryOp, Block, Expr, Fresh, Guard, IdSet, Indices, LocalId, LoopId, LoopKind, LoweredRoutine,
    Range, Stmt, Var, walk,
};
use crate::passes::cost::{cost, depth};
use crate::passes::ranges::Ranges;
use crate::passes::solve::{Solution, StoreTarget, Unsolvable, solve};
use crate::text;

use super::producer::{Producer, SetterNest};
use super::protect::Protection;
use super::rename::{rename, renamed};
use super::statement_position::{self, StatementPosition};
use super::{InlineRejection, single_element};

/// A read of the node by a statement: the element and its guard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ElementUse {
    /// The element.
    pub(super) index: Indices,
    /// The condition of the read; `None` for always.
    pub(super) guard: Option<Guard>,
}

/// The computation for one use.
pub(super) struct ElementInstance {
    /// The statements to run just before the using statement.
    pub(super) prelude: Block,
    /// The element's value.
    pub(super) value: Expr,
}

/// The context of an instantiation.
pub(super) struct UseSite<'a> {
    /// The ranges of the variables in scope and of copied loops.
    pub(super) ranges: &'a mut Ranges,
    /// Unused identifiers.
    pub(super) fresh: &'a mut Fresh,
    /// The tables of the routine being rewritten.
    pub(super) routine: &'a LoweredRoutine,
    /// The position in the body of the outermost statement around the use.
    pub(super) top: usize,
    /// The position of the use within that statement.
    pub(super) place: &'a StatementPosition,
    /// Set if the computation of an element was more than a renaming of variables, so that the result must be
    /// verified.
    pub(super) rewritten: &'a mut bool,
}

/// Computes the element that `wanted` reads; `shared` says that the statement uses the value more than once.
pub(super) fn instantiate(
    producer: &Producer,
    wanted: &ElementUse,
    shared: bool,
    site: &mut UseSite<'_>,
) -> Result<ElementInstance, InlineRejection> {
    let local = site.fresh.local_id();
    let mut stmts = Block::new();
    for piece in &producer.pieces {
        let Some(part) = repeat(producer, piece, wanted, local, site)? else { continue };
        if replaces(&part, local) {
            stmts.clear();
        }
        stmts.extend(part);
    }
    Ok(collapse(stmts, local, shared, producer.dtype))
}

/// Whether the statements are a store to the local that does not read it.
fn replaces(stmts: &[Stmt], local: LocalId) -> bool {
    matches!(stmts, [Stmt::SetLocal { local: l, .. }] if *l == local) && !reads(stmts, local)
}

/// The value of a guarded read: `value` where the guard holds, else `otherwise`; `None` if values of that
/// type cannot be chosen.
///
/// If the value is a single read guarded by `whole`, which implies the guard, the result is that read with
/// `otherwise` as its alternative.
pub(super) fn select(
    guard: &Guard,
    whole: &Guard,
    value: Expr,
    otherwise: Expr,
    dtype: DType,
) -> Option<Expr> {
    if let Expr::GetGuarded { guard: own, node, index, .. } = &value
        && own == whole
    {
        let (guard, index) = (own.clone(), index.clone());
        return Some(Expr::GetGuarded { guard, node: *node, index, otherwise: Box::new(otherwise) });
    }
    let holds = guard.iter().map(holds).reduce(|a, b| Expr::binary(BinaryOp::And, a, b));
    match holds {
        None => Some(value),
        Some(_) if dtype == DType::U32x4 => None,
        Some(holds) => Some(Expr::select(holds, value, otherwise)),
    }
}

/// The condition of a range as a value.
fn holds(range: &Range) -> Expr {
    let limit = |x| Expr::Const(Scalar::from_i64(DType::I64, x));
    let index = || Expr::Index { index: range.index.clone(), dtype: DType::I64 };
    if range.lo.checked_add(1) == Some(range.hi) {
        return Expr::binary(BinaryOp::Eq, index(), limit(range.lo));
    }
    let above = Expr::binary(BinaryOp::Le, limit(range.lo), index());
    let below = Expr::binary(BinaryOp::Lt, index(), limit(range.hi));
    Expr::binary(BinaryOp::And, above, below)
}

/// The statements of the nest for the element, storing to `local`; `None` if the nest does not reach it.
fn repeat(
    producer: &Producer,
    piece: &SetterNest,
    wanted: &ElementUse,
    local: LocalId,
    site: &mut UseSite<'_>,
) -> Result<Option<Block>, InlineRejection> {
    let mut nest = vec![piece.stmt.clone()];
    let names = rename(&mut nest, site.fresh);
    site.ranges.add(&nest);
    let Some(solution) = solved(piece, &names, wanted, site)? else { return Ok(None) };
    let value_of = |var: LoopId| solution.values.get(names.get(&var)?).cloned();
    let done = |setter: &StatementPosition| statement_position::is_done(setter, site.place, value_of);
    if piece.top == site.top && !piece.setters.iter().all(done) {
        return Err(InlineRejection::SetAfterUse);
    }
    if let Some(kept) = solution.kept.first()
        && !site.routine.node(producer.node).mode.known_virtual()
    {
        return Err(InlineRejection::Search { index: index_with(piece, *kept, &names, site.routine) });
    }
    let is_known = |(var, new): (&LoopId, &LoopId)| solution.values.contains_key(new).then_some(*var);
    single_element::check(&piece.stmt, &names.iter().filter_map(is_known).collect(), solution.inverted)?;
    walk::map_indices(&mut nest, &mut |index| in_solution(index, &solution));
    site.ranges.add(&nest);
    let plain = |value: &Affine| value.as_var().is_some() || value.as_constant().is_some();
    *site.rewritten |=
        wanted.guard.is_some() || !solution.conditions.is_empty() || !solution.values.values().all(plain);
    let mut emit =
        InstanceEmitter { producer, local, solution: &solution, wanted, ahead: walk::loops_in(&nest), site };
    emit.block(nest).map(Some)
}

fn in_solution(index: &Affine, solution: &Solution) -> Affine {
    let known = |var: &(crate::ir::Var, i64)| match var.0 {
        crate::ir::Var::Loop(id) => solution.values.get(&id).map(|value| (id, value)),
        crate::ir::Var::Symbol(_) => None,
    };
    let found: Vec<_> = index.terms().iter().filter_map(known).collect();
    found.into_iter().fold(index.clone(), |index, (id, value)| index.substitute(id, value))
}

fn solved(
    piece: &SetterNest,
    names: &BTreeMap<LoopId, LoopId>,
    wanted: &ElementUse,
    site: &UseSite<'_>,
) -> Result<Option<Solution>, InlineRejection> {
    let index: Indices = piece.index.iter().map(|i| renamed(i, names)).collect();
    let loops: Vec<LoopId> = piece.loops.iter().filter_map(|var| names.get(var)).copied().collect();
    let always = Guard::new();
    let guard = wanted.guard.as_ref().unwrap_or(&always);
    let print = |dim: usize| text::print_index(site.routine, &piece.index[dim]);
    solve(StoreTarget { index: &index, loops: &loops }, &wanted.index, guard, site.ranges).map_err(
        |e| match e {
            Unsolvable::Division(dim) => InlineRejection::IndexNotInvertible { index: print(dim) },
            Unsolvable::Order(dim) => InlineRejection::Reordered { index: print(dim) },
        },
    )
}

/// The text of the index of the nest that mentions a loop variable. `var` is the new name of the variable.
fn index_with(
    piece: &SetterNest,
    var: LoopId,
    names: &BTreeMap<LoopId, LoopId>,
    routine: &LoweredRoutine,
) -> String {
    let mentions = |index: &&Affine| renamed(index, names).mentions(var);
    piece.index.iter().find(mentions).map_or_else(String::new, |index| text::print_index(routine, index))
}

/// Turns a nest into the statements for one element.
struct InstanceEmitter<'a, 's> {
    producer: &'a Producer,
    local: LocalId,
    solution: &'a Solution,
    wanted: &'a ElementUse,
    /// The loops of the nest that are not around the current statement.
    ahead: IdSet<LoopId>,
    site: &'a mut UseSite<'s>,
}

impl InstanceEmitter<'_, '_> {
    fn block(&mut self, block: Block) -> Result<Block, InlineRejection> {
        let mut out = Block::with_capacity(block.len());
        for stmt in block {
            match stmt {
                Stmt::For { var, body, .. } if self.solution.values.contains_key(&var) => {
                    out.extend(self.block(body)?);
                }
                Stmt::For { var, lo, hi, kind, body } => {
                    self.ahead.remove(&var);
                    let body = self.block(body)?;
                    self.ahead.insert(var);
                    let kind = if kind == LoopKind::Unrolled { kind } else { LoopKind::Serial };
                    out.push(Stmt::For { var, lo, hi, kind, body });
                }
                Stmt::Set { value, .. } => out.push(self.store(value)?),
                Stmt::SetLocal { local, index, value } => {
                    let value = self.protection().value(value, self.site)?;
                    out.push(Stmt::SetLocal { local, index, value });
                }
                Stmt::Declare { .. } => out.push(stmt),
                // Setter nests hold none of these.
                Stmt::SetDynamic { .. } | Stmt::Zero { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
            }
        }
        Ok(out)
    }

    /// `local := value` where this iteration sets the element.
    fn store(&mut self, value: Expr) -> Result<Stmt, InlineRejection> {
        let protection = self.protection();
        let value = protection.value(value, self.site)?;
        let before = Expr::local(self.local);
        let chosen = select(&self.solution.conditions, &protection.guard, value, before, self.producer.dtype);
        let value = chosen.ok_or(InlineRejection::Unguardable { what: "a value of type u32x4" })?;
        Ok(Stmt::set_scalar(self.local, value))
    }

    /// The guard of reads at this place: that of the use and the conditions whose variables are in scope.
    fn protection(&self) -> Protection {
        let mut guard = self.wanted.guard.clone().unwrap_or_default();
        let is_ahead = |&(var, _): &(Var, i64)| matches!(var, Var::Loop(id) if self.ahead.contains(&id));
        let in_scope = |range: &&Range| !range.index.terms().iter().any(is_ahead);
        for range in self.solution.conditions.iter().filter(in_scope) {
            if !guard.contains(range) {
                guard.push(range.clone());
            }
        }
        Protection { node: self.producer.node, local: self.local, guard }
    }
}

/// The maximum depth of a value; deeper values are bound to a local, so that chains of virtual nodes do not
/// build ever deeper expressions.
pub(super) const MAX_DEPTH: usize = 32;

/// Turns statements that compute `local` into the shortest instance.
///
/// Straight-line stores to the local fold into one expression; a last store that nothing else depends on
/// becomes the value. A value used more than once stays in the local unless repeating it costs next to
/// nothing.
fn collapse(mut stmts: Block, local: LocalId, shared: bool, dtype: DType) -> ElementInstance {
    if let Some(value) = fold(&stmts, local, dtype)
        && (!shared || cost(&value) <= 1)
        && depth(&value) <= MAX_DEPTH
    {
        return ElementInstance { prelude: Block::new(), value };
    }
    if !shared
        && stores(&stmts, local) == 1
        && !reads(&stmts, local)
        && let Some(Stmt::SetLocal { local: last, value, .. }) = stmts.last()
        && *last == local
        && depth(value) <= MAX_DEPTH
    {
        let value = value.clone();
        stmts.pop();
        return ElementInstance { prelude: stmts, value };
    }
    let mut prelude = vec![Stmt::scalar(local, dtype)];
    prelude.append(&mut stmts);
    ElementInstance { prelude, value: Expr::local(local) }
}

/// The value after straight-line stores to the local, if folding them repeats no work.
fn fold(stmts: &[Stmt], local: LocalId, dtype: DType) -> Option<Expr> {
    let mut current = Expr::Const(Scalar::zero(dtype));
    for stmt in stmts {
        let Stmt::SetLocal { local: target, value, .. } = stmt else { return None };
        if *target != local {
            return None;
        }
        let uses = walk::parts(value)
            .filter(|part| matches!(part, Expr::GetLocal { local: l, .. } if *l == local))
            .count();
        if uses > 1 && cost(&current) > 1 {
            return None;
        }
        current = walk::map_expr(value.clone(), &mut |e| match e {
            Expr::GetLocal { local: l, .. } if l == local => current.clone(),
            other => other,
        });
    }
    Some(current)
}

fn stores(stmts: &[Stmt], local: LocalId) -> usize {
    walk::stmts(stmts).filter(|stmt| matches!(stmt, Stmt::SetLocal { local: l, .. } if *l == local)).count()
}

fn reads(stmts: &[Stmt], local: LocalId) -> bool {
    super::Effects::of(stmts).local_reads.contains(&local)
}
