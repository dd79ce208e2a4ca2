//! Products with quantized weights: integers of 4 or 8 bits in blocks along the inputs, each block with a
//! scale and an offset. The compiler decodes the integers where it multiplies them; the weights are never an
//! array of floats.
//!
//! ```text
//! weight[o, k] = fma(f32(integer[o, k]), scale[o, k / block], offset[o, k / block])
//! ```
//!
//! In memory, 32 outputs stand side by side, in panels `[outputs / 32, inputs / block, block, 32]`, so that
//! the vectors of a product are outputs, and a product of one row reads one stream. Of 4-bit integers, a byte
//! has the one at an even position in its low half and the next one in its high half.

mod block_format; // blocks as GGUF files store them

use arrayjit::HostArray;

pub use self::block_format::BlockFormat;
use crate::{
    error::{Call, TensorError},
    operand::{Argument, TensorOperand},
    shape::{access, letter},
    tensor::Tensor,
};

/// Outputs that stand side by side in memory.
const PANEL: usize = 32;

/// The sizes of quantized weights, which determine the shapes of their arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizedFormat {
    outputs: usize,
    inputs: usize,
    block: usize,
    bits: usize,
}

impl QuantizedFormat {
    /// Weights of shape `[outputs, inputs]`, as integers of `bits` bits in blocks of `block` inputs. The last
    /// block of an output may be partly used.
    ///
    /// # Errors
    /// A size of 0, another number of bits than 4 or 8, or a block of an odd size with 4 bits.
    pub fn new(
        [outputs, inputs]: [usize; 2],
        block: usize,
        bits: usize,
    ) -> Result<QuantizedFormat, TensorError> {
        let fail = |argument, found: usize, expected: &str| TensorError::Argument {
            argument,
            found: found.to_string(),
            expected: expected.into(),
        };
        if !matches!(bits, 4 | 8) {
            return Err(fail("bits", bits, "4 or 8"));
        }
        if block == 0 || block > 1 << 16 || bits == 4 && !block.is_multiple_of(2) {
            return Err(fail("block", block, "a size of at most 65536, which is even with 4 bits"));
        }
        if outputs == 0 || inputs == 0 {
            return Err(fail("size", 0, "at least one output and one input"));
        }
        Ok(QuantizedFormat { outputs, inputs, block, bits })
    }

    /// The rows of the weights.
    pub fn outputs(self) -> usize {
        self.outputs
    }

    /// The columns of the weights.
    pub fn inputs(self) -> usize {
        self.inputs
    }

    /// The blocks of an output.
    pub fn blocks(self) -> usize {
        self.inputs.div_ceil(self.block)
    }

    /// Integers of a byte.
    fn per_byte(self) -> usize {
        8 / self.bits
    }

    /// The shape of the array of integers, in `u8`.
    pub fn integers_shape(self) -> [usize; 4] {
        [self.outputs.div_ceil(PANEL), self.blocks(), self.block / self.per_byte(), PANEL]
    }

    /// The shape of the scales and of the offsets, in `f32`.
    pub fn scales_shape(self) -> [usize; 3] {
        [self.outputs.div_ceil(PANEL), self.blocks(), PANEL]
    }
}

/// Quantized weights in host memory, in the order in which products read them.
#[derive(Clone, Debug)]
pub struct QuantizedArrays {
    /// The sizes.
    pub format: QuantizedFormat,
    /// The integers, of [`QuantizedFormat::integers_shape`].
    pub integers: HostArray,
    /// The scale of each block, of [`QuantizedFormat::scales_shape`].
    pub scales: HostArray,
    /// The offset of each block, of the same shape.
    pub offsets: HostArray,
}

impl QuantizedArrays {
    /// Packs weights that are given element by element. `integer(output, input)` is an integer, of which the
    /// lowest bits count; `block(output, block)` is the scale and the offset of a block.
    ///
    /// ```
    /// use arrayjit_tensor::{QuantizedArrays, QuantizedFormat};
    ///
    /// let format = QuantizedFormat::new([64, 128], 32, 4)?;
    /// let weights = QuantizedArrays::pack(format, |o, k| ((o + k) % 16) as u8, |_, _| (0.5, -4.0))?;
    /// assert_eq!(weights.integers.bytes().len(), 64 * 128 / 2);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A size that overflows.
    pub fn pack(
        format: QuantizedFormat,
        integer: impl Fn(usize, usize) -> u8,
        block: impl Fn(usize, usize) -> (f32, f32),
    ) -> Result<QuantizedArrays, TensorError> {
        let QuantizedFormat { outputs, inputs, block: size, bits } = format;
        let zeros = |dims: &[usize]| HostArray::zeros(arrayjit::DType::U8, dims.iter().copied());
        let mut integers = zeros(&format.integers_shape())?.bytes().to_vec();
        let [panels, blocks, _] = format.scales_shape();
        let mut scales = vec![0f32; panels * blocks * PANEL];
        let mut offsets = scales.clone();
        let (bytes, per_byte) = (size / format.per_byte(), format.per_byte());
        for output in 0..outputs {
            let (panel, lane) = (output / PANEL, output % PANEL);
            for at in 0..blocks {
                let row = panel * blocks + at;
                (scales[row * PANEL + lane], offsets[row * PANEL + lane]) = block(output, at);
                for input in at * size..inputs.min((at + 1) * size) {
                    let position = input - at * size;
                    let byte = &mut integers[(row * bytes + position / per_byte) * PANEL + lane];
                    let value = integer(output, input) & (u8::MAX >> (8 - bits));
                    *byte |= value << (position % per_byte * bits);
                }
            }
        }
        Ok(QuantizedArrays {
            format,
            integers: HostArray::from_slice(&integers, format.integers_shape())?,
            scales: HostArray::from_slice(&scales, format.scales_shape())?,
            offsets: HostArray::from_slice(&offsets, format.scales_shape())?,
        })
    }
}

