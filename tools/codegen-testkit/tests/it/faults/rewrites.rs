//! Wrong operations, constants and conversions.

use codegen_testkit::Level::{self, L0, L1, L2, L4};
use lowered_ir::ir::{BinaryOp, Expr, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

use super::{Fault, Row, Scope, everything, first_level};

fn constant(dtype: DType, value: f64) -> Expr {
    Expr::Const(Scalar::from_f64(dtype, value))
}

fn bits(dtype: DType, bits: u128) -> Expr {
    Expr::Const(Scalar::new(dtype, bits))
}

/// The operands of an operation on a type.
fn operands(scope: &Scope, expr: &Expr, wanted: BinaryOp, dtype: DType) -> Option<(Expr, Expr)> {
    match expr {
        Expr::Binary { op, a, b } if *op == wanted && scope.dtype(a) == dtype => {
            Some(((**a).clone(), (**b).clone()))
        }
        _ => None,
    }
}

fn operand(scope: &Scope, expr: &Expr, wanted: UnaryOp, dtype: DType) -> Option<Expr> {
    match expr {
        Expr::Unary { op, arg } if *op == wanted && scope.dtype(arg) == dtype => Some((**arg).clone()),
        _ => None,
    }
}

/// Rewrites one binary operation on one type.
macro_rules! binary {
    ($op:ident, $dtype:ident, |$a:ident, $b:ident| $by:expr) => {
        Fault::Expr(|scope, expr| match operands(scope, &expr, BinaryOp::$op, DType::$dtype) {
            Some(($a, $b)) => $by,
            None => expr,
        })
    };
}

/// Rewrites one unary operation on one type.
macro_rules! unary {
    ($op:ident, $dtype:ident, |$x:ident| $by:expr) => {
        Fault::Expr(|scope, expr| match operand(scope, &expr, UnaryOp::$op, DType::$dtype) {
            Some($x) => $by,
            None => expr,
        })
    };
}

/// Rewrites conversions from one type to another.
macro_rules! convert {
    ($from:ident, $to:ident, |$x:ident| $by:expr) => {
        Fault::Expr(|scope, expr| match expr {
            Expr::Convert { to: DType::$to, arg } if scope.dtype(&arg) == DType::$from => {
                let $x = *arg;
                $by
            }
            other => other,
        })
    };
}

/// Replaces a constant by another one.
macro_rules! replaced {
    ($dtype:ident: $from:expr => $to:expr) => {
        Fault::Constant(|value| {
            let (from, to) = (Scalar::from_f64(DType::$dtype, $from), Scalar::from_f64(DType::$dtype, $to));
            if value == from { to } else { value }
        })
    };
}

fn add(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Add, a, b)
}

fn sub(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Sub, a, b)
}

fn mul(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Mul, a, b)
}

fn div(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Div, a, b)
}

fn lt(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Lt, a, b)
}

fn eq(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::Eq, a, b)
}

fn both(a: Expr, b: Expr) -> Expr {
    Expr::binary(BinaryOp::And, a, b)
}

fn select(c: Expr, a: Expr, b: Expr) -> Expr {
    Expr::select(c, a, b)
}

/// An operation computed on converted operands.
fn through(wide: DType, dtype: DType, op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::convert(dtype, Expr::binary(op, Expr::convert(wide, a), Expr::convert(wide, b)))
}

const MIN: u128 = 0x8000_0000;
const MAX: u128 = 0x7fff_ffff;

