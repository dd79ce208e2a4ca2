//! Blocks of quantized weights as GGUF files store them: one output after the other, block after block.

use half::f16;

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
    /// 32 integers of 5 bits, with a scale and an offset.
    Q5_1,
    /// 32 signed bytes, with a scale.
    Q8_0,
    /// 256 integers of 4 bits in 8 parts, each with a scale and an offset of 6 bits.
    Q4K,
    /// 256 integers of 5 bits in 8 parts, each with a scale and an offset of 6 bits.
    Q5K,
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
            BlockFormat::Q5_1 => [32, 24, 32],
            BlockFormat::Q8_0 => [32, 34, 32],
            BlockFormat::Q4K => [256, 144, 32],
            BlockFormat::Q5K => [256, 176, 32],
            BlockFormat::Q6K => [256, 210, 16],
        }
    }

    /// The number of weights in a block.
    pub fn block_weights(self) -> usize {
        self.sizes()[0]
    }

    /// The number of bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.sizes()[1]
    }

    /// Computes the weights of whole blocks in f32, each rounded once.
    ///
    /// ```
    /// use arrayjit_tensor::BlockFormat;
    ///
    /// let block = [&[0x00, 0x38][..], &[0x9b; 16]].concat(); // a scale of 0.5 in f16, and integers
    /// let mut weights = [0.0; 32];
    /// BlockFormat::Q4_0.decode(&block, &mut weights)?;
    /// assert_eq!((weights[0], weights[16]), (1.5, 0.5)); // 11 and 9, minus 8, times 0.5
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A number of weights that is not a whole number of blocks, or another number of bytes.
    pub fn decode(self, bytes: &[u8], weights: &mut [f32]) -> Result<(), TensorError> {
        let [count, size, part] = self.sizes();
        if !weights.len().is_multiple_of(count) {
            return Err(misfit("weights", weights.len(), format!("a multiple of {count}")));
        }
        if (weights.len() / count).checked_mul(size) != Some(bytes.len()) {
            return Err(misfit("bytes", bytes.len(), format!("{} times {size}", weights.len() / count)));
        }
        for (block, weights) in bytes.chunks_exact(size).zip(weights.chunks_exact_mut(count)) {
            for (number, weights) in weights.chunks_exact_mut(part).enumerate() {
                let (scale, offset) = self.scale(block, number);
                for (at, weight) in weights.iter_mut().enumerate() {
                    // The product is exact in f32: it has at most 11 + 7 + 6 bits.
                    *weight = f32::from(self.integer(block, number * part + at)) * scale + offset;
                }
            }
        }
        Ok(())
    }

    fn bits(self) -> usize {
        match self {
            BlockFormat::Q4_0 | BlockFormat::Q4_1 | BlockFormat::Q4K => 4,
            BlockFormat::Q5_0
            | BlockFormat::Q5_1
            | BlockFormat::Q8_0
            | BlockFormat::Q5K
            | BlockFormat::Q6K => 8,
        }
    }

    /// The unsigned integer of a weight of a block.
    fn integer(self, block: &[u8], at: usize) -> u8 {
        let low = |bytes: &[u8]| bytes[at % 16] >> (at / 16 * 4) & 15;
        let fifth = |bytes: &[u8]| (bytes[at / 8] >> (at % 8) & 1) << 4;
        let low_in_pairs = |bytes: &[u8]| bytes[at / 64 * 32 + at % 32] >> (at / 32 % 2 * 4) & 15;
        match self {
            BlockFormat::Q4_0 => low(&block[2..]),
            BlockFormat::Q4_1 => low(&block[4..]),
            BlockFormat::Q5_0 => low(&block[6..]) | fifth(&block[2..]),
            BlockFormat::Q5_1 => low(&block[8..]) | fifth(&block[4..]),
            BlockFormat::Q8_0 => block[2 + at] ^ 0x80,
            BlockFormat::Q4K => low_in_pairs(&block[16..]),
            BlockFormat::Q5K => low_in_pairs(&block[48..]) | (block[16 + at % 32] >> (at / 32) & 1) << 4,
            BlockFormat::Q6K => {
                let (half, quarter, lane) = (at / 128, at / 32 % 4, at % 32);
                let low = block[half * 64 + quarter % 2 * 32 + lane] >> (quarter / 2 * 4) & 15;
                low | (block[128 + half * 32 + lane] >> (quarter * 2) & 3) << 4
            }
        }
    }

    /// The scale and the offset of a part of a block.
    fn scale(self, block: &[u8], part: usize) -> (f32, f32) {
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let minus = |zero: f32, scale: f32| (scale, -zero * scale);
        match self {
            BlockFormat::Q4_0 => minus(8.0, half(0)),
            BlockFormat::Q4_1 | BlockFormat::Q5_1 => (half(0), half(2)),
            BlockFormat::Q5_0 => minus(16.0, half(0)),
            BlockFormat::Q8_0 => minus(128.0, half(0)),
            BlockFormat::Q4K | BlockFormat::Q5K => {
                let packed = &block[4..16];
                let (scale, least) = match part {
                    0..4 => (packed[part] & 63, packed[part + 4] & 63),
                    _ => (
                        packed[part + 4] & 15 | packed[part - 4] >> 6 << 4,
                        packed[part + 4] >> 4 | packed[part] >> 6 << 4,
                    ),
                };
                (half(0) * f32::from(scale), -(half(2) * f32::from(least)))
            }
            BlockFormat::Q6K => minus(32.0, half(208) * f32::from(block[192 + part] as i8)),
        }
    }
}

fn misfit(argument: &'static str, found: usize, expected: String) -> TensorError {
    TensorError::Argument { argument, found: found.to_string(), expected }
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
        if !inputs.is_multiple_of(weights) {
            return Err(misfit("inputs", inputs, format!("a multiple of {weights}")));
        }
        let in_row = inputs / weights * size;
        if outputs.checked_mul(in_row) != Some(bytes.len()) {
            return Err(misfit("bytes", bytes.len(), format!("{outputs} times {in_row}")));
        }
        let row_of = |output: usize| &bytes[output * in_row..][..in_row];
        let block_of = |output: usize, at: usize| &row_of(output)[at * size..][..size];
        QuantizedArrays::pack(
            QuantizedFormat::new([outputs, inputs], part, format.bits())?,
            |output, input| format.integer(block_of(output, input / weights), input % weights),
            |output, at| {
                let parts = weights / part;
                format.scale(block_of(output, at / parts), at % parts)
            },
        )
    }
}
