//! The representation of values of each element type in registers, as single values and as four lanes.
//!
//! | type | one value | four lanes |
//! |---|---|---|
//! | `bool` | `i8`, 0 or 1 | `i32x4`, lanes of all zeros or all ones |
//! | `u8 i8` and the 8-bit floats | `i8` | `i32x4`, extended by the sign of the type |
//! | `u16 f16 bf16` | `i16` | `i32x4`, zero-extended |
//! | `i32 u32` | `i32` | `i32x4` |
//! | `i64 u64` | `i64` | two `i64x2` |
//! | `f32`, `f64` | `f32`, `f64` | `f32x4`, two `f64x2` |
//! | `u32x4` | `i32x4` | never |
//!
//! Floats narrower than 32 bits are bits here; legalization has rewritten their arithmetic to conversions.

use cranelift_codegen::ir::{Type, Value, types};
use smallvec::{SmallVec, smallvec};
use tnode::DType;

/// The number of lanes that are computed together.
pub(crate) const LANES: usize = 4;

/// A value of the IR: one register, or the registers that hold [`LANES`] lanes.
#[derive(Clone, Debug)]
pub(crate) struct Val {
    pub(crate) parts: SmallVec<[Value; 2]>,
    pub(crate) wide: bool,
}

impl Val {
    pub(crate) fn one(value: Value) -> Val {
        Val { parts: smallvec![value], wide: false }
    }

    pub(crate) fn lanes(parts: impl IntoIterator<Item = Value>) -> Val {
        Val { parts: parts.into_iter().collect(), wide: true }
    }

    /// The register of a value with one register.
    pub(crate) fn first(&self) -> Value {
        self.parts[0]
    }
}

/// The type of a single value's register.
pub(crate) fn one(dtype: DType) -> Type {
    match dtype {
        DType::Bool | DType::U8 | DType::I8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => types::I8,
        DType::U16 | DType::F16 | DType::Bf16 => types::I16,
        DType::I32 | DType::U32 => types::I32,
        DType::I64 | DType::U64 => types::I64,
        DType::F32 => types::F32,
        DType::F64 => types::F64,
        DType::U32x4 => types::I32X4,
    }
}

/// The type of each register that holds lanes.
pub(crate) fn wide(dtype: DType) -> Type {
    match dtype {
        DType::F32 => types::F32X4,
        DType::F64 => types::F64X2,
        DType::I64 | DType::U64 => types::I64X2,
        _ => types::I32X4,
    }
}

/// The type of each register of a value.
pub(crate) fn register(dtype: DType, is_wide: bool) -> Type {
    if is_wide { wide(dtype) } else { one(dtype) }
}

/// The number of registers that hold [`LANES`] lanes.
pub(crate) fn wide_parts(dtype: DType) -> usize {
    if dtype.size_bytes() == 8 { 2 } else { 1 }
}

/// Whether lanes are wider than the type.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    dtype.size_bytes() < 4 && dtype != DType::Bool
}
