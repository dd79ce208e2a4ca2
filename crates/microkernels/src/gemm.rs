//! The five loops around microkernels, with packing, for one matrix product.
//!
//! A call computes the outputs of some rows and columns. For each output, the loop over blocks of K is the
//! outermost one, and its blocks come in ascending order. Between blocks, partial sums are stored where the
//! outputs go, or in scratch memory if an epilogue reads all outputs before it overwrites them.
//!
//! A product may be computed transposed, with the operands exchanged. The sums of a call then go to a matrix
//! in scratch memory, from which the epilogue reads them.

mod transposed; // the epilogue of transposed products

use std::ops::Range;
use std::ptr;

use crate::address::OutputAddress;
use crate::blocking::{Blocking, Packing, RowTiles, cut};
use crate::epilogue::{Epilogue, OperandAccess};
use crate::operand::OperandLayout;
use crate::pack::{self, ColumnReader, OVERRUN, TileRows};
use crate::simd::{MAX_ROWS, Simd, VectorCode};
use crate::tile::{self, IndexedRows, OperandForm, Tile};
use crate::tile_shape::TileShape;

/// A planned matrix product: everything in a plan except the batch loops.
#[derive(Debug)]
pub(crate) struct Gemm {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: OperandLayout,
    pub(crate) b: OperandLayout,
    pub(crate) initial: Option<OutputAddress>,
    /// Where accumulators are stored between blocks of K, and at the end if there is no epilogue.
    pub(crate) output: Option<OutputAddress>,
    pub(crate) epilogue: Option<Epilogue>,
    pub(crate) blocking: Blocking,
    /// The most rows of a tile.
    pub(crate) height: usize,
    /// The position of the microkernels that read A in groups of rows.
    pub(crate) row_groups: Option<usize>,
    /// Columns of a packed micro-panel of B.
    pub(crate) panel: usize,
    /// Whether the first tile of a column packs its micro-panel of B, if there is a microkernel for that.
    pub(crate) packs_in_tiles: bool,
    /// Offsets of A in bytes by position along K, if microkernels read A in place through tables.
    pub(crate) k_offsets: Option<Vec<i64>>,
    /// If contiguous runs of A along K are long, how many positions of the run are left from each one on.
    pub(crate) k_runs: Option<Vec<u32>>,
    /// Whether the operands are exchanged: rows of this product are columns of the problem. The sums go to
    /// scratch memory before the epilogue, which exists.
    pub(crate) is_transposed: bool,
    /// Whether sums between blocks of K are in scratch memory.
    pub(crate) sums_in_scratch: bool,
    /// The most rows for which a call reads both operands in place although the plan packs B. A run may have
    /// fewer rows than planned, and so few that packing takes longer.
    pub(crate) few_rows: usize,
    /// Whether B, where it is read in place, is in a far cache. The rows of a tile are whole rows of B apart,
    /// which the hardware's prefetcher does not foresee, so each tile prefetches some of the next.
    pub(crate) b_is_far: bool,
}

/// An iteration of the batch, of so many of a call for the same columns.
#[derive(Clone, Copy)]
pub(crate) struct BatchIteration {
    pub(crate) is_first: bool,
    pub(crate) count: u64,
}

/// Base addresses for one iteration of the batch: position 0 of every dimension.
#[derive(Clone, Copy)]
pub(crate) struct BatchAddresses {
    pub(crate) a: *const u8,
    pub(crate) b: *const u8,
    /// Null if the accumulators start at zero.
    pub(crate) initial: *mut u8,
    /// Null if the accumulators go to scratch memory only.
    pub(crate) output: *mut u8,
    pub(crate) scratch: *mut u8,
}

/// Offsets of regions of scratch memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchLayout {
    /// The accumulators of a tile. The region before them, from 0 on, holds the bindings and base addresses
    /// of an epilogue.
    accumulators: usize,
    a: usize,
    b: usize,
    /// The sums between blocks of K.
    sums: usize,
    pub(crate) bytes: usize,
}

/// The position of a block of K among all blocks of K.
#[derive(Clone, Copy)]
struct KBlock {
    first: bool,
    last: bool,
}

