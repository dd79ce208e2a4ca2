//! What instructions do with their operands: the parts of an instruction that are a choice of a few.

use super::choices::choices;

choices! {
    /// Operations on one operand.
    Unary {
        /// `-x`: signed integers and floats.
        Neg,
        /// Without its sign: signed integers and floats. The least integer stays.
        Abs,
        /// Every bit, or a predicate, inverted.
        Not,
        /// How many bits are set, of `B32` or `B64`, as `B32`.
        CountOnes,
        /// How many zeros are above the first bit that is set, of `B32` or `B64`, as `B32`.
        LeadingZeros,
        /// Bits in the opposite order: `B32`, `B64`.
        Reverse,
        /// Square root, rounded to nearest: `F32`, `F64`.
        Sqrt,
        /// `1 / x`, rounded to nearest: `F32`, `F64`.
        Recip,
        /// `2^x` to 2 ulp, about: `F32`. Subnormals are zeros, as with the other approximations but one.
        Exp2Approx,
        /// `log2 x` to 2⁻²² absolutely, near 1: `F32`.
        Log2Approx,
        /// To 2⁻²⁰ absolutely, near 0: `F32`.
        SinApprox,
        /// To 2⁻²⁰ absolutely, near 0: `F32`.
        CosApprox,
        /// To 2⁻¹¹ relatively, subnormals kept: `F32`, from 7.5 on, so not on [`crate::Target::Sm70`].
        TanhApprox,
        /// `1 / √x` to 2 ulp, about: `F32`.
        RsqrtApprox,
        /// `1 / x` to an ulp: `F32`.
        RecipApprox,
        /// `√x` to 2 ulp, about: `F32`.
        SqrtApprox,
    }
}

choices! {
    /// Operations on two operands.
    Binary {
        /// `a + b`.
        Add,
        /// `a - b`.
        Sub,
        /// `a * b`; of integers the low half.
        Mul,
        /// The high half of a product of integers.
        MulHigh,
        /// The whole product of two integers of 16 or 32 bits, twice as wide.
        MulWide,
        /// `a / b`; of integers towards zero, of floats rounded to nearest.
        Div,
        /// `a / b` to 2 ulp, about: `F32`.
        DivApprox,
        /// The remainder of [`Binary::Div`] of integers, with the sign of `a`.
        Rem,
        /// The lesser; of a number and NaN the number, of zeros -0.
        Min,
        /// The greater; of a number and NaN the number, of zeros +0.
        Max,
        /// Bits or predicates.
        And,
        /// Bits or predicates.
        Or,
        /// Bits or predicates.
        Xor,
        /// Bits to the left, `b` of 32 bits; from the width on zeros.
        ShiftLeft,
        /// To the right, `b` of 32 bits: zeros come in, or the sign of a signed `a`. From the width on all bits are that.
        ShiftRight,
    }
}

/// Operations on three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ternary {
    /// `a * b + c` with one rounding.
    Fma,
    /// `a * b + c` of integers, the low half.
    MulAdd,
    /// `a * b + c` where `c` and the result are twice as wide: `U32`, `S32`.
    MulAddWide,
    /// Byte `i` of the result is byte `c >> 4 i & 7` of `b : a`, where `c & 8888₁₆` is 0: `B32`.
    Permute,
    /// The high half of `(b : a) << (c mod 32)`: `B32`.
    FunnelLeft,
    /// The low half of `(b : a) >> (c mod 32)`: `B32`.
    FunnelRight,
    /// Bit by bit: that bit of the constant whose number is `4 a + 2 b + c`.
    Logic(u8),
}

choices! {
    /// Comparisons. Those of floats without `Or` are false where an operand is NaN.
    Cmp {
        /// `a = b`
        Eq,
        /// `a ≠ b`
        Ne,
        /// `a < b`
        Lt,
        /// `a ≤ b`
        Le,
        /// `a > b`
        Gt,
        /// `a ≥ b`
        Ge,
        /// `a ≠ b`, or one is NaN.
        NeOrNan,
        /// `a < b`, or one is NaN.
        LtOrNan,
        /// `a ≤ b`, or one is NaN.
        LeOrNan,
        /// `a > b`, or one is NaN.
        GtOrNan,
        /// `a ≥ b`, or one is NaN.
        GeOrNan,
        /// One is NaN.
        IsNan,
    }
}

choices! {
    /// How a number that does not fit is rounded.
    Rounding {
        /// Nothing is: integers to integers, floats to wider ones.
        None,
        /// To the nearest, of two the even one.
        Nearest,
        /// Towards zero.
        Zero,
        /// Down.
        Down,
        /// Up.
        Up,
        /// To the nearest integer, of two the even one. To an integer type: what is too large or small becomes the most or the least. NaN becomes 0
        /// if neither side has 64 bits, else a number with the first bit alone. So for the others.
        NearestInteger,
        /// To an integer, towards zero.
        ZeroInteger,
        /// To an integer, down.
        DownInteger,
        /// To an integer, up.
        UpInteger,
    }
}

choices! {
    /// How an atomic operation combines.
    Atomic {
        /// `U32`, `S32`, `U64`, `F32`, `F64`. Of `F32` in global memory, subnormals are zeros.
        Add,
        /// Signed and unsigned integers.
        Min,
        /// Signed and unsigned integers.
        Max,
        /// `B32`, `B64`.
        And,
        /// `B32`, `B64`.
        Or,
        /// `B32`, `B64`.
        Xor,
        /// `B32`, `B64`.
        Exchange,
        /// `B32`, `B64`.
        CompareSwap,
    }
}

choices! {
    /// Who sees memory.
    Scope {
        /// The block.
        Block,
        /// The device.
        Device,
    }
}

choices! {
    /// Whose register a lane reads.
    Shuffle {
        /// That of the lane so many below.
        Up,
        /// That of the lane so many above.
        Down,
        /// That of the lane whose number differs in these bits.
        Xor,
        /// That of this lane of the group.
        Index,
    }
}

choices! {
    /// What a warp is asked.
    Vote {
        /// Whether all predicates hold.
        All,
        /// Whether one does.
        Any,
        /// Which do: bit `l` for lane `l`.
        Ballot,
    }
}

choices! {
    /// Shapes of matrix instructions. Sums are `F32`, four registers; factors are held in `B32`.
    Mma {
        /// 16×8 += 16×16 · 16×8 of `f16`: `a` four registers, `b` two.
        F16K16,
        /// 16×8 += 16×16 · 16×8 of `bf16`.
        Bf16K16,
        /// 16×8 += 16×8 · 8×8 of `tf32`: `a` four registers, `b` two.
        Tf32K8,
    }
}

impl Mma {
    /// Registers of `a`, `b`, and of the sums.
    pub fn registers(self) -> (usize, usize, usize) {
        match self {
            Mma::F16K16 | Mma::Bf16K16 | Mma::Tf32K8 => (4, 2, 4),
        }
    }
}
