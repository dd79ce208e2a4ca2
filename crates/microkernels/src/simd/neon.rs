//! Vectors of 128 bits: NEON of ARM64.
//!
//! NEON has neither masked loads and stores nor gathers, so a mask is a number with a bit for each lane, and
//! lanes are accessed one by one unless whole vectors or halves of them are selected.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{MAX_LANES, Simd, VectorCode, add_row, entries, vector_functions};
use crate::pack::ColumnReader;
use crate::tile::{IndexedRows, Microkernels, Tile, microkernels};
use crate::tile_shape::TileShape;

/// An element type in vectors of NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon<T>(T);

/// Defines the methods whose instructions differ in the element type only.
macro_rules! methods {
    (
        $element:ty, $vector:ty, $shape:ident, $splat:ident, $load:ident, $store:ident, $fma:ident,
        $fma_lane:ident, $load_lane:literal
    ) => {
        type Element = $element;
        type Vector = $vector;
        type Mask = u8;
        const SHAPE: TileShape = TileShape::$shape;
        const KEEPS_ADDRESSES: bool = true;
const MICROKERNELS: Microkernels<Self> = microkernels!(false; 1 2 3 4 5 6 7 8 9 10 11 12);

        vector_functions! {
            fn zero() -> $vector { $splat(0.0) }
            fn broadcast(from: *const $element) -> $vector { $splat(*from) }
            fn load(from: *const $element) -> $vector { $load(from) }
            fn store(to: *mut $element, value: $vector) { $store(to, value) }
            fn mask(lanes: usize) -> u8 { (1 << lanes) - 1 }
            fn fma(a: $vector, b: $vector, c: $vector) -> $vector { $fma(c, a, b) }
            fn bits(mask: u8) -> u32 { mask.into() }
            fn both(a: u8, b: u8) -> u8 { a & b }
            fn without(a: u8, b: u8) -> u8 { a & !b }

            fn add_rows<const H: usize, const W: usize>(
                accumulators: &mut [[$vector; W]; H],
                rows: &[*const u8],
                offset: isize,
                columns: [$vector; W],
            ) {
                for (accumulators, &row) in accumulators.iter_mut().zip(rows) {
                    let element: $vector;
                    // Such a load is cheaper than `ld1r`, which the compiler would take: that is also an
                    // arithmetic instruction.
                    asm!(
                        concat!("ldr {element:", $load_lane, "}, [{row}, {offset}]"),
                        element = lateout(vreg) element,
                        row = in(reg) row,
                        offset = in(reg) offset,
                        options(pure, readonly, nostack, preserves_flags)
                    );
                    for (accumulator, column) in accumulators.iter_mut().zip(columns) {
                        *accumulator = $fma_lane::<0>(*accumulator, column, element);
                    }
                }
            }
        }

        entries!("neon");
    };
}

impl Simd for Neon<f32> {
    methods!(f32, float32x4_t, NEON_F32, vdupq_n_f32, vld1q_f32, vst1q_f32, vfmaq_f32, vfmaq_laneq_f32, "s");

    vector_functions! {
        fn load_masked(from: *const f32, mask: u8) -> float32x4_t {
            if mask == 0b1111 {
                return vld1q_f32(from);
            }
            vcombine_f32(load_pair(from, mask & 0b11), load_pair(from.wrapping_add(2), mask >> 2))
        }

        fn store_masked(to: *mut f32, mask: u8, value: float32x4_t) {
            if mask == 0b1111 {
                return vst1q_f32(to, value);
            }
            store_pair(to, mask & 0b11, vget_low_f32(value));
            store_pair(to.wrapping_add(2), mask >> 2, vget_high_f32(value));
        }

        fn transpose(r: &mut [float32x4_t; MAX_LANES]) {
            let even = [vtrn1q_f32(r[0], r[1]), vtrn1q_f32(r[2], r[3])].map(|row| vreinterpretq_f64_f32(row));
            let odd = [vtrn2q_f32(r[0], r[1]), vtrn2q_f32(r[2], r[3])].map(|row| vreinterpretq_f64_f32(row));
            r[0] = vreinterpretq_f32_f64(vzip1q_f64(even[0], even[1]));
            r[1] = vreinterpretq_f32_f64(vzip1q_f64(odd[0], odd[1]));
            r[2] = vreinterpretq_f32_f64(vzip2q_f64(even[0], even[1]));
            r[3] = vreinterpretq_f32_f64(vzip2q_f64(odd[0], odd[1]));
        }

        fn within(summands: *const i32, other: i32, limit: i32) -> u8 {
            let sum = vaddq_s32(vld1q_s32(summands), vdupq_n_s32(other));
            let within = vandq_u32(vcgezq_s32(sum), vcltq_s32(sum, vdupq_n_s32(limit)));
            vaddvq_u32(vandq_u32(within, vld1q_u32([1, 2, 4, 8].as_ptr()))) as u8
        }

        fn gather_masked(from: *const f32, offsets: &[i32; MAX_LANES], mask: u8) -> float32x4_t {
            let at = |lane: usize| from.wrapping_byte_offset(offsets[lane] as isize);
            let mut value = vdupq_n_f32(0.0);
            if mask & 1 != 0 {
                value = vld1q_lane_f32::<0>(at(0), value);
            }
            if mask & 2 != 0 {
                value = vld1q_lane_f32::<1>(at(1), value);
            }
            if mask & 4 != 0 {
                value = vld1q_lane_f32::<2>(at(2), value);
            }
            if mask & 8 != 0 {
                value = vld1q_lane_f32::<3>(at(3), value);
            }
            value
        }

        fn or(a: float32x4_t, b: float32x4_t) -> float32x4_t {
            vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)))
        }

        fn widen(from: *const u16, bf16: bool) -> float32x4_t {
            let bits = vld1_u16(from);
            if bf16 {
                vreinterpretq_f32_u32(vshll_n_u16::<16>(bits))
            } else {
                vcvt_f32_f16(vreinterpret_f16_u16(bits))
            }
        }
    }

    #[inline(always)]
    fn widened(bits: u16, bf16: bool) -> f32 {
        // SAFETY: only functions of this crate that run with NEON call this, and the array has four elements.
        unsafe { vgetq_lane_f32::<0>(Self::widen([bits; 4].as_ptr(), bf16)) }
    }

    vector_functions! {
        fn add_packed<const H: usize, const W: usize>(
            accumulators: &mut [[float32x4_t; W]; H],
            a: *const f32,
            columns: [float32x4_t; W],
        ) {
            let mut r = 0;
            while r + 4 <= H {
                let elements = vld1q_f32(a.add(r));
                for (w, column) in columns.into_iter().enumerate() {
                    accumulators[r][w] = vfmaq_laneq_f32::<0>(accumulators[r][w], column, elements);
                    accumulators[r + 1][w] = vfmaq_laneq_f32::<1>(accumulators[r + 1][w], column, elements);
                    accumulators[r + 2][w] = vfmaq_laneq_f32::<2>(accumulators[r + 2][w], column, elements);
                    accumulators[r + 3][w] = vfmaq_laneq_f32::<3>(accumulators[r + 3][w], column, elements);
                }
                r += 4;
            }
            for (r, accumulators) in accumulators.iter_mut().enumerate().skip(r) {
                add_row::<Self, W>(accumulators, a.add(r), columns);
            }
        }
    }
}

