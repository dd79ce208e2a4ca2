//! The drivers: loops around tiles and packing, for one product.
//!
//! Each computes the outputs of some rows and columns. The depth is always the outermost loop that any one output sees, and its blocks come in
//! order; between blocks the sums wait where outputs go.

use std::ops::Range;
use std::ptr;

use crate::blocks::{Blocks, Tiles, Way, cut};
use crate::epilogue::Epilogue;
use crate::fused::Reading;
use crate::output::Spot;
use crate::pack::{self, SPILL};
use crate::real::Real;
use crate::side::Side;
use crate::tile::{self, Form, HEIGHT, Tile, WIDTH};

/// A product with its blocks; what a plan holds besides loops around it.
#[derive(Debug)]
pub(crate) struct Product {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) left: Side,
    pub(crate) right: Side,
    pub(crate) start: Option<Spot>,
    /// Where sums wait between blocks of the depth, and stay if there is no epilogue.
    pub(crate) output: Option<Spot>,
    pub(crate) epilogue: Option<Epilogue>,
    pub(crate) blocks: Blocks,
}

/// Addresses of one call and iteration of the batch: of position 0 on every axis.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) left: *const u8,
    pub(crate) right: *const u8,
    /// Null: sums begin at zero.
    pub(crate) start: *mut u8,
    /// Null: sums go to scratch memory only.
    pub(crate) output: *mut u8,
    pub(crate) scratch: *mut u8,
}

/// Places in scratch memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The sums of a tile; before them, from 0 on, are the bindings and base addresses of an epilogue.
    sums: usize,
    left: usize,
    right: usize,
    pub(crate) bytes: usize,
}

/// A block of the depth.
#[derive(Clone, Copy)]
struct Block {
    first: bool,
    last: bool,
}

/// Both factors of a tile.
#[derive(Clone, Copy)]
struct Operands {
    depth: usize,
    left: At,
    right: At,
    form: Form,
}

/// A factor where a tile reads it.
#[derive(Clone, Copy)]
struct At {
    address: *const u8,
    /// Bytes per row, for a left factor.
    row: isize,
    /// Bytes per depth.
    depth: isize,
}

impl Operands {
    /// Whether a generated tile reads them where they are.
    fn are_read_as(&self, reading: &Reading, height: usize, size: isize) -> bool {
        let left = match self.form {
            Form::Packed => (size, height as isize * size),
            Form::Strided => (self.left.row, self.left.depth),
        };
        self.depth == reading.depth
            && left == reading.left.unwrap_or((size, height as isize * size))
            && self.right.depth == reading.right.unwrap_or(reading.width as isize * size)
    }
}

impl Product {
    /// How tiles of the last block of the depth read the factors.
    pub(crate) fn reading<T: Real>(left: &Side, right: &Side, depth: usize, blocks: &Blocks) -> Reading {
        let cuts = depth.div_ceil(blocks.depth).max(1);
        let (plain_left, plain_right) = match blocks.way {
            Way::Direct { .. } => (true, true),
            Way::Short => (false, false),
            Way::Packed { left } => (!left, false),
        };
        Reading {
            depth: depth - (cuts - 1) * blocks.depth,
            left: left.steps().filter(|_| plain_left),
            right: right.steps().filter(|_| plain_right).map(|(_, depth)| depth),
            width: (WIDTH * T::LANES) as u32,
            vector: T::LANES as u32,
        }
    }

