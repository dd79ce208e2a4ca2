//! The representation of values of each element type in lanes and in memory.
//!
//! | type | a lane | in memory |
//! |---|---|---|
//! | `bool` | a mask of 32 or 64 bits, as wide as the compared values | a byte, 0 or 1 |
//! | `u8`, the 8-bit floats | `I32`, zero-extended | a byte |
//! | `i8` | `I32`, sign-extended | a byte |
//! | `u16`, `f16`, `bf16` | `I32`, zero-extended | two bytes |
//! | all others except `u32x4` | the type itself | the type itself |
//!
//! Floats narrower than 32 bits are bits here; legalization has rewritten their arithmetic to conversions.

use tnode::{DType, Scalar};
use vector_asm::{LaneType, StoredType};

/// The lane type of an element type; `None` for random bits, which have no lanes. Masks of 64 bits are `I64`.
pub(super) fn element(dtype: DType) -> Option<LaneType> {
    Some(match dtype {
        DType::F32 => LaneType::F32,
        DType::F64 => LaneType::F64,
        DType::U32 => LaneType::U32,
        DType::I64 => LaneType::I64,
        DType::U64 => LaneType::U64,
        DType::I32 | DType::Bool => LaneType::I32,
        DType::U8 | DType::I8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => LaneType::I32,
        DType::U16 | DType::F16 | DType::Bf16 => LaneType::I32,
        DType::U32x4 => return None,
    })
}

/// The stored type of an element type.
pub(super) fn memory(dtype: DType) -> StoredType {
    match dtype {
        DType::I8 => StoredType::I8,
        _ => match dtype.size_bytes() {
            1 => StoredType::U8,
            2 => StoredType::U16,
            _ => StoredType::Same,
        },
    }
}

/// The stored type of a narrow float that loads convert to `f32`, and stores from it.
pub(super) fn converted(dtype: DType) -> Option<StoredType> {
    match dtype {
        DType::F16 => Some(StoredType::F16),
        DType::Bf16 => Some(StoredType::BF16),
        _ => None,
    }
}

/// The bits of a constant in a lane.
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

pub(super) fn lane_bytes(element: LaneType) -> u32 {
    match element {
        LaneType::F32 | LaneType::I32 | LaneType::U32 => 4,
        LaneType::F64 | LaneType::I64 | LaneType::U64 => 8,
    }
}

/// The signed integer as wide as a lane, the type of its masks.
pub(super) fn mask_of(element: LaneType) -> LaneType {
    if lane_bytes(element) == 8 { LaneType::I64 } else { LaneType::I32 }
}

/// Whether lanes are wider than the type, so that arithmetic may leave its range.
pub(super) fn is_narrow(dtype: DType) -> bool {
    dtype.is_integer() && dtype.size_bytes() < 4
}
