//! Microkernels for products of 8-bit integers.
//!
//! Four positions along K form a group. A vector of B holds a group of each of its columns, four bytes per
//! column. In each step, a microkernel adds the products of some groups of A, which are neighbors along K,
//! with the same groups of all columns. Sums wrap, so their order does not matter.
//!
//! A consists of strips of rows, whose sums are computed together. A row of a strip holds its groups one
//! after the other, and the rows of a strip take turns: each has the groups of a step. The last step may have
//! a group beyond K, which is multiplied with zeros.

use crate::simd::prefetch;

/// Positions along K of a group.
pub(crate) const GROUP: usize = 4;

/// A group of zeros for each column of a tile.
pub(crate) static ZEROS: [u8; 128] = [0; 128];

/// The operands and the result of one microkernel call. Strides are in bytes.
#[derive(Clone, Copy)]
pub(crate) struct DotTile {
    /// Groups that each sum adds.
    pub(crate) groups: usize,
    /// The first group of A's first row.
    pub(crate) a: *const u8,
    pub(crate) a_strip: isize,
    /// The first group of B's first column.
    pub(crate) b: *const u8,
    pub(crate) b_group: isize,
    /// Whether B has whole vectors of columns, of which the last ones may mean nothing.
    pub(crate) b_is_padded: bool,
    /// Bytes from a group of B to what is prefetched with it.
    pub(crate) ahead: isize,
    /// What is added to the sums; null for zeros.
    pub(crate) from: *const i32,
    pub(crate) from_row: isize,
    /// The destination of the sums.
    pub(crate) to: *mut i32,
    pub(crate) to_row: isize,
}

/// A function that computes a tile of the given number of rows, the last vector of which has the given number
/// of columns.
pub(crate) type DotMicrokernel = unsafe fn(&DotTile, usize, usize);

/// The microkernels of one set of instructions and one type of B, in ascending order of strips. For each
/// number of them, those with the most vectors come first; for each width, the one for full vectors comes
/// first.
pub(crate) type DotMicrokernels = &'static [DotMicrokernel];

/// 8-bit integers in the vectors of a set of instructions.
///
/// The methods are unsafe because they are inlined into functions that enable the instructions; nothing else
/// may call them.
pub(crate) trait Dot {
    /// The sums of a strip's rows and [`Dot::COLUMNS`] columns, in parts.
    type Sums: Copy;
    /// The groups of a step, of a strip's rows.
    type Element: Copy;
    /// The groups of a step, of each of [`Dot::COLUMNS`] columns.
    type Columns: Copy;
    /// 32-bit integers, one for each column.
    type Vector: Copy;
    /// Selects columns.
    type Mask: Copy;
    /// Columns of a vector.
    const COLUMNS: usize;
    /// Rows of a strip of A.
    const ROWS: usize = 1;
    /// Groups of a step, one or two.
    const GROUPS: usize = 1;
    /// Bytes of a step in a strip.
    const A_STEP: isize;

    unsafe fn zero() -> Self::Sums;
    unsafe fn element(from: *const u8) -> Self::Element;
    unsafe fn mask(columns: usize) -> Self::Mask;
    /// Loads groups of B, which are unsigned or signed, from the addresses of the first group of a step and
    /// of the second, if there is one.
    unsafe fn load<const UNSIGNED: bool>(from: [*const u8; 2]) -> Self::Columns;
    /// Loads the groups of the selected columns. The memory of other columns is not read.
    unsafe fn load_masked<const UNSIGNED: bool>(from: [*const u8; 2], mask: Self::Mask) -> Self::Columns;
    unsafe fn add_products<const UNSIGNED: bool>(
        sums: Self::Sums,
        element: Self::Element,
        columns: Self::Columns,
    ) -> Self::Sums;
    /// The sums of a row of the strip, as one integer for each column.
    unsafe fn whole(sums: Self::Sums, row: usize) -> Self::Vector;
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn load_sums(from: *const i32, mask: Self::Mask) -> Self::Vector;
    unsafe fn store_sums(to: *mut i32, mask: Self::Mask, value: Self::Vector);
}

