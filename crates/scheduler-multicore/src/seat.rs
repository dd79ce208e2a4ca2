//! The place of one helper: where whoever splits a kernel leaves an offer, and a thread that takes it, awake for a while after
//! its last one and then asleep.
//!
//! Invariants: a seat belongs to whoever claimed it until the offer was taken back, or taken and worked off; so there is at most one
//! offer. Offering, taking and taking back happen under the one lock, hence an offer is either taken or taken back, never both.

use std::{mem, time::Duration};

use crate::sync::{Condvar, Mutex, MutexGuard, Ordering, atomic::AtomicBool, spin_politely};

/// A helper's place; `O` is what it is offered.
#[derive(Debug)]
pub(crate) struct Seat<O> {
    /// Somebody's offer is here, or being worked off.
    claimed: AtomicBool,
    /// A hint for the spinning helper; the truth is under the lock.
    offered: AtomicBool,
    inner: Mutex<Inner<O>>,
    work: Condvar,
}

#[derive(Debug)]
struct Inner<O> {
    offer: Option<O>,
    /// The helper sleeps on `work`.
    parked: bool,
    /// No more offers will come.
    closed: bool,
}

impl<O> Seat<O> {
    pub(crate) fn new() -> Seat<O> {
        Seat {
            claimed: AtomicBool::new(false),
            offered: AtomicBool::new(false),
            inner: Mutex::new(Inner { offer: None, parked: false, closed: false }),
            work: Condvar::default(),
        }
    }

    /// Makes the seat the caller's to offer to, if it is nobody's.
    pub(crate) fn claim(&self) -> bool {
        // Acquire: pairs with `release`, so that the lock of whoever claims follows that of the helper that released.
        !self.claimed.load(Ordering::Relaxed) && !self.claimed.swap(true, Ordering::Acquire)
    }

    /// Leaves an offer in a seat that the caller claimed, and wakes the helper if it sleeps.
    pub(crate) fn offer(&self, offer: O) {
        let mut inner = self.inner.lock();
        inner.offer = Some(offer);
        self.offered.store(true, Ordering::Relaxed);
        self.wake(inner);
    }

    /// Takes back the offer that `is_own`, if the helper has not begun; the seat is nobody's then.
    pub(crate) fn take_back(&self, is_own: impl FnOnce(&O) -> bool) -> Option<O> {
        // Relaxed: the caller sees its own store at least; if it sees a later one, its offer was taken.
        if !self.offered.load(Ordering::Relaxed) {
            return None;
        }
        let offer = {
            let mut inner = self.inner.lock();
            let offer = inner.offer.take_if(|offer| is_own(offer))?;
            self.offered.store(false, Ordering::Relaxed);
            offer
        };
        self.release();
        Some(offer)
    }

    /// For the helper: the next offer, for which it waits, `spin` at most awake, and less when `is_crowded`. None when the seat
    /// is closed.
    pub(crate) fn take(&self, spin: Duration, is_crowded: impl Fn() -> bool) -> Option<O> {
        let mut inner = self.inner.lock();
        let mut spun = false;
        loop {
            if let Some(offer) = inner.offer.take() {
                self.offered.store(false, Ordering::Relaxed);
                return Some(offer);
            }
            if inner.closed {
                return None;
            }
            if mem::replace(&mut spun, true) {
                inner.parked = true;
                while inner.parked {
                    inner = self.work.wait(inner);
                }
                spun = false;
            } else {
                drop(inner);
                // A hint, so relaxed: the lock follows.
                spin_politely(spin, || self.offered.load(Ordering::Relaxed) || is_crowded());
                inner = self.inner.lock();
            }
        }
    }

    /// Gives the seat back: by the helper, when it has worked an offer off.
    pub(crate) fn release(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    /// Lets the helper end.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        self.wake(inner);
    }

    /// Wakes the helper if it sleeps.
    fn wake(&self, mut inner: MutexGuard<'_, Inner<O>>) {
        let wake = mem::take(&mut inner.parked);
        drop(inner);
        if wake {
            self.work.notify_one();
        }
    }
}
