//! A set of instructions as the loops around microkernels see it, and the table of its microkernels.

use super::tile::{DotMicrokernels, DotTile, GROUP};
use crate::blocking::RowTiles;
use crate::dot::DotInstructions;

/// The sizes of tiles of a set of instructions, on which plans depend. They are known on every architecture,
/// so that a process plans for processors of other architectures too.
#[derive(Clone, Copy)]
pub(crate) struct DotTiles {
    /// Rows of the largest tile.
    pub(crate) rows: usize,
    /// Rows of a strip, and groups of a step.
    pub(crate) strip: usize,
    pub(crate) groups: usize,
    /// Vectors of the largest tile.
    pub(crate) vectors: usize,
    /// Columns of a vector.
    pub(crate) columns: usize,
    /// The unit of the heights of tiles: a strip, or the rows of a register.
    pub(crate) unit: usize,
    /// Whether one of A and B is unsigned and the other signed, or both are of one kind; `None` if A is
    /// widened to 16 bits, so that both may be of any kind.
    pub(crate) mixes_signs: Option<bool>,
}

/// The microkernels of a set of instructions.
#[derive(Clone, Copy)]
pub(crate) struct DotLevel {
    pub(crate) tiles: DotTiles,
    /// Microkernels for a signed and for an unsigned B.
    pub(super) signed: DotMicrokernels,
    pub(super) unsigned: DotMicrokernels,
    /// The microkernels that replace these, except for low tiles and where B lacks columns of a register.
    pub(super) matrix: Option<&'static MatrixTiles>,
}

/// Microkernels with tile registers, which a thread configures before it uses them.
pub(super) struct MatrixTiles {
    /// Rows and columns of a register.
    pub(super) unit: usize,
    /// Rows from which on they are faster than the other microkernels.
    pub(super) least: usize,
    pub(super) configure: unsafe fn(),
    pub(super) release: unsafe fn(),
    /// Computes a tile of the given rows and columns, with an unsigned B or not.
    pub(super) run: unsafe fn(&DotTile, bool, usize, usize),
}

/// Rows and columns of a register of AMX, and groups of a row.
const MATRIX_UNIT: usize = 16;

impl DotTiles {
    const VECTORS_256: DotTiles =
        DotTiles { rows: 6, strip: 1, groups: 1, vectors: 2, columns: 8, unit: 1, mixes_signs: Some(true) };
    const VECTORS_512: DotTiles = DotTiles { rows: 14, columns: 16, ..DotTiles::VECTORS_256 };
    const VECTORS_128: DotTiles = DotTiles { columns: 4, mixes_signs: Some(false), ..DotTiles::VECTORS_256 };

    pub(crate) const fn of(dot: DotInstructions) -> DotTiles {
        match dot {
            DotInstructions::Avx2 => DotTiles { vectors: 1, mixes_signs: None, ..DotTiles::VECTORS_256 },
            DotInstructions::AvxVnni | DotInstructions::Avx512VlVnni => DotTiles::VECTORS_256,
            DotInstructions::Avx512Vnni => DotTiles::VECTORS_512,
            DotInstructions::Amx => {
                DotTiles { rows: 32, groups: MATRIX_UNIT, unit: MATRIX_UNIT, ..DotTiles::VECTORS_512 }
            }
            DotInstructions::Neon => DotTiles::VECTORS_128,
            DotInstructions::NeonDot => DotTiles { rows: 12, groups: 2, ..DotTiles::VECTORS_128 },
            DotInstructions::NeonMatrix => {
                DotTiles { rows: 12, strip: 2, groups: 2, unit: 2, ..DotTiles::VECTORS_128 }
            }
        }
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
}

impl DotLevel {
    pub(crate) fn of(dot: DotInstructions) -> DotLevel {
        super::levels::of(dot)
    }

    /// Calls a function with the registers that microkernels need.
    ///
    /// # Safety
    ///
    /// The CPU has the instructions.
    pub(crate) unsafe fn with_registers(&self, compute: impl FnOnce()) {
        let Some(matrix) = self.matrix else { return compute() };
        // SAFETY: the caller's promise.
        unsafe {
            (matrix.configure)();
            compute();
            (matrix.release)();
        }
    }

    /// Computes a tile of `height` rows and `columns` columns, with an unsigned or a signed B.
    ///
    /// # Safety
    ///
    /// The CPU has the instructions, and the thread the registers. `height` is in `1..=rows` and `columns` in
    /// `1..=width()`. The elements that `tile` spans may be read and written. Rows of A, and of initial sums
    /// with a stride, may be read up to a multiple of [`DotTiles::unit`], as may columns of a padded B and of
    /// initial sums.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, tile: &DotTile, is_unsigned: bool, height: usize, columns: usize) {
        if let Some(matrix) = self.matrix {
            // SAFETY: the caller's promise.
            return unsafe { self.run_in_matrix(matrix, tile, is_unsigned, height, columns) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_in_vectors(tile, is_unsigned, height, columns) }
    }

    /// Computes a tile in registers of tiles, or else in vectors, whose tiles are lower.
    unsafe fn run_in_matrix(
        &self,
        matrix: &MatrixTiles,
        tile: &DotTile,
        is_unsigned: bool,
        height: usize,
        columns: usize,
    ) {
        let has_columns = tile.b_is_padded || columns.is_multiple_of(matrix.unit);
        if height >= matrix.least && has_columns {
            // SAFETY: the caller's promise.
            return unsafe { (matrix.run)(tile, is_unsigned, height, columns) };
        }
        let most = self.signed.len() / (2 * self.tiles.vectors);
        let lower = RowTiles::new(0..height, most);
        for rows in (0..lower.count).map(|t| lower.rows(t)) {
            let row = rows.start as isize;
            let tile = DotTile {
                a: tile.a.wrapping_offset(row * tile.a_strip),
                from: tile.from.wrapping_byte_offset(row * tile.from_row),
                to: tile.to.wrapping_byte_offset(row * tile.to_row),
                ..*tile
            };
            // SAFETY: the caller's promise; null moves by strides of 0.
            unsafe { self.run_in_vectors(&tile, is_unsigned, rows.len(), columns) }
        }
    }

    #[inline(always)]
    unsafe fn run_in_vectors(&self, tile: &DotTile, is_unsigned: bool, height: usize, columns: usize) {
        let DotTiles { strip, vectors: most, columns: of_vector, .. } = self.tiles;
        let vectors = columns.div_ceil(of_vector);
        let last = columns - (vectors - 1) * of_vector;
        let strips = height.div_ceil(strip);
        let at = ((strips - 1) * most + most - vectors) * 2 + usize::from(last < of_vector);
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
