//! Arrays whose values are known while a model is traced.

use std::sync::Arc;

use tnode::{DType, HostArray};

use crate::error::NodeProblem;

/// An array whose values are known while a model is traced.
pub(crate) struct HostValue {
    pub(crate) array: Arc<HostArray>,
    /// Whether every run has these values: initialisers, and values computed from them.
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

    /// The elements as integers. Floats are truncated.
    pub(crate) fn ints(&self) -> Vec<i64> {
        match Numbers::of(&self.array) {
            Numbers::Ints(values) => values,
            Numbers::Floats(values) => values.into_iter().map(|value| value as i64).collect(),
        }
    }

    /// The elements as floats.
    pub(crate) fn floats(&self) -> Vec<f64> {
        match Numbers::of(&self.array) {
            Numbers::Ints(values) => values.into_iter().map(|value| value as f64).collect(),
            Numbers::Floats(values) => values,
        }
    }
}

/// The elements of an array in the widest type of their kind. Integers of u64 beyond i64 wrap.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    Ints(Vec<i64>),
    Floats(Vec<f64>),
}

impl Numbers {
    pub(crate) fn of(array: &HostArray) -> Numbers {
        let ints = |values: Vec<i64>| Numbers::Ints(values);
        match array.dtype() {
            DType::I64 => ints(array.as_slice::<i64>().map(<[i64]>::to_vec).unwrap_or_default()),
            DType::U64 => {
                let values = array.as_slice::<u64>().unwrap_or_default();
                ints(values.iter().map(|&value| value as i64).collect())
            }
            dtype if dtype.is_float() => Numbers::Floats(array.values()),
            _ => ints(array.values().into_iter().map(|value| value as i64).collect()),
        }
    }

    /// The array of that type and shape with these elements, which are converted as by a cast.
    pub(crate) fn array(&self, dtype: DType, shape: &[usize]) -> Result<HostArray, NodeProblem> {
        let mut array = HostArray::zeros(dtype, shape.iter().copied())?;
        match (dtype, self) {
            (DType::I64, _) => copy(array.as_mut_slice::<i64>()?, &self.ints()),
            (DType::U64, _) => {
                let values: Vec<u64> = self.ints().into_iter().map(|value| value as u64).collect();
                copy(array.as_mut_slice::<u64>()?, &values);
            }
            (DType::Bool, _) => {
                let values: Vec<f64> =
                    self.floats().into_iter().map(|value| f64::from(u8::from(value != 0.0))).collect();
                array.set_values(&values)?;
            }
            (dtype, Numbers::Ints(values)) if dtype.is_integer() => {
                let wrapped: Vec<f64> = values.iter().map(|&value| wrapped(dtype, value)).collect();
                array.set_values(&wrapped)?;
            }
            (dtype, Numbers::Floats(values)) if dtype.is_integer() => {
                let wrapped: Vec<f64> = values.iter().map(|&value| wrapped(dtype, value as i64)).collect();
                array.set_values(&wrapped)?;
            }
            _ => array.set_values(&self.floats())?,
        }
        Ok(array)
    }

    pub(crate) fn ints(&self) -> Vec<i64> {
        match self {
            Numbers::Ints(values) => values.clone(),
            Numbers::Floats(values) => values.iter().map(|&value| value as i64).collect(),
        }
    }

    pub(crate) fn floats(&self) -> Vec<f64> {
        match self {
            Numbers::Ints(values) => values.iter().map(|&value| value as f64).collect(),
            Numbers::Floats(values) => values.clone(),
        }
    }
}

/// Copies as many elements as both slices have.
fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
}

/// The integer modulo the range of a type of at most 32 bits.
fn wrapped(dtype: DType, value: i64) -> f64 {
    match dtype {
        DType::U8 => f64::from(value as u8),
        DType::I8 => f64::from(value as i8),
        DType::U16 => f64::from(value as u16),
        DType::I32 => f64::from(value as i32),
        DType::U32 => f64::from(value as u32),
        _ => value as f64,
    }
}

/// The elements of an array at these positions in row-major order, in another shape.
pub(crate) fn picked(
    array: &HostArray,
    shape: &[usize],
    positions: impl Iterator<Item = usize>,
) -> Result<HostArray, NodeProblem> {
    let size = array.dtype().size_bytes();
    let source = array.bytes();
    let mut bytes = Vec::new();
    for position in positions {
        let element = source.get(position * size..(position + 1) * size);
        bytes.extend_from_slice(element.ok_or_else(|| NodeProblem::Other("a position is outside".into()))?);
    }
    Ok(HostArray::from_bytes(array.dtype(), shape.iter().copied(), &bytes)?)
}

/// The elements of an array with three axes in the opposite order of axes, in another shape.
pub(crate) fn reversed(
    array: &HostArray,
    axes: [usize; 3],
    shape: &[usize],
) -> Result<HostArray, NodeProblem> {
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
    /// The only element as assignment text in its type, if there is one.
    pub(crate) fn literal(&self) -> Option<String> {
        let dtype = self.dtype();
        if self.array.num_values() != 1 || matches!(dtype, DType::Fp8E4m3fn | DType::Fp8E5m2 | DType::U32x4) {
            return None;
        }
        let number = match (dtype, Numbers::of(&self.array)) {
            (DType::U64, Numbers::Ints(values)) => (*values.first()? as u64).to_string(),
            (_, Numbers::Ints(values)) => values.first()?.to_string(),
            (_, Numbers::Floats(values)) => float(dtype, *values.first()?),
        };
        Some(format!("{dtype}({number})"))
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
