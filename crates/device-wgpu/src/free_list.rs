//! The free ranges of a slab: bookkeeping without memory behind it.
//!
//! Invariants: free ranges lie within `0..size`, are not empty, and no two of them touch or overlap. An
//! allocated range overlaps no free range until it is released. If all requested sizes are multiples of an
//! alignment, so are all offsets.

use std::collections::BTreeMap;

/// The free ranges of `0..size`.
#[derive(Clone, Debug)]
pub(crate) struct FreeList {
    size: usize,
    /// The length of each free range, by its beginning.
    ranges: BTreeMap<usize, usize>,
}

impl FreeList {
    /// A list in which all of `0..size` is free.
    pub(crate) fn new(size: usize) -> FreeList {
        let ranges = (size > 0).then_some((0, size));
        FreeList { size, ranges: ranges.into_iter().collect() }
    }

    /// Allocates `bytes` bytes (at least one) from the smallest free range that fits, the first of several;
    /// returns their offset.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let fitting = self.ranges.iter().filter(|(_, length)| **length >= bytes);
        let (&offset, &length) = fitting.min_by_key(|(_, length)| **length)?;
        self.ranges.remove(&offset);
        if length > bytes {
            self.ranges.insert(offset + bytes, length - bytes);
        }
        Some(offset)
    }

    /// Releases an allocated range, and merges it with adjacent free ranges.
    pub(crate) fn release(&mut self, offset: usize, bytes: usize) {
        let (mut begin, mut end) = (offset, offset + bytes);
        if let Some((&before, &length)) = self.ranges.range(..offset).next_back()
            && before + length == offset
        {
            self.ranges.remove(&before);
            begin = before;
        }
        if let Some(length) = self.ranges.remove(&end) {
            end += length;
        }
        self.ranges.insert(begin, end - begin);
    }

    /// Whether nothing is allocated.
    pub(crate) fn is_whole(&self) -> bool {
        self.ranges.values().sum::<usize>() == self.size
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_range_that_fits_is_taken() {
        let mut list = FreeList::new(100);
        let taken: Vec<_> = [30, 10, 20, 40].map(|bytes| list.allocate(bytes).unwrap()).to_vec();
        assert_eq!((taken, list.allocate(1)), (vec![0, 30, 40, 60], None));
        list.release(0, 30);
        list.release(40, 20);
        assert_eq!(
            (list.allocate(15), list.allocate(15), list.allocate(15), list.allocate(1)),
            (Some(40), Some(0), Some(15), Some(55))
        );
    }

    #[test]
    fn neighbors_are_joined_in_any_order() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut list = FreeList::new(30);
            (0..3).for_each(|at| assert_eq!(list.allocate(10), Some(at * 10)));
            order.iter().for_each(|at| list.release(at * 10, 10));
            assert!(list.is_whole());
            assert_eq!(list.allocate(30), Some(0));
        }
    }

    #[test]
    fn an_empty_list_gives_nothing() {
        assert_eq!(FreeList::new(0).allocate(1), None);
    }

    proptest! {
        /// Compares the list with a model that marks each unit: allocations do not overlap, stay inside, and
        /// find merged ranges.
        #[test]
        fn it_behaves_like_a_map_of_units(steps in prop::collection::vec((any::<bool>(), 1usize..20, any::<prop::sample::Index>()), 1..200)) {
            const SIZE: usize = 128;
            let (mut list, mut used, mut parts) = (FreeList::new(SIZE), [false; SIZE], Vec::new());
            for (gives, bytes, which) in steps {
                if gives && !parts.is_empty() {
                    let (offset, bytes): (usize, usize) = parts.swap_remove(which.index(parts.len()));
                    list.release(offset, bytes);
                    used[offset..offset + bytes].fill(false);
                } else if let Some(offset) = list.allocate(bytes) {
                    prop_assert!(used[offset..offset + bytes].iter().all(|used| !used));
                    used[offset..offset + bytes].fill(true);
                    parts.push((offset, bytes));
                } else {
                    prop_assert!(used.windows(bytes).all(|window| window.contains(&true)), "{bytes} units were free");
                }
                prop_assert_eq!(list.is_whole(), parts.is_empty());
            }
            parts.drain(..).for_each(|(offset, bytes)| list.release(offset, bytes));
            prop_assert!(list.is_whole());
            prop_assert_eq!(list.allocate(SIZE), Some(0));
        }

        /// Sizes that are multiples of an alignment give offsets that are multiples of it.
        #[test]
        fn aligned_sizes_give_aligned_offsets(sizes in prop::collection::vec(1usize..9, 1..60), drops in any::<u64>()) {
            let mut list = FreeList::new(64 * 256);
            for (at, size) in sizes.into_iter().enumerate() {
                let Some(offset) = list.allocate(size * 256) else { continue };
                prop_assert_eq!(offset % 256, 0);
                if drops >> (at % 64) & 1 == 1 {
                    list.release(offset, size * 256);
                }
            }
        }
    }
}
