//! The types that instructions take their operands for.

use super::choices::choices;
use crate::program::Class;

choices! {
    /// What an instruction takes its operands for.
    Ty {
        /// A predicate.
        Pred,
        /// Bits.
        B8,
        /// Bits.
        B16,
        /// Bits.
        B32,
        /// Bits.
        B64,
        /// Unsigned.
        U8,
        /// Unsigned.
        U16,
        /// Unsigned.
        U32,
        /// Unsigned.
        U64,
        /// Signed.
        S8,
        /// Signed.
        S16,
        /// Signed.
        S32,
        /// Signed.
        S64,
        /// IEEE half precision.
        F16,
        /// Two of them, the first in the low half.
        F16x2,
        /// The upper half of an `F32`.
        Bf16,
        /// Two of them, the first in the low half.
        Bf16x2,
        /// IEEE single precision.
        F32,
        /// IEEE double precision.
        F64,
    }
}

impl Ty {
    /// The class of registers that hold it; narrower elements are held by 16 bits.
    pub fn class(self) -> Class {
        match self {
            Ty::Pred => Class::Pred,
            Ty::B8 | Ty::U8 | Ty::S8 | Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 => Class::B16,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F16x2 | Ty::Bf16x2 => Class::B32,
            Ty::B64 | Ty::U64 | Ty::S64 => Class::B64,
            Ty::F32 => Class::F32,
            Ty::F64 => Class::F64,
        }
    }

    /// Its size in memory; 0 for predicates, which have none.
    pub fn bytes(self) -> u32 {
        match self {
            Ty::Pred => 0,
            Ty::B8 | Ty::U8 | Ty::S8 => 1,
            _ => self.class().bits() / 8,
        }
    }

    /// Whether it is one float, or two.
    pub fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::F32 | Ty::F64)
    }

    /// Whether it is an integer with a sign.
    pub fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    /// Whether it is an integer without one.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64)
    }
}
