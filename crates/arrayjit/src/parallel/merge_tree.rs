//! The order of additions that sums one term per stream on stream 0: a tree reduction.
//!
//! Each level halves the number of streams with a term: the upper half adds to the lower half; stream 0 is
//! idle if their number is odd. So a sum over `n` streams takes `n - 1` merges, at most ⌈log₂ n⌉ of them in
//! sequence, and the order of additions depends on `n` alone.

use std::ops::Range;

/// One merge: stream `to` adds the values of stream `from` to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge {
    /// The stream whose values are added; later merges do not use it.
    pub from: usize,
    /// The stream that adds, always a lower one.
    pub to: usize,
}

/// The merges that sum the terms of `streams` streams on stream 0, in order.
///
/// Merges of a level do not depend on each other, so streams work at the same time.
///
/// ```
/// use arrayjit::parallel::{Merge, merge_tree};
///
/// let merges = merge_tree(4);
/// assert_eq!(merges, [Merge { from: 2, to: 0 }, Merge { from: 3, to: 1 }, Merge { from: 1, to: 0 }]);
/// assert!(merge_tree(1).is_empty());
/// ```
pub fn merge_tree(streams: usize) -> Vec<Merge> {
    let mut merges = Vec::with_capacity(streams.saturating_sub(1));
    let mut holding = streams;
    while holding > 1 {
        let receivers = receivers(holding);
        let distance = receivers.len();
        merges.extend(receivers.clone().map(|to| Merge { from: to + distance, to }));
        holding = receivers.end;
    }
    merges
}

/// The streams that add on the next level, if streams `0..holding` have a term: the lower half, without
/// stream 0 if `holding` is odd.
fn receivers(holding: usize) -> Range<usize> {
    let first = holding % 2;
    first..first + holding / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(streams: usize) -> Vec<(usize, usize)> {
        merge_tree(streams).into_iter().map(|merge| (merge.from, merge.to)).collect()
    }

    #[test]
    fn up_to_eight_streams_merge_as_in_the_table() {
        let table: [&[(usize, usize)]; 9] = [
            &[],
            &[],
            &[(1, 0)],
            &[(2, 1), (1, 0)],
            &[(2, 0), (3, 1), (1, 0)],
            &[(3, 1), (4, 2), (2, 1), (1, 0)],
            &[(3, 0), (4, 1), (5, 2), (2, 1), (1, 0)],
            &[(4, 1), (5, 2), (6, 3), (2, 0), (3, 1), (1, 0)],
            &[(4, 0), (5, 1), (6, 2), (7, 3), (2, 0), (3, 1), (1, 0)],
        ];
        for (streams, expected) in table.into_iter().enumerate() {
            assert_eq!(pairs(streams), expected, "{streams} streams");
        }
    }

    /// The number of successive merges that each stream's values depend on.
    fn depths(streams: usize) -> Vec<u32> {
        let mut depths = vec![0; streams];
        for Merge { from, to } in merge_tree(streams) {
            depths[to] = depths[to].max(depths[from]) + 1;
        }
        depths
    }

    proptest! {
        #[test]
        fn every_term_reaches_stream_0_once(streams in 1usize..300) {
            let mut terms: Vec<Vec<usize>> = (0..streams).map(|stream| vec![stream]).collect();
            let merges = merge_tree(streams);
            prop_assert_eq!(merges.len(), streams - 1);
            for Merge { from, to } in merges {
                prop_assert!(from > to);
                let moved = std::mem::take(&mut terms[from]);
                prop_assert!(!moved.is_empty(), "stream {} has nothing left to give", from);
                terms[to].extend(moved);
            }
            terms[0].sort_unstable();
            prop_assert_eq!(&terms[0], &(0..streams).collect::<Vec<_>>());
        }

        #[test]
        fn a_sum_waits_for_logarithmically_many_merges(streams in 1usize..300) {
            prop_assert_eq!(depths(streams)[0], streams.next_power_of_two().ilog2());
        }
    }
}