#[derive(Clone, Copy)]
struct TileOperands<'a, V: Simd> {
    k: usize,
    a: TileOperand,
    b: TileOperand,
    /// How far behind B lies what the tile prefetches; 0 if that is not needed.
    ahead: isize,
    form: OperandForm,
    /// Operand A in place, if it is addressed by tables; `a` is not used then.
    indexed: Option<IndexedRows<V>>,
    /// What reads B if the tile packs it.
    reader: Option<&'a ColumnReader<'a, V>>,
}

/// A micro-panel of B for a column of tiles.
struct Panel<'a, V: Simd> {
    b: TileOperand,
    /// How far behind it lies what the first tile prefetches; 0 if that is not needed.
    ahead: isize,
    /// What reads it if the first tile packs it.
    reader: Option<&'a ColumnReader<'a, V>>,
}

/// One operand of a tile, in place or packed.
#[derive(Clone, Copy)]
struct TileOperand {
    address: *const u8,
    /// Bytes from a row of A to the next.
    row_stride: isize,
    /// Bytes from a position along K to the next.
    k_stride: isize,
}

impl<V: Simd> TileOperands<'_, V> {
    /// Whether generated tiles read operands with these strides.
    fn have_strides_of(&self, access: &OperandAccess, height: usize) -> bool {
        let size = V::SIZE;
        let a = match self.form {
            OperandForm::Packed | OperandForm::Streamed => (size, height as isize * size),
            OperandForm::Strided => (self.a.row_stride, self.a.k_stride),
        };
        self.k == access.k
            && a == access.a.unwrap_or((size, height as isize * size))
            && self.b.k_stride == access.b.unwrap_or(access.width as isize * size)
    }
}

impl Gemm {
    /// How the tiles of the last block of K access the operands.
    pub(crate) fn operand_access(
        tiles: &TileShape,
        a: &OperandLayout,
        b: &OperandLayout,
        k: usize,
        blocking: &Blocking,
        [b_is_far, packs_in_tiles]: [bool; 2],
    ) -> OperandAccess {
        let blocks = k.div_ceil(blocking.kc).max(1);
        let a_in_place = match blocking.packing {
            Packing::Unpacked { .. } => true,
            Packing::WholeA => false,
            Packing::Blocks { a, .. } => !a,
        };
        OperandAccess {
            k: k - (blocks - 1) * blocking.kc,
            is_fusible: !(a_in_place && a.strides().is_none()),
            a: a.strides().filter(|_| a_in_place),
            b: b.strides().filter(|_| !blocking.packing.packs_b()).map(|(_, k)| k),
            b_is_far,
            packs_in_tiles,
            isa: tiles.isa,
            height: tiles.rows,
            width: tiles.width() as u32,
            vector: tiles.lanes as u32,
        }
    }

    /// Assigns the regions of scratch memory.
    pub(crate) fn layout(&self, tiles: &TileShape) -> ScratchLayout {
        let size = tiles.bytes;
        let up = |bytes: usize| bytes.next_multiple_of(64);
        let blocking = &self.blocking;
        let (a, b) = match blocking.packing {
            Packing::Unpacked { .. } => (0, 0),
            Packing::WholeA => (self.m * self.k, blocking.kc * blocking.nc),
            Packing::Blocks { a, b } => (
                if a { blocking.mc.min(self.m) * blocking.kc } else { 0 },
                if b { blocking.kc * blocking.nc } else { 0 },
            ),
        };
        let accumulators = up(self.epilogue.as_ref().map_or(0, |e| e.words() * 8));
        let operand = |elements: usize| if elements == 0 { 0 } else { up((elements + OVERRUN) * size) };
        let a_at = accumulators + up(tiles.accumulator_rows() * tiles.width() * size);
        let b_at = a_at + operand(a);
        let sums = b_at + operand(b);
        let bytes = sums + if self.sums_in_scratch { self.m * self.sums_row(tiles) } else { 0 };
        ScratchLayout { accumulators, a: a_at, b: b_at, sums, bytes }
    }

    /// Bytes of a row of the sums in scratch memory.
    fn sums_row(&self, tiles: &TileShape) -> usize {
        self.n.next_multiple_of(tiles.width()) * tiles.bytes
    }

    /// Whether all iterations of the batch use what the first one packed of one operand.
    pub(crate) fn shares_packed(&self) -> bool {
        let operand = match self.blocking.packing {
            Packing::WholeA => &self.a,
            packing if packing.shares_b() && self.blocking.kc >= self.k => {
                // Columns of a transposed product are rows of the problem, of which a call has all.
                if self.is_transposed && self.blocking.nc < self.n {
                    return false;
                }
                &self.b
            }
            _ => return false,
        };
        operand.batch.iter().all(|&bytes| bytes == 0)
    }

