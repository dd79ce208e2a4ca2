//! The account of a driver's memory: the bytes in use, and an optional limit.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::error::{DriverError, Result};

/// Counts the bytes of a driver's memory and rejects allocations beyond a limit. Cheap to clone; clones count
/// together.
///
/// ```
/// use device_runtime::{DriverError, MemoryBudget};
///
/// let budget = MemoryBudget::new(Some(100));
/// let reservation = budget.reserve(70)?;
/// let error = budget.reserve(31).unwrap_err();
/// assert_eq!(error, DriverError::OutOfMemory { requested: 31, used: 70 });
/// drop(reservation);
/// assert_eq!(budget.used(), 0);
/// # Ok::<(), DriverError>(())
/// ```
#[derive(Clone)]
pub struct MemoryBudget(Arc<MemoryCounter>);

struct MemoryCounter {
    used: AtomicUsize,
    limit: usize,
}

/// Bytes of a [`MemoryBudget`], given back on drop. A driver stores it with the memory for which it was made.
pub struct MemoryReservation {
    budget: MemoryBudget,
    bytes: usize,
}

impl MemoryBudget {
    /// A budget of at most `limit` bytes, or without a limit.
    pub fn new(limit: Option<usize>) -> MemoryBudget {
        let used = AtomicUsize::new(0);
        MemoryBudget(Arc::new(MemoryCounter { used, limit: limit.unwrap_or(usize::MAX) }))
    }

    /// The total size of reservations, in bytes.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Reserves bytes, before the memory for them is allocated.
    ///
    /// # Errors
    ///
    /// [`DriverError::OutOfMemory`] if the limit would be exceeded.
    pub fn reserve(&self, bytes: usize) -> Result<MemoryReservation> {
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.0.limit);
        match self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => Ok(MemoryReservation { budget: self.clone(), bytes }),
            Err(used) => Err(DriverError::OutOfMemory { requested: bytes, used }),
        }
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes in use", self.used())
    }
}

impl fmt::Debug for MemoryReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_counted_until_they_are_dropped() {
        let budget = MemoryBudget::new(None);
        let all = budget.reserve(usize::MAX).unwrap();
        let overflow = DriverError::OutOfMemory { requested: 1, used: usize::MAX };
        assert_eq!(budget.reserve(1).unwrap_err(), overflow, "the count does not wrap around");
        drop(budget.reserve(0).unwrap());
        drop(all);
        assert_eq!(budget.clone().used(), 0);
    }

    #[test]
    fn threads_that_reserve_at_once_stay_within_the_limit() {
        let budget = MemoryBudget::new(Some(64));
        let reserve = || {
            for _ in 0..1000 {
                let reservation = budget.reserve(48);
                assert!(budget.used() <= 64);
                drop(reservation);
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(reserve))));
        assert_eq!(budget.used(), 0);
    }
}
