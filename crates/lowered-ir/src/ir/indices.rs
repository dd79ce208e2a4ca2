//! The index of an access.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use super::Affine;

/// One [`Affine`] per dimension of the array it indexes; none for a scalar.
///
/// Copies share memory until one of them is changed, because passes copy far more accesses than they rewrite.
/// It is a pointer, so expressions, which passes move about, are small.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Indices(Arc<[Affine]>);

impl Indices {
    /// The index of a scalar.
    pub fn new() -> Indices {
        Indices::default()
    }

    /// Adds a dimension before the dimension `at`, or behind the last one.
    pub fn insert(&mut self, at: usize, index: Affine) {
        let (before, behind) = self.split_at(at.min(self.len()));
        *self = before.iter().chain([&index]).chain(behind).cloned().collect();
    }

    /// Replaces the index of each dimension by its image. Memory stays shared if all are their own images.
    pub fn map(&mut self, f: &mut impl FnMut(&Affine) -> Affine) {
        for at in 0..self.len() {
            let image = f(&self[at]);
            if image != self[at] {
                self[at] = image;
            }
        }
    }
}

impl Deref for Indices {
    type Target = [Affine];

    fn deref(&self) -> &[Affine] {
        &self.0
    }
}

impl DerefMut for Indices {
    fn deref_mut(&mut self) -> &mut [Affine] {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Debug for Indices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromIterator<Affine> for Indices {
    fn from_iter<I: IntoIterator<Item = Affine>>(indices: I) -> Indices {
        let indices = indices.into_iter();
        // Scalars need no memory.
        if indices.size_hint().1 == Some(0) { Indices::new() } else { Indices(indices.collect()) }
    }
}

impl From<Vec<Affine>> for Indices {
    fn from(indices: Vec<Affine>) -> Indices {
        Indices(indices.into())
    }
}

impl<const N: usize> From<[Affine; N]> for Indices {
    fn from(indices: [Affine; N]) -> Indices {
        Indices(indices.into())
    }
}

impl<'a> IntoIterator for &'a Indices {
    type Item = &'a Affine;
    type IntoIter = std::slice::Iter<'a, Affine>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
