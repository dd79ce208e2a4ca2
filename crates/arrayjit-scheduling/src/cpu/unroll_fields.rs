//! Unrolls short loops whose variable is an amount of a shift, such as the number of a bit field in a byte.
//! The amounts are constants then, and the fields of a byte share its load.

use lowered_ir::ir::{BinaryOp, Block, Expr, LoopId, LoopKind, Stmt, walk};

/// The most iterations of a loop that is unrolled: the fields of two bits in a byte.
const MAX_FIELDS: i64 = 4;

/// Unrolls each short loop that contains no loop but vectors and unrolled ones, and shifts by its variable.
pub(crate) fn unroll_fields(block: &mut Block) {
    for stmt in block {
        let Stmt::For { var, lo, hi, kind, body } = stmt else { continue };
        unroll_fields(body);
        let is_short = *lo == 0 && hi.constant().is_some_and(|extent| extent <= MAX_FIELDS);
        if *kind == LoopKind::Serial && is_short && is_innermost(body) && shifts_by(*var, body) {
            *kind = LoopKind::Unrolled;
        }
    }
}

fn is_innermost(body: &[Stmt]) -> bool {
    walk::stmts(body).all(|stmt| match stmt {
        Stmt::For { kind, .. } => matches!(kind, LoopKind::Vector | LoopKind::Unrolled),
        _ => true,
    })
}

fn shifts_by(var: LoopId, body: &[Stmt]) -> bool {
    let is_var = |part: &Expr| matches!(part, Expr::Index { index, .. } if index.mentions(var));
    walk::parts_in(body).any(|part| match part {
        Expr::Binary { op: BinaryOp::Shl | BinaryOp::Shr, b, .. } => walk::parts(b).any(is_var),
        _ => false,
    })
}
