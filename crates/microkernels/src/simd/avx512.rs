//! Vectors of 512 bits: AVX-512 F, BW, DQ and VL.
//!
//! Masks cost nothing here, so every microkernel masks its last vector, and one function computes both the
//! tiles inside of a matrix and those at its edge.

use std::arch::x86_64::*;

use super::{Avx2, MAX_LANES, Simd, VectorCode, entries, vector_functions};
use crate::pack::ColumnReader;
use crate::tile::{IndexedRows, Microkernels, Tile, microkernels};
use crate::tile_shape::TileShape;

/// An element type in vectors of AVX-512.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<T>(T);

/// Defines the methods whose instructions differ in the element type only.
macro_rules! methods {
    (
        $element:ty, $vector:ty, $mask:ty, $shape:ident,
        $zero:ident, $broadcast:ident, $load:ident, $store:ident, $load_masked:ident, $store_masked:ident,
        $fma:ident, $or:ident
    ) => {
        type Element = $element;
        type Vector = $vector;
        type Mask = $mask;
        const SHAPE: TileShape = TileShape::$shape;
        const MICROKERNELS: Microkernels<Self> =
    microkernels!(true; 1 2 3 4 5 6 7 8 9 10 11 12 13 14; 1 2 3 4 5 6 7 8 9 10);

        vector_functions! {
            fn zero() -> $vector { $zero() }
            fn broadcast(from: *const $element) -> $vector { $broadcast(*from) }
            fn load(from: *const $element) -> $vector { $load(from) }
            fn store(to: *mut $element, value: $vector) { $store(to, value) }
            fn mask(lanes: usize) -> $mask { ((1_u32 << lanes) - 1) as $mask }
            fn load_masked(from: *const $element, mask: $mask) -> $vector { $load_masked(mask, from) }
            fn store_masked(to: *mut $element, mask: $mask, value: $vector) { $store_masked(to, mask, value) }
            fn fma(a: $vector, b: $vector, c: $vector) -> $vector { $fma(a, b, c) }
            fn bits(mask: $mask) -> u32 { mask.into() }
            fn both(a: $mask, b: $mask) -> $mask { a & b }
            fn without(a: $mask, b: $mask) -> $mask { a & !b }
            fn or(a: $vector, b: $vector) -> $vector { $or(a, b) }
        }

        entries!("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
    };
}

/// Transposes a matrix of four by four lanes of 128 bits, whose rows are the vectors `r[$first + $step * i]`.
macro_rules! transpose_lanes {
    ($shuffle:ident, $r:ident, $first:expr, $step:literal) => {{
        let row = |i: usize| $first + $step * i;
        let (a, b) = ($r[row(0)], $r[row(1)]);
        let (c, d) = ($r[row(2)], $r[row(3)]);
        let (even, odd) = ($shuffle::<0x88>(a, b), $shuffle::<0xdd>(a, b));
        let (even_low, odd_low) = ($shuffle::<0x88>(c, d), $shuffle::<0xdd>(c, d));
        $r[row(0)] = $shuffle::<0x88>(even, even_low);
        $r[row(1)] = $shuffle::<0x88>(odd, odd_low);
        $r[row(2)] = $shuffle::<0xdd>(even, even_low);
        $r[row(3)] = $shuffle::<0xdd>(odd, odd_low);
    }};
}

impl Simd for Avx512<f32> {
    methods!(
        f32,
        __m512,
        __mmask16,
        AVX512_F32,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_maskz_loadu_ps,
        _mm512_mask_storeu_ps,
        _mm512_fmadd_ps,
        _mm512_or_ps
    );

    vector_functions! {
        fn merge_masked(value: __m512, from: *const f32, mask: __mmask16) -> __m512 {
            _mm512_mask_loadu_ps(value, mask, from)
        }

        fn transpose(r: &mut [__m512; MAX_LANES]) {
            for i in (0..16).step_by(4) {
                let (a, b) = (_mm512_unpacklo_ps(r[i], r[i + 1]), _mm512_unpackhi_ps(r[i], r[i + 1]));
                let (c, d) = (_mm512_unpacklo_ps(r[i + 2], r[i + 3]), _mm512_unpackhi_ps(r[i + 2], r[i + 3]));
                r[i] = _mm512_shuffle_ps::<0x44>(a, c);
                r[i + 1] = _mm512_shuffle_ps::<0xee>(a, c);
                r[i + 2] = _mm512_shuffle_ps::<0x44>(b, d);
                r[i + 3] = _mm512_shuffle_ps::<0xee>(b, d);
            }
            for i in 0..4 {
                transpose_lanes!(_mm512_shuffle_f32x4, r, i, 4);
            }
        }

        fn within(summands: *const i32, other: i32, limit: i32) -> __mmask16 {
            let sum = _mm512_add_epi32(_mm512_loadu_si512(summands.cast()), _mm512_set1_epi32(other));
            let from_zero = _mm512_cmpge_epi32_mask(sum, _mm512_setzero_si512());
            _mm512_mask_cmplt_epi32_mask(from_zero, sum, _mm512_set1_epi32(limit))
        }

        fn gather_masked(from: *const f32, offsets: &[i32; MAX_LANES], mask: __mmask16) -> __m512 {
            let offsets = _mm512_loadu_si512(offsets.as_ptr().cast());
            _mm512_mask_i32gather_ps::<1>(_mm512_setzero_ps(), mask, offsets, from)
        }

        fn widen(from: *const u16, bf16: bool) -> __m512 {
            let bits = _mm256_loadu_si256(from.cast());
            if bf16 {
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
            } else {
                _mm512_cvtph_ps(bits)
            }
        }

        fn widen_masked(from: *const u16, mask: __mmask16, bf16: bool) -> __m512 {
            let bits = _mm256_maskz_loadu_epi16(mask, from.cast());
            Self::widen((&raw const bits).cast(), bf16)
        }
    }

    #[inline(always)]
    fn widened(bits: u16, bf16: bool) -> f32 {
        Avx2::<f32>::widened(bits, bf16)
    }
}

impl Simd for Avx512<f64> {
    methods!(
        f64,
        __m512d,
        __mmask8,
        AVX512_F64,
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_maskz_loadu_pd,
        _mm512_mask_storeu_pd,
        _mm512_fmadd_pd,
        _mm512_or_pd
    );

    vector_functions! {
        fn transpose(r: &mut [__m512d; MAX_LANES]) {
            for i in (0..8).step_by(2) {
                let (a, b) = (_mm512_unpacklo_pd(r[i], r[i + 1]), _mm512_unpackhi_pd(r[i], r[i + 1]));
                (r[i], r[i + 1]) = (a, b);
            }
            for i in 0..2 {
                transpose_lanes!(_mm512_shuffle_f64x2, r, i, 2);
            }
        }

        fn within(summands: *const i32, other: i32, limit: i32) -> __mmask8 {
            let sum = _mm256_add_epi32(_mm256_loadu_si256(summands.cast()), _mm256_set1_epi32(other));
            let from_zero = _mm256_cmpge_epi32_mask(sum, _mm256_setzero_si256());
            _mm256_mask_cmplt_epi32_mask(from_zero, sum, _mm256_set1_epi32(limit))
        }

        fn gather_masked(from: *const f64, offsets: &[i32; MAX_LANES], mask: __mmask8) -> __m512d {
            let offsets = _mm256_loadu_si256(offsets.as_ptr().cast());
            _mm512_mask_i32gather_pd::<1>(_mm512_setzero_pd(), mask, offsets, from)
        }
    }
}
