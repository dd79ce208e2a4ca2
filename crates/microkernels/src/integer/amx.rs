//! The microkernels of AMX: up to two tiles of rows by two tiles of columns.
//!
//! `tdpbusd` and `tdpbsud` read rows of A and groups of B as they are packed: a tile of A has 64 positions
//! along K of 16 rows, and a tile of B the same positions, in 16 groups of 16 columns.

use std::arch::asm;
use std::mem::offset_of;
use std::ptr;

use super::level::MatrixTiles;
use super::tile::{DotTile, GROUP, ZEROS};
use crate::amx::{ROW_BYTES, TILE, configure, release};
use crate::simd::prefetch;

/// Groups of a step.
pub(super) const GROUPS: usize = ROW_BYTES / GROUP;

/// Rows and columns of two tiles.
const TWO: usize = 2 * TILE;

/// Bytes from a row of two tiles of sums to the next, and from a group of B to the next behind K.
const TWO_BYTES: usize = 2 * ROW_BYTES;

pub(super) const TILES: MatrixTiles = MatrixTiles { unit: TILE, least: 3, configure, release, run };

/// The addresses and the strides of a call in bytes, as the assembly reads them.
#[repr(C)]
struct TileCall {
    steps: usize,
    a: *const u8,
    a_row: isize,
    b: *const u8,
    b_group: isize,
    /// The groups of B behind the last whole step, [`TWO_BYTES`] apart; null if there are none.
    b_rest: *const u8,
    from: *const i32,
    from_row: isize,
    to: *mut i32,
    to_row: isize,
}

/// Computes a tile of at most [`TWO`] rows and columns, with an unsigned or a signed B.
///
/// # Safety
///
/// The thread has eight whole tiles. The elements that `tile` spans may be read and written. Rows of A, and
/// of the initial sums if they have a stride, may be read up to a multiple of [`TILE`], as may columns of B
/// and of the initial sums.
unsafe fn run(tile: &DotTile, is_unsigned: bool, rows: usize, columns: usize) {
    let (tall, wide) = (rows > TILE, columns > TILE);
    let kernel = match (is_unsigned, tall, wide) {
        (false, false, false) => signed_1x1,
        (false, false, true) => signed_1x2,
        (false, true, false) => signed_2x1,
        (false, true, true) => signed_2x2,
        (true, false, false) => unsigned_1x1,
        (true, false, true) => unsigned_1x2,
        (true, true, false) => unsigned_2x1,
        (true, true, true) => unsigned_2x2,
    };
    let bytes = if wide { TWO_BYTES } else { ROW_BYTES };
    let (steps, rest) = (tile.groups / GROUPS, tile.groups % GROUPS);
    // A is filled up with zeros, so the groups beyond K only need to be readable.
    let mut b_rest = [0_u8; GROUPS * TWO_BYTES];
    for at in 0..rest {
        let from = tile.b.wrapping_offset((steps * GROUPS + at) as isize * tile.b_group);
        // SAFETY: the caller's promise; a row of the buffer has two rows of tiles.
        unsafe { ptr::copy_nonoverlapping(from, b_rest.as_mut_ptr().add(at * TWO_BYTES), bytes) }
    }
    if tile.ahead != 0 {
        for group in 0..tile.groups {
            let next = tile.b.wrapping_offset(group as isize * tile.b_group + tile.ahead);
            (0..bytes).step_by(ROW_BYTES).for_each(|at| prefetch(next.wrapping_add(at), true));
        }
    }
    let (from, from_row) = match tile.from.is_null() {
        true => (ZEROS.as_ptr().cast(), 0),
        false => (tile.from, tile.from_row),
    };
    let mut call = TileCall {
        steps,
        a: tile.a,
        a_row: tile.a_strip,
        b: tile.b,
        b_group: tile.b_group,
        b_rest: if rest > 0 { b_rest.as_ptr() } else { ptr::null() },
        from,
        from_row,
        to: tile.to,
        to_row: tile.to_row,
    };
    if rows.is_multiple_of(TILE) && columns.is_multiple_of(TILE) {
        // SAFETY: the caller's promise: the tile has whole tiles of sums.
        unsafe { kernel(&mut call) }
        return;
    }
    let mut sums = [0_i32; TWO * TWO];
    (call.to, call.to_row) = (sums.as_mut_ptr(), TWO_BYTES as isize);
    // SAFETY: the caller's promise; the buffer has the sums of four tiles.
    unsafe {
        kernel(&mut call);
        for (row, sums) in sums.chunks_exact(TWO).take(rows).enumerate() {
            let to = tile.to.wrapping_byte_offset(row as isize * tile.to_row);
            ptr::copy_nonoverlapping(sums.as_ptr(), to, columns);
        }
    }
}

