//! Products of 8-bit integers, with sums in 32 bits that wrap.
//!
//! K is never cut: the sums of a tile stay in registers for all of it. Rows of A are packed in blocks for the
//! L2 cache. Panels of B are packed too, unless B lies in memory as microkernels read it: groups of four
//! positions along K, column after column. A constant operand can be stored in that order once.
//!
//! `vpdpbusd` needs one unsigned and one signed operand. If both are of one kind, packing adds 128 to A, or
//! subtracts it, by flipping the highest bit, and 128 times the sum of each column of B is taken from the
//! sums. All of this wraps, so the results are exact modulo 2³².

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
use crate::epilogue::Epilogue;
use crate::fused::OperandAccess;
use crate::gemm::BatchAddresses;
use crate::machine::CpuTarget;
use crate::operand::OperandLayout;
use crate::plan::CheckedProblem;
use crate::problem::{AxisOffsets, GemmProblem};
use levels::DotLevel;
use pack::RowFormat;
use tile::{DotTile, GROUP};

/// A planned product of 8-bit integers: everything in a plan except the batch loops.
#[derive(Debug)]
pub(crate) struct IntegerGemm {
    dot: DotInstructions,
    pub(crate) checked: CheckedProblem,
    /// `None` if sums are only stored.
    pub(crate) epilogue: Option<Epilogue>,
    /// By how much the sum of a column of B is multiplied and added to its sums of products; 0 if elements of
    /// A are not moved.
    correction: i32,
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
    /// The corrections of a tile's columns.
    corrections: usize,
    /// A row of A with ones.
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
    ) -> Option<IntegerGemm> {
        let dot = cpu.dot.or_else(|| DotInstructions::fastest(isa)).filter(|dot| dot.is_available())?;
        let is_unsigned = |memory: StoredType| match memory {
            StoredType::U8 => Some(true),
            StoredType::I8 => Some(false),
            _ => None,
        };
        let (a_unsigned, b_unsigned) = (is_unsigned(problem.a.memory)?, is_unsigned(problem.b.memory)?);
        let [m, n, k] = checked.sizes;
        let level = DotLevel::of(dot);
        let is_wide = level.a_bytes == 2;
        // Flipping makes signed elements of A larger by 128, and unsigned ones smaller.
        let correction = match a_unsigned {
            _ if is_wide || a_unsigned != b_unsigned => 0,
            true => 128,
            false => -128,
        };
        let flip = if correction == 0 { 0 } else { 0x80 };
        let padded = k.next_multiple_of(GROUP);
        // Rows an even number of cache lines apart would compete for the same sets of the L1 cache.
        let row_bytes = (padded * level.a_bytes).next_multiple_of(64) | 64;
        let format = RowFormat { is_wide, is_unsigned: a_unsigned, flip, row_bytes };
        let b_in_place = group_stride(&checked.b, k);
        let width = level.width();
        let mc = (cpu.l2_bytes / 2 / row_bytes / level.rows).max(1) * level.rows;
        let mc = mc.min(m.max(1));
        let nc = match b_in_place {
            Some(_) => n.max(1),
            None => (cpu.l3_bytes / 16 / padded.max(1)).clamp(width, n.max(width)).next_multiple_of(width),
        };
        let epilogue = match &checked.output {
            Some(_) => None,
            None => Some(Epilogue::new(problem, &access(isa, k, &level), None)?),
        };
        let words = epilogue.as_ref().map_or(0, Epilogue::words);
        let packed_b = if b_in_place.is_some() { 0 } else { padded * nc };
        let layout =
            ScratchLayout::new(words, &level, if flip == 0 { 0 } else { padded }, mc * row_bytes, packed_b);
        Some(IntegerGemm { dot, checked, epilogue, correction, format, b_in_place, mc, nc, layout })
    }

    /// The sizes of a block: its rows, its extent along K, and its columns.
    pub(crate) fn block(&self) -> [usize; 3] {
        [self.mc, self.checked.sizes[2], self.nc]
    }

    /// Rows and columns of the largest tile.
    pub(crate) fn tile(&self) -> [usize; 2] {
        let level = DotLevel::of(self.dot);
        [level.rows, level.width()]
    }

    fn k(&self) -> usize {
        self.checked.sizes[2]
    }

    /// Bytes of scratch memory of a call.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Computes the outputs of some rows and columns of the problem.
    ///
    /// # Safety
    ///
    /// The addresses are those of the problem, and the scratch memory has [`IntegerGemm::scratch_bytes`].
    pub(crate) unsafe fn run(&self, base: &BatchAddresses, rows: Range<usize>, columns: Range<usize>) {
        let call = IntegerCall { gemm: self, level: DotLevel::of(self.dot), base };
        // SAFETY: the caller's promise.
        unsafe { call.run(rows, columns) }
    }
}

/// Shows the instructions, and which operands are packed.
impl fmt::Display for IntegerGemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, columns] = self.tile();
        let name = match self.dot {
            DotInstructions::Avx2 => "vpmaddwd",
            DotInstructions::AvxVnni | DotInstructions::Avx512Vnni => "vpdpbusd",
        };
        write!(f, "tiles of {rows}x{columns} by {name}, A packed in blocks of {} rows, ", self.mc)?;
        match self.b_in_place {
            Some(_) => f.write_str("B in place"),
            None => write!(f, "B packed in blocks of {} columns", self.nc),
        }
    }
}

