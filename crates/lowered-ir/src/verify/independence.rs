//! Rules V19 and V20: iterations of vector and parallel loops do not touch each other's data.
//!
//! # When a dimension separates
//!
//! Take a loop over `v` with `n` iterations and all reads and writes in it of one array. In some dimension,
//! let each be indexed by `c·v + outer + inner`, where `inner` collects the terms in variables of loops
//! inside and the constant, and `outer` everything else. The dimension separates the accesses if
//!
//! * all have the same `c ≠ 0` and the same `outer`, and
//! * the `inner` terms can be split in *low* and *high* ones so that, with `W` the width of the smallest
//!   interval that holds the low parts of all accesses (the constants included) and `g` the greatest common
//!   divisor of the coefficients of the high parts: `|c| > W`, and `|c|·(n − 1) + W < g` unless there are no
//!   high terms.
//!
//! Then two different iterations never use the same index: it would make `c·Δ + (difference of low parts)` a
//! multiple of `g` for some `0 < |Δ| < n`, but that number is at least `|c| − W > 0` and at most
//! `|c|·(n − 1) + W < g` in magnitude. This is the reasoning of mixed-radix numbers: low digits, the digit
//! `v`, high digits.
//!
//! Two splits are tried: all terms low, and the terms with a coefficient of at least `|c|·n` high. For a
//! guarded read, the intervals are narrowed by its guard, since the read touches no memory elsewhere. A loop
//! of at most one iteration is always independent. Accesses of locals declared inside the loop are private to
//! an iteration, and the merge buffer is never written.

use std::collections::BTreeSet;

use super::{
    Violation,
    ranges::{Interval, VariableIntervals},
};
use crate::ir::{Affine, ArrayRef, Expr, Guard, IdSet, Indices, LoopId, LoopKind, NodeRef, Stmt, Var, walk};

pub(super) struct CheckedLoop<'r> {
    pub(super) var: LoopId,
    pub(super) kind: LoopKind,
    pub(super) body: &'r [Stmt],
}

/// One read or write in the loop.
struct LoopAccess<'r> {
    array: ArrayRef,
    index: &'r Indices,
    guard: Option<&'r Guard>,
    /// The dimension whose index is a computed value, of which nothing is known.
    computed: Option<usize>,
    write: bool,
    /// The statement, as a path from the loop's body.
    path: Vec<usize>,
}

/// A violation in a statement, as a path from the loop's body.
pub(super) type LoopViolation = (Vec<usize>, Violation);

/// Checks V19 and V20 on a loop whose body keeps all other rules; `ranges` has its variable and those of the
/// loops inside.
pub(super) fn check(
    looped: &CheckedLoop<'_>,
    ranges: &VariableIntervals<'_>,
    name: &dyn Fn(ArrayRef) -> String,
) -> Result<(), LoopViolation> {
    let interval = ranges.of(looped.var.into());
    let mut accesses = LoopAccesses::default();
    accesses.block(looped.body, &mut Vec::new());
    if let Some((path, node)) = accesses.zeroed.into_iter().next() {
        let (kind, var) = (kind(looped.kind), looped.var.to_string());
        return Err((path, Violation::ZeroInLoop { node: name(ArrayRef::Node(node)), kind, var }));
    }
    if interval.lo >= interval.hi {
        return Ok(());
    }
    let inner = walk::loops_in(looped.body);
    let written: BTreeSet<ArrayRef> = accesses.list.iter().filter(|a| a.write).map(|a| a.array).collect();
    for array in written.into_iter().filter(|array| !accesses.own.contains(array)) {
        let all: Vec<&LoopAccess<'_>> = accesses.list.iter().filter(|a| a.array == array).collect();
        let separation = Separation { var: looped.var, interval, inner: &inner, ranges };
        if let Some(guilty) = separation.guilty(&all) {
            let access = if guilty.write { "write" } else { "read" };
            let (kind, var) = (kind(looped.kind), looped.var.to_string());
            return Err((
                guilty.path.clone(),
                Violation::Dependent { array: name(array), access, kind, var },
            ));
        }
    }
    Ok(())
}

pub(super) fn kind(kind: LoopKind) -> &'static str {
    match kind {
        LoopKind::Vector => "vector",
        LoopKind::Workgroup => "workgroup",
        _ => "parallel",
    }
}

/// Everything a body touches.
#[derive(Default)]
struct LoopAccesses<'r> {
    list: Vec<LoopAccess<'r>>,
    zeroed: Vec<(Vec<usize>, NodeRef)>,
    /// The locals it declares.
    own: BTreeSet<ArrayRef>,
}

impl<'r> LoopAccesses<'r> {
    fn block(&mut self, block: &'r [Stmt], path: &mut Vec<usize>) {
        for (i, stmt) in block.iter().enumerate() {
            path.push(i);
            self.stmt(stmt, path);
            path.pop();
        }
    }

    fn stmt(&mut self, stmt: &'r Stmt, path: &mut Vec<usize>) {
        for value in stmt.values() {
            self.reads(value, path);
        }
        match stmt {
            Stmt::For { body, .. } => self.block(body, path),
            Stmt::Set { index, .. } | Stmt::SetLocal { index, .. } => {
                self.store(stmt.array(), index, None, path);
            }
            Stmt::SetDynamic { index, axis, .. } => self.store(stmt.array(), index, Some(*axis), path),
            Stmt::Zero { node } => self.zeroed.push((path.clone(), *node)),
            Stmt::Declare { local, .. } => drop(self.own.insert(ArrayRef::Local(*local))),
            Stmt::Comment(_) | Stmt::Log { .. } => {}
        }
    }

