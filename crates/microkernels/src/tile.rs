//! Microkernels: each computes a register tile of up to [`Simd::ROWS`] rows by two vectors of columns.
//!
//! A microkernel reads A and B, packed or in place, and keeps the tile's accumulators in registers while it
//! walks along K. The accumulators start at zero or at values in memory, and each adds its products in
//! ascending order of K with fused multiply-add. Cutting M, N or K into blocks therefore changes no bit.
//! Microkernels with a fused epilogue are generated for each plan ([`crate::fused`]) and sum in the same
//! order.
//!
//! There is a function for each height, width and form of operands, compiled ahead of time for each
//! instruction set; [`run`] picks one, and [`run_indexed`] for an operand A that is addressed by tables.

mod indexed; // A addressed by tables

pub(crate) use indexed::{
    IndexedMicrokernel, IndexedRows, RowGroups, grouped_microkernel, indexed_microkernel, row_groups,
    run_indexed,
};

use crate::pack::ColumnReader;
use crate::simd::{MAX_ROWS, Simd, add_row, prefetch};
use crate::tile_shape::NR_VECTORS;

/// The operands, accumulators and result of one microkernel call. Strides are in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Tile<V: Simd> {
    /// Products that each accumulator adds.
    pub(crate) k: usize,
    /// A's element in the tile's first row, at the first position along K.
    pub(crate) a: *const V::Element,
    pub(crate) a_row: isize,
    pub(crate) a_k: isize,
    /// B's element in the tile's first column, at the first position along K. A row of B is contiguous.
    pub(crate) b: *const V::Element,
    pub(crate) b_k: isize,
    /// How far behind each row of B lie the elements that are prefetched with it; 0 for none.
    pub(crate) ahead: isize,
    /// The initial accumulators; null for zeros.
    pub(crate) from: *const V::Element,
    pub(crate) from_row: isize,
    /// The destination of the accumulators.
    pub(crate) to: *mut V::Element,
    pub(crate) to_row: isize,
}

/// How A and B lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandForm {
    /// Both are packed: for each position along K, A has `height` elements, and B has two vectors whatever
    /// the width of the tile.
    Packed,
    /// A is packed; B has strides and comes from a far cache. B is not read outside of the tile's columns.
    Streamed,
    /// Both have strides. B is not read outside of the tile's columns.
    Strided,
}

/// Computes a tile of `height` rows and `columns` columns.
///
/// # Safety
///
/// The CPU has the instructions of the vectors. `height` is in `1..=V::ROWS` and `columns` in
/// `1..=NR_VECTORS * V::LANES`. The elements that `tile` spans may be read and written, and the destination
/// does not overlap A or B.
#[inline(always)]
pub(crate) unsafe fn run<V: Simd>(tile: &Tile<V>, form: OperandForm, height: usize, columns: usize) {
    let (at, lanes) = table_position::<V>(height, columns);
    let functions = match form {
        OperandForm::Packed => V::MICROKERNELS.packed,
        OperandForm::Streamed => V::MICROKERNELS.streamed,
        OperandForm::Strided => V::MICROKERNELS.strided,
    };
    // SAFETY: the table has a function for each height, width and edge; the rest is the caller's promise.
    unsafe { functions[at](tile, lanes) }
}

/// Whether [`run_packing`] computes tiles of so many rows and columns.
#[inline(always)]
pub(crate) fn packs<V: Simd>(height: usize, columns: usize) -> bool {
    height + V::PACKING_MICROKERNELS.len() > V::ROWS && columns > V::LANES
}

/// Computes a tile of packed rows and of columns that a reader loads, and packs these columns to the address
/// of B.
///
/// # Safety
///
/// The requirements of [`run`]; [`packs`] holds, and the address of B has room for two vectors for each
/// position along K.
#[inline(always)]
pub(crate) unsafe fn run_packing<V: Simd>(
    tile: &Tile<V>,
    reader: &ColumnReader<'_, V>,
    height: usize,
    columns: usize,
) {
    let functions = V::PACKING_MICROKERNELS;
    // SAFETY: the caller's promise.
    unsafe { functions[height + functions.len() - V::ROWS - 1](tile, reader, columns - V::LANES) }
}

