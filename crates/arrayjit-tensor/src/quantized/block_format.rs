//! Blocks of quantized weights as GGUF files store them: one output after the other, block after block.

use arrayjit::{DType, HostArray};

use super::{QuantizedArrays, QuantizedFormat};
use crate::error::TensorError;

/// A type of blocks in GGUF files. In memory, integers of 5 and 6 bits take 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockFormat {
    /// 32 integers of 4 bits minus 8, with a scale.
    Q4_0,
    /// 32 integers of 4 bits, with a scale and an offset.
    Q4_1,
    /// 32 integers of 5 bits minus 16, with a scale.
    Q5_0,
    /// 32 signed bytes, with a scale.
    Q8_0,
    /// 256 integers of 4 bits in 8 parts, each with a scale and an offset of 6 bits.
    Q4K,
    /// 256 integers of 6 bits minus 32 in 16 parts, each with a scale of 8 bits.
    Q6K,
}

impl BlockFormat {
    /// Weights and bytes of a block, and weights of a part with a scale of its own.
    fn sizes(self) -> [usize; 3] {
        match self {
            BlockFormat::Q4_0 => [32, 18, 32],
            BlockFormat::Q4_1 => [32, 20, 32],
            BlockFormat::Q5_0 => [32, 22, 32],
            BlockFormat::Q8_0 => [32, 34, 32],
            BlockFormat::Q4K => [256, 144, 32],
            BlockFormat::Q6K => [256, 210, 16],
        }
    }

    fn bits(self) -> usize {
        match self {
            BlockFormat::Q4_0 | BlockFormat::Q4_1 | BlockFormat::Q4K => 4,
            BlockFormat::Q5_0 | BlockFormat::Q8_0 | BlockFormat::Q6K => 8,
        }
    }

    /// The unsigned integer of a weight of a block.
    fn integer(self, block: &[u8], at: usize) -> u8 {
        let half = |bytes: &[u8], at: usize| bytes[at % 16] >> (at / 16 * 4) & 15;
        match self {
            BlockFormat::Q4_0 => half(&block[2..], at),
            BlockFormat::Q4_1 => half(&block[4..], at),
            BlockFormat::Q5_0 => half(&block[6..], at) | (block[2 + at / 8] >> (at % 8) & 1) << 4,
            BlockFormat::Q8_0 => block[2 + at] ^ 0x80,
            BlockFormat::Q4K => block[16 + at / 64 * 32 + at % 32] >> (at / 32 % 2 * 4) & 15,
            BlockFormat::Q6K => {
                let (half, quarter, lane) = (at / 128, at / 32 % 4, at % 32);
                let low = block[half * 64 + quarter % 2 * 32 + lane] >> (quarter / 2 * 4) & 15;
                low | (block[128 + half * 32 + lane] >> (quarter * 2) & 3) << 4
            }
        }
    }

    /// The scale and the offset of a part of a block. `half` is the number in two bytes.
    fn scale(self, block: &[u8], part: usize, half: impl Fn(&[u8]) -> f32) -> (f32, f32) {
        let minus = |zero: f32, scale: f32| (scale, -zero * scale);
        match self {
            BlockFormat::Q4_0 => minus(8.0, half(block)),
            BlockFormat::Q4_1 => (half(block), half(&block[2..])),
            BlockFormat::Q5_0 => minus(16.0, half(block)),
            BlockFormat::Q8_0 => minus(128.0, half(block)),
            BlockFormat::Q4K => {
                let packed = &block[4..16];
                let (scale, least) = match part {
                    0..4 => (packed[part] & 63, packed[part + 4] & 63),
                    _ => (
                        packed[part + 4] & 15 | packed[part - 4] >> 6 << 4,
                        packed[part + 4] >> 4 | packed[part] >> 6 << 4,
                    ),
                };
                (half(block) * f32::from(scale), -(half(&block[2..]) * f32::from(least)))
            }
            BlockFormat::Q6K => minus(32.0, half(&block[208..]) * f32::from(block[192 + part] as i8)),
        }
    }
}

impl QuantizedArrays {
    /// Packs weights of shape `[outputs, inputs]` from the bytes of a GGUF file.
    ///
    /// # Errors
    /// Inputs that are no whole number of blocks, or another number of bytes.
    pub fn from_blocks(
        format: BlockFormat,
        [outputs, inputs]: [usize; 2],
        bytes: &[u8],
    ) -> Result<QuantizedArrays, TensorError> {
        let [weights, size, part] = format.sizes();
        let fail = |argument, found: usize, expected| {
            Err(TensorError::Argument { argument, found: found.to_string(), expected })
        };
        if inputs % weights != 0 {
            return fail("inputs", inputs, format!("a multiple of {weights}"));
        }
        let in_row = inputs / weights * size;
        if outputs.checked_mul(in_row) != Some(bytes.len()) {
            return fail("bytes", bytes.len(), format!("{outputs} times {in_row}"));
        }
        let row_of = |output: usize| &bytes[output * in_row..][..in_row];
        let block_of = |output: usize, at: usize| &row_of(output)[at * size..][..size];
        let half = |bytes: &[u8]| {
            let array = HostArray::from_bytes(DType::F16, [1], &bytes[..2]);
            array.ok().and_then(|array| array.values().first().copied()).unwrap_or(0.0) as f32
        };
        QuantizedArrays::pack(
            QuantizedFormat::new([outputs, inputs], part, format.bits())?,
            |output, input| format.integer(block_of(output, input / weights), input % weights),
            |output, at| {
                let parts = weights / part;
                format.scale(block_of(output, at / parts), at % parts, half)
            },
        )
    }
}