/// What the compiler of epilogues needs to know about tiles, none of which it generates.
fn access(isa: Isa, k: usize, level: &DotLevel) -> OperandAccess {
    OperandAccess {
        isa,
        k,
        is_fusible: false,
        a: None,
        b: None,
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
    fn new(words: usize, level: &DotLevel, ones: usize, a: usize, b: usize) -> ScratchLayout {
        let up = |bytes: usize| bytes.next_multiple_of(64);
        let sums = up(words * 8);
        let corrections = sums + up(level.rows * level.width() * 4);
        let ones_at = corrections + up(level.width() * 4);
        let a_at = ones_at + up(ones);
        let b_at = a_at + up(a);
        ScratchLayout { sums, corrections, ones: ones_at, a: a_at, b: b_at, bytes: b_at + up(b) }
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
}

impl IntegerCall<'_> {
    unsafe fn run(&self, rows: Range<usize>, columns: Range<usize>) {
        let gemm = self.gemm;
        if gemm.correction != 0 {
            // SAFETY: scratch memory has a region for a padded row of ones.
            unsafe {
                self.scratch::<u8>(self.gemm.layout.ones).write_bytes(1, gemm.k().next_multiple_of(GROUP))
            };
        }
        for columns in cut(columns, gemm.nc) {
            // SAFETY: the caller's promise.
            unsafe {
                if gemm.b_in_place.is_none() {
                    for panel in cut(columns.clone(), self.level.width()) {
                        let to = self.packed_panel(&columns, panel.start);
                        pack::panel(&gemm.checked.b, self.base.b, panel, self.level.width(), gemm.k(), to);
                    }
                }
                for rows in cut(rows.clone(), gemm.mc) {
                    let to = self.scratch(gemm.layout.a);
                    pack::rows(&gemm.checked.a, self.base.a, rows.clone(), gemm.k(), to, &gemm.format);
                    for panel in cut(columns.clone(), self.level.width()) {
                        self.panel(&rows, self.panel_at(&columns, panel));
                    }
                }
            }
        }
    }

    /// The packed panel that starts at a column, in a block of columns.
    fn packed_panel(&self, block: &Range<usize>, column: usize) -> *mut u8 {
        let padded = self.gemm.k().next_multiple_of(GROUP);
        self.scratch::<u8>(self.gemm.layout.b).wrapping_add((column - block.start) * padded)
    }

    fn panel_at(&self, block: &Range<usize>, columns: Range<usize>) -> Panel {
        match self.gemm.b_in_place {
            Some(b_group) => {
                let b = self.base.b.wrapping_offset(self.gemm.checked.b.outer.at(columns.start));
                Panel { columns, b, b_group }
            }
            None => {
                let b = self.packed_panel(block, columns.start).cast_const();
                Panel { columns, b, b_group: (self.level.width() * GROUP) as isize }
            }
        }
    }

    /// Computes the tiles of a block of rows, which is packed, and of a panel.
    unsafe fn panel(&self, block: &Range<usize>, panel: Panel) {
        if self.gemm.correction != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.correct(&panel) };
        }
        let tiles = RowTiles::new(block.clone(), self.level.rows);
        for t in 0..tiles.count {
            // SAFETY: the caller's promise.
            unsafe { self.tile(block, tiles.rows(t), &panel) };
        }
    }

    /// Computes the corrections of a panel's columns: their sums, which are products with a row of ones.
    unsafe fn correct(&self, panel: &Panel) {
        let to = self.scratch::<i32>(self.gemm.layout.corrections);
        let tile = DotTile {
            groups: self.gemm.k().div_ceil(GROUP),
            a: self.scratch::<u8>(self.gemm.layout.ones).cast_const(),
            a_row: 0,
            b: panel.b,
            b_group: panel.b_group,
            from: ptr::null(),
            from_row: 0,
            to,
            to_row: 0,
        };
        let count = panel.columns.len();
        // SAFETY: the caller's promise; scratch memory has a row of ones and the corrections of a panel.
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

    unsafe fn tile(&self, block: &Range<usize>, rows: Range<usize>, panel: &Panel) {
        let gemm = self.gemm;
        let columns = panel.columns.clone();
        let sums = self.scratch::<i32>(gemm.layout.sums);
        let sums_row = self.level.width() as isize * 4;
        let at = |matrix: &OutputAddress, base: *mut u8| {
            let offset = rows.start as isize * matrix.row + columns.start as isize * matrix.column;
            (base.wrapping_offset(offset).cast::<i32>(), matrix.row)
        };
        let corrections = self.scratch::<i32>(gemm.layout.corrections);
        let (from, from_row) = match &gemm.checked.initial {
            None if gemm.correction == 0 => (ptr::null_mut(), 0),
            None => (corrections, 0),
            Some(matrix) => {
                let (from, row) = at(matrix, self.base.initial);
                for r in 0..rows.len() {
                    for c in 0..columns.len() {
                        // SAFETY: the caller's promise; scratch memory has the sums of a tile and the
                        // corrections of a panel.
                        unsafe {
                            let from =
                                from.wrapping_byte_offset(r as isize * row + c as isize * matrix.column);
                            let correction = if gemm.correction == 0 { 0 } else { *corrections.add(c) };
                            *sums.add(r * self.level.width() + c) = (*from).wrapping_add(correction);
                        }
                    }
                }
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
            a_row: gemm.format.row_bytes as isize,
            b: panel.b,
            b_group: panel.b_group,
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
