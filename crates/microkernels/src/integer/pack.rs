//! Packing of 8-bit operands: rows of A one after the other, and panels of B in groups of four positions
//! along K ([`super::tile`]).

use std::ops::Range;
use std::ptr;

use vector_asm::StoredType;

use super::tile::{GROUP, ZEROS};
use crate::operand::OperandLayout;
use crate::problem::AxisOffsets;

/// Bytes of a row that follow one another in a strip of several rows: the groups of a step.
const TURN: usize = 2 * GROUP;

/// How rows of A are packed.
#[derive(Debug)]
pub(crate) struct RowFormat {
    /// The positions along K as [`runs`].
    pub(crate) runs: Vec<Range<usize>>,
    /// Positions along K, with those that fill up the last step.
    pub(crate) padded: usize,
    /// Rows of a strip.
    pub(crate) strip: usize,
    /// Whether elements are widened to 16 bits.
    pub(crate) is_wide: bool,
    /// Whether elements are unsigned. Only widening asks.
    pub(crate) is_unsigned: bool,
    /// The bits that are flipped: the sign, if elements are moved by 128.
    pub(crate) flip: u8,
    /// Bytes from a row to the next.
    pub(crate) row_bytes: usize,
}

impl RowFormat {
    pub(crate) fn strip_bytes(&self) -> usize {
        self.strip * self.row_bytes
    }

    /// Bytes of so many packed rows. The rows of a strip are packed one by one behind the block before they
    /// take turns.
    pub(crate) fn block_bytes(&self, rows: usize) -> usize {
        let spare = if self.strip > 1 { self.row_bytes } else { 0 };
        rows.div_ceil(self.strip) * self.strip_bytes() + spare
    }
}

/// Positions along K whose elements are neighbors in memory, and of which all or none exist in a row.
pub(crate) fn runs(operand: &OperandLayout, k: usize) -> Vec<Range<usize>> {
    let follows = |p: usize| {
        operand.k.at(p) == operand.k.at(p - 1) + 1 && operand.class.get(p) == operand.class.get(p - 1)
    };
    let mut runs: Vec<Range<usize>> = Vec::new();
    for p in 0..k {
        match runs.last_mut() {
            Some(run) if follows(p) => run.end = p + 1,
            _ => runs.push(p..p + 1),
        }
    }
    runs
}

/// Packs rows of A, whole along K, with zeros up to a whole step. The last row is repeated to the end of its
/// strip.
///
/// # Safety
///
/// `from` is the address of position 0 of both dimensions. The elements of the rows that are within bounds
/// may be read, and [`RowFormat::block_bytes`] bytes written at `to`.
pub(crate) unsafe fn rows(
    operand: &OperandLayout,
    from: *const u8,
    rows: Range<usize>,
    k: usize,
    to: *mut u8,
    format: &RowFormat,
) {
    let RowFormat { padded, strip, .. } = *format;
    let spare = to.wrapping_add(rows.len().div_ceil(strip) * format.strip_bytes());
    let end = rows.end;
    for (at, row) in rows.enumerate() {
        let place = to.wrapping_add(at / strip * format.strip_bytes());
        let to = if strip > 1 { spare } else { place };
        // Bytes that are widened start in the second half of the row, where widening reads them in time.
        let bytes = if format.is_wide { to.wrapping_add(padded) } else { to };
        // SAFETY: the caller's promise; a row has one or two bytes for each padded position.
        unsafe {
            copy_row(operand, from, row, bytes, format);
            bytes.add(k).write_bytes(0, padded - k);
            if format.is_wide {
                widen(to, padded, format.is_unsigned);
            }
            if strip > 1 {
                let turn = at % strip;
                take_turns(to, padded, place, strip, turn..if row + 1 == end { strip } else { turn + 1 });
            }
        }
    }
}

