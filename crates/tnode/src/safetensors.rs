//! The safetensors format: named arrays behind a JSON header.
//!
//! Values are stored without margins. All element types but `u32x4` have a counterpart; those of the format without a
//! counterpart here (such as `I16` and complex numbers) are refused by name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ::safetensors::tensor::{Dtype, SafeTensors, View, serialize};

use crate::dtype::DType;
use crate::error::Error;
use crate::host_array::HostArray;
use crate::padding::Dims;

const FORMAT: &str = "safetensors";

/// Reads every array of a file's bytes, by name.
///
/// # Errors
/// When the bytes are not in the format, or an element type has no counterpart here.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, HostArray>, Error> {
    let file = SafeTensors::deserialize(bytes).map_err(malformed)?;
    let mut arrays = BTreeMap::new();
    for (name, view) in file.iter() {
        let dtype = from_file(view.dtype())?;
        let mut array = HostArray::from_bytes(dtype, view.shape().iter().copied(), view.data())?;
        array.normalize_bools();
        arrays.insert(name.to_owned(), array);
    }
    Ok(arrays)
}

/// The bytes of a file with these arrays, without their margins.
///
/// # Errors
/// When the format has no such element type, or the names do not fit a header.
pub fn write<'a>(arrays: impl IntoIterator<Item = (&'a str, &'a HostArray)>) -> Result<Vec<u8>, Error> {
    let views: Vec<(&str, Values<'_>)> = arrays
        .into_iter()
        .map(|(name, array)| Ok((name, Values::of(array)?)))
        .collect::<Result<_, Error>>()?;
    serialize(views, None).map_err(malformed)
}

fn malformed(error: ::safetensors::SafeTensorError) -> Error {
    Error::Malformed { format: FORMAT, why: error.to_string() }
}

/// The values of an array, in the form that the library asks for.
struct Values<'a> {
    dtype: Dtype,
    dims: Dims,
    bytes: Cow<'a, [u8]>,
}

impl Values<'_> {
    fn of(array: &HostArray) -> Result<Values<'_>, Error> {
        let dtype = to_file(array.dtype())
            .ok_or_else(|| Error::UnsupportedElement { format: FORMAT, what: array.dtype().to_string() })?;
        Ok(Values { dtype, dims: array.dims_without_padding(), bytes: array.value_bytes() })
    }
}

impl View for Values<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.dims
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

fn to_file(dtype: DType) -> Option<Dtype> {
    match dtype {
        DType::Bool => Some(Dtype::BOOL),
        DType::U8 => Some(Dtype::U8),
        DType::I8 => Some(Dtype::I8),
        DType::U16 => Some(Dtype::U16),
        DType::I32 => Some(Dtype::I32),
        DType::U32 => Some(Dtype::U32),
        DType::I64 => Some(Dtype::I64),
        DType::U64 => Some(Dtype::U64),
        DType::F16 => Some(Dtype::F16),
        DType::Bf16 => Some(Dtype::BF16),
        DType::F32 => Some(Dtype::F32),
        DType::F64 => Some(Dtype::F64),
        DType::Fp8E5m2 => Some(Dtype::F8_E5M2),
        DType::Fp8E4m3fn => Some(Dtype::F8_E4M3),
        DType::U32x4 => None,
    }
}

fn from_file(dtype: Dtype) -> Result<DType, Error> {
    let known = DType::ALL.into_iter().find(|&d| to_file(d) == Some(dtype));
    known.ok_or_else(|| Error::UnsupportedElement { format: FORMAT, what: format!("{dtype:?}") })
}
