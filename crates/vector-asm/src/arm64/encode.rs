//! Words: registers, displacements and integers.

use super::{Arm64Assembler, SPARE, STACK};

impl Arm64Assembler {
    pub(super) fn put(&mut self, word: u32) {
        self.words.push(word);
    }

    /// A word with the registers `d` and `n`.
    pub(super) fn two(&mut self, word: u32, d: u32, n: u32) {
        self.put(word | n << 5 | d);
    }

    /// A word with the registers `d`, `n` and `m`.
    pub(super) fn three(&mut self, word: u32, d: u32, n: u32, m: u32) {
        self.put(word | m << 16 | n << 5 | d);
    }

    /// An access of `size` bytes at a general register plus a displacement. `word` is that with an unsigned
    /// displacement in units of `size`.
    pub(super) fn access(&mut self, word: u32, size: u32, register: u32, base: u8, displacement: i64) {
        let units = displacement / i64::from(size);
        let base = u32::from(base);
        if displacement % i64::from(size) == 0 && (0..4096).contains(&units) {
            return self.two(word | (units as u32) << 10, register, base);
        }
        let word = word & !0x0100_0000;
        if (-256..256).contains(&displacement) {
            return self.two(word | (displacement as u32 & 0x1ff) << 12, register, base);
        }
        self.load_number(SPARE, displacement);
        self.three(word | 0x0020_6800, register, base, u32::from(SPARE));
    }

    /// The register that holds `base + displacement`: the base or [`SPARE`].
    pub(super) fn place(&mut self, base: u8, displacement: i64) -> u8 {
        if displacement == 0 {
            return base;
        }
        self.sum(SPARE, base, displacement, SPARE);
        SPARE
    }

    /// `to := from + number`; may clobber `spare`, which is not `from` unless the number is small.
    pub(super) fn sum(&mut self, to: u8, from: u8, number: i64, spare: u8) {
        let (magnitude, word) = (number.unsigned_abs(), if number < 0 { 0xd100_0000 } else { 0x9100_0000 });
        if magnitude < 1 << 24 {
            let (low, high) = (magnitude as u32 & 0xfff, magnitude as u32 >> 12);
            let mut from = u32::from(from);
            if high > 0 {
                self.two(word | 1 << 22 | high << 10, u32::from(to), from);
                from = u32::from(to);
            }
            if low > 0 || high == 0 {
                self.two(word | low << 10, u32::from(to), from);
            }
            return;
        }
        self.load_number(spare, number);
        // The form with an extended register, in which register 31 is the stack pointer.
        self.three(0x8b20_6000, u32::from(to), u32::from(from), u32::from(spare));
    }

    /// Loads an integer by 16 bits at a time.
    pub(super) fn load_number(&mut self, to: u8, number: i64) {
        let (to, number) = (u32::from(to), number as u64);
        let pieces = [0, 1, 2, 3].map(|piece| (number >> (16 * piece)) as u16);
        let count = |of: u16| pieces.iter().filter(|piece| **piece == of).count();
        // The first instruction sets the other pieces to all zeros or to all ones.
        let ones = count(0xffff) > count(0);
        let (fill, mut word) = if ones { (0xffff, 0x9280_0000) } else { (0, 0xd280_0000) };
        for (position, &piece) in pieces.iter().enumerate() {
            let is_last = position == 3 && word != 0xf280_0000;
            if piece == fill && !is_last {
                continue;
            }
            let bits = if word == 0x9280_0000 { !piece } else { piece };
            self.put(word | (position as u32) << 21 | u32::from(bits) << 5 | to);
            word = 0xf280_0000;
        }
    }

    pub(super) fn move_register(&mut self, to: u8, from: u8) {
        if to != from {
            // Register 31 is zero here, so the stack pointer must not be moved by this form.
            debug_assert!(to != STACK && from != STACK, "the stack pointer is no operand");
            self.three(0xaa00_03e0, u32::from(to), 0, u32::from(from));
        }
    }
}
