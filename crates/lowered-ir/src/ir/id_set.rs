//! Small ordered sets of identifiers.

use smallvec::SmallVec;

/// A set of identifiers as a sorted list without duplicates.
///
/// Passes make such sets for single statements, where they have a few elements: a list without nodes on the
/// heap is several times as fast as a [`BTreeSet`](std::collections::BTreeSet), and iterates in the same
/// order. An insertion in front of `n` elements moves them; [`FromIterator`] and [`Extend`] sort instead.
#[derive(Debug, PartialEq, Eq)]
pub struct IdSet<T>(SmallVec<[T; 8]>);

// The elements are copied as memory; `SmallVec::clone` would copy them one by one.
impl<T: Copy> Clone for IdSet<T> {
    fn clone(&self) -> IdSet<T> {
        IdSet(SmallVec::from_slice(&self.0))
    }
}

impl<T> Default for IdSet<T> {
    fn default() -> IdSet<T> {
        IdSet(SmallVec::new())
    }
}

impl<T: Copy + Ord> IdSet<T> {
    /// Adds an element. Returns whether it is new.
    pub fn insert(&mut self, element: T) -> bool {
        match self.place(element) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, element);
                true
            }
        }
    }

    /// Removes an element. Returns whether it was in the set.
    pub fn remove(&mut self, element: &T) -> bool {
        let found = self.0.binary_search(element);
        found.map(|at| self.0.remove(at)).is_ok()
    }

    /// Whether the element is in the set.
    pub fn contains(&self, element: &T) -> bool {
        self.0.binary_search(element).is_ok()
    }

    /// Keeps the elements for which `f` holds.
    pub fn retain(&mut self, mut f: impl FnMut(&T) -> bool) {
        self.0.retain(|element| f(element));
    }

    /// Counts the elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The elements in increasing order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// The greatest element; `None` if the set is empty.
    pub fn last(&self) -> Option<&T> {
        self.0.last()
    }

    /// Whether no element is in both sets.
    pub fn is_disjoint(&self, other: &IdSet<T>) -> bool {
        self.intersection(other).next().is_none()
    }

    /// Whether every element is in the other set too.
    pub fn is_subset(&self, other: &IdSet<T>) -> bool {
        self.iter().all(|element| other.contains(element))
    }

    /// The elements of both sets, in increasing order.
    pub fn intersection<'a>(&'a self, other: &'a IdSet<T>) -> impl Iterator<Item = &'a T> {
        let (few, many) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        few.iter().filter(|element| many.contains(element))
    }

    /// The elements that the other set lacks, in increasing order.
    pub fn difference<'a>(&'a self, other: &'a IdSet<T>) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|element| !other.contains(element))
    }

    /// The position of an element, or the position at which it belongs. Most elements come in increasing
    /// order.
    fn place(&self, element: T) -> Result<usize, usize> {
        match self.0.last() {
            Some(last) if *last >= element => self.0.binary_search(&element),
            _ => Err(self.0.len()),
        }
    }

    /// Sorts the elements from `start` on into those before it, which are sorted.
    fn restore_order(&mut self, start: usize) {
        if self.0[start.saturating_sub(1)..].is_sorted_by(|a, b| a < b) {
            return;
        }
        // The stable sort merges sorted runs.
        self.0.sort();
        self.0.dedup();
    }
}

impl<T: Copy + Ord> FromIterator<T> for IdSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> IdSet<T> {
        let mut set = IdSet::default();
        set.extend(elements);
        set
    }
}

impl<T: Copy + Ord> Extend<T> for IdSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        let start = self.0.len();
        // Walks over the IR fold faster than they give elements one by one.
        elements.into_iter().for_each(|element| self.0.push(element));
        self.restore_order(start);
    }
}

impl<'a, T: Copy + Ord> Extend<&'a T> for IdSet<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, elements: I) {
        self.extend(elements.into_iter().copied());
    }
}

impl<T: Copy + Ord, const N: usize> From<[T; N]> for IdSet<T> {
    fn from(elements: [T; N]) -> IdSet<T> {
        elements.into_iter().collect()
    }
}

impl<T> IntoIterator for IdSet<T> {
    type Item = T;
    type IntoIter = smallvec::IntoIter<[T; 8]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a IdSet<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::IdSet;

    proptest! {
        /// Every operation agrees with that of a `BTreeSet`.
        #[test]
        fn sets_agree_with_ordered_trees(
            first in proptest::collection::vec(0u32..40, 0..30),
            second in proptest::collection::vec(0u32..40, 0..30),
            one in 0u32..40,
        ) {
            let (mut a, b): (IdSet<u32>, IdSet<u32>) =
                (first.iter().copied().collect(), second.iter().copied().collect());
            let (mut x, y): (BTreeSet<u32>, BTreeSet<u32>) =
                (first.iter().copied().collect(), second.iter().copied().collect());
            prop_assert!(a.iter().eq(&x));
            prop_assert_eq!(a.contains(&one), x.contains(&one));
            prop_assert_eq!(a.is_disjoint(&b), x.is_disjoint(&y));
            prop_assert_eq!(a.is_subset(&b), x.is_subset(&y));
            prop_assert!(a.intersection(&b).eq(x.intersection(&y)));
            prop_assert!(a.difference(&b).eq(x.difference(&y)));
            prop_assert_eq!((a.len(), a.is_empty(), a.last()), (x.len(), x.is_empty(), x.last()));
            a.retain(|element| element % 3 != 0);
            x.retain(|element| element % 3 != 0);
            prop_assert_eq!(a.remove(&one), x.remove(&one));
            prop_assert_eq!(a.insert(one), x.insert(one));
            prop_assert_eq!(a.insert(one), x.insert(one));
            prop_assert!(a.iter().eq(&x));
            a.extend(&b);
            x.extend(&y);
            prop_assert!(a.into_iter().eq(x));
        }
    }
}