    fn store(
        &mut self,
        array: Option<ArrayRef>,
        index: &'r Indices,
        computed: Option<usize>,
        path: &[usize],
    ) {
        let path = path.to_vec();
        let access = |array| LoopAccess { array, index, guard: None, computed, write: true, path };
        self.list.extend(array.map(access));
    }

    fn reads(&mut self, value: &'r Expr, path: &[usize]) {
        walk::parts(value).for_each(|expr| {
            let (index, guard, computed) = match expr {
                Expr::Get { index, .. } | Expr::GetLocal { index, .. } => (index, None, None),
                Expr::GetGuarded { guard, index, .. } => (index, Some(guard), None),
                Expr::GetDynamic { index, axis, .. } => (index, None, Some(*axis)),
                _ => return,
            };
            let path = path.to_vec();
            let access = |array| LoopAccess { array, index, guard, computed, write: false, path };
            self.list.extend(expr.array().map(access));
        });
    }
}

/// The loop and the intervals that decide whether a dimension separates accesses.
struct Separation<'a> {
    var: LoopId,
    interval: Interval,
    inner: &'a IdSet<LoopId>,
    ranges: &'a VariableIntervals<'a>,
}

impl Separation<'_> {
    /// An access because of which no dimension separates all accesses. It is a write if the writes alone are
    /// not separated.
    fn guilty<'s, 'r>(&self, accesses: &[&'s LoopAccess<'r>]) -> Option<&'s LoopAccess<'r>> {
        if self.separated(accesses) {
            return None;
        }
        let writes: Vec<&LoopAccess<'_>> = accesses.iter().copied().filter(|a| a.write).collect();
        let first_write = accesses.iter().copied().find(|a| a.write);
        if !self.separated(&writes) {
            return first_write;
        }
        let alone_is_fine = |read: &&'s LoopAccess<'r>| {
            let mut with: Vec<&LoopAccess<'_>> = writes.clone();
            with.push(read);
            self.separated(&with)
        };
        accesses.iter().copied().filter(|a| !a.write).find(|read| !alone_is_fine(read)).or(first_write)
    }

    fn separated(&self, accesses: &[&LoopAccess<'_>]) -> bool {
        let rank = accesses.first().map_or(0, |a| a.index.len());
        (0..rank).any(|dim| self.separates(dim, accesses))
    }

    fn separates(&self, dim: usize, accesses: &[&LoopAccess<'_>]) -> bool {
        let Some(first) = accesses.first().map(|a| &a.index[dim]) else { return true };
        if accesses.iter().any(|a| a.computed == Some(dim)) {
            return false;
        }
        let (c, outer) = (first.coefficient(self.var), self.outer(first));
        let alike = |a: &&LoopAccess<'_>| {
            a.index[dim].coefficient(self.var) == c && self.outer(&a.index[dim]) == outer
        };
        if c == 0 || !accesses.iter().all(alike) {
            return false;
        }
        let n = i128::from(self.interval.hi) - i128::from(self.interval.lo) + 1;
        let c = i128::from(c).abs();
        [i128::MAX, c * n].into_iter().any(|high| self.split_separates(dim, accesses, c, n, high))
    }

    /// Whether the dimension separates the accesses if the terms with a coefficient of at least `high` are
    /// the high terms.
    fn split_separates(
        &self,
        dim: usize,
        accesses: &[&LoopAccess<'_>],
        c: i128,
        n: i128,
        high: i128,
    ) -> bool {
        let mut low: Option<(i128, i128)> = None;
        let mut g = 0;
        for access in accesses {
            let index = &access.index[dim];
            let Some((lo, hi)) = self.low(access, index, high) else { continue };
            low = Some(low.map_or((lo, hi), |(a, b)| (a.min(lo), b.max(hi))));
            g = index
                .terms()
                .iter()
                .filter(|t| self.is_high(t, high))
                .fold(g, |g, t| gcd(g, i128::from(t.1)));
        }
        let Some((lo, hi)) = low else { return true };
        let width = hi - lo;
        c > width && (g == 0 || c * (n - 1) + width < g)
    }

    fn is_inner(&self, var: Var) -> bool {
        matches!(var, Var::Loop(var) if self.inner.contains(&var))
    }

    fn is_high(&self, &(var, coefficient): &(Var, i64), high: i128) -> bool {
        self.is_inner(var) && i128::from(coefficient).abs() >= high
    }

    /// The terms that are the same for all iterations.
    fn outer(&self, index: &Affine) -> Affine {
        let mut outer = Affine::default();
        for &(var, coefficient) in index.terms() {
            if !self.is_inner(var) && var != Var::Loop(self.var) {
                outer.add_term(var, coefficient);
            }
        }
        outer
    }

    /// The interval of the constant and the low terms, or `None` if the access never happens.
    fn low(&self, access: &LoopAccess<'_>, index: &Affine, high: i128) -> Option<(i128, i128)> {
        let no_guard = Guard::new();
        let ranges = self.ranges.narrowed(access.guard.unwrap_or(&no_guard));
        if ranges.is_vacant(index) {
            return None;
        }
        let start = i128::from(index.offset());
        let low = index.terms().iter().filter(|t| self.is_inner(t.0) && !self.is_high(t, high));
        Some(low.fold((start, start), |(lo, hi), &(var, coefficient)| {
            let (c, interval) = (i128::from(coefficient), ranges.of(var));
            let (a, b) = (c * i128::from(interval.lo), c * i128::from(interval.hi));
            (lo + a.min(b), hi + a.max(b))
        }))
    }
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}