impl Simd for Neon<f64> {
    methods!(f64, float64x2_t, NEON_F64, vdupq_n_f64, vld1q_f64, vst1q_f64, vfmaq_f64, vfmaq_laneq_f64, "d");

    vector_functions! {
        fn load_masked(from: *const f64, mask: u8) -> float64x2_t {
            match mask {
                0b11 => vld1q_f64(from),
                0b10 => vld1q_lane_f64::<1>(from.wrapping_add(1), vdupq_n_f64(0.0)),
                0b01 => vld1q_lane_f64::<0>(from, vdupq_n_f64(0.0)),
                _ => vdupq_n_f64(0.0),
            }
        }

        fn store_masked(to: *mut f64, mask: u8, value: float64x2_t) {
            match mask {
                0b11 => vst1q_f64(to, value),
                0b10 => vst1q_lane_f64::<1>(to.wrapping_add(1), value),
                0b01 => vst1q_lane_f64::<0>(to, value),
                _ => {}
            }
        }

        fn transpose(r: &mut [float64x2_t; MAX_LANES]) {
            (r[0], r[1]) = (vzip1q_f64(r[0], r[1]), vzip2q_f64(r[0], r[1]))
        }

        fn within(summands: *const i32, other: i32, limit: i32) -> u8 {
            let sum = vadd_s32(vld1_s32(summands), vdup_n_s32(other));
            let within = vand_u32(vcgez_s32(sum), vclt_s32(sum, vdup_n_s32(limit)));
            vaddv_u32(vand_u32(within, vld1_u32([1, 2].as_ptr()))) as u8
        }

        fn gather_masked(from: *const f64, offsets: &[i32; MAX_LANES], mask: u8) -> float64x2_t {
            let at = |lane: usize| from.wrapping_byte_offset(offsets[lane] as isize);
            let mut value = vdupq_n_f64(0.0);
            if mask & 1 != 0 {
                value = vld1q_lane_f64::<0>(at(0), value);
            }
            if mask & 2 != 0 {
                value = vld1q_lane_f64::<1>(at(1), value);
            }
            value
        }

        fn or(a: float64x2_t, b: float64x2_t) -> float64x2_t {
            vreinterpretq_f64_u64(vorrq_u64(vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b)))
        }

        fn add_packed<const H: usize, const W: usize>(
            accumulators: &mut [[float64x2_t; W]; H],
            a: *const f64,
            columns: [float64x2_t; W],
        ) {
            let mut r = 0;
            while r + 2 <= H {
                let elements = vld1q_f64(a.add(r));
                for (w, column) in columns.into_iter().enumerate() {
                    accumulators[r][w] = vfmaq_laneq_f64::<0>(accumulators[r][w], column, elements);
                    accumulators[r + 1][w] = vfmaq_laneq_f64::<1>(accumulators[r + 1][w], column, elements);
                }
                r += 2;
            }
            if r < H {
                add_row::<Self, W>(&mut accumulators[r], a.add(r), columns);
            }
        }
    }
}

/// Loads the selected lanes of half a vector. The others are zero, and their memory is not read.
#[inline(always)]
unsafe fn load_pair(from: *const f32, mask: u8) -> float32x2_t {
    // SAFETY: the caller runs with NEON, and the lanes of the mask may be read.
    unsafe {
        match mask {
            0b11 => vld1_f32(from),
            0b10 => vld1_lane_f32::<1>(from.wrapping_add(1), vdup_n_f32(0.0)),
            0b01 => vld1_lane_f32::<0>(from, vdup_n_f32(0.0)),
            _ => vdup_n_f32(0.0),
        }
    }
}

/// Stores the selected lanes of half a vector.
#[inline(always)]
unsafe fn store_pair(to: *mut f32, mask: u8, value: float32x2_t) {
    // SAFETY: the caller runs with NEON, and the lanes of the mask may be written.
    unsafe {
        match mask {
            0b11 => vst1_f32(to, value),
            0b10 => vst1_lane_f32::<1>(to.wrapping_add(1), value),
            0b01 => vst1_lane_f32::<0>(to, value),
            _ => {}
        }
    }
}
