//! The CPU that plans are made for: its vector instructions and the sizes of its caches.

use vector_asm::Isa;

/// A CPU, as far as plans depend on it. It affects only the speed of a plan, never its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpuTarget {
    /// The instruction set of plans and of their epilogues. Without one there are no plans.
    pub isa: Option<Isa>,
    /// Bytes of a core's L1 data cache.
    pub l1_bytes: usize,
    /// Bytes of a core's L2 cache.
    pub l2_bytes: usize,
    /// Bytes of the L3 cache, which cores share.
    pub l3_bytes: usize,
    /// Threads that can run at once.
    pub threads: usize,
}

impl CpuTarget {
    /// The CPU that this runs on, with the instruction set that [`Isa::detect`] chooses for it.
    pub fn detect() -> CpuTarget {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let [l1_bytes, l2_bytes, l3_bytes] = caches();
        CpuTarget { isa: Isa::detect(), l1_bytes, l2_bytes, l3_bytes, threads }
    }
}

/// Bytes of the L1, L2 and L3 caches of a CPU that does not report them.
const DEFAULT_CACHES: [usize; 3] = [32 << 10, 512 << 10, 8 << 20];

#[cfg(not(target_arch = "x86_64"))]
fn caches() -> [usize; 3] {
    DEFAULT_CACHES
}

/// Bytes of the data and unified caches by level, from CPUID: leaf 4 on Intel, leaf `0x8000001d` on AMD, in
/// the same format.
#[cfg(target_arch = "x86_64")]
fn caches() -> [usize; 3] {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let mut bytes = DEFAULT_CACHES;
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