pub(crate) fn table() -> Vec<Row> {
    let first = |name, level: Level, fault| Row { name, level, caps: first_level, fault };
    let all = |name, fault| Row { name, level: L2, caps: everything, fault };
    vec![
        // Arithmetic on f32.
        first("f32 + is -", L0, binary!(Add, F32, |a, b| sub(a, b))),
        first("f32 - is swapped", L0, binary!(Sub, F32, |a, b| sub(b, a))),
        first(
            "f32 * loses the sign of zero",
            L0,
            binary!(Mul, F32, |a, b| add(mul(a, b), constant(DType::F32, 0.0))),
        ),
        first(
            "f32 / by a reciprocal",
            L0,
            binary!(Div, F32, |a, b| mul(a, div(constant(DType::F32, 1.0), b))),
        ),
        first(
            "f32 % by a truncated quotient",
            L0,
            binary!(Rem, F32, |a, b| sub(a.clone(), mul(Expr::unary(UnaryOp::Trunc, div(a, b.clone())), b))),
        ),
        first(
            "f32 max skips a NaN in b",
            L0,
            binary!(Max, F32, |a, b| select(lt(a.clone(), b.clone()), b, a)),
        ),
        first(
            "f32 max of equal zeros is b",
            L0,
            binary!(Max, F32, |a, b| select(
                eq(a.clone(), b.clone()),
                b.clone(),
                Expr::binary(BinaryOp::Max, a, b)
            )),
        ),
        first("f32 min is swapped", L0, binary!(Min, F32, |a, b| Expr::binary(BinaryOp::Min, b, a))),
        first("f32 neg by a difference", L0, unary!(Neg, F32, |x| sub(constant(DType::F32, 0.0), x))),
        first(
            "f32 abs by a maximum",
            L0,
            unary!(Abs, F32, |x| Expr::binary(BinaryOp::Max, x.clone(), Expr::unary(UnaryOp::Neg, x))),
        ),
        first(
            "f32 sqrt of the magnitude",
            L0,
            unary!(Sqrt, F32, |x| Expr::unary(UnaryOp::Sqrt, Expr::unary(UnaryOp::Abs, x))),
        ),
        first(
            "f32 sqrt by an inexact root",
            L0,
            unary!(Sqrt, F32, |x| mul(
                x.clone(),
                div(constant(DType::F32, 1.0), Expr::unary(UnaryOp::Sqrt, x))
            )),
        ),
        first("f32 trunc is floor", L0, unary!(Trunc, F32, |x| Expr::unary(UnaryOp::Floor, x))),
        first("f32 floor is trunc", L0, unary!(Floor, F32, |x| Expr::unary(UnaryOp::Trunc, x))),
        first(
            "f32 ties round up",
            L0,
            unary!(RoundEven, F32, |x| Expr::unary(UnaryOp::Floor, add(x, constant(DType::F32, 0.5)))),
        ),
        first("f32 products and sums contract", L0, Fault::Expr(contracted)),
        first("f32 products and differences contract", L0, Fault::Expr(contracted_difference)),
        first("f32 fma rounds twice", L0, Fault::Expr(split_fma)),
        first("f32 subnormal results are zeros", L0, Fault::Expr(flushed)),
        first(
            "f32 NaN results are zeros",
            L0,
            binary!(Mul, F32, |a, b| {
                let product = mul(a, b);
                select(eq(product.clone(), product.clone()), product, constant(DType::F32, 0.0))
            }),
        ),
        // Comparisons.
        first("f32 < is <=", L1, binary!(Lt, F32, |a, b| Expr::binary(BinaryOp::Le, a, b))),
        first("f32 <= is <", L1, binary!(Le, F32, |a, b| lt(a, b))),
        first(
            "f32 == holds for NaN",
            L1,
            binary!(Eq, F32, |a, b| {
                let one = Expr::unary(UnaryOp::Not, lt(a.clone(), b.clone()));
                both(one, Expr::unary(UnaryOp::Not, lt(b, a)))
            }),
        ),
        first(
            "f32 != fails for NaN",
            L1,
            binary!(Ne, F32, |a, b| Expr::binary(BinaryOp::Or, lt(a.clone(), b.clone()), lt(b, a))),
        ),
        first(
            "f32 == compares bits",
            L1,
            binary!(Eq, F32, |a, b| eq(Expr::bitcast(DType::I32, a), Expr::bitcast(DType::I32, b))),
        ),
        first(
            "i32 < is unsigned",
            L1,
            binary!(Lt, I32, |a, b| {
                let flip = |x| Expr::binary(BinaryOp::BitXor, x, bits(DType::I32, MIN));
                lt(flip(a), flip(b))
            }),
        ),
        first(
            "i32 == by a difference of floats",
            L1,
            binary!(Eq, I32, |a, b| eq(Expr::convert(DType::F32, a), Expr::convert(DType::F32, b))),
        ),
        // Integers.
        first(
            "i32 + through f32",
            L1,
            binary!(Add, I32, |a, b| through(DType::F32, DType::I32, BinaryOp::Add, a, b)),
        ),
        first(
            "i32 - through f32",
            L1,
            binary!(Sub, I32, |a, b| through(DType::F32, DType::I32, BinaryOp::Sub, a, b)),
        ),
        first(
            "i32 * through f32",
            L1,
            binary!(Mul, I32, |a, b| through(DType::F32, DType::I32, BinaryOp::Mul, a, b)),
        ),
        first(
            "i32 / rounds down",
            L1,
            binary!(Div, I32, |a, b| {
                let rest = Expr::binary(BinaryOp::Rem, a.clone(), b.clone());
                let signs = lt(Expr::binary(BinaryOp::BitXor, rest.clone(), b.clone()), bits(DType::I32, 0));
                let inexact = both(signs, Expr::binary(BinaryOp::Ne, rest, bits(DType::I32, 0)));
                sub(div(a, b), Expr::convert(DType::I32, inexact))
            }),
        ),
        first(
            "i32 % has the sign of b",
            L1,
            binary!(Rem, I32, |a, b| {
                let rem = |a, b| Expr::binary(BinaryOp::Rem, a, b);
                rem(add(rem(a, b.clone()), b.clone()), b)
            }),
        ),
        first(
            "i32 neg saturates",
            L1,
            unary!(Neg, I32, |x| select(
                eq(x.clone(), bits(DType::I32, MIN)),
                bits(DType::I32, MAX),
                Expr::unary(UnaryOp::Neg, x)
            )),
        ),
        first(
            "i32 abs saturates",
            L1,
            unary!(Abs, I32, |x| select(
                eq(x.clone(), bits(DType::I32, MIN)),
                bits(DType::I32, MAX),
                Expr::unary(UnaryOp::Abs, x)
            )),
        ),
        first(
            "i32 max is unsigned",
            L1,
            binary!(Max, I32, |a, b| {
                let flip = |x| Expr::binary(BinaryOp::BitXor, x, bits(DType::I32, MIN));
                flip(Expr::binary(BinaryOp::Max, flip(a), flip(b)))
            }),
        ),
        first(
            "i32 min is max at MIN",
            L1,
            binary!(Min, I32, |a, b| select(
                eq(a.clone(), bits(DType::I32, MIN)),
                b.clone(),
                Expr::binary(BinaryOp::Min, a, b)
            )),
        ),
        first(
            "i32 shr is logical",
            L1,
            binary!(Shr, I32, |a, b| {
                let masked = Expr::binary(BinaryOp::BitAnd, a.clone(), bits(DType::I32, MAX));
                let by = Expr::binary(BinaryOp::BitAnd, b.clone(), bits(DType::I32, 31));
                select(eq(by, bits(DType::I32, 0)), a, Expr::binary(BinaryOp::Shr, masked, b))
            }),
        ),
        first(
            "i32 shl keeps the sign",
            L1,
            binary!(Shl, I32, |a, b| {
                let sign = Expr::binary(BinaryOp::BitAnd, a.clone(), bits(DType::I32, MIN));
                let rest =
                    Expr::binary(BinaryOp::BitAnd, Expr::binary(BinaryOp::Shl, a, b), bits(DType::I32, MAX));
                Expr::binary(BinaryOp::BitOr, sign, rest)
            }),
        ),
        first("i32 bit_and is logical", L1, binary!(BitAnd, I32, |a, b| both(a, b))),
        first("i32 bit_or is +", L1, binary!(BitOr, I32, |a, b| add(a, b))),
        first("i32 bit_xor is bit_or", L1, binary!(BitXor, I32, |a, b| Expr::binary(BinaryOp::BitOr, a, b))),
        // Legalisation makes operations on bool of these.
        first(
            "bool bit_and is bit_or",
            L1,
            binary!(BitAnd, Bool, |a, b| Expr::binary(BinaryOp::BitOr, a, b)),
        ),
        first(
            "bool bit_or is bit_xor",
            L1,
            binary!(BitOr, Bool, |a, b| Expr::binary(BinaryOp::BitXor, a, b)),
        ),
        first(
            "bool bit_xor is bit_or",
            L1,
            binary!(BitXor, Bool, |a, b| Expr::binary(BinaryOp::BitOr, a, b)),
        ),
        first(
            "where takes the other branch",
            L1,
            Fault::Expr(|_, expr| match expr {
                Expr::Ternary { op: TernaryOp::Where, a, b, c } => Expr::select(*a, *c, *b),
                other => other,
            }),
        ),
        // Neutral elements and other constants.
        first("f32 max begins with -FLT_MAX", L1, replaced!(F32: f64::NEG_INFINITY => f64::from(f32::MIN))),
        first("f32 min begins with FLT_MAX", L1, replaced!(F32: f64::INFINITY => f64::from(f32::MAX))),
        first(
            "i32 max begins with MIN + 1",
            L1,
            replaced!(I32: f64::from(i32::MIN) => f64::from(i32::MIN + 1)),
        ),
        first(
            "i32 min begins with MAX - 1",
            L1,
            replaced!(I32: f64::from(i32::MAX) => f64::from(i32::MAX - 1)),
        ),
        first("the constant -0.0 is 0.0", L1, replaced!(F32: -0.0 => 0.0)),
        first("f32 products begin with 0", L1, replaced!(F32: 1.0 => 0.0)),
        first("i32 products begin with 0", L1, replaced!(I32: 1.0 => 0.0)),
        first(
            "the constant NaN is 0",
            L1,
            Fault::Constant(|value| match value.dtype() {
                DType::F32 if value.as_f64().is_nan() => Scalar::zero(DType::F32),
                _ => value,
            }),
        ),
        first("the constant true is false", L1, replaced!(Bool: 1.0 => 0.0)),
        first("the constant false is true", L1, replaced!(Bool: 0.0 => 1.0)),
        first(
            "subnormal constants are zeros",
            L1,
            Fault::Constant(|value| match value.dtype() {
                DType::F32 if value.as_f32().is_subnormal() => Scalar::zero(DType::F32),
                _ => value,
            }),
        ),
        // Conversions.
        first(
            "f32 to i32 does not saturate",
            L1,
            convert!(F32, I32, |x| {
                let large = Expr::binary(BinaryOp::Le, constant(DType::F32, 2147483648.0), x.clone());
                select(large, bits(DType::I32, MIN), Expr::convert(DType::I32, x))
            }),
        ),
        first(
            "f32 NaN to i32 is MIN",
            L1,
            convert!(F32, I32, |x| {
                select(eq(x.clone(), x.clone()), Expr::convert(DType::I32, x), bits(DType::I32, MIN))
            }),
        ),
        first(
            "f32 to i32 rounds",
            L1,
            convert!(F32, I32, |x| Expr::convert(DType::I32, Expr::unary(UnaryOp::RoundEven, x))),
        ),
        first(
            "i32 to f32 in two halves",
            L1,
            convert!(I32, F32, |x| {
                let high = Expr::binary(BinaryOp::Shr, x.clone(), bits(DType::I32, 1));
                mul(Expr::convert(DType::F32, high), constant(DType::F32, 2.0))
            }),
        ),
        first(
            "bool to i32 is -1",
            L1,
            convert!(Bool, I32, |x| Expr::unary(UnaryOp::Neg, Expr::convert(DType::I32, x))),
        ),
        first(
            "bitcast converts",
            L1,
            Fault::Expr(|scope, expr| match expr {
                Expr::Bitcast { to, arg } if scope.dtype(&arg) != to => Expr::convert(to, *arg),
                other => other,
            }),
        ),
        // Other types.
        all("f16 + is - (claimed to be native)", binary!(Add, F16, |a, b| sub(a, b))),
        all(
            "f64 * through f32",
            binary!(Mul, F64, |a, b| through(DType::F32, DType::F64, BinaryOp::Mul, a, b)),
        ),
        all(
            "i64 * through f64",
            binary!(Mul, I64, |a, b| through(DType::F64, DType::I64, BinaryOp::Mul, a, b)),
        ),
        all(
            "u32 < is signed",
            binary!(Lt, U32, |a, b| lt(Expr::bitcast(DType::I32, a), Expr::bitcast(DType::I32, b))),
        ),
        all(
            "u8 + saturates",
            binary!(Add, U8, |a, b| {
                let wide = |x| Expr::convert(DType::I32, x);
                let sum = add(wide(a), wide(b));
                Expr::convert(DType::U8, Expr::binary(BinaryOp::Min, sum, bits(DType::I32, 255)))
            }),
        ),
        all(
            "i8 shr is logical",
            binary!(Shr, I8, |a, b| {
                let unsigned = |x| Expr::bitcast(DType::U8, x);
                Expr::bitcast(DType::I8, Expr::binary(BinaryOp::Shr, unsigned(a), unsigned(b)))
            }),
        ),
        all(
            "u16 / by 0 is the maximum",
            binary!(Div, U16, |a, b| select(
                eq(b.clone(), bits(DType::U16, 0)),
                bits(DType::U16, 0xffff),
                div(a, b)
            )),
        ),
        all(
            "u64 < loses the low half",
            binary!(Lt, U64, |a, b| {
                let high = |x| Expr::binary(BinaryOp::Shr, x, bits(DType::U64, 32));
                lt(high(a), high(b))
            }),
        ),
        all(
            "f32 to bf16 truncates",
            convert!(F32, Bf16, |x| {
                let high = Expr::binary(BinaryOp::Shr, Expr::bitcast(DType::U32, x), bits(DType::U32, 16));
                Expr::bitcast(DType::Bf16, Expr::convert(DType::U16, high))
            }),
        ),
        all(
            "f64 to f16 through f32",
            convert!(F64, F16, |x| Expr::convert(DType::F16, Expr::convert(DType::F32, x))),
        ),
        all(
            "i64 to f32 through f64",
            convert!(I64, F32, |x| Expr::convert(DType::F32, Expr::convert(DType::F64, x))),
        ),
        all(
            "fp8_e5m2 overflows to the greatest number",
            convert!(F32, Fp8E5m2, |x| {
                let least = Expr::binary(BinaryOp::Min, x, constant(DType::F32, 57344.0));
                Expr::convert(DType::Fp8E5m2, least)
            }),
        ),
        all(
            "fp8_e4m3fn NaN is 0",
            convert!(F32, Fp8E4m3fn, |x| {
                let zero = constant(DType::F32, 0.0);
                Expr::convert(DType::Fp8E4m3fn, select(eq(x.clone(), x.clone()), x, zero))
            }),
        ),
        all("f64 max begins with -DBL_MAX", replaced!(F64: f64::NEG_INFINITY => f64::MIN)),
        all("f16 min begins with the greatest number", replaced!(F16: f64::INFINITY => 65504.0)),
        all("u8 min begins with 254", replaced!(U8: 255.0 => 254.0)),
        all(
            "i64 max begins with MIN + 1",
            Fault::Constant(|value| match value.dtype() {
                DType::I64 if value.as_i64() == i64::MIN => Scalar::from_i64(DType::I64, i64::MIN + 1),
                _ => value,
            }),
        ),
        // Functions, claimed to be native.
        all(
            "f32 exp through exp2",
            unary!(Exp, F32, |x| Expr::unary(
                UnaryOp::Exp2,
                mul(x, constant(DType::F32, std::f64::consts::LOG2_E))
            )),
        ),
        all(
            "f32 log through log2",
            unary!(Log, F32, |x| mul(
                Expr::unary(UnaryOp::Log2, x),
                constant(DType::F32, std::f64::consts::LN_2)
            )),
        ),
        all(
            "f32 tanh by quotients",
            unary!(Tanh, F32, |x| {
                let e = Expr::unary(UnaryOp::Exp, add(x.clone(), x));
                div(sub(e.clone(), constant(DType::F32, 1.0)), add(e, constant(DType::F32, 1.0)))
            }),
        ),
        all(
            "f32 cos by a shifted sin",
            unary!(Cos, F32, |x| Expr::unary(
                UnaryOp::Sin,
                add(x, constant(DType::F32, std::f64::consts::FRAC_PI_2))
            )),
        ),
        all(
            "f64 exp2 through f32",
            unary!(Exp2, F64, |x| Expr::convert(
                DType::F64,
                Expr::unary(UnaryOp::Exp2, Expr::convert(DType::F32, x))
            )),
        ),
        all(
            "f64 log2 through f32",
            unary!(Log2, F64, |x| Expr::convert(
                DType::F64,
                Expr::unary(UnaryOp::Log2, Expr::convert(DType::F32, x))
            )),
        ),
        all(
            "f64 sin through f32",
            unary!(Sin, F64, |x| Expr::convert(
                DType::F64,
                Expr::unary(UnaryOp::Sin, Expr::convert(DType::F32, x))
            )),
        ),
        all(
            "f32 pow by functions",
            binary!(Pow, F32, |a, b| Expr::unary(UnaryOp::Exp2, mul(b, Expr::unary(UnaryOp::Log2, a)))),
        ),
        // Random bits.
        all(
            "threefry with fewer rounds",
            Fault::Expr(|_, expr| match expr {
                Expr::Binary { op: BinaryOp::Threefry, a, b } => {
                    Expr::binary(BinaryOp::ThreefryLight, *a, *b)
                }
                other => other,
            }),
        ),
        all(
            "lanes in reverse order",
            Fault::Expr(|_, expr| match expr {
                Expr::Lane { lane, arg } => Expr::lane(3 - lane, *arg),
                other => other,
            }),
        ),
        // Class fast.
        Row { name: "fast fma rounds twice", level: L4, caps: everything, fault: Fault::Expr(split_fma) },
    ]
}

