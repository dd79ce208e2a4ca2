//! Rust types for the elements of arrays.
//!
//! `bool` and the 8-bit floats have no such type: not every byte is a valid `bool`, and no common Rust type
//! is an 8-bit float. Their arrays are read by value or as bytes.

use half::{bf16, f16};

use crate::dtype::DType;

/// A Rust type with the layout of an element type.
pub trait Element: bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The element type with the same layout.
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements! {
    u8 => U8,
    i8 => I8,
    u16 => U16,
    i32 => I32,
    u32 => U32,
    i64 => I64,
    u64 => U64,
    f16 => F16,
    bf16 => Bf16,
    f32 => F32,
    f64 => F64,
    [u32; 4] => U32x4,
}
