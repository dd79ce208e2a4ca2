//! SplitMix64, a generator of random words from a seed.
//!
//! Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).

/// A sequence of random words; every seed gives another one.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// The next word of the sequence.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// `len` bytes determined by the seed: the words of [`SplitMix64`] in little-endian order.
pub fn bytes_of_seed(seed: u64, len: usize) -> Vec<u8> {
    let mut words = SplitMix64::new(seed);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| words.word().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published values for the seed 1234567.
    #[test]
    fn words_are_the_published_ones() {
        let mut words = SplitMix64::new(1_234_567);
        let first = [0; 3].map(|_| words.word());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(bytes_of_seed(1_234_567, 11)[..8], first[0].to_le_bytes());
        assert_eq!(bytes_of_seed(1_234_567, 11).len(), 11);
    }
}
