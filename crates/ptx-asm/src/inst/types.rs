//! Operand types of instructions, and enums that list their variants with their names.

use crate::program::RegClass;

/// Defines an enum that lists its variants, with their names in PTX.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $ptx:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All variants, in declaration order.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The name in PTX, which some instructions complete.
            pub(crate) fn name(self) -> &'static str {
                match self { $($name::$variant => $ptx,)* }
            }
        }
    };
}
pub(crate) use choices;

choices! {
    /// The type as which an instruction interprets its operands (`.u32`, `.f16x2`, ...).
    Ty {
        /// A predicate.
        Pred = "pred",
        /// 8 bits without interpretation.
        B8 = "b8",
        /// 16 bits without interpretation.
        B16 = "b16",
        /// 32 bits without interpretation.
        B32 = "b32",
        /// 64 bits without interpretation.
        B64 = "b64",
        /// Unsigned integer of 8 bits.
        U8 = "u8",
        /// Unsigned integer of 16 bits.
        U16 = "u16",
        /// Unsigned integer of 32 bits.
        U32 = "u32",
        /// Unsigned integer of 64 bits.
        U64 = "u64",
        /// Signed integer of 8 bits.
        S8 = "s8",
        /// Signed integer of 16 bits.
        S16 = "s16",
        /// Signed integer of 32 bits.
        S32 = "s32",
        /// Signed integer of 64 bits.
        S64 = "s64",
        /// IEEE half precision.
        F16 = "f16",
        /// Two `F16`, the first in the low half.
        F16x2 = "f16x2",
        /// bfloat16: the upper half of an `F32`.
        Bf16 = "bf16",
        /// Two `Bf16`, the first in the low half.
        Bf16x2 = "bf16x2",
        /// IEEE single precision.
        F32 = "f32",
        /// IEEE double precision.
        F64 = "f64",
    }
}

impl Ty {
    /// The class of registers for values of the type; 8-bit types take 16-bit registers.
    pub fn class(self) -> RegClass {
        match self {
            Ty::Pred => RegClass::Pred,
            Ty::B8 | Ty::U8 | Ty::S8 | Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 => RegClass::B16,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F16x2 | Ty::Bf16x2 => RegClass::B32,
            Ty::B64 | Ty::U64 | Ty::S64 => RegClass::B64,
            Ty::F32 => RegClass::F32,
            Ty::F64 => RegClass::F64,
        }
    }

    /// Size in memory, in bytes; 0 for predicates, which cannot be stored.
    pub fn bytes(self) -> u32 {
        match self {
            Ty::Pred => 0,
            Ty::B8 | Ty::U8 | Ty::S8 => 1,
            _ => self.class().bits() / 8,
        }
    }

    /// Whether the type is a float or a pair of floats.
    pub fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::F32 | Ty::F64)
    }

    /// Whether the type is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    /// Whether the type is an unsigned integer.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64)
    }
}
