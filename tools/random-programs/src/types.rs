//! The types of expressions, by the rules of the document on assignment text.

use tnode::DType;

use crate::program::{
    BinaryFunction, ProgramAccess, ProgramExpr, ProgramNumber, RandomProgram, UnaryFunction,
};

/// The type of an expression without its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExprType {
    /// A type that does not depend on the context.
    Known(DType),
    /// Integer literals only: the context determines the type.
    Integer,
    /// Literals only, at least one with a fraction.
    Fraction,
    /// Integers with a fractional literal, or a function that maps integers to floats.
    Widened,
}

impl ExprType {
    /// The type of the expression in a context that wants `wanted`.
    pub fn within(self, wanted: DType) -> DType {
        match self {
            ExprType::Known(dtype) => dtype,
            ExprType::Integer => wanted,
            ExprType::Fraction if wanted.is_float() => wanted,
            ExprType::Fraction => DType::F32,
            ExprType::Widened => promote(DType::F32, wanted),
        }
    }
}

const ORDER: [DType; 14] = {
    use DType::{Bf16, Bool, F16, F32, F64, Fp8E4m3fn as E4, Fp8E5m2 as E5, I8, I32, I64, U8, U16, U32, U64};
    [Bool, U8, I8, U16, I32, U32, I64, U64, E4, E5, F16, Bf16, F32, F64]
};

/// The greater type in the order of promotion.
pub fn promote(a: DType, b: DType) -> DType {
    let place = |dtype| ORDER.iter().position(|d| *d == dtype);
    if place(a) >= place(b) { a } else { b }
}

/// Whether the function converts integer operands to floats.
pub fn is_float_function(op: UnaryFunction) -> bool {
    use UnaryFunction::{Atan, Cos, Erf, Erfc, Exp, Exp2, Expm1, Log, Log1p, Log2, Sigmoid, Sin, Tanh};
    use UnaryFunction::{Recip, RecipSqrt, Sqrt};
    matches!(
        op,
        Exp | Exp2
            | Expm1
            | Log
            | Log1p
            | Log2
            | Sin
            | Cos
            | Tanh
            | Sigmoid
            | Atan
            | Erf
            | Erfc
            | Sqrt
            | Recip
            | RecipSqrt
    )
}

/// The types of the expressions of one statement.
pub struct ExprTypes<'p> {
    /// The program, for the types of its nodes.
    pub program: &'p RandomProgram,
    /// The type of the node that the statement writes.
    pub written: DType,
}

impl ExprTypes<'_> {
    /// The type of the value of an expression.
    pub fn of(&self, expr: &ProgramExpr) -> ExprType {
        match expr {
            ProgramExpr::Binary(op, _) if op.is_comparison() => ExprType::Known(DType::Bool),
            ProgramExpr::Number(ProgramNumber::Integer(_)) => ExprType::Integer,
            ProgramExpr::Number(_) => ExprType::Fraction,
            ProgramExpr::Var(_) | ProgramExpr::Size(_) => ExprType::Known(DType::I32),
            ProgramExpr::Read(ProgramAccess { node, .. }) => ExprType::Known(self.program.nodes[*node].dtype),
            ProgramExpr::Cast(dtype, _) => ExprType::Known(*dtype),
            ProgramExpr::Unary(..)
            | ProgramExpr::Binary(..)
            | ProgramExpr::Where(_)
            | ProgramExpr::Fma(_) => self.computing(expr),
        }
    }

    /// The type in which an operation computes, if its operands determine it.
    fn computing(&self, expr: &ProgramExpr) -> ExprType {
        match expr {
            ProgramExpr::Unary(op, a) => match self.of(a) {
                ExprType::Known(dtype) if is_float_function(*op) && !dtype.is_float() => ExprType::Widened,
                ExprType::Integer if is_float_function(*op) => ExprType::Fraction,
                ExprType::Known(DType::Bool) if matches!(op, UnaryFunction::Neg | UnaryFunction::Abs) => {
                    ExprType::Known(DType::I32)
                }
                known => known,
            },
            ProgramExpr::Binary(op, args) => self.joined(*op, self.of(&args[0]), self.of(&args[1])),
            ProgramExpr::Where(args) => self.joined(BinaryFunction::Or, self.of(&args[1]), self.of(&args[2])),
            ProgramExpr::Fma(args) => {
                let product = self.joined(BinaryFunction::Mul, self.of(&args[0]), self.of(&args[1]));
                self.joined(BinaryFunction::Add, product, self.of(&args[2]))
            }
            other => self.of(other),
        }
    }

    fn joined(&self, op: BinaryFunction, a: ExprType, b: ExprType) -> ExprType {
        let of_bits = op.is_comparison() || op.is_bitwise() || op.is_logical();
        match (a, b) {
            (ExprType::Known(DType::Bool), ExprType::Known(DType::Bool)) if !of_bits => {
                ExprType::Known(DType::I32)
            }
            (ExprType::Known(a), ExprType::Known(b)) => ExprType::Known(promote(a, b)),
            (ExprType::Known(DType::Bool), ExprType::Integer)
            | (ExprType::Integer, ExprType::Known(DType::Bool)) => ExprType::Known(DType::I32),
            (ExprType::Known(known), ExprType::Integer) | (ExprType::Integer, ExprType::Known(known)) => {
                ExprType::Known(known)
            }
            (ExprType::Known(known), ExprType::Fraction) | (ExprType::Fraction, ExprType::Known(known))
                if known.is_float() =>
            {
                ExprType::Known(known)
            }
            // `f64` is the greatest float type.
            (ExprType::Known(DType::F64), _) | (_, ExprType::Known(DType::F64)) => {
                ExprType::Known(DType::F64)
            }
            (ExprType::Known(_) | ExprType::Widened, _) | (_, ExprType::Known(_) | ExprType::Widened) => {
                ExprType::Widened
            }
            (ExprType::Integer, ExprType::Integer) => ExprType::Integer,
            (ExprType::Fraction, _) | (_, ExprType::Fraction) => ExprType::Fraction,
        }
    }

    /// The type that the operands of an operation have, in a context that wants `wanted`.
    pub fn operands(&self, expr: &ProgramExpr, wanted: DType) -> DType {
        match (expr, self.computing(expr)) {
            // The type of a comparison's result does not determine the type of its operands.
            (ProgramExpr::Binary(op, _), ExprType::Widened) if op.is_comparison() => {
                ExprType::Widened.within(self.written)
            }
            (ProgramExpr::Binary(op, _), computing) if op.is_comparison() => computing.within(DType::I32),
            (_, ExprType::Integer) if wanted == DType::Bool => DType::I32,
            (_, computing) => computing.within(wanted),
        }
    }
}
