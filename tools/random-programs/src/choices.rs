//! Decisions derived from bytes, so that a list of bytes describes a program: shorter and smaller lists make
//! simpler programs.

/// A supply of decisions. After the last byte, every decision is the first and simplest choice.
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

    /// The next eight bytes as a little-endian number; missing bytes are 0.
    pub fn word(&mut self) -> u64 {
        u64::from_le_bytes([0; 8].map(|_| self.byte()))
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

    /// The items in another order; the given order when the bytes have run out.
    pub fn shuffled<T: Copy>(&mut self, items: &[T]) -> Vec<T> {
        let mut rest = items.to_vec();
        (0..items.len()).map(|_| rest.remove(self.below(rest.len()))).collect()
    }

    /// Whether no bytes are left.
    pub fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_the_bytes_and_are_the_simplest_after_them() {
        let mut choices = Choices::new(&[7, 255, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((choices.below(5), choices.chance(1, 3)), (2, false));
        assert_eq!(choices.pick(&["a", "b", "c"]), &"c");
        assert_eq!(choices.word(), 0x101);
        assert_eq!(choices.shuffled(&[1, 2, 3]), [1, 2, 3]);
        assert!(choices.is_done() && choices.byte() == 0 && !choices.chance(1, 2));
        assert_eq!(Choices::new(&[1, 1]).shuffled(&[1, 2, 3]), [2, 3, 1]);
    }
}