/// The position of a microkernel in its table, and the columns of its last vector.
#[inline(always)]
fn table_position<V: Simd>(height: usize, columns: usize) -> (usize, usize) {
    let narrow = columns <= V::LANES;
    let lanes = if narrow { columns } else { columns - V::LANES };
    let edge = lanes != V::LANES;
    (((height - 1) * 2 + usize::from(narrow)) * 2 + usize::from(edge), lanes)
}

type Microkernel<V> = unsafe fn(&Tile<V>, usize);

/// A microkernel of one height whose second vector has the given number of columns.
pub(crate) type PackingMicrokernel<V> = unsafe fn(&Tile<V>, &ColumnReader<'_, V>, usize);

/// The microkernels of an instruction set by form of operands. They are in ascending order of height. For
/// each height, those with two vectors precede those with one; for each width, the one for full vectors
/// precedes the one for masked vectors.
pub(crate) struct Microkernels<V: Simd + 'static> {
    packed: &'static [Microkernel<V>],
    streamed: &'static [Microkernel<V>],
    strided: &'static [Microkernel<V>],
    indexed: &'static [IndexedMicrokernel<V>],
}

impl<V: Simd> Microkernels<V> {
    pub(crate) const fn new(
        packed: &'static [Microkernel<V>],
        streamed: &'static [Microkernel<V>],
        strided: &'static [Microkernel<V>],
        indexed: &'static [IndexedMicrokernel<V>],
    ) -> Microkernels<V> {
        Microkernels { packed, streamed, strided, indexed }
    }
}

/// The microkernels of the given heights, then those whose rows of A are addressed by tables if their heights
/// differ. The literal says whether full vectors are masked, too, so that one function computes full and
/// masked vectors.
macro_rules! microkernels {
    ($masks_all:literal; $($h:literal)*) => { microkernels!($masks_all; $($h)*; $($h)*) };
    ($masks_all:literal; $($h:literal)*; $($indexed:literal)*) => {
        Microkernels::new(
            &[$(
                Self::microkernel::<$h, 2, true, $masks_all>, Self::microkernel::<$h, 2, true, true>,
                Self::microkernel::<$h, 1, true, $masks_all>, Self::microkernel::<$h, 1, true, true>,
            )*],
            &[$(
                Self::streamed_microkernel::<$h, 2, $masks_all>, Self::streamed_microkernel::<$h, 2, true>,
                Self::streamed_microkernel::<$h, 1, $masks_all>, Self::streamed_microkernel::<$h, 1, true>,
            )*],
            &[$(
                Self::microkernel::<$h, 2, false, $masks_all>, Self::microkernel::<$h, 2, false, true>,
                Self::microkernel::<$h, 1, false, $masks_all>, Self::microkernel::<$h, 1, false, true>,
            )*],
            &[$(
                Self::indexed_microkernel::<$indexed, 2, $masks_all>,
                Self::indexed_microkernel::<$indexed, 2, true>,
                Self::indexed_microkernel::<$indexed, 1, $masks_all>,
                Self::indexed_microkernel::<$indexed, 1, true>,
            )*],
        )
    };
}
pub(crate) use microkernels;

/// The code of [`Simd::packing_microkernel`].
#[inline(always)]
pub(crate) unsafe fn packing_microkernel<V: Simd, const H: usize>(
    tile: &Tile<V>,
    columns: &ColumnReader<'_, V>,
    lanes: usize,
) {
    // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
    unsafe {
        let mask = V::mask(lanes);
        let mut accumulators = initial_accumulators::<V, H, NR_VECTORS, true>(tile, mask);
        let (mut a, mut b) = (tile.a, tile.b.cast_mut());
        prefetch_outputs::<V, H, NR_VECTORS>(tile);
        for position in 0..tile.k {
            let columns = columns.read(position);
            V::store(b, columns[0]);
            V::store(b.wrapping_add(V::LANES), columns[1]);
            V::add_packed(&mut accumulators, a, columns);
            (a, b) = (a.wrapping_add(H), b.wrapping_add(NR_VECTORS * V::LANES));
        }
        store_accumulators::<V, H, NR_VECTORS, true>(tile, &accumulators, mask);
    }
}

