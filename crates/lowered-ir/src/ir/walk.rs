//! Visiting and rewriting statements and expressions, so that a pass writes only the cases it is about.

use std::cell::Cell;

use smallvec::SmallVec;

use super::{Affine, ArrayRef, Expr, IdSet, Indices, LocalId, LoopId, Stmt, Var};

thread_local! {
    static VISITS: Cell<u64> = const { Cell::new(0) };
}

/// The number of statements and parts of expressions that this thread has visited with the functions of this
/// module: a measure of work that is the same on every machine, for tests. Visits are counted if debug
/// assertions are on; otherwise the result is 0.
pub fn visits() -> u64 {
    VISITS.get()
}

fn count_visit() {
    if cfg!(debug_assertions) {
        VISITS.set(VISITS.get() + 1);
    }
}

/// The statements of a block and of its loops, outer before inner, in order.
pub fn stmts(block: &[Stmt]) -> Stmts<'_> {
    Stmts { block: block.iter(), outer: SmallVec::new() }
}

/// The iterator of [`stmts`].
pub struct Stmts<'a> {
    block: std::slice::Iter<'a, Stmt>,
    /// What is left of the blocks around `block`.
    outer: SmallVec<[std::slice::Iter<'a, Stmt>; 4]>,
}

impl<'a> Iterator for Stmts<'a> {
    type Item = &'a Stmt;

    #[inline]
    fn next(&mut self) -> Option<&'a Stmt> {
        loop {
            let Some(stmt) = self.block.next() else {
                self.block = self.outer.pop()?;
                continue;
            };
            count_visit();
            if let Stmt::For { body, .. } = stmt {
                self.outer.push(std::mem::replace(&mut self.block, body.iter()));
            }
            return Some(stmt);
        }
    }

    // Recursion needs no list of blocks, so `for_each` is faster than `for`.
    fn fold<B, F: FnMut(B, &'a Stmt) -> B>(mut self, init: B, mut f: F) -> B {
        let mut folded = fold_stmts(self.block, init, &mut f);
        while let Some(block) = self.outer.pop() {
            folded = fold_stmts(block, folded, &mut f);
        }
        folded
    }
}

fn fold_stmts<'a, B>(block: std::slice::Iter<'a, Stmt>, init: B, f: &mut impl FnMut(B, &'a Stmt) -> B) -> B {
    block.fold(init, |folded, stmt| {
        count_visit();
        let folded = f(folded, stmt);
        match stmt {
            Stmt::For { body, .. } => fold_stmts(body.iter(), folded, f),
            _ => folded,
        }
    })
}

/// The variables of the loops inside a block.
pub fn loops_in(block: &[Stmt]) -> IdSet<LoopId> {
    let var = |stmt: &Stmt| match stmt {
        Stmt::For { var, .. } => Some(*var),
        _ => None,
    };
    stmts(block).filter_map(var).collect()
}

/// The values that the statements of a block and of its loops evaluate, in order.
pub fn values(block: &[Stmt]) -> impl Iterator<Item = &Expr> {
    stmts(block).flat_map(Stmt::values)
}

/// The expression and all its parts, outer before inner, left to right.
pub fn parts(expr: &Expr) -> ExprParts<'_> {
    ExprParts { next: Some(expr), later: SmallVec::new() }
}

/// The iterator of [`parts`].
pub struct ExprParts<'a> {
    next: Option<&'a Expr>,
    /// The operands after `next`, the last one first.
    later: SmallVec<[&'a Expr; 6]>,
}

impl<'a> Iterator for ExprParts<'a> {
    type Item = &'a Expr;

    #[inline]
    fn next(&mut self) -> Option<&'a Expr> {
        let part = self.next.take().or_else(|| self.later.pop())?;
        count_visit();
        // The first operand comes last, and stays in `next`.
        part.each_child_backwards(|child| self.later.extend(self.next.replace(child)));
        Some(part)
    }

    // Recursion needs no list of operands, so `for_each` is faster than `for`.
    fn fold<B, F: FnMut(B, &'a Expr) -> B>(mut self, init: B, mut f: F) -> B {
        let mut folded = init;
        while let Some(expr) = self.next.take().or_else(|| self.later.pop()) {
            folded = fold_parts(expr, folded, &mut f);
        }
        folded
    }
}

