//! Vectors of 256 bits: AVX2, FMA and F16C.

use std::arch::x86_64::*;

use super::{MAX_LANES, Simd, VectorCode, entries, vector_functions};
use crate::pack::ColumnReader;
use crate::tile::{IndexedRows, Microkernels, Tile, microkernels};
use crate::tile_shape::TileShape;

/// An element type in vectors of AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2<T>(T);

/// Set words, then clear words. The mask of the first `n` lanes starts `n` entries before the clear words.
static LANES_32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
static LANES_64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

impl Simd for Avx2<f32> {
    type Element = f32;
    type Vector = __m256;
    type Mask = __m256i;
    const SHAPE: TileShape = TileShape::AVX2_F32;
    const MICROKERNELS: Microkernels<Self> = microkernels!(false; 1 2 3 4 5 6);

    vector_functions! {
        fn zero() -> __m256 { _mm256_setzero_ps() }
        fn broadcast(from: *const f32) -> __m256 { _mm256_broadcast_ss(&*from) }
        fn load(from: *const f32) -> __m256 { _mm256_loadu_ps(from) }
        fn store(to: *mut f32, value: __m256) { _mm256_storeu_ps(to, value) }

        fn mask(lanes: usize) -> __m256i {
            // `lanes` is at most 8, so the table has eight entries from `8 - lanes` on.
            _mm256_loadu_si256(LANES_32.as_ptr().add(8 - lanes).cast())
        }

        fn load_masked(from: *const f32, mask: __m256i) -> __m256 { _mm256_maskload_ps(from, mask) }
        fn store_masked(to: *mut f32, mask: __m256i, value: __m256) { _mm256_maskstore_ps(to, mask, value) }
        fn fma(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fmadd_ps(a, b, c) }

        fn transpose(r: &mut [__m256; MAX_LANES]) {
            // Macros, since a closure might not be inlined into functions with AVX2.
            macro_rules! pairs {
                ($a:expr, $b:expr) => {
                    (_mm256_unpacklo_ps($a, $b), _mm256_unpackhi_ps($a, $b))
                };
            }
            macro_rules! quads {
                ($a:expr, $b:expr) => {
                    (_mm256_shuffle_ps::<0x44>($a, $b), _mm256_shuffle_ps::<0xee>($a, $b))
                };
            }
            let ((a, b), (c, d)) = (pairs!(r[0], r[1]), pairs!(r[2], r[3]));
            let ((e, f), (g, h)) = (pairs!(r[4], r[5]), pairs!(r[6], r[7]));
            let ((a, c), (b, d)) = (quads!(a, c), quads!(b, d));
            let ((e, g), (f, h)) = (quads!(e, g), quads!(f, h));
            for (i, (low, high)) in [(a, e), (c, g), (b, f), (d, h)].into_iter().enumerate() {
                r[i] = _mm256_permute2f128_ps::<0x20>(low, high);
                r[i + 4] = _mm256_permute2f128_ps::<0x31>(low, high);
            }
        }

        fn within(summands: *const i32, other: i32, limit: i32) -> __m256i {
            let sum = _mm256_add_epi32(_mm256_loadu_si256(summands.cast()), _mm256_set1_epi32(other));
            let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), sum);
            _mm256_andnot_si256(_mm256_srai_epi32::<31>(sum), below)
        }

        fn bits(mask: __m256i) -> u32 { _mm256_movemask_ps(_mm256_castsi256_ps(mask)) as u32 }
        fn both(a: __m256i, b: __m256i) -> __m256i { _mm256_and_si256(a, b) }
        fn without(a: __m256i, b: __m256i) -> __m256i { _mm256_andnot_si256(b, a) }

        fn gather_masked(from: *const f32, offsets: &[i32; MAX_LANES], mask: __m256i) -> __m256 {
            let offsets = _mm256_loadu_si256(offsets.as_ptr().cast());
            _mm256_mask_i32gather_ps::<1>(_mm256_setzero_ps(), from, offsets, _mm256_castsi256_ps(mask))
        }

        fn or(a: __m256, b: __m256) -> __m256 { _mm256_or_ps(a, b) }

        fn widen(from: *const u16, bf16: bool) -> __m256 {
            let bits = _mm_loadu_si128(from.cast());
            if bf16 {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
            } else {
                _mm256_cvtph_ps(bits)
            }
        }
    }

    #[inline(always)]
    fn widened(bits: u16, bf16: bool) -> f32 {
        if bf16 { f32::from_bits(u32::from(bits) << 16) } else { half(bits) }
    }

    entries!("avx2,fma,f16c");
}

