//! The instructions that add products of 8-bit integers.

use serde::{Deserialize, Serialize};
use vector_asm::Isa;

/// Instructions for products of 8-bit integers. All of them give the same bits: sums modulo 2³².
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DotInstructions {
    /// AVX2: `vpmaddwd` adds two products of integers that were widened to 16 bits.
    Avx2,
    /// AVX-VNNI: `vpdpbusd` adds four products in vectors of 256 bits.
    AvxVnni,
    /// AVX-512 VNNI and VL: `vpdpbusd` adds four products in vectors of 256 bits.
    Avx512VlVnni,
    /// AVX-512 VNNI: `vpdpbusd` adds four products in vectors of 512 bits.
    Avx512Vnni,
    /// AMX: `tdpbusd` and `tdpbsud` add 64 products to each of 256 sums. Tiles with few rows use AVX-512
    /// VNNI, as do the last columns of a B that is read in place. On Linux only.
    Amx,
    /// NEON: `smull` or `umull` make products of 16 bits, which `sadalp` or `uadalp` add in pairs.
    Neon,
    /// NEON with dot products (FEAT_DotProd): `sdot` or `udot` add four products.
    NeonDot,
    /// NEON with products of matrices (FEAT_I8MM): `smmla` or `ummla` add eight products to each sum of two
    /// rows and two columns.
    NeonMatrix,
}

impl DotInstructions {
    /// All instructions, from the slowest to the fastest.
    pub const ALL: [DotInstructions; 8] = [
        DotInstructions::Avx2,
        DotInstructions::AvxVnni,
        DotInstructions::Avx512VlVnni,
        DotInstructions::Avx512Vnni,
        DotInstructions::Amx,
        DotInstructions::Neon,
        DotInstructions::NeonDot,
        DotInstructions::NeonMatrix,
    ];

    /// Whether this CPU has the instructions. For [`DotInstructions::Amx`], the first call asks the system to
    /// let this process use tiles.
    #[cfg(target_arch = "x86_64")]
    pub fn is_available(self) -> bool {
        match self {
            DotInstructions::Avx2 => Isa::Avx2.is_supported(),
            DotInstructions::AvxVnni => Isa::Avx2.is_supported() && is_x86_feature_detected!("avxvnni"),
            DotInstructions::Avx512VlVnni | DotInstructions::Avx512Vnni => {
                Isa::Avx512.is_supported() && is_x86_feature_detected!("avx512vnni")
            }
            DotInstructions::Amx => DotInstructions::Avx512Vnni.is_available() && crate::amx::is_permitted(),
            DotInstructions::Neon | DotInstructions::NeonDot | DotInstructions::NeonMatrix => false,
        }
    }

    /// Whether this CPU has the instructions.
    #[cfg(target_arch = "aarch64")]
    pub fn is_available(self) -> bool {
        match self {
            DotInstructions::Neon => Isa::Neon.is_supported(),
            DotInstructions::NeonDot => {
                Isa::Neon.is_supported() && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            DotInstructions::NeonMatrix => {
                Isa::Neon.is_supported() && std::arch::is_aarch64_feature_detected!("i8mm")
            }
            _ => false,
        }
    }

    /// Whether this CPU has the instructions.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub fn is_available(self) -> bool {
        false
    }

    /// The fastest instructions of this CPU with vectors no wider than those of an instruction set.
    pub fn fastest(isa: Isa) -> Option<DotInstructions> {
        let is_wide =
            |dot: &DotInstructions| matches!(dot, DotInstructions::Avx512Vnni | DotInstructions::Amx);
        let fits = |dot: &DotInstructions| isa == Isa::Avx512 || !is_wide(dot);
        DotInstructions::ALL.into_iter().rev().filter(fits).find(|dot| dot.is_available())
    }
}
