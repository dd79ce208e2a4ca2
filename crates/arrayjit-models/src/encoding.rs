//! How files store the elements of tensors: plain floats, and the blocks of GGUF.

use arrayjit_tensor::{BlockFormat, DType, TensorError};
use half::{bf16, f16};

/// The type of a stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    F64,
    F32,
    F16,
    Bf16,
    Blocks(BlockFormat),
}

impl Encoding {
    /// The types of safetensors files and of torch's, for messages.
    pub(crate) const FLOATS: &str = "f64, f32, f16, bf16";

    /// The names of all encodings that a GGUF file may have, for messages.
    pub(crate) const GGUF: &str = "F32, F64, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";

    /// The type with this number in a GGUF file.
    pub(crate) fn of_gguf(number: u32) -> Option<Encoding> {
        Some(match number {
            0 => Encoding::F32,
            1 => Encoding::F16,
            2 => Encoding::Blocks(BlockFormat::Q4_0),
            3 => Encoding::Blocks(BlockFormat::Q4_1),
            6 => Encoding::Blocks(BlockFormat::Q5_0),
            7 => Encoding::Blocks(BlockFormat::Q5_1),
            8 => Encoding::Blocks(BlockFormat::Q8_0),
            12 => Encoding::Blocks(BlockFormat::Q4K),
            13 => Encoding::Blocks(BlockFormat::Q5K),
            14 => Encoding::Blocks(BlockFormat::Q6K),
            28 => Encoding::F64,
            30 => Encoding::Bf16,
            _ => return None,
        })
    }

    /// The type of arrays with the same bytes; none of blocks.
    pub(crate) fn dtype(self) -> Option<DType> {
        Some(match self {
            Encoding::F64 => DType::F64,
            Encoding::F32 => DType::F32,
            Encoding::F16 => DType::F16,
            Encoding::Bf16 => DType::Bf16,
            Encoding::Blocks(_) => return None,
        })
    }

    /// The number of elements in a block.
    pub(crate) fn block_elements(self) -> usize {
        match self {
            Encoding::F64 | Encoding::F32 | Encoding::F16 | Encoding::Bf16 => 1,
            Encoding::Blocks(format) => format.block_weights(),
        }
    }

    /// The number of bytes of a block.
    pub(crate) fn block_bytes(self) -> usize {
        match self {
            Encoding::F64 => 8,
            Encoding::F32 => 4,
            Encoding::F16 | Encoding::Bf16 => 2,
            Encoding::Blocks(format) => format.block_bytes(),
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
    pub(crate) fn decode(self, bytes: &[u8], values: &mut [f32]) -> Result<(), TensorError> {
        match self {
            Encoding::F64 => each(bytes, values, |bytes| f64::from_le_bytes(bytes) as f32),
            Encoding::F32 => each(bytes, values, f32::from_le_bytes),
            Encoding::F16 => each(bytes, values, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Encoding::Bf16 => each(bytes, values, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            Encoding::Blocks(format) => return format.decode(bytes, values),
        }
        Ok(())
    }
}

/// Converts elements of `N` bytes.
fn each<const N: usize>(bytes: &[u8], values: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    for (value, element) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *value = convert(*element);
    }
}
