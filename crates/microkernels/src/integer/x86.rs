//! The microkernels of x86-64.
//!
//! `vpdpbusd` multiplies unsigned by signed bytes. Microkernels exchange its operands if B is unsigned, so
//! they need an A whose sign is not that of B.
//! AVX2 widens both operands to 16 bits, in which no product of two bytes and no sum of two products
//! overflows: `vpmaddubsw`, which multiplies bytes, saturates.

use std::arch::x86_64::*;

use super::level::{DotLevel, DotTiles, entry, microkernels};
use super::tile::{Dot, DotMicrokernel, DotTile, microkernel};
use crate::dot::DotInstructions;
use crate::simd::vector_functions;

pub(super) fn of(dot: DotInstructions) -> DotLevel {
    match dot {
        DotInstructions::Avx2 => AVX2,
        DotInstructions::AvxVnni => AVX_VNNI,
        DotInstructions::Avx512VlVnni => AVX512_VL_VNNI,
        DotInstructions::Avx512Vnni => AVX512_VNNI,
        DotInstructions::Amx => AMX,
        DotInstructions::Neon | DotInstructions::NeonDot | DotInstructions::NeonMatrix => {
            unreachable!("instructions of ARM64")
        }
    }
}

entry!(avx2, Avx2, "avx2");
entry!(avx_vnni, AvxVnni, "avx2,avxvnni");
entry!(avx512_vl_vnni, Avx512VlVnni, "avx2,avx512f,avx512vl,avx512vnni");
entry!(avx512_vnni, Avx512Vnni, "avx512f,avx512bw,avx512vl,avx512vnni");

const AVX2_SIGNED: &[DotMicrokernel] = microkernels!(avx2, false, one; 1 2 3 4 5 6);
const AVX2_UNSIGNED: &[DotMicrokernel] = microkernels!(avx2, true, one; 1 2 3 4 5 6);
const AVX_VNNI_SIGNED: &[DotMicrokernel] = microkernels!(avx_vnni, false, two; 1 2 3 4 5 6);
const AVX_VNNI_UNSIGNED: &[DotMicrokernel] = microkernels!(avx_vnni, true, two; 1 2 3 4 5 6);
const AVX512_VL_VNNI_SIGNED: &[DotMicrokernel] = microkernels!(avx512_vl_vnni, false, two; 1 2 3 4 5 6);
const AVX512_VL_VNNI_UNSIGNED: &[DotMicrokernel] = microkernels!(avx512_vl_vnni, true, two; 1 2 3 4 5 6);
const AVX512_VNNI_SIGNED: &[DotMicrokernel] =
    microkernels!(avx512_vnni, false, two; 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
const AVX512_VNNI_UNSIGNED: &[DotMicrokernel] =
    microkernels!(avx512_vnni, true, two; 1 2 3 4 5 6 7 8 9 10 11 12 13 14);

const AVX2: DotLevel = DotLevel {
    tiles: DotTiles::of(DotInstructions::Avx2),
    signed: AVX2_SIGNED,
    unsigned: AVX2_UNSIGNED,
    matrix: None,
};
const AVX_VNNI: DotLevel = DotLevel {
    tiles: DotTiles::of(DotInstructions::AvxVnni),
    signed: AVX_VNNI_SIGNED,
    unsigned: AVX_VNNI_UNSIGNED,
    matrix: None,
};
const AVX512_VL_VNNI: DotLevel = DotLevel {
    tiles: DotTiles::of(DotInstructions::Avx512VlVnni),
    signed: AVX512_VL_VNNI_SIGNED,
    unsigned: AVX512_VL_VNNI_UNSIGNED,
    matrix: None,
};
const AVX512_VNNI: DotLevel = DotLevel {
    tiles: DotTiles::of(DotInstructions::Avx512Vnni),
    signed: AVX512_VNNI_SIGNED,
    unsigned: AVX512_VNNI_UNSIGNED,
    matrix: None,
};
const AMX: DotLevel =
    DotLevel { tiles: DotTiles::of(DotInstructions::Amx), matrix: Some(&super::amx::TILES), ..AVX512_VNNI };
const _: () = assert!(AMX.tiles.groups == super::amx::GROUPS && AMX.tiles.unit == super::amx::TILES.unit);

/// Set words, then clear words. The mask of the first `n` columns starts `n` entries before the clear words.
static COLUMNS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn mask_256(columns: usize) -> __m256i {
    // SAFETY: the caller runs with AVX2. `columns` is at most 8, so the table has eight entries from `8 -
    // columns` on.
    unsafe { _mm256_loadu_si256(COLUMNS.as_ptr().add(8 - columns).cast()) }
}

/// Eight sums in a vector of 256 bits.
macro_rules! sums_256 {
    () => {
        type Vector = __m256i;
        type Mask = __m256i;
        const COLUMNS: usize = 8;

        vector_functions! {
            fn mask(columns: usize) -> __m256i { mask_256(columns) }
            fn add(a: __m256i, b: __m256i) -> __m256i { _mm256_add_epi32(a, b) }
            fn load_sums(from: *const i32, mask: __m256i) -> __m256i { _mm256_maskload_epi32(from, mask) }

            fn store_sums(to: *mut i32, mask: __m256i, value: __m256i) {
                _mm256_maskstore_epi32(to, mask, value)
            }
        }
    };
}

struct Avx2;

impl Dot for Avx2 {
    /// Four columns in each vector, each with two sums: of the products at even and at odd pairs of K.
    type Sums = [__m256i; 2];
    type Element = __m256i;
    /// Four columns in each vector, widened to 16 bits.
    type Columns = [__m256i; 2];
    const A_STEP: isize = 8;

    vector_functions! {
        fn zero() -> [__m256i; 2] { [_mm256_setzero_si256(); 2] }
        fn element(from: *const u8) -> __m256i { _mm256_set1_epi64x(from.cast::<i64>().read_unaligned()) }

        fn load<const UNSIGNED: bool>([from, _]: [*const u8; 2]) -> [__m256i; 2] {
            let halves = [_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.wrapping_add(16).cast())];
            if UNSIGNED {
                [_mm256_cvtepu8_epi16(halves[0]), _mm256_cvtepu8_epi16(halves[1])]
            } else {
                [_mm256_cvtepi8_epi16(halves[0]), _mm256_cvtepi8_epi16(halves[1])]
            }
        }

        fn load_masked<const UNSIGNED: bool>([from, _]: [*const u8; 2], mask: __m256i) -> [__m256i; 2] {
            let groups = _mm256_maskload_epi32(from.cast(), mask);
            let halves = [_mm256_castsi256_si128(groups), _mm256_extracti128_si256::<1>(groups)];
            if UNSIGNED {
                [_mm256_cvtepu8_epi16(halves[0]), _mm256_cvtepu8_epi16(halves[1])]
            } else {
                [_mm256_cvtepi8_epi16(halves[0]), _mm256_cvtepi8_epi16(halves[1])]
            }
        }

        fn add_products<const UNSIGNED: bool>(
            sums: [__m256i; 2],
            element: __m256i,
            columns: [__m256i; 2],
        ) -> [__m256i; 2] {
            [
                _mm256_add_epi32(sums[0], _mm256_madd_epi16(element, columns[0])),
                _mm256_add_epi32(sums[1], _mm256_madd_epi16(element, columns[1])),
            ]
        }

        fn whole(sums: [__m256i; 2], _: usize) -> __m256i {
            // Columns 0, 1, 4, 5, then 2, 3, 6, 7.
            let pairs = _mm256_hadd_epi32(sums[0], sums[1]);
            _mm256_permute4x64_epi64::<0b11_01_10_00>(pairs)
        }
    }

    sums_256!();
}

