//! Tiles: some rows times two vectors of columns, summed over the depth in registers.
//!
//! A tile is where things are multiplied, here or in the tiles that are generated with an epilogue ([`crate::fused`]). Its sums begin at zero or at what memory holds, and each goes over the depth in order by
//! fused multiplication and addition, so cutting a product into tiles, and the depth into blocks, changes no bit.
//!
//! There is a function for each height, width and form of operands; [`run`] picks it. All are compiled ahead of time.

use std::arch::x86_64::*;

use crate::real::Real;

/// The largest height. Twelve sums, two vectors of the right factor and one element of the left one fill the 16 registers.
pub(crate) const HEIGHT: usize = 6;

/// The largest width in vectors.
pub(crate) const WIDTH: usize = 2;

/// What a tile works on. Steps are in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Tile<T> {
    /// How many products are added to each sum.
    pub(crate) depth: usize,
    /// The left factor's element at the first row and depth.
    pub(crate) left: *const T,
    pub(crate) left_row: isize,
    pub(crate) left_depth: isize,
    /// The right factor's element at the first depth and column; columns are contiguous.
    pub(crate) right: *const T,
    pub(crate) right_depth: isize,
    /// Where sums begin; null for zeros.
    pub(crate) from: *const T,
    pub(crate) from_row: isize,
    /// Where sums go.
    pub(crate) to: *mut T,
    pub(crate) to_row: isize,
}

/// How the operands of a tile lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Both packed: the left one `height` elements per depth, the right one two vectors, whatever the width of the tile.
    Packed,
    /// Both anyhow; the right one is not touched outside of the tile's columns.
    Strided,
}

/// Computes a tile of `height` rows and `columns` columns.
///
/// # Safety
///
/// The machine has AVX2 and FMA. `height` is in `1..=HEIGHT` and `columns` in `1..=WIDTH * LANES`. The elements named by the tile may be read and
/// written; what is written is not read as a factor.
#[inline(always)]
pub(crate) unsafe fn run<T: Real>(tile: &Tile<T>, form: Form, height: usize, columns: usize) {
    let narrow = columns <= T::LANES;
    let lanes = if narrow { columns } else { columns - T::LANES };
    let edge = lanes != T::LANES;
    let at = ((height - 1) * 2 + usize::from(narrow)) * 2 + usize::from(edge);
    let functions = match form {
        Form::Packed => const { &packed::<T>() },
        Form::Strided => const { &strided::<T>() },
    };
    // SAFETY: the table has a function for each height, width and edge; the rest is the caller's promise.
    unsafe { functions[at](tile, lanes) }
}

type Function<T> = unsafe fn(&Tile<T>, usize);

const fn packed<T: Real>() -> [Function<T>; 24] {
    table::<T, true>()
}

const fn strided<T: Real>() -> [Function<T>; 24] {
    table::<T, false>()
}

/// By height, then two vectors before one, then whole vectors before cut ones.
const fn table<T: Real, const PACKED: bool>() -> [Function<T>; 24] {
    macro_rules! heights {
        ($($h:literal)*) => {
            [$(
                tile::<T, $h, 2, PACKED, false>, tile::<T, $h, 2, PACKED, true>,
                tile::<T, $h, 1, PACKED, false>, tile::<T, $h, 1, PACKED, true>,
            )*]
        };
    }
    heights!(1 2 3 4 5 6)
}

#[target_feature(enable = "avx2,fma")]
unsafe fn tile<T: Real, const H: usize, const W: usize, const PACKED: bool, const EDGE: bool>(
    tile: &Tile<T>,
    lanes: usize,
) {
    // SAFETY: this function runs with AVX2 and FMA, and the caller vouches for the memory.
    unsafe {
        let mask = T::mask(lanes);
        let mut sums = begin::<T, H, W, EDGE>(tile, mask);
        let mut at = Position { left: tile.left, right: tile.right };
        let (left_row, left_depth, right_depth) = if PACKED {
            (T::SIZE, H as isize * T::SIZE, (WIDTH * T::LANES) as isize * T::SIZE)
        } else {
            (tile.left_row, tile.left_depth, tile.right_depth)
        };
        for r in 0..H as isize {
            _mm_prefetch::<_MM_HINT_T0>(tile.to.wrapping_byte_offset(r * tile.to_row).cast());
        }
        let masked = EDGE && !PACKED;
        for _ in 0..tile.depth / 4 {
            for i in 0..4 {
                let left = at.left.wrapping_byte_offset(i * left_depth);
                let right = at.right.wrapping_byte_offset(i * right_depth);
                step::<T, H, W>(&mut sums, left, left_row, right, masked, mask);
            }
            at.left = at.left.wrapping_byte_offset(4 * left_depth);
            at.right = at.right.wrapping_byte_offset(4 * right_depth);
        }
        for _ in 0..tile.depth % 4 {
            step::<T, H, W>(&mut sums, at.left, left_row, at.right, masked, mask);
            at.left = at.left.wrapping_byte_offset(left_depth);
            at.right = at.right.wrapping_byte_offset(right_depth);
        }
        end::<T, H, W, EDGE>(tile, &sums, mask);
    }
}

struct Position<T> {
    left: *const T,
    right: *const T,
}

/// Adds the products at one depth.
#[inline(always)]
unsafe fn step<T: Real, const H: usize, const W: usize>(
    sums: &mut [[T::Vector; W]; H],
    left: *const T,
    left_row: isize,
    right: *const T,
    masked: bool,
    mask: T::Mask,
) {
    // SAFETY: inlined into a function with AVX2 and FMA, which vouches for the memory.
    unsafe {
        let mut columns = [T::zero(); W];
        for (w, column) in columns.iter_mut().enumerate() {
            let from = right.wrapping_add(w * T::LANES);
            *column = if masked && w + 1 == W { T::load_masked(from, mask) } else { T::load(from) };
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            let element = T::broadcast(left.wrapping_byte_offset(r as isize * left_row));
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = T::fma(element, column, *sum);
            }
        }
    }
}

#[inline(always)]
unsafe fn begin<T: Real, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<T>,
    mask: T::Mask,
) -> [[T::Vector; W]; H] {
    // SAFETY: inlined into a function with AVX2, which vouches for the memory.
    unsafe {
        let mut sums = [[T::zero(); W]; H];
        if !tile.from.is_null() {
            for (r, sums) in sums.iter_mut().enumerate() {
                let row = tile.from.wrapping_byte_offset(r as isize * tile.from_row);
                for (w, sum) in sums.iter_mut().enumerate() {
                    let from = row.wrapping_add(w * T::LANES);
                    *sum = if EDGE && w + 1 == W { T::load_masked(from, mask) } else { T::load(from) };
                }
            }
        }
        sums
    }
}

#[inline(always)]
unsafe fn end<T: Real, const H: usize, const W: usize, const EDGE: bool>(
    tile: &Tile<T>,
    sums: &[[T::Vector; W]; H],
    mask: T::Mask,
) {
    // SAFETY: inlined into a function with AVX2, which vouches for the memory.
    unsafe {
        for (r, sums) in sums.iter().enumerate() {
            let row = tile.to.wrapping_byte_offset(r as isize * tile.to_row);
            for (w, sum) in sums.iter().enumerate() {
                let to = row.wrapping_add(w * T::LANES);
                if EDGE && w + 1 == W { T::store_masked(to, mask, *sum) } else { T::store(to, *sum) }
            }
        }
    }
}
