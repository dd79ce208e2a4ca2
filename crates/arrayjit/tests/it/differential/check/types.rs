//! The types of expressions, by the rules of the document on assignment text.

use tnode::DType;

use super::program::{Access, Binary, Expr, Number, Program, Unary};

/// The type of an expression without its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Known(DType),
    /// Integer literals only: the context determines the type.
    Integer,
    /// Literals only, at least one with a fraction.
    Fraction,
    /// Integers with a fractional literal, or a function that maps integers to floats.
    Widened,
}

impl Type {
    /// The type of the expression in a context that wants `wanted`.
    pub(crate) fn within(self, wanted: DType) -> DType {
        match self {
            Type::Known(dtype) => dtype,
            Type::Integer => wanted,
            Type::Fraction if wanted.is_float() => wanted,
            Type::Fraction => DType::F32,
            Type::Widened => promote(DType::F32, wanted),
        }
    }
}

const ORDER: [DType; 14] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
    DType::Fp8E4m3fn,
    DType::Fp8E5m2,
    DType::F16,
    DType::Bf16,
    DType::F32,
    DType::F64,
];

/// The greater type in the order of promotion.
pub(crate) fn promote(a: DType, b: DType) -> DType {
    let place = |dtype| ORDER.iter().position(|d| *d == dtype);
    if place(a) >= place(b) { a } else { b }
}

/// Whether the function converts integer operands to floats.
pub(crate) fn is_float_function(op: Unary) -> bool {
    use Unary::{Cos, Exp, Exp2, Log, Log2, Recip, RecipSqrt, Sin, Sqrt, Tanh};
    matches!(op, Exp | Exp2 | Log | Log2 | Sin | Cos | Tanh | Sqrt | Recip | RecipSqrt)
}

/// The types of the expressions of one statement.
pub(crate) struct Types<'p> {
    pub(crate) program: &'p Program,
    /// The type of the node that the statement writes.
    pub(crate) written: DType,
}

impl Types<'_> {
    /// The type of the value of an expression.
    pub(crate) fn of(&self, expr: &Expr) -> Type {
        match expr {
            Expr::Binary(op, _) if op.is_comparison() => Type::Known(DType::Bool),
            Expr::Number(Number::Integer(_)) => Type::Integer,
            Expr::Number(_) => Type::Fraction,
            Expr::Var(_) | Expr::Size(_) => Type::Known(DType::I32),
            Expr::Read(Access { node, .. }) => Type::Known(self.program.nodes[*node].dtype),
            Expr::Cast(dtype, _) => Type::Known(*dtype),
            Expr::Unary(..) | Expr::Binary(..) | Expr::Where(_) | Expr::Fma(_) => self.computing(expr),
        }
    }

    /// The type in which an operation computes, if its operands determine it.
    fn computing(&self, expr: &Expr) -> Type {
        match expr {
            Expr::Unary(op, a) => match self.of(a) {
                Type::Known(dtype) if is_float_function(*op) && !dtype.is_float() => Type::Widened,
                Type::Integer if is_float_function(*op) => Type::Fraction,
                Type::Known(DType::Bool) if matches!(op, Unary::Neg | Unary::Abs) => Type::Known(DType::I32),
                known => known,
            },
            Expr::Binary(op, args) => self.joined(*op, self.of(&args[0]), self.of(&args[1])),
            Expr::Where(args) => self.joined(Binary::Or, self.of(&args[1]), self.of(&args[2])),
            Expr::Fma(args) => {
                let product = self.joined(Binary::Mul, self.of(&args[0]), self.of(&args[1]));
                self.joined(Binary::Add, product, self.of(&args[2]))
            }
            other => self.of(other),
        }
    }

    fn joined(&self, op: Binary, a: Type, b: Type) -> Type {
        let of_bits = op.is_comparison() || op.is_bitwise() || op.is_logical();
        match (a, b) {
            (Type::Known(DType::Bool), Type::Known(DType::Bool)) if !of_bits => Type::Known(DType::I32),
            (Type::Known(a), Type::Known(b)) => Type::Known(promote(a, b)),
            (Type::Known(DType::Bool), Type::Integer) | (Type::Integer, Type::Known(DType::Bool)) => {
                Type::Known(DType::I32)
            }
            (Type::Known(known), Type::Integer) | (Type::Integer, Type::Known(known)) => Type::Known(known),
            (Type::Known(known), Type::Fraction) | (Type::Fraction, Type::Known(known))
                if known.is_float() =>
            {
                Type::Known(known)
            }
            // `f64` is the greatest float type.
            (Type::Known(DType::F64), _) | (_, Type::Known(DType::F64)) => Type::Known(DType::F64),
            (Type::Known(_) | Type::Widened, _) | (_, Type::Known(_) | Type::Widened) => Type::Widened,
            (Type::Integer, Type::Integer) => Type::Integer,
            (Type::Fraction, _) | (_, Type::Fraction) => Type::Fraction,
        }
    }

    /// The type that the operands of an operation have, in a context that wants `wanted`.
    pub(crate) fn operands(&self, expr: &Expr, wanted: DType) -> DType {
        match (expr, self.computing(expr)) {
            // The type of a comparison's result does not determine the type of its operands.
            (Expr::Binary(op, _), Type::Widened) if op.is_comparison() => Type::Widened.within(self.written),
            (Expr::Binary(op, _), computing) if op.is_comparison() => computing.within(DType::I32),
            (_, Type::Integer) if wanted == DType::Bool => DType::I32,
            (_, computing) => computing.within(wanted),
        }
    }
}
