//! What a plan needs to know of the machine: the vectors it has and how large its caches are.

/// A machine that plans are made for. Results do not depend on it, only how fast they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Whether it has AVX2, FMA and F16C. Without them there are no plans.
    pub vectors: bool,
    /// Bytes of the first-level data cache of a core.
    pub first: usize,
    /// Bytes of the second-level cache of a core.
    pub second: usize,
    /// Bytes of the cache that cores share.
    pub shared: usize,
    /// How many threads run at once.
    pub threads: usize,
}

impl Machine {
    /// The machine that this runs on.
    pub fn detect() -> Machine {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let [first, second, shared] = caches();
        Machine { vectors: has_vectors(), first, second, shared, threads }
    }
}

/// Caches of a common machine, for one that does not tell.
const USUAL: [usize; 3] = [32 << 10, 512 << 10, 8 << 20];

/// Epilogues are programs, so a machine needs what these need: AVX2, FMA and F16C.
fn has_vectors() -> bool {
    vector_asm::Isa::detect().is_some()
}

#[cfg(not(target_arch = "x86_64"))]
fn caches() -> [usize; 3] {
    USUAL
}

/// Data and unified caches by level, as the processor describes them: one leaf on AMD, another on Intel, in the same format.
#[cfg(target_arch = "x86_64")]
fn caches() -> [usize; 3] {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let mut bytes = USUAL;
    let extended = __cpuid(0x8000_0000).eax;
    let amd = extended >= 0x8000_001d && __cpuid(0x8000_0001).ecx & (1 << 22) != 0;
    let leaf = if amd { 0x8000_001d } else { 4 };
    if !amd && __cpuid(0).eax < 4 {
        return bytes;
    }
    for subleaf in 0..8 {
        let cache = __cpuid_count(leaf, subleaf);
        let (kind, level) = (cache.eax & 31, (cache.eax >> 5 & 7) as usize);
        if kind == 0 {
            break;
        }
        if kind != 2 && (1..=3).contains(&level) {
            let line = (cache.ebx & 0xfff) as usize + 1;
            let partitions = (cache.ebx >> 12 & 0x3ff) as usize + 1;
            let ways = (cache.ebx >> 22) as usize + 1;
            bytes[level - 1] = line * partitions * ways * (cache.ecx as usize + 1);
        }
    }
    bytes
}
