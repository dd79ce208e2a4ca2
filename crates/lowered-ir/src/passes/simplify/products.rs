//! Equations of products, quotients, powers, roots and fused multiplication.
//!
//! The pass [`super::super::expand_powers`] expands powers with larger constant exponents.

use super::equation::{
    ANY, DIVISORS, EXACT, EXACT_PRODUCT, Equation, FLOAT, HAS_EXACT_INVERSE, INVERSES, NATIVE,
    NORMAL_PRODUCT, NUMBER, SIGNED, SIGNED_INTEGER, X_VARIES,
};

pub(super) const EQUATIONS: &[Equation] = &[
    Equation::strict("multiply commutes", "c * x", "x * c", X_VARIES),
    Equation::strict("multiply by one", "x * 1", "x", ANY),
    // Not on floats, because x may be negative, infinite or NaN.
    Equation::strict("multiply by zero", "x * 0", "0", EXACT),
    Equation::real("multiply a float by zero", "x * 0", "0", FLOAT),
    Equation::strict("multiply by minus one", "x * -1", "neg(x)", SIGNED),
    Equation::strict("multiply negated", "neg(x) * neg(y)", "x * y", NUMBER),
    Equation::strict("multiply negated by constant", "neg(x) * c", "x * neg(c)", NUMBER),
    Equation::strict("multiply constants", "(x * c) * d", "x * (c * d)", EXACT),
    // Both sides have the same bits, unless an intermediate result of the left side overflows or is
    // subnormal.
    Equation::fast("multiply by a power of two", "(x * c) * d", "x * (c * d)", EXACT_PRODUCT),
    Equation::fast("multiply quotient by a power of two", "(c / x) * d", "(c * d) / x", EXACT_PRODUCT),
    // One rounding instead of two.
    Equation::fast("multiply by inverse, inside", "(x * c) * (d / y)", "x / y", INVERSES),
    Equation::fast("multiply by inverse, outside", "(x * (c / y)) * d", "x / y", INVERSES),
    Equation::real("multiply float constants", "(x * c) * d", "x * (c * d)", NORMAL_PRODUCT),
    Equation::strict("divide by one", "x / 1", "x", ANY),
    Equation::strict("divide by minus one", "x / -1", "neg(x)", SIGNED_INTEGER),
    Equation::strict("divide by zero", "x / 0", "0", EXACT),
    Equation::strict("divide zero", "0 / x", "0", EXACT),
    Equation::real("divide float zero", "0 / x", "0", FLOAT),
    Equation::strict("divide one", "1 / x", "recip(x)", ANY),
    // Both sides round x / c once.
    Equation::strict("divide by power of two", "x / c", "x * recip(c)", HAS_EXACT_INVERSE),
    Equation::strict("divide negated", "neg(x) / neg(y)", "x / y", FLOAT),
    Equation::strict("divide negated by constant", "neg(x) / c", "x / neg(c)", FLOAT),
    Equation::strict("divide by constants", "(x / c) / d", "x / (c * d)", DIVISORS),
    Equation::real("divide by float constants", "(x / c) / d", "x / (c * d)", NORMAL_PRODUCT),
    Equation::real("divide twice", "(x / y) / z", "x / (y * z)", FLOAT),
    Equation::real("divide by quotient", "x / (y / z)", "x * z / y", FLOAT),
    Equation::real("divide product of constant", "x * c / d", "x * (c / d)", NORMAL_PRODUCT),
    Equation::real("multiply quotient by constant", "(x / c) * d", "x * (d / c)", NORMAL_PRODUCT),
    Equation::real("divide constant by product", "c / (x * d)", "(c / d) / x", NORMAL_PRODUCT),
    Equation::real("divide constant by quotient of constant", "c / (x / d)", "(c * d) / x", NORMAL_PRODUCT),
    Equation::real("multiply quotient of constant", "(c / x) * d", "(c * d) / x", NORMAL_PRODUCT),
    Equation::real("divide quotient of constant", "(c / x) / d", "(c / d) / x", NORMAL_PRODUCT),
    Equation::strict("remainder by one", "x % 1", "0", EXACT),
    Equation::strict("remainder by zero", "x % 0", "0", EXACT),
    Equation::strict("remainder of zero", "0 % x", "0", EXACT),
    Equation::strict("reciprocal of root", "recip(sqrt(x))", "recip_sqrt(x)", NATIVE),
    Equation::real("reciprocal twice", "recip(recip(x))", "x", FLOAT),
    Equation::strict("power zero", "pow(x, 0)", "1", ANY),
    Equation::strict("power of one", "pow(1, x)", "1", ANY),
    Equation::strict("power one", "pow(x, 1)", "x", EXACT),
    // The right sides are correctly rounded; `pow` is not always.
    Equation::fast("float power one", "pow(x, 1)", "x", FLOAT),
    Equation::fast("power minus one", "pow(x, -1)", "recip(x)", FLOAT),
    Equation::strict("product of three", "mul3(x, y, z)", "x * y * z", NATIVE),
    Equation::strict("integer product of three", "mul3(x, y, z)", "x * y * z", EXACT),
    Equation::strict("fused commutes", "fma(c, x, y)", "fma(x, c, y)", X_VARIES),
    Equation::strict("fused by one", "fma(x, 1, y)", "x + y", ANY),
    Equation::strict("fused by minus one", "fma(x, -1, y)", "y - x", SIGNED),
    Equation::strict("fused by zero", "fma(x, 0, y)", "y", EXACT),
    Equation::strict("fused constants", "fma(c, d, x)", "x + c * d", EXACT),
    Equation::strict("fused with zero", "fma(x, y, 0)", "x * y", EXACT),
    Equation::strict("fused with negative zero", "fma(x, y, -0.0)", "x * y", FLOAT),
    Equation::strict("fused negated", "fma(neg(x), neg(y), z)", "fma(x, y, z)", NUMBER),
    Equation::strict("fused negated by constant", "fma(neg(x), c, z)", "fma(x, neg(c), z)", NUMBER),
];