    /// The most columns that all iterations of the batch compute before further ones.
    pub(crate) fn shared_columns(&self) -> usize {
        let is_cut = !self.is_transposed && self.blocking.packing.shares_b() && self.shares_packed();
        if is_cut { self.blocking.nc } else { usize::MAX }
    }

    /// Computes the outputs of some rows and columns of the problem, whose sums have `k` products.
    /// The first iteration of a batch leaves the shared operand ([`Gemm::shares_packed`]) in the scratch
    /// memory for the others, which have the same rows and columns, at most [`Gemm::shared_columns`].
    ///
    /// # Safety
    ///
    /// The CPU has the instructions of the vectors; the addresses are those of the problem, and the scratch
    /// memory has as many bytes as the layout says.
    pub(crate) unsafe fn run<V: Simd>(
        &self,
        layout: &ScratchLayout,
        base: &BatchAddresses,
        [rows, columns]: [Range<usize>; 2],
        k: usize,
        iteration: BatchIteration,
    ) {
        let shares_packed = self.shares_packed();
        let is_packed = shares_packed && !iteration.is_first;
        let uses = if shares_packed { iteration.count.max(1) } else { 1 };
        let has_few_rows = (rows.len() as u64).saturating_mul(uses) <= self.few_rows as u64;
        let width = V::SHAPE.width();
        let call = GemmCall { gemm: self, layout, base, k, is_packed, has_few_rows, width };
        // SAFETY: the caller's promise.
        unsafe { V::enter(GemmRegion { call, rows, columns }) }
    }
}

/// One call of [`Gemm::run`].
pub(crate) struct GemmCall<'a> {
    gemm: &'a Gemm,
    layout: &'a ScratchLayout,
    base: &'a BatchAddresses,
    /// The products of each sum, at most as many as planned.
    k: usize,
    /// Whether the shared operand is packed already.
    is_packed: bool,
    /// Whether there are at most [`Gemm::few_rows`].
    has_few_rows: bool,
    /// Columns of a full tile.
    width: usize,
}

/// The outputs that one call of [`Gemm::run`] computes.
struct GemmRegion<'a> {
    call: GemmCall<'a>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl<V: Simd> VectorCode<V> for GemmRegion<'_> {
    #[inline(always)]
    unsafe fn run(self) {
        // SAFETY: the caller's promise.
        unsafe { self.call.run::<V>(self.rows, self.columns) }
    }
}

