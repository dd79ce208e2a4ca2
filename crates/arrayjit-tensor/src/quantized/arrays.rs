//! Quantized weights in host memory, in the order in which products read them.

use std::iter;

use arrayjit::HostArray;

use super::{
    BlockFormat, QuantizedFormat,
    block_format::PackedBlock,
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

/// An array of packed weights: the elements of an output are in one of 64 lanes of a panel.
struct Panels<'a> {
    bytes: &'a mut [u8],
    /// The bytes of an element.
    width: usize,
    /// The elements of an output.
    columns: usize,
}

impl QuantizedArrays {
    /// Weights that are all 0 until [`set_rows`](QuantizedArrays::set_rows) sets them.
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
        let mut panels = weights.panels();
        for output in 0..format.outputs() {
            let mut integers = (0..format.inputs()).map(|input| integer(output, input) & format.mask());
            let bytes = iter::from_fn(|| {
                let first = integers.next()?;
                let is_pair = format.per_byte() == 2;
                Some(first | if is_pair { integers.next().unwrap_or(0) << 4 } else { 0 })
            });
            let bytes = bytes.collect();
            let (scales, offsets): (Vec<_>, Vec<_>) = (0..format.blocks())
                .map(|at| block(output, at))
                .map(|(scale, offset)| (scale.to_ne_bytes(), offset.to_ne_bytes()))
                .unzip();
            for (array, elements) in panels.iter_mut().zip([bytes, scales.concat(), offsets.concat()]) {
                array.set(output, 0, &elements);
            }
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
        weights.set_rows(&Vec::from_iter(0..format.outputs()), blocks, bytes)?;
        Ok(weights)
    }

    /// Sets the weights of some outputs to rows of a GGUF file, one behind the other, so that a file can be
    /// read in pieces, and its rows in any order.
    ///
    /// ```
    /// use arrayjit_tensor::{BlockFormat, QuantizedArrays, QuantizedFormat};
    ///
    /// let format = QuantizedFormat::of_blocks(BlockFormat::Q8_0, [8, 64])?;
    /// let mut weights = QuantizedArrays::zeros(format)?;
    /// weights.set_rows(&[3, 1], BlockFormat::Q8_0, &[0; 2 * 2 * 34])?;
    /// assert!(weights.set_rows(&[8], BlockFormat::Q8_0, &[0; 2 * 34]).is_err());
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// An output that the weights do not have, another format, or another number of bytes. Nothing changes
    /// then.
    pub fn set_rows(
        &mut self,
        outputs: &[usize],
        blocks: BlockFormat,
        bytes: &[u8],
    ) -> Result<(), TensorError> {
        let format = self.format;
        if QuantizedFormat::of_blocks(blocks, [format.outputs(), format.inputs()])? != format {
            return Err(misfit("blocks", format!("{blocks:?}"), "the format of the weights"));
        }
        let (in_row, in_block) = (blocks.row_bytes(format.inputs()), blocks.block_bytes());
        if outputs.len().checked_mul(in_row) != Some(bytes.len()) {
            return Err(misfit("bytes", bytes.len(), format!("{} times {in_row}", outputs.len())));
        }
        if let Some(output) = outputs.iter().find(|&&output| output >= format.outputs()) {
            return Err(misfit("output", output, format!("less than {}", format.outputs())));
        }
        let count = in_row / in_block;
        let (mut panels, mut packed) = (self.panels(), PackedBlock::new());
        // The rows of a panel write the same cache lines, which stay in the L1 cache if all rows pack a block
        // before the next one.
        for (outputs, rows) in outputs.chunks(PANEL).zip(bytes.chunks(PANEL * in_row)) {
            for at in 0..count {
                for (&output, row) in outputs.iter().zip(rows.chunks_exact(in_row)) {
                    blocks.pack(&row[at * in_block..][..in_block], &mut packed);
                    let elements =
                        iter::once(&packed.integers[..]).chain(packed.scales.iter().map(|s| &s[..]));
                    for (array, elements) in panels.iter_mut().zip(elements) {
                        let columns = array.columns / count;
                        array.set(output, at * columns, &elements[..columns * array.width]);
                    }
                }
            }
        }
        Ok(())
    }

    fn panels(&mut self) -> Vec<Panels<'_>> {
        self.arrays.iter_mut().map(Panels::new).collect()
    }
}

impl<'a> Panels<'a> {
    fn new(array: &'a mut HostArray) -> Panels<'a> {
        Panels {
            width: array.dtype().size_bytes(),
            columns: array.dims().iter().skip(1).rev().skip(1).product(),
            bytes: array.bytes_mut(),
        }
    }

    /// Sets elements of an output from column `start` on.
    fn set(&mut self, output: usize, start: usize, elements: &[u8]) {
        let columns = PANEL * self.width;
        let panel = &mut self.bytes[(output / PANEL * self.columns + start) * columns..];
        let panel = &mut panel[..elements.len() / self.width * columns];
        match self.width {
            1 => set_lane::<1>(panel, output % PANEL, elements),
            2 => set_lane::<2>(panel, output % PANEL, elements),
            _ => set_lane::<4>(panel, output % PANEL, elements),
        }
    }
}

/// Sets a lane to elements of `W` bytes.
fn set_lane<const W: usize>(panel: &mut [u8], lane: usize, elements: &[u8]) {
    let rows = panel.as_chunks_mut::<W>().0.as_chunks_mut::<PANEL>().0;
    for (row, element) in rows.iter_mut().zip(elements.as_chunks::<W>().0) {
        row[lane] = *element;
    }
}
