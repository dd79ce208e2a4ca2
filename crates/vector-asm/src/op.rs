//! The operations of machine instructions. Each target has a table of those that it has, with
//! their encodings.

/// Declares the operations: name, and whether the first two operands may be exchanged.
macro_rules! operations {
    ($($name:ident $commutes:literal;)*) => {
        /// The operation of a machine instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Op {
            $($name,)*
        }

        impl Op {
            /// Every operation.
            #[cfg(test)]
            pub(crate) const ALL: &[Op] = &[$(Op::$name,)*];

            /// Whether its first two operands may be exchanged.
            pub(crate) fn commutes(self) -> bool {
                match self { $(Op::$name => $commutes,)* }
            }
        }
    };
}

operations! {
    AddF32 true;
    AddF64 true;
    SubF32 false;
    SubF64 false;
    MulF32 true;
    MulF64 true;
    DivF32 false;
    DivF64 false;
    MaxF32 false;
    MaxF64 false;
    MinF32 false;
    MinF64 false;
    SqrtF32 false;
    SqrtF64 false;
    RoundF32 false;
    RoundF64 false;
    CmpF32 false;
    CmpF64 false;
    FmaF32 false;
    FmaF64 false;
    FnmaF32 false;
    FnmaF64 false;
    FmsF32 false;
    FmsF64 false;
    FnmsF32 false;
    FnmsF64 false;
    AndF true;
    AndNotF false;
    XorF true;
    And true;
    Or true;
    Xor true;
    BlendV false;
    Blend false;
    AddI32 true;
    AddI64 true;
    SubI32 false;
    SubI64 false;
    MulI32 true;
    MulLow true;
    MaxI32 true;
    MaxU32 true;
    MinI32 true;
    MinU32 true;
    AbsI32 false;
    EqI32 true;
    EqI64 true;
    GtI32 false;
    GtI64 false;
    ShlV32 false;
    ShlV64 false;
    ShrV32 false;
    ShrV64 false;
    SarV32 false;
    Shl32 false;
    Shl64 false;
    Shr32 false;
    Shr64 false;
    Sar32 false;
    I32ToF32 false;
    F32ToI32 false;
    F32ToF64 false;
    F64ToF32 false;
    I32ToF64 false;
    F64ToI32 false;
    ExtendI32 false;
    ExtendU32 false;
    ExtendU8 false;
    ExtendI8 false;
    ExtendU16 false;
    ExtendI16 false;
    F16ToF32 false;
    F32ToF16 false;
    Load false;
    Store false;
    StoreStreaming false;
    LoadMasked false;
    StoreMasked false;
    Load256 false;
    Load128 false;
    Store128 false;
    Load64 false;
    Store64 false;
    Load32 false;
    Store32 false;
    LoadAll32 false;
    LoadAll64 false;
    LoadAll16 false;
    LoadAll8 false;
    All32 false;
    All64 false;
    Insert64 false;
    Insert32 false;
    Insert16 false;
    Insert8 false;
    Extract64 false;
    Extract32 false;
    Extract16 false;
    Extract8 false;
    InsertHigh false;
    ExtractHigh false;
    StoreHigh false;
    InsertHalf false;
    ExtractHalf false;
    PackU8 false;
    PackU16 false;
    Permute false;
    PermuteInLane false;
    PermuteHalves false;
    Permute64 false;
    UnpackLow32 false;
    UnpackHigh32 false;
    UnpackLow64 false;
    UnpackHigh64 false;
    Shuffle32 false;
    ShuffleBytes false;
    Integer false;
    Copy false;
    Prefetch false;
    FloorF32 false;
    FloorF64 false;
    TruncateF32 false;
    TruncateF64 false;
    EvenF32 false;
    EvenF64 false;
    NegF32 false;
    NegF64 false;
    AbsF32 false;
    AbsF64 false;
    FmaLaneF32 false;
    FmaLaneF64 false;
    FnmaLaneF32 false;
    FnmaLaneF64 false;
    MulLaneF32 false;
    MulLaneF64 false;
    EqF32 true;
    EqF64 true;
    GeF32 false;
    GeF64 false;
    GtF32 false;
    GtF64 false;
    NegativeF32 false;
    NegativeF64 false;
    PositiveF32 false;
    PositiveF64 false;
    AndNot false;
    Not false;
    AddPairs false;
    SwapWords false;
    NegI32 false;
    NegI64 false;
    AbsI64 false;
    GeI32 false;
    GeI64 false;
    GtU32 false;
    GtU64 false;
    GeU32 false;
    GeU64 false;
    SignedShlV32 false;
    SignedShlV64 false;
    Sar64 false;
    U32ToF32 false;
    I64ToF64 false;
    U64ToF64 false;
    F32ToU32 false;
    F64ToI64 false;
    F64ToU64 false;
    F32ToF64High false;
    ExtendI32High false;
    ExtendU32High false;
    F64ToF32High false;
    PackU32 false;
    PackU32High false;
    SaturateI32 false;
    SaturateI32High false;
    SaturateU32 false;
    SaturateU32High false;
    Bf16ToF32 false;
    PackUpper16 false;
    Even32 false;
    Odd32 false;
    EvenPairs32 false;
    OddPairs32 false;
    Window false;
    IntoWord false;
    IntoDouble false;
    Load16 false;
    Load8 false;
    LoadLanes32 false;
    LoadLanes64 false;
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
