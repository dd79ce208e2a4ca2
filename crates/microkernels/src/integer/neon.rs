//! The microkernels of ARM64.
//!
//! NEON multiplies bytes of one kind. With the extension for products of matrices, `smmla` and `ummla` add
//! eight products to each sum of two rows and two columns. With the one for dot products, `sdot` and `udot`
//! add four products to each sum, and take a group of A from a lane. Without them, `smull` and `umull` make
//! products of 16 bits, which hold every one, and `sadalp` and `uadalp` add pairs of them to sums of 32 bits.
//!
//! A mask is the number of its columns, and the groups of an edge are accessed one by one.

use std::arch::aarch64::*;
use std::arch::asm;

use super::level::{DotLevel, DotTiles, entry, microkernels};
use super::tile::{Dot, DotMicrokernel, DotTile, microkernel};
use crate::dot::DotInstructions;
use crate::simd::vector_functions;

pub(super) fn of(dot: DotInstructions) -> DotLevel {
    match dot {
        DotInstructions::Neon => NEON,
        DotInstructions::NeonDot => NEON_DOT,
        DotInstructions::NeonMatrix => NEON_MATRIX,
        DotInstructions::Avx2
        | DotInstructions::AvxVnni
        | DotInstructions::Avx512VlVnni
        | DotInstructions::Avx512Vnni
        | DotInstructions::Amx => {
            unreachable!("instructions of x86-64")
        }
    }
}

entry!(neon, Neon, "neon");
entry!(neon_dot, NeonDot, "neon,dotprod");
entry!(neon_matrix, NeonMatrix, "neon,i8mm");

const NEON_SIGNED: &[DotMicrokernel] = microkernels!(neon, false, two; 1 2 3 4 5 6);
const NEON_UNSIGNED: &[DotMicrokernel] = microkernels!(neon, true, two; 1 2 3 4 5 6);
const NEON_DOT_SIGNED: &[DotMicrokernel] = microkernels!(neon_dot, false, two; 1 2 3 4 5 6 7 8 9 10 11 12);
const NEON_DOT_UNSIGNED: &[DotMicrokernel] = microkernels!(neon_dot, true, two; 1 2 3 4 5 6 7 8 9 10 11 12);
const NEON_MATRIX_SIGNED: &[DotMicrokernel] = microkernels!(neon_matrix, false, two; 1 2 3 4 5 6);
const NEON_MATRIX_UNSIGNED: &[DotMicrokernel] = microkernels!(neon_matrix, true, two; 1 2 3 4 5 6);

const NEON: DotLevel = DotLevel {
    tiles: DotTiles::of(DotInstructions::Neon),
    signed: NEON_SIGNED,
    unsigned: NEON_UNSIGNED,
    matrix: None,
};
const NEON_DOT: DotLevel = DotLevel {
    tiles: DotTiles::of(DotInstructions::NeonDot),
    signed: NEON_DOT_SIGNED,
    unsigned: NEON_DOT_UNSIGNED,
    matrix: None,
};
const NEON_MATRIX: DotLevel = DotLevel {
    tiles: DotTiles::of(DotInstructions::NeonMatrix),
    signed: NEON_MATRIX_SIGNED,
    unsigned: NEON_MATRIX_UNSIGNED,
    matrix: None,
};

/// Loads words of selected columns; the others are zero, and their memory is not read.
#[inline(always)]
unsafe fn load_words(from: *const i32, columns: usize) -> int32x4_t {
    // SAFETY: the caller runs with NEON, and the selected words may be read.
    unsafe {
        if columns == 4 {
            return vld1q_s32(from);
        }
        let mut words = vdupq_n_s32(0);
        if columns > 0 {
            words = vld1q_lane_s32::<0>(from, words);
        }
        if columns > 1 {
            words = vld1q_lane_s32::<1>(from.wrapping_add(1), words);
        }
        if columns > 2 {
            words = vld1q_lane_s32::<2>(from.wrapping_add(2), words);
        }
        words
    }
}

/// Four sums in a vector.
macro_rules! sums {
    () => {
        type Vector = int32x4_t;
        type Mask = usize;
        const COLUMNS: usize = 4;

        vector_functions! {
            fn mask(columns: usize) -> usize { columns }

            fn load<const UNSIGNED: bool>(from: [*const u8; 2]) -> Self::Columns {
                Self::load_masked::<UNSIGNED>(from, 4)
            }

            fn add(a: int32x4_t, b: int32x4_t) -> int32x4_t { vaddq_s32(a, b) }
            fn load_sums(from: *const i32, mask: usize) -> int32x4_t { load_words(from, mask) }

            fn store_sums(to: *mut i32, mask: usize, value: int32x4_t) {
                if mask == 4 {
                    return vst1q_s32(to, value);
                }
                if mask > 0 {
                    vst1q_lane_s32::<0>(to, value);
                }
                if mask > 1 {
                    vst1q_lane_s32::<1>(to.wrapping_add(1), value);
                }
                if mask > 2 {
                    vst1q_lane_s32::<2>(to.wrapping_add(2), value);
                }
            }
        }
    };
}

struct Neon;

impl Dot for Neon {
    /// Two columns in each vector, each with two sums: of the products at even and at odd pairs of K.
    type Sums = [int32x4_t; 2];
    type Element = int8x8_t;
    type Columns = int8x16_t;
    const A_STEP: isize = 4;