/// The code of [`Simd::streamed_microkernel`].
#[inline(always)]
pub(crate) unsafe fn streamed_microkernel<V: Simd, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<V>,
    lanes: usize,
) {
    // SAFETY: inlined into an entry of the instruction set, and the caller vouches for the memory.
    unsafe {
        let mask = V::mask(lanes);
        let mut accumulators = initial_accumulators::<V, H, W, EDGE>(tile, mask);
        let (mut a, mut b) = (tile.a, tile.b);
        prefetch_outputs::<V, H, W>(tile);
        for _ in 0..tile.k / 4 {
            for i in 0..4 {
                prefetch_next::<V, W>(b.cast::<u8>().wrapping_offset(i * tile.b_k), tile.ahead);
            }
            for i in 0..4 {
                let columns = load_columns::<V, W>(b.wrapping_byte_offset(i * tile.b_k), EDGE, mask);
                V::add_packed(&mut accumulators, a.wrapping_add(i as usize * H), columns);
            }
            (a, b) = (a.wrapping_add(4 * H), b.wrapping_byte_offset(4 * tile.b_k));
        }
        for _ in 0..tile.k % 4 {
            let columns = load_columns::<V, W>(b, EDGE, mask);
            V::add_packed(&mut accumulators, a, columns);
            (a, b) = (a.wrapping_add(H), b.wrapping_byte_offset(tile.b_k));
        }
        store_accumulators::<V, H, W, EDGE>(tile, &accumulators, mask);
    }
}

/// The code of [`Simd::microkernel`].
#[inline(always)]
pub(crate) unsafe fn microkernel<
    V: Simd,
    const H: usize,
    const W: usize,
    const PACKED: bool,
    const EDGE: bool,
>(
    tile: &Tile<V>,
    lanes: usize,
) {
    // SAFETY: inlined into an entry of the instruction set, and the caller vouches for the memory.
    unsafe {
        let mask = V::mask(lanes);
        let mut accumulators = initial_accumulators::<V, H, W, EDGE>(tile, mask);
        let (mut a, mut b) = (tile.a, tile.b);
        let (a_row, a_k, b_k) = if PACKED {
            (V::SIZE, H as isize * V::SIZE, (NR_VECTORS * V::LANES) as isize * V::SIZE)
        } else {
            (tile.a_row, tile.a_k, tile.b_k)
        };
        prefetch_outputs::<V, H, W>(tile);
        let masked = EDGE && !PACKED;
        if !PACKED && V::KEEPS_ADDRESSES {
            let mut rows = [a.cast::<u8>(); MAX_ROWS];
            for (r, row) in rows.iter_mut().enumerate().take(H) {
                *row = row.wrapping_offset(r as isize * a_row);
            }
            let mut offset = 0_isize;
            for _ in 0..tile.k {
                let columns = load_columns::<V, W>(b, masked, mask);
                V::add_rows(&mut accumulators, &rows, offset, columns);
                (offset, b) = (offset.wrapping_add(a_k), b.wrapping_byte_offset(b_k));
            }
            return store_accumulators::<V, H, W, EDGE>(tile, &accumulators, mask);
        }
        let mut left = tile.k;
        if !PACKED && tile.ahead != 0 {
            // A loop of its own: a test in the loop below makes that slower.
            for _ in 0..std::mem::take(&mut left) {
                prefetch_row::<V, W>(b.cast::<u8>().wrapping_offset(tile.ahead));
                add_products::<V, H, W, PACKED>(&mut accumulators, a, a_row, b, masked, mask);
                (a, b) = (a.wrapping_byte_offset(a_k), b.wrapping_byte_offset(b_k));
            }
        }
        let unrolled = const { unrolled(H * W) };
        for _ in 0..left / unrolled {
            for i in 0..unrolled as isize {
                let (a, b) = (a.wrapping_byte_offset(i * a_k), b.wrapping_byte_offset(i * b_k));
                add_products::<V, H, W, PACKED>(&mut accumulators, a, a_row, b, masked, mask);
            }
            let step = unrolled as isize;
            (a, b) = (a.wrapping_byte_offset(step * a_k), b.wrapping_byte_offset(step * b_k));
        }
        for _ in 0..left % unrolled {
            add_products::<V, H, W, PACKED>(&mut accumulators, a, a_row, b, masked, mask);
            (a, b) = (a.wrapping_byte_offset(a_k), b.wrapping_byte_offset(b_k));
        }
        store_accumulators::<V, H, W, EDGE>(tile, &accumulators, mask);
    }
}

