//! How files store the elements of tensors: plain floats, and the blocks of GGUF.
//!
//! A block has a scale in f16, for some types a minimum, and integers of a few bits. Super-blocks of 256
//! elements have scales of their parts as integers. `tests/it/gguf.rs` compares a model of all of them
//! with the values of the package `gguf`.

use half::{bf16, f16};

/// The type of a stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    F64,
    F32,
    F16,
    Bf16,
    /// 32 elements of 4 bits around 8, times a scale.
    Q4_0,
    /// 32 elements of 4 bits, times a scale, plus a minimum.
    Q4_1,
    /// 32 elements of 5 bits around 16, times a scale.
    Q5_0,
    /// 32 elements of 5 bits, times a scale, plus a minimum.
    Q5_1,
    /// 32 elements of 8 bits, times a scale.
    Q8_0,
    /// 256 elements of 4 bits, in parts of 32 with scales and minima of 6 bits.
    Q4K,
    /// 256 elements of 5 bits, in parts like `Q4K`.
    Q5K,
    /// 256 elements of 6 bits around 32, in parts of 16 with scales of 8 bits.
    Q6K,
}

impl Encoding {
    /// The names of all encodings that a GGUF file may have, for messages.
    pub(crate) const GGUF: &str = "F32, F64, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";

    /// The type with this number in a GGUF file.
    pub(crate) fn of_gguf(number: u32) -> Option<Encoding> {
        Some(match number {
            0 => Encoding::F32,
            1 => Encoding::F16,
            2 => Encoding::Q4_0,
            3 => Encoding::Q4_1,
            6 => Encoding::Q5_0,
            7 => Encoding::Q5_1,
            8 => Encoding::Q8_0,
            12 => Encoding::Q4K,
            13 => Encoding::Q5K,
            14 => Encoding::Q6K,
            28 => Encoding::F64,
            30 => Encoding::Bf16,
            _ => return None,
        })
    }

    /// The number of elements in a block.
    pub(crate) fn block_elements(self) -> usize {
        match self {
            Encoding::F64 | Encoding::F32 | Encoding::F16 | Encoding::Bf16 => 1,
            Encoding::Q4_0 | Encoding::Q4_1 | Encoding::Q5_0 | Encoding::Q5_1 | Encoding::Q8_0 => 32,
            Encoding::Q4K | Encoding::Q5K | Encoding::Q6K => 256,
        }
    }

