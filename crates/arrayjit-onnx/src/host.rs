//! Arrays whose values are known while a model is traced. What the host computes from them follows
//! `lowered_ir::eval` and `tnode::Scalar`, the definitions of what devices compute.

use std::sync::Arc;

use tnode::{DType, HostArray, Scalar};

use crate::error::{OnnxError, Result};

/// An array whose values are known while a model is traced.
pub(crate) struct HostValue {
    pub(crate) array: Arc<HostArray>,
    /// Whether every run has these values: initializers, and values computed from them.
    pub(crate) is_constant: bool,
}

impl HostValue {
    pub(crate) fn new(array: HostArray, is_constant: bool) -> Arc<HostValue> {
        HostValue::shared(Arc::new(array), is_constant)
    }

    pub(crate) fn shared(array: Arc<HostArray>, is_constant: bool) -> Arc<HostValue> {
        Arc::new(HostValue { array, is_constant })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.array.dims()
    }

    pub(crate) fn dtype(&self) -> DType {
        self.array.dtype()
    }

    /// The elements as integers. Floats are truncated, and what is beyond i64 becomes its limit.
    pub(crate) fn ints(&self) -> Vec<i64> {
        scalars(&self.array).into_iter().map(Scalar::as_i64).collect()
    }

    /// The elements as floats.
    pub(crate) fn floats(&self) -> Vec<f64> {
        self.array.values()
    }
}

/// The elements of an array in their type.
pub(crate) fn scalars(array: &HostArray) -> Vec<Scalar> {
    let (dtype, size) = (array.dtype(), array.dtype().size_bytes());
    array.bytes().chunks_exact(size).filter_map(|bytes| Scalar::read(dtype, bytes)).collect()
}

/// The array of that type and shape with these elements, which are converted as on the device.
pub(crate) fn array_of(
    dtype: DType,
    shape: &[usize],
    elements: impl IntoIterator<Item = Scalar>,
) -> Result<HostArray> {
    let mut array = HostArray::zeros(dtype, shape.iter().copied())?;
    for (bytes, element) in array.bytes_mut().chunks_exact_mut(dtype.size_bytes()).zip(elements) {
        element.convert(dtype).write(bytes);
    }
    Ok(array)
}

/// Floats as an array of that type and shape.
pub(crate) fn floats_of(dtype: DType, shape: &[usize], values: &[f64]) -> Result<HostArray> {
    array_of(dtype, shape, values.iter().map(|&value| Scalar::from_f64(DType::F64, value)))
}

/// Integers as an array of that type and shape.
pub(crate) fn ints_of(dtype: DType, shape: &[usize], values: &[i64]) -> Result<HostArray> {
    array_of(dtype, shape, values.iter().map(|&value| Scalar::from_i64(DType::I64, value)))
}

/// The elements of an array at these positions in row-major order, in another shape.
pub(crate) fn picked(
    array: &HostArray,
    shape: &[usize],
    positions: impl Iterator<Item = usize>,
) -> Result<HostArray> {
    let size = array.dtype().size_bytes();
    let source = array.bytes();
    let mut bytes = Vec::new();
    for position in positions {
        let element = source.get(position * size..(position + 1) * size);
        bytes.extend_from_slice(element.ok_or_else(|| OnnxError::Invalid("a position is outside".into()))?);
    }
    Ok(HostArray::from_bytes(array.dtype(), shape.iter().copied(), &bytes)?)
}

/// The elements of an axis at these positions.
pub(crate) fn taken(array: &HostArray, axis: usize, positions: &[usize]) -> Result<HostArray> {
    let mut shape = array.dims().to_vec();
    shape[axis] = positions.len();
    let position = |mut at: Vec<usize>| {
        at[axis] = positions[at[axis]];
        flatten(&at, array.dims())
    };
    picked(array, &shape, indices(&shape).map(position))
}

/// The elements of an array with three axes in the opposite order of axes, in another shape.
pub(crate) fn reversed(array: &HostArray, axes: [usize; 3], shape: &[usize]) -> Result<HostArray> {
    let mut reversed = HostArray::zeros(array.dtype(), shape.iter().copied())?;
    match array.dtype().size_bytes() {
        1 => reverse::<1>(array.bytes(), axes, reversed.bytes_mut()),
        2 => reverse::<2>(array.bytes(), axes, reversed.bytes_mut()),
        4 => reverse::<4>(array.bytes(), axes, reversed.bytes_mut()),
        8 => reverse::<8>(array.bytes(), axes, reversed.bytes_mut()),
        _ => reverse::<16>(array.bytes(), axes, reversed.bytes_mut()),
    }
    Ok(reversed)
}

/// Copies elements of that many bytes, so that the order of the axes is the opposite.
fn reverse<const BYTES: usize>(from: &[u8], [outer, middle, inner]: [usize; 3], to: &mut [u8]) {
    /// Rows whose cache lines are read together.
    const TOGETHER: usize = 16;
    let (from, to) = (from.as_chunks::<BYTES>().0, to.as_chunks_mut::<BYTES>().0);
    for first in (0..outer).step_by(TOGETHER) {
        let rows = first..usize::min(first + TOGETHER, outer);
        for (at, to) in to.chunks_exact_mut(outer.max(1)).enumerate() {
            let source = at % middle * inner + at / middle;
            for (row, to) in rows.clone().zip(&mut to[rows.clone()]) {
                *to = from[row * middle * inner + source];
            }
        }
    }
}

/// The multi-indices of a shape in row-major order.
pub(crate) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let (shape, count) = (shape.to_vec(), shape.iter().product::<usize>());
    (0..count).map(move |flat| unflatten(flat, &shape))
}

fn unflatten(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (at, &size) in index.iter_mut().zip(shape).rev() {
        *at = flat % size;
        flat /= size;
    }
    index
}

/// The row-major position of a multi-index.
pub(crate) fn flatten(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |flat, (&at, &size)| flat * size + at)
}

impl HostValue {
    /// The only element as assignment text in its type, if there is one. Large constants of f16 are arrays,
    /// because texts reject them as a protection against overflow.
    pub(crate) fn literal(&self) -> Option<String> {
        let is_large = |value: f64| value.is_finite() && value.abs() >= 16384.0;
        if self.dtype() == DType::F16 && self.floats().first().copied().is_some_and(is_large) {
            return None;
        }
        Some(format!("{}({})", self.dtype(), self.number()?))
    }

    /// The only element as a number of assignment text, if there is one.
    pub(crate) fn number(&self) -> Option<String> {
        let dtype = self.dtype();
        if self.array.num_values() != 1 || matches!(dtype, DType::Fp8E4m3fn | DType::Fp8E5m2 | DType::U32x4) {
            return None;
        }
        let value = Scalar::read(dtype, self.array.bytes())?;
        Some(match dtype {
            DType::U64 => (value.bits() as u64).to_string(),
            _ if dtype.is_float() => float(dtype, value.as_f64()),
            _ => value.as_i64().to_string(),
        })
    }
}

/// A float as assignment text: the shortest digits that its type reads as the same value.
pub(crate) fn float(dtype: DType, value: f64) -> String {
    match value {
        value if value.is_nan() => "nan".into(),
        value if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.into(),
        value if dtype == DType::F32 => format!("{:?}", value as f32),
        value => format!("{value:?}"),
    }
}
