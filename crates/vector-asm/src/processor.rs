//! Instruction sets, those that this processor has, and whether wider vectors make it faster.

use serde::{Deserialize, Serialize};

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Isa {
    /// 128 bits: NEON of ARM64.
    Neon,
    /// 256 bits: AVX2 with FMA3 and F16C.
    Avx2,
    /// 512 bits: AVX-512 F, BW, DQ and VL, beside the extensions of [`Isa::Avx2`].
    Avx512,
}

impl Isa {
    /// Every instruction set, narrowest first.
    pub const ALL: [Isa; 3] = [Isa::Neon, Isa::Avx2, Isa::Avx512];

    /// Whether this processor has the instructions, and the system's functions the calling convention of
    /// compiled programs, which those of Windows do not have.
    pub fn is_available(self) -> bool {
        cfg!(not(windows)) && self.is_supported()
    }

    /// Whether this processor has the instructions. A [`VectorFunction`] can be called wherever it does.
    pub fn is_supported(self) -> bool {
        has(self)
    }

    /// The instruction set whose code is fastest on this processor; `None` if none is available.
    pub fn detect() -> Option<Isa> {
        Isa::fastest(WideCode::Everything)
    }

    /// The instruction set whose code is fastest on this processor where it needs many registers and masks;
    /// `None` if none is available.
    pub fn detect_for_masks() -> Option<Isa> {
        Isa::fastest(WideCode::Masks)
    }

    /// The fastest instruction set for code that gains by 512 bits where `least` code does.
    fn fastest(least: WideCode) -> Option<Isa> {
        if Isa::Avx512.is_available() && fast_at_512_bits() >= least {
            return Some(Isa::Avx512);
        }
        [Isa::Avx2, Isa::Neon].into_iter().find(|isa| isa.is_available())
    }
}

/// A compiled program. The parameters are the base addresses, the bindings, the scratch memory, and the range
/// of [`LoopRange::Call`](crate::LoopRange::Call). On x86-64, the calling convention is that of System V.
#[cfg(target_arch = "x86_64")]
pub type VectorFunction = unsafe extern "sysv64" fn(
    args: *const *mut u8,
    bindings: *const i64,
    scratch: *mut u8,
    begin: u64,
    end: u64,
);

/// A compiled program. The parameters are the base addresses, the bindings, the scratch memory, and the range
/// of [`LoopRange::Call`](crate::LoopRange::Call).
#[cfg(not(target_arch = "x86_64"))]
pub type VectorFunction =
    unsafe extern "C" fn(args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64);

/// Whether this processor has the instructions.
#[cfg(target_arch = "x86_64")]
fn has(isa: Isa) -> bool {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    match isa {
        Isa::Neon => false,
        Isa::Avx2 => avx2,
        Isa::Avx512 => {
            avx2 && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        }
    }
}

/// Whether this processor has the instructions; every one of ARM64 has NEON. Compiled programs may use the
/// register that Windows reserves there.
#[cfg(not(target_arch = "x86_64"))]
fn has(isa: Isa) -> bool {
    cfg!(all(target_arch = "aarch64", not(windows))) && isa == Isa::Neon
}

/// The code that is faster with vectors of 512 bits than of 256 on a processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WideCode {
    None,
    Masks,
    Everything,
}

/// The code that is faster with 512 bits on this processor, by what it says of itself.
///
/// Many processors with AVX-512 have one multiply-add unit of 512 bits, or compute the halves of a vector one
/// after the other, so that wide code gains nothing. A measurement of some microseconds at start would tell
/// them apart, but it would see other load and changes of the clock rate, so that the code of a program would
/// differ from run to run. Wide code was measured on EPYC 9005 and Sapphire Rapids, where it doubles the
/// throughput of products, and on EPYC 9004. There tiles of 512 bits do not multiply faster, but they have
/// the registers and masks to pack an operand with bounds on the way, so that convolutions take 0.88 of the
/// time. Other code of 512 bits takes up to 1.3 times as long.
#[cfg(target_arch = "x86_64")]
fn fast_at_512_bits() -> WideCode {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let signature = __cpuid(1).eax;
    let (family, extended) = (signature >> 8 & 15, signature >> 20 & 255);
    let model = (signature >> 4 & 15) | (signature >> 12 & 0xf0);
    match (&__cpuid(0).ebx.to_le_bytes(), family + extended) {
        // Zen 5 with units of 512 bits: EPYC 9005 and Ryzen 9000. Other models have units of 256 bits.
        (b"Auth", 0x1a) if matches!(model, 0x00..=0x1f | 0x40..=0x4f) => WideCode::Everything,
        // Zen 4, and Zen 5 with units of 256 bits: vectors of 512 bits take two passes.
        (b"Auth", 0x19 | 0x1a) => WideCode::Masks,
        // Sapphire Rapids and later servers have two units of 512 bits, and are the ones with AVX512-FP16
        // (bit 23). Virtual machines may give them the model number of another processor.
        (b"Genu", _) if __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx >> 23 & 1 == 1 => WideCode::Everything,
        _ => WideCode::None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fast_at_512_bits() -> WideCode {
    WideCode::None
}
