//! How a product is cut: which way it is computed, and the sizes of blocks.
//!
//! | Way | When | What is copied |
//! |---|---|---|
//! | direct | few rows, or a small right factor; tiles can read both factors | nothing |
//! | short | the left factor fits the second-level cache | all of it once; of the right factor a few slivers at a time |
//! | packed | otherwise | blocks of both, for the second-level and the shared cache |
//!
//! A sliver is as many columns of the right factor as a tile has, by a block of the depth.

use std::ops::Range;

use crate::machine::Machine;
use crate::pack::TOGETHER;
use crate::tile::HEIGHT;

/// What is known of a product before it is cut.
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    /// Bytes of an element.
    pub(crate) bytes: usize,
    /// Columns of a tile.
    pub(crate) width: usize,
    /// Whether tiles can read the left factor where it is, and find neighbours there: a tile reads along the depth.
    pub(crate) left_is_plain: bool,
    /// Whether they can read the right one.
    pub(crate) right_is_plain: bool,
    /// Whether the depth may be cut.
    pub(crate) sums_can_wait: bool,
}

/// The way a product is computed, and sizes of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub(crate) way: Way,
    /// Depth of a block; what is left is spread, so blocks are about equal.
    pub(crate) depth: usize,
    /// Rows of a block.
    pub(crate) rows: usize,
    /// Columns of a block.
    pub(crate) columns: usize,
}

/// The way a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Tiles read both factors where they are.
    Direct {
        /// Whether rows are the outer loop: the right factor stays in the first-level cache.
        rows_outside: bool,
    },
    /// The left factor is packed whole, the right one by slivers.
    Short,
    /// Blocks of both are packed.
    Packed {
        /// Whether the left factor is; else tiles read it where it is.
        left: bool,
    },
}

impl Blocks {
    pub(crate) fn new(shape: &Shape, machine: &Machine) -> Blocks {
        let way = way(shape, machine);
        let elements = |bytes: usize| bytes / shape.bytes;
        let depth = match way {
            Way::Direct { .. } => shape.depth,
            _ if !shape.sums_can_wait => shape.depth,
            // Half of the first-level cache for a sliver.
            _ => (elements(machine.first) / (2 * shape.width)).clamp(64, 1024),
        };
        let depth = even(shape.depth, depth);
        let rows = (elements(machine.second) / 3 / depth.max(1)).clamp(2 * HEIGHT, 1024) / HEIGHT * HEIGHT;
        let columns = match way {
            // What a few slivers are packed from are neighbours, which are found in the first-level cache again.
            Way::Short => TOGETHER * shape.width,
            // A quarter of the shared cache at most, and no more than what page tables of the second level reach.
            _ => (elements(machine.shared) / 4 / depth.max(1)).clamp(shape.width, 2048),
        };
        let columns = match way {
            Way::Short => columns.min(shape.columns.next_multiple_of(shape.width)),
            _ => even(shape.columns, columns).next_multiple_of(shape.width),
        };
        Blocks { way, depth, rows, columns }
    }
}

fn way(shape: &Shape, machine: &Machine) -> Way {
    let right = shape.depth * shape.columns * shape.bytes;
    let left = shape.depth * shape.rows * shape.bytes;
    let readable = shape.left_is_plain && shape.right_is_plain;
    let small = right <= machine.second / 4 || shape.rows <= 2 * HEIGHT;
    if readable && small {
        Way::Direct { rows_outside: right <= machine.first * 3 / 4 }
    } else if left <= machine.second / 2 && shape.rows <= 128 {
        Way::Short
    } else {
        Way::Packed { left: !shape.left_is_plain || shape.columns > 128 }
    }
}

/// The largest block if `whole` is cut into the fewest about equal ones that are at most `most`.
fn even(whole: usize, most: usize) -> usize {
    if whole == 0 { 1 } else { whole.div_ceil(whole.div_ceil(most.max(1))) }
}

/// Consecutive ranges of `step` that make up a range; the last one may be shorter.
pub(crate) fn cut(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(step).map(move |at| at..(at + step).min(range.end))
}

/// Tiles of nearly equal heights that make up some rows: a tile of one row is as slow as one of six.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    first: usize,
    pub(crate) number: usize,
    height: usize,
    /// How many of the first ones have a row more.
    higher: usize,
}

impl Tiles {
    #[inline(always)]
    pub(crate) fn new(rows: Range<usize>) -> Tiles {
        let count = rows.len();
        let number = count.div_ceil(HEIGHT);
        let height = count.checked_div(number).unwrap_or(0);
        Tiles { first: rows.start, number, height, higher: count - number * height }
    }

    /// The first row of a tile; for the number of tiles, the end.
    #[inline(always)]
    pub(crate) fn row(&self, tile: usize) -> usize {
        self.first + tile * self.height + tile.min(self.higher)
    }

    /// The rows of a tile.
    #[inline(always)]
    pub(crate) fn rows(&self, tile: usize) -> Range<usize> {
        self.row(tile)..self.row(tile + 1)
    }
}
