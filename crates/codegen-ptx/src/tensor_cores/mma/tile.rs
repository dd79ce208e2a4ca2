//! How large tiles are.

use crate::tensor_cores::{Matmul, tile_scheduler};

/// A block's tile of the outputs, and how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MmaTile {
    /// Rows of the outputs.
    pub(crate) rows: u32,
    /// Columns of the outputs.
    pub(crate) columns: u32,
    /// Bytes of the products of a stage, of a row or column.
    pub(crate) k_bytes: u32,
    /// Warps over the rows, and over the columns.
    pub(crate) warps: [u32; 2],
    /// Stages that shared memory holds.
    pub(crate) stages: u32,
}

/// From the largest, which loads each element least often. Whatever the size, a fragment is multiplied twice at least.
const TILES: [MmaTile; 3] = [
    MmaTile { rows: 128, columns: 128, k_bytes: 64, warps: [2, 2], stages: 4 },
    MmaTile { rows: 64, columns: 128, k_bytes: 64, warps: [2, 2], stages: 4 },
    MmaTile { rows: 64, columns: 64, k_bytes: 64, warps: [2, 2], stages: 4 },
];

/// Blocks that give every multiprocessor of a large device something to do.
const BLOCKS: u64 = 128;

impl MmaTile {
    /// The largest tile of which there are enough, or the smallest.
    pub(crate) fn of(matmul: &Matmul) -> MmaTile {
        let enough = |tile: &&MmaTile| tile.blocks(matmul) >= BLOCKS;
        *TILES.iter().find(enough).unwrap_or(&TILES[TILES.len() - 1])
    }

    /// Rows and columns.
    pub(super) fn sizes(&self) -> [u32; 2] {
        [self.rows, self.columns]
    }

    /// How many blocks compute a product.
    pub(crate) fn blocks(&self, matmul: &Matmul) -> u64 {
        tile_scheduler::tile_count(matmul, self.sizes())
    }

    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        32 * self.num_warps()
    }

    /// Warps of a block.
    pub(super) fn num_warps(&self) -> u32 {
        self.warps[0] * self.warps[1]
    }

    /// The sides of the factors' tiles.
    pub(super) fn operand_tiles(&self, element: u32) -> [OperandTile; 2] {
        let k = self.k(element);
        [self.rows, self.columns].map(|extent| OperandTile { extent, k, threads: self.threads(), element })
    }

    /// Products of a stage, of elements of so many bytes.
    pub(super) fn k(&self, element: u32) -> u32 {
        self.k_bytes / element
    }

    /// Rows and columns of a warp.
    pub(super) fn warp_tile(&self) -> [u32; 2] {
        [self.rows / self.warps[0], self.columns / self.warps[1]]
    }

    pub(super) fn a_bytes(&self) -> u32 {
        self.rows * self.k_bytes
    }

    /// Bytes of both factors' tiles.
    pub(super) fn stage_bytes(&self) -> u32 {
        self.a_bytes() + self.columns * self.k_bytes
    }
}

/// The tile of a factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandTile {
    /// Rows or columns.
    pub(super) extent: u32,
    /// Products.
    pub(super) k: u32,
    /// Threads that copy it.
    pub(super) threads: u32,
    /// Bytes of an element.
    pub(super) element: u32,
}