    /// The number of bytes of a block.
    pub(crate) fn block_bytes(self) -> usize {
        match self {
            Encoding::F64 => 8,
            Encoding::F32 => 4,
            Encoding::F16 | Encoding::Bf16 => 2,
            Encoding::Q4_0 => 2 + 16,
            Encoding::Q4_1 => 4 + 16,
            Encoding::Q5_0 => 2 + 4 + 16,
            Encoding::Q5_1 => 4 + 4 + 16,
            Encoding::Q8_0 => 2 + 32,
            Encoding::Q4K => 4 + 12 + 128,
            Encoding::Q5K => 4 + 12 + 32 + 128,
            Encoding::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// The number of bytes of a tensor; none if it overflows or if its rows are no whole blocks.
    pub(crate) fn size_bytes(self, shape: &[usize]) -> Option<u64> {
        let elements = shape.iter().try_fold(1usize, |elements, &size| elements.checked_mul(size))?;
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())?.try_into().ok()
    }

    /// The shapes that [`size_bytes`](Encoding::size_bytes) takes, for messages.
    pub(crate) fn shapes(self) -> String {
        format!("sizes that fit memory, the last a multiple of {}", self.block_elements())
    }

    /// Decodes whole blocks into as many elements.
    pub(crate) fn decode(self, bytes: &[u8], values: &mut [f32]) {
        let blocks =
            bytes.chunks_exact(self.block_bytes()).zip(values.chunks_exact_mut(self.block_elements()));
        for (block, values) in blocks {
            self.decode_block(block, values);
        }
    }

    fn decode_block(self, block: &[u8], values: &mut [f32]) {
        match self {
            Encoding::F64 => {
                let bytes = std::array::from_fn(|at| block[at]);
                values[0] = f64::from_le_bytes(bytes) as f32;
            }
            Encoding::F32 => values[0] = f32::from_le_bytes(std::array::from_fn(|at| block[at])),
            Encoding::F16 => values[0] = half_at(block, 0),
            Encoding::Bf16 => values[0] = bf16::from_le_bytes([block[0], block[1]]).to_f32(),
            Encoding::Q4_0 => nibbles(&block[2..], None, values, half_at(block, 0), -8.0 * half_at(block, 0)),
            Encoding::Q4_1 => nibbles(&block[4..], None, values, half_at(block, 0), half_at(block, 2)),
            Encoding::Q5_0 => {
                nibbles(
                    &block[6..],
                    Some(&block[2..6]),
                    values,
                    half_at(block, 0),
                    -16.0 * half_at(block, 0),
                );
            }
            Encoding::Q5_1 => {
                nibbles(&block[8..], Some(&block[4..8]), values, half_at(block, 0), half_at(block, 2));
            }
            Encoding::Q8_0 => {
                let scale = half_at(block, 0);
                for (value, &byte) in values.iter_mut().zip(&block[2..]) {
                    *value = scale * f32::from(byte as i8);
                }
            }
            Encoding::Q4K => with_minima(block, &block[16..], None, values),
            Encoding::Q5K => with_minima(block, &block[48..], Some(&block[16..48]), values),
            Encoding::Q6K => six_bits(block, values),
        }
    }
}

/// The f16 at a byte of a block.
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// 32 elements: the low halves of 16 bytes, then the high halves, with a fifth bit from `high`.
fn nibbles(bytes: &[u8], high: Option<&[u8]>, values: &mut [f32], scale: f32, offset: f32) {
    let fifth = |at: usize| high.map_or(0, |bits| bits[at / 8] >> (at % 8) & 1) << 4;
    for (at, &byte) in bytes.iter().enumerate() {
        values[at] = scale * f32::from(byte & 15 | fifth(at)) + offset;
        values[at + 16] = scale * f32::from(byte >> 4 | fifth(at + 16)) + offset;
    }
}

/// A super-block of 8 parts with scales and minima: two f16 factors, 12 bytes of 6-bit scales, elements.
fn with_minima(block: &[u8], quants: &[u8], high: Option<&[u8]>, values: &mut [f32]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    for (part, values) in values.chunks_exact_mut(32).enumerate() {
        let (factor, offset) = six_bit_pair(&block[4..16], part);
        let (factor, offset) = (scale * f32::from(factor), minimum * f32::from(offset));
        let bytes = &quants[part / 2 * 32..][..32];
        for (at, (value, &byte)) in values.iter_mut().zip(bytes).enumerate() {
            let low = if part % 2 == 0 { byte & 15 } else { byte >> 4 };
            let fifth = high.map_or(0, |bits| bits[at] >> part & 1) << 4;
            *value = factor * f32::from(low | fifth) - offset;
        }
    }
}

/// The scale and the minimum of a part: the first four have the low 6 bits of a byte each, the last four have
/// 4 bits in the last bytes and 2 at the top of the first ones.
fn six_bit_pair(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        return (packed[part] & 63, packed[part + 4] & 63);
    }
    let low = packed[part + 4];
    (low & 15 | packed[part - 4] >> 6 << 4, low >> 4 | packed[part] >> 6 << 4)
}

/// A super-block of 16 parts: 128 bytes with the low 4 bits, 64 with the high 2 bits, 16 scales, a factor.
fn six_bits(block: &[u8], values: &mut [f32]) {
    let (low, high, scales, factor) =
        (&block[..128], &block[128..192], &block[192..208], half_at(block, 208));
    for (at, value) in values.iter_mut().enumerate() {
        // Each half of 128 elements has four rows of 32.
        let (half, row, column) = (at / 128, at / 32 % 4, at % 32);
        let byte = low[half * 64 + row % 2 * 32 + column];
        let nibble = if row < 2 { byte & 15 } else { byte >> 4 };
        let bits = high[half * 32 + column] >> (2 * row) & 3;
        let scale = f32::from(scales[at / 16] as i8);
        *value = factor * scale * (f32::from(nibble | bits << 4) - 32.0);
    }
}
