//! Constants that one instruction produces without memory.

use crate::machine::WORDS;

/// The word of the instruction that sets a register to a constant, given as words, without the register.
pub(super) fn vector_constant(words: &[u32]) -> Option<u32> {
    debug_assert!(words.len() <= WORDS, "a register's words");
    let (low, high) = (words[0], words[1]);
    if words.chunks(2).any(|pair| pair != [low, high]) {
        return None;
    }
    let double = u64::from(high) << 32 | u64::from(low);
    let by_bytes = (0..8).all(|byte| matches!(double >> (8 * byte) & 0xff, 0 | 0xff));
    if by_bytes {
        let bits = (0..8).fold(0, |bits, byte| bits | (double >> (8 * byte) & 1) << byte);
        return Some(with_byte(0x6f00_e400, bits as u32));
    }
    if low == high {
        for (word, number) in [(0x4f00_0400, low), (0x6f00_0400, !low)] {
            let shift = number.trailing_zeros() / 8 * 8;
            if number >> shift < 0x100 {
                return Some(with_byte(word | (shift / 8) << 13, number >> shift));
            }
        }
        return float32(low).map(|byte| with_byte(0x4f00_f400, byte));
    }
    float64(double).map(|byte| with_byte(0x6f00_f400, byte))
}

fn with_byte(word: u32, byte: u32) -> u32 {
    word | (byte >> 5) << 16 | (byte & 0x1f) << 5
}

/// The byte of a float with a mantissa of 4 bits and an exponent of -3 to 4.
fn float32(bits: u32) -> Option<u32> {
    let (top, rest) = (bits >> 25 & 0x3f, bits & 0x7_ffff);
    let fits = rest == 0 && matches!(top, 0x1f | 0x20);
    fits.then_some(bits >> 24 & 0x80 | bits >> 19 & 0x7f)
}

fn float64(bits: u64) -> Option<u32> {
    let (top, rest) = (bits >> 54 & 0x1ff, bits & 0xffff_ffff_ffff);
    let fits = rest == 0 && matches!(top, 0xff | 0x100);
    fits.then_some((bits >> 56 & 0x80 | bits >> 48 & 0x7f) as u32)
}