/// Defines a microkernel: the instruction that adds products, the tiles of sums with their places and their
/// operands, and the tiles of A and of B with theirs.
macro_rules! kernel {
    (
        $name:ident, $add:literal,
        sums $($sum:literal $row:literal $column:literal $a:literal $b:literal),*;
        a $($a_tile:literal $a_row:literal),*;
        b $($b_tile:literal $b_column:literal),*
    ) => {
        /// # Safety
        ///
        /// The thread has eight whole tiles, and the tiles that `call` spans may be read and written.
        unsafe fn $name(call: &mut TileCall) {
            // SAFETY: the caller's promise. The assembly leaves alone all but its operands, the flags, tiles,
            // and the sums.
            unsafe {
                asm!(
                    // The initial sums, whose second row of tiles begins after sixteen rows.
                    "mov {stride}, [{call} + {from_row}]",
                    "mov {first}, [{call} + {from}]",
                    "mov {second}, {stride}",
                    "shl {second}, 4",
                    "add {second}, {first}",
                    $(concat!("tileloadd ", $sum, ", [{", $row, "} + {stride}*1 + ", $column, "]"),)*
                    "mov {stride}, [{call} + {a_row}]",
                    "mov {first}, [{call} + {a}]",
                    "mov {second}, {stride}",
                    "shl {second}, 4",
                    "add {second}, {first}",
                    "mov {b}, [{call} + {b_start}]",
                    "mov {b_stride}, [{call} + {b_group}]",
                    "mov {b_step}, {b_stride}",
                    "shl {b_step}, 4",
                    "mov {steps}, [{call} + {step_count}]",
                    "test {steps}, {steps}",
                    "jz 3f",
                    "2:",
                    $(concat!("tileloadd ", $b_tile, ", [{b} + {b_stride}*1 + ", $b_column, "]"),)*
                    $(concat!("tileloadd ", $a_tile, ", [{", $a_row, "} + {stride}*1]"),)*
                    $(concat!($add, " ", $sum, ", ", $a, ", ", $b),)*
                    "add {first}, 64",
                    "add {second}, 64",
                    "add {b}, {b_step}",
                    "sub {steps}, 1",
                    "jnz 2b",
                    // The rest is one more step, of other groups.
                    "3:",
                    "mov {b}, [{call} + {b_rest}]",
                    "test {b}, {b}",
                    "jz 4f",
                    "mov qword ptr [{call} + {b_rest}], 0",
                    "mov {b_stride}, 128",
                    "mov {steps}, 1",
                    "jmp 2b",
                    "4:",
                    "mov {stride}, [{call} + {to_row}]",
                    "mov {first}, [{call} + {to}]",
                    "mov {second}, {stride}",
                    "shl {second}, 4",
                    "add {second}, {first}",
                    $(concat!("tilestored [{", $row, "} + {stride}*1 + ", $column, "], ", $sum),)*
                    call = in(reg) &raw mut *call,
                    first = out(reg) _,
                    second = out(reg) _,
                    stride = out(reg) _,
                    b = out(reg) _,
                    b_stride = out(reg) _,
                    b_step = out(reg) _,
                    steps = out(reg) _,
                    step_count = const offset_of!(TileCall, steps),
                    a = const offset_of!(TileCall, a),
                    a_row = const offset_of!(TileCall, a_row),
                    b_start = const offset_of!(TileCall, b),
                    b_group = const offset_of!(TileCall, b_group),
                    b_rest = const offset_of!(TileCall, b_rest),
                    from = const offset_of!(TileCall, from),
                    from_row = const offset_of!(TileCall, from_row),
                    to = const offset_of!(TileCall, to),
                    to_row = const offset_of!(TileCall, to_row),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                )
            }
        }
    };
}

/// Defines the microkernels of a kind of B, by the instruction that adds products.
macro_rules! kernels {
    ($add:literal, $one:ident, $wide:ident, $tall:ident, $both:ident) => {
        kernel!(
            $one, $add,
            sums "tmm0" "first" "0" "tmm4" "tmm6"; a "tmm4" "first"; b "tmm6" "0"
        );
        kernel!(
            $wide, $add,
            sums "tmm0" "first" "0" "tmm4" "tmm6", "tmm1" "first" "64" "tmm4" "tmm7";
            a "tmm4" "first"; b "tmm6" "0", "tmm7" "64"
        );
        kernel!(
            $tall, $add,
            sums "tmm0" "first" "0" "tmm4" "tmm6", "tmm2" "second" "0" "tmm5" "tmm6";
            a "tmm4" "first", "tmm5" "second"; b "tmm6" "0"
        );
        kernel!(
            $both, $add,
            sums "tmm0" "first" "0" "tmm4" "tmm6", "tmm1" "first" "64" "tmm4" "tmm7",
                "tmm2" "second" "0" "tmm5" "tmm6", "tmm3" "second" "64" "tmm5" "tmm7";
            a "tmm4" "first", "tmm5" "second"; b "tmm6" "0", "tmm7" "64"
        );
    };
}

// The left operand is A, which is unsigned if B is signed.
kernels!("tdpbusd", signed_1x1, signed_1x2, signed_2x1, signed_2x2);
kernels!("tdpbsud", unsigned_1x1, unsigned_1x2, unsigned_2x1, unsigned_2x2);
