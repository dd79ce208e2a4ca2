//! The tile registers of AMX: whether this process may use them, and their configuration.
//!
//! Tile state belongs to a thread. A call configures it, computes, and releases it, so that context switches
//! and signals of other code save nothing of it. Linux lets a process use tiles after it asked for them, and
//! not if a thread has an alternate signal stack that is too small for their 8 KiB.

/// Rows of a tile, and sums of a row.
pub(crate) const TILE: usize = 16;

/// Bytes of a row of a tile.
pub(crate) const ROW_BYTES: usize = 64;

/// Whether the processor multiplies 8-bit integers in tiles, and the system lets this process use them. The
/// first call asks the system, for the whole process.
#[cfg(target_os = "linux")]
pub(crate) fn is_permitted() -> bool {
    use std::sync::LazyLock;
    static PERMITTED: LazyLock<bool> = LazyLock::new(|| has_instructions() && request());
    *PERMITTED
}

/// Whether this process may use tiles. Other systems are not known to permit it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_permitted() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn has_instructions() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    const AMX_TILE: u32 = 1 << 24;
    const AMX_INT8: u32 = 1 << 25;
    /// The configuration and the data of tiles.
    const STATE: u64 = 0b11 << 17;
    const PALETTES: u32 = 0x1d;
    let saves_state = std::arch::is_x86_feature_detected!("xsave") && __cpuid(1).ecx >> 27 & 1 == 1;
    if !saves_state || __cpuid(0).eax < PALETTES {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    // SAFETY: the processor has XSAVE, and the system has turned it on.
    let state = unsafe { _xgetbv(0) };
    let palette = __cpuid_count(PALETTES, 1);
    let (row_bytes, names, rows) = (palette.ebx & 0xffff, palette.ebx >> 16, palette.ecx & 0xffff);
    features & (AMX_TILE | AMX_INT8) == AMX_TILE | AMX_INT8
        && state & STATE == STATE
        && (row_bytes as usize, names >= 8, rows as usize) == (ROW_BYTES, true, TILE)
}

/// Asks the system to let the threads of this process use the data of tiles.
#[cfg(target_os = "linux")]
fn request() -> bool {
    const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
    const XTILEDATA: i64 = 18;
    // SAFETY: this request reads no memory and changes what the system permits, nothing else.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 }
}

/// The argument of `ldtilecfg`.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    zeros: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight tiles of [`TILE`] rows of [`ROW_BYTES`] bytes.
static WHOLE_TILES: TileConfig = TileConfig {
    palette: 1,
    start_row: 0,
    zeros: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Gives the thread eight whole tiles.
///
/// # Safety
///
/// This process may use tiles.
pub(crate) unsafe fn configure() {
    // SAFETY: the caller's promise; the configuration is one of palette 1, and nothing but inline assembly
    // uses tiles.
    unsafe { std::arch::asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE_TILES, options(nostack, readonly)) }
}

/// Takes the tiles from the thread again.
///
/// # Safety
///
/// This process may use tiles.
pub(crate) unsafe fn release() {
    // SAFETY: the caller's promise; no value lives in a tile between two statements of inline assembly.
    unsafe { std::arch::asm!("tilerelease", options(nostack, nomem)) }
}
