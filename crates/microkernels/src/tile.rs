//! Microkernels: each computes a register tile of up to six rows by two vectors of columns.
//!
//! A microkernel reads A and B, packed or in place, and keeps the tile's accumulators in registers while it
//! walks along K. The accumulators start at zero or at values in memory, and each adds its products in
//! ascending order of K with fused multiply-add. Cutting M, N or K into blocks therefore changes no bit.
//! Microkernels with a fused epilogue are generated for each plan ([`crate::fused`]) and sum in the same
//! order.
//!
//! There is a function for each height, width and form of operands, compiled ahead of time; [`run`] picks
//! one, and [`run_indexed`] for an operand A that is addressed by tables.

use std::arch::x86_64::*;

use crate::float::Float;

/// Rows of the largest tile, MR in BLIS. Six rows by two vectors of accumulators, two vectors of B and one
/// broadcast element of A take 15 of the 16 registers.
pub(crate) const MR: usize = 6;

/// Columns of the largest tile in vectors; this many vectors are NR in BLIS.
pub(crate) const NR_VECTORS: usize = 2;

/// The operands, accumulators and result of one microkernel call. Strides are in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Tile<T> {
    /// Products that each accumulator adds.
    pub(crate) k: usize,
    /// A's element in the tile's first row, at the first position along K.
    pub(crate) a: *const T,
    pub(crate) a_row: isize,
    pub(crate) a_k: isize,
    /// B's element in the tile's first column, at the first position along K. A row of B is contiguous.
    pub(crate) b: *const T,
    pub(crate) b_k: isize,
    /// The initial accumulators; null for zeros.
    pub(crate) from: *const T,
    pub(crate) from_row: isize,
    /// The destination of the accumulators.
    pub(crate) to: *mut T,
    pub(crate) to_row: isize,
}

/// How A and B lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandForm {
    /// Both are packed: for each position along K, A has `height` elements, and B has two vectors whatever
    /// the width of the tile.
    Packed,
    /// Both have strides. B is not read outside of the tile's columns.
    Strided,
}

/// Computes a tile of `height` rows and `columns` columns.
///
/// # Safety
///
/// The CPU has AVX2 and FMA. `height` is in `1..=MR` and `columns` in `1..=NR_VECTORS * EPILOGUE_LANES`. The
/// elements that `tile` spans may be read and written, and the destination does not overlap A or B.
#[inline(always)]
pub(crate) unsafe fn run<T: Float>(tile: &Tile<T>, form: OperandForm, height: usize, columns: usize) {
    let (at, lanes) = table_position::<T>(height, columns);
    let functions = match form {
        OperandForm::Packed => const { &packed::<T>() },
        OperandForm::Strided => const { &strided::<T>() },
    };
    // SAFETY: the table has a function for each height, width and edge; the rest is the caller's promise.
    unsafe { functions[at](tile, lanes) }
}

/// Operand A of a tile in place, addressed by tables: the element of row `r` at position `p` along K is
/// `k_offsets[p]` bytes behind `rows[r]`.
#[derive(Clone, Copy)]
pub(crate) struct IndexedRows {
    pub(crate) rows: [*const u8; MR],
    /// Offsets from the tile's first position along K on.
    pub(crate) k_offsets: *const i64,
}

/// Computes a tile of `height` rows and `columns` columns from rows of A that tables address. The addresses
/// and strides of A in `tile` are not used. B is not read outside of the tile's columns.
///
/// # Safety
///
/// The requirements of [`run`], for the elements that `a` spans.
#[inline(always)]
pub(crate) unsafe fn run_indexed<T: Float>(tile: &Tile<T>, a: &IndexedRows, height: usize, columns: usize) {
    let (at, lanes) = table_position::<T>(height, columns);
    // SAFETY: the table has a function for each height, width and edge; the rest is the caller's promise.
    unsafe { (const { &indexed::<T>() })[at](tile, a, lanes) }
}

