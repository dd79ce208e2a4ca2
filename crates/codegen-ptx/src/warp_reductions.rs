//! Finds tree reductions whose steps a warp can do with shuffles, without barriers and without storing
//! partial results.
//!
//! The scheduler emits a tree reduction as several steps. Each thread `t` first stores its result into
//! `first[t]`. A step of workgroup loops then stores `f(from[n g + i], from[n g + i + c], …)` into
//! `to[m g + i]`, which leaves `m` of `n` results in each group `g`. If a group is a warp, or the only group
//! is part of a warp, the results stay in registers: result `n g + i` in lane `i` of warp `g`. A step then
//! reads its operands from other lanes. Operands are combined in the same pairs, so no bit changes.

use std::collections::{BTreeMap, HashMap};

use codegen_core::DType;
use codegen_core::ir::{Affine, Expr, LocalId, Locals, LoopId, LoopKind, LoweredRoutine, Space, Stmt, walk};
use codegen_core::threads::{FusedStatements, Nest, nest};

/// Lanes of a warp.
pub(crate) const LANES: i64 = 32;

/// The input of the first step: `to[t] := value`, where `t` is the linear index of the nested loops.
#[derive(Clone, Debug)]
pub(crate) struct ReductionInput<'k> {
    /// The loops with their numbers of iterations.
    pub(crate) axes: Vec<(LoopId, u32)>,
    pub(crate) threads: i64,
    pub(crate) to: LocalId,
    pub(crate) value: &'k Expr,
}

/// A step: `to[left group + at] := value` for `at` in `0..left`, where `value` reads elements `from[before
/// group + at + constant]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReductionStep<'k> {
    /// The loop over groups, if there are several.
    pub(crate) group: Option<LoopId>,
    pub(crate) groups: i64,
    pub(crate) at: LoopId,
    pub(crate) left: i64,
    pub(crate) to: LocalId,
    pub(crate) value: &'k Expr,
}

impl ReductionStep<'_> {
    /// The index of a result, for groups of `each` results.
    fn index(&self, each: i64) -> Affine {
        let at = Affine::var(self.at);
        self.group.map_or(at.clone(), |group| at.plus(&Affine::term(group, each)))
    }

    /// The distance from a result to an element at `index` of the step before, whose groups had `before`
    /// results; `None` if it is not constant.
    pub(crate) fn distance(&self, before: i64, index: &Affine) -> Option<i64> {
        index.plus(&self.index(before).times(-1)).as_constant()
    }
}

/// A reduction by warp shuffles: the input and the steps that combine it.
#[derive(Clone, Debug)]
pub(crate) struct WarpReduction<'k> {
    pub(crate) first: ReductionInput<'k>,
    pub(crate) steps: Vec<ReductionStep<'k>>,
}

/// The warp reductions of a kernel, by their first statement.
#[derive(Debug, Default)]
pub(crate) struct WarpReductions<'k> {
    pub(crate) by_stmt: HashMap<*const Stmt, WarpReduction<'k>>,
    pub(crate) fused: FusedStatements,
}

impl<'k> WarpReductions<'k> {
    /// Finds the warp reductions of a kernel with blocks of `threads` threads.
    pub(crate) fn of(kernel: &'k LoweredRoutine, threads: u32) -> WarpReductions<'k> {
        let mut warp_reductions = WarpReductions::default();
        if i64::from(threads) >= LANES {
            let search = ReductionFinder { locals: kernel.locals(), mentions: mentions(kernel) };
            search.block(&kernel.body, &mut warp_reductions);
        }
        warp_reductions
    }
}

/// For each local, the number of statements that store into it and of expressions that read it.
fn mentions(kernel: &LoweredRoutine) -> BTreeMap<LocalId, (usize, usize)> {
    let mut found: BTreeMap<LocalId, (usize, usize)> = BTreeMap::new();
    for stmt in walk::stmts(&kernel.body) {
        if let Stmt::SetLocal { local, .. } = stmt {
            found.entry(*local).or_default().0 += 1;
        }
    }
    for e in walk::parts_in(&kernel.body) {
        if let Expr::GetLocal { local, .. } = e {
            found.entry(*local).or_default().1 += 1;
        }
    }
    found
}

struct ReductionFinder {
    locals: Locals,
    mentions: BTreeMap<LocalId, (usize, usize)>,
}

impl ReductionFinder {
    fn block<'k>(&self, block: &'k [Stmt], warp_reductions: &mut WarpReductions<'k>) {
        let mut at = 0;
        while at < block.len() {
            let Some(warp_reduction) = self.reduction(&block[at..]) else {
                if let Stmt::For { body, kind, .. } = &block[at]
                    && *kind != LoopKind::Workgroup
                {
                    self.block(body, warp_reductions);
                }
                at += 1;
                continue;
            };
            let first = std::ptr::from_ref(&block[at]);
            at += 1 + warp_reduction.steps.len();
            warp_reductions.fused.runs.insert(first, 1 + warp_reduction.steps.len());
            warp_reductions.fused.hidden.insert(warp_reduction.first.to);
            warp_reductions
                .fused
                .hidden
                .extend(warp_reduction.steps[..warp_reduction.steps.len() - 1].iter().map(|step| step.to));
            warp_reductions.by_stmt.insert(first, warp_reduction);
        }
    }

