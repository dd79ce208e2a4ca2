//! Tile sizes of `mma` kernels.

use crate::tensor_cores::{Matmul, tile_scheduler};

/// The tile of a block, its division into warps, and the number of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MmaTile {
    /// M of the tile.
    pub(crate) rows: u32,
    /// N of the tile.
    pub(crate) columns: u32,
    /// Bytes along K of a stage.
    pub(crate) k_bytes: u32,
    /// Warps along M and along N.
    pub(crate) warps: [u32; 2],
    /// Pipeline stages in shared memory.
    pub(crate) stages: u32,
}

/// Tiles in order of decreasing size. With a larger tile, a kernel loads each element fewer times. With each
/// tile, a warp uses a loaded fragment at least twice.
const TILES: [MmaTile; 3] = [
    MmaTile { rows: 128, columns: 128, k_bytes: 64, warps: [2, 2], stages: 4 },
    MmaTile { rows: 64, columns: 128, k_bytes: 64, warps: [2, 2], stages: 4 },
    MmaTile { rows: 64, columns: 64, k_bytes: 64, warps: [2, 2], stages: 4 },
];

/// Number of blocks that occupies a large GPU.
const BLOCKS: u64 = 128;

impl MmaTile {
    /// The largest tile with enough blocks, else the smallest.
    pub(crate) fn of(matmul: &Matmul) -> MmaTile {
        let enough = |tile: &&MmaTile| tile.blocks(matmul) >= BLOCKS;
        *TILES.iter().find(enough).unwrap_or(&TILES[TILES.len() - 1])
    }

    /// M and N of the tile.
    pub(super) fn sizes(&self) -> [u32; 2] {
        [self.rows, self.columns]
    }

    /// Blocks of the grid.
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

    /// The tiles of A and B in a stage.
    pub(super) fn operand_tiles(&self, element: u32) -> [OperandTile; 2] {
        let k = self.k(element);
        [self.rows, self.columns].map(|extent| OperandTile { extent, k, threads: self.threads(), element })
    }

    /// Elements along K of a stage.
    pub(super) fn k(&self, element: u32) -> u32 {
        self.k_bytes / element
    }

    /// M and N of a warp's tile.
    pub(super) fn warp_tile(&self) -> [u32; 2] {
        [self.rows / self.warps[0], self.columns / self.warps[1]]
    }

    pub(super) fn a_bytes(&self) -> u32 {
        self.rows * self.k_bytes
    }

    /// Bytes of a stage: the tiles of A and B.
    pub(super) fn stage_bytes(&self) -> u32 {
        self.a_bytes() + self.columns * self.k_bytes
    }
}

/// The tile of an operand in a stage.
#[derive(Clone, Copy, Debug)]
pub(in crate::tensor_cores) struct OperandTile {
    /// Rows of A or columns of B.
    pub(in crate::tensor_cores) extent: u32,
    /// Elements along K.
    pub(in crate::tensor_cores) k: u32,
    /// Threads that copy it.
    pub(in crate::tensor_cores) threads: u32,
    /// Bytes of an element.
    pub(in crate::tensor_cores) element: u32,
}
