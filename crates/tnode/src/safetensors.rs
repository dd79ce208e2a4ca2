//! The safetensors format: named arrays behind a JSON header.
//!
//! Values are stored without margins. Arrays have at most [`MAX_RANK`](crate::MAX_RANK) axes; files with more
//! are rejected. Element types of the format without a counterpart here (such as `I16` and complex numbers)
//! are rejected by name. The format has no `u32x4`: such an array is written as `U32` with a further axis of
//! 4, and the file's metadata lists its name under `u32x4`, one name per line, so that it is read back with
//! its type.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use ::safetensors::tensor::{Dtype, SafeTensors, View, serialize};

use crate::dtype::DType;
use crate::error::{Result, TensorNodeError};
use crate::host_array::HostArray;
use crate::padding::Dims;

const FORMAT: &str = "safetensors";

/// The metadata key for the names of `u32x4` arrays.
const RANDOM_BITS: &str = "u32x4";

/// Reads the bytes of a file. Returns its arrays by name.
///
/// # Errors
/// When the bytes are not in the format, an element type has no counterpart here, an array has more than
/// [`MAX_RANK`](crate::MAX_RANK) axes, or memory is short.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, HostArray>> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| not_read(bytes, error))?;
    let random_bits = names_of_random_bits(bytes)?;
    let mut arrays = BTreeMap::new();
    for (name, view) in file.iter() {
        let (mut dtype, mut dims) = (from_file(view.dtype())?, view.shape());
        if let (DType::U32, true, [outer @ .., 4]) = (dtype, random_bits.iter().any(|n| n == name), dims) {
            (dtype, dims) = (DType::U32x4, outer);
        }
        let mut array = HostArray::from_bytes(dtype, dims.iter().copied(), view.data())?;
        array.normalize_bools();
        arrays.insert(name.to_owned(), array);
    }
    Ok(arrays)
}

fn names_of_random_bits(bytes: &[u8]) -> Result<Vec<String>> {
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
    let names = metadata.metadata().as_ref().and_then(|entries| entries.get(RANDOM_BITS));
    Ok(names.map_or_else(Vec::new, |names| names.lines().map(str::to_owned).collect()))
}

/// Serializes arrays, without their margins.
///
/// # Errors
/// When the names do not fit a header, or the name of a `u32x4` array contains a line break.
pub fn write<'a>(arrays: impl IntoIterator<Item = (&'a str, &'a HostArray)>) -> Result<Vec<u8>> {
    let mut random_bits = Vec::new();
    let mut views = Vec::new();
    for (name, array) in arrays {
        if array.dtype() == DType::U32x4 {
            random_bits.push(one_line(name)?);
        }
        views.push((name, Values::of(array)));
    }
    let names = (!random_bits.is_empty()).then(|| random_bits.join("\n"));
    let metadata = names.map(|names| HashMap::from([(RANDOM_BITS.to_owned(), names)]));
    serialize(views, metadata).map_err(malformed)
}

fn one_line(name: &str) -> Result<&str> {
    match name.contains(['\n', '\r']) {
        false => Ok(name),
        true => Err(TensorNodeError::Malformed {
            format: FORMAT,
            why: format!("a line break in the name {name:?}"),
        }),
    }
}

/// The error of a file that is not in the format; it names formats that are taken for this one.
fn not_read(bytes: &[u8], error: ::safetensors::SafeTensorError) -> TensorNodeError {
    let others: [(&[u8], &str); 4] = [
        (b"PK\x03\x04", "a zip archive, such as torch's `.pt`, which `torch::read` reads, or NumPy's `.npz`"),
        (b"\x80\x02", "a pickle, such as an old `.pt` of torch"),
        (b"GGUF", "a GGUF file"),
        (b"\x89HDF", "an HDF5 file"),
    ];
    match others.iter().find(|(start, _)| bytes.starts_with(start)) {
        Some((_, what)) => {
            let why =
                format!("the file is {what}; convert it, as with `safetensors.torch.save_file` in Python");
            TensorNodeError::Malformed { format: FORMAT, why }
        }
        None => malformed(error),
    }
}

fn malformed(error: ::safetensors::SafeTensorError) -> TensorNodeError {
    TensorNodeError::Malformed { format: FORMAT, why: error.to_string() }
}

/// The values of an array, as the library's view.
struct Values<'a> {
    dtype: Dtype,
    dims: Dims,
    bytes: Cow<'a, [u8]>,
}

impl Values<'_> {
    fn of(array: &HostArray) -> Values<'_> {
        let mut dims = array.dims_without_padding();
        if array.dtype() == DType::U32x4 {
            dims.push(4);
        }
        Values { dtype: to_file(array.dtype()), dims, bytes: array.value_bytes() }
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

fn to_file(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::U8 => Dtype::U8,
        DType::I8 => Dtype::I8,
        DType::U16 => Dtype::U16,
        DType::I32 => Dtype::I32,
        DType::U32 | DType::U32x4 => Dtype::U32,
        DType::I64 => Dtype::I64,
        DType::U64 => Dtype::U64,
        DType::F16 => Dtype::F16,
        DType::Bf16 => Dtype::BF16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::Fp8E5m2 => Dtype::F8_E5M2,
        DType::Fp8E4m3fn => Dtype::F8_E4M3,
    }
}

fn from_file(dtype: Dtype) -> Result<DType> {
    let known = DType::ALL.into_iter().find(|&d| to_file(d) == dtype);
    known.ok_or_else(|| TensorNodeError::UnsupportedElement { format: FORMAT, what: format!("{dtype:?}") })
}