/// The sum of the elements of a row.
///
/// # Safety
///
/// `from` is the address of position 0 of both dimensions. The elements of the row that are within bounds may
/// be read.
pub(crate) unsafe fn row_sum(
    operand: &OperandLayout,
    from: *const u8,
    row: usize,
    runs: &[Range<usize>],
) -> i32 {
    let number = |byte: &u8| match operand.memory {
        StoredType::U8 => i32::from(*byte),
        _ => i32::from(*byte as i8),
    };
    let start = from.wrapping_offset(operand.outer.at(row));
    let sum = |run: &Range<usize>| match exists(operand, row, run.start) {
        true => {
            let run = (start.wrapping_offset(operand.k.at(run.start)), run.len());
            // SAFETY: the caller's promise: elements that exist may be read.
            let bytes = unsafe { std::slice::from_raw_parts(run.0, run.1) };
            bytes.iter().map(number).fold(0, i32::wrapping_add)
        }
        false => number(&operand.outside).wrapping_mul(run.len() as i32),
    };
    runs.iter().map(sum).fold(0, i32::wrapping_add)
}

/// Copies the elements of a row, with bits flipped.
unsafe fn copy_row(operand: &OperandLayout, from: *const u8, row: usize, to: *mut u8, format: &RowFormat) {
    let start = from.wrapping_offset(operand.outer.at(row));
    for run in &format.runs {
        let to = to.wrapping_add(run.start);
        // SAFETY: the caller's promise: elements that exist may be read.
        unsafe {
            match exists(operand, row, run.start) {
                true => {
                    copy_flipped(start.wrapping_offset(operand.k.at(run.start)), to, run.len(), format.flip);
                }
                false => to.write_bytes(operand.outside ^ format.flip, run.len()),
            }
        }
    }
}

/// Copies bytes, sixteen at a time, with bits flipped. Runs are short, so a call would cost more.
#[inline(always)]
unsafe fn copy_flipped(from: *const u8, to: *mut u8, count: usize, flip: u8) {
    const CHUNK: usize = 16;
    let flips = u128::from_ne_bytes([flip; CHUNK]);
    // SAFETY: the caller's promise: `count` bytes may be read and written.
    let copy = |at: usize| unsafe {
        let bytes = from.add(at).cast::<u128>().read_unaligned();
        to.add(at).cast::<u128>().write_unaligned(bytes ^ flips);
    };
    if let Some(last) = count.checked_sub(CHUNK) {
        (0..last).step_by(CHUNK).for_each(copy);
        copy(last);
    } else {
        // SAFETY: the caller's promise.
        (0..count).for_each(|at| unsafe { *to.add(at) = *from.add(at) ^ flip });
    }
}

/// Widens bytes in the second half of `2 * count` bytes to 16 bits in all of them.
unsafe fn widen(to: *mut u8, count: usize, is_unsigned: bool) {
    for at in 0..count {
        // SAFETY: the caller's promise. The element at `at` is read before it is overwritten, because it lies
        // at `count + at`, which is no less than `2 * at`.
        unsafe {
            let byte = *to.add(count + at);
            let wide = if is_unsigned { i16::from(byte) } else { i16::from(byte as i8) };
            to.cast::<i16>().add(at).write_unaligned(wide);
        }
    }
}

/// Copies the bytes of a row to its turns in a strip of rows.
unsafe fn take_turns(row: *const u8, bytes: usize, strip: *mut u8, rows: usize, turns: Range<usize>) {
    for step in 0..bytes / TURN {
        for turn in turns.clone() {
            let to = strip.wrapping_add((step * rows + turn) * TURN);
            // SAFETY: the caller's promise: a row has whole steps, and the strip as many for each row.
            unsafe { ptr::copy_nonoverlapping(row.wrapping_add(step * TURN), to, TURN) }
        }
    }
}

