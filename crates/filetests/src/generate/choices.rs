//! Decisions derived from bytes, so that a list of bytes describes a program: shorter and smaller lists make
//! simpler programs.

/// A supply of decisions; when the bytes run out every decision is the first, simplest one.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Decisions read from the bytes, in order.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes }
    }

    /// The next byte, or 0 when there is none.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    /// A number below `n`, which must be 1 to 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// True in `part` of `whole` cases; false when the bytes have run out.
    pub fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole) >= whole - part
    }

    /// One of the items, which must not be empty.
    pub fn pick<'b, T>(&mut self, items: &'b [T]) -> &'b T {
        &items[self.below(items.len())]
    }

    /// Whether no bytes are left.
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// `len` bytes determined by the seed (splitmix64).
pub fn bytes_of_seed(mut seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