    vector_functions! {
        fn zero() -> [int32x4_t; 2] { [vdupq_n_s32(0); 2] }

        fn element(from: *const u8) -> int8x8_t {
            vreinterpret_s8_s32(vdup_n_s32(from.cast::<i32>().read_unaligned()))
        }

        fn load_masked<const UNSIGNED: bool>([from, _]: [*const u8; 2], mask: usize) -> int8x16_t {
            vreinterpretq_s8_s32(load_words(from.cast(), mask))
        }

        fn add_products<const UNSIGNED: bool>(
            sums: [int32x4_t; 2],
            element: int8x8_t,
            columns: int8x16_t,
        ) -> [int32x4_t; 2] {
            let halves = [vget_low_s8(columns), vget_high_s8(columns)];
            let add = |sum: int32x4_t, half: int8x8_t| match UNSIGNED {
                true => {
                    let products = vmull_u8(vreinterpret_u8_s8(half), vreinterpret_u8_s8(element));
                    vreinterpretq_s32_u32(vpadalq_u16(vreinterpretq_u32_s32(sum), products))
                }
                false => vpadalq_s16(sum, vmull_s8(half, element)),
            };
            [add(sums[0], halves[0]), add(sums[1], halves[1])]
        }

        fn whole(sums: [int32x4_t; 2], _: usize) -> int32x4_t { vpaddq_s32(sums[0], sums[1]) }
    }

    sums!();
}

struct NeonDot;

impl Dot for NeonDot {
    type Sums = int32x4_t;
    type Element = int8x8_t;
    type Columns = [int32x4_t; 2];
    const GROUPS: usize = 2;
    const A_STEP: isize = 8;

    vector_functions! {
        fn zero() -> int32x4_t { vdupq_n_s32(0) }
        fn element(from: *const u8) -> int8x8_t { vld1_s8(from.cast()) }

        fn load_masked<const UNSIGNED: bool>(from: [*const u8; 2], mask: usize) -> [int32x4_t; 2] {
            [load_words(from[0].cast(), mask), load_words(from[1].cast(), mask)]
        }

        fn add_products<const UNSIGNED: bool>(
            sums: int32x4_t,
            element: int8x8_t,
            columns: [int32x4_t; 2],
        ) -> int32x4_t {
            dot::<UNSIGNED>(sums, element, columns)
        }

        fn whole(sums: int32x4_t, _: usize) -> int32x4_t { sums }
    }

    sums!();
}

/// Adds the products of both groups of `element` with those of all columns. The standard library has no
/// stable function for these instructions.
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dot<const UNSIGNED: bool>(
    mut sums: int32x4_t,
    element: int8x8_t,
    columns: [int32x4_t; 2],
) -> int32x4_t {
    macro_rules! add {
        ($instruction:literal) => {
            asm!(
                concat!($instruction, " {sums:v}.4s, {first:v}.16b, {element:v}.4b[0]"),
                concat!($instruction, " {sums:v}.4s, {second:v}.16b, {element:v}.4b[1]"),
                sums = inout(vreg) sums,
                first = in(vreg) columns[0],
                second = in(vreg) columns[1],
                element = in(vreg) element,
                options(pure, nomem, nostack, preserves_flags)
            )
        };
    }
    // SAFETY: the extension is enabled.
    unsafe {
        match UNSIGNED {
            true => add!("udot"),
            false => add!("sdot"),
        }
    }
    sums
}

struct NeonMatrix;

impl Dot for NeonMatrix {
    /// Two columns in each vector: their sums of the first row, then those of the second.
    type Sums = [int32x4_t; 2];
    type Element = int8x16_t;
    /// Two columns in each vector, with eight positions of each.
    type Columns = [int32x4_t; 2];
    const ROWS: usize = 2;
    const GROUPS: usize = 2;
    const A_STEP: isize = 16;

    vector_functions! {
        fn zero() -> [int32x4_t; 2] { [vdupq_n_s32(0); 2] }
        fn element(from: *const u8) -> int8x16_t { vld1q_s8(from.cast()) }

        fn load_masked<const UNSIGNED: bool>(from: [*const u8; 2], mask: usize) -> [int32x4_t; 2] {
            let [first, second] = from.map(|group| load_words(group.cast(), mask));
            [vzip1q_s32(first, second), vzip2q_s32(first, second)]
        }

        fn add_products<const UNSIGNED: bool>(
            sums: [int32x4_t; 2],
            element: int8x16_t,
            columns: [int32x4_t; 2],
        ) -> [int32x4_t; 2] {
            [
                multiply::<UNSIGNED>(sums[0], element, columns[0]),
                multiply::<UNSIGNED>(sums[1], element, columns[1]),
            ]
        }

        fn whole(sums: [int32x4_t; 2], row: usize) -> int32x4_t {
            let [low, high] = sums.map(|columns| vreinterpretq_s64_s32(columns));
            vreinterpretq_s32_s64(if row == 0 { vzip1q_s64(low, high) } else { vzip2q_s64(low, high) })
        }
    }

    sums!();
}

/// Adds the products of two rows of `element` with two columns. The standard library has no stable function
/// for these instructions.
#[inline]
#[target_feature(enable = "neon,i8mm")]
unsafe fn multiply<const UNSIGNED: bool>(
    mut sums: int32x4_t,
    element: int8x16_t,
    columns: int32x4_t,
) -> int32x4_t {
    macro_rules! add {
        ($instruction:literal) => {
            asm!(
                concat!($instruction, " {sums:v}.4s, {element:v}.16b, {columns:v}.16b"),
                sums = inout(vreg) sums,
                element = in(vreg) element,
                columns = in(vreg) columns,
                options(pure, nomem, nostack, preserves_flags)
            )
        };
    }
    // SAFETY: the extension is enabled.
    unsafe {
        match UNSIGNED {
            true => add!("ummla"),
            false => add!("smmla"),
        }
    }
    sums
}
