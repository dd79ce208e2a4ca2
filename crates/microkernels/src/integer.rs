//! Products of 8-bit integers, with sums in 32 bits that wrap.
//!
//! K is never cut: the sums of a tile stay in registers for all of it. Rows of A are packed in blocks for the
//! L2 cache. Panels of B are packed too, unless B lies in memory as microkernels read it: groups of four
//! positions along K, column after column. A constant operand can be stored in that order once.
//!
//! `vpdpbusd` needs one unsigned and one signed operand, `sdot` and `smmla` two of one kind. If A is of the
//! wrong kind, packing adds 128 to it, or subtracts it, by flipping the highest bit, and 128 times the sum of
//! each column of B is taken from the sums. The constants that are subtracted from the elements are taken out
//! of the sums alike: `Σ (x - a)(z - b) = Σ xz - a Σ z - b Σ (x - a)`. All of this wraps, so the results are
//! exact modulo 2³².

#[cfg(target_arch = "x86_64")]
mod amx; // the microkernels of AMX
mod level; // a set of instructions as the loops see it
#[cfg_attr(target_arch = "x86_64", path = "integer/x86.rs")]
#[cfg_attr(target_arch = "aarch64", path = "integer/neon.rs")]
mod levels; // the microkernels of each set of instructions
mod pack; // packing of both operands
mod tile; // the code of microkernels

use std::fmt;
use std::ops::Range;
use std::ptr;

use vector_asm::{Isa, StoredType};

use crate::address::OutputAddress;
use crate::blocking::{RowTiles, cut};
use crate::dot::DotInstructions;
use crate::epilogue::{Epilogue, OperandAccess};
use crate::gemm::BatchAddresses;
use crate::machine::CpuTarget;
use crate::operand::OperandLayout;
use crate::plan::{CheckedProblem, PlanSource};
use crate::problem::{AxisOffsets, GemmProblem};
use level::{DotLevel, DotTiles};
use pack::RowFormat;
use tile::{DotTile, GROUP};

/// A planned product of 8-bit integers: everything in a plan except the batch loops.
#[derive(Debug)]
pub(crate) struct IntegerGemm {
    dot: DotInstructions,
    pub(crate) checked: CheckedProblem,
    /// `None` if sums are only stored.
    pub(crate) epilogue: Option<Epilogue>,
    /// By how much the sum of a column of B is multiplied and added to its sums of products: by how much
    /// packing moves elements of A, less what is subtracted from them.
    correction: i32,
    /// What is subtracted from the elements of A and of B.
    zeros: [i32; 2],
    /// How rows of A are packed.
    format: RowFormat,
    /// Bytes from a group of B to the next, if microkernels read B in place.
    b_in_place: Option<isize>,
    /// Rows and columns of a block.
    mc: usize,
    nc: usize,
    layout: ScratchLayout,
}

/// Offsets of regions of scratch memory, in bytes. The bindings and base addresses of an epilogue are at 0.
#[derive(Clone, Copy, Debug)]
struct ScratchLayout {
    /// The sums of a tile.
    sums: usize,
    /// The corrections of the columns of a block, and those of its rows.
    corrections: usize,
    row_corrections: usize,
    /// A strip of A with ones.
    ones: usize,
    a: usize,
    b: usize,
    bytes: usize,
}

