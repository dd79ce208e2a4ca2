//! Tile sizes of `wgmma` kernels.

use crate::tensor_cores::{Matmul, tile_scheduler};

/// The tile of a block, and how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WgmmaTile {
    /// Consumer warpgroups, which compute 64 rows each.
    pub(crate) consumers: u32,
    /// N of the tile: a multiple of 64, up to 256.
    pub(crate) columns: u32,
    /// Pipeline stages in shared memory.
    pub(crate) stages: u32,
    /// Blocks of a cluster, whose tiles are below each other.
    pub(crate) cluster: u32,
}

/// Tiles with the estimated time per output, in percent of the first tile's. Smaller tiles load more per
/// output and use shorter `wgmma` instructions.
pub(super) const TILES: [(WgmmaTile, u64); 5] = [
    (WgmmaTile { consumers: 2, columns: 256, stages: 4, cluster: 2 }, 100),
    (WgmmaTile { consumers: 2, columns: 256, stages: 4, cluster: 1 }, 104),
    (WgmmaTile { consumers: 2, columns: 128, stages: 6, cluster: 1 }, 120),
    (WgmmaTile { consumers: 1, columns: 128, stages: 4, cluster: 1 }, 150),
    (WgmmaTile { consumers: 1, columns: 64, stages: 6, cluster: 1 }, 220),
];

/// Blocks that run at once: one per SM of the largest Hopper GPU.
const BLOCKS: u64 = 132;

/// Elements along K of a stage: 128 bytes, the widest swizzle.
pub(super) const TILE_K: u32 = 64;

/// Bytes of an operand's element.
pub(super) const ELEMENT: u32 = 2;

/// Warps of a warpgroup.
pub(super) const WARPS: u32 = 4;

/// Rows of a warpgroup.
pub(super) const ROWS: u32 = 64;

impl WgmmaTile {
    /// The tile with the shortest estimated time. The estimate counts whole waves of blocks, because a wave
    /// takes its full time even if it is nearly empty.
    pub(crate) fn of(matmul: &Matmul) -> WgmmaTile {
        let time = |(tile, each): &(WgmmaTile, u64)| {
            let tiles = tile.tiles(matmul).saturating_mul(u64::from(tile.cluster));
            let area = u64::from(tile.rows()) * u64::from(tile.columns);
            tiles.div_ceil(BLOCKS).saturating_mul(area * each)
        };
        TILES.iter().min_by_key(|tile| time(tile)).map_or(TILES[0].0, |(tile, _)| *tile)
    }

    /// M of a block's tile.
    pub(super) fn rows(&self) -> u32 {
        ROWS * self.consumers
    }

    /// M and N of a cluster's tile.
    pub(super) fn cluster_tile(&self) -> [u32; 2] {
        [self.rows() * self.cluster, self.columns]
    }

    /// Number of tiles of all clusters.
    pub(crate) fn tiles(&self, matmul: &Matmul) -> u64 {
        tile_scheduler::tile_count(matmul, self.cluster_tile())
    }

    /// Blocks of the grid: at most as many as run at once. A block computes one or several tiles.
    pub(crate) fn blocks(&self, matmul: &Matmul) -> u64 {
        self.tiles(matmul).min(BLOCKS / u64::from(self.cluster)) * u64::from(self.cluster)
    }

    /// Threads of a block: the producer warpgroup and the consumers.
    pub(crate) fn threads(&self) -> u32 {
        super::WARPGROUP * (1 + self.consumers)
    }

    /// Offset of an operand's tile in a stage.
    pub(super) fn offset(&self, operand: usize) -> u32 {
        [0, self.rows() * TILE_K * ELEMENT][operand]
    }

    /// Bytes of a stage: the tiles of A and B.
    pub(super) fn stage_bytes(&self) -> u32 {
        (self.rows() + self.columns) * TILE_K * ELEMENT
    }
}