/// Loads the groups of a step for each column, under the mask in the last vector if it is an edge.
#[inline(always)]
unsafe fn load_groups<D: Dot, const W: usize, const UNSIGNED: bool, const EDGE: bool>(
    b: [*const u8; 2],
    mask: D::Mask,
) -> [D::Columns; W] {
    // SAFETY: inlined into a function that enables the instructions; the caller vouches for the memory. No
    // memory is read under the empty mask.
    unsafe {
        let mut groups = [D::load_masked::<UNSIGNED>(b, D::mask(0)); W];
        for (w, group) in groups.iter_mut().enumerate() {
            let from = b.map(|group| group.wrapping_add(w * D::COLUMNS * GROUP));
            *group = match EDGE && w + 1 == W {
                true => D::load_masked::<UNSIGNED>(from, mask),
                false => D::load::<UNSIGNED>(from),
            };
        }
        groups
    }
}

/// Adds the products of a step, whose groups of A and of B begin at the addresses.
#[inline(always)]
unsafe fn add_step<D: Dot, const S: usize, const W: usize, const UNSIGNED: bool, const EDGE: bool>(
    tile: &DotTile,
    sums: &mut [[D::Sums; W]; S],
    a: *const u8,
    b: [*const u8; 2],
    mask: D::Mask,
) {
    // SAFETY: inlined into a function that enables the instructions; the caller vouches for the memory.
    unsafe {
        let groups = load_groups::<D, W, UNSIGNED, EDGE>(b, mask);
        for group in b.into_iter().take(D::GROUPS) {
            // Half a cache line each, because groups may begin anywhere.
            for at in (0..W * D::COLUMNS * GROUP).step_by((D::COLUMNS * GROUP).max(32)) {
                prefetch(group.wrapping_offset(tile.ahead).wrapping_add(at), true);
            }
        }
        for (s, sums) in sums.iter_mut().enumerate() {
            let element = D::element(a.wrapping_offset(s as isize * tile.a_strip));
            for (sum, group) in sums.iter_mut().zip(groups) {
                *sum = D::add_products::<UNSIGNED>(*sum, element, group);
            }
        }
    }
}

/// The code of a microkernel for `S` strips of rows and `W` vectors of columns. With `EDGE`, the last vector
/// is masked.
#[inline(always)]
pub(crate) unsafe fn microkernel<
    D: Dot,
    const S: usize,
    const W: usize,
    const UNSIGNED: bool,
    const EDGE: bool,
>(
    tile: &DotTile,
    rows: usize,
    columns: usize,
) {
    // SAFETY: inlined into a function that enables the instructions; the caller vouches for the memory.
    unsafe {
        let (full, mask) = (D::mask(D::COLUMNS), D::mask(columns));
        let mut sums = [[D::zero(); W]; S];
        let (mut a, mut b) = (tile.a, tile.b);
        for _ in 0..tile.groups / D::GROUPS {
            let second = b.wrapping_offset(tile.b_group);
            add_step::<D, S, W, UNSIGNED, EDGE>(tile, &mut sums, a, [b, second], mask);
            a = a.wrapping_offset(D::A_STEP);
            b = b.wrapping_offset(D::GROUPS as isize * tile.b_group);
        }
        if !tile.groups.is_multiple_of(D::GROUPS) {
            add_step::<D, S, W, UNSIGNED, EDGE>(tile, &mut sums, a, [b, ZEROS.as_ptr()], mask);
        }
        for (s, sums) in sums.iter().enumerate() {
            for row in 0..D::ROWS {
                let r = s * D::ROWS + row;
                if D::ROWS > 1 && r >= rows {
                    return;
                }
                let from = tile.from.wrapping_byte_offset(r as isize * tile.from_row);
                let to = tile.to.wrapping_byte_offset(r as isize * tile.to_row);
                for (w, sum) in sums.iter().enumerate() {
                    let mask = if EDGE && w + 1 == W { mask } else { full };
                    let mut sum = D::whole(*sum, row);
                    if !tile.from.is_null() {
                        sum = D::add(sum, D::load_sums(from.wrapping_add(w * D::COLUMNS), mask));
                    }
                    D::store_sums(to.wrapping_add(w * D::COLUMNS), mask, sum);
                }
            }
        }
    }
}
