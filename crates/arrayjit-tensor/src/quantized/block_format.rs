//! Blocks of quantized weights as GGUF files store them: one output after the other, block after block.

use arrayjit::DType;
use half::f16;

use super::{
    format::BlockScales,
    lanes::{Bytes, Lanes},
};
use crate::error::{Result, misfit};

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
    pub fn decode(self, bytes: &[u8], weights: &mut [f32]) -> Result<()> {
        let [count, size, part] = self.sizes();
        if !weights.len().is_multiple_of(count) {
            return Err(misfit("weights", weights.len(), format!("a multiple of {count}")));
        }
        if (weights.len() / count).checked_mul(size) != Some(bytes.len()) {
            return Err(misfit("bytes", bytes.len(), format!("{} times {size}", weights.len() / count)));
        }
        for (block, weights) in bytes.chunks_exact(size).zip(weights.chunks_exact_mut(count)) {
            let mut integers = [0; MAX_WEIGHTS];
            self.integers(block, &mut integers[..count]);
            let parts = weights.chunks_exact_mut(part).zip(integers.chunks_exact(part));
            for (number, (weights, integers)) in parts.enumerate() {
                let (scale, offset) = self.scale(block, number);
                for (weight, &integer) in weights.iter_mut().zip(integers) {
                    // The product is exact in f32: it has at most 11 + 7 + 6 bits.
                    *weight = f32::from(integer) * scale + offset;
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

    /// Sets as many integers as a block has weights to its unsigned integers.
    fn integers<B: Bytes>(self, block: &[B], integers: &mut [B]) {
        match self {
            BlockFormat::Q4_0 => halves::<B, 16>(&block[2..18], integers),
            BlockFormat::Q4_1 => halves::<B, 16>(&block[4..20], integers),
            BlockFormat::Q5_0 => {
                halves::<B, 16>(&block[6..22], integers);
                add_fifth_bits(&block[2..6], integers);
            }
            BlockFormat::Q5_1 => {
                halves::<B, 16>(&block[8..24], integers);
                add_fifth_bits(&block[4..8], integers);
            }
            BlockFormat::Q8_0 => {
                for (integer, byte) in integers.iter_mut().zip(&block[2..34]) {
                    *integer = byte.map(|byte| byte ^ 0x80);
                }
            }
            BlockFormat::Q4K => quarters(&block[16..144], integers),
            BlockFormat::Q5K => {
                quarters(&block[48..176], integers);
                for (part, integers) in integers.chunks_exact_mut(32).enumerate() {
                    add_bits(&block[16..48], part, 1, integers);
                }
            }
            BlockFormat::Q6K => {
                for (half, integers) in integers.chunks_exact_mut(128).enumerate() {
                    halves::<B, 64>(&block[64 * half..][..64], integers);
                    for (quarter, integers) in integers.chunks_exact_mut(32).enumerate() {
                        add_bits(&block[128 + 32 * half..][..32], 2 * quarter, 3, integers);
                    }
                }
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

    /// Where a block has the factor of its scales and that of its offsets, in f16. The second has no meaning
    /// if a zero replaces the offsets.
    fn floats(self) -> [usize; 2] {
        match self {
            BlockFormat::Q6K => [208; 2],
            _ => [0, 2],
        }
    }

    /// The factors of 8 bits of a part of a block, as signed bytes, beside those of the block.
    fn factors<B: Bytes>(self, block: &[B], part: usize) -> [B; 2] {
        match self {
            BlockFormat::Q4K | BlockFormat::Q5K => {
                let packed = &block[4..16];
                let with_high_bits = |low: B, high: B| low.zip(high, |low, high| low | high >> 6 << 4);
                let [scale, least] = match part {
                    0..4 => [packed[part], packed[part + 4]].map(|byte| byte.map(|byte| byte & 63)),
                    _ => [
                        with_high_bits(packed[part + 4].map(|byte| byte & 15), packed[part - 4]),
                        with_high_bits(packed[part + 4].map(|byte| byte >> 4), packed[part]),
                    ],
                };
                [scale, least.map(u8::wrapping_neg)]
            }
            BlockFormat::Q6K => [block[192 + part]; 2],
            _ => [B::ZERO.map(|_| 1); 2],
        }
    }

    /// The scale and the offset of a part of a block.
    fn scale(self, block: &[u8], part: usize) -> (f32, f32) {
        let float = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
        let factors = self.factors(block, part);
        let [scale, offset] = [0, 1].map(|at| float(self.floats()[at]) * f32::from(factors[at] as i8));
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

    /// Sets the elements that a block of each output of a panel has in each array of packed weights.
    pub(super) fn pack(self, block: &[Lanes], packed: &mut PackedBlocks) {
        let count = self.block_weights();
        self.integers(block, &mut packed.unpacked[..count]);
        let unpacked = &packed.unpacked[..count];
        match (self.bits(), self.zero()) {
            (4, _) => {
                for (byte, [low, high]) in packed.integers.iter_mut().zip(unpacked.as_chunks::<2>().0) {
                    *byte = low.zip(*high, |low, high| low | high << 4);
                }
            }
            (_, zero) => {
                let zero = zero.unwrap_or(0);
                for (integer, unpacked) in packed.integers.iter_mut().zip(unpacked) {
                    *integer = unpacked.map(|integer| integer.wrapping_sub(zero));
                }
            }
        }
        let kinds = if self.zero().is_some() { 1 } else { 2 };
        let BlockScales { shared_by, .. } = self.scales();
        let floats = if shared_by == 1 { 0 } else { kinds };
        for kind in 0..kinds {
            let at = self.floats()[kind];
            packed.scales[floats + kind][..2].copy_from_slice(&block[at..at + 2]);
            if cfg!(target_endian = "big") {
                packed.scales[floats + kind][..2].reverse();
            }
        }
        if shared_by > 1 {
            for part in 0..shared_by {
                for (scales, factor) in packed.scales[..kinds].iter_mut().zip(self.factors(block, part)) {
                    scales[part] = factor;
                }
            }
        }
    }
}

/// The most weights of a block.
const MAX_WEIGHTS: usize = 256;
/// The most parts of a block with scales of their own.
const MAX_PARTS: usize = 16;

/// A block of each output of a panel, as the bytes of its elements in the arrays of packed weights. Bytes
/// behind them have no meaning.
pub(super) struct PackedBlocks {
    pub(super) integers: [Lanes; MAX_WEIGHTS],
    /// The elements of each array behind the integers.
    pub(super) scales: [[Lanes; MAX_PARTS]; 4],
    /// The integers, one a byte.
    unpacked: [Lanes; MAX_WEIGHTS],
}

impl PackedBlocks {
    pub(super) fn new() -> Box<PackedBlocks> {
        Box::new(PackedBlocks {
            integers: [Lanes::ZERO; MAX_WEIGHTS],
            scales: [[Lanes::ZERO; MAX_PARTS]; 4],
            unpacked: [Lanes::ZERO; MAX_WEIGHTS],
        })
    }
}

/// Splits `N` bytes: their low halves are the first integers, and their high halves the next.
fn halves<B: Bytes, const N: usize>(bytes: &[B], integers: &mut [B]) {
    let (low, high) = integers.split_at_mut(N);
    for ((byte, low), high) in bytes[..N].iter().zip(&mut low[..N]).zip(&mut high[..N]) {
        (*low, *high) = (byte.map(|byte| byte & 15), byte.map(|byte| byte >> 4));
    }
}

/// Splits each 32 bytes of a block of 256 integers of 4 bits.
fn quarters<B: Bytes>(bytes: &[B], integers: &mut [B]) {
    for (bytes, integers) in bytes.chunks_exact(32).zip(integers.chunks_exact_mut(64)) {
        halves::<B, 32>(bytes, integers);
    }
}

/// Adds the bits 4 and up of integers, which are the bits `shift` and up of bytes.
fn add_bits<B: Bytes>(bytes: &[B], shift: usize, mask: u8, integers: &mut [B]) {
    for (integer, &byte) in integers.iter_mut().zip(bytes) {
        *integer = integer.zip(byte, |integer, byte| integer | (byte >> shift & mask) << 4);
    }
}

/// Adds the fifth bits of 32 integers, which stand side by side.
fn add_fifth_bits<B: Bytes>(bytes: &[B], integers: &mut [B]) {
    for (integers, &bits) in integers.chunks_exact_mut(8).zip(bytes) {
        for (at, integer) in integers.iter_mut().enumerate() {
            *integer = integer.zip(bits, |integer, bits| integer | (bits >> at & 1) << 4);
        }
    }
}
