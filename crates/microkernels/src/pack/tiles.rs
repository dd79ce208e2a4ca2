//! Packs the rows of all tiles of a block of A, whose outer positions are contiguous, a few positions along K
//! at a time.
//!
//! Rows of a large operand are so far apart that each lies on a page of its own, and that rows whose distance
//! is a power of two compete for few sets of the caches. A tile takes less than a cache line of each, so
//! packing one tile after the other would load each line several times. Here all tiles take their part of a
//! row while it is in the L1 cache.

use std::ops::Range;

use vector_asm::StoredType;

use crate::blocking::{RowTiles, cut};
use crate::operand::OperandLayout;
use crate::simd::{Simd, VectorCode, prefetch};

/// Positions along K that are packed for one tile after the other. The rows of as many more are prefetched,
/// and the L1 cache holds both even if they all compete for the same sets.
const DEPTHS: usize = 4;

/// Tiles to pack, one after the other: the rows of each tile for each position along K.
pub(crate) struct TileRows<'a, V: Simd> {
    /// Operand A, of which [`TileRows::copies`] holds.
    pub(crate) operand: &'a OperandLayout,
    /// The address of position 0 of both dimensions.
    pub(crate) from: *const u8,
    pub(crate) tiles: RowTiles,
    pub(crate) k_range: Range<usize>,
    pub(crate) to: *mut V::Element,
}

impl<V: Simd> VectorCode<V> for TileRows<'_, V> {
    #[inline(always)]
    unsafe fn run(self) {
        for k in cut(self.k_range.clone(), DEPTHS) {
            for tile in 0..self.tiles.count {
                // SAFETY: the caller's promise.
                unsafe { self.pack_tile(tile, k.clone()) };
            }
        }
    }
}

impl<V: Simd> TileRows<'_, V> {
    /// Whether packing an operand copies contiguous elements.
    #[inline(always)]
    pub(crate) fn copies(operand: &OperandLayout) -> bool {
        operand.memory == StoredType::Same && operand.limits.is_empty() && operand.outer_is_contiguous()
    }

    /// Packs some positions along K of one tile.
    #[inline(always)]
    unsafe fn pack_tile(&self, tile: usize, k_range: Range<usize>) {
        let TileRows { operand, tiles, .. } = self;
        let rows = tiles.rows(tile);
        let height = rows.len();
        let from = self.from.wrapping_offset(operand.outer.at(rows.start));
        let before = (rows.start - tiles.row(0)) * self.k_range.len();
        let mut to = self.to.wrapping_add(before + (k_range.start - self.k_range.start) * height);
        let end = self.k_range.end;
        for k in k_range {
            let row = from.wrapping_offset(operand.k.at(k)).cast::<V::Element>();
            prefetch(from.wrapping_offset(operand.k.at((k + DEPTHS).min(end - 1))), true);
            // SAFETY: the elements of the tile may be read and written. A store of a whole vector writes
            // elements of the next position along K as well, which are stored later; at the last position
            // there is none.
            unsafe {
                for at in (0..height).step_by(V::LANES) {
                    let mask = V::mask((height - at).min(V::LANES));
                    let elements = V::load_masked(row.wrapping_add(at), mask);
                    if k + 1 < end && at + V::LANES <= 2 * height {
                        V::store(to.wrapping_add(at), elements);
                    } else {
                        V::store_masked(to.wrapping_add(at), mask, elements);
                    }
                }
            }
            to = to.wrapping_add(height);
        }
    }
}
