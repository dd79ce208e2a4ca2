//! Microkernels that read A in place through tables: addresses of rows, and offsets along K.
//!
//! Addresses take general registers, so tiles have few rows, unless rows are neighbors in memory: these share
//! an address.

use super::{Tile, initial_accumulators, load_columns, prefetch_next, store_accumulators, table_position};
use crate::simd::{MAX_ROWS, Simd};
use crate::tile_shape::TAPS;

pub(crate) type IndexedMicrokernel<V> = unsafe fn(&Tile<V>, &IndexedRows<V>, usize);

/// Microkernels for rows of A in groups whose elements are neighbors in memory, such as the pixels in a row
/// of an image or the taps in a row of a filter. Groups share an address, so that a tile may have more rows.
pub(crate) struct RowGroups<V: Simd + 'static> {
    /// Rows of a group; [`TAPS`] if there are contiguous runs along K.
    pub(crate) size: usize,
    /// Microkernels in ascending order of the number of groups.
    pub(crate) microkernels: &'static [IndexedMicrokernel<V>],
}

/// The microkernels for groups of a size, by the number of groups and of rows.
macro_rules! row_groups {
    ($size:expr; $($groups:literal $rows:literal),*) => {
        RowGroups { size: $size, microkernels: &[$(Self::grouped_microkernel::<$groups, $size, $rows>),*] }
    };
}
pub(crate) use row_groups;

/// Operand A of a tile in place, addressed by tables: the element of row `r` at position `p` along K is
/// `k_offsets[p]` bytes behind `rows[r]`.
#[derive(Clone, Copy)]
pub(crate) struct IndexedRows<V: Simd> {
    /// The rows, or the first row of each group.
    pub(crate) rows: [*const u8; MAX_ROWS],
    /// The microkernels for groups, if the rows are in groups.
    pub(crate) groups: Option<&'static RowGroups<V>>,
    /// Offsets from the tile's first position along K on.
    pub(crate) k_offsets: *const i64,
    /// If runs are long, how many positions from each one on are neighbors in memory, itself included;
    /// otherwise null.
    pub(crate) k_runs: *const u32,
}

/// Computes a tile of `height` rows and `columns` columns from rows of A that tables address. The addresses
/// and strides of A in `tile` are not used. B is not read outside of the tile's columns.
///
/// # Safety
///
/// The requirements of [`super::run`], for the elements that `a` spans, and at most `V::INDEXED_ROWS` rows;
/// if they are in groups, at most as many groups as there are microkernels, and at most one vector of
/// columns.
#[inline(always)]
pub(crate) unsafe fn run_indexed<V: Simd>(tile: &Tile<V>, a: &IndexedRows<V>, height: usize, columns: usize) {
    if let Some(RowGroups { size, microkernels }) = a.groups {
        // SAFETY: the caller's promise.
        return unsafe { microkernels[height / size - 1](tile, a, columns) };
    }
    let (at, lanes) = table_position::<V>(height, columns);
    // SAFETY: the table has a function for each height, width and edge; the rest is the caller's promise.
    unsafe { V::MICROKERNELS.indexed[at](tile, a, lanes) }
}

/// The code of [`Simd::indexed_microkernel`].
#[inline(always)]
pub(crate) unsafe fn indexed_microkernel<V: Simd, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<V>,
    a: &IndexedRows<V>,
    lanes: usize,
) {
    // SAFETY: inlined into an entry of the instruction set, and the caller vouches for the memory.
    unsafe {
        let mask = V::mask(lanes);
        let mut accumulators = initial_accumulators::<V, H, W, EDGE>(tile, mask);
        let (mut b, mut p) = (tile.b, 0);
        if a.k_runs.is_null() {
            while p < tile.k {
                let columns = load_columns::<V, W>(b, EDGE, mask);
                prefetch_next::<V, W>(b.cast(), tile.ahead);
                V::add_rows(&mut accumulators, &a.rows, *a.k_offsets.add(p) as isize, columns);
                (p, b) = (p + 1, b.wrapping_byte_offset(tile.b_k));
            }
        }
        while p < tile.k {
            let mut offset = *a.k_offsets.add(p) as isize;
            let run = (*a.k_runs.add(p) as usize).min(tile.k - p);
            for _ in 0..run {
                let columns = load_columns::<V, W>(b, EDGE, mask);
                prefetch_next::<V, W>(b.cast(), tile.ahead);
                V::add_rows(&mut accumulators, &a.rows, offset, columns);
                (offset, b) = (offset.wrapping_add(V::SIZE), b.wrapping_byte_offset(tile.b_k));
            }
            p += run;
        }
        store_accumulators::<V, H, W, EDGE>(tile, &accumulators, mask);
    }
}

/// The code of [`Simd::grouped_microkernel`].
///
/// Within a run along K, an element of [`TAPS`] rows is loaded once for the second row and, at the next
/// position, for the first one.
#[inline(always)]
pub(crate) unsafe fn grouped_microkernel<V: Simd, const GROUPS: usize, const SIZE: usize, const H: usize>(
    tile: &Tile<V>,
    a: &IndexedRows<V>,
    lanes: usize,
) {
    // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
    unsafe {
        let mask = V::mask(lanes);
        let mut accumulators = initial_accumulators::<V, H, 1, true>(tile, mask);
        let (mut b, mut p) = (tile.b, 0);
        while SIZE != TAPS && p < tile.k {
            let [column] = load_columns::<V, 1>(b, true, mask);
            let offset = *a.k_offsets.add(p) as isize;
            for (row, [accumulator]) in accumulators.iter_mut().enumerate() {
                let from = a.rows[row / SIZE].wrapping_offset(offset).cast::<V::Element>();
                let element = V::broadcast(from.wrapping_add(row % SIZE));
                *accumulator = V::fma(element, column, *accumulator);
            }
            (p, b) = (p + 1, b.wrapping_byte_offset(tile.b_k));
        }
        while SIZE == TAPS && p < tile.k {
            let mut offset = *a.k_offsets.add(p) as isize;
            let run = (*a.k_runs.add(p) as usize).min(tile.k - p);
            let mut first = [V::zero(); GROUPS];
            for (first, row) in first.iter_mut().zip(a.rows) {
                *first = V::broadcast(row.wrapping_offset(offset).cast());
            }
            for _ in 0..run {
                let [column] = load_columns::<V, 1>(b, true, mask);
                for (g, first) in first.iter_mut().enumerate() {
                    let row = a.rows[g].wrapping_offset(offset).cast::<V::Element>();
                    let second = V::broadcast(row.wrapping_add(1));
                    let elements = [*first, second, V::broadcast(row.wrapping_add(2))];
                    for (i, element) in elements.into_iter().enumerate() {
                        let [accumulator] = &mut accumulators[g * TAPS + i];
                        *accumulator = V::fma(element, column, *accumulator);
                    }
                    *first = second;
                }
                (offset, b) = (offset.wrapping_add(V::SIZE), b.wrapping_byte_offset(tile.b_k));
            }
            p += run;
        }
        store_accumulators::<V, H, 1, true>(tile, &accumulators, mask);
    }
}
