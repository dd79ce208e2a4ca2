//! Wrong operations in one context alone: between two operations, in a reduction, in an index.

use codegen_testkit::Level::{self, L1, L2};
use lowered_ir::ir::{Affine, BinaryOp, Expr, Stmt, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

use super::{Fault, Row, Scope, everything, first_level};

/// An operation on a type as a code generator computes it that holds the type in wider registers and does
/// not cut the result.
fn uncut(scope: &Scope, expr: &Expr, dtype: DType, wide: DType) -> Option<Expr> {
    let widened = |x: &Expr| Expr::convert(wide, x.clone());
    match expr {
        Expr::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b }
            if scope.dtype(a) == dtype =>
        {
            Some(Expr::binary(*op, widened(a), widened(b)))
        }
        Expr::Binary { op: BinaryOp::Shl, a, b } if scope.dtype(a) == dtype => {
            let last = Expr::Const(Scalar::from_i64(dtype, dtype.size_bytes() as i64 * 8 - 1));
            let by = Expr::binary(BinaryOp::BitAnd, (**b).clone(), last);
            Some(Expr::binary(BinaryOp::Shl, widened(a), Expr::convert(wide, by)))
        }
        Expr::Binary { op: BinaryOp::Div, a, b } if dtype.is_float() && scope.dtype(a) == dtype => {
            Some(Expr::binary(BinaryOp::Div, widened(a), widened(b)))
        }
        Expr::Unary { op: UnaryOp::Neg, arg } if scope.dtype(arg) == dtype => {
            Some(Expr::unary(UnaryOp::Neg, widened(arg)))
        }
        _ => None,
    }
}

/// Conversions of an uncut value of one type to another.
macro_rules! uncut_convert {
    ($from:ident in $wide:ident, $to:ident) => {
        Fault::Expr(|scope, expr| match &expr {
            Expr::Convert { to: DType::$to, arg } => match uncut(scope, arg, DType::$from, DType::$wide) {
                Some(value) => Expr::convert(DType::$to, value),
                None => expr,
            },
            _ => expr,
        })
    };
}

/// An operation whose first or second operand is an uncut value of a type.
macro_rules! uncut_operand {
    ($dtype:ident in $wide:ident, $op:ident, $operand:ident) => {
        Fault::Expr(|scope, expr| {
            let Expr::Binary { op: op @ BinaryOp::$op, a, b } = &expr else { return expr };
            let operands = [a, b].map(|x| Expr::convert(DType::$wide, (**x).clone()));
            let [first, second] = operands;
            let changed = match stringify!($operand) {
                "first" => uncut(scope, a, DType::$dtype, DType::$wide).map(|a| (a, second)),
                _ => uncut(scope, b, DType::$dtype, DType::$wide).map(|b| (first, b)),
            };
            let Some((a, b)) = changed else { return expr };
            let result = Expr::binary(*op, a, b);
            if op.is_comparison() { result } else { Expr::convert(DType::$dtype, result) }
        })
    };
}

fn cut_to(dtype: DType) -> impl Fn(Expr) -> Expr {
    move |at| Expr::convert(DType::I64, Expr::convert(dtype, at))
}

/// Only stores at computed indices, changed.
fn scatters(change: fn(Expr) -> Expr, stmt: Stmt) -> Vec<Stmt> {
    match stmt {
        Stmt::SetDynamic { node, index, axis, at, op, value } => {
            vec![Stmt::SetDynamic { node, index, axis, at: change(at), op, value }]
        }
        other => vec![other],
    }
}

/// Only reads at computed indices, changed.
fn gathers(change: fn(&Scope, Expr) -> Expr, scope: &Scope, expr: Expr) -> Expr {
    match expr {
        Expr::GetDynamic { node, index, axis, at, otherwise } => {
            let at = Box::new(change(scope, *at));
            Expr::GetDynamic { node, index, axis, at, otherwise }
        }
        other => other,
    }
}

/// The factors of an index in 32 bits.
fn cut_terms(index: &Affine) -> Affine {
    let term =
        |sum: Affine, &(var, factor): &(_, i64)| sum.plus(&Affine::term(var, i64::from(factor as i32)));
    index.terms().iter().fold(Affine::constant(index.offset()), term)
}

