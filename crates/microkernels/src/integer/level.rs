//! A set of instructions as the loops around microkernels see it, and the table of its microkernels.

use super::tile::{DotMicrokernels, DotTile, GROUP};
use crate::dot::DotInstructions;

/// The microkernels of a set of instructions, and what the loops around them need to know.
#[derive(Clone, Copy)]
pub(crate) struct DotLevel {
    /// Rows of the largest tile.
    pub(crate) rows: usize,
    /// Rows of a strip, and groups of a step.
    pub(crate) strip: usize,
    pub(crate) groups: usize,
    /// Vectors of the largest tile.
    pub(crate) vectors: usize,
    /// Columns of a vector.
    pub(crate) columns: usize,
    /// Whether one of A and B is unsigned and the other signed, or both are of one kind; `None` if A is
    /// widened to 16 bits, so that both may be of any kind.
    pub(crate) mixes_signs: Option<bool>,
    /// Microkernels for a signed and for an unsigned B.
    pub(super) signed: DotMicrokernels,
    pub(super) unsigned: DotMicrokernels,
}

impl DotLevel {
    pub(crate) fn of(dot: DotInstructions) -> DotLevel {
        super::levels::of(dot)
    }

    /// Bytes of an element of packed A.
    pub(crate) fn a_bytes(&self) -> usize {
        if self.mixes_signs.is_none() { 2 } else { 1 }
    }

    /// Positions along K with which rows of A are filled up to whole steps.
    pub(crate) fn padded(&self, k: usize) -> usize {
        k.next_multiple_of(self.groups * GROUP)
    }

    /// Whether packing moves elements of A by 128, which changes their sign.
    pub(crate) fn moves(&self, a_unsigned: bool, b_unsigned: bool) -> bool {
        self.mixes_signs.is_some_and(|mixes| mixes != (a_unsigned != b_unsigned))
    }

    /// The columns of the largest tile.
    pub(crate) fn width(&self) -> usize {
        self.vectors * self.columns
    }

    /// Computes a tile of `height` rows and `columns` columns, with an unsigned or a signed B.
    ///
    /// # Safety
    ///
    /// The CPU has the instructions. `height` is in `1..=rows` and `columns` in `1..=width()`. The elements
    /// that `tile` spans may be read and written.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &DotTile, is_unsigned: bool, height: usize, columns: usize) {
        let vectors = columns.div_ceil(self.columns);
        let last = columns - (vectors - 1) * self.columns;
        let strips = height.div_ceil(self.strip);
        let at =
            ((strips - 1) * self.vectors + self.vectors - vectors) * 2 + usize::from(last < self.columns);
        let table = if is_unsigned { self.unsigned } else { self.signed };
        // SAFETY: the table has a function for each number of strips, width and edge; the rest is the
        // caller's promise.
        unsafe { table[at](tile, height, last) }
    }
}

/// The microkernels of the given numbers of strips, with two vectors of columns or with one.
macro_rules! microkernels {
    ($entry:ident, $unsigned:literal, two; $($s:literal)*) => {
        &[$(
            $entry::<$s, 2, $unsigned, false>, $entry::<$s, 2, $unsigned, true>,
            $entry::<$s, 1, $unsigned, false>, $entry::<$s, 1, $unsigned, true>,
        )*]
    };
    ($entry:ident, $unsigned:literal, one; $($s:literal)*) => {
        &[$($entry::<$s, 1, $unsigned, false>, $entry::<$s, 1, $unsigned, true>,)*]
    };
}

/// Defines a function that enables the features and computes tiles.
macro_rules! entry {
    ($name:ident, $dot:ty, $features:literal) => {
        #[target_feature(enable = $features)]
        unsafe fn $name<const S: usize, const W: usize, const UNSIGNED: bool, const EDGE: bool>(
            tile: &DotTile,
            rows: usize,
            columns: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { microkernel::<$dot, S, W, UNSIGNED, EDGE>(tile, rows, columns) }
        }
    };
}

pub(super) use {entry, microkernels};