/// The position of a microkernel in its table, and the columns of its last vector.
#[inline(always)]
fn table_position<T: Float>(height: usize, columns: usize) -> (usize, usize) {
    let narrow = columns <= T::LANES;
    let lanes = if narrow { columns } else { columns - T::LANES };
    let edge = lanes != T::LANES;
    (((height - 1) * 2 + usize::from(narrow)) * 2 + usize::from(edge), lanes)
}

type Microkernel<T> = unsafe fn(&Tile<T>, usize);

type IndexedMicrokernel<T> = unsafe fn(&Tile<T>, &IndexedRows, usize);

const fn packed<T: Float>() -> [Microkernel<T>; 24] {
    table::<T, true>()
}

const fn strided<T: Float>() -> [Microkernel<T>; 24] {
    table::<T, false>()
}

/// The microkernels in ascending order of height. For each height, those with two vectors precede those with
/// one; for each width, the one for full vectors precedes the one for masked vectors.
const fn table<T: Float, const PACKED: bool>() -> [Microkernel<T>; 24] {
    macro_rules! heights {
        ($($h:literal)*) => {
            [$(
                microkernel::<T, $h, 2, PACKED, false>, microkernel::<T, $h, 2, PACKED, true>,
                microkernel::<T, $h, 1, PACKED, false>, microkernel::<T, $h, 1, PACKED, true>,
            )*]
        };
    }
    heights!(1 2 3 4 5 6)
}

/// The microkernels of [`run_indexed`] in the order of [`table`].
const fn indexed<T: Float>() -> [IndexedMicrokernel<T>; 24] {
    macro_rules! heights {
        ($($h:literal)*) => {
            [$(
                indexed_microkernel::<T, $h, 2, false>, indexed_microkernel::<T, $h, 2, true>,
                indexed_microkernel::<T, $h, 1, false>, indexed_microkernel::<T, $h, 1, true>,
            )*]
        };
    }
    heights!(1 2 3 4 5 6)
}