impl GemmCall<'_> {
    /// Computes the outputs of some rows and columns.
    #[inline(always)]
    unsafe fn run<V: Simd>(&self, rows: Range<usize>, columns: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.gemm.is_transposed {
                let (a, b) = match self.gemm.blocking.packing {
                    Packing::Blocks { a, b } => (a, b),
                    _ => unreachable!("transposed products have blocks"),
                };
                self.blocks::<V>(columns.clone(), rows.clone(), a, b);
                return self.transposed_epilogue::<V>(rows, columns);
            }
            match self.gemm.blocking.packing {
                _ if self.has_few_rows => self.unpacked::<V>(rows, columns, false),
                Packing::Unpacked { rows_outer } => self.unpacked::<V>(rows, columns, rows_outer),
                Packing::WholeA => self.whole_a::<V>(rows, columns),
                Packing::Blocks { a, b } => self.blocks::<V>(rows, columns, a, b),
            }
        }
    }

    #[inline(always)]
    unsafe fn unpacked<V: Simd>(&self, rows: Range<usize>, columns: Range<usize>, rows_outer: bool) {
        let gemm = self.gemm;
        let (Some((a_row, a_k)), Some((b_column, b_k))) = (gemm.a.strides(), gemm.b.strides()) else {
            unreachable!("operands stay unpacked only if microkernels can read both in place");
        };
        let block = KBlock { first: true, last: true };
        let tiles = RowTiles::new(rows, V::ROWS);
        let a = TileOperand { address: self.base.a, row_stride: a_row, k_stride: a_k };
        let b = TileOperand { address: self.base.b, row_stride: 0, k_stride: b_k };
        let form = OperandForm::Strided;
        let mut operands = TileOperands::<V> { k: self.k, a, b, ahead: 0, form, indexed: None, reader: None };
        let (outer, inner) = if rows_outer { (tiles.count, 1) } else { (1, tiles.count) };
        if let (None, None, Some(output)) = (&gemm.initial, &gemm.epilogue, &gemm.output) {
            // SAFETY: the caller's promise.
            return unsafe {
                self.unpacked_and_stored::<V>(tiles, columns, operands, b_column, output.row, (outer, inner))
            };
        }
        let end = columns.end;
        for t in 0..outer {
            let mut at = columns.start;
            while at < end {
                let columns = at..end.min(at + self.width);
                operands.b.address = self.base.b.wrapping_offset(at as isize * b_column);
                operands.ahead = self.next_panel(&columns, end);
                for t in t..t + inner {
                    let rows = tiles.rows(t);
                    operands.a.address = self.base.a.wrapping_offset(rows.start as isize * a_row);
                    // SAFETY: the caller's promise.
                    unsafe { self.tile::<V>(rows, columns.clone(), operands, block) };
                    operands.ahead = 0;
                }
                at += self.width;
            }
        }
    }

    /// Does the same as [`GemmCall::unpacked`], for accumulators that start at zero and are only stored. It
    /// computes less between tiles, which matters if tiles are small. The operands are those of row 0 and
    /// column 0.
    #[inline(always)]
    unsafe fn unpacked_and_stored<V: Simd>(
        &self,
        tiles: RowTiles,
        columns: Range<usize>,
        operands: TileOperands<'_, V>,
        b_column: isize,
        to_row: isize,
        (outer, inner): (usize, usize),
    ) {
        let TileOperands { k, a, b, form, .. } = operands;
        let mut tile = Tile::<V> {
            k,
            a: a.address.cast(),
            a_row: a.row_stride,
            a_k: a.k_stride,
            b: b.address.cast(),
            b_k: b.k_stride,
            ahead: 0,
            from: ptr::null::<V::Element>(),
            from_row: 0,
            to: self.base.output.cast(),
            to_row,
        };
        let panel = if self.gemm.b_is_far { self.width as isize * b_column } else { 0 };
        for t in 0..outer {
            let mut at = columns.start;
            while at < columns.end {
                tile.b = b.address.wrapping_offset(at as isize * b_column).cast();
                tile.ahead = if at + self.width < columns.end { panel } else { 0 };
                for t in t..t + inner {
                    let first = tiles.row(t) as isize;
                    tile.a = a.address.wrapping_offset(first * a.row_stride).cast();
                    tile.to = self
                        .base
                        .output
                        .wrapping_offset(first * to_row)
                        .cast::<V::Element>()
                        .wrapping_add(at);
                    let height = tiles.row(t + 1) - tiles.row(t);
                    // SAFETY: the caller's promise.
                    unsafe { tile::run::<V>(&tile, form, height, self.width.min(columns.end - at)) };
                    tile.ahead = 0;
                }
                at += self.width;
            }
        }
    }

    #[inline(always)]
    unsafe fn whole_a<V: Simd>(&self, rows: Range<usize>, columns: Range<usize>) {
        let gemm = self.gemm;
        let tiles = RowTiles::new(rows.clone(), V::ROWS);
        let (a, b) = (self.scratch::<V::Element>(self.layout.a), self.scratch::<V::Element>(self.layout.b));
        let blocks = || cut(0..self.k.max(1), gemm.blocking.kc);
        // SAFETY: the caller's promise; the packed blocks of A lie one after the other, `rows.len()` elements
        // for each position along K.
        unsafe {
            for k in blocks().filter(|_| !self.is_packed) {
                let k = k.start..k.end.min(self.k);
                self.pack_a::<V>(tiles, k.clone(), a.add(rows.len() * k.start));
            }
            for columns in cut(columns, gemm.blocking.nc) {
                for k in blocks() {
                    let block = KBlock { first: k.start == 0, last: k.end >= self.k };
                    let k = k.start..k.end.min(self.k);
                    if !self.packs_in_tiles::<V>() {
                        self.pack_b::<V>(columns.clone(), k.clone(), b);
                    }
                    let a = a.add(rows.len() * k.start);
                    for some in cut(columns.clone(), self.width) {
                        let to = b.add((some.start - columns.start) * k.len());
                        let packs = self.packs_in_tiles::<V>();
                        let reader = if packs { self.reader(tiles, &some, &k, to) } else { None };
                        let b = self.packed_panel::<V>(to);
                        let panel = Panel { b, ahead: 0, reader: reader.as_ref() };
                        self.tile_column::<V>(tiles, some, k.clone(), Some(a), panel, block);
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn blocks<V: Simd>(&self, rows: Range<usize>, columns: Range<usize>, pack_a: bool, pack_b: bool) {
        let gemm = self.gemm;
        let groups = gemm.row_groups.map(|at| &V::ROW_GROUPS[at]);
        let fits = |size: usize| rows.start.is_multiple_of(size) && rows.len().is_multiple_of(size);
        let (height, unit) = match groups {
            Some(groups) if fits(groups.size) => (gemm.height, groups.size),
            Some(_) => (V::INDEXED_ROWS, 1),
            None => (gemm.height, 1),
        };
        let all = RowTiles::in_units(rows, height, unit);
        let per_block = (gemm.blocking.mc / height).max(1);
        let per_block = all.count.div_ceil(all.count.div_ceil(per_block).max(1)).max(1);
        let (a, b) = (self.scratch::<V::Element>(self.layout.a), self.scratch::<V::Element>(self.layout.b));
        for columns in cut(columns, gemm.blocking.nc) {
            for k in cut(0..self.k.max(1), gemm.blocking.kc) {
                let block = KBlock { first: k.start == 0, last: k.end >= self.k };
                let k = k.start..k.end.min(self.k);
                // SAFETY: the caller's promise; micro-panels lie one after the other.
                unsafe {
                    if pack_b && !self.packs_in_tiles::<V>() && !self.is_packed {
                        self.pack_b::<V>(columns.clone(), k.clone(), b);
                    }
                    for tiles in cut(0..all.count, per_block) {
                        let packs = self.packs_in_tiles::<V>() && tiles.start == 0 && !self.is_packed;
                        let rows = all.row(tiles.start)..all.row(tiles.end);
                        let tiles = RowTiles::in_units(rows, height, unit);
                        if pack_a {
                            self.pack_a::<V>(tiles, k.clone(), a);
                        }
                        for some in cut(columns.clone(), self.width) {
                            let b = b.wrapping_add((some.start - columns.start) * k.len());
                            let reader = if packs { self.reader(tiles, &some, &k, b) } else { None };
                            let b = match pack_b {
                                true => self.packed_panel::<V>(b),
                                false => self.panel_in_place(some.start, k.start),
                            };
                            let a = pack_a.then_some(a);
                            let ahead = self.next_panel(&some, columns.end);
                            let panel = Panel { b, ahead, reader: reader.as_ref() };
                            self.tile_column::<V>(tiles, some, k.clone(), a, panel, block);
                        }
                    }
                }
            }
        }
    }

    /// Packs A so that one tile follows the other: the rows of the tile for each position along K.
    #[inline(always)]
    unsafe fn pack_a<V: Simd>(&self, tiles: RowTiles, k: Range<usize>, to: *mut V::Element) {
        if TileRows::<V>::copies(&self.gemm.a) {
            let job = TileRows { operand: &self.gemm.a, from: self.base.a, tiles, k_range: k, to };
            // SAFETY: the caller's promise.
            return unsafe { V::enter(job) };
        }
        for t in 0..tiles.count {
            let rows = tiles.rows(t);
            let to = to.wrapping_add((rows.start - tiles.row(0)) * k.len());
            let height = rows.len();
            // SAFETY: the caller's promise; tiles come in ascending order, so the next tile overwrites the
            // elements that a store wrote past the end of its tile.
            unsafe { pack::micro_panel::<V>(&self.gemm.a, self.base.a, rows, k.clone(), to, height) };
        }
    }

    /// Packs micro-panels of B.
    #[inline(always)]
    unsafe fn pack_b<V: Simd>(&self, columns: Range<usize>, k: Range<usize>, to: *mut V::Element) {
        let gemm = self.gemm;
        // SAFETY: the caller's promise; micro-panels lie one after the other.
        unsafe { pack::micro_panels::<V>(&gemm.b, self.base.b, columns, k, to, gemm.panel) };
    }

    /// Whether the first tile of a column packs its micro-panel of B.
    #[inline(always)]
    fn packs_in_tiles<V: Simd>(&self) -> bool {
        !V::PACKING_MICROKERNELS.is_empty() && self.gemm.packs_in_tiles
    }

    /// What reads a micro-panel of B for the first of some tiles, which packs it; or packs it and returns
    /// `None`.
    #[inline(always)]
    unsafe fn reader<V: Simd>(
        &self,
        tiles: RowTiles,
        columns: &Range<usize>,
        k: &Range<usize>,
        to: *mut V::Element,
    ) -> Option<ColumnReader<'_, V>> {
        // SAFETY: the caller's promise.
        unsafe {
            if tile::packs::<V>(tiles.rows(0).len(), columns.len()) {
                let reader = ColumnReader::new(&self.gemm.b, self.base.b, columns.clone(), k.clone());
                if reader.is_some() {
                    return reader;
                }
            }
            self.pack_b::<V>(columns.clone(), k.clone(), to);
        }
        None
    }

    /// A packed micro-panel of B.
    #[inline(always)]
    fn packed_panel<V: Simd>(&self, at: *mut V::Element) -> TileOperand {
        TileOperand { address: at.cast(), row_stride: 0, k_stride: self.gemm.panel as isize * V::SIZE }
    }

    /// A micro-panel of B in place.
    #[inline(always)]
    fn panel_in_place(&self, column: usize, k: usize) -> TileOperand {
        let (b_column, k_stride) = self.gemm.b.strides().unwrap_or_default();
        let offset = column as isize * b_column + k as isize * k_stride;
        TileOperand { address: self.base.b.wrapping_offset(offset), row_stride: 0, k_stride }
    }

    /// How far the next micro-panel of B before a column lies behind one in place, if it is worth
    /// prefetching; otherwise 0.
    #[inline(always)]
    fn next_panel(&self, columns: &Range<usize>, end: usize) -> isize {
        let (b_column, _) = self.gemm.b.strides().unwrap_or_default();
        let is_next = self.gemm.b_is_far && columns.end < end;
        if is_next { columns.len() as isize * b_column } else { 0 }
    }

    /// Rows of A in place that tables address, in groups of a unit, at positions along K from `k` on.
    #[inline(always)]
    fn indexed_rows<V: Simd>(&self, rows: Range<usize>, unit: usize, k: usize) -> Option<IndexedRows<V>> {
        let k_offsets = self.gemm.k_offsets.as_ref()?[k..].as_ptr();
        let mut pointers = [self.base.a; MAX_ROWS];
        for (pointer, row) in pointers.iter_mut().zip(rows.step_by(unit)) {
            *pointer = self.base.a.wrapping_offset(self.gemm.a.outer.at(row));
        }
        let groups = self.gemm.row_groups.filter(|_| unit > 1).map(|at| &V::ROW_GROUPS[at]);
        let k_runs = self.gemm.k_runs.as_ref().map_or(ptr::null(), |runs| runs[k..].as_ptr());
        Some(IndexedRows { rows: pointers, groups, k_offsets, k_runs })
    }

    /// Computes a column of tiles with a micro-panel of B.
    #[inline(always)]
    unsafe fn tile_column<V: Simd>(
        &self,
        tiles: RowTiles,
        columns: Range<usize>,
        k: Range<usize>,
        a: Option<*mut V::Element>,
        panel: Panel<'_, V>,
        block: KBlock,
    ) {
        let gemm = self.gemm;
        let Panel { b, mut ahead, mut reader } = panel;
        for t in 0..tiles.count {
            let rows = tiles.rows(t);
            let indexed =
                if a.is_none() { self.indexed_rows(rows.clone(), tiles.unit, k.start) } else { None };
            let (a, form) = match a {
                Some(a) => {
                    let address = a.wrapping_add((rows.start - tiles.row(0)) * k.len()).cast();
                    let k_stride = rows.len() as isize * V::SIZE;
                    let form = match gemm.blocking.packing.packs_b() {
                        true => OperandForm::Packed,
                        false => OperandForm::Streamed,
                    };
                    (TileOperand { address, row_stride: V::SIZE, k_stride }, form)
                }
                None => {
                    let (row_stride, k_stride) = gemm.a.strides().unwrap_or_default();
                    let offset = rows.start as isize * row_stride + k.start as isize * k_stride;
                    (
                        TileOperand { address: self.base.a.wrapping_offset(offset), row_stride, k_stride },
                        OperandForm::Strided,
                    )
                }
            };
            let operands = TileOperands { k: k.len(), a, b, ahead, form, indexed, reader };
            // SAFETY: the caller's promise.
            unsafe { self.tile::<V>(rows, columns.clone(), operands, block) };
            (ahead, reader) = (0, None);
        }
    }

    /// The sums in scratch memory from a row and a column on, and the bytes of a row.
    #[inline(always)]
    fn sums<V: Simd>(&self, row: usize, column: usize) -> (*mut V::Element, isize) {
        let stride = self.gemm.sums_row(&V::SHAPE);
        let at = self.layout.sums + row * stride;
        (self.scratch::<V::Element>(at).wrapping_add(column), stride as isize)
    }

    /// Computes one tile for one block of K: initial accumulators, microkernel, and the epilogue if the block
    /// is the last.
    #[inline(always)]
    unsafe fn tile<V: Simd>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        operands: TileOperands<'_, V>,
        block: KBlock,
    ) {
        let gemm = self.gemm;
        let epilogue = gemm.epilogue.as_ref().filter(|_| block.last && !gemm.is_transposed);
        // Generated tiles are for the planned number of products and operands, and pack nothing.
        let is_planned = self.k == gemm.k && !self.has_few_rows;
        let generated = epilogue.filter(|_| is_planned && operands.reader.is_none());
        if let Some((epilogue, function)) =
            generated.and_then(|epilogue| Some((epilogue, epilogue.tile(rows.len(), columns.len())?)))
        {
            debug_assert!(operands.have_strides_of(epilogue.operand_access(), rows.len()));
            let next = operands.b.address.wrapping_offset(operands.ahead);
            let addresses = [operands.a.address, operands.b.address, next];
            let words = self.base.scratch.cast();
            // SAFETY: the caller's promise.
            return unsafe { epilogue.run_tile(function, words, addresses, [rows.start, columns.start]) };
        }
        let accumulators = self.scratch::<V::Element>(self.layout.accumulators);
        let accumulators_row = self.width as isize * V::SIZE;
        let at = |matrix: &OutputAddress, base: *mut u8| {
            let offset = rows.start as isize * matrix.row + columns.start as isize * matrix.column;
            (base.wrapping_offset(offset).cast::<V::Element>(), matrix.row)
        };
        let partial_sums = match &gemm.output {
            _ if gemm.sums_in_scratch => self.sums::<V>(rows.start, columns.start),
            Some(matrix) => at(matrix, self.base.output),
            None => (accumulators, accumulators_row),
        };
        let (from, from_row) = match &gemm.initial {
            _ if !block.first => partial_sums,
            None => (ptr::null_mut(), 0),
            Some(matrix) if matrix.column == V::SIZE => at(matrix, self.base.initial),
            Some(matrix) => {
                let (from, row) = at(matrix, self.base.initial);
                for r in 0..rows.len() {
                    // SAFETY: the caller's promise; scratch memory has a region for the accumulators of a
                    // tile.
                    unsafe {
                        let value = *from.wrapping_byte_offset(r as isize * row);
                        (0..columns.len()).for_each(|c| *accumulators.add(r * self.width + c) = value);
                    }
                }
                (accumulators, accumulators_row)
            }
        };
        let (to, to_row) = if epilogue.is_some() { (accumulators, accumulators_row) } else { partial_sums };
        let TileOperands { k, a, b, ahead, form, indexed, reader } = operands;
        let tile = Tile::<V> {
            k,
            a: a.address.cast(),
            a_row: a.row_stride,
            a_k: a.k_stride,
            b: b.address.cast(),
            b_k: b.k_stride,
            ahead,
            from: from.cast_const(),
            from_row,
            to,
            to_row,
        };
        // SAFETY: the caller's promise.
        unsafe {
            match (&indexed, reader) {
                (Some(a), _) => tile::run_indexed::<V>(&tile, a, rows.len(), columns.len()),
                (_, Some(reader)) => tile::run_packing::<V>(&tile, reader, rows.len(), columns.len()),
                (None, None) => tile::run::<V>(&tile, form, rows.len(), columns.len()),
            }
            if let Some(epilogue) = epilogue {
                epilogue.run(self.base.scratch.cast(), accumulators.cast(), rows, columns);
            }
        }
    }

    #[inline(always)]
    fn scratch<T>(&self, offset: usize) -> *mut T {
        self.base.scratch.wrapping_add(offset).cast()
    }
}
