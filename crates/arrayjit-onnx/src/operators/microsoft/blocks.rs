//! Products with weights in blocks of few bits, each with a scale and a zero point or a largest magnitude.
//!
//! Constant weights with zero points stay packed: the product decodes them (`Tensor::quantized_linear`).
//! Weights that a run computes, and those whose decoding would round otherwise in class strict, are converted
//! to floats.

use std::sync::Arc;

use arrayjit_tensor::{QuantizedArrays, QuantizedFormat};
use tnode::{DType, HostArray};

use super::{
    super::{contract::product, elementwise::combined},
    ms, transposed,
};
use crate::{
    error::{OnnxError, Result},
    host::{HostValue, floats_of},
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] =
    &[ms("MatMulBnb4", multiplied_by_codes).sized(), ms("MatMulNBits", multiplied).sized()];

/// A matrix `[rows, columns]` of integers of few bits, in blocks of elements of a row.
#[derive(Clone, Copy)]
struct Blocks {
    rows: usize,
    columns: usize,
    bits: usize,
    size: usize,
}

impl Blocks {
    fn of(cx: &NodeContext<'_>) -> Result<Blocks> {
        let (columns, rows) = (cx.count("K", 0)?, cx.count("N", 0)?);
        let (bits, size) = (cx.count("bits", 4)?, cx.count("block_size", 32)?);
        if size > 1 << 16 || !matches!(bits, 2 | 4 | 8) || size * bits % 8 != 0 {
            return Err(OnnxError::attribute("bits", "2, 4 or 8, and blocks of whole bytes"));
        }
        Ok(Blocks { rows, columns, bits, size })
    }

    /// The number of blocks of a row.
    fn in_row(self) -> usize {
        self.columns.div_ceil(self.size)
    }

    /// The bytes of a row of so many integers.
    fn bytes(self, integers: usize) -> usize {
        (integers * self.bits).div_ceil(8)
    }

    /// The integer at a position of a row of packed ones, of which the first has the lowest bits.
    fn integer(self, row: &[u8], at: usize) -> f64 {
        let bit = at * self.bits;
        f64::from(row[bit / 8] >> (bit % 8) & (u8::MAX >> (8 - self.bits)))
    }

    /// The scale and the zero point of each block, row after row. Zero points are integers like those of the
    /// matrix, or floats.
    fn scales(
        self,
        packed: &HostArray,
        scales: &HostArray,
        zeros: Option<&HostArray>,
    ) -> Result<Vec<(f64, f64)>> {
        let (blocks, width) = (self.in_row(), self.bytes(self.in_row() * self.size));
        let wrong = |at, expected| OnnxError::operand(at, format!("expected {expected} elements"));
        if packed.dtype() != DType::U8 || packed.bytes().len() != self.rows * width {
            return Err(wrong(1, self.rows * width));
        }
        let factors = scales.values();
        if factors.len() != self.rows * blocks {
            return Err(wrong(2, self.rows * blocks));
        }
        let points = match zeros {
            None => vec![f64::from(1u32 << (self.bits - 1)); self.rows * blocks],
            Some(zeros) if zeros.dtype() == DType::U8 => {
                let width = self.bytes(blocks);
                if zeros.bytes().len() != self.rows * width {
                    return Err(wrong(3, self.rows * width));
                }
                let rows = zeros.bytes().chunks_exact(width);
                rows.flat_map(|row| (0..blocks).map(move |at| self.integer(row, at))).collect()
            }
            Some(zeros) => zeros.values(),
        };
        if points.len() != factors.len() {
            return Err(wrong(3, factors.len()));
        }
        Ok(factors.into_iter().zip(points).collect())
    }