impl IntegerGemm {
    /// Returns `None` if the CPU lacks the instructions, or if the operands are no 8-bit integers.
    pub(crate) fn new(
        problem: &GemmProblem,
        isa: Isa,
        cpu: &CpuTarget,
        checked: CheckedProblem,
        source: PlanSource<'_>,
    ) -> Option<IntegerGemm> {
        let is_unsigned = |memory: StoredType| match memory {
            StoredType::U8 => Some(true),
            StoredType::I8 => Some(false),
            _ => None,
        };
        let (a_unsigned, b_unsigned) = (is_unsigned(problem.a.memory)?, is_unsigned(problem.b.memory)?);
        let dot = cpu
            .dot
            .or_else(|| DotInstructions::fastest(isa))
            .filter(|dot| !source.runs_here() || dot.is_available())?;
        let [m, n, k] = checked.sizes;
        let level = DotTiles::of(dot);
        // Flipping makes signed elements of A larger by 128, and unsigned ones smaller.
        let (flip, moved) = match a_unsigned {
            _ if !level.moves(a_unsigned, b_unsigned) => (0, 0),
            true => (0x80, 128),
            false => (0x80, -128),
        };
        let zeros = [problem.a.zero, problem.b.zero];
        let correction = i32::wrapping_sub(moved, zeros[0]);
        // Rows an even number of cache lines apart would compete for the same sets of the L1 cache.
        let row_bytes = (level.padded(k) * level.a_bytes()).next_multiple_of(64) | 64;
        let runs = pack::runs(&checked.a, k);
        let is_wide = level.a_bytes() == 2;
        let format = RowFormat {
            runs,
            padded: level.padded(k),
            strip: level.strip,
            is_wide,
            is_unsigned: a_unsigned,
            flip,
            row_bytes,
        };
        let b_in_place = group_stride(&checked.b, k);
        let (width, padded) = (level.width(), k.next_multiple_of(GROUP));
        let mc = (cpu.l2_bytes / 2 / row_bytes / level.rows).max(1) * level.rows;
        let mc = mc.min(m.max(1));
        let nc = match b_in_place {
            Some(_) => n.max(1),
            None => (cpu.l3_bytes / 16 / padded.max(1)).clamp(width, n.max(width)).next_multiple_of(width),
        };
        let epilogue = match &checked.output {
            Some(_) => None,
            None => Some(source.epilogue(problem, &access(isa, k, &level), None)?),
        };
        let words = epilogue.as_ref().map_or(0, Epilogue::words);
        let packed_b = if b_in_place.is_some() { 0 } else { padded * nc };
        let [corrections, ones] = if correction == 0 { [0; 2] } else { [nc * 4, format.strip_bytes()] };
        let row_corrections = if zeros[1] == 0 { 0 } else { mc * 4 };
        let packed_a = format.block_bytes(mc.next_multiple_of(level.unit));
        let regions = [corrections, row_corrections, ones, packed_a, packed_b];
        let layout = ScratchLayout::new(words, &level, regions);
        Some(IntegerGemm { dot, checked, epilogue, correction, zeros, format, b_in_place, mc, nc, layout })
    }

    /// The sizes of a block: its rows, its extent along K, and its columns.
    pub(crate) fn block(&self) -> [usize; 3] {
        [self.mc, self.checked.sizes[2], self.nc]
    }

    /// Rows and columns of the largest tile.
    pub(crate) fn tile(&self) -> [usize; 2] {
        let level = DotTiles::of(self.dot);
        [level.rows, level.width()]
    }

    fn k(&self) -> usize {
        self.checked.sizes[2]
    }

    /// Bytes of scratch memory of a call.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Whether all iterations of the batch read the same B.
    pub(crate) fn has_one_b(&self) -> bool {
        self.checked.b.batch.iter().all(|&bytes| bytes == 0)
    }

    /// Computes the outputs of some rows and columns of the problem. `has_b` says that the last run with this
    /// scratch memory had the same B and columns.
    ///
    /// # Safety
    ///
    /// The addresses are those of the problem, and the scratch memory has [`IntegerGemm::scratch_bytes`].
    pub(crate) unsafe fn run(
        &self,
        base: &BatchAddresses,
        rows: Range<usize>,
        columns: Range<usize>,
        has_b: bool,
    ) {
        let call = IntegerCall { gemm: self, level: DotLevel::of(self.dot), base };
        let has_b = has_b && columns.len() <= self.nc;
        // SAFETY: the caller's promise; scratch memory holds B if all columns are one block. `new` checked
        // that the CPU has the instructions.
        unsafe { call.level.with_registers(|| call.run(rows, columns, has_b)) }
    }
}

