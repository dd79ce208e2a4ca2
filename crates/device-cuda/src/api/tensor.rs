//! Tensor maps in the encoding of TMA.

use std::ptr;

use codegen_core::{TensorMap, TileSwizzle};
use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType as Element, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle as Swizzle,
};
use tnode::DType;

use super::{CallError, Context, MemoryRegion};

/// Maximum number of axes of a map.
pub(crate) const MAX_AXES: usize = 5;

/// The element type with which TMA copies values of a type; `None` if TMA has no type of that size. Only the
/// size matters, since TMA copies the bits unchanged.
pub(crate) fn element(dtype: DType) -> Option<Element> {
    match dtype {
        DType::Bool | DType::U8 | DType::I8 | DType::Fp8E5m2 | DType::Fp8E4m3fn => {
            Some(Element::CU_TENSOR_MAP_DATA_TYPE_UINT8)
        }
        DType::U16 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_UINT16),
        DType::I32 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_INT32),
        DType::U32 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_UINT32),
        DType::I64 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_INT64),
        DType::U64 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_UINT64),
        DType::F16 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_FLOAT16),
        DType::Bf16 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16),
        DType::F32 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_FLOAT32),
        DType::F64 => Some(Element::CU_TENSOR_MAP_DATA_TYPE_FLOAT64),
        DType::U32x4 => None,
    }
}

/// Encodes a tensor map of a region, which takes 128 bytes. The driver checks the map's sizes, strides and
/// tile.
pub(crate) fn encode(
    context: &Context,
    region: &MemoryRegion,
    map: &TensorMap,
    element: Element,
) -> Result<[u64; 16], CallError> {
    context.enter()?;
    let axes = map.sizes.len().min(MAX_AXES);
    let (mut sizes, mut strides, mut tile) = ([0; MAX_AXES], [0; MAX_AXES], [0; MAX_AXES]);
    sizes.iter_mut().zip(&map.sizes).for_each(|(to, from)| *to = *from);
    strides.iter_mut().zip(&map.strides).for_each(|(to, from)| *to = *from);
    tile.iter_mut().zip(&map.tile).for_each(|(to, from)| *to = *from);
    let swizzle = match map.swizzle {
        TileSwizzle::None => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        TileSwizzle::Bytes32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        TileSwizzle::Bytes64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        TileSwizzle::Bytes128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    let address = region.address().wrapping_add(map.offset);
    let mut made = CUtensorMap { opaque: [0; 16] };
    // SAFETY: a valid place for the map; each array has `MAX_AXES` numbers. The driver treats the address as
    // a number.
    unsafe {
        context.api.cuTensorMapEncodeTiled(
            &raw mut made,
            element,
            axes as u32,
            ptr::without_provenance_mut(address as usize),
            sizes.as_ptr(),
            strides.as_ptr(),
            tile.as_ptr(),
            // Element strides of 1 copy every element of a tile.
            [1; MAX_AXES].as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            // Lines of 256 bytes are brought to L2, because adjacent tiles are likely to be copied soon.
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            // Elements outside of the tensor are zeros.
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )?;
    }
    Ok(made.opaque)
}