    /// Where things are in scratch memory.
    pub(crate) fn layout<T: Real>(&self) -> Layout {
        let size = size_of::<T>();
        let width = WIDTH * T::LANES;
        let up = |bytes: usize| bytes.next_multiple_of(64);
        let blocks = &self.blocks;
        let (left, right) = match blocks.way {
            Way::Direct { .. } => (0, 0),
            Way::Short => (self.rows * self.depth, blocks.depth * blocks.columns),
            Way::Packed { left } => (
                if left { blocks.rows.min(self.rows) * blocks.depth } else { 0 },
                blocks.depth * blocks.columns,
            ),
        };
        let sums = up(self.epilogue.as_ref().map_or(0, |e| e.words() * 8));
        let factor = |elements: usize| if elements == 0 { 0 } else { up((elements + SPILL) * size) };
        let left_at = sums + up(HEIGHT * width * size);
        let right_at = left_at + factor(left);
        Layout { sums, left: left_at, right: right_at, bytes: right_at + factor(right) }
    }

    /// Computes the outputs of some rows and columns.
    ///
    /// # Safety
    ///
    /// The machine has AVX2, FMA and F16C; the addresses are those of the contraction, and scratch memory has the bytes of the layout.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(crate) unsafe fn run<T: Real>(
        &self,
        layout: &Layout,
        at: &Origin,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        let job = Job { what: self, layout, at, width: WIDTH * T::LANES };
        // SAFETY: the caller's promise.
        unsafe {
            match self.blocks.way {
                Way::Direct { rows_outside } => job.direct::<T>(rows, columns, rows_outside),
                Way::Short => job.short::<T>(rows, columns),
                Way::Packed { left } => job.packed::<T>(rows, columns, left),
            }
        }
    }
}

struct Job<'a> {
    what: &'a Product,
    layout: &'a Layout,
    at: &'a Origin,
    /// Columns of a tile.
    width: usize,
}

