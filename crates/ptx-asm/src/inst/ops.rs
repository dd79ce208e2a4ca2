//! Operations and modifiers of instructions, each an enum.

use super::types::choices;

choices! {
    /// Operations on one operand, with the types for which they exist.
    PtxUnaryOp {
        /// `-x`: signed integers and floats.
        Neg = "neg",
        /// `|x|`: signed integers and floats. The least integer is its own absolute value.
        Abs = "abs",
        /// Inverts every bit, or a predicate.
        Not = "not",
        /// Number of set bits (`popc`) of `B32` or `B64`; the result is `B32`.
        CountOnes = "popc",
        /// Number of leading zeros (`clz`) of `B32` or `B64`; the result is `B32`.
        LeadingZeros = "clz",
        /// Bits in reverse order (`brev`): `B32`, `B64`.
        Reverse = "brev",
        /// Square root, rounded to nearest: `F32`, `F64`.
        Sqrt = "sqrt.rn",
        /// `1 / x`, rounded to nearest: `F32`, `F64`.
        Recip = "rcp.rn",
        /// `2^x`, within about 2 ulp: `F32`. Flushes subnormals to zero, like every approximation except
        /// [`PtxUnaryOp::TanhApprox`].
        Exp2Approx = "ex2.approx.ftz",
        /// `log2 x`, absolute error 2⁻²² near 1: `F32`.
        Log2Approx = "lg2.approx.ftz",
        /// `sin x`, absolute error 2⁻²⁰ near 0: `F32`.
        SinApprox = "sin.approx.ftz",
        /// `cos x`, absolute error 2⁻²⁰ near 0: `F32`.
        CosApprox = "cos.approx.ftz",
        /// `tanh x`, relative error 2⁻¹¹, subnormals kept: `F32`. Needs compute capability 7.5, so
        /// [`crate::Target::Sm70`] lacks it.
        TanhApprox = "tanh.approx",
        /// `1 / √x`, within about 2 ulp: `F32`.
        RsqrtApprox = "rsqrt.approx.ftz",
        /// `1 / x`, within 1 ulp: `F32`.
        RecipApprox = "rcp.approx.ftz",
        /// `√x`, within about 2 ulp: `F32`.
        SqrtApprox = "sqrt.approx.ftz",
    }
}

choices! {
    /// Operations on two operands.
    PtxBinaryOp {
        /// `a + b`.
        Add = "add",
        /// `a - b`.
        Sub = "sub",
        /// `a * b`; the low half for integers.
        Mul = "mul",
        /// The high half of `a * b`, for integers.
        MulHigh = "mul.hi",
        /// The full product of two integers of 16 or 32 bits; the result is twice as wide.
        MulWide = "mul.wide",
        /// `a / b`: integers truncate towards zero, floats round to nearest.
        Div = "div",
        /// `a / b`, within about 2 ulp: `F32`.
        DivApprox = "div.approx.ftz",
        /// The remainder of [`PtxBinaryOp::Div`], for integers; has the sign of `a`.
        Rem = "rem",
        /// The minimum. A number is preferred to NaN, and -0 is less than +0.
        Min = "min",
        /// The maximum. A number is preferred to NaN, and +0 is greater than -0.
        Max = "max",
        /// Bitwise and, or the conjunction of predicates.
        And = "and",
        /// Bitwise or, or the disjunction of predicates.
        Or = "or",
        /// Bitwise exclusive or, also of predicates.
        Xor = "xor",
        /// `a << b`, where `b` has 32 bits. A shift by the width or more gives zero.
        ShiftLeft = "shl",
        /// `a >> b`, where `b` has 32 bits. The vacated bits become zeros, or copies of the sign if `a` is
        /// signed. A shift by the width or more vacates all bits.
        ShiftRight = "shr",
    }
}

choices! {
    /// Operations on three operands.
    PtxTernaryOp {
        /// `a * b + c`, rounded once.
        Fma = "fma.rn",
        /// The low half of `a * b + c`, for integers.
        MulAdd = "mad.lo",
        /// `a * b + c`, where `c` and the result are twice as wide as `a` and `b`: `U32`, `S32`.
        MulAddWide = "mad.wide",
    }
}

