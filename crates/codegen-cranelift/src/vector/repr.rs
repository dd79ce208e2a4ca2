//! How values of each element type are held in the lanes of a program, and how they lie in memory.
//!
//! | type | a lane | in memory |
//! |---|---|---|
//! | `bool` | a mask of 32 or 64 bits, as wide as what was compared | a byte, 0 or 1 |
//! | `u8`, the 8-bit floats | `I32`, zero-extended | a byte |
//! | `i8` | `I32`, sign-extended | a byte |
//! | `u16`, `f16`, `bf16` | `I32`, zero-extended | two bytes |
//! | the others but `u32x4` | as they are | as they are |
//!
//! Floats narrower than 32 bits are bits without arithmetic here; legalisation has rewritten it.

use tnode::{DType, Scalar};
use vector_asm::{Element, Memory};

/// What a lane holds; `None` for random bits, which have no lanes. Masks of 64 bits are `I64`.
pub(super) fn element(dtype: DType) -> Option<Element> {
    Some(match dtype {
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
        DType::U32 => Element::U32,
        DType::I64 => Element::I64,
        DType::U64 => Element::U64,
        DType::I32 | DType::Bool => Element::I32,
        DType::U8 | DType::I8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => Element::I32,
        DType::U16 | DType::F16 | DType::Bf16 => Element::I32,
        DType::U32x4 => return None,
    })
}

/// How elements lie in memory.
pub(super) fn memory(dtype: DType) -> Memory {
    match dtype {
        DType::I8 => Memory::I8,
        _ => match dtype.size_bytes() {
            1 => Memory::U8,
            2 => Memory::U16,
            _ => Memory::Same,
        },
    }
}

/// A constant as the bits of a lane.
pub(super) fn bits(scalar: Scalar) -> u64 {
    let low = scalar.bits() as u64;
    match scalar.dtype() {
        DType::Bool => mask(low != 0),
        DType::I8 => i64::from(low as i8) as u64,
        _ => low,
    }
}

/// A truth value as a mask.
pub(super) fn mask(truth: bool) -> u64 {
    if truth { u64::MAX } else { 0 }
}

/// Bytes of a lane.
pub(super) fn lane_bytes(element: Element) -> u32 {
    match element {
        Element::F32 | Element::I32 | Element::U32 => 4,
        Element::F64 | Element::I64 | Element::U64 => 8,
    }
}

/// The signed integer as wide as a lane: what masks are.
pub(super) fn mask_of(element: Element) -> Element {
    if lane_bytes(element) == 8 { Element::I64 } else { Element::I32 }
}

/// Whether lanes are wider than the type, so that arithmetic leaves its range.
pub(super) fn is_narrow(dtype: DType) -> bool {
    dtype.is_integer() && dtype.size_bytes() < 4
}