/// Shows the instructions, and which operands are packed.
impl fmt::Display for IntegerGemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.tile();
        let name = match self.dot {
            DotInstructions::Avx2 => "vpmaddwd",
            DotInstructions::AvxVnni | DotInstructions::Avx512VlVnni | DotInstructions::Avx512Vnni => {
                "vpdpbusd"
            }
            DotInstructions::Amx => "tdpbusd",
            DotInstructions::Neon => "smull",
            DotInstructions::NeonDot => "sdot",
            DotInstructions::NeonMatrix => "smmla",
        };
        write!(f, "tiles of {rows}x{columns} by {name}, A packed in blocks of {} rows, ", self.mc)?;
        match self.b_in_place {
            Some(_) => f.write_str("B in place"),
            None => write!(f, "B packed in blocks of {} columns", self.nc),
        }
    }
}

/// What the compiler of epilogues needs to know about tiles, none of which it generates.
fn access(isa: Isa, k: usize, level: &DotTiles) -> OperandAccess {
    OperandAccess {
        isa,
        k,
        is_fusible: false,
        a: None,
        b: None,
        b_is_far: false,
        packs_in_tiles: false,
        height: level.rows,
        width: level.width() as u32,
        vector: level.columns as u32,
    }
}

/// Bytes from a group to the next, if the operand is stored in groups: four positions along K one after the
/// other, and the groups of neighboring columns one after the other.
fn group_stride(operand: &OperandLayout, k: usize) -> Option<isize> {
    let is_column = operand.outer == AxisOffsets::Strided(GROUP as i64);
    if !operand.limits.is_empty() || !is_column || !k.is_multiple_of(GROUP) {
        return None;
    }
    let stride = if k > GROUP { operand.k.at(GROUP) } else { 0 };
    let at = |p: usize| (p / GROUP) as isize * stride + (p % GROUP) as isize;
    (0..k).all(|p| operand.k.at(p) == at(p)).then_some(stride)
}

impl ScratchLayout {
    /// Regions of so many bytes behind the sums, in the order of the fields.
    fn new(words: usize, level: &DotTiles, regions: [usize; 5]) -> ScratchLayout {
        let sums = (words * 8).next_multiple_of(64);
        let mut bytes = sums + (level.rows * level.width() * 4).next_multiple_of(64);
        let [corrections, row_corrections, ones, a, b] = regions.map(|region| {
            let start = bytes;
            bytes += region.next_multiple_of(64);
            start
        });
        ScratchLayout { sums, corrections, row_corrections, ones, a, b, bytes }
    }
}

/// One call of [`IntegerGemm::run`].
struct IntegerCall<'a> {
    gemm: &'a IntegerGemm,
    level: DotLevel,
    base: &'a BatchAddresses,
}

/// A panel of B, in place or packed.
#[derive(Clone)]
struct Panel {
    columns: Range<usize>,
    b: *const u8,
    b_group: isize,
    /// Bytes to the next panel, if it is read in place: neighboring groups of a panel are far apart, which
    /// the hardware's prefetcher does not foresee.
    ahead: isize,
    /// The corrections of the columns.
    corrections: *mut i32,
}

