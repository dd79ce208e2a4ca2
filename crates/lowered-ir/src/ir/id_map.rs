//! Tables of identifiers that are only looked up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table that is looked up by identifier and never iterated, so its order cannot be observed.
///
/// Routines have tens of thousands of loops, and analyses look up the loops of every index: a search tree
/// would spend most of their time on cache misses.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes the number of an identifier. Consecutive numbers have hashes in different buckets.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

/// The fractional part of the golden ratio, which spreads multiples over all bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }
}