    /// The matrix as floats of the type of its scales.
    fn dequantized(
        self,
        packed: &HostArray,
        scales: &HostArray,
        zeros: Option<&HostArray>,
    ) -> Result<HostArray> {
        let blocks = self.scales(packed, scales, zeros)?;
        let width = self.bytes(self.in_row() * self.size);
        let mut values = Vec::with_capacity(self.rows * self.columns);
        for (row, blocks) in packed.bytes().chunks_exact(width).zip(blocks.chunks_exact(self.in_row())) {
            values.extend((0..self.columns).map(|at| {
                let (scale, point) = blocks[at / self.size];
                (self.integer(row, at) - point) * scale
            }));
        }
        floats_of(scales.dtype(), &[self.rows, self.columns], &values)
    }

    /// The sizes of the packed matrix. Integers of two bits take four.
    fn format(self) -> Result<QuantizedFormat> {
        Ok(QuantizedFormat::new([self.rows, self.columns], self.size, self.bits.max(4))?)
    }

    /// The matrix in the order in which products read it.
    fn packed(self, packed: &HostArray, blocks: &[(f64, f64)]) -> Result<QuantizedArrays> {
        let width = self.bytes(self.in_row() * self.size);
        let arrays = QuantizedArrays::pack(
            self.format()?,
            |row, column| self.integer(&packed.bytes()[row * width..][..width], column) as u8,
            |row, at| {
                let (scale, point) = blocks[row * self.in_row() + at];
                (scale as f32, (-point * scale) as f32)
            },
        );
        Ok(arrays?)
    }
}

/// Whether `integer · scale + offset`, rounded once, is the definition's product of the scale and a
/// difference: the scales are in `f32`, and it holds the offsets.
fn is_exact(dtype: DType, blocks: &[(f64, f64)]) -> bool {
    let fits = |&(scale, point): &(f64, f64)| f64::from((-point * scale) as f32) == -point * scale;
    dtype == DType::F32 && blocks.iter().all(fits)
}

/// The product with constant weights, which stay packed; `None` if they are no constants, or if class strict
/// needs them as floats.
fn with_packed(cx: &mut NodeContext<'_>, x: &Value, blocks: Blocks) -> Result<Option<Value>> {
    let given: Vec<Value> = [cx.optional(1), cx.optional(2), cx.optional(3)].into_iter().flatten().collect();
    if !given.iter().all(Value::is_constant) || !x.dtype().is_float() || !blocks.size.is_multiple_of(2) {
        return Ok(None);
    }
    let known: Vec<_> = given.iter().filter_map(Value::known).map(|known| known.array.clone()).collect();
    let [packed, scales, zeros @ ..] = known.as_slice() else { return Ok(None) };
    let of_blocks = blocks.scales(packed, scales, zeros.first().map(|zeros| &**zeros))?;
    if cx.is_strict() && !is_exact(scales.dtype(), &of_blocks) {
        return Ok(None);
    }
    let Some((&inner, front)) = x.shape().split_last() else { return Ok(None) };
    if inner != blocks.columns {
        let problem = format!("expected {} elements along the last axis, found {inner}", blocks.columns);
        return Err(OnnxError::operand(0, problem));
    }
    let format = blocks.format()?;
    let mut made: Option<QuantizedArrays> = None;
    let mut tables = vec![x.clone()];
    for (at, array) in format.arrays().into_iter().enumerate() {
        cx.reserve(array.dtype, &array.shape)?;
        tables.push(cx.table(array.name.into(), || {
            let arrays = match made.take() {
                Some(arrays) => arrays,
                None => blocks.packed(packed, &of_blocks)?,
            };
            let array = arrays.arrays[at].clone();
            made = Some(arrays);
            Ok(array)
        })?);
    }
    let shape: Vec<usize> = front.iter().copied().chain([blocks.rows]).collect();
    let y = cx.operation_of(&tables, x.dtype(), &shape, |_, tensors| match tensors {
        [x, arrays @ ..] => x.quantized_linear(format, arrays).map_err(OnnxError::from),
        [] => Err(OnnxError::Invalid("an operand is missing".into())),
    })?;
    Ok(Some(y))
}

