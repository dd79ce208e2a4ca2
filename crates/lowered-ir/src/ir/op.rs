//! The operations of the IR: one table for each number of operands, with the token and the numerics of each
//! operation.
//!
//! [`crate::eval`] defines the result of each operation; for transcendental ones it calls [`crate::math`],
//! from which legalization derives their expansion. The numerics stated here repeat those definitions in
//! words.

use tnode::DType;

macro_rules! ops {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $token:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every operation, in declaration order.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The token of the operation in the text form: an identifier (called like a function) or an
            /// infix sign.
            pub fn token(self) -> &'static str {
                match self { $($name::$variant => $token,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.token())
            }
        }
    };
}

ops! {
    /// Operations on one operand; the result has the operand's type.
    UnaryOp {
        /// `-x`; wraps on integers; identity on `bool`.
        Neg = "neg",
        /// Absolute value; wraps on integers.
        Abs = "abs",
        /// 1 if `x` is 0, else 0, in the operand's type; NaN is not 0.
        Not = "not",
        /// `max(x, 0)`: NaN gives NaN, and −0 gives −0.
        Relu = "relu",
        /// `min(max(x, 0), 1)`: NaN gives NaN, and −0 gives −0.
        Satur01 = "satur01",
        /// eˣ.
        Exp = "exp",
        /// 2ˣ.
        Exp2 = "exp2",
        /// eˣ − 1, accurate down to 0.
        Expm1 = "expm1",
        /// Natural logarithm; NaN below 0, −∞ at 0.
        Log = "log",
        /// Natural logarithm of 1 + x, accurate down to 0; NaN below −1, −∞ at −1.
        Log1p = "log1p",
        /// Base-2 logarithm; NaN below 0, −∞ at 0.
        Log2 = "log2",
        /// Sine of radians; NaN at infinities.
        Sin = "sin",
        /// Cosine of radians; NaN at infinities.
        Cos = "cos",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// The logistic function, 1 / (1 + e⁻ˣ), accurate where it is small.
        Sigmoid = "sigmoid",
        /// Inverse tangent, between −π/2 and π/2.
        Atan = "atan",
        /// The error function, 2/√π · ∫ exp(−t²) dt from 0 to `x`.
        Erf = "erf",
        /// 1 − erf(x), accurate where it is small.
        Erfc = "erfc",
        /// Correctly rounded square root; NaN below 0. On integers the operand is converted to f64 and back.
        Sqrt = "sqrt",
        /// `1 / x`, correctly rounded; on integers the quotient `1 / x` of integers.
        Recip = "recip",
        /// `1 / sqrt(x)` in two correctly rounded steps.
        RecipSqrt = "recip_sqrt",
        /// Rounds towards zero; identity on integers.
        Trunc = "trunc",
        /// Rounds towards −∞; identity on integers.
        Floor = "floor",
        /// Rounds to the nearest integer, ties to even; identity on integers.
        RoundEven = "round_even",
    }
}

