//! Products with weights in blocks of few bits, each with a scale and a zero point.
//!
//! Constant weights stay packed: the product decodes them (`Tensor::quantized_linear`). Weights that a run
//! computes, and those whose decoding would round otherwise in class strict, are converted to floats.

use arrayjit_tensor::{QuantizedArrays, QuantizedFormat};
use tnode::{DType, HostArray};

use super::{
    super::{contract::product, elementwise::combined},
    ms, transposed,
};
use crate::{
    error::{OnnxError, Result},
    host::floats_of,
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
    },
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[ms("MatMulNBits", multiplied).sized()];

/// A matrix `[rows, columns]` of integers of few bits, in blocks of elements of a row.
#[derive(Clone, Copy)]
struct Blocks {
    rows: usize,
    columns: usize,
    bits: usize,
    size: usize,
}

impl Blocks {
    fn of(cx: &NodeContext<'_, '_>) -> Result<Blocks> {
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
fn with_packed(cx: &mut NodeContext<'_, '_>, x: &Value, blocks: Blocks) -> Result<Option<Value>> {
    let given: Vec<Value> = [cx.optional(1), cx.optional(2), cx.optional(3)].into_iter().flatten().collect();
    if !given.iter().all(Value::is_constant) || !x.dtype().is_float() || blocks.size % 2 != 0 {
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
    cx.reserve(DType::U8, &format.integers_shape())?;
    let mut made: Option<QuantizedArrays> = None;
    let mut tables = vec![x.clone()];
    for name in ["integers", "scales", "offsets"] {
        tables.push(cx.table(name.into(), || {
            let arrays = match made.take() {
                Some(arrays) => arrays,
                None => blocks.packed(packed, &of_blocks)?,
            };
            let array = match name {
                "integers" => arrays.integers.clone(),
                "scales" => arrays.scales.clone(),
                _ => arrays.offsets.clone(),
            };
            made = Some(arrays);
            Ok(array)
        })?);
    }
    let shape: Vec<usize> = front.iter().copied().chain([blocks.rows]).collect();
    let y = cx.operation_of(&tables, x.dtype(), &shape, |_, tensors| match tensors {
        [x, integers, scales, offsets] => {
            x.quantized_linear(format, integers, scales, offsets).map_err(OnnxError::from)
        }
        _ => Err(OnnxError::Invalid("an operand is missing".into())),
    })?;
    Ok(Some(y))
}

/// The weights as floats: once for a session if they are constants, else in each run.
fn weights(cx: &mut NodeContext<'_, '_>, blocks: Blocks) -> Result<Value> {
    let operands = [Some(cx.value(1)?), Some(cx.value(2)?), cx.optional(3)];
    cx.reserve(DType::F32, &[blocks.rows, blocks.columns])?;
    let given: Vec<Value> = operands.into_iter().flatten().collect();
    match given.iter().all(Value::is_constant) {
        true => cx.table("weights".into(), || {
            let known: Vec<_> = given.iter().filter_map(Value::known).map(|known| &known.array).collect();
            blocks.dequantized(known[0], known[1], known.get(2).map(|zeros| &***zeros))
        }),
        false => super::only(cx.on_host(&given, move |arrays| {
            let zeros = arrays.get(2).map(|zeros| &**zeros);
            Ok(vec![blocks.dequantized(&arrays[0], &arrays[1], zeros)?])
        })?),
    }
}

fn multiplied(cx: &mut NodeContext<'_, '_>) -> Lowered {
    let (x, blocks) = (cx.value(0)?, Blocks::of(cx)?);
    if x.rank() == 0 {
        return Err(OnnxError::operand(0, "expected one axis or more"));
    }
    if cx.optional(4).is_some() {
        return Err(OnnxError::Case("an order of groups".into()));
    }
    let y = match with_packed(cx, &x, blocks)? {
        Some(y) => y,
        None => {
            let weights = weights(cx, blocks)?;
            let weights = cx.cast(&weights, x.dtype())?;
            let weights = transposed(cx, &weights)?;
            product(cx, &x, &weights, x.dtype())?
        }
    };
    Ok(vec![match cx.optional(5) {
        Some(bias) => combined(cx, &y, &bias, y.dtype(), "{x} + {z}")?,
        None => y,
    }])
}
