//! Log buffers: kernels that cannot call functions while they run write records into a buffer, which becomes
//! text after the run.
//!
//! [`crate::abi`] specifies the format under "Log buffers". A codegen gets the sizes of buffers and records
//! here; a device calls [`write()`].

use std::slice;

use lowered_ir::ir::{LoweredRoutine, Stmt};
use lowered_ir::log::{self, LogLine};
use tnode::{DType, Scalar};

use crate::log::{LogWriter, Logging};

/// Bytes before the records.
pub const HEADER_BYTES: usize = 16;

/// Bytes of a word, the unit of a buffer.
pub const WORD_BYTES: usize = 4;

/// Words of a value in a record.
pub fn value_words(dtype: DType) -> usize {
    dtype.size_bytes().div_ceil(WORD_BYTES)
}

/// Words of a line's record: its number and its values.
pub fn record_words(line: &LogLine) -> usize {
    1 + line.dtypes().map(value_words).sum::<usize>()
}

/// Bytes of a buffer, header included, with room for everything that one run of the kernel can log, whatever
/// the values of its symbols.
pub fn most_bytes(kernel: &LoweredRoutine) -> u64 {
    let lines = log::lines(kernel);
    let words = most_words(&kernel.body, &mut lines.iter());
    words.saturating_mul(WORD_BYTES as u64).saturating_add(HEADER_BYTES as u64)
}

/// The most words that a block logs. `lines` yields the lines of the block and of the statements after it.
fn most_words(block: &[Stmt], lines: &mut slice::Iter<'_, LogLine>) -> u64 {
    block.iter().fold(0, |words: u64, stmt| {
        words.saturating_add(match stmt {
            Stmt::Log { .. } => lines.next().map_or(0, |line| record_words(line) as u64),
            Stmt::For { lo, hi, body, .. } => {
                let iterations = hi.limit.saturating_sub(*lo).max(0) as u64;
                most_words(body, lines).saturating_mul(iterations)
            }
            _ => 0,
        })
    })
}

/// Writes the records that a run left in its buffer as text and, if the buffer was too small, the number of
/// lost lines. An invalid record ends the log.
///
/// # Panics
///
/// If the sink panics.
pub fn write(buffer: &[u8], lines: &[LogLine], logging: &Logging) {
    let words: Vec<u32> = buffer.chunks_exact(WORD_BYTES).map(word).collect();
    let Some((&[used, _, lost_low, lost_high], records)) = words.split_first_chunk() else { return };
    let mut writer = LogWriter::new(lines, Some(logging));
    let mut rest = records.get(..used as usize).unwrap_or(records);
    while let Some((number, values, behind)) = record(rest, lines) {
        writer.record(number, &values);
        rest = behind;
    }
    let lost = u64::from(lost_high) << 32 | u64::from(lost_low);
    if lost > 0 {
        writer.dropped(lost, buffer.len());
    }
    writer.finish();
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

/// The first record: the line's number, its values, and the remaining words; none if the words are no record.
fn record<'w>(words: &'w [u32], lines: &[LogLine]) -> Option<(usize, Vec<Scalar>, &'w [u32])> {
    let (&number, mut rest) = words.split_first()?;
    let mut values = Vec::new();
    for dtype in lines.get(number as usize)?.dtypes() {
        let (value, behind) = rest.split_at_checked(value_words(dtype))?;
        let bits = value.iter().rev().fold(0, |bits: u128, &word| bits << 32 | u128::from(word));
        values.push(Scalar::new(dtype, bits));
        rest = behind;
    }
    Some((number as usize, values, rest))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use lowered_ir::log::LogStyle;

    use super::*;

    const ROUTINE: &str = "routine @r {
      symbol @n in 0..9
      log \"a\"
      for i0 in 0..3 { log true, \" \", 1.5f16, \" \", index i64(i0) for i1 in 2..min(7, @n) { log \"b\" } }
      for i0 in 4..4 { log \"never\" }
    }";

    /// A buffer with a header and these words.
    fn buffer(lost: u64, records: &[u32]) -> Vec<u8> {
        let header = [records.len() as u32, 0, lost as u32, (lost >> 32) as u32];
        header.iter().chain(records).flat_map(|word| word.to_le_bytes()).collect()
    }

    fn text(buffer: &[u8]) -> String {
        let lines = log::lines(&lowered_ir::text::parse(ROUTINE).unwrap());
        let found = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&found);
        let sink = Arc::new(move |lines: &str| sink.lock().unwrap().push_str(lines));
        write(buffer, &lines, &Logging { sink, style: LogStyle::Exact });
        found.lock().unwrap().clone()
    }

    #[test]
    fn a_buffer_has_room_for_every_iteration() {
        let words = 1 + 3 * ((1 + 1 + 1 + 2) + 5);
        assert_eq!(most_bytes(&lowered_ir::text::parse(ROUTINE).unwrap()), 16 + 4 * words);
        let endless =
            "routine @r { for i0 in 0..9000000000000000000 { for i1 in 0..8000000000 { log \"b\" } } }";
        assert_eq!(most_bytes(&lowered_ir::text::parse(endless).unwrap()), u64::MAX);
    }

    #[test]
    fn records_become_lines() {
        let records = [0, 1, 1, 0x3e00, -2i32 as u32, -1i32 as u32, 2, 1, 0, 0x7e01, 7, 1];
        assert_eq!(text(&buffer(0, &records)), "a\ntrue 1.5 -2\nb\nfalse nan 4294967303\n");
    }

    #[test]
    fn what_had_no_room_is_counted_in_a_line() {
        let expected = "b\nDROPPED: 4294967298 lines; the log of a run has room for 20 bytes\n";
        assert_eq!(text(&buffer((1 << 32) + 2, &[2])), expected);
    }

    #[test]
    fn what_makes_no_sense_ends_the_log() {
        assert_eq!(text(&buffer(0, &[0, 1, 1, 0x3e00])), "a\n", "a record that is cut off");
        assert_eq!(text(&buffer(0, &[0, 4, 0])), "a\n", "a line that there is not");
        let mut long = buffer(0, &[0, 2]);
        long[0] = 200;
        assert_eq!(text(&long), "a\nb\n", "more records than bytes");
        assert_eq!(text(&buffer(0, &[])) + &text(&[1, 2, 3]), "");
    }
}
