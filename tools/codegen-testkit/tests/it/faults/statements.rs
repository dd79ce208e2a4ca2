//! Wrong loops, guards, stores, locals and computed indices.

use codegen_testkit::Level::{self, L0, L1, L2, L3};
use lowered_ir::ir::{
    Affine, BinaryOp, Block, Bound, Expr, LoopKind, LoweredRoutine, Range, Space, Stmt, Var, walk,
};
use tnode::{DType, Scalar};

use super::{Fault, Row, everything, first_level, threaded};

/// A block with each statement changed, outer before inner.
pub(crate) fn changed(block: Block, change: fn(Stmt) -> Vec<Stmt>) -> Block {
    let inner = |stmt| match stmt {
        Stmt::For { var, lo, hi, kind, body } => Stmt::For { var, lo, hi, kind, body: changed(body, change) },
        other => other,
    };
    block.into_iter().flat_map(change).map(inner).collect()
}

/// Declares the scalars of all loops before the body, so that each iteration begins with the values of the
/// one before.
pub(crate) fn hoisted(routine: &mut LoweredRoutine) {
    let mut declared = Block::new();
    routine.body = changed_with(std::mem::take(&mut routine.body), &mut |stmt| match stmt {
        Stmt::Declare { ref dims, .. } if dims.is_empty() => {
            declared.push(stmt);
            None
        }
        stmt => Some(stmt),
    });
    declared.append(&mut routine.body);
    routine.body = declared;
}

fn changed_with(block: Block, change: &mut dyn FnMut(Stmt) -> Option<Stmt>) -> Block {
    let mut kept = Block::new();
    for stmt in block {
        match change(stmt) {
            Some(Stmt::For { var, lo, hi, kind, body }) => {
                let body = changed_with(body, change);
                kept.push(Stmt::For { var, lo, hi, kind, body });
            }
            Some(stmt) => kept.push(stmt),
            None => {}
        }
    }
    kept
}

/// Changes the bounds of loops.
macro_rules! loops {
    (|$lo:ident, $hi:ident, $kind:ident| $by:expr) => {
        stmt!(Stmt::For { var, lo: $lo, hi: $hi, kind: $kind, body } => {
            let (lo, hi) = $by;
            vec![Stmt::For { var, lo, hi, kind: $kind, body }]
        })
    };
}

/// Changes the guards of reads.
macro_rules! guards {
    (|$range:ident| $by:expr) => {
        expr!(|_| Expr::GetGuarded { guard, node, index, otherwise } => {
            let guard = guard.into_iter().map(|$range: Range| $by).collect();
            Expr::GetGuarded { guard, node, index, otherwise }
        })
    };
}

fn shorter(hi: Bound, by: i64) -> Bound {
    let mut shorter = hi;
    shorter.limit -= by;
    shorter
}

