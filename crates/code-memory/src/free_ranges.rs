//! The free pages of a chunk, allocated by best fit.

use std::collections::{BTreeMap, BTreeSet};

/// The free pages of a chunk as maximal ranges, indexed by position and by length.
#[derive(Debug)]
pub(crate) struct FreeRanges {
    /// The length of each range by its start.
    by_start: BTreeMap<usize, usize>,
    /// The same ranges as `(length, start)`, for best fit.
    by_length: BTreeSet<(usize, usize)>,
}

impl FreeRanges {
    /// The pages `0..length`, all free.
    pub(crate) fn new(length: usize) -> FreeRanges {
        let mut free = FreeRanges { by_start: BTreeMap::new(), by_length: BTreeSet::new() };
        free.insert(0, length);
        free
    }

    /// Allocates `length` pages from the shortest range that has as many, the lowest of equally short ones.
    /// Returns the start.
    pub(crate) fn take(&mut self, length: usize) -> Option<usize> {
        let &(found, start) = self.by_length.range((length, 0)..).next()?;
        self.remove(start, found);
        self.insert(start + length, found - length);
        Some(start)
    }

    /// Frees pages that [`FreeRanges::take`] allocated.
    pub(crate) fn give_back(&mut self, start: usize, length: usize) {
        let (mut first, mut end) = (start, start + length);
        if let Some((&below, &its_length)) = self.by_start.range(..=start).next_back() {
            debug_assert!(below + its_length <= start, "pages are given back once");
            if below + its_length == start {
                self.remove(below, its_length);
                first = below;
            }
        }
        if let Some((&above, &its_length)) = self.by_start.range(start..).next() {
            debug_assert!(above >= end, "pages are given back once");
            if above == end {
                self.remove(above, its_length);
                end = above + its_length;
            }
        }
        self.insert(first, end - first);
    }

    /// The most pages that one [`FreeRanges::take`] can allocate.
    pub(crate) fn longest(&self) -> usize {
        self.by_length.last().map_or(0, |&(length, _)| length)
    }

    fn insert(&mut self, start: usize, length: usize) {
        if length > 0 {
            self.by_start.insert(start, length);
            self.by_length.insert((length, start));
        }
    }

    fn remove(&mut self, start: usize, length: usize) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGES: usize = 40;

    #[test]
    fn the_shortest_range_that_fits_is_taken() {
        let mut free = FreeRanges::new(10);
        assert_eq!(free.take(4), Some(0));
        assert_eq!(free.take(2), Some(4));
        assert_eq!(free.take(1), Some(6));
        free.give_back(4, 2);
        assert_eq!(free.longest(), 3, "pages 7 to 9");
        assert_eq!(free.take(2), Some(4), "not the three pages at the end");
        assert_eq!(free.take(4), None);
        assert_eq!(free.take(3), Some(7));
        assert_eq!(free.longest(), 0);
    }

    /// The start of the best-fit range, found by a search of every page.
    fn best_fit(used: &[bool; PAGES], length: usize) -> Option<usize> {
        let is_end = |&end: &usize| used.get(end).is_none_or(|&is_used| is_used);
        let mut start = 0;
        let ranges = (0..=PAGES).filter(is_end).map(|end| {
            let range = (end - start, start);
            start = end + 1;
            range
        });
        ranges.filter(|(free, _)| *free >= length).min().map(|(_, start)| start)
    }

    proptest! {
        /// Any sequence of allocations and frees agrees with a table of used pages.
        #[test]
        fn ranges_are_those_of_a_page_table(steps in proptest::collection::vec((any::<bool>(), 1..9usize), 0..200)) {
            let mut free = FreeRanges::new(PAGES);
            let mut used = [false; PAGES];
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for (is_take, number) in steps {
                if is_take {
                    let start = free.take(number);
                    prop_assert_eq!(start, best_fit(&used, number));
                    if let Some(start) = start {
                        used[start..start + number].fill(true);
                        taken.push((start, number));
                    }
                } else if !taken.is_empty() {
                    let (start, length) = taken.swap_remove(number % taken.len());
                    used[start..start + length].fill(false);
                    free.give_back(start, length);
                }
                let longest = used.split(|&is_used| is_used).map(<[bool]>::len).max();
                prop_assert_eq!(free.longest(), longest.unwrap_or(0));
            }
            for (start, length) in taken {
                free.give_back(start, length);
            }
            prop_assert_eq!(free.take(PAGES), Some(0), "all pages are one range again");
        }
    }
}
