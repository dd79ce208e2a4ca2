//! Products with quantized weights: integers of 4 or 8 bits in blocks along the inputs, each block with a
//! scale and an offset. The compiler decodes the integers where it multiplies them; the weights are never an
//! array of floats.
//!
//! ```text
//! weight[o, k] = fma(f32(integer[o, k]), scale[o, k / block], offset[o, k / block])
//! ```
//!
//! In memory, 64 outputs stand side by side, in panels `[outputs / 64, inputs / block, block, 64]`, so that
//! the vectors of a product are outputs, and a product of one row reads one stream. Of 4-bit integers, a byte
//! has the one at an even position in its low half and the next one in its high half.

mod arrays; // weights in host memory
mod block_format; // blocks as GGUF files store them
mod format; // sizes and arrays
mod lanes; // a byte of each output of a panel

use self::format::{PANEL, WeightReads};
pub use self::{
    arrays::QuantizedArrays,
    block_format::BlockFormat,
    format::{QuantizedArray, QuantizedFormat},
};
use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand},
    shape::{access, letter, letters, numbered, whole},
    tensor::Tensor,
};

/// The statements of a product of one row. Each decoded weight serves only this row, so the scale multiplies
/// the sum of a block instead of each weight, and the offset multiplies the sum of the block's inputs.
fn row_product(reads: &WeightReads, x: &str, y: &str, at: impl Fn(&[&str]) -> Vec<String>) -> String {
    let WeightReads { integer, block, scale, offset, all_ranges, .. } = reads;
    let sum = access("block_sum", at(&[&["panel"], block.as_slice(), &["lane"]].concat()));
    let sums = format!("{sum} :+= f32({x}) * {integer}{all_ranges}");
    let Some(offset) = offset else { return format!("{sums}\n{y} :+= {sum} * ({scale})") };
    let x_sum = access("x_sum", at(block));
    let scaled = format!("{y} :+= fma({sum}, {scale}, {x_sum} * ({offset}))");
    format!("{x_sum} :+= f32({x}){all_ranges}\n{sums}\n{scaled}")
}

impl Tensor {
    /// This tensor times the transpose of quantized weights: `[…, inputs]` to `[…, outputs]`, in f32. The
    /// weights are given by their arrays, in the order and of the shapes that the format says: constants, or
    /// parameters with the values of [`QuantizedArrays`].
    ///
    /// A product of one row with weights of a [`BlockFormat`] adds up each block before it multiplies by the
    /// scale, so its last bits differ from those of the same row among others.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, QuantizedArrays, QuantizedFormat, Tensor};
    ///
    /// let format = QuantizedFormat::new([64, 128], 32, 4)?;
    /// let weights = QuantizedArrays::pack(format, |o, k| ((o + k) % 16) as u8, |_, _| (0.5, -4.0))?;
    /// let graph = Graph::new();
    /// let x = graph.input("x", [8, 128], DType::F32)?;
    /// let arrays: Vec<Tensor> =
    ///     weights.arrays.into_iter().map(|array| graph.constant(array)).collect::<Result<_, _>>()?;
    /// let y = x.quantized_linear(format, &arrays)?;
    /// assert_eq!(y.shape(), [8, 64]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A last axis that does not have the inputs, another number of arrays, or an array of another shape.
    #[track_caller]
    pub fn quantized_linear<A: TensorOperand>(
        &self,
        format: QuantizedFormat,
        arrays: &[A],
    ) -> Result<Tensor> {
        let call = Call::new("quantized_linear");
        let (inputs, outputs) = (format.inputs(), format.outputs());
        if self.shape().last() != Some(&inputs) {
            return Err(self.graph().fail(call, self.misshapen(format!("a last axis of {inputs} elements"))));
        }
        let padded = format.padded_inputs();
        let x = if padded == inputs { self.clone() } else { self.pad(&[(0, padded - inputs)], 0.0)? };
        let operands = self.operands(call, format, ("x", &x), arrays)?;
        let reads = format.reads("", "panel", "lane");
        let front = letters(self.rank() - 1);
        let at = |last: &[&str]| -> Vec<String> {
            front.iter().cloned().chain(last.iter().map(|&index| index.to_owned())).collect()
        };
        let x_at = access("x", at(&[&reads.input]));
        let y = self.graph().result(call, &operands, |y| {
            let y = access(y, at(&["panel", "lane"]));
            if self.num_elements() == inputs && format.sums_blocks() {
                return row_product(&reads, &x_at, &y, at);
            }
            format!("{y} :+= f32({x_at}) * ({}){}", reads.weight(), reads.ranges)
        })?;
        let shape = |last: usize| -> Vec<isize> {
            let front = self.shape()[..self.rank() - 1].iter().map(|&size| size as isize);
            front.chain([last as isize]).collect()
        };
        let y = y.reshape(&shape(format.panels() * PANEL))?;
        y.first_columns(call, outputs)
    }

