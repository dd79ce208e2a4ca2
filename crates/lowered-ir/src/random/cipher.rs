//! The block cipher Threefry on four 32-bit words, and variants of it for compatible programs.
//!
//! A `u32x4` holds its first lane in its lowest bits.
//!
//! # Source
//! Threefry: Salmon, Moraes, Dror, Shaw, *Parallel random numbers: as easy as 1, 2, 3* (2011), with the test
//! vectors published with its reference implementation. The variants are those of the project's predecessor.
//! They have the structure of the four-word cipher and the rotations of its two-word form, and exist to
//! reproduce the numbers of programs written for the predecessor.

use crate::ir::BinaryOp;

/// Four words, lane 0 first.
pub type Words = [u32; 4];

/// The parity word of the key schedule.
pub const PARITY: u32 = 0x1BD1_1BDA;

/// The parameters of a generator of random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generator {
    /// The rotations of each round, cyclically: of the first pair of words, and of the second.
    pub rotations: &'static [(u32, u32)],
    /// The number of rounds.
    pub rounds: u32,
    /// The number of rounds between two additions of the key; the first addition precedes the first round.
    pub rounds_per_key: u32,
}

/// Threefry-4x32 of 20 rounds.
pub const THREEFRY: Generator = Generator {
    rotations: &[(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)],
    rounds: 20,
    rounds_per_key: 4,
};

/// Threefry with 40 rounds, the generator of compatible programs that ask for high quality.
pub const THREEFRY_CRYPTO: Generator =
    Generator { rotations: &[(13, 15), (26, 6), (17, 29), (16, 24)], rounds: 40, rounds_per_key: 8 };

/// Threefry with 4 rounds, the fast generator of compatible programs.
pub const THREEFRY_LIGHT: Generator = Generator { rounds: 4, rounds_per_key: 4, ..THREEFRY_CRYPTO };

impl Generator {
    /// The generator that an operation stands for.
    pub fn of(op: BinaryOp) -> Option<Generator> {
        match op {
            BinaryOp::Threefry => Some(THREEFRY),
            BinaryOp::ThreefryCrypto => Some(THREEFRY_CRYPTO),
            BinaryOp::ThreefryLight => Some(THREEFRY_LIGHT),
            _ => None,
        }
    }

    /// The words that the generator gives for a key and a counter.
    pub fn words(self, key: Words, counter: Words) -> Words {
        self.run(&mut NativeWords, key, counter)
    }

    /// The generator over any arithmetic on words: numbers here, instructions in a code generator.
    pub fn run<A: WordAlgebra>(
        self,
        algebra: &mut A,
        key: [A::Word; 4],
        counter: [A::Word; 4],
    ) -> [A::Word; 4] {
        let mut parity = algebra.constant(PARITY);
        for word in &key {
            parity = algebra.xor(parity, word.clone());
        }
        let [k0, k1, k2, k3] = key;
        let schedule = [k0, k1, k2, k3, parity];
        let mut x = counter;
        inject(algebra, &mut x, &schedule, 0);
        for round in 0..self.rounds {
            let (first, second) = self.rotations[round as usize % self.rotations.len()];
            let (partner, other) = if round % 2 == 0 { (1, 3) } else { (3, 1) };
            mix(algebra, &mut x, 0, partner, first);
            mix(algebra, &mut x, 2, other, second);
            if (round + 1) % self.rounds_per_key == 0 {
                inject(algebra, &mut x, &schedule, (round + 1) / self.rounds_per_key);
            }
        }
        x
    }
}

/// `x[a] += x[b]; x[b] = rotate_left(x[b], by) ^ x[a]`.
fn mix<A: WordAlgebra>(algebra: &mut A, x: &mut [A::Word; 4], a: usize, b: usize, by: u32) {
    x[a] = algebra.add(x[a].clone(), x[b].clone());
    let rotated = algebra.rotate_left(x[b].clone(), by);
    x[b] = algebra.xor(rotated, x[a].clone());
}