#[target_feature(enable = "avx2,fma")]
unsafe fn indexed_microkernel<T: Float, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<T>,
    a: &IndexedRows,
    lanes: usize,
) {
    // SAFETY: this function runs with AVX2 and FMA, and the caller vouches for the memory.
    unsafe {
        let mask = T::mask(lanes);
        let mut accumulators = initial_accumulators::<T, H, W, EDGE>(tile, mask);
        let mut b = tile.b;
        for p in 0..tile.k {
            let offset = *a.k_offsets.add(p) as isize;
            let columns = load_columns::<T, W>(b, EDGE, mask);
            for (accumulators, row) in accumulators.iter_mut().zip(&a.rows) {
                let element = T::broadcast(row.wrapping_offset(offset).cast());
                for (accumulator, column) in accumulators.iter_mut().zip(columns) {
                    *accumulator = T::fma(element, column, *accumulator);
                }
            }
            b = b.wrapping_byte_offset(tile.b_k);
        }
        store_accumulators::<T, H, W, EDGE>(tile, &accumulators, mask);
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn microkernel<T: Float, const H: usize, const W: usize, const PACKED: bool, const EDGE: bool>(
    tile: &Tile<T>,
    lanes: usize,
) {
    // SAFETY: this function runs with AVX2 and FMA, and the caller vouches for the memory.
    unsafe {
        let mask = T::mask(lanes);
        let mut accumulators = initial_accumulators::<T, H, W, EDGE>(tile, mask);
        let mut at = Position { a: tile.a, b: tile.b };
        let (a_row, a_k, b_k) = if PACKED {
            (T::SIZE, H as isize * T::SIZE, (NR_VECTORS * T::LANES) as isize * T::SIZE)
        } else {
            (tile.a_row, tile.a_k, tile.b_k)
        };
        for r in 0..H as isize {
            _mm_prefetch::<_MM_HINT_T0>(tile.to.wrapping_byte_offset(r * tile.to_row).cast());
        }
        let masked = EDGE && !PACKED;
        for _ in 0..tile.k / 4 {
            for i in 0..4 {
                let a = at.a.wrapping_byte_offset(i * a_k);
                let b = at.b.wrapping_byte_offset(i * b_k);
                add_products::<T, H, W>(&mut accumulators, a, a_row, b, masked, mask);
            }
            at.a = at.a.wrapping_byte_offset(4 * a_k);
            at.b = at.b.wrapping_byte_offset(4 * b_k);
        }
        for _ in 0..tile.k % 4 {
            add_products::<T, H, W>(&mut accumulators, at.a, a_row, at.b, masked, mask);
            at.a = at.a.wrapping_byte_offset(a_k);
            at.b = at.b.wrapping_byte_offset(b_k);
        }
        store_accumulators::<T, H, W, EDGE>(tile, &accumulators, mask);
    }
}

struct Position<T> {
    a: *const T,
    b: *const T,
}

/// Adds the products at one position along K to the accumulators.
#[inline(always)]
unsafe fn add_products<T: Float, const H: usize, const W: usize>(
    accumulators: &mut [[T::Vector; W]; H],
    a: *const T,
    a_row: isize,
    b: *const T,
    masked: bool,
    mask: T::Mask,
) {
    // SAFETY: inlined into a function with AVX2 and FMA, which vouches for the memory.
    unsafe {
        let columns = load_columns::<T, W>(b, masked, mask);
        for (r, accumulators) in accumulators.iter_mut().enumerate() {
            let element = T::broadcast(a.wrapping_byte_offset(r as isize * a_row));
            for (accumulator, column) in accumulators.iter_mut().zip(columns) {
                *accumulator = T::fma(element, column, *accumulator);
            }
        }
    }
}

/// Loads the vectors of B at one position along K, the last one under the mask if `masked`.
#[inline(always)]
unsafe fn load_columns<T: Float, const W: usize>(b: *const T, masked: bool, mask: T::Mask) -> [T::Vector; W] {
    // SAFETY: inlined into a function with AVX2, which vouches for the memory.
    unsafe {
        let mut columns = [T::zero(); W];
        for (w, column) in columns.iter_mut().enumerate() {
            let from = b.wrapping_add(w * T::LANES);
            *column = if masked && w + 1 == W { T::load_masked(from, mask) } else { T::load(from) };
        }
        columns
    }
}

#[inline(always)]
unsafe fn initial_accumulators<T: Float, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<T>,
    mask: T::Mask,
) -> [[T::Vector; W]; H] {
    // SAFETY: inlined into a function with AVX2, which vouches for the memory.
    unsafe {
        let mut accumulators = [[T::zero(); W]; H];
        if !tile.from.is_null() {
            for (r, accumulators) in accumulators.iter_mut().enumerate() {
                let row = tile.from.wrapping_byte_offset(r as isize * tile.from_row);
                for (w, accumulator) in accumulators.iter_mut().enumerate() {
                    let from = row.wrapping_add(w * T::LANES);
                    *accumulator =
                        if EDGE && w + 1 == W { T::load_masked(from, mask) } else { T::load(from) };
                }
            }
        }
        accumulators
    }
}

#[inline(always)]
unsafe fn store_accumulators<T: Float, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<T>,
    accumulators: &[[T::Vector; W]; H],
    mask: T::Mask,
) {
    // SAFETY: inlined into a function with AVX2, which vouches for the memory.
    unsafe {
        for (r, accumulators) in accumulators.iter().enumerate() {
            let row = tile.to.wrapping_byte_offset(r as isize * tile.to_row);
            for (w, accumulator) in accumulators.iter().enumerate() {
                let to = row.wrapping_add(w * T::LANES);
                if EDGE && w + 1 == W {
                    T::store_masked(to, mask, *accumulator)
                } else {
                    T::store(to, *accumulator)
                }
            }
        }
    }
}
