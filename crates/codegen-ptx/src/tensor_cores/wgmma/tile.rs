//! How large tiles are.

use crate::tensor_cores::{Matmul, tile_scheduler};

/// A block's tile of the outputs, and how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WgmmaTile {
    /// Warpgroups that multiply, 64 rows each.
    pub(crate) consumers: u32,
    /// Columns of the outputs: a multiple of 64, up to 256.
    pub(crate) columns: u32,
    /// Stages that shared memory holds.
    pub(crate) stages: u32,
    /// Blocks of a cluster, with tiles below each other.
    pub(crate) cluster: u32,
}

/// Tiles with the time that each takes for an output, in hundredths of what the first takes: smaller ones copy more for it, and multiply with shorter
/// instructions.
pub(super) const TILES: [(WgmmaTile, u64); 5] = [
    (WgmmaTile { consumers: 2, columns: 256, stages: 4, cluster: 2 }, 100),
    (WgmmaTile { consumers: 2, columns: 256, stages: 4, cluster: 1 }, 104),
    (WgmmaTile { consumers: 2, columns: 128, stages: 6, cluster: 1 }, 120),
    (WgmmaTile { consumers: 1, columns: 128, stages: 4, cluster: 1 }, 150),
    (WgmmaTile { consumers: 1, columns: 64, stages: 6, cluster: 1 }, 220),
];

/// Blocks that run at once: one on each processor of the largest device of this family.
const BLOCKS: u64 = 132;

/// Products of a stage: as many as 128 bytes hold, which is the most that copies can exchange.
pub(super) const TILE_K: u32 = 64;

/// Bytes of an element of a factor.
pub(super) const ELEMENT: u32 = 2;

/// Warps of a warpgroup.
pub(super) const WARPS: u32 = 4;

/// Rows of a warpgroup.
pub(super) const ROWS: u32 = 64;

impl WgmmaTile {
    /// The tile with which the product takes the least time: blocks work in waves, of which the last may be nearly empty.
    pub(crate) fn of(matmul: &Matmul) -> WgmmaTile {
        let time = |(tile, each): &(WgmmaTile, u64)| {
            let tiles = tile.tiles(matmul).saturating_mul(u64::from(tile.cluster));
            let area = u64::from(tile.rows()) * u64::from(tile.columns);
            tiles.div_ceil(BLOCKS).saturating_mul(area * each)
        };
        TILES.iter().min_by_key(|tile| time(tile)).map_or(TILES[0].0, |(tile, _)| *tile)
    }

    /// Rows of the outputs.
    pub(super) fn rows(&self) -> u32 {
        ROWS * self.consumers
    }

    /// Rows and columns that a cluster computes together.
    pub(super) fn cluster_tile(&self) -> [u32; 2] {
        [self.rows() * self.cluster, self.columns]
    }

    /// How many tiles clusters have to compute.
    pub(crate) fn tiles(&self, matmul: &Matmul) -> u64 {
        tile_scheduler::tile_count(matmul, self.cluster_tile())
    }

    /// How many blocks compute a product: no more than run at once, each with one tile or several.
    pub(crate) fn blocks(&self, matmul: &Matmul) -> u64 {
        self.tiles(matmul).min(BLOCKS / u64::from(self.cluster)) * u64::from(self.cluster)
    }

    /// Threads of a block: a warpgroup that copies, and those that multiply.
    pub(crate) fn threads(&self) -> u32 {
        super::WARPGROUP * (1 + self.consumers)
    }

    /// Where the tile of a factor begins in a stage.
    pub(super) fn offset(&self, operand: usize) -> u32 {
        [0, self.rows() * TILE_K * ELEMENT][operand]
    }

    /// Bytes of both factors' tiles.
    pub(super) fn stage_bytes(&self) -> u32 {
        (self.rows() + self.columns) * TILE_K * ELEMENT
    }
}