fn fold_parts<'a, B>(expr: &'a Expr, init: B, f: &mut impl FnMut(B, &'a Expr) -> B) -> B {
    count_visit();
    let folded = f(init, expr);
    match expr {
        Expr::Const(_)
        | Expr::Index { .. }
        | Expr::Get { .. }
        | Expr::GetMerge { .. }
        | Expr::GetLocal { .. } => folded,
        Expr::GetGuarded { otherwise: arg, .. }
        | Expr::Unary { arg, .. }
        | Expr::Convert { arg, .. }
        | Expr::Bitcast { arg, .. }
        | Expr::Lane { arg, .. } => fold_parts(arg, folded, f),
        Expr::GetDynamic { at: a, otherwise: b, .. } | Expr::Binary { a, b, .. } => {
            let folded = fold_parts(a, folded, f);
            fold_parts(b, folded, f)
        }
        Expr::Ternary { a, b, c, .. } => {
            let folded = fold_parts(a, folded, f);
            let folded = fold_parts(b, folded, f);
            fold_parts(c, folded, f)
        }
        Expr::Lanes(lanes) => lanes.iter().fold(folded, |folded, lane| fold_parts(lane, folded, f)),
    }
}

/// All parts of the values that the statements of a block and of its loops evaluate.
pub fn parts_in(block: &[Stmt]) -> impl Iterator<Item = &Expr> {
    values(block).flat_map(parts)
}

/// Rebuilds an expression bottom-up: children first, then `f` on the node with its new children.
pub fn map_expr(mut expr: Expr, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
    map_in_place(&mut expr, f);
    expr
}

fn map_in_place(expr: &mut Expr, f: &mut impl FnMut(Expr) -> Expr) {
    count_visit();
    each_child_mut(expr, &mut |child| map_in_place(child, f));
    *expr = f(std::mem::replace(expr, placeholder()));
}

/// Rebuilds an expression from the images of its direct children.
pub fn map_children(mut expr: Expr, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
    count_visit();
    each_child_mut(&mut expr, &mut |child| *child = f(std::mem::replace(child, placeholder())));
    expr
}

/// Calls `f` with the operands of the outermost operation, left to right.
pub fn each_child_mut(expr: &mut Expr, f: &mut impl FnMut(&mut Expr)) {
    match expr {
        Expr::Const(_)
        | Expr::Index { .. }
        | Expr::Get { .. }
        | Expr::GetMerge { .. }
        | Expr::GetLocal { .. } => {}
        Expr::GetGuarded { otherwise: arg, .. }
        | Expr::Unary { arg, .. }
        | Expr::Convert { arg, .. }
        | Expr::Bitcast { arg, .. }
        | Expr::Lane { arg, .. } => f(arg),
        Expr::GetDynamic { at: a, otherwise: b, .. } | Expr::Binary { a, b, .. } => {
            f(a);
            f(b);
        }
        Expr::Ternary { a, b, c, .. } => {
            f(a);
            f(b);
            f(c);
        }
        Expr::Lanes(lanes) => lanes.iter_mut().for_each(f),
    }
}

/// Rewrites with `f` every value that the statements of the block and of its loops evaluate.
pub fn map_values(block: &mut [Stmt], f: &mut impl FnMut(Expr) -> Expr) {
    for stmt in block {
        map_own_values(stmt, f);
        if let Stmt::For { body, .. } = stmt {
            map_values(body, f);
        }
    }
}

/// Rewrites with `f` every value that the statement itself evaluates.
pub fn map_own_values(stmt: &mut Stmt, f: &mut impl FnMut(Expr) -> Expr) {
    count_visit();
    for value in stmt.values_mut() {
        let old = std::mem::replace(value, placeholder());
        *value = f(old);
    }
}