impl IntegerCall<'_> {
    unsafe fn run(&self, rows: Range<usize>, columns: Range<usize>, has_b: bool) {
        let gemm = self.gemm;
        if gemm.correction != 0 && !has_b {
            // SAFETY: scratch memory has a region for a strip of ones.
            unsafe { self.write_ones() };
        }
        for columns in cut(columns, gemm.nc) {
            let mut is_corrected = gemm.correction == 0 || has_b;
            // SAFETY: the caller's promise.
            unsafe {
                if gemm.b_in_place.is_none() && !has_b {
                    for panel in cut(columns.clone(), self.level.tiles.width()) {
                        let to = self.packed_panel(&columns, panel.start);
                        pack::panel(
                            &gemm.checked.b,
                            self.base.b,
                            panel,
                            self.level.tiles.width(),
                            gemm.k(),
                            to,
                        );
                    }
                }
                for rows in cut(rows.clone(), gemm.mc) {
                    let to = self.scratch(gemm.layout.a);
                    pack::rows(&gemm.checked.a, self.base.a, rows.clone(), gemm.k(), to, &gemm.format);
                    if gemm.zeros[1] != 0 {
                        self.correct_rows(rows.clone());
                    }
                    for panel in cut(columns.clone(), self.level.tiles.width()) {
                        let panel = self.panel_at(&columns, panel);
                        if !is_corrected {
                            self.correct(&panel);
                        }
                        // Tiles start with a strip, or with a register of rows.
                        let unit = self.level.tiles.unit;
                        let units = RowTiles::new(0..rows.len().div_ceil(unit), self.level.tiles.rows / unit);
                        for t in 0..units.count {
                            let [start, end] = [t, t + 1].map(|t| rows.start + units.row(t) * unit);
                            self.tile(&rows, start..end.min(rows.end), &panel);
                        }
                    }
                    is_corrected = true;
                }
            }
        }
    }

    /// Writes a strip of A whose elements are 1.
    unsafe fn write_ones(&self) {
        let (ones, bytes) = (self.gemm.layout.ones, self.gemm.format.strip_bytes());
        // SAFETY: the caller's promise.
        unsafe {
            match self.gemm.format.is_wide {
                true => std::slice::from_raw_parts_mut(self.scratch::<u16>(ones), bytes / 2).fill(1),
                false => self.scratch::<u8>(ones).write_bytes(1, bytes),
            }
        }
    }

    /// Computes the corrections of the rows of a block.
    unsafe fn correct_rows(&self, rows: Range<usize>) {
        let IntegerGemm { checked, format, zeros: [a, b], layout, .. } = self.gemm;
        let to = self.scratch::<i32>(layout.row_corrections);
        for (at, row) in rows.enumerate() {
            // SAFETY: the caller's promise; scratch memory has the corrections of a block.
            unsafe {
                let sum = pack::row_sum(&checked.a, self.base.a, row, &format.runs);
                let centered = sum.wrapping_sub(a.wrapping_mul(self.gemm.k() as i32));
                *to.add(at) = centered.wrapping_mul(b.wrapping_neg());
            }
        }
    }

    /// The packed panel that starts at a column, in a block of columns.
    fn packed_panel(&self, block: &Range<usize>, column: usize) -> *mut u8 {
        let padded = self.gemm.k().next_multiple_of(GROUP);
        self.scratch::<u8>(self.gemm.layout.b).wrapping_add((column - block.start) * padded)
    }

    fn panel_at(&self, block: &Range<usize>, columns: Range<usize>) -> Panel {
        let corrections = self.scratch::<i32>(self.gemm.layout.corrections);
        let corrections = corrections.wrapping_add(columns.start - block.start);
        match self.gemm.b_in_place {
            Some(b_group) => {
                let b = self.base.b.wrapping_offset(self.gemm.checked.b.outer.at(columns.start));
                let ahead = if columns.end < block.end { columns.len() * GROUP } else { 0 };
                Panel { columns, b, b_group, ahead: ahead as isize, corrections }
            }
            None => {
                let b = self.packed_panel(block, columns.start).cast_const();
                Panel {
                    columns,
                    b,
                    b_group: (self.level.tiles.width() * GROUP) as isize,
                    ahead: 0,
                    corrections,
                }
            }
        }
    }

    /// Computes the corrections of a panel's columns: their sums, which are products with a row of ones.
    unsafe fn correct(&self, panel: &Panel) {
        let to = panel.corrections;
        let tile = DotTile {
            groups: self.gemm.k().div_ceil(GROUP),
            a: self.scratch::<u8>(self.gemm.layout.ones).cast_const(),
            a_strip: 0,
            b: panel.b,
            b_group: panel.b_group,
            b_is_padded: self.gemm.b_in_place.is_none(),
            ahead: panel.ahead,
            from: ptr::null(),
            from_row: 0,
            to,
            to_row: 0,
        };
        let count = panel.columns.len();
        // SAFETY: the caller's promise; scratch memory has a strip of ones and the corrections of a block.
        unsafe {
            self.level.run(&tile, self.is_unsigned(), 1, count);
            for sum in std::slice::from_raw_parts_mut(to, count) {
                *sum = sum.wrapping_mul(self.gemm.correction);
            }
        }
    }

    fn is_unsigned(&self) -> bool {
        self.gemm.checked.b.memory == StoredType::U8
    }

    /// Writes what the sums of a tile start at: the initial sums, and all corrections.
    unsafe fn write_initial(&self, block: &Range<usize>, rows: &Range<usize>, panel: &Panel) {
        let IntegerGemm { checked, correction, zeros, layout, .. } = self.gemm;
        let sums = self.scratch::<i32>(layout.sums);
        let of_rows = self.scratch::<i32>(layout.row_corrections);
        for (r, row) in rows.clone().enumerate() {
            for (c, column) in panel.columns.clone().enumerate() {
                // SAFETY: the caller's promise; scratch memory has the sums of a tile, and those corrections
                // that are not 0.
                unsafe {
                    let initial = checked.initial.as_ref().map_or(0, |matrix| {
                        let offset = row as isize * matrix.row + column as isize * matrix.column;
                        *self.base.initial.wrapping_offset(offset).cast::<i32>()
                    });
                    let of_column = if *correction == 0 { 0 } else { *panel.corrections.add(c) };
                    let of_row = if zeros[1] == 0 { 0 } else { *of_rows.add(row - block.start) };
                    *sums.add(r * self.level.tiles.width() + c) =
                        initial.wrapping_add(of_column).wrapping_add(of_row);
                }
            }
        }
    }

    unsafe fn tile(&self, block: &Range<usize>, rows: Range<usize>, panel: &Panel) {
        let gemm = self.gemm;
        let columns = panel.columns.clone();
        let sums = self.scratch::<i32>(gemm.layout.sums);
        let sums_row = self.level.tiles.width() as isize * 4;
        let at = |matrix: &OutputAddress, base: *mut u8| {
            let offset = rows.start as isize * matrix.row + columns.start as isize * matrix.column;
            (base.wrapping_offset(offset).cast::<i32>(), matrix.row)
        };
        let (from, from_row) = match (&gemm.checked.initial, gemm.zeros[1]) {
            (None, 0) if gemm.correction == 0 => (ptr::null_mut(), 0),
            (None, 0) => (panel.corrections, 0),
            _ => {
                // SAFETY: the caller's promise.
                unsafe { self.write_initial(block, &rows, panel) };
                (sums, sums_row)
            }
        };
        let (to, to_row) = match &gemm.checked.output {
            Some(matrix) => at(matrix, self.base.output),
            None => (sums, sums_row),
        };
        let row = (rows.start - block.start) * gemm.format.row_bytes;
        let tile = DotTile {
            groups: gemm.k().div_ceil(GROUP),
            a: self.scratch::<u8>(gemm.layout.a + row).cast_const(),
            a_strip: gemm.format.strip_bytes() as isize,
            b: panel.b,
            b_group: panel.b_group,
            b_is_padded: gemm.b_in_place.is_none(),
            ahead: if rows.start == block.start { panel.ahead } else { 0 },
            from: from.cast_const(),
            from_row,
            to,
            to_row,
        };
        // SAFETY: the caller's promise; the rows of the block are packed.
        unsafe {
            self.level.run(&tile, self.is_unsigned(), rows.len(), columns.len());
            if let Some(epilogue) = &gemm.epilogue {
                epilogue.run(self.base.scratch.cast(), sums.cast(), rows, columns);
            }
        }
    }

    fn scratch<T>(&self, offset: usize) -> *mut T {
        self.base.scratch.wrapping_add(offset).cast()
    }
}