/// Prefetches what lies `ahead` of a row of B, unless it is the row itself.
#[inline(always)]
fn prefetch_next<V: Simd, const W: usize>(row: *const u8, ahead: isize) {
    if ahead != 0 {
        prefetch_row::<V, W>(row.wrapping_offset(ahead));
    }
}

/// Prefetches where the accumulators go. Initial accumulators are needed at once, so those of the tile below
/// are prefetched instead.
#[inline(always)]
fn prefetch_outputs<V: Simd, const H: usize, const W: usize>(tile: &Tile<V>) {
    let first = if tile.from.is_null() { 0 } else { H as isize };
    for r in first..first + H as isize {
        prefetch_row::<V, W>(tile.to.wrapping_byte_offset(r * tile.to_row).cast());
    }
}

/// Prefetches as many elements as a tile has columns.
#[inline(always)]
fn prefetch_row<V: Simd, const W: usize>(row: *const u8) {
    for line in 0..(W as isize * V::LANES as isize * V::SIZE / 64).max(1) {
        prefetch(row.wrapping_offset(64 * line), true);
    }
}

/// Positions along K in one iteration of a microkernel with so many accumulators. Many accumulators make up
/// for the instructions of the loop, and each copy of the body takes time to compile.
const fn unrolled(accumulators: usize) -> usize {
    match accumulators {
        0..=12 => 4,
        13..20 => 2,
        _ => 1,
    }
}

/// Adds the products at one position along K to the accumulators.
#[inline(always)]
unsafe fn add_products<V: Simd, const H: usize, const W: usize, const PACKED: bool>(
    accumulators: &mut [[V::Vector; W]; H],
    a: *const V::Element,
    a_row: isize,
    b: *const V::Element,
    masked: bool,
    mask: V::Mask,
) {
    // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
    unsafe {
        let columns = load_columns::<V, W>(b, masked, mask);
        if PACKED {
            return V::add_packed(accumulators, a, columns);
        }
        for (r, accumulators) in accumulators.iter_mut().enumerate() {
            add_row::<V, W>(accumulators, a.wrapping_byte_offset(r as isize * a_row), columns);
        }
    }
}

/// Loads the vectors of B at one position along K, the last one under the mask if `masked`.
#[inline(always)]
unsafe fn load_columns<V: Simd, const W: usize>(
    b: *const V::Element,
    masked: bool,
    mask: V::Mask,
) -> [V::Vector; W] {
    // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
    unsafe {
        let mut columns = [V::zero(); W];
        for (w, column) in columns.iter_mut().enumerate() {
            let from = b.wrapping_add(w * V::LANES);
            *column = if masked && w + 1 == W { V::load_masked(from, mask) } else { V::load(from) };
        }
        columns
    }
}

#[inline(always)]
unsafe fn initial_accumulators<V: Simd, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<V>,
    mask: V::Mask,
) -> [[V::Vector; W]; H] {
    // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
    unsafe {
        let mut accumulators = [[V::zero(); W]; H];
        if !tile.from.is_null() {
            for (r, accumulators) in accumulators.iter_mut().enumerate() {
                let row = tile.from.wrapping_byte_offset(r as isize * tile.from_row);
                for (w, accumulator) in accumulators.iter_mut().enumerate() {
                    let from = row.wrapping_add(w * V::LANES);
                    *accumulator =
                        if EDGE && w + 1 == W { V::load_masked(from, mask) } else { V::load(from) };
                }
            }
        }
        accumulators
    }
}

#[inline(always)]
unsafe fn store_accumulators<V: Simd, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<V>,
    accumulators: &[[V::Vector; W]; H],
    mask: V::Mask,
) {
    // SAFETY: inlined into an entry of the instruction set; the caller vouches for the memory.
    unsafe {
        for (r, accumulators) in accumulators.iter().enumerate() {
            let row = tile.to.wrapping_byte_offset(r as isize * tile.to_row);
            for (w, accumulator) in accumulators.iter().enumerate() {
                let to = row.wrapping_add(w * V::LANES);
                if EDGE && w + 1 == W {
                    V::store_masked(to, mask, *accumulator)
                } else {
                    V::store(to, *accumulator)
                }
            }
        }
    }
}