/// Rewrites with `f`, bottom-up, every part of the values that the statements of the block and of its loops
/// evaluate.
pub fn map_parts(block: &mut [Stmt], f: &mut impl FnMut(Expr) -> Expr) {
    for stmt in block {
        map_own_parts(stmt, f);
        if let Stmt::For { body, .. } = stmt {
            map_parts(body, f);
        }
    }
}

/// Rewrites with `f`, bottom-up, every part of the values that the statement itself evaluates.
pub fn map_own_parts(stmt: &mut Stmt, f: &mut impl FnMut(Expr) -> Expr) {
    count_visit();
    stmt.values_mut().into_iter().for_each(|value| map_in_place(value, f));
}

/// A value that stands in for an expression while that expression is being rewritten.
fn placeholder() -> Expr {
    Expr::local(LocalId(u32::MAX))
}

/// Rewrites every index in an expression: of reads, embedded indices and guards.
pub fn map_expr_indices(mut expr: Expr, f: &mut impl FnMut(&Affine) -> Affine) -> Expr {
    map_indices_in_place(&mut expr, f);
    expr
}

fn map_indices_in_place(expr: &mut Expr, f: &mut impl FnMut(&Affine) -> Affine) {
    count_visit();
    each_child_mut(expr, &mut |child| map_indices_in_place(child, f));
    map_own_indices(expr, f);
}

/// Rewrites the indices of the outermost operation: of a read, of its guard, or the embedded one.
pub fn map_own_indices(expr: &mut Expr, f: &mut impl FnMut(&Affine) -> Affine) {
    match expr {
        Expr::Get { index, .. }
        | Expr::GetMerge { index, .. }
        | Expr::GetLocal { index, .. }
        | Expr::GetDynamic { index, .. } => index.map(f),
        Expr::GetGuarded { guard, index, .. } => {
            guard.iter_mut().for_each(|range| range.index = f(&range.index));
            index.map(f);
        }
        Expr::Index { index, .. } => *index = f(index),
        _ => {}
    }
}

/// Rewrites every index of the block: those of stores, those in the values that statements evaluate, and the
/// ends of loops.
pub fn map_indices(block: &mut [Stmt], f: &mut impl FnMut(&Affine) -> Affine) {
    for stmt in block {
        count_visit();
        stmt.target_mut().into_iter().for_each(|index| index.map(f));
        stmt.values_mut().into_iter().for_each(|value| map_indices_in_place(value, f));
        if let Stmt::For { hi, body, .. } = stmt {
            if !hi.is_constant() {
                *hi = hi.map(&mut *f);
            }
            map_indices(body, f);
        }
    }
}

/// Moves elements: `f` gives the array and the index in place of those that a store or a read names, if they
/// change. Guarded reads, reads of the merge buffer and accesses at computed indices stay.
pub fn move_elements(
    block: &mut [Stmt],
    f: &mut impl FnMut(ArrayRef, &Indices) -> Option<(ArrayRef, Indices)>,
) {
    for stmt in block {
        map_own_parts(stmt, &mut |part| {
            let moved = part.element().and_then(|(array, index)| f(array, index));
            moved.map_or(part, |(array, index)| array.read(index))
        });
        let moved = stmt.store().and_then(|(array, index, _)| f(array, index));
        match stmt {
            Stmt::For { body, .. } => move_elements(body, f),
            Stmt::Set { value, .. } | Stmt::SetLocal { value, .. } if let Some((array, index)) = moved => {
                *stmt = array.store(index, std::mem::replace(value, placeholder()));
            }
            _ => {}
        }
    }
}

/// Replaces `var` by `by` in every index of the block and in the ends of its loops.
pub fn substitute(block: &mut [Stmt], var: impl Into<Var>, by: &Affine) {
    let var = var.into();
    map_indices(block, &mut |index| index.substitute(var, by));
}
