//! Arrays of numbers in ONNX files.

use tnode::{DType, HostArray};

use crate::{
    error::{OnnxError, Result},
    narrow,
    proto::TensorProto,
};

/// The element type of the arrays that have elements of the type with this number, if there is one. Types of
/// fewer than 8 bits are stored in wider ones.
pub(crate) fn dtype(number: i32) -> Option<DType> {
    Some(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::Bf16,
        17 => DType::Fp8E4m3fn,
        19 => DType::Fp8E5m2,
        _ => return narrow::Narrow::of(number).map(narrow::Narrow::stored),
    })
}

/// The number of an element type in ONNX files.
pub(crate) fn dtype_number(dtype: DType) -> Option<i32> {
    (0..32).find(|&number| self::dtype(number) == Some(dtype))
}

/// The name of an element type that arrays cannot have.
pub(crate) fn dtype_name(number: i32) -> String {
    let names = [
        (5, "int16"),
        (8, "string"),
        (14, "complex64"),
        (15, "complex128"),
        (18, "float8e4m3fnuz"),
        (20, "float8e5m2fnuz"),
        (24, "float8e8m0"),
    ];
    let found = names.into_iter().find(|(known, _)| *known == number).map(|(_, name)| name.to_owned());
    found.unwrap_or_else(|| format!("number {number}"))
}

/// The array of a message whose elements are in it.
///
/// # Errors
/// An element type that arrays cannot have, or another number of elements than the shape says.
pub fn from_proto(tensor: &TensorProto) -> Result<HostArray, OnnxError> {
    let layout = Layout::of(tensor)?;
    match tensor.raw_data.is_empty() {
        false => layout.array(&tensor.raw_data),
        true => layout.array(&field_bytes(tensor, layout.dtype)),
    }
}

/// The element type of a message.
pub(crate) fn typed(tensor: &TensorProto) -> Result<DType> {
    dtype(tensor.data_type).ok_or_else(|| {
        let problem = format!("elements of type {} are not supported", dtype_name(tensor.data_type));
        OnnxError::invalid(format!("tensor `{}`", tensor.name), problem)
    })
}

/// What a message says about the elements of its array.
pub(crate) struct Layout<'a> {
    tensor: &'a TensorProto,
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
    /// The number of elements.
    count: usize,
    /// The number of bytes that they take in a file.
    pub(crate) bytes: usize,
    /// The type of elements of fewer than 8 bits.
    narrow: Option<narrow::Narrow>,
}

impl Layout<'_> {
    /// # Errors
    /// An element type that arrays cannot have, or more elements than memory can have.
    pub(crate) fn of(tensor: &TensorProto) -> Result<Layout<'_>> {
        let (dtype, narrow) = (typed(tensor)?, narrow::Narrow::of(tensor.data_type));
        let invalid = |problem| OnnxError::invalid(format!("tensor `{}`", tensor.name), problem);
        let sizes: Option<Vec<usize>> = tensor.dims.iter().map(|&size| usize::try_from(size).ok()).collect();
        let dims = sizes.ok_or_else(|| invalid("a size is negative"))?;
        let count = dims.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let bytes = count.and_then(|count| match narrow {
            Some(narrow) => count.checked_mul(narrow.bits()).map(|bits| bits.div_ceil(8)),
            None => count.checked_mul(dtype.size_bytes()),
        });
        let (Some(count), Some(bytes)) = (count, bytes) else { return Err(invalid("its size overflows")) };
        Ok(Layout { tensor, dtype, dims, count, bytes, narrow })
    }

    pub(crate) fn is_narrow(&self) -> bool {
        self.narrow.is_some()
    }

    /// Fails unless the elements take so many bytes.
    pub(crate) fn check(&self, bytes: u64) -> Result<()> {
        let Layout { tensor, dtype, dims, .. } = self;
        if bytes == self.bytes as u64 {
            return Ok(());
        }
        let problem = format!("{bytes} bytes do not fill {dtype}{dims:?}");
        Err(OnnxError::invalid(format!("tensor `{}`", tensor.name), problem))
    }

    /// The array with these bytes, if there are as many as the shape says.
    pub(crate) fn array(&self, bytes: &[u8]) -> Result<HostArray> {
        self.check(bytes.len() as u64)?;
        let dims = self.dims.iter().copied();
        Ok(match self.narrow {
            Some(narrow) => HostArray::from_bytes(self.dtype, dims, &narrow.unpacked(bytes, self.count))?,
            None => HostArray::from_bytes(self.dtype, dims, bytes)?,
        })
    }
}

/// The little-endian bytes of the elements in the typed fields.
fn field_bytes(tensor: &TensorProto, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DType::F64 => tensor.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DType::I64 => tensor.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DType::U64 => tensor.uint64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DType::U32 => {
            let low = |value: &u64| value.to_le_bytes().into_iter().take(4).collect::<Vec<_>>();
            tensor.uint64_data.iter().flat_map(low).collect()
        }
        // The low bytes of each integer: i32, and narrower types that are stored in it.
        _ => {
            let size = dtype.size_bytes().min(4);
            tensor.int32_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(size)).collect()
        }
    }
}

/// The message of an array, with its elements in it. Element types without a number give none.
///
/// ```
/// use arrayjit_onnx::{HostArray, array_from_proto, array_to_proto};
///
/// let weight = HostArray::from_slice(&[1f32, 2.0], [2, 1])?;
/// let message = array_to_proto("weight", &weight).ok_or("f32 has a number")?;
/// assert_eq!(array_from_proto(&message)?.values(), [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn to_proto(name: &str, array: &HostArray) -> Option<TensorProto> {
    Some(TensorProto {
        name: name.into(),
        dims: array.dims().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect(),
        data_type: dtype_number(array.dtype())?,
        raw_data: array.bytes().to_vec().into(),
        ..TensorProto::default()
    })
}
