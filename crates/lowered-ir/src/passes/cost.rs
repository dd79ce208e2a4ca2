//! Approximate costs of expressions, in units of one cheap operation; passes compare them with thresholds.

use crate::ir::{BinaryOp, Expr, Stmt, UnaryOp, walk};

/// The work of evaluating the expression once.
pub fn cost(expr: &Expr) -> u64 {
    walk::parts(expr).map(own_cost).sum()
}

/// The work of the outermost operation alone.
pub(crate) fn own_cost(expr: &Expr) -> u64 {
    match expr {
        Expr::Const(_)
        | Expr::GetLocal { .. }
        | Expr::Bitcast { .. }
        | Expr::Lane { .. }
        | Expr::Lanes(_) => 0,
        Expr::Index { .. } | Expr::Get { .. } | Expr::GetMerge { .. } | Expr::Convert { .. } => 1,
        Expr::GetGuarded { .. } => 2,
        Expr::GetDynamic { .. } => 3,
        Expr::Unary { op, .. } => unary_cost(*op),
        Expr::Binary { op, .. } => binary_cost(*op),
        Expr::Ternary { .. } => 1,
    }
}

fn unary_cost(op: UnaryOp) -> u64 {
    match op {
        UnaryOp::Atan | UnaryOp::Erf | UnaryOp::Erfc => 40,
        _ if op.is_transcendental() => 20,
        _ if op.is_float_function() => 8,
        _ => 1,
    }
}

fn binary_cost(op: BinaryOp) -> u64 {
    match op {
        BinaryOp::Pow | BinaryOp::ThreefryLight => 40,
        BinaryOp::Threefry | BinaryOp::ThreefryCrypto => 150,
        BinaryOp::Div | BinaryOp::Rem => 8,
        _ => 1,
    }
}

/// The work of running the statements once, every loop as long as it can be.
pub fn work(block: &[Stmt]) -> u64 {
    block.iter().fold(0u64, |sum, stmt| sum.saturating_add(stmt_work(stmt)))
}

fn stmt_work(stmt: &Stmt) -> u64 {
    match stmt {
        Stmt::For { lo, hi, body, .. } => {
            (hi.limit.saturating_sub(*lo).max(0) as u64).saturating_mul(work(body))
        }
        _ => stmt.values().fold(1, |sum, value| sum + cost(value)),
    }
}

/// Whether some operation in the expression takes much longer than a memory access.
pub(crate) fn is_expensive(expr: &Expr) -> bool {
    walk::parts(expr).any(|part| own_cost(part) >= 8)
}

/// The number of parts of the expression.
pub fn size(expr: &Expr) -> usize {
    walk::parts(expr).count()
}

/// How deep the parts of the expression nest; 1 for a single part.
pub fn depth(expr: &Expr) -> usize {
    1 + expr.children().into_iter().map(depth).max().unwrap_or(0)
}
