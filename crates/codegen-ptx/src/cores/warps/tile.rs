//! How large tiles are.

use crate::cores::{Product, place};

/// A block's tile of the outputs, and how it is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Rows of the outputs.
    pub(crate) rows: u32,
    /// Columns of the outputs.
    pub(crate) columns: u32,
    /// Bytes of the products of a stage, of a row or column.
    pub(crate) depth_bytes: u32,
    /// Warps over the rows, and over the columns.
    pub(crate) warps: [u32; 2],
    /// Stages that shared memory holds.
    pub(crate) stages: u32,
}

/// From the largest, which loads each element least often. Whatever the size, a fragment is multiplied twice at least.
const TILES: [Tile; 3] = [
    Tile { rows: 128, columns: 128, depth_bytes: 64, warps: [2, 2], stages: 4 },
    Tile { rows: 64, columns: 128, depth_bytes: 64, warps: [2, 2], stages: 4 },
    Tile { rows: 64, columns: 64, depth_bytes: 64, warps: [2, 2], stages: 4 },
];

/// Blocks that give every multiprocessor of a large device something to do.
const BLOCKS: u64 = 128;

impl Tile {
    /// The largest tile of which there are enough, or the smallest.
    pub(crate) fn of(product: &Product) -> Tile {
        let enough = |tile: &&Tile| tile.blocks(product) >= BLOCKS;
        *TILES.iter().find(enough).unwrap_or(&TILES[TILES.len() - 1])
    }

    /// Rows and columns.
    pub(super) fn sizes(&self) -> [u32; 2] {
        [self.rows, self.columns]
    }

    /// How many blocks compute a product.
    pub(crate) fn blocks(&self, product: &Product) -> u64 {
        place::count(product, self.sizes())
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
    pub(super) fn sides(&self, element: u32) -> [Side; 2] {
        let depth = self.depth(element);
        [self.rows, self.columns].map(|extent| Side { extent, depth, threads: self.threads(), element })
    }

    /// Products of a stage, of elements of so many bytes.
    pub(super) fn depth(&self, element: u32) -> u32 {
        self.depth_bytes / element
    }

    /// Rows and columns of a warp.
    pub(super) fn of_warp(&self) -> [u32; 2] {
        [self.rows / self.warps[0], self.columns / self.warps[1]]
    }

    pub(super) fn left_bytes(&self) -> u32 {
        self.rows * self.depth_bytes
    }

    /// Bytes of both factors' tiles.
    pub(super) fn stage_bytes(&self) -> u32 {
        self.left_bytes() + self.columns * self.depth_bytes
    }
}

/// The tile of a factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    /// Rows or columns.
    pub(super) extent: u32,
    /// Products.
    pub(super) depth: u32,
    /// Threads that copy it.
    pub(super) threads: u32,
    /// Bytes of an element.
    pub(super) element: u32,
}