/// An array of this shape, which a function computes from operands: once for a session if they are constants,
/// else in each run.
pub(super) fn computed(
    cx: &mut NodeContext<'_>,
    operands: &[Value],
    shape: &[usize],
    function: impl Fn(&[&HostArray]) -> Result<HostArray> + Send + Sync + 'static,
) -> Result<Value> {
    cx.reserve(DType::F32, shape)?;
    match operands.iter().map(|value| value.known().filter(|known| known.is_constant)).collect() {
        Some(known) => cx.table("weights".into(), || {
            let known: Vec<&Arc<HostValue>> = known;
            function(&known.iter().map(|known| &*known.array).collect::<Vec<_>>())
        }),
        None => super::only(cx.on_host(operands, move |arrays| {
            Ok(vec![function(&arrays.iter().map(|array| &**array).collect::<Vec<_>>())?])
        })?),
    }
}

/// The product of the first operand and transposed weights.
fn multiplied_by(cx: &mut NodeContext<'_>, weights: &Value) -> Result<Value> {
    let x = cx.value(0)?;
    if x.rank() == 0 {
        return Err(OnnxError::operand(0, "expected one axis or more"));
    }
    let weights = cx.cast(weights, x.dtype())?;
    let weights = transposed(cx, &weights)?;
    product(cx, &x, &weights, x.dtype())
}

fn multiplied(cx: &mut NodeContext<'_>) -> Lowered {
    let (x, blocks) = (cx.value(0)?, Blocks::of(cx)?);
    if cx.optional(4).is_some() {
        return Err(OnnxError::Case("an order of groups".into()));
    }
    let y = match with_packed(cx, &x, blocks)? {
        Some(y) => y,
        None => {
            let given = [Some(cx.value(1)?), Some(cx.value(2)?), cx.optional(3)];
            let given: Vec<Value> = given.into_iter().flatten().collect();
            let weights = computed(cx, &given, &[blocks.rows, blocks.columns], move |arrays| {
                blocks.dequantized(arrays[0], arrays[1], arrays.get(2).copied())
            })?;
            multiplied_by(cx, &weights)?
        }
    };
    Ok(vec![match cx.optional(5) {
        Some(bias) => combined(cx, &y, &bias, y.dtype(), "{x} + {z}")?,
        None => y,
    }])
}

/// The numbers of the codes of 4 bits: floats with an exponent of 2 bits, up to 1.
const FP4: [f32; 16] = [
    0.0,
    0.005_208_333_3,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -0.005_208_333_3,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

/// The numbers of the codes of 4 bits: quantiles of the normal distribution, up to 1.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// The product with weights `[N, K]` in codes of 4 bits, of which the first of a byte has the high bits.
/// Blocks of codes in row-major order share a largest magnitude.
fn multiplied_by_codes(cx: &mut NodeContext<'_>) -> Lowered {
    let (columns, rows) = (cx.count("K", 0)?, cx.count("N", 0)?);
    let (size, table) = (cx.count("block_size", 0)?, cx.int_or("quant_type", 1)?);
    let numbers = match table {
        0 => FP4,
        1 => NF4,
        _ => return Err(OnnxError::attribute("quant_type", "0 or 1")),
    };
    if cx.int_or("transB", 1)? != 1 {
        return Err(OnnxError::Case("the attribute `transB` of 0".into()));
    }
    let count = rows.checked_mul(columns).ok_or_else(OnnxError::overflow)?;
    let given = [cx.value(1)?, cx.value(2)?];
    let weights = computed(cx, &given, &[rows, columns], move |arrays| {
        let (codes, most) = (arrays[0].bytes(), arrays[1].values());
        for (at, found, expected) in
            [(1, codes.len(), count.div_ceil(2)), (2, most.len(), count.div_ceil(size))]
        {
            if found != expected {
                return Err(OnnxError::operand(at, format!("expected {expected} elements, found {found}")));
            }
        }
        let number = |at: usize| {
            let code = codes[at / 2] >> (4 * (1 - at % 2)) & 15;
            f64::from(numbers[usize::from(code)]) * most[at / size]
        };
        floats_of(arrays[1].dtype(), &[rows, columns], &(0..count).map(number).collect::<Vec<f64>>())
    })?;
    Ok(vec![multiplied_by(cx, &weights)?])
}
