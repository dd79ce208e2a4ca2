//! Wrong operations in one context alone: between two operations, in a reduction, in an index.

use codegen_testkit::Level::{self, L1, L2};
use lowered_ir::ir::{Affine, BinaryOp, Expr, Range, Stmt, TernaryOp, UnaryOp};
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

/// Stores at computed indices, changed.
macro_rules! scatters {
    (|$at:ident| $by:expr) => {
        stmt!(Stmt::SetDynamic { node, index, axis, at, op, value } => {
            let $at = *at;
            vec![Stmt::SetDynamic { node, index, axis, at: Box::new($by), op, value }]
        })
    };
}

/// Reads at computed indices, changed.
macro_rules! gathers {
    (|$scope:ident, $at:ident| $by:expr) => {
        expr!(|$scope| Expr::GetDynamic { node, index, axis, at, otherwise } => {
            let $at = *at;
            Expr::GetDynamic { node, index, axis, at: Box::new($by), otherwise }
        })
    };
}

/// The low bits of an index.
fn masked(at: Expr, mask: i64) -> Expr {
    let mask = Expr::Const(Scalar::from_i64(DType::I64, mask));
    Expr::binary(BinaryOp::BitAnd, Expr::convert(DType::I64, at), mask)
}

/// An index of one type in another one.
fn cut(scope: &Scope, at: Expr, from: DType, to: DType) -> Expr {
    if scope.dtype(&at) == from { cut_to(to)(at) } else { at }
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
            expr!(|scope| Expr::Binary { op: op @ (BinaryOp::Shl | BinaryOp::Shr), a, b }
                if scope.dtype(&a) == DType::U8 =>
            {
                let Some(by) = uncut(scope, &b, DType::U8, DType::I32) else {
                    return Expr::Binary { op, a, b };
                };
                let far = Expr::binary(BinaryOp::Le, Expr::Const(Scalar::from_i64(DType::I32, 256)), by);
                Expr::select(far, Expr::Const(Scalar::zero(DType::U8)), Expr::Binary { op, a, b })
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
        first(
            "a local of a loop keeps the value of the last iteration",
            L1,
            Fault::Routine(super::statements::hoisted),
        ),
        // Indices.
        all("stores at computed indices take 32 bits of i64", scatters!(|at| cut_to(DType::I32)(at))),
        all("stores at computed indices take 33 bits", scatters!(|at| masked(at, (1 << 33) - 1))),
        all(
            "reads at computed indices take 32 bits of u64",
            gathers!(|scope, at| cut(scope, at, DType::U64, DType::U32)),
        ),
        all(
            "reads at computed indices take 16 bits of i32",
            gathers!(|scope, at| cut(scope, at, DType::I32, DType::U16)),
        ),
        all(
            "u8 indices are not cut",
            gathers!(|scope, at| uncut(scope, &at, DType::U8, DType::I32).unwrap_or(at)),
        ),
        // The address wraps: the index counts from the end.
        all(
            "u32 indices are signed",
            gathers!(|scope, at| match scope.dtype(&at) {
                DType::U32 => masked(at, i64::from(i32::MAX)),
                _ => at,
            }),
        ),
        all(
            "a gather from one element ignores the index",
            expr!(|scope| Expr::GetDynamic { node, index, axis, otherwise, .. }
                if scope.routine.node(node).dims[axis] == 1 =>
            {
                let at = Box::new(Expr::Const(Scalar::zero(DType::I64)));
                Expr::GetDynamic { node, index, axis, at, otherwise }
            }),
        ),
        first(
            "the terms of guards have 32 bits",
            L1,
            expr!(|_| Expr::GetGuarded { guard, node, index, otherwise } => {
                let cut = |range: Range| Range { index: cut_terms(&range.index), ..range };
                Expr::GetGuarded { guard: guard.into_iter().map(cut).collect(), node, index, otherwise }
            }),
        ),
        first(
            "the terms of bounds have 32 bits",
            L1,
            stmt!(Stmt::For { var, lo, hi, kind, body } => {
                vec![Stmt::For { var, lo, hi: hi.map(cut_terms), kind, body }]
            }),
        ),
        first(
            "a loop runs once at least",
            L1,
            stmt!(Stmt::For { var, lo, hi, kind, body } if !hi.is_constant() => {
                let hi = hi.map(|clip| {
                    let is_low = clip.terms().iter().any(|(_, factor)| *factor < 0);
                    if is_low { Affine::constant(lo + 1) } else { clip.clone() }
                });
                vec![Stmt::For { var, lo, hi, kind, body }]
            }),
        ),
    ]
}