ops! {
    /// Operations on two operands of one type; the result has that type, but for comparisons, which give
    /// `bool`.
    BinaryOp {
        /// `a + b`.
        Add = "+",
        /// `a - b`.
        Sub = "-",
        /// `a * b`.
        Mul = "*",
        /// `a / b`; integers truncate, and give 0 where `b` is 0.
        Div = "/",
        /// Remainder with the sign of `a` (C's `fmod` and `%`); integers give 0 where `b` is 0.
        Rem = "%",
        /// `a` to the power of `b` (for floats as C's `pow`); integers wrap, and a negative exponent gives
        /// `1 / aⁿ` truncated.
        Pow = "pow",
        /// `b` if `b > a` or `b` is NaN, else `a`: NaN if either is, and the first of equal operands.
        Max = "max",
        /// `b` if `b < a` or `b` is NaN, else `a`: NaN if either is, and the first of equal operands.
        Min = "min",
        /// `b` if `a > 0`, else 0.
        ReluGate = "relu_gate",
        /// `b` if `0 < a < 1`, else 0.
        Satur01Gate = "satur01_gate",
        /// `a < b`, as `bool`; false on NaN.
        Lt = "<",
        /// `a <= b`, as `bool`; false on NaN.
        Le = "<=",
        /// `a == b`, as `bool`; false on NaN.
        Eq = "==",
        /// `a != b`, as `bool`; true on NaN.
        Ne = "!=",
        /// 1 if both are not 0, else 0, in the operands' type.
        And = "and",
        /// 1 if either is not 0, else 0, in the operands' type.
        Or = "or",
        /// Bitwise and; integers and `bool` only, like the other bit operations.
        BitAnd = "bit_and",
        /// Bitwise or.
        BitOr = "bit_or",
        /// Bitwise exclusive or.
        BitXor = "bit_xor",
        /// Left shift by `b` modulo the width.
        Shl = "shl",
        /// Right shift by `b` modulo the width; arithmetic on signed types.
        Shr = "shr",
        /// `a`.
        Arg1 = "arg1",
        /// `b`.
        Arg2 = "arg2",
        /// The block cipher Threefry-4x32 of 20 rounds with key `a` applied to counter `b`; `u32x4` only
        /// ([`crate::random`]).
        Threefry = "threefry",
        /// A variant of 40 rounds that the project's predecessor uses; `u32x4` only.
        ThreefryCrypto = "threefry_crypto",
        /// A variant of 4 rounds that the project's predecessor uses; `u32x4` only.
        ThreefryLight = "threefry_light",
    }
}

ops! {
    /// Operations on three operands.
    TernaryOp {
        /// `where(c, t, e)`: `t` if `c` (a `bool`) holds, else `e`; both are evaluated.
        Where = "where",
        /// `a * b + c` with one rounding; on integers the wrapping sum of the wrapping product.
        Fma = "fma",
        /// `(a * b) * c`, each product rounded. A type that computes in a wider type is rounded only at the
        /// end.
        Mul3 = "mul3",
    }
}

impl UnaryOp {
    /// Whether the operation is one of [`crate::math`]: computed by polynomials unless a target has it.
    pub fn is_transcendental(self) -> bool {
        use UnaryOp::{Atan, Cos, Erf, Erfc, Exp, Exp2, Expm1, Log, Log1p, Log2, Sigmoid, Sin, Tanh};
        matches!(
            self,
            Exp | Exp2 | Expm1 | Log | Log1p | Log2 | Sin | Cos | Tanh | Sigmoid | Atan | Erf | Erfc
        )
    }

    /// Whether the operation on integers is one on floats: converted, computed there.
    pub fn is_float_function(self) -> bool {
        self.is_transcendental() || matches!(self, UnaryOp::Sqrt | UnaryOp::Recip | UnaryOp::RecipSqrt)
    }
}

impl BinaryOp {
    /// Whether the result is `bool` whatever the operands are.
    pub fn is_comparison(self) -> bool {
        matches!(self, BinaryOp::Lt | BinaryOp::Le | BinaryOp::Eq | BinaryOp::Ne)
    }

    /// The type of the result for operands of type `operand`.
    pub fn result(self, operand: DType) -> DType {
        if self.is_comparison() { DType::Bool } else { operand }
    }

    /// Whether the operation is a generator of random bits, defined on `u32x4` and nothing else.
    pub fn is_random(self) -> bool {
        matches!(self, BinaryOp::Threefry | BinaryOp::ThreefryCrypto | BinaryOp::ThreefryLight)
    }

    /// Whether the operation may combine an accumulated value with a new one.
    pub fn accumulates(self) -> bool {
        use BinaryOp::{Add, And, Div, Max, Min, Mul, Or, Pow, ReluGate, Satur01Gate, Sub};
        matches!(self, Add | Sub | Mul | Div | Pow | Max | Min | ReluGate | Satur01Gate | And | Or)
    }

    /// Whether the new value stands on the left when this operation accumulates, so that it is the result if
    /// it equals the old one.
    pub fn takes_new_first(self) -> bool {
        matches!(self, BinaryOp::Max | BinaryOp::Min)
    }

    /// Whether the operation is defined on bits alone, so that floats are rejected.
    pub fn is_bitwise(self) -> bool {
        use BinaryOp::{BitAnd, BitOr, BitXor, Shl, Shr};
        matches!(self, BitAnd | BitOr | BitXor | Shl | Shr)
    }
}