impl Simd for Avx2<f64> {
    type Element = f64;
    type Vector = __m256d;
    type Mask = __m256i;
    const SHAPE: TileShape = TileShape::AVX2_F64;
    const MICROKERNELS: Microkernels<Self> = microkernels!(false; 1 2 3 4 5 6);

    vector_functions! {
        fn zero() -> __m256d { _mm256_setzero_pd() }
        fn broadcast(from: *const f64) -> __m256d { _mm256_broadcast_sd(&*from) }
        fn load(from: *const f64) -> __m256d { _mm256_loadu_pd(from) }
        fn store(to: *mut f64, value: __m256d) { _mm256_storeu_pd(to, value) }

        fn mask(lanes: usize) -> __m256i {
            // `lanes` is at most 4, so the table has four entries from `4 - lanes` on.
            _mm256_loadu_si256(LANES_64.as_ptr().add(4 - lanes).cast())
        }

        fn load_masked(from: *const f64, mask: __m256i) -> __m256d { _mm256_maskload_pd(from, mask) }
        fn store_masked(to: *mut f64, mask: __m256i, value: __m256d) { _mm256_maskstore_pd(to, mask, value) }
        fn fma(a: __m256d, b: __m256d, c: __m256d) -> __m256d { _mm256_fmadd_pd(a, b, c) }

        fn transpose(r: &mut [__m256d; MAX_LANES]) {
            let (a, b) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
            let (c, d) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
            r[0] = _mm256_permute2f128_pd::<0x20>(a, c);
            r[1] = _mm256_permute2f128_pd::<0x20>(b, d);
            r[2] = _mm256_permute2f128_pd::<0x31>(a, c);
            r[3] = _mm256_permute2f128_pd::<0x31>(b, d);
        }

        fn within(summands: *const i32, other: i32, limit: i32) -> __m256i {
            let sum = _mm_add_epi32(_mm_loadu_si128(summands.cast()), _mm_set1_epi32(other));
            let below = _mm_cmpgt_epi32(_mm_set1_epi32(limit), sum);
            _mm256_cvtepi32_epi64(_mm_andnot_si128(_mm_srai_epi32::<31>(sum), below))
        }

        fn bits(mask: __m256i) -> u32 { _mm256_movemask_pd(_mm256_castsi256_pd(mask)) as u32 }
        fn both(a: __m256i, b: __m256i) -> __m256i { _mm256_and_si256(a, b) }
        fn without(a: __m256i, b: __m256i) -> __m256i { _mm256_andnot_si256(b, a) }

        fn gather_masked(from: *const f64, offsets: &[i32; MAX_LANES], mask: __m256i) -> __m256d {
            let offsets = _mm_loadu_si128(offsets.as_ptr().cast());
            _mm256_mask_i32gather_pd::<1>(_mm256_setzero_pd(), from, offsets, _mm256_castsi256_pd(mask))
        }

        fn or(a: __m256d, b: __m256d) -> __m256d { _mm256_or_pd(a, b) }
    }

    entries!("avx2,fma,f16c");
}

/// Converts half precision to single with an F16C instruction.
#[inline(always)]
fn half(bits: u16) -> f32 {
    // SAFETY: only functions of this crate that run with F16C call this; a plan exists only on a machine that
    // has it.
    unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
}