    /// The warp reduction that begins with the first of these statements.
    fn reduction<'k>(&self, block: &'k [Stmt]) -> Option<WarpReduction<'k>> {
        let (first, rest) = block.split_first()?;
        let first = self.first(first)?;
        let mut steps: Vec<ReductionStep<'k>> = Vec::new();
        for stmt in rest {
            let Some(next) = self.step(stmt).filter(|next| self.follows(&first, steps.last(), next)) else {
                break;
            };
            steps.push(next);
        }
        (!steps.is_empty()).then_some(WarpReduction { first, steps })
    }

    fn first<'k>(&self, stmt: &'k Stmt) -> Option<ReductionInput<'k>> {
        let (Nest { axes, threads, .. }, index, to, value) = self.stores(stmt)?;
        let number = axes.iter().fold(Affine::constant(0), |number, &(var, extent)| {
            number.times(extent.into()).plus(&Affine::var(var))
        });
        let threads = i64::from(threads);
        // Lanes without a thread index must not read memory for values that nothing uses.
        let may_read = threads % LANES == 0;
        let is_own = walk::parts(value).all(|e| may_read && is_local(e) || self.is_own(e));
        (is_own && *index == number && threads > 1).then_some(ReductionInput { axes, threads, to, value })
    }

    /// Whether a thread computes an expression from its own registers, whatever its index.
    fn is_own(&self, e: &Expr) -> bool {
        match e {
            Expr::GetLocal { local, .. } => {
                self.locals.get(local).is_some_and(|decl| decl.space != Space::Workgroup)
            }
            e => is_arithmetic(e),
        }
    }

    fn step<'k>(&self, stmt: &'k Stmt) -> Option<ReductionStep<'k>> {
        let (Nest { axes, .. }, index, to, value) = self.stores(stmt)?;
        let (group, groups, at, left) = match *axes.as_slice() {
            [(at, left)] => (None, 1, at, left),
            [(group, groups), (at, left)] => (Some(group), groups, at, left),
            _ => return None,
        };
        let step = ReductionStep { group, groups: groups.into(), at, left: left.into(), to, value };
        (*index == step.index(step.left)).then_some(step)
    }

    /// Matches workgroup loops that store one element of a shared array.
    fn stores<'k>(&self, stmt: &'k Stmt) -> Option<(Nest<'k>, &'k Affine, LocalId, &'k Expr)> {
        let Stmt::For { kind: LoopKind::Workgroup, .. } = stmt else { return None };
        let nest = nest(stmt).ok()?;
        let Stmt::SetLocal { local, index, value } = codegen_core::threads::sole(nest.body)? else {
            return None;
        };
        let decl = self.locals.get(local)?;
        let is_array = decl.space == Space::Workgroup && decl.dtype != DType::U32x4;
        let [index] = &index[..] else { return None };
        is_array.then_some((nest, index, *local, value))
    }

    /// Whether a step reads all its operands from the results before it, no other statement reads these, and
    /// shuffles can reach them.
    fn follows(
        &self,
        first: &ReductionInput<'_>,
        last: Option<&ReductionStep<'_>>,
        next: &ReductionStep<'_>,
    ) -> bool {
        let (from, before) = match last {
            None => (first.to, first.threads / next.groups),
            Some(last) => (last.to, last.left),
        };
        let (mut reads, mut found) = (0, true);
        walk::parts(next.value).for_each(|e| match e {
            Expr::GetLocal { local, index } if *local == from => {
                let distance = index.first().and_then(|index| next.distance(before, index));
                found &= distance.is_some_and(|distance| distance >= 0 && distance + next.left <= before);
                reads += 1;
            }
            e => found &= is_arithmetic(e),
        });
        let is_whole = first.threads == before * next.groups || last.is_some();
        let in_warps = match next.groups {
            1 => first.threads <= LANES,
            groups => first.threads == groups * LANES,
        };
        let same_groups = last.is_none_or(|last| last.groups == next.groups);
        found && is_whole && in_warps && same_groups && self.mentions.get(&from) == Some(&(1, reads))
    }
}

fn is_local(e: &Expr) -> bool {
    matches!(e, Expr::GetLocal { .. })
}

fn is_arithmetic(e: &Expr) -> bool {
    matches!(
        e,
        Expr::Const(_)
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Ternary { .. }
            | Expr::Convert { .. }
            | Expr::Bitcast { .. }
    )
}