pub(crate) fn table() -> Vec<Row> {
    let first = |name, level: Level, fault| Row { name, level, caps: first_level, fault };
    let all = |name, fault| Row { name, level: L2, caps: everything, fault };
    let threads = |name, fault| Row { name, level: L3, caps: threaded, fault };
    vec![
        first("the last iteration is missing", L0, loops!(|lo, hi, _kind| (lo, shorter(hi, 1)))),
        first("the first iteration is missing", L0, loops!(|lo, hi, _kind| (lo + 1, hi))),
        first(
            "iterations beyond a multiple of 4 are missing",
            L0,
            loops!(|lo, hi, _kind| {
                let extent = (hi.limit - lo).max(0);
                (lo, if extent > 4 { shorter(hi, extent % 4) } else { hi })
            }),
        ),
        first("the symbol of a bound is ignored", L1, loops!(|lo, hi, _kind| (lo, hi.limit.into()))),
        first(
            "loops run backwards",
            L1,
            stmt!(Stmt::For { var, lo, hi, kind: LoopKind::Serial, mut body } => {
                let reversed = Affine::term(var, -1).plus_constant(lo + hi.limit - 1);
                walk::substitute(&mut body, var, &reversed);
                vec![Stmt::For { var, lo, hi, kind: LoopKind::Serial, body }]
            }),
        ),
        first("`zero` is dropped", L1, stmt!(Stmt::Zero { .. } => vec![])),
        first(
            "locals begin with garbage",
            L1,
            stmt!(Stmt::Declare { local, dtype: dtype @ (DType::F32 | DType::I32), dims, space }
                if dims.is_empty() =>
            {
                let three = Stmt::set_scalar(local, Expr::Const(Scalar::from_f64(dtype, 3.0)));
                vec![Stmt::Declare { local, dtype, dims, space }, three]
            }),
        ),
        first(
            "locals keep their first value",
            L1,
            stmt!(Stmt::SetLocal { local, index, value } if index.is_empty() => {
                let doubled = Expr::binary(BinaryOp::Arg1, Expr::local(local), value);
                vec![Stmt::SetLocal { local, index, value: doubled }]
            }),
        ),
        first(
            "stores to scalars are dropped in loops",
            L1,
            stmt!(Stmt::For { var, lo, hi, kind, body } => {
                let scalar = |stmt: &Stmt| matches!(stmt, Stmt::Set { index, .. } if index.is_empty());
                let body = body.into_iter().filter(|stmt| !scalar(stmt)).collect();
                vec![Stmt::For { var, lo, hi, kind, body }]
            }),
        ),
        first("guards are too narrow above", L1, guards!(|range| Range { hi: range.hi - 1, ..range })),
        first("guards are too narrow below", L1, guards!(|range| Range { lo: range.lo + 1, ..range })),
        first("guards never hold", L1, guards!(|range| Range { hi: range.lo, ..range })),
        first(
            "the value outside a guard is 0",
            L1,
            expr!(|scope| Expr::GetGuarded { guard, node, index, otherwise } => {
                let otherwise = Box::new(Expr::Const(Scalar::zero(scope.dtype(&otherwise))));
                Expr::GetGuarded { guard, node, index, otherwise }
            }),
        ),
        first(
            "embedded indices are one too large",
            L1,
            expr!(|_| Expr::Index { index, dtype } => Expr::Index { index: index.plus_constant(1), dtype }),
        ),
        first(
            "symbols in indices are 0",
            L1,
            Fault::Expr(|_, expr| {
                walk::map_expr_indices(expr, &mut |index| {
                    let symbols = index.terms().iter().filter(|(var, _)| matches!(var, Var::Symbol(_)));
                    symbols
                        .fold(index.clone(), |index, (var, _)| index.substitute(*var, &Affine::constant(0)))
                })
            }),
        ),
        first(
            "strides are 1",
            L1,
            Fault::Expr(|_, expr| {
                walk::map_expr_indices(expr, &mut |index| {
                    let one = |sum: Affine, (var, factor): &(Var, i64)| {
                        sum.plus(&Affine::term(*var, factor.signum()))
                    };
                    index.terms().iter().fold(Affine::constant(index.offset()), one)
                })
            }),
        ),
        first(
            "offsets of indices are lost",
            L1,
            Fault::Expr(|_, expr| match expr {
                // Embedded indices are numbers.
                Expr::Index { .. } => expr,
                other => {
                    walk::map_expr_indices(other, &mut |index| index.plus_constant(-index.offset().max(0)))
                }
            }),
        ),
        all(
            "gathers clamp",
            expr!(|scope| Expr::GetDynamic { node, index, axis, at, otherwise } => {
                let zero = Expr::Const(Scalar::zero(scope.dtype(&at)));
                let at = Box::new(Expr::binary(BinaryOp::Max, *at, zero));
                Expr::GetDynamic { node, index, axis, at, otherwise }
            }),
        ),
        all(
            "gathers outside give 0",
            expr!(|scope| Expr::GetDynamic { node, index, axis, at, otherwise } => {
                let otherwise = Box::new(Expr::Const(Scalar::zero(scope.dtype(&otherwise))));
                Expr::GetDynamic { node, index, axis, at, otherwise }
            }),
        ),
        all(
            "scatters do not accumulate",
            stmt!(Stmt::SetDynamic { node, index, axis, at, op: _, value } => {
                vec![Stmt::SetDynamic { node, index, axis, at, op: None, value }]
            }),
        ),
        all(
            "scatters before the array go to its beginning",
            stmt!(Stmt::SetDynamic { node, index, axis, at, op, value } => {
                let at = Expr::convert(DType::I64, *at);
                let at = Box::new(Expr::binary(BinaryOp::Max, at, Expr::Const(Scalar::zero(DType::I64))));
                vec![Stmt::SetDynamic { node, index, axis, at, op, value }]
            }),
        ),
        threads(
            "the last lane of a vector is missing",
            loops!(|lo, hi, kind| { (lo, if kind == LoopKind::Vector { shorter(hi, 1) } else { hi }) }),
        ),
        threads(
            "arrays in scratch memory begin with garbage",
            stmt!(Stmt::Declare { local, dtype, dims, space: Space::Stack } if !dims.is_empty() => {
                let index = dims.iter().map(|_| Affine::constant(0)).collect();
                let one = Stmt::SetLocal { local, index, value: Expr::Const(Scalar::one(dtype)) };
                vec![Stmt::Declare { local, dtype, dims, space: Space::Stack }, one]
            }),
        ),
        threads(
            "the merge buffer is read at its beginning",
            expr!(|_| Expr::GetMerge { node, index } => {
                Expr::GetMerge { node, index: index.iter().map(|_| Affine::constant(0)).collect() }
            }),
        ),
    ]
}
