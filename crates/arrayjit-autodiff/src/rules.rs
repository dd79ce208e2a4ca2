//! The table of derivatives: for each operation and operand, the formula of the operand's adjoint.
//!
//! Conventions where a derivative is not unique:
//! * `max` and `min` of equal operands give half of the adjoint to each;
//! * `abs` and `relu` have derivative 0 at 0, and `satur01` at 0 and 1;
//! * rounding, comparisons, logical operations and conditions have derivative 0 everywhere.
//!
//! A formula has the result instead of an operand where both give the same value: `relu` is positive where
//! its operand is. Programs store results that they read later, and often compute operands without storing
//! them.
//!
//! A formula that divides or has a logarithm selects instead of multiplying by 0 where its factor could be
//! infinite, as in the derivative of `pow(a, b)` by `b` at `a = 0`.

use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};

use crate::Formula;

/// The adjoint of one operand of an operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Derivative {
    /// The formula of the adjoint.
    Formula(Formula),
    /// The adjoint is 0, because the operation is piecewise constant in the operand.
    Zero,
}

impl From<Formula> for Derivative {
    fn from(formula: Formula) -> Derivative {
        Derivative::Formula(formula)
    }
}

const G: Formula = Formula::Adjoint;
const Y: Formula = Formula::Result;
const A: Formula = Formula::Operand(0);
const B: Formula = Formula::Operand(1);
const C: Formula = Formula::Operand(2);
const ZERO: Formula = Formula::Number(0.0);

fn neg(a: Formula) -> Formula {
    Formula::unary(UnaryOp::Neg, a)
}

fn mul(a: Formula, b: Formula) -> Formula {
    Formula::binary(BinaryOp::Mul, a, b)
}

fn div(a: Formula, b: Formula) -> Formula {
    Formula::binary(BinaryOp::Div, a, b)
}

fn sub(a: Formula, b: Formula) -> Formula {
    Formula::binary(BinaryOp::Sub, a, b)
}

fn add(a: Formula, b: Formula) -> Formula {
    Formula::binary(BinaryOp::Add, a, b)
}

/// The derivative of the error function, 2/√π · exp(−a²).
fn density() -> Formula {
    mul(Formula::Number(std::f64::consts::FRAC_2_SQRT_PI), Formula::unary(UnaryOp::Exp, neg(mul(A, A))))
}

fn lt(a: Formula, b: Formula) -> Formula {
    Formula::binary(BinaryOp::Lt, a, b)
}

fn eq(a: Formula, b: Formula) -> Formula {
    Formula::binary(BinaryOp::Eq, a, b)
}

fn half_of_adjoint() -> Formula {
    mul(Formula::Number(0.5), G)
}

/// The adjoint of the operand of `y = op(a)`.
pub fn unary(op: UnaryOp) -> Derivative {
    use UnaryOp::*;
    use std::f64::consts::LN_2;
    let formula = match op {
        Neg => neg(G),
        Abs => Formula::select(lt(ZERO, A), G, Formula::select(lt(A, ZERO), neg(G), ZERO)),
        Relu => Formula::binary(BinaryOp::ReluGate, Y, G),
        Satur01 => Formula::binary(BinaryOp::Satur01Gate, Y, G),
        Exp => mul(G, Y),
        Exp2 => mul(mul(G, Y), Formula::Number(LN_2)),
        Expm1 => mul(G, Formula::unary(Exp, A)),
        Log => div(G, A),
        Log1p => div(G, add(Formula::Number(1.0), A)),
        Log2 => div(G, mul(A, Formula::Number(LN_2))),
        Sin => mul(G, Formula::unary(Cos, A)),
        Cos => neg(mul(G, Formula::unary(Sin, A))),
        Tanh => mul(G, sub(Formula::Number(1.0), mul(Y, Y))),
        Sigmoid => mul(G, mul(Y, sub(Formula::Number(1.0), Y))),
        Atan => div(G, Formula::Ternary(TernaryOp::Fma, Box::new([A, A, Formula::Number(1.0)]))),
        Erf => mul(G, density()),
        Erfc => neg(mul(G, density())),
        Sqrt => div(half_of_adjoint(), Y),
        Recip => neg(mul(G, mul(Y, Y))),
        RecipSqrt => mul(mul(Formula::Number(-0.5), G), mul(Y, mul(Y, Y))),
        Not | Trunc | Floor | RoundEven => return Derivative::Zero,
    };
    formula.into()
}

/// The adjoint of operand 0 or 1 of `y = op(a, b)`.
pub fn binary(op: BinaryOp, operand: usize) -> Derivative {
    use BinaryOp::*;
    let formula = match (op, operand) {
        (Add, _) | (Sub | Rem | Arg1, 0) | (Arg2, 1) => G,
        (Sub, _) => neg(G),
        (Mul, 0) => mul(G, B),
        (Mul, _) => mul(G, A),
        (Div, 0) => div(G, B),
        (Div, _) => neg(mul(G, div(Y, B))),
        (Rem, _) => neg(mul(G, Formula::unary(UnaryOp::Trunc, div(A, B)))),
        (Pow, 0) => {
            let lower = Formula::binary(Pow, A, sub(B, Formula::Number(1.0)));
            Formula::select(eq(B, ZERO), ZERO, mul(G, mul(B, lower)))
        }
        (Pow, _) => Formula::select(eq(A, ZERO), ZERO, mul(G, mul(Y, Formula::unary(UnaryOp::Log, A)))),
        (Max, 0) | (Min, 1) => Formula::select(lt(B, A), G, half_if_equal()),
        (Max | Min, _) => Formula::select(lt(A, B), G, half_if_equal()),
        (ReluGate | Satur01Gate, 1) => Formula::binary(op, A, G),
        (ReluGate | Satur01Gate, _) => return Derivative::Zero,
        (Arg1 | Arg2, _) => return Derivative::Zero,
        (
            Lt | Le | Eq | Ne | And | Or | BitAnd | BitOr | BitXor | Shl | Shr | Threefry | ThreefryCrypto
            | ThreefryLight,
            _,
        ) => return Derivative::Zero,
    };
    formula.into()
}

/// Half of the adjoint where the operands are equal, else 0.
fn half_if_equal() -> Formula {
    Formula::select(eq(A, B), half_of_adjoint(), ZERO)
}

/// The adjoint of operand 0, 1 or 2 of `y = op(a, b, c)`.
pub fn ternary(op: TernaryOp, operand: usize) -> Derivative {
    let formula = match (op, operand) {
        (TernaryOp::Where, 0) => return Derivative::Zero,
        (TernaryOp::Where, 1) => Formula::select(A, G, ZERO),
        (TernaryOp::Where, _) => Formula::select(A, ZERO, G),
        (TernaryOp::Fma, 0) => mul(G, B),
        (TernaryOp::Fma, 1) => mul(G, A),
        (TernaryOp::Fma, _) => G,
        (TernaryOp::Mul3, 0) => Formula::Ternary(TernaryOp::Mul3, Box::new([G, B, C])),
        (TernaryOp::Mul3, 1) => Formula::Ternary(TernaryOp::Mul3, Box::new([G, A, C])),
        (TernaryOp::Mul3, _) => Formula::Ternary(TernaryOp::Mul3, Box::new([G, A, B])),
    };
    formula.into()
}