choices! {
    /// Comparisons. An ordered comparison of floats (no `OrNan` in its name) is false if an operand is NaN.
    CmpOp {
        /// `a = b`
        Eq = "eq",
        /// `a ≠ b`
        Ne = "ne",
        /// `a < b`
        Lt = "lt",
        /// `a ≤ b`
        Le = "le",
        /// `a > b`
        Gt = "gt",
        /// `a ≥ b`
        Ge = "ge",
        /// `a ≠ b`, or an operand is NaN.
        NeOrNan = "neu",
        /// `a < b`, or an operand is NaN.
        LtOrNan = "ltu",
        /// `a ≤ b`, or an operand is NaN.
        LeOrNan = "leu",
        /// `a > b`, or an operand is NaN.
        GtOrNan = "gtu",
        /// `a ≥ b`, or an operand is NaN.
        GeOrNan = "geu",
        /// An operand is NaN.
        IsNan = "nan",
    }
}

choices! {
    /// Rounding modifiers of conversions. A conversion from float to integer clamps to the range of the
    /// integer type. NaN becomes 0 if neither type has 64 bits; otherwise it becomes the integer in which
    /// only the top bit is set.
    RoundingMode {
        /// No rounding: integers to integers, floats to wider floats.
        None = "",
        /// To nearest, ties to even.
        Nearest = ".rn",
        /// Towards zero.
        Zero = ".rz",
        /// Down.
        Down = ".rm",
        /// Up.
        Up = ".rp",
        /// To the nearest integer, ties to even.
        NearestInteger = ".rni",
        /// To an integer, towards zero.
        ZeroInteger = ".rzi",
        /// To an integer, down.
        DownInteger = ".rmi",
        /// To an integer, up.
        UpInteger = ".rpi",
    }
}

choices! {
    /// Atomic operations, with the types for which they exist.
    AtomicOp {
        /// Addition: `U32`, `S32`, `U64`, `F32`, `F64`. For `F32` in global memory, subnormals are flushed to
        /// zero.
        Add = "add",
        /// Minimum of signed or unsigned integers.
        Min = "min",
        /// Maximum of signed or unsigned integers.
        Max = "max",
        /// Bitwise and: `B32`, `B64`.
        And = "and",
        /// Bitwise or: `B32`, `B64`.
        Or = "or",
        /// Bitwise exclusive or: `B32`, `B64`.
        Xor = "xor",
        /// Replaces the value: `B32`, `B64`.
        Exchange = "exch",
        /// Replaces the value if it equals the first operand: `B32`, `B64`.
        CompareSwap = "cas",
    }
}

choices! {
    /// How a shuffle computes the source lane.
    ShuffleMode {
        /// The lane's own index minus the operand.
        Up = "up",
        /// The lane's own index plus the operand.
        Down = "down",
        /// The lane's own index xor the operand (butterfly).
        Xor = "bfly",
        /// The operand, an index within the segment.
        Index = "idx",
    }
}

choices! {
    /// Shapes and element types of `mma`. Accumulators are four registers of `F32`; registers of A and B are
    /// of class `B32`.
    MmaShape {
        /// m16n8k16 of `f16`: A takes four registers, B two.
        F16K16 = "m16n8k16.row.col.f32.f16.f16.f32",
        /// m16n8k16 of `bf16`: A takes four registers, B two.
        Bf16K16 = "m16n8k16.row.col.f32.bf16.bf16.f32",
        /// m16n8k8 of `tf32`: A takes four registers, B two.
        Tf32K8 = "m16n8k8.row.col.f32.tf32.tf32.f32",
    }
}

impl MmaShape {
    /// Number of registers of A, B and the accumulators.
    pub fn registers(self) -> (usize, usize, usize) {
        match self {
            MmaShape::F16K16 | MmaShape::Bf16K16 | MmaShape::Tf32K8 => (4, 2, 4),
        }
    }
}