impl Job<'_> {
    #[inline(always)]
    unsafe fn direct<T: Real>(&self, rows: Range<usize>, columns: Range<usize>, rows_outside: bool) {
        let what = self.what;
        let (Some((row, left_depth)), Some((column, right_depth))) = (what.left.steps(), what.right.steps())
        else {
            unreachable!("blocks are cut for this way only if tiles can read both factors");
        };
        let block = Block { first: true, last: true };
        let tiles = Tiles::new(rows);
        let left = At { address: self.at.left, row, depth: left_depth };
        let right = At { address: self.at.right, row: 0, depth: right_depth };
        let mut operands = Operands { depth: what.depth, left, right, form: Form::Strided };
        let (outer, inner) = if rows_outside { (tiles.number, 1) } else { (1, tiles.number) };
        if let (None, None, Some(output)) = (&what.start, &what.epilogue, &what.output) {
            // SAFETY: the caller's promise.
            return unsafe { self.stored::<T>(tiles, columns, operands, column, output.row, (outer, inner)) };
        }
        for t in 0..outer {
            let mut at = columns.start;
            while at < columns.end {
                let columns = at..columns.end.min(at + self.width);
                operands.right.address = self.at.right.wrapping_offset(at as isize * column);
                for t in t..t + inner {
                    let rows = tiles.rows(t);
                    operands.left.address = self.at.left.wrapping_offset(rows.start as isize * row);
                    // SAFETY: the caller's promise.
                    unsafe { self.tile::<T>(rows, columns.clone(), operands, block) };
                }
                at += self.width;
            }
        }
    }

    /// As [`Job::direct`], for sums that begin at zero and are only stored: between small tiles nothing else is worked out. The operands are at row and
    /// column 0.
    #[inline(always)]
    unsafe fn stored<T: Real>(
        &self,
        tiles: Tiles,
        columns: Range<usize>,
        operands: Operands,
        column: isize,
        to_row: isize,
        (outer, inner): (usize, usize),
    ) {
        let Operands { depth, left, right, form } = operands;
        let mut tile = Tile {
            depth,
            left: left.address.cast(),
            left_row: left.row,
            left_depth: left.depth,
            right: right.address.cast(),
            right_depth: right.depth,
            from: ptr::null::<T>(),
            from_row: 0,
            to: self.at.output.cast(),
            to_row,
        };
        for t in 0..outer {
            let mut at = columns.start;
            while at < columns.end {
                tile.right = right.address.wrapping_offset(at as isize * column).cast();
                for t in t..t + inner {
                    let first = tiles.row(t) as isize;
                    tile.left = left.address.wrapping_offset(first * left.row).cast();
                    tile.to = self.at.output.wrapping_offset(first * to_row).cast::<T>().wrapping_add(at);
                    let height = tiles.row(t + 1) - tiles.row(t);
                    // SAFETY: the caller's promise.
                    unsafe { tile::run(&tile, form, height, self.width.min(columns.end - at)) };
                }
                at += self.width;
            }
        }
    }

    #[inline(always)]
    unsafe fn short<T: Real>(&self, rows: Range<usize>, columns: Range<usize>) {
        let what = self.what;
        let tiles = Tiles::new(rows.clone());
        let (left, right) = (self.scratch::<T>(self.layout.left), self.scratch::<T>(self.layout.right));
        let blocks = || cut(0..what.depth.max(1), what.blocks.depth);
        // SAFETY: the caller's promise; the blocks of the left factor lie one after the other, `rows` elements for each depth.
        unsafe {
            for depth in blocks() {
                let depth = depth.start..depth.end.min(what.depth);
                self.pack_left::<T>(tiles, depth.clone(), left.add(rows.len() * depth.start));
            }
            for columns in cut(columns, what.blocks.columns) {
                for depth in blocks() {
                    let block = Block { first: depth.start == 0, last: depth.end >= what.depth };
                    let depth = depth.start..depth.end.min(what.depth);
                    let from = self.at.right;
                    pack::slivers(&what.right, from, columns.clone(), depth.clone(), right, self.width);
                    let left = left.add(rows.len() * depth.start);
                    for some in cut(columns.clone(), self.width) {
                        let right = right.add((some.start - columns.start) * depth.len());
                        self.column::<T>(tiles, some, depth.clone(), Some(left), right, block);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn packed<T: Real>(&self, rows: Range<usize>, columns: Range<usize>, pack_left: bool) {
        let what = self.what;
        let all = Tiles::new(rows);
        let per_block = (what.blocks.rows / HEIGHT).max(1);
        let per_block = all.number.div_ceil(all.number.div_ceil(per_block).max(1)).max(1);
        let (left, right) = (self.scratch::<T>(self.layout.left), self.scratch::<T>(self.layout.right));
        for columns in cut(columns, what.blocks.columns) {
            for depth in cut(0..what.depth.max(1), what.blocks.depth) {
                let block = Block { first: depth.start == 0, last: depth.end >= what.depth };
                let depth = depth.start..depth.end.min(what.depth);
                // SAFETY: the caller's promise; slivers lie one behind the other.
                unsafe {
                    let from = self.at.right;
                    pack::slivers(&what.right, from, columns.clone(), depth.clone(), right, self.width);
                    for tiles in cut(0..all.number, per_block) {
                        let tiles = Tiles::new(all.row(tiles.start)..all.row(tiles.end));
                        if pack_left {
                            self.pack_left::<T>(tiles, depth.clone(), left);
                        }
                        for some in cut(columns.clone(), self.width) {
                            let right = right.add((some.start - columns.start) * depth.len());
                            let left = pack_left.then_some(left);
                            self.column::<T>(tiles, some, depth.clone(), left, right, block);
                        }
                    }
                }
            }
        }
    }

    /// Packs tile after tile: `height` elements for each depth.
    #[inline(always)]
    unsafe fn pack_left<T: Real>(&self, tiles: Tiles, depth: Range<usize>, to: *mut T) {
        for t in 0..tiles.number {
            let rows = tiles.rows(t);
            let to = to.wrapping_add((rows.start - tiles.row(0)) * depth.len());
            let height = rows.len();
            // SAFETY: the caller's promise; tiles come in ascending order, so spills are overwritten.
            unsafe { pack::panel(&self.what.left, self.at.left, rows, depth.clone(), to, height) };
        }
    }

    /// The tiles of a sliver, with a packed right factor.
    #[inline(always)]
    unsafe fn column<T: Real>(
        &self,
        tiles: Tiles,
        columns: Range<usize>,
        depth: Range<usize>,
        left: Option<*mut T>,
        right: *mut T,
        block: Block,
    ) {
        let what = self.what;
        let right = At { address: right.cast(), row: 0, depth: self.width as isize * T::SIZE };
        for t in 0..tiles.number {
            let rows = tiles.rows(t);
            let (left, form) = match left {
                Some(left) => {
                    let address = left.wrapping_add((rows.start - tiles.row(0)) * depth.len());
                    (At { address: address.cast(), row: 0, depth: 0 }, Form::Packed)
                }
                None => {
                    let (row, step) = what.left.steps().unwrap_or_default();
                    let offset = rows.start as isize * row + depth.start as isize * step;
                    (At { address: self.at.left.wrapping_offset(offset), row, depth: step }, Form::Strided)
                }
            };
            let operands = Operands { depth: depth.len(), left, right, form };
            // SAFETY: the caller's promise.
            unsafe { self.tile::<T>(rows, columns.clone(), operands, block) };
        }
    }

    /// One tile over a block of the depth, with what comes before and after it.
    #[inline(always)]
    unsafe fn tile<T: Real>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        operands: Operands,
        block: Block,
    ) {
        let what = self.what;
        let epilogue = what.epilogue.as_ref().filter(|_| block.last);
        if let Some((epilogue, function)) =
            epilogue.and_then(|epilogue| Some((epilogue, epilogue.tile(rows.len(), columns.len())?)))
        {
            debug_assert!(operands.are_read_as(epilogue.reading(), rows.len(), T::SIZE));
            let factors = [operands.left.address, operands.right.address];
            let words = self.at.scratch.cast();
            // SAFETY: the caller's promise.
            return unsafe { epilogue.run_tile(function, words, factors, [rows.start, columns.start]) };
        }
        let sums = self.scratch::<T>(self.layout.sums);
        let sums_row = self.width as isize * T::SIZE;
        let at = |spot: &Spot, base: *mut u8| {
            let offset = rows.start as isize * spot.row + columns.start as isize * spot.column;
            (base.wrapping_offset(offset).cast::<T>(), spot.row)
        };
        let waiting = what.output.as_ref().map_or((sums, sums_row), |spot| at(spot, self.at.output));
        let (from, from_row) = match &what.start {
            _ if !block.first => waiting,
            None => (ptr::null_mut(), 0),
            Some(spot) if spot.column == T::SIZE => at(spot, self.at.start),
            Some(spot) => {
                let (from, row) = at(spot, self.at.start);
                for r in 0..rows.len() {
                    // SAFETY: the caller's promise; the sums of a tile have a place in scratch memory.
                    unsafe {
                        let value = *from.wrapping_byte_offset(r as isize * row);
                        (0..columns.len()).for_each(|c| *sums.add(r * self.width + c) = value);
                    }
                }
                (sums, sums_row)
            }
        };
        let (to, to_row) = if epilogue.is_some() { (sums, sums_row) } else { waiting };
        let Operands { depth, left, right, form } = operands;
        let tile = Tile {
            depth,
            left: left.address.cast(),
            left_row: left.row,
            left_depth: left.depth,
            right: right.address.cast(),
            right_depth: right.depth,
            from: from.cast_const(),
            from_row,
            to,
            to_row,
        };
        // SAFETY: the caller's promise.
        unsafe {
            tile::run(&tile, form, rows.len(), columns.len());
            if let Some(epilogue) = epilogue {
                epilogue.run(self.at.scratch.cast(), sums.cast(), rows, columns);
            }
        }
    }

    #[inline(always)]
    fn scratch<T>(&self, offset: usize) -> *mut T {
        self.at.scratch.wrapping_add(offset).cast()
    }
}
