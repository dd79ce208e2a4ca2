//! Quantized weights in host memory, in the order in which products read them.

use arrayjit::HostArray;

use super::{
    BlockFormat, QuantizedFormat,
    format::{PANEL, misfit},
};
use crate::error::TensorError;

/// Quantized weights in host memory, in the order in which products read them.
#[derive(Clone, Debug)]
pub struct QuantizedArrays {
    /// The sizes.
    pub format: QuantizedFormat,
    /// The arrays that [`QuantizedFormat::arrays`] lists.
    pub arrays: Vec<HostArray>,
}

/// A row of weights: an integer for each input, and the bytes of its elements in the other arrays.
pub(super) struct Row {
    pub(super) integers: Vec<u8>,
    pub(super) scales: Vec<Vec<u8>>,
}

impl QuantizedArrays {
    /// Weights that are all 0 until [`set_row`](QuantizedArrays::set_row) sets them.
    ///
    /// # Errors
    /// A size that overflows.
    pub fn zeros(format: QuantizedFormat) -> Result<QuantizedArrays, TensorError> {
        let zeros = |array: super::QuantizedArray| HostArray::zeros(array.dtype, array.shape);
        let arrays = format.arrays().into_iter().map(zeros).collect::<Result<_, _>>()?;
        Ok(QuantizedArrays { format, arrays })
    }

    /// Packs weights that are given element by element, of a format with a scale and an offset in f32.
    /// `integer(output, input)` is an integer, of which the lowest bits count; `block(output, block)` is the
    /// scale and the offset of a block.
    ///
    /// ```
    /// use arrayjit_tensor::{QuantizedArrays, QuantizedFormat};
    ///
    /// let format = QuantizedFormat::new([64, 128], 32, 4)?;
    /// let weights = QuantizedArrays::pack(format, |o, k| ((o + k) % 16) as u8, |_, _| (0.5, -4.0))?;
    /// assert_eq!(weights.arrays[0].bytes().len(), 64 * 128 / 2);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A format of [`QuantizedFormat::of_blocks`], or a size that overflows.
    pub fn pack(
        format: QuantizedFormat,
        integer: impl Fn(usize, usize) -> u8,
        block: impl Fn(usize, usize) -> (f32, f32),
    ) -> Result<QuantizedArrays, TensorError> {
        if format != QuantizedFormat::new([format.outputs(), format.inputs()], format.block(), format.bits())?
        {
            return Err(misfit("format", format!("{format:?}"), "one with scales and offsets in f32"));
        }
        let mut weights = QuantizedArrays::zeros(format)?;
        for output in 0..format.outputs() {
            let integers = (0..format.inputs()).map(|input| integer(output, input)).collect();
            let (scales, offsets): (Vec<_>, Vec<_>) = (0..format.blocks())
                .map(|at| block(output, at))
                .map(|(scale, offset)| (scale.to_ne_bytes(), offset.to_ne_bytes()))
                .unzip();
            weights.set(output, &Row { integers, scales: vec![scales.concat(), offsets.concat()] })?;
        }
        Ok(weights)
    }

    /// Packs weights of shape `[outputs, inputs]` from the bytes of a GGUF file.
    ///
    /// # Errors
    /// Inputs that are no whole number of blocks, or another number of bytes.
    pub fn from_blocks(
        blocks: BlockFormat,
        sizes: [usize; 2],
        bytes: &[u8],
    ) -> Result<QuantizedArrays, TensorError> {
        let format = QuantizedFormat::of_blocks(blocks, sizes)?;
        let in_row = blocks.row_bytes(format.inputs());
        if format.outputs().checked_mul(in_row) != Some(bytes.len()) {
            return Err(misfit("bytes", bytes.len(), format!("{} times {in_row}", format.outputs())));
        }
        let mut weights = QuantizedArrays::zeros(format)?;
        for (output, row) in bytes.chunks_exact(in_row).enumerate() {
            weights.set_row(output, blocks, row)?;
        }
        Ok(weights)
    }

    /// Sets the weights of an output to the blocks of a row of a GGUF file, so that a file can be read row by
    /// row, and in any order.
    ///
    /// ```
    /// use arrayjit_tensor::{BlockFormat, QuantizedArrays, QuantizedFormat};
    ///
    /// let format = QuantizedFormat::of_blocks(BlockFormat::Q8_0, [8, 64])?;
    /// let mut weights = QuantizedArrays::zeros(format)?;
    /// weights.set_row(3, BlockFormat::Q8_0, &[0; 2 * 34])?;
    /// assert!(weights.set_row(8, BlockFormat::Q8_0, &[0; 2 * 34]).is_err());
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// An output that the weights do not have, another format, or another number of bytes.
    pub fn set_row(&mut self, output: usize, blocks: BlockFormat, bytes: &[u8]) -> Result<(), TensorError> {
        let format = self.format;
        if QuantizedFormat::of_blocks(blocks, [format.outputs(), format.inputs()])? != format {
            return Err(misfit("blocks", format!("{blocks:?}"), "the format of the weights"));
        }
        let in_row = blocks.row_bytes(format.inputs());
        if bytes.len() != in_row {
            return Err(misfit("bytes", bytes.len(), in_row.to_string()));
        }
        self.set(output, &blocks.row(bytes))
    }

    fn set(&mut self, output: usize, row: &Row) -> Result<(), TensorError> {
        let format = self.format;
        if output >= format.outputs() {
            return Err(misfit("output", output, format!("less than {}", format.outputs())));
        }
        let mask = format.mask();
        let integers: Vec<u8> = match format.per_byte() {
            1 => {
                let zero = format.subtracted().unwrap_or(0);
                row.integers.iter().map(|integer| integer.wrapping_sub(zero)).collect()
            }
            _ => {
                let pairs = row.integers.chunks(2);
                pairs.map(|pair| pair[0] & mask | (pair.get(1).unwrap_or(&0) & mask) << 4).collect()
            }
        };
        let rows = [&integers].into_iter().chain(&row.scales);
        for (array, elements) in self.arrays.iter_mut().zip(rows) {
            set_lane(array, output, elements);
        }
        Ok(())
    }
}

/// Sets the elements of an output in an array whose last axis has the outputs of a panel. Elements that are
/// missing at the end stay as they are.
fn set_lane(array: &mut HostArray, output: usize, elements: &[u8]) {
    let width = array.dtype().size_bytes();
    let columns: usize = array.dims().iter().skip(1).rev().skip(1).product();
    let (panel, lane) = (output / PANEL, output % PANEL);
    let panel = array.bytes_mut().chunks_exact_mut(columns * PANEL * width).nth(panel).unwrap_or_default();
    for (lanes, element) in panel.chunks_exact_mut(PANEL * width).zip(elements.chunks_exact(width)) {
        lanes[lane * width..][..width].copy_from_slice(element);
    }
}
