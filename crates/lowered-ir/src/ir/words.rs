//! Keys of expressions and statements as words.

use std::hash::Hasher;

/// A hasher that keeps what is hashed, so that equal words mean equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub Vec<u64>);

impl Hasher for Words {
    /// The number of words.
    fn finish(&self) -> u64 {
        self.0.len() as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0.push(u64::from_ne_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.0.push(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0.push(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0.push(number);
    }

    #[inline]
    fn write_i64(&mut self, number: i64) {
        self.0.push(number as u64);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.0.push(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.0.push(number as u64);
    }
}