    /// The rows of quantized weights, as a table, at these integer positions: `[…]` to `[…, inputs]`, in f32.
    /// The weights are given as for [`quantized_linear`](Tensor::quantized_linear). For a position outside
    /// the table, see [`take`](Tensor::take).
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, QuantizedArrays, QuantizedFormat, Tensor};
    ///
    /// let format = QuantizedFormat::new([1000, 128], 32, 8)?;
    /// let table = QuantizedArrays::pack(format, |o, k| ((o + k) % 256) as u8, |_, _| (0.25, -32.0))?;
    /// let graph = Graph::new();
    /// let tokens = graph.input("tokens", [8], DType::I32)?;
    /// let arrays: Vec<Tensor> =
    ///     table.arrays.into_iter().map(|array| graph.constant(array)).collect::<Result<_, _>>()?;
    /// assert_eq!(tokens.quantized_rows(format, &arrays)?.shape(), [8, 128]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// Positions that are no integers, another number of arrays, or an array of another shape.
    #[track_caller]
    pub fn quantized_rows<A: TensorOperand>(&self, format: QuantizedFormat, arrays: &[A]) -> Result<Tensor> {
        let call = Call::new("quantized_rows");
        self.integers(call)?;
        self.graph().expect_positions(call, self, format.outputs(), None);
        let operands = self.operands(call, format, ("p", self), arrays)?;
        let front = letters(self.rank());
        let [p, panel, lane] = ["p", "panel", "lane"].map(|name| access(name, &front));
        let mut text = format!("{panel} := {p} / {PANEL}\n{lane} := {p} - {panel} * {PANEL}\n");
        // An access has one computed index at most, so the panels of the rows are copied first.
        for QuantizedArray { name, shape, .. } in format.arrays() {
            let columns = numbered("c", shape.len() - 1);
            let row = access(&format!("{name}_row"), front.iter().chain(&columns));
            text += &format!("{row} := {}\n", access(name, [&panel].into_iter().chain(&columns)));
        }
        let reads = format.reads("_row", &front.join(","), &lane);
        let y = self.graph().result(call, &operands, |y| {
            let y = access(y, front.iter().chain([&reads.input]));
            format!("{text}{y} := {}{}", reads.weight(), reads.ranges)
        })?;
        y.first_columns(call, format.inputs())
    }

    /// The first elements along the last axis; the others are padding.
    fn first_columns(&self, call: Call, count: usize) -> Result<Tensor> {
        if self.shape().last() == Some(&count) {
            return Ok(self.clone());
        }
        let all = whole("x", self.rank());
        let last = letter(self.rank() - 1);
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!("{} := {all} where {last} < {count}", whole(y, self.rank()))
        })
    }

    /// A tensor and the arrays of weights, by their names in statements.
    fn operands<'a, A: TensorOperand>(
        &self,
        call: Call,
        format: QuantizedFormat,
        (name, x): (&'static str, &'a Tensor),
        arrays: &'a [A],
    ) -> Result<Vec<(&'static str, Argument<'a>)>> {
        let expected = format.arrays();
        if arrays.len() != expected.len() {
            let names: Vec<&str> = expected.iter().map(|array| array.name).collect();
            let problem = misfit("arrays", arrays.len(), format!("{}: {}", names.len(), names.join(", ")));
            return Err(self.graph().fail(call, problem));
        }
        let mut operands = vec![(name, Argument::Tensor(x))];
        for (array, expected) in arrays.iter().map(TensorOperand::argument).zip(expected) {
            if array.shape() != expected.shape || array.dtype() != Some(expected.dtype) {
                let what = format!("the array `{}`, {}", expected.name, array.name());
                let found = array.shape().to_vec();
                let expected = format!("{:?} in {}", expected.shape, expected.dtype);
                return Err(self.graph().fail(call, TensorError::Shape { what, found, expected }));
            }
            operands.push((expected.name, array));
        }
        Ok(operands)
    }
}