/// `vpdpbusd` of 256 bits, which AVX-VNNI and AVX-512 encode differently.
macro_rules! vnni_256 {
    ($name:ident, $dpbusd:ident) => {
        struct $name;

        impl Dot for $name {
            type Sums = __m256i;
            type Element = __m256i;
            type Columns = __m256i;
            const A_STEP: isize = 4;

            vector_functions! {
                fn zero() -> __m256i { _mm256_setzero_si256() }

                fn element(from: *const u8) -> __m256i {
                    _mm256_set1_epi32(from.cast::<i32>().read_unaligned())
                }

                fn load<const UNSIGNED: bool>([from, _]: [*const u8; 2]) -> __m256i {
                    _mm256_loadu_si256(from.cast())
                }

                fn load_masked<const UNSIGNED: bool>([from, _]: [*const u8; 2], mask: __m256i) -> __m256i {
                    _mm256_maskload_epi32(from.cast(), mask)
                }

                fn add_products<const UNSIGNED: bool>(
                    sums: __m256i,
                    element: __m256i,
                    columns: __m256i,
                ) -> __m256i {
                    match UNSIGNED {
                        true => $dpbusd(sums, columns, element),
                        false => $dpbusd(sums, element, columns),
                    }
                }

                fn whole(sums: __m256i, _: usize) -> __m256i { sums }
            }

            sums_256!();
        }
    };
}

vnni_256!(AvxVnni, _mm256_dpbusd_avx_epi32);
vnni_256!(Avx512VlVnni, _mm256_dpbusd_epi32);

struct Avx512Vnni;

impl Dot for Avx512Vnni {
    type Sums = __m512i;
    type Element = __m512i;
    type Columns = __m512i;
    type Vector = __m512i;
    type Mask = __mmask16;
    const COLUMNS: usize = 16;
    const A_STEP: isize = 4;

    vector_functions! {
        fn zero() -> __m512i { _mm512_setzero_si512() }
        fn element(from: *const u8) -> __m512i { _mm512_set1_epi32(from.cast::<i32>().read_unaligned()) }
        fn mask(columns: usize) -> __mmask16 { ((1u32 << columns) - 1) as __mmask16 }

        fn load<const UNSIGNED: bool>([from, _]: [*const u8; 2]) -> __m512i {
            _mm512_loadu_si512(from.cast())
        }

        fn load_masked<const UNSIGNED: bool>([from, _]: [*const u8; 2], mask: __mmask16) -> __m512i {
            _mm512_maskz_loadu_epi32(mask, from.cast())
        }

        fn add_products<const UNSIGNED: bool>(sums: __m512i, element: __m512i, columns: __m512i) -> __m512i {
            match UNSIGNED {
                true => _mm512_dpbusd_epi32(sums, columns, element),
                false => _mm512_dpbusd_epi32(sums, element, columns),
            }
        }

        fn whole(sums: __m512i, _: usize) -> __m512i { sums }
        fn add(a: __m512i, b: __m512i) -> __m512i { _mm512_add_epi32(a, b) }
        fn load_sums(from: *const i32, mask: __mmask16) -> __m512i { _mm512_maskz_loadu_epi32(mask, from) }

        fn store_sums(to: *mut i32, mask: __mmask16, value: __m512i) {
            _mm512_mask_storeu_epi32(to, mask, value)
        }
    }
}
