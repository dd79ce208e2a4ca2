//! Blocks of quantized weights as GGUF files store them: one output after the other, block after block.

use arrayjit::DType;
use half::f16;

use super::{
    arrays::Row,
    format::{BlockScales, misfit},
};
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

    /// The number of weights with a scale of their own.
    pub(super) fn part_weights(self) -> usize {
        self.sizes()[2]
    }

    /// The bits of an integer in memory.
    pub(super) fn bits(self) -> usize {
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

    /// The integer that stands for 0; none of formats with offsets.
    fn zero(self) -> Option<u8> {
        match self {
            BlockFormat::Q4_0 => Some(8),
            BlockFormat::Q5_0 => Some(16),
            BlockFormat::Q8_0 => Some(128),
            BlockFormat::Q6K => Some(32),
            BlockFormat::Q4_1 | BlockFormat::Q5_1 | BlockFormat::Q4K | BlockFormat::Q5K => None,
        }
    }

    /// The factor of the scales and that of the offsets of a block. The second has no meaning if a zero
    /// replaces the offsets.
    fn floats(self, block: &[u8]) -> [f16; 2] {
        let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]);
        match self {
            BlockFormat::Q6K => [half(208); 2],
            _ => [half(0), half(2)],
        }
    }

    /// The factors of 8 bits of a part of a block, beside those of the block.
    fn factors(self, block: &[u8], part: usize) -> [i8; 2] {
        match self {
            BlockFormat::Q4K | BlockFormat::Q5K => {
                let packed = &block[4..16];
                let [scale, least] = match part {
                    0..4 => [packed[part] & 63, packed[part + 4] & 63],
                    _ => [
                        packed[part + 4] & 15 | packed[part - 4] >> 6 << 4,
                        packed[part + 4] >> 4 | packed[part] >> 6 << 4,
                    ],
                };
                [scale as i8, -(least as i8)]
            }
            BlockFormat::Q6K => [block[192 + part] as i8; 2],
            _ => [1; 2],
        }
    }

    /// The scale and the offset of a part of a block.
    fn scale(self, block: &[u8], part: usize) -> (f32, f32) {
        let (floats, factors) = (self.floats(block), self.factors(block, part));
        let [scale, offset] = [0, 1].map(|at| floats[at].to_f32() * f32::from(factors[at]));
        (scale, self.zero().map_or(offset, |zero| -f32::from(zero) * scale))
    }

    /// How packed weights have the scales.
    pub(super) fn scales(self) -> BlockScales {
        let shared_by = self.block_weights() / self.part_weights();
        BlockScales { float: DType::F16, zero: self.zero(), shared_by }
    }

    /// The bytes of a row of whole blocks.
    pub(super) fn row_bytes(self, inputs: usize) -> usize {
        (inputs / self.block_weights()).saturating_mul(self.block_bytes())
    }

    /// The row that whole blocks have.
    pub(super) fn row(self, bytes: &[u8]) -> Row {
        let kinds = if self.zero().is_some() { 1 } else { 2 };
        let BlockScales { shared_by, .. } = self.scales();
        let mut integers = Vec::with_capacity(bytes.len() / self.block_bytes() * self.block_weights());
        let (mut floats, mut factors) = (vec![vec![]; kinds], vec![vec![]; kinds]);
        for block in bytes.chunks_exact(self.block_bytes()) {
            integers.extend((0..self.block_weights()).map(|at| self.integer(block, at)));
            for (kind, (floats, factors)) in floats.iter_mut().zip(&mut factors).enumerate() {
                floats.extend(self.floats(block)[kind].to_ne_bytes());
                factors.extend((0..shared_by).map(|part| self.factors(block, part)[kind] as u8));
            }
        }
        let scales = if shared_by == 1 { floats } else { [factors, floats].concat() };
        Row { integers, scales }
    }
}
