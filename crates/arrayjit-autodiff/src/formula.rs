//! Formulas, by which rules compute the adjoints of operands.

use std::fmt;

use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};

/// An expression over the adjoint of a result, the result, and the operands of an operation.
///
/// Prints as assignment text with the names `g` for the adjoint, `y` for the result, and `a`, `b`, `c` for
/// the operands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Formula {
    /// The adjoint of the result.
    Adjoint,
    /// The result of the operation.
    Result,
    /// The operand at that position.
    Operand(usize),
    /// A number, in the type of the adjoint.
    Number(f64),
    /// An operation on one formula.
    Unary(UnaryOp, Box<Formula>),
    /// An operation on two.
    Binary(BinaryOp, Box<[Formula; 2]>),
    /// An operation on three.
    Ternary(TernaryOp, Box<[Formula; 3]>),
}

impl Formula {
    pub(crate) fn unary(op: UnaryOp, a: Formula) -> Formula {
        Formula::Unary(op, Box::new(a))
    }

    pub(crate) fn binary(op: BinaryOp, a: Formula, b: Formula) -> Formula {
        Formula::Binary(op, Box::new([a, b]))
    }

    /// The sum of formulas in which all operands have the same value; `None` if there are none.
    pub(crate) fn sum(formulas: Vec<Formula>) -> Option<Formula> {
        let mut formulas = formulas.into_iter();
        let first = formulas.next()?;
        Some(formulas.fold(first, |sum, next| match (&sum, &next) {
            (Formula::Binary(BinaryOp::Mul, a), Formula::Binary(BinaryOp::Mul, b))
                if matches!((a.as_ref(), b.as_ref()), ([Formula::Adjoint, _], [Formula::Adjoint, _]))
                    && a[1].is_operand()
                    && b[1].is_operand() =>
            {
                let twice = Formula::binary(BinaryOp::Mul, Formula::Number(2.0), Formula::Adjoint);
                Formula::binary(BinaryOp::Mul, twice, a[1].clone())
            }
            _ => Formula::binary(BinaryOp::Add, sum, next),
        }))
    }

    fn is_operand(&self) -> bool {
        matches!(self, Formula::Operand(_))
    }

    /// `yes` where the condition holds, else `no`.
    pub(crate) fn select(condition: Formula, yes: Formula, no: Formula) -> Formula {
        Formula::Ternary(TernaryOp::Where, Box::new([condition, yes, no]))
    }

    /// Whether the formula is the adjoint, its negative or 0, chosen by conditions. Such a formula is 0 where
    /// the adjoint is 0, whatever the operands are; a product is NaN where an operand is infinite.
    pub(crate) fn selects(&self) -> bool {
        match self {
            Formula::Adjoint => true,
            Formula::Number(value) => *value == 0.0,
            Formula::Unary(UnaryOp::Neg, a) => a.selects(),
            Formula::Binary(BinaryOp::ReluGate | BinaryOp::Satur01Gate, operands) => operands[1].selects(),
            Formula::Binary(BinaryOp::Mul, operands) => {
                matches!(operands.as_ref(), [Formula::Number(_), adjoint] if adjoint.selects())
            }
            Formula::Binary(BinaryOp::Add, operands) => operands.iter().all(Formula::selects),
            Formula::Ternary(TernaryOp::Where, operands) => operands[1].selects() && operands[2].selects(),
            _ => false,
        }
    }

    /// Whether the formula is a multiple of the adjoint times an operand.
    pub(crate) fn is_plain_product(&self) -> bool {
        match self {
            Formula::Unary(UnaryOp::Neg, a) => a.is_plain_product(),
            Formula::Binary(BinaryOp::Mul, operands) => {
                matches!(operands.as_ref(), [adjoint, Formula::Operand(_)] if adjoint.selects())
            }
            _ => false,
        }
    }

    /// Whether the formula chooses by a condition.
    pub(crate) fn has_condition(&self) -> bool {
        match self {
            Formula::Adjoint | Formula::Result | Formula::Operand(_) | Formula::Number(_) => false,
            Formula::Unary(_, a) => a.has_condition(),
            Formula::Binary(BinaryOp::ReluGate | BinaryOp::Satur01Gate, _) => true,
            Formula::Binary(_, operands) => operands.iter().any(Formula::has_condition),
            Formula::Ternary(TernaryOp::Where, _) => true,
            Formula::Ternary(_, operands) => operands.iter().any(Formula::has_condition),
        }
    }

    /// The formula, or 0 where the adjoint is 0.
    pub(crate) fn guarded(self) -> Formula {
        Formula::select(Formula::Adjoint, self, Formula::Number(0.0))
    }

    fn is_atom(&self) -> bool {
        match self {
            Formula::Binary(op, _) => is_call(op.token()),
            Formula::Unary(UnaryOp::Neg, _) => false,
            _ => true,
        }
    }
}

fn is_call(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic())
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |formula: &Formula| {
            if formula.is_atom() { formula.to_string() } else { format!("({formula})") }
        };
        match self {
            Formula::Adjoint => f.write_str("g"),
            Formula::Result => f.write_str("y"),
            Formula::Operand(at) => f.write_str(["a", "b", "c"].get(*at).unwrap_or(&"d")),
            Formula::Number(value) => write!(f, "{value}"),
            Formula::Unary(UnaryOp::Neg, a) => write!(f, "-{}", inner(a)),
            Formula::Unary(op, a) => write!(f, "{op}({a})"),
            Formula::Binary(op, operands) if is_call(op.token()) => {
                write!(f, "{op}({}, {})", operands[0], operands[1])
            }
            Formula::Binary(op, operands) => {
                write!(f, "{} {op} {}", inner(&operands[0]), inner(&operands[1]))
            }
            Formula::Ternary(op, operands) => {
                write!(f, "{op}({}, {}, {})", operands[0], operands[1], operands[2])
            }
        }
    }
}