/// Adds the subkey with this number: the words of the schedule from this position on, and the number itself.
fn inject<A: WordAlgebra>(algebra: &mut A, x: &mut [A::Word; 4], schedule: &[A::Word; 5], number: u32) {
    for (lane, word) in x.iter_mut().enumerate() {
        let subkey = schedule[(lane + number as usize) % 5].clone();
        *word = algebra.add(word.clone(), subkey);
    }
    if number > 0 {
        let number = algebra.constant(number);
        x[3] = algebra.add(x[3].clone(), number);
    }
}

/// Arithmetic modulo 2³² on words.
pub trait WordAlgebra {
    /// A word.
    type Word: Clone;
    /// The word with this value.
    fn constant(&mut self, value: u32) -> Self::Word;
    /// The sum of two words, modulo 2³².
    fn add(&mut self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// Bitwise exclusive or.
    fn xor(&mut self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The word rotated to the left by `0 < by < 32` bits.
    fn rotate_left(&mut self, a: Self::Word, by: u32) -> Self::Word;
}

/// Words as numbers.
struct NativeWords;

impl WordAlgebra for NativeWords {
    type Word = u32;

    fn constant(&mut self, value: u32) -> u32 {
        value
    }

    fn add(&mut self, a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }

    fn xor(&mut self, a: u32, b: u32) -> u32 {
        a ^ b
    }

    fn rotate_left(&mut self, a: u32, by: u32) -> u32 {
        a.rotate_left(by)
    }
}

/// The lanes of a `u32x4` given by its bits.
pub fn words_of(bits: u128) -> Words {
    [0, 32, 64, 96].map(|shift| (bits >> shift) as u32)
}

/// The bits of a `u32x4` with these lanes.
pub fn bits_of(words: Words) -> u128 {
    words.into_iter().rev().fold(0, |bits, word| bits << 32 | u128::from(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vectors of Threefry-4x32-20.
    #[test]
    fn threefry_gives_the_published_words() {
        let cases: [(Words, Words, Words); 3] = [
            ([0; 4], [0; 4], [0x9c6ca96a, 0xe17eae66, 0xfc10ecd4, 0x5256a7d8]),
            ([u32::MAX; 4], [u32::MAX; 4], [0x2a881696, 0x57012287, 0xf6c7446e, 0xa16a6732]),
            (
                [0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89],
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0x59cd1dbb, 0xb8879579, 0x86b5d00c, 0xac8b6d84],
            ),
        ];
        for (key, counter, expected) in cases {
            assert_eq!(THREEFRY.words(key, counter), expected, "key {key:08x?}, counter {counter:08x?}");
        }
    }

    /// Vectors of the project's predecessor: key 42 as a 64-bit integer, and counter 0 as a 32-bit integer
    /// converted as the predecessor does.
    #[test]
    fn the_variants_give_the_words_of_the_seed() {
        let (key, counter) = ([42, 0, 0, 0], [0, 0x9E37_79B9, 0x6C07_8965, 0]);
        assert_eq!(THREEFRY_LIGHT.words(key, counter), [0x76bb7178, 0xbb82ac4f, 0x8f90552b, 0x81b2da10]);
        assert_eq!(THREEFRY_LIGHT.words([0; 4], [0; 4]), [0, 0, 0, 0x1bd11bdb]);
        assert_eq!(THREEFRY_CRYPTO.words(key, counter), [0x2b9d4622, 0x1dae3397, 0xf64d814e, 0xfed53d7d]);
        assert_eq!(THREEFRY_CRYPTO.words([0; 4], [0; 4]), [0xaed7ff00, 0xdea3e3f9, 0x9c760045, 0xcd7c88b6]);
    }

    #[test]
    fn words_and_bits_are_the_same_thing() {
        let words = [1, 2, 3, 0xffff_fff4];
        assert_eq!(words_of(bits_of(words)), words);
        assert_eq!(bits_of([7, 0, 0, 0]), 7);
    }
}