pub(crate) fn table() -> Vec<Row> {
    let first = |name, level: Level, fault| Row { name, level, caps: first_level, fault };
    let all = |name, fault| Row { name, level: L2, caps: everything, fault };
    vec![
        // Narrow integers, not cut within an expression.
        all("u8 results are not cut before i32", uncut_convert!(U8 in I32, I32)),
        all("i8 results are not cut before i32", uncut_convert!(I8 in I32, I32)),
        all("u16 results are not cut before i32", uncut_convert!(U16 in I32, I32)),
        all("u8 results are not cut before u64", uncut_convert!(U8 in U32, U64)),
        all("i8 results are not cut before f32", uncut_convert!(I8 in I32, F32)),
        all("u16 results are not cut before f64", uncut_convert!(U16 in I32, F64)),
        all("i32 results are not cut before i64", uncut_convert!(I32 in I64, I64)),
        all("u32 results are not cut before f64", uncut_convert!(U32 in I64, F64)),
        all("u8 results are not cut before <", uncut_operand!(U8 in I32, Lt, first)),
        all("i8 results are not cut after ==", uncut_operand!(I8 in I32, Eq, second)),
        all("u8 results are not cut before /", uncut_operand!(U8 in I32, Div, first)),
        all("u16 results are not cut after /", uncut_operand!(U16 in U32, Div, second)),
        all("i8 results are not cut before %", uncut_operand!(I8 in I32, Rem, first)),
        all("u16 results are not cut before shr", uncut_operand!(U16 in U32, Shr, first)),
        all("i8 results are not cut before max", uncut_operand!(I8 in I32, Max, first)),
        all("u8 results are not cut after min", uncut_operand!(U8 in I32, Min, second)),
        all(
            "u8 shifts take all bits of an uncut amount",
            Fault::Expr(|scope, expr| match &expr {
                Expr::Binary { op: op @ (BinaryOp::Shl | BinaryOp::Shr), a, b }
                    if scope.dtype(a) == DType::U8 =>
                {
                    let Some(by) = uncut(scope, b, DType::U8, DType::I32) else { return expr };
                    let far = Expr::binary(BinaryOp::Le, Expr::Const(Scalar::from_i64(DType::I32, 256)), by);
                    let zero = Expr::Const(Scalar::zero(DType::U8));
                    Expr::select(far, zero, Expr::binary(*op, (**a).clone(), (**b).clone()))
                }
                _ => expr,
            }),
        ),
        all(
            "a choice of u8 is not cut",
            Fault::Expr(|scope, expr| match &expr {
                Expr::Convert { to: DType::I32, arg } => match &**arg {
                    Expr::Ternary { op: TernaryOp::Where, a, b, c } => {
                        match uncut(scope, b, DType::U8, DType::I32) {
                            Some(b) => {
                                Expr::select((**a).clone(), b, Expr::convert(DType::I32, (**c).clone()))
                            }
                            None => expr,
                        }
                    }
                    _ => expr,
                },
                _ => expr,
            }),
        ),
        all("f16 results are not rounded before f32", uncut_convert!(F16 in F32, F32)),
        all("bf16 results are not rounded before f64", uncut_convert!(Bf16 in F32, F64)),
        all("f16 results are not rounded before <", uncut_operand!(F16 in F32, Lt, first)),
        all("bf16 results are not rounded before ==", uncut_operand!(Bf16 in F32, Eq, first)),
        all("fp8_e5m2 results are not rounded before /", uncut_operand!(Fp8E5m2 in F32, Div, first)),
        // Reductions in locals.
        all(
            "u8 sums in locals saturate",
            Fault::Expr(|scope, expr| match &expr {
                Expr::Binary { op: BinaryOp::Add, a, b }
                    if scope.dtype(a) == DType::U8 && matches!(**a, Expr::GetLocal { .. }) =>
                {
                    let wide = |x: &Expr| Expr::convert(DType::I32, x.clone());
                    let sum = Expr::binary(BinaryOp::Add, wide(a), wide(b));
                    let most = Expr::Const(Scalar::from_i64(DType::I32, 255));
                    Expr::convert(DType::U8, Expr::binary(BinaryOp::Min, sum, most))
                }
                _ => expr,
            }),
        ),
        first(
            "a local of a loop keeps the value of the last iteration",
            L1,
            Fault::Routine(super::statements::hoisted),
        ),
        first(
            "a maximum in a local skips a NaN that comes second",
            L1,
            Fault::Expr(|scope, expr| match &expr {
                Expr::Binary { op: BinaryOp::Max, a, b }
                    if scope.dtype(a) == DType::F32 && matches!(**a, Expr::GetLocal { .. }) =>
                {
                    let is_nan = Expr::binary(BinaryOp::Ne, (**b).clone(), (**b).clone());
                    Expr::select(is_nan, (**a).clone(), expr.clone())
                }
                _ => expr,
            }),
        ),
        // Indices.
        all(
            "stores at computed indices take 32 bits of i64",
            Fault::Stmt(|s| scatters(|at| cut_to(DType::I32)(at), s)),
        ),
        all(
            "stores at computed indices take 33 bits",
            Fault::Stmt(|s| {
                scatters(
                    |at| {
                        let wide = Expr::convert(DType::I64, at);
                        Expr::binary(
                            BinaryOp::BitAnd,
                            wide,
                            Expr::Const(Scalar::from_i64(DType::I64, (1 << 33) - 1)),
                        )
                    },
                    s,
                )
            }),
        ),
        all(
            "reads at computed indices take 32 bits of u64",
            Fault::Expr(|scope, e| {
                gathers(
                    |scope, at| match scope.dtype(&at) {
                        DType::U64 => cut_to(DType::U32)(at),
                        _ => at,
                    },
                    scope,
                    e,
                )
            }),
        ),
        all(
            "reads at computed indices take 16 bits of i32",
            Fault::Expr(|scope, e| {
                gathers(
                    |scope, at| match scope.dtype(&at) {
                        DType::I32 => cut_to(DType::U16)(at),
                        _ => at,
                    },
                    scope,
                    e,
                )
            }),
        ),
        all(
            "u8 indices are not cut",
            Fault::Expr(|scope, e| {
                gathers(|scope, at| uncut(scope, &at, DType::U8, DType::I32).unwrap_or(at), scope, e)
            }),
        ),
        all(
            "u32 indices are signed",
            Fault::Expr(|scope, e| {
                gathers(
                    |scope, at| match scope.dtype(&at) {
                        // The address wraps: the index counts from the end.
                        DType::U32 => Expr::binary(
                            BinaryOp::BitAnd,
                            Expr::convert(DType::I64, at),
                            Expr::Const(Scalar::from_i64(DType::I64, i64::from(i32::MAX))),
                        ),
                        _ => at,
                    },
                    scope,
                    e,
                )
            }),
        ),
        all(
            "a gather from one element ignores the index",
            Fault::Expr(|scope, expr| match expr {
                Expr::GetDynamic { node, index, axis, otherwise, .. }
                    if scope.routine.node(node).dims[axis] == 1 =>
                {
                    let at = Box::new(Expr::Const(Scalar::zero(DType::I64)));
                    Expr::GetDynamic { node, index, axis, at, otherwise }
                }
                other => other,
            }),
        ),
        first(
            "the terms of guards have 32 bits",
            L1,
            Fault::Expr(|_, expr| match expr {
                Expr::GetGuarded { guard, node, index, otherwise } => {
                    let guard = guard
                        .into_iter()
                        .map(|range| lowered_ir::ir::Range { index: cut_terms(&range.index), ..range })
                        .collect();
                    Expr::GetGuarded { guard, node, index, otherwise }
                }
                other => other,
            }),
        ),
        first(
            "the terms of bounds have 32 bits",
            L1,
            Fault::Stmt(|stmt| match stmt {
                Stmt::For { var, lo, hi, kind, body } => {
                    vec![Stmt::For { var, lo, hi: hi.map(cut_terms), kind, body }]
                }
                other => vec![other],
            }),
        ),
        first(
            "a loop runs once at least",
            L1,
            Fault::Stmt(|stmt| match stmt {
                Stmt::For { var, lo, hi, kind, body } if !hi.is_constant() => {
                    let hi = hi.map(|clip| {
                        let is_low = clip.terms().iter().any(|(_, factor)| *factor < 0);
                        if is_low { Affine::constant(lo + 1) } else { clip.clone() }
                    });
                    vec![Stmt::For { var, lo, hi, kind, body }]
                }
                other => vec![other],
            }),
        ),
    ]
}