impl Tensor {
    /// This tensor times the transpose of quantized weights: `[…, inputs]` to `[…, outputs]`, in f32. The
    /// weights are given by their integers, scales and offsets, as arrays of the shapes that the format
    /// says: constants, or parameters that [`QuantizedArrays`] fills.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, QuantizedArrays, QuantizedFormat};
    ///
    /// let format = QuantizedFormat::new([64, 128], 32, 4)?;
    /// let weights = QuantizedArrays::pack(format, |o, k| ((o + k) % 16) as u8, |_, _| (0.5, -4.0))?;
    /// let graph = Graph::new();
    /// let x = graph.input("x", [8, 128], DType::F32)?;
    /// let [integers, scales, offsets] =
    ///     [weights.integers, weights.scales, weights.offsets].map(|array| graph.constant(array));
    /// let y = x.quantized_linear(format, &integers?, &scales?, &offsets?)?;
    /// assert_eq!(y.shape(), [8, 64]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A last axis that does not have the inputs, or an array of another shape.
    #[track_caller]
    pub fn quantized_linear(
        &self,
        format: QuantizedFormat,
        integers: impl TensorOperand,
        scales: impl TensorOperand,
        offsets: impl TensorOperand,
    ) -> Result<Tensor, TensorError> {
        let call = Call::new("quantized_linear");
        let wrong = |what: String, found: &[usize], expected: String| {
            self.graph().fail(call, TensorError::Shape { what, found: found.to_vec(), expected })
        };
        let QuantizedFormat { outputs, inputs, block, bits } = format;
        if self.shape().last() != Some(&inputs) {
            return Err(wrong(self.name(), self.shape(), format!("a last axis of {inputs} elements")));
        }
        let arrays = [integers.argument(), scales.argument(), offsets.argument()];
        let shapes: [&[usize]; 3] =
            [&format.integers_shape(), &format.scales_shape(), &format.scales_shape()];
        for (array, shape) in arrays.iter().zip(shapes) {
            if array.shape() != shape {
                return Err(wrong(array.name(), array.shape(), format!("{shape:?}")));
            }
        }
        let whole = format.blocks() * block;
        let x = if whole == inputs { self.clone() } else { self.pad(&[(0, whole - inputs)], 0.0)? };
        let front: Vec<String> = (0..self.rank() - 1).map(letter).collect();
        let at = |last: &[&str]| -> Vec<String> {
            front.iter().cloned().chain(last.iter().map(|&index| index.to_owned())).collect()
        };
        let byte = "i32(q[panel,block,byte,lane])";
        let (integer, position, halves) = match bits {
            4 => (format!("bit_and(shr({byte}, 4 * half), 15)"), "2*byte + half", " where half < 2"),
            _ => (byte.to_owned(), "byte", ""),
        };
        let x_at = access("x", at(&[&format!("{block}*block + {position}")]));
        let inputs =
            [("x", Argument::Tensor(&x)), ("q", arrays[0]), ("scale", arrays[1]), ("offset", arrays[2])];
        let y = self.graph().result(call, &inputs, |y| {
            let y = access(y, at(&["panel", "lane"]));
            let weight = format!("fma(f32({integer}), scale[panel,block,lane], offset[panel,block,lane])");
            format!("{y} :+= f32({x_at}) * {weight}{halves}")
        })?;
        let shape = |last: usize| -> Vec<isize> {
            let front = self.shape()[..self.rank() - 1].iter().map(|&size| size as isize);
            front.chain([last as isize]).collect()
        };
        let padded = outputs.next_multiple_of(PANEL);
        let y = y.reshape(&shape(padded))?;
        if padded == outputs { Ok(y) } else { y.narrow(-1, 0, outputs) }
    }
}
