//! The operations of machine instructions. Each target has a table of those that it has, with
//! their encodings.

/// Declares the operations: those whose first two operands may be exchanged, and the others.
macro_rules! operations {
    (commutative $($commutative:ident)*; others $($other:ident)*;) => {
        /// The operation of a machine instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Op {
            $($commutative,)*
            $($other,)*
        }

        impl Op {
            /// Every operation.
            #[cfg(test)]
            pub(crate) const ALL: &[Op] = &[$(Op::$commutative,)* $(Op::$other,)*];

            /// Whether its first two operands may be exchanged.
            pub(crate) fn commutes(self) -> bool {
                matches!(self, $(Op::$commutative)|*)
            }
        }
    };
}

operations! {
    commutative
        AddF32 AddF64 MulF32 MulF64 AndF XorF And Or Xor AddI32 AddI64 MulI32 MulLow MaxI32 MaxU32 MinI32
        MinU32 EqI32 EqI64 EqF32 EqF64;
    others
        SubF32 SubF64 DivF32 DivF64 MaxF32 MaxF64 MinF32 MinF64 SqrtF32 SqrtF64 RoundF32 RoundF64 CmpF32
        CmpF64 FmaF32 FmaF64 FnmaF32 FnmaF64 FmsF32 FmsF64 FnmsF32 FnmsF64 AndNotF BlendV Blend SubI32
        SubI64 AbsI32 GtI32 GtI64 ShlV32 ShlV64 ShrV32 ShrV64 SarV32 Shl32 Shl64 Shr32 Shr64 Sar32 I32ToF32
        F32ToI32 F32ToF64 F64ToF32 I32ToF64 F64ToI32 ExtendI32 ExtendU32 ExtendU8 ExtendI8 ExtendU16
        ExtendI16 F16ToF32 F32ToF16 Load Store StoreStreaming LoadMasked StoreMasked Load256 Load128
        Store128 Load64 Store64 Load32 Store32 LoadAll32 LoadAll64 LoadAll16 LoadAll8 All32 All64 Insert64
        Insert32 Insert16 Insert8 Extract64 Extract32 Extract16 Extract8 InsertHigh ExtractHigh StoreHigh
        InsertHalf ExtractHalf PackU8 PackU16 Permute PermuteInLane PermuteHalves Permute64 UnpackLow32
        UnpackHigh32 UnpackLow64 UnpackHigh64 Shuffle32 ShuffleBytes Integer Copy Prefetch FloorF32 FloorF64
        TruncateF32 TruncateF64 EvenF32 EvenF64 NegF32 NegF64 AbsF32 AbsF64 FmaLaneF32 FmaLaneF64
        FnmaLaneF32 FnmaLaneF64 MulLaneF32 MulLaneF64 GeF32 GeF64 GtF32 GtF64 NegativeF32 NegativeF64
        PositiveF32 PositiveF64 AndNot Not AddPairs SwapWords NegI32 NegI64 AbsI64 GeI32 GeI64 GtU32 GtU64
        GeU32 GeU64 SignedShlV32 SignedShlV64 Sar64 U32ToF32 I64ToF64 U64ToF64 F32ToU32 F64ToI64 F64ToU64
        F32ToF64High ExtendI32High ExtendU32High F64ToF32High PackU32 PackU32High SaturateI32
        SaturateI32High SaturateU32 SaturateU32High Bf16ToF32 PackUpper16 Even32 Odd32 EvenPairs32
        OddPairs32 Window IntoWord IntoDouble Load16 Load8 LoadLanes32 LoadLanes64;
}

impl Op {
    /// Whether this is a fused multiply-add.
    pub(crate) fn is_fma(self) -> bool {
        use Op::{FmaF32, FmaF64, FmsF32, FmsF64, FnmaF32, FnmaF64, FnmsF32, FnmsF64};
        matches!(self, FmaF32 | FmaF64 | FnmaF32 | FnmaF64 | FmsF32 | FmsF64 | FnmsF32 | FnmsF64)
    }

    /// Whether the instruction is a plain load.
    pub(crate) fn is_load(self) -> bool {
        use Op::{
            Load, Load8, Load16, Load32, Load64, Load128, Load256, LoadAll8, LoadAll16, LoadAll32, LoadAll64,
            LoadMasked,
        };
        matches!(
            self,
            Load | Load256
                | LoadMasked
                | Load128
                | Load64
                | Load32
                | Load16
                | Load8
                | LoadAll32
                | LoadAll64
                | LoadAll16
                | LoadAll8
        )
    }
}
