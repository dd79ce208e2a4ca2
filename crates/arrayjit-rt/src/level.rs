//! Levels of processors, and the greatest one that this processor has.

use core::fmt;

/// Instruction sets that code of an object may use: a level of the processor supplement of x86-64's ABI, or
/// ARM64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessorLevel {
    /// `x86-64-v2`: SSE4.2.
    X86V2,
    /// `x86-64-v3`: AVX2, FMA and F16C.
    X86V3,
    /// `x86-64-v4-mixed`: the instructions of `x86-64-v4`, in code for processors that compute the halves of
    /// 512 bits one after the other, such as Zen 4.
    X86V4Mixed,
    /// `x86-64-v4`: AVX-512 F, BW, CD, DQ and VL.
    X86V4,
    /// Any ARM64 processor.
    Arm64,
}

impl ProcessorLevel {
    /// Whether this processor and its system have the level. Each call asks the processor; nothing is kept.
    pub fn is_available(self) -> bool {
        match self {
            ProcessorLevel::Arm64 => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            level => x86::greatest().is_some_and(|greatest| level <= greatest),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

impl fmt::Display for ProcessorLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcessorLevel::X86V2 => "x86-64-v2",
            ProcessorLevel::X86V3 => "x86-64-v3",
            ProcessorLevel::X86V4Mixed => "x86-64-v4-mixed",
            ProcessorLevel::X86V4 => "x86-64-v4",
            ProcessorLevel::Arm64 => "arm64",
        })
    }
}

/// No code of an object can run on this processor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UnsupportedProcessor {
    /// The levels of the object's code.
    pub levels: &'static [ProcessorLevel],
}

