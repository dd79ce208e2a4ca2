//! Reads the columns of an operand with bounds at one position along K after the other, for microkernels that
//! compute a tile and pack the columns at the same time.
//!
//! Packing is loads and stores, which a tile of many rows has time for.

use std::mem::MaybeUninit;
use std::ops::Range;

use vector_asm::StoredType;

use super::Unconverted;
use super::general::{MAX_CLASSES, RunReader, all_masks, lanes_of};
use crate::operand::OperandLayout;
use crate::problem::AxisOffsets;
use crate::simd::{Simd, prefetch};

/// Reads two vectors of columns, each of at most two contiguous runs.
pub(crate) struct ColumnReader<'a, V: Simd> {
    /// For each run of each vector, the address that lane 0 would have at offset 0 if the run extended to it.
    runs: [[*const u8; 2]; 2],
    /// Whether a vector has a second run.
    is_split: [bool; 2],
    /// The offset of each position along K, from the first one on.
    offsets: &'a [i64],
    /// The class of each position along K.
    classes: &'a [u32],
    /// For each class, the lanes of each run that exist.
    masks: [MaybeUninit<[[V::Mask; 2]; 2]>; MAX_CLASSES],
}

/// Whether columns of an operand may be read.
pub(crate) fn are_readable(operand: &OperandLayout) -> bool {
    operand.memory == StoredType::Same
        && !operand.limits.is_empty()
        && !operand.k_is_contiguous
        && operand.class_representatives.len() <= MAX_CLASSES
        && matches!(operand.k, AxisOffsets::Table(_))
}

impl<'a, V: Simd> ColumnReader<'a, V> {
    /// A reader of more columns than a vector has, for some positions along K; `None` if the columns have
    /// too many runs.
    ///
    /// # Safety
    ///
    /// The CPU has the instructions of the vectors, and [`are_readable`] holds. Elements within bounds may be
    /// read, by the address of position 0 of both dimensions.
    #[inline(always)]
    pub(crate) unsafe fn new(
        operand: &'a OperandLayout,
        from: *const u8,
        columns: Range<usize>,
        k: Range<usize>,
    ) -> Option<ColumnReader<'a, V>> {
        let AxisOffsets::Table(offsets) = &operand.k else { return None };
        let vectors = [0, V::LANES].map(|at| lanes_of::<V>(operand, &columns, at));
        if vectors.iter().any(|lanes| lanes.run_count > 2) {
            return None;
        }
        let readers = vectors.each_ref().map(RunReader::<V, Unconverted, 2>::new);
        let mut masks = [const { MaybeUninit::uninit() }; MAX_CLASSES];
        for (entry, &k) in masks.iter_mut().zip(&operand.class_representatives) {
            // SAFETY: inlined into an entry of the instruction set.
            entry.write(unsafe { all_masks(operand, &readers, k as usize) });
        }
        let at = |run: usize, lanes: usize| from.wrapping_offset(vectors[lanes].runs[run].1);
        Some(ColumnReader {
            runs: [[at(0, 0), at(1, 0)], [at(0, 1), at(1, 1)]],
            is_split: [0, 1].map(|lanes| vectors[lanes].run_count == 2),
            offsets: &offsets[k.clone()],
            classes: &operand.class[k],
            masks,
        })
    }

    /// The columns at a position along K, counted from the first one.
    ///
    /// # Safety
    ///
    /// The position is one of the reader's.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, position: usize) -> [V::Vector; 2] {
        // SAFETY: the caller's promise. Classes are numbered from 0, so the entry of this class was written,
        // and its masks select elements that exist.
        unsafe {
            let offset = *self.offsets.get_unchecked(position) as isize;
            let class = *self.classes.get_unchecked(position) as usize;
            let masks = self.masks[class % MAX_CLASSES].assume_init_ref();
            // The columns of the next reader, which the hardware's prefetcher does not foresee.
            let next = self.runs[0][0].wrapping_offset(offset + 2 * V::LANES as isize * V::SIZE);
            prefetch(next, false);
            prefetch(next.wrapping_add(64), false);
            let mut columns = [V::zero(); 2];
            for (v, column) in columns.iter_mut().enumerate() {
                let [first, second] = self.runs[v].map(|run| run.wrapping_offset(offset).cast());
                *column = V::load_masked(first, masks[v][0]);
                if self.is_split[v] {
                    *column = V::merge_masked(*column, second, masks[v][1]);
                }
            }
            columns
        }
    }
}