/// Packs a panel of B, whole along K: for each group, four bytes of each of `width` columns. Columns beyond
/// `columns` are left as they are, and positions beyond `k` are zeros.
///
/// # Safety
///
/// `from` is the address of position 0 of both dimensions. The elements of the columns that are within bounds
/// may be read, and `4 * width` bytes for each group written at `to`. There are at most `width` columns.
pub(crate) unsafe fn panel(
    operand: &OperandLayout,
    from: *const u8,
    columns: Range<usize>,
    width: usize,
    k: usize,
    to: *mut u8,
) {
    let is_row = operand.limits.is_empty() && operand.outer_run_end(columns.start) >= columns.end;
    let is_column = operand.limits.is_empty() && operand.k == AxisOffsets::Strided(1);
    for (group, p) in (0..k).step_by(GROUP).enumerate() {
        let to = to.wrapping_add(group * width * GROUP);
        // SAFETY: the caller's promise.
        unsafe {
            if is_column && p + GROUP <= k {
                for (at, column) in columns.clone().enumerate() {
                    let start = from.wrapping_offset(operand.outer.at(column)).wrapping_add(p);
                    ptr::copy_nonoverlapping(start, to.add(at * GROUP), GROUP);
                }
            } else if is_row {
                let row = |p: usize| match p < k {
                    true => from.wrapping_offset(operand.outer.at(columns.start) + operand.k.at(p)),
                    false => ZEROS.as_ptr(),
                };
                interleave([row(p), row(p + 1), row(p + 2), row(p + 3)], columns.len(), to);
            } else {
                for (at, column) in columns.clone().enumerate() {
                    for i in 0..GROUP {
                        let byte = if p + i < k { element(operand, from, column, p + i) } else { 0 };
                        *to.add(at * GROUP + i) = byte;
                    }
                }
            }
        }
    }
}

/// Writes the bytes of four rows in turns.
#[cfg(target_arch = "aarch64")]
unsafe fn interleave(rows: [*const u8; 4], count: usize, to: *mut u8) {
    use std::arch::aarch64::*;
    let whole = count / 8 * 8;
    // SAFETY: the caller's promise; every ARM64 has NEON.
    unsafe {
        for at in (0..whole).step_by(8) {
            let [a, b, c, d] = rows.map(|row| vld1_u8(row.add(at)));
            vst4_u8(to.add(at * GROUP), uint8x8x4_t(a, b, c, d));
        }
        interleave_rest(rows, whole..count, to);
    }
}

/// Writes the bytes of four rows in turns.
#[cfg(target_arch = "x86_64")]
unsafe fn interleave(rows: [*const u8; 4], count: usize, to: *mut u8) {
    use std::arch::x86_64::*;
    let whole = count / 16 * 16;
    // SAFETY: the caller's promise; every x86-64 has SSE2.
    unsafe {
        for at in (0..whole).step_by(16) {
            let row = |row: usize| _mm_loadu_si128(rows[row].add(at).cast());
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (low, high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
            let (low_2, high_2) = (_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d));
            let to: *mut __m128i = to.add(at * GROUP).cast();
            _mm_storeu_si128(to, _mm_unpacklo_epi16(low, low_2));
            _mm_storeu_si128(to.add(1), _mm_unpackhi_epi16(low, low_2));
            _mm_storeu_si128(to.add(2), _mm_unpacklo_epi16(high, high_2));
            _mm_storeu_si128(to.add(3), _mm_unpackhi_epi16(high, high_2));
        }
        interleave_rest(rows, whole..count, to);
    }
}

/// Writes some bytes of four rows in turns.
unsafe fn interleave_rest(rows: [*const u8; 4], range: Range<usize>, to: *mut u8) {
    for at in range {
        for (i, row) in rows.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *to.add(at * GROUP + i) = *row.add(at) };
        }
    }
}

/// Whether an element is within all limits.
fn exists(operand: &OperandLayout, outer: usize, k: usize) -> bool {
    operand.limits.iter().all(|limit| (0..limit.limit).contains(&(limit.outer[outer] + limit.k[k])))
}

/// An element, or what stands for one that does not exist.
unsafe fn element(operand: &OperandLayout, from: *const u8, outer: usize, k: usize) -> u8 {
    if !exists(operand, outer, k) {
        return operand.outside;
    }
    // SAFETY: the caller's promise: an element within bounds may be read.
    unsafe { *from.wrapping_offset(operand.outer.at(outer) + operand.k.at(k)) }
}
