//! Batches of the rows of arrays.

use std::sync::Arc;

use arrayjit::HostArray;

use crate::{
    error::{Call, Result, TensorError, misfit},
    options::options,
    session::BatchValues,
};

/// The rows of arrays in batches: an iterator for [`Session::fit`](crate::Session::fit) and
/// [`evaluate`](crate::Session::evaluate). Row `i` of a batch has the same row of each array.
///
/// ```
/// use arrayjit_tensor::{HostArray, session::RowBatches};
///
/// let x = HostArray::from_slice(&[0f32, 1.0, 2.0, 3.0, 4.0], [5, 1])?;
/// let y = HostArray::from_slice(&[0i32, 1, 0, 1, 0], [5])?;
/// let batches = RowBatches::new([("x", x), ("y", y)], 2)?.shuffle(42).epochs(3).drop_last(true);
/// assert_eq!(batches.count(), 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RowBatches {
    arrays: Vec<(String, Arc<HostArray>)>,
    size: usize,
    shuffle: Option<u64>,
    epochs: usize,
    drop_last: bool,
    /// The rows of this epoch in order.
    order: Vec<usize>,
    epoch: usize,
    /// The position in `order` of the next batch.
    next: usize,
}

impl RowBatches {
    /// Batches of `size` rows, in order, once over all rows. The last one may be smaller.
    ///
    /// # Errors
    /// No array, arrays with different numbers of rows or without any, or a size of 0.
    #[track_caller]
    pub fn new<'n>(
        arrays: impl IntoIterator<Item = (&'n str, HostArray)>,
        size: usize,
    ) -> Result<RowBatches> {
        let call = Call::new("RowBatches");
        let wrong =
            |argument, found: String, expected: &str| call.error("", misfit(argument, found, expected));
        let arrays: Vec<(String, Arc<HostArray>)> =
            arrays.into_iter().map(|(name, array)| (name.to_owned(), Arc::new(array))).collect();
        let Some((_, first)) = arrays.first() else {
            return Err(wrong("arrays", "none".into(), "at least one"));
        };
        if size == 0 {
            return Err(wrong("size", size.to_string(), "at least 1"));
        }
        let rows = first.dims_without_padding().first().copied().unwrap_or_default();
        for (name, array) in &arrays {
            let found = array.dims_without_padding();
            if rows == 0 || found.first() != Some(&rows) {
                let expected = format!("{} rows, as all arrays have", rows.max(1));
                let what = format!("array `{name}`");
                return Err(call.error("", TensorError::Shape { what, found: found.to_vec(), expected }));
            }
        }
        let without_margins = |(name, array): (String, Arc<HostArray>)| match array.padding() {
            None => Ok((name, array)),
            Some(_) => Ok((name, Arc::new(array.slice(0, 0..rows)?))),
        };
        let arrays = arrays.into_iter().map(without_margins).collect::<Result<Vec<_>>>()?;
        let order = (0..rows).collect();
        Ok(RowBatches { arrays, size, shuffle: None, epochs: 1, drop_last: false, order, epoch: 0, next: 0 })
    }

    options! {
        /// How often all rows are gone over; 1 by default.
        epochs: usize => epochs;
        /// Whether the rows of an epoch that fill no batch are left out. They would take another shape, so a
        /// session would compile its step a second time.
        drop_last: bool => drop_last;
    }

    /// Puts the rows in a random order, another one in each epoch, that follows from the seed alone.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> RowBatches {
        self.shuffle = Some(seed);
        self
    }

    fn batches_per_epoch(&self) -> usize {
        let rows = self.order.len();
        if self.drop_last { rows / self.size } else { rows.div_ceil(self.size) }
    }

    fn batch(&self, rows: &[usize]) -> Result<BatchValues> {
        let part = |array: &HostArray| -> Result<Arc<HostArray>> {
            let mut dims = array.dims().to_vec();
            let width = array.size_bytes() / dims.first().copied().unwrap_or(1);
            if let Some(first) = dims.first_mut() {
                *first = rows.len();
            }
            let mut part = HostArray::zeros(array.dtype(), dims)?;
            if width > 0 {
                for (to, &row) in part.bytes_mut().chunks_mut(width).zip(rows) {
                    to.copy_from_slice(&array.bytes()[row * width..][..width]);
                }
            }
            Ok(Arc::new(part))
        };
        let parts = self.arrays.iter().map(|(name, array)| Ok((name.clone(), part(array)?)));
        BatchValues::new(parts.collect::<Result<Vec<_>>>()?)
    }
}

impl Iterator for RowBatches {
    type Item = Result<BatchValues>;

    fn next(&mut self) -> Option<Self::Item> {
        let per_epoch = self.batches_per_epoch();
        if self.epoch >= self.epochs || per_epoch == 0 {
            return None;
        }
        if let Some(seed) = self.shuffle.filter(|_| self.next == 0) {
            shuffle(&mut self.order, seed, self.epoch);
        }
        let start = self.next * self.size;
        let end = (start + self.size).min(self.order.len());
        let batch = self.batch(&self.order[start..end]);
        self.next += 1;
        if self.next == per_epoch {
            (self.next, self.epoch) = (0, self.epoch + 1);
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.epochs.saturating_sub(self.epoch).saturating_mul(self.batches_per_epoch());
        let left = left.saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for RowBatches {}

/// Puts rows in the order of an epoch, which does not depend on the order before.
///
/// Source: Fisher and Yates; the random numbers are those of SplitMix64 (Steele, Lea and Flood, 2014).
fn shuffle(rows: &mut [usize], seed: u64, epoch: usize) {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = |mut x: u64| {
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    };
    rows.iter_mut().enumerate().for_each(|(at, row)| *row = at);
    let mut state = mixed(seed.wrapping_add(mixed((epoch as u64).wrapping_add(STEP))));
    for at in (1..rows.len()).rev() {
        state = state.wrapping_add(STEP);
        // The upper half of the product is uniform in 0..=at, up to one part in 2⁶⁴ / rows.
        let other = (u128::from(mixed(state)) * (at as u128 + 1)) >> 64;
        rows.swap(at, other as usize);
    }
}
