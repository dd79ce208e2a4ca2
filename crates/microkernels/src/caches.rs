//! The sizes of this machine's data caches, and whether the last one is far.

/// Bytes of the L1, L2 and L3 caches of a CPU that does not report them.
const DEFAULT_CACHES: [usize; 3] = [32 << 10, 512 << 10, 8 << 20];

/// Bytes of the data and unified caches by level, from CPUID: leaf 4 on Intel, leaf `0x8000001d` on AMD, in
/// the same format.
#[cfg(target_arch = "x86_64")]
pub(crate) fn caches() -> [usize; 3] {
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

/// Whether this is one of Intel's servers from Sapphire Rapids on, which are the ones with AVX512-FP16. Older
/// ones have a mesh too, but have not been measured.
#[cfg(target_arch = "x86_64")]
pub(crate) fn l3_is_far() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const AVX512_FP16: u32 = 1 << 23;
    let vendor = __cpuid(0);
    vendor.ebx.to_le_bytes() == *b"Genu" && vendor.eax >= 7 && __cpuid_count(7, 0).edx & AVX512_FP16 != 0
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn l3_is_far() -> bool {
    false
}

/// Bytes of the data and unified caches by level, from the operating system.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn caches() -> [usize; 3] {
    std::array::from_fn(|at| reported::bytes(at as u32 + 1).unwrap_or(DEFAULT_CACHES[at]))
}

/// The caches of the first core as Linux reports them.
#[cfg(all(target_os = "linux", not(target_arch = "x86_64")))]
mod reported {
    use std::fs;

    pub(super) fn bytes(level: u32) -> Option<usize> {
        let caches = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
        caches.flatten().find_map(|cache| {
            let read = |file| fs::read_to_string(cache.path().join(file)).ok();
            let holds_data = read("type")?.trim() != "Instruction";
            let here = read("level")?.trim().parse() == Ok(level);
            if holds_data && here { parse_size(read("size")?.trim()) } else { None }
        })
    }

    /// Parses a size such as `48K` or `2M` to bytes.
    fn parse_size(text: &str) -> Option<usize> {
        let (digits, unit) = match text.as_bytes().last()? {
            b'K' => (&text[..text.len() - 1], 1 << 10),
            b'M' => (&text[..text.len() - 1], 1 << 20),
            _ => (text, 1),
        };
        digits.parse::<usize>().ok()?.checked_mul(unit)
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("32K"), Some(32 << 10));
        assert_eq!(parse_size("2M"), Some(2 << 20));
        assert_eq!(parse_size("77"), Some(77));
        assert_eq!(parse_size("K"), None);
        assert_eq!(parse_size(""), None);
    }
}

/// The caches of a fast core as Apple's systems report them. They have no L3 cache of which programs know.
#[cfg(all(target_vendor = "apple", not(target_arch = "x86_64")))]
mod reported {
    use std::ffi::CStr;

    pub(super) fn bytes(level: u32) -> Option<usize> {
        match level {
            1 => number(c"hw.perflevel0.l1dcachesize").or_else(|| number(c"hw.l1dcachesize")),
            2 => number(c"hw.perflevel0.l2cachesize").or_else(|| number(c"hw.l2cachesize")),
            _ => None,
        }
    }

    fn number(name: &CStr) -> Option<usize> {
        let (mut value, mut bytes) = (0_u64, size_of::<u64>());
        // SAFETY: the name ends with a zero, `value` has `bytes` bytes, and both outlive the call.
        let status = unsafe {
            let (to, no_value) = ((&raw mut value).cast(), std::ptr::null_mut());
            libc::sysctlbyname(name.as_ptr(), to, &raw mut bytes, no_value, 0)
        };
        // The system writes four bytes for numbers that fit; the others are zero, and ARM64 is little-endian.
        (status == 0).then_some(value as usize)
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple", target_arch = "x86_64")))]
mod reported {
    pub(super) fn bytes(_: u32) -> Option<usize> {
        None
    }
}
