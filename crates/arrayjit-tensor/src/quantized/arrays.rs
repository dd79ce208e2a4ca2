//! Quantized weights in host memory, in the order in which products read them.

use std::iter;

use arrayjit::HostArray;

use super::{
    BlockFormat, QuantizedFormat,
    block_format::PackedBlocks,
    format::PANEL,
    lanes::{self, Bytes, Lanes},
};
use crate::error::{Result, misfit};

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
    pub fn zeros(format: QuantizedFormat) -> Result<QuantizedArrays> {
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
    ) -> Result<QuantizedArrays> {
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
                array.set(output, &elements);
            }
        }
        Ok(weights)
    }

    /// Packs weights of shape `[outputs, inputs]` from the bytes of a GGUF file.
    ///
    /// # Errors
    /// Inputs that are no whole number of blocks, or another number of bytes.
    pub fn from_blocks(blocks: BlockFormat, sizes: [usize; 2], bytes: &[u8]) -> Result<QuantizedArrays> {
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
    pub fn set_rows(&mut self, outputs: &[usize], blocks: BlockFormat, bytes: &[u8]) -> Result<()> {
        let mut arrays: Vec<&mut [u8]> = self.arrays.iter_mut().map(HostArray::bytes_mut).collect();
        self.format.set_rows(&mut arrays, outputs, blocks, bytes)
    }

    fn panels(&mut self) -> Vec<Panels<'_>> {
        self.arrays.iter_mut().map(Panels::new).collect()
    }
}

impl QuantizedFormat {
    /// [`QuantizedArrays::set_rows`] for arrays of which only the bytes are given, in the order of
    /// [`arrays`](QuantizedFormat::arrays).
    ///
    /// # Errors
    /// Fails like it, or for arrays of another number of bytes.
    pub fn set_rows(
        self,
        arrays: &mut [&mut [u8]],
        outputs: &[usize],
        blocks: BlockFormat,
        bytes: &[u8],
    ) -> Result<()> {
        if QuantizedFormat::of_blocks(blocks, [self.outputs(), self.inputs()])? != self {
            return Err(misfit("blocks", format!("{blocks:?}"), "the format of the weights"));
        }
        let (in_row, in_block) = (blocks.row_bytes(self.inputs()), blocks.block_bytes());
        if outputs.len().checked_mul(in_row) != Some(bytes.len()) {
            return Err(misfit("bytes", bytes.len(), format!("{} times {in_row}", outputs.len())));
        }
        if let Some(output) = outputs.iter().find(|&&output| output >= self.outputs()) {
            return Err(misfit("output", output, format!("less than {}", self.outputs())));
        }
        let mut panels = self.panels_of(arrays)?;
        let mut rows: Vec<(usize, &[u8])> = outputs.iter().copied().zip(bytes.chunks_exact(in_row)).collect();
        rows.sort_by_key(|&(output, _)| output);
        let zeros = vec![0; in_row];
        let (mut block, mut packed) = (vec![Lanes::ZERO; in_block], PackedBlocks::new());
        for rows in rows.chunk_by(|(a, _), (b, _)| a / PANEL == b / PANEL) {
            let (mut of_lanes, mut is_set) = ([zeros.as_slice(); PANEL], [false; PANEL]);
            for &(output, row) in rows {
                (of_lanes[output % PANEL], is_set[output % PANEL]) = (row, true);
            }
            let panel = rows[0].0 / PANEL;
            for at in 0..in_row / in_block {
                lanes::transpose(&of_lanes, at * in_block, &mut block);
                blocks.pack(&block, &mut packed);
                let elements = iter::once(&packed.integers[..]).chain(packed.scales.iter().map(|s| &s[..]));
                for (array, elements) in panels.iter_mut().zip(elements) {
                    array.set_columns(panel, at, in_row / in_block, elements, &is_set);
                }
            }
        }
        Ok(())
    }

    /// The arrays with these bytes.
    fn panels_of<'a>(self, arrays: &'a mut [&mut [u8]]) -> Result<Vec<Panels<'a>>> {
        let expected = self.arrays();
        if arrays.len() != expected.len() {
            return Err(misfit("arrays", arrays.len(), expected.len().to_string()));
        }
        let panels = arrays.iter_mut().zip(expected).map(|(bytes, array)| {
            let (width, columns) = (array.dtype.size_bytes(), array.columns());
            let len = self.panels() * columns * PANEL * width;
            match bytes.len() == len {
                true => Ok(Panels { bytes, width, columns }),
                false => Err(misfit("bytes of an array", bytes.len(), format!("{len}"))),
            }
        });
        panels.collect()
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

    /// Sets the elements of an output.
    fn set(&mut self, output: usize, elements: &[u8]) {
        let rows = self.bytes.chunks_exact_mut(PANEL * self.width).skip(output / PANEL * self.columns);
        for (row, element) in rows.zip(elements.chunks_exact(self.width)) {
            row[output % PANEL * self.width..][..self.width].copy_from_slice(element);
        }
    }

    /// Sets the columns of a block, the `at`th of `count`, for some outputs of a panel. `elements` has the
    /// bytes of each element in turn.
    fn set_columns(
        &mut self,
        panel: usize,
        at: usize,
        count: usize,
        elements: &[Lanes],
        is_set: &[bool; PANEL],
    ) {
        let columns = self.columns / count;
        let first = (panel * self.columns + at * columns) * PANEL * self.width;
        let rows = &mut self.bytes[first..][..columns * PANEL * self.width];
        match self.width {
            1 => set_rows::<1>(rows, elements, is_set),
            2 => set_rows::<2>(rows, elements, is_set),
            _ => set_rows::<4>(rows, elements, is_set),
        }
    }
}

/// Sets rows of elements of `W` bytes, whose bytes are given in turn.
fn set_rows<const W: usize>(rows: &mut [u8], elements: &[Lanes], is_set: &[bool; PANEL]) {
    let rows = rows.as_chunks_mut::<W>().0.as_chunks_mut::<PANEL>().0;
    let is_whole = is_set.iter().all(|&is_set| is_set);
    for (row, bytes) in rows.iter_mut().zip(elements.as_chunks::<W>().0) {
        let mut set = |lane: usize| (0..W).for_each(|at| row[lane][at] = bytes[at].0[lane]);
        match is_whole {
            true => (0..PANEL).for_each(set),
            false => (0..PANEL).filter(|&lane| is_set[lane]).for_each(&mut set),
        }
    }
}
