//! All locks, atomics, threads and waiting of the protocol, so that a model checker can replace them. With
//! the feature `loom` they are loom's, and spinning polls once, so that the outcome does not depend on time.
//!
//! Mutexes here ignore poisoning: tasks run outside of all locks, so a panic cannot leave a protected value
//! half-written. Reference counts are always the standard library's, since the protocol does not depend on
//! them.

pub(crate) use std::sync::{Arc, OnceLock};

#[cfg(feature = "loom")]
use loom as base;
#[cfg(not(feature = "loom"))]
use std as base;

pub(crate) use base::{
    sync::{MutexGuard, atomic, atomic::Ordering},
    thread, thread_local,
};

use base::sync;
use std::{
    sync::{PoisonError, TryLockError},
    time::Duration,
};

/// A mutual exclusion lock.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, unless a thread holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A condition variable. A notification costs a system call even if no thread waits, so callers count the
/// waiters.
#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Polls `ready` up to `times` times without sleeping; returns whether it became true.
#[cfg(not(feature = "loom"))]
pub(crate) fn spin_times(times: usize, ready: impl Fn() -> bool) -> bool {
    (0..times).any(|_| {
        std::hint::spin_loop();
        ready()
    })
}

/// Polls `ready` for about `time` without sleeping; returns whether it became true.
#[cfg(not(feature = "loom"))]
pub(crate) fn spin_for(time: Duration, ready: impl Fn() -> bool) -> bool {
    if has_one_processor() {
        return ready();
    }
    let until = std::time::Instant::now() + time;
    while std::time::Instant::now() < until {
        if spin_times(32, &ready) {
            return true;
        }
    }
    false
}

/// Whether this process may use one processor only, where whoever spins keeps the others from working.
#[cfg(not(feature = "loom"))]
fn has_one_processor() -> bool {
    static ONE: OnceLock<bool> = OnceLock::new();
    *ONE.get_or_init(|| thread::available_parallelism().is_ok_and(|processors| processors.get() == 1))
}

/// A yield that takes longer than this means that another thread wanted the processor.
#[cfg(not(feature = "loom"))]
const CROWDED: Duration = Duration::from_micros(5);

/// Polls `ready` for about `time`, and yields the processor between polls; returns whether it became true.
/// Stops early when another thread wanted the processor: spinning would delay it, and this thread may be
/// waiting for it.
#[cfg(not(feature = "loom"))]
pub(crate) fn spin_politely(time: Duration, ready: impl Fn() -> bool) -> bool {
    if has_one_processor() {
        return ready();
    }
    let mut now = std::time::Instant::now();
    let until = now + time;
    while now < until {
        if spin_times(64, &ready) {
            return true;
        }
        let before = std::time::Instant::now();
        thread::yield_now();
        now = std::time::Instant::now();
        if now - before > CROWDED {
            break;
        }
    }
    ready()
}

/// Polls once: the model checker would explore each further poll at high cost and gain nothing. It does not
/// yield, since after a yield loom shows no value older than those already seen.
#[cfg(feature = "loom")]
pub(crate) fn spin_times(_: usize, ready: impl Fn() -> bool) -> bool {
    ready()
}

#[cfg(feature = "loom")]
pub(crate) fn spin_for(_: Duration, ready: impl Fn() -> bool) -> bool {
    spin_times(1, ready)
}

#[cfg(feature = "loom")]
pub(crate) fn spin_politely(_: Duration, ready: impl Fn() -> bool) -> bool {
    spin_times(1, ready)
}