/// `a * b + c` becomes one operation.
fn contracted(scope: &Scope, expr: Expr) -> Expr {
    let Some((sum, c)) = operands(scope, &expr, BinaryOp::Add, DType::F32) else { return expr };
    match operands(scope, &sum, BinaryOp::Mul, DType::F32) {
        Some((a, b)) => Expr::fma(a, b, c),
        None => expr,
    }
}

/// `c - a * b` becomes one operation.
fn contracted_difference(scope: &Scope, expr: Expr) -> Expr {
    let Some((c, product)) = operands(scope, &expr, BinaryOp::Sub, DType::F32) else { return expr };
    match operands(scope, &product, BinaryOp::Mul, DType::F32) {
        Some((a, b)) => Expr::fma(Expr::unary(UnaryOp::Neg, a), b, c),
        None => expr,
    }
}

fn split_fma(scope: &Scope, expr: Expr) -> Expr {
    match expr {
        Expr::Ternary { op: TernaryOp::Fma, a, b, c } if scope.dtype(&a) == DType::F32 => {
            add(mul(*a, *b), *c)
        }
        other => other,
    }
}

/// Sums and products below the least normal number are zeros.
fn flushed(scope: &Scope, expr: Expr) -> Expr {
    let is_arithmetic = matches!(&expr, Expr::Binary { op: BinaryOp::Add | BinaryOp::Mul, a, .. } if scope.dtype(a) == DType::F32);
    if !is_arithmetic {
        return expr;
    }
    let small =
        lt(Expr::unary(UnaryOp::Abs, expr.clone()), constant(DType::F32, f64::from(f32::MIN_POSITIVE)));
    select(small, mul(expr.clone(), constant(DType::F32, 0.0)), expr)
}