impl fmt::Display for UnsupportedProcessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this processor has none of the levels that there is code for: ")?;
        for (at, level) in self.levels.iter().enumerate() {
            if at > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{level}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnsupportedProcessor {}

/// The position of the level whose code is fastest on this processor: the first one that it has, or
/// [`ProcessorLevel::X86V4Mixed`] instead of [`ProcessorLevel::X86V4`] on processors that it is made for.
///
/// # Errors
///
/// [`UnsupportedProcessor`] if the processor has no level.
pub fn select(levels: &'static [ProcessorLevel]) -> Result<usize, UnsupportedProcessor> {
    best(levels, ProcessorLevel::is_available, halves_vectors).ok_or(UnsupportedProcessor { levels })
}

/// The position of the best level for a processor, which may compute the halves of 512 bits one after the
/// other.
fn best(
    levels: &[ProcessorLevel],
    is_available: impl Fn(ProcessorLevel) -> bool,
    halves_vectors: impl Fn() -> bool,
) -> Option<usize> {
    use ProcessorLevel::{X86V4, X86V4Mixed};
    let first = levels.iter().position(|&level| is_available(level))?;
    let mixed = levels.iter().position(|&level| level == X86V4Mixed);
    Some(mixed.filter(|_| levels[first] == X86V4 && halves_vectors()).unwrap_or(first))
}

fn halves_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::halves_vectors(x86::leaf);
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{__cpuid_count, _xgetbv};

    use super::ProcessorLevel;

    /// SSE3, SSSE3, CX16, SSE4.1, SSE4.2 and POPCNT in `ecx` of leaf 1.
    const V2: u32 = 1 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23;
    /// FMA, MOVBE, OSXSAVE, AVX and F16C in `ecx` of leaf 1.
    const V3: u32 = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29;
    /// BMI1, AVX2 and BMI2 in `ebx` of leaf 7.
    const V3_OF_LEAF_7: u32 = 1 << 3 | 1 << 5 | 1 << 8;
    /// LZCNT in `ecx` of leaf 0x8000_0001.
    const LZCNT: u32 = 1 << 5;
    /// F, DQ, CD, BW and VL in `ebx` of leaf 7.
    const V4_OF_LEAF_7: u32 = 1 << 16 | 1 << 17 | 1 << 28 | 1 << 30 | 1 << 31;

    /// The start of the vendor's name in `ebx` of leaf 0.
    const AMD: u32 = u32::from_le_bytes(*b"Auth");

    /// The registers of a leaf that say what the processor has.
    #[derive(Clone, Copy, Default)]
    pub(super) struct Leaf {
        pub(super) eax: u32,
        pub(super) ebx: u32,
        pub(super) ecx: u32,
    }

    pub(super) fn leaf(number: u32) -> Leaf {
        let found = __cpuid_count(number, 0);
        Leaf { eax: found.eax, ebx: found.ebx, ecx: found.ecx }
    }

    /// Whether a processor with AVX-512 computes the halves of 512 bits one after the other: Zen 4, and the
    /// models of Zen 5 with units of 256 bits. A process with a compiler decides the same.
    pub(super) fn halves_vectors(leaf: impl Fn(u32) -> Leaf) -> bool {
        let signature = leaf(1).eax;
        let family = (signature >> 8 & 15) + (signature >> 20 & 255);
        let model = (signature >> 4 & 15) | (signature >> 12 & 0xf0);
        let has_wide_units = family == 0x1a && matches!(model, 0x00..=0x1f | 0x40..=0x4f);
        leaf(0).ebx == AMD && matches!(family, 0x19 | 0x1a) && !has_wide_units
    }

    /// The greatest level of this processor that the system supports.
    pub(super) fn greatest() -> Option<ProcessorLevel> {
        // SAFETY: `greatest_of` asks for the registers only of a processor with OSXSAVE, which says that the
        // instruction exists.
        greatest_of(leaf, || unsafe { saved_registers() })
    }

    /// The greatest level of a processor with these leaves and a system that saves these registers.
    pub(super) fn greatest_of(
        leaf: impl Fn(u32) -> Leaf,
        saved: impl FnOnce() -> u64,
    ) -> Option<ProcessorLevel> {
        let has = |bits: u32, all: u32| bits & all == all;
        let basic = leaf(1).ecx;
        if !has(basic, V2) {
            return None;
        }
        let has_leaves = leaf(0).eax >= 7 && leaf(0x8000_0000).eax >= 0x8000_0001;
        if !has_leaves || !has(basic, V3) || !has(leaf(0x8000_0001).ecx, LZCNT) {
            return Some(ProcessorLevel::X86V2);
        }
        let (extended, saved) = (leaf(7).ebx, saved());
        // The system saves SSE and AVX registers; and masks and 512 bits.
        if !has(extended, V3_OF_LEAF_7) || saved & 0x6 != 0x6 {
            return Some(ProcessorLevel::X86V2);
        }
        let is_wide = has(extended, V4_OF_LEAF_7) && saved & 0xe0 == 0xe0;
        Some(if is_wide { ProcessorLevel::X86V4 } else { ProcessorLevel::X86V3 })
    }

    /// The registers that the system saves.
    ///
    /// # Safety
    ///
    /// The system has enabled XSAVE.
    #[target_feature(enable = "xsave")]
    unsafe fn saved_registers() -> u64 {
        // SAFETY: the caller's promise.
        unsafe { _xgetbv(0) }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    extern crate std;

    use super::ProcessorLevel::{X86V2, X86V3, X86V4, X86V4Mixed};
    use super::x86::{Leaf, greatest_of, halves_vectors};
    use super::{ProcessorLevel, best, select};

    /// The level of a processor, by `ecx` of leaves 1 and 0x8000_0001, `ebx` of leaf 7, and the registers
    /// that the system saves.
    fn level(ecx: u32, lzcnt: u32, ebx: u32, saved: u64) -> Option<ProcessorLevel> {
        let leaf = |number| match number {
            0 => Leaf { eax: 0xd, ..Leaf::default() },
            1 => Leaf { ecx, ..Leaf::default() },
            7 => Leaf { ebx, ..Leaf::default() },
            0x8000_0000 => Leaf { eax: 0x8000_0008, ..Leaf::default() },
            0x8000_0001 => Leaf { ecx: lzcnt, ..Leaf::default() },
            other => panic!("leaf {other:#x}"),
        };
        greatest_of(leaf, || saved)
    }

    #[test]
    fn levels_need_the_processor_and_the_system() {
        let conroe = 0x0000_e3bd;
        let nehalem = 0x009c_e3bd;
        let haswell = 0x7ffa_fbff;
        let (avx2, avx512) = (0x0000_27ab, 0xd19f_ffbb);
        assert_eq!(level(conroe, 0x1, 0, 0), None, "no SSE4.2");
        assert_eq!(level(nehalem, 0x1, 0, 0), Some(X86V2));
        assert_eq!(level(haswell, 0x21, avx2, 0x7), Some(X86V3));
        assert_eq!(level(haswell, 0x1, avx2, 0x7), Some(X86V2), "no LZCNT");
        assert_eq!(level(haswell, 0x21, avx2, 0x3), Some(X86V2), "the system saves no AVX registers");
        assert_eq!(level(haswell, 0x21, avx512, 0xe7), Some(X86V4));
        assert_eq!(level(haswell, 0x21, avx512, 0x7), Some(X86V3), "the system saves no masks");
    }

    #[test]
    fn processors_halve_vectors_by_their_model() {
        let halves = |vendor: [u8; 4], eax| {
            let ebx = u32::from_le_bytes(vendor);
            halves_vectors(|number| Leaf { eax: if number == 1 { eax } else { 0xd }, ebx, ..Leaf::default() })
        };
        assert!(halves(*b"Auth", 0x00a1_0f11), "EPYC 9004");
        assert!(halves(*b"Auth", 0x00b2_0f40), "Ryzen AI 300");
        assert!(!halves(*b"Auth", 0x00b0_0f21), "EPYC 9005");
        assert!(!halves(*b"Auth", 0x00b4_0f40), "Ryzen 9000");
        assert!(!halves(*b"Genu", 0x00a1_0f11), "another vendor");
    }

    #[test]
    fn the_mixed_level_is_chosen_where_vectors_are_halved() {
        let chosen = |levels: &[ProcessorLevel], greatest, halves| {
            best(levels, |level| level <= greatest, || halves).map(|at| levels[at])
        };
        let all = [X86V4, X86V4Mixed, X86V3, X86V2];
        assert_eq!(chosen(&all, X86V4, true), Some(X86V4Mixed));
        assert_eq!(chosen(&all, X86V4, false), Some(X86V4));
        assert_eq!(chosen(&all, X86V3, true), Some(X86V3), "Zen 3");
        assert_eq!(chosen(&all[1..], X86V4, false), Some(X86V4Mixed), "the best that there is");
        assert_eq!(chosen(&[X86V4, X86V3], X86V4, true), Some(X86V4));
        assert_eq!(chosen(&all[..2], X86V3, true), None);
    }

    #[test]
    fn code_for_another_architecture_is_rejected() {
        let error = select(&[ProcessorLevel::Arm64]).expect_err("this is no ARM64 processor");
        assert_eq!(error.levels, [ProcessorLevel::Arm64]);
        assert!(std::format!("{error}").ends_with("there is code for: arm64"), "{error}");
    }
}
