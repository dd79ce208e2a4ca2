//! Packs allocations into pools: bump allocation with alignment, and a new pool whenever the maximum size
//! would be exceeded.

/// The location of each item, and the size of each pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolPlan {
    /// For each item, the position of its pool and its offset in bytes.
    pub(crate) places: Vec<(usize, usize)>,
    /// Size of each pool, in bytes.
    pub(crate) sizes: Vec<usize>,
}

/// An item that exceeds the maximum size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    /// The item's position.
    pub(crate) item: usize,
    /// The item's size, in bytes.
    pub(crate) bytes: usize,
    /// Maximum size of a pool, in bytes.
    pub(crate) cap: usize,
}

/// Plans pools of at most `cap` bytes for items of `(bytes, alignment)`, in order.
///
/// # Errors
///
/// [`TooLarge`] if one item exceeds the maximum size.
pub(crate) fn plan_pool_segments(cap: usize, items: &[(usize, usize)]) -> Result<PoolPlan, TooLarge> {
    let mut plan = PoolPlan { places: Vec::with_capacity(items.len()), sizes: Vec::new() };
    for (item, &(bytes, align)) in items.iter().enumerate() {
        if bytes > cap {
            return Err(TooLarge { item, bytes, cap });
        }
        plan.place(cap, bytes, align);
    }
    Ok(plan)
}

impl PoolPlan {
    /// Appends an item to the last pool, or to a new one if it does not fit.
    fn place(&mut self, cap: usize, bytes: usize, align: usize) {
        let end = |size: usize| Some((size.checked_next_multiple_of(align.max(1))?, bytes));
        let fits =
            |&(offset, bytes): &(usize, usize)| offset.checked_add(bytes).is_some_and(|end| end <= cap);
        match self.sizes.last_mut().and_then(|size| Some((end(*size).filter(fits)?.0, size))) {
            Some((offset, size)) => {
                *size = offset + bytes;
                self.places.push((self.sizes.len() - 1, offset));
            }
            None => {
                self.sizes.push(bytes);
                self.places.push((self.sizes.len() - 1, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(items: &[(usize, usize)]) -> (Vec<(usize, usize)>, Vec<usize>) {
        let plan = plan_pool_segments(1000, items).unwrap();
        (plan.places, plan.sizes)
    }

    #[test]
    fn goldens() {
        assert_eq!(planned(&[(100, 1), (100, 4), (50, 8)]), (vec![(0, 0), (0, 100), (0, 200)], vec![250]));
        assert_eq!(planned(&[(600, 1), (600, 1)]), (vec![(0, 0), (1, 0)], vec![600, 600]));
        assert_eq!(planned(&[(1000, 1), (1, 1)]), (vec![(0, 0), (1, 0)], vec![1000, 1]));
        assert_eq!(planned(&[(5, 1), (8, 8)]), (vec![(0, 0), (0, 8)], vec![16]));
        assert_eq!(planned(&[]), (vec![], vec![]));
        let rejected = plan_pool_segments(1000, &[(1, 1), (2000, 1)]);
        assert_eq!(rejected, Err(TooLarge { item: 1, bytes: 2000, cap: 1000 }));
    }

    #[test]
    fn alignment_alone_may_open_a_pool() {
        assert_eq!(planned(&[(990, 1), (10, 64)]), (vec![(0, 0), (1, 0)], vec![990, 10]));
    }
}
