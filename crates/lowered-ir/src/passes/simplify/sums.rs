//! Equations of sums, differences and negation.
//!
//! Constants gather on the right. Sums of variables keep their shape, so that an accumulation `t + e` stays
//! an accumulation.

use super::equation::{ANY, BOOL, EXACT, Equation, FINITE_SUM, FLOAT, INTEGER, NATIVE, NUMBER, X_VARIES};

pub(super) const EQUATIONS: &[Equation] = &[
    Equation::strict("add commutes", "c + x", "x + c", X_VARIES),
    Equation::strict("add zero", "x + 0", "x", EXACT),
    Equation::strict("add negative zero", "x + -0.0", "x", FLOAT),
    Equation::strict("add constants", "(x + c) + d", "x + (c + d)", EXACT),
    Equation::real("add float constants", "(x + c) + d", "x + (c + d)", FINITE_SUM),
    Equation::strict("subtract zero", "x - 0", "x", ANY),
    Equation::strict("subtract from zero", "0 - x", "neg(x)", INTEGER),
    Equation::strict("subtract from negative zero", "-0.0 - x", "neg(x)", FLOAT),
    Equation::real("subtract from float zero", "0 - x", "neg(x)", FLOAT),
    Equation::strict("subtract itself", "x - x", "0", EXACT),
    Equation::real("subtract a float from itself", "x - x", "0", FLOAT),
    Equation::strict("subtract negated", "x - neg(y)", "x + y", NUMBER),
    // Turns an accumulation of differences into an accumulation of sums.
    Equation::strict("subtract product", "x - y * c", "x + y * neg(c)", NUMBER),
    Equation::strict("subtract constant", "x - c", "x + neg(c)", NUMBER),
    Equation::strict("sum from constant", "c - (x + d)", "(c - d) - x", INTEGER),
    Equation::real("float sum from constant", "c - (x + d)", "(c - d) - x", FINITE_SUM),
    Equation::strict("difference from constant", "c - (d - x)", "x + (c - d)", INTEGER),
    Equation::real("float difference from constant", "c - (d - x)", "x + (c - d)", FINITE_SUM),
    Equation::strict("constant to difference", "(c - x) + d", "(c + d) - x", INTEGER),
    Equation::real("constant to float difference", "(c - x) + d", "(c + d) - x", FINITE_SUM),
    // Near -1 and 1, where the left sides lose every digit, the right sides keep all but two.
    Equation::fast("tanh and one", "tanh(x) + 1", "2 / (exp(x * -2) + 1)", NATIVE),
    Equation::fast("one less tanh", "1 - tanh(x)", "2 / (exp(x * 2) + 1)", NATIVE),
    Equation::strict("negate twice", "neg(neg(x))", "x", NUMBER),
    Equation::strict("negate a truth value", "neg(x)", "x", BOOL),
    Equation::strict("negate difference", "neg(x - y)", "y - x", INTEGER),
    Equation::real("negate float difference", "neg(x - y)", "y - x", FLOAT),
    Equation::strict("negate product", "neg(x * c)", "x * neg(c)", NUMBER),
    Equation::strict("negate sum", "neg(x + c)", "neg(c) - x", INTEGER),
    Equation::real("negate float sum", "neg(x + c)", "neg(c) - x", FLOAT),
];
