//! Proposals that change one statement or one expression.

use lowered_ir::ir::{Affine, Block, Expr, LoopKind, LoweredRoutine, Numerics, Stmt, walk};
use tnode::Scalar;

use crate::RunCase;

fn with_body(case: &RunCase, body: Block) -> RunCase {
    RunCase { routine: LoweredRoutine { body, ..case.routine.clone() }, ..case.clone() }
}

/// The number of statements, those in loops included.
fn stmts(block: &[Stmt]) -> usize {
    walk::stmts(block).count()
}

/// Replaces the statement at a position, outer before inner.
fn replace_stmt(case: &RunCase, position: usize, by: impl FnOnce(Stmt) -> Vec<Stmt>) -> Option<RunCase> {
    if position >= stmts(&case.routine.body) {
        return None;
    }
    let mut by = Some(by);
    Some(with_body(case, replaced(case.routine.body.clone(), &mut { position }, &mut by)))
}

fn replaced<F: FnOnce(Stmt) -> Vec<Stmt>>(block: Block, left: &mut usize, by: &mut Option<F>) -> Block {
    let mut out = Block::new();
    for stmt in block {
        if *left == 0
            && let Some(by) = by.take()
        {
            out.extend(by(stmt));
            continue;
        }
        *left = left.wrapping_sub(1);
        out.push(match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                Stmt::For { var, lo, hi, kind, body: replaced(body, left, by) }
            }
            other => other,
        });
    }
    out
}

/// The run without one statement.
pub(super) fn without_stmt(case: &RunCase, position: usize) -> Option<RunCase> {
    replace_stmt(case, position, |_| Vec::new())
}

/// The run with the first iteration of a loop in place of the loop.
pub(super) fn one_iteration(case: &RunCase, position: usize) -> Option<RunCase> {
    replace_stmt(case, position, |stmt| match stmt {
        Stmt::For { var, lo, mut body, .. } => {
            walk::substitute(&mut body, var, &Affine::constant(lo));
            body
        }
        other => vec![other],
    })
}

/// The run with the last iteration of a loop in place of the loop.
pub(super) fn without_loop(case: &RunCase, position: usize) -> Option<RunCase> {
    replace_stmt(case, position, |stmt| match stmt {
        Stmt::For { var, lo, hi, mut body, .. } if hi.limit > lo => {
            walk::substitute(&mut body, var, &Affine::constant(hi.limit - 1));
            body
        }
        other => vec![other],
    })
}

/// The run with a loop that ends at its constant limit.
pub(super) fn constant_bound(case: &RunCase, position: usize) -> Option<RunCase> {
    replace_stmt(case, position, |stmt| match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            vec![Stmt::For { var, lo, hi: hi.limit.into(), kind, body }]
        }
        other => vec![other],
    })
}

fn resize(case: &RunCase, position: usize, extent: impl FnOnce(i64) -> i64) -> Option<RunCase> {
    replace_stmt(case, position, |stmt| match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            let mut hi = hi;
            hi.limit = lo + extent(hi.limit.saturating_sub(lo).max(0));
            vec![Stmt::For { var, lo, hi, kind, body }]
        }
        other => vec![other],
    })
}

/// The run with half the iterations of a loop.
pub(super) fn half_extent(case: &RunCase, position: usize) -> Option<RunCase> {
    resize(case, position, |extent| extent / 2)
}

/// The run with one iteration less of a loop.
pub(super) fn one_less(case: &RunCase, position: usize) -> Option<RunCase> {
    resize(case, position, |extent| (extent - 1).max(0))
}

/// The run with a serial loop in place of another one.
pub(super) fn serial_loop(case: &RunCase, position: usize) -> Option<RunCase> {
    replace_stmt(case, position, |stmt| match stmt {
        Stmt::For { var, lo, hi, body, .. } => {
            vec![Stmt::For { var, lo, hi, kind: LoopKind::Serial, body }]
        }
        other => vec![other],
    })
}

/// The run in class `Strict`.
pub(super) fn strict(case: &RunCase, position: usize) -> Option<RunCase> {
    let routine = LoweredRoutine { numerics: Numerics::Strict, ..case.routine.clone() };
    (position == 0).then(|| RunCase { routine, ..case.clone() })
}

/// Replaces the expression at a position, inner before outer, by one of its own choices: the position counts
/// all choices of all expressions.
fn replace_expr(case: &RunCase, position: usize, choices: fn(&Expr) -> Vec<Expr>) -> Option<RunCase> {
    let locals = case.routine.locals();
    let mut left = Some(position);
    let mut body = case.routine.body.clone();
    walk::map_parts(&mut body, &mut |expr| {
        let Some(position) = left else { return expr };
        let dtype = case.routine.dtype_of(&expr, &locals);
        let mut choices = choices(&expr);
        choices.retain(|choice| case.routine.dtype_of(choice, &locals) == dtype);
        left = position.checked_sub(choices.len());
        if left.is_none() { choices.swap_remove(position) } else { expr }
    });
    left.is_none().then(|| with_body(case, body))
}

/// The run with an operand in place of an operation.
pub(super) fn operand(case: &RunCase, position: usize) -> Option<RunCase> {
    replace_expr(case, position, |expr| {
        let mut children = Vec::new();
        let _same = walk::map_children(expr.clone(), &mut |child| {
            children.push(child.clone());
            child
        });
        if let Expr::GetGuarded { node, index, .. } = expr {
            children.push(Expr::Get { node: *node, index: index.clone() });
        }
        children
    })
}

/// The run with a constant in place of an operation.
pub(super) fn constant(case: &RunCase, position: usize) -> Option<RunCase> {
    let locals = case.routine.locals();
    let mut left = Some(position);
    let mut body = case.routine.body.clone();
    walk::map_parts(&mut body, &mut |expr| {
        let Some(position) = left else { return expr };
        if matches!(expr, Expr::Const(_)) {
            return expr;
        }
        left = position.checked_sub(1);
        let dtype = case.routine.dtype_of(&expr, &locals);
        if left.is_none() { Expr::Const(Scalar::one(dtype)) } else { expr }
    });
    left.is_none().then(|| with_body(case, body))
}
