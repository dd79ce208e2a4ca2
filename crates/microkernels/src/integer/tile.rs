//! Microkernels for products of 8-bit integers.
//!
//! Four positions along K form a group. A vector of B holds a group of each of its columns, four bytes per
//! column, and a row of A holds its groups one after the other. A microkernel adds the products of a group of
//! A, broadcast, with the groups of all columns. Sums wrap, so their order does not matter.

use crate::simd::prefetch;

/// Positions along K that one instruction, or one pair of instructions, multiplies.
pub(crate) const GROUP: usize = 4;

/// The operands and the result of one microkernel call. Strides are in bytes.
#[derive(Clone, Copy)]
pub(crate) struct DotTile {
    /// Groups that each sum adds.
    pub(crate) groups: usize,
    /// The first group of A's first row.
    pub(crate) a: *const u8,
    pub(crate) a_row: isize,
    /// The first group of B's first column.
    pub(crate) b: *const u8,
    pub(crate) b_group: isize,
    /// Bytes from a group of B to what is prefetched with it.
    pub(crate) ahead: isize,
    /// What is added to the sums; null for zeros.
    pub(crate) from: *const i32,
    pub(crate) from_row: isize,
    /// The destination of the sums.
    pub(crate) to: *mut i32,
    pub(crate) to_row: isize,
}

/// A function that computes a tile, the last vector of which has the given number of columns.
pub(crate) type DotMicrokernel = unsafe fn(&DotTile, usize);

/// The microkernels of one set of instructions and one type of B, in ascending order of height. For each
/// height, those with the most vectors come first; for each width, the one for full vectors comes first.
pub(crate) type DotMicrokernels = &'static [DotMicrokernel];

/// 8-bit integers in the vectors of a set of instructions.
///
/// The methods are unsafe because they are inlined into functions that enable the instructions; nothing else
/// may call them.
pub(crate) trait Dot {
    /// The sums of [`Dot::COLUMNS`] columns, in parts.
    type Sums: Copy;
    /// A group of A in all lanes.
    type Element: Copy;
    /// A group of each of [`Dot::COLUMNS`] columns.
    type Columns: Copy;
    /// 32-bit integers, one for each column.
    type Vector: Copy;
    /// Selects columns.
    type Mask: Copy;
    /// Columns of a vector.
    const COLUMNS: usize;
    /// Bytes of a group of A.
    const A_GROUP: isize;

    unsafe fn zero() -> Self::Sums;
    unsafe fn broadcast(from: *const u8) -> Self::Element;
    unsafe fn mask(columns: usize) -> Self::Mask;
    /// Loads groups of B, which are unsigned or signed.
    unsafe fn load<const UNSIGNED: bool>(from: *const u8) -> Self::Columns;
    /// Loads the groups of the selected columns. The memory of other columns is not read.
    unsafe fn load_masked<const UNSIGNED: bool>(from: *const u8, mask: Self::Mask) -> Self::Columns;
    unsafe fn add_products<const UNSIGNED: bool>(
        sums: Self::Sums,
        element: Self::Element,
        columns: Self::Columns,
    ) -> Self::Sums;
    /// The sums as one integer for each column.
    unsafe fn whole(sums: Self::Sums) -> Self::Vector;
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn load_sums(from: *const i32, mask: Self::Mask) -> Self::Vector;
    unsafe fn store_sums(to: *mut i32, mask: Self::Mask, value: Self::Vector);
}

/// Loads a group of B for each column, under the mask in the last vector if it is an edge.
#[inline(always)]
unsafe fn load_groups<D: Dot, const W: usize, const UNSIGNED: bool, const EDGE: bool>(
    b: *const u8,
    mask: D::Mask,
) -> [D::Columns; W] {
    // SAFETY: inlined into a function that enables the instructions; the caller vouches for the memory. No
    // memory is read under the empty mask.
    unsafe {
        let mut groups = [D::load_masked::<UNSIGNED>(b, D::mask(0)); W];
        for (w, group) in groups.iter_mut().enumerate() {
            let from = b.wrapping_add(w * D::COLUMNS * GROUP);
            *group = match EDGE && w + 1 == W {
                true => D::load_masked::<UNSIGNED>(from, mask),
                false => D::load::<UNSIGNED>(from),
            };
        }
        groups
    }
}

/// The code of a microkernel for `H` rows and `W` vectors of columns. With `EDGE`, the last vector is masked.
#[inline(always)]
pub(crate) unsafe fn microkernel<
    D: Dot,
    const H: usize,
    const W: usize,
    const UNSIGNED: bool,
    const EDGE: bool,
>(
    tile: &DotTile,
    columns: usize,
) {
    // SAFETY: inlined into a function that enables the instructions; the caller vouches for the memory.
    unsafe {
        let (full, mask) = (D::mask(D::COLUMNS), D::mask(columns));
        let mut sums = [[D::zero(); W]; H];
        let (mut a, mut b) = (tile.a, tile.b);
        for _ in 0..tile.groups {
            let groups = load_groups::<D, W, UNSIGNED, EDGE>(b, mask);
            for w in 0..W {
                prefetch(b.wrapping_offset(tile.ahead).wrapping_add(w * D::COLUMNS * GROUP), true);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let element = D::broadcast(a.wrapping_offset(r as isize * tile.a_row));
                for (sum, group) in sums.iter_mut().zip(groups) {
                    *sum = D::add_products::<UNSIGNED>(*sum, element, group);
                }
            }
            (a, b) = (a.wrapping_offset(D::A_GROUP), b.wrapping_offset(tile.b_group));
        }
        for (r, sums) in sums.iter().enumerate() {
            let from = tile.from.wrapping_byte_offset(r as isize * tile.from_row);
            let to = tile.to.wrapping_byte_offset(r as isize * tile.to_row);
            for (w, sum) in sums.iter().enumerate() {
                let mask = if EDGE && w + 1 == W { mask } else { full };
                let mut sum = D::whole(*sum);
                if !tile.from.is_null() {
                    sum = D::add(sum, D::load_sums(from.wrapping_add(w * D::COLUMNS), mask));
                }
                D::store_sums(to.wrapping_add(w * D::COLUMNS), mask, sum);
            }
        }
    }
}
