//! Products with weights in blocks of few bits, each with a scale and a zero point.

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

    /// The matrix as floats of the type of its scales. Zero points are integers like those of the matrix, or
    /// floats.
    fn dequantized(
        self,
        packed: &HostArray,
        scales: &HostArray,
        zeros: Option<&HostArray>,
    ) -> Result<HostArray> {
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
        let mut values = Vec::with_capacity(self.rows * self.columns);
        for (number, row) in packed.bytes().chunks_exact(width).enumerate() {
            values.extend((0..self.columns).map(|at| {
                let block = number * blocks + at / self.size;
                (self.integer(row, at) - points[block]) * factors[block]
            }));
        }
        floats_of(scales.dtype(), &[self.rows, self.columns], &values)
    }
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
    let weights = weights(cx, blocks)?;
    let weights = cx.cast(&weights, x.dtype())?;
    let weights = transposed(cx, &weights)?;
    let y = product(cx, &x, &weights, x.dtype())?;
    Ok(vec![match cx.optional(5) {
        Some(bias) => combined(cx, &y, &bias, y.dtype(), "{x} + {z}")?,
        None => y,
    }])
}
