//! Tile sizes of attention.

use super::{Attention, ELEMENT};

/// The tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttentionTile {
    /// Warps, each with 16 rows.
    pub(crate) warps: u32,
    /// Positions of a tile of keys and values.
    pub(crate) positions: u32,
    /// Elements of a query in shared memory: a power of two, so that the swizzle stays in a row.
    pub(super) depth: u32,
    /// Elements of a value in shared memory.
    pub(super) features: u32,
}

/// Number of blocks that occupies a large GPU.
const BLOCKS: u64 = 128;

impl AttentionTile {
    /// 128 rows, which use each key and value twice as often as 64, if there are enough blocks of them. Long
    /// rows take tiles of fewer positions, since the sums of a row take registers.
    pub(crate) fn of(attention: &Attention) -> AttentionTile {
        let is_long = attention.depth.max(attention.features) > 128;
        // A copy of all threads takes a chunk each, and covers eight rows, after which the swizzle repeats.
        let (least, positions) = if is_long { (128, 16) } else { (32, 64) };
        let padded = |elements: u32| elements.next_power_of_two().max(least);
        let [depth, features] = [attention.depth, attention.features].map(padded);
        let tile = |warps| AttentionTile { warps, positions, depth, features };
        let is_large = is_long || tile(8).blocks(attention) >= BLOCKS;
        tile(if is_large { 8 } else { 4 })
    }

    /// Rows of a block.
    pub(crate) fn rows(&self) -> u32 {
        16 * self.warps
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        32 * self.warps
    }

    /// Blocks of the grid.
    pub(crate) fn blocks(&self, attention: &Attention) -> u64 {
        u64::from(attention.rows.div_ceil(self.rows())) * u64::from(attention.batch)
    }

    pub(super) fn query_bytes(&self) -> u32 {
        self.rows() * self.depth * ELEMENT
    }

    pub(super) fn key_bytes(&self) -> u32 {
        self.positions * self.depth * ELEMENT
    }

    /// Bytes of a tile of keys and of values.
    pub(super) fn stage_bytes(&self) -> u32 {
        self.key_bytes() + self.positions * self.features * ELEMENT
    }

    /// Bytes of shared memory: the queries and two stages.
    pub(super) fn bytes(&self) -> u32 {
        self.query_bytes() + 2 * self.stage_bytes()
    }
}
