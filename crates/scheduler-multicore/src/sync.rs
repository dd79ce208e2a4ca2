//! All locks, atomics, threads and waiting of the protocol, so that a model checker can take their place: with the feature
//! `loom` they are loom's, and spinning is one look, so time plays no part.
//!
//! Mutexes here ignore poisoning: tasks run outside of all locks, so a panic cannot leave a protected value half-written.
//! Reference counts stay the standard library's, since the protocol does not depend on them.

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

    /// The lock, unless somebody holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A condition variable. Waking nobody costs a system call, so callers keep count of who waits.
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

/// Looks `times` times whether something is ready, without sleeping.
#[cfg(not(feature = "loom"))]
pub(crate) fn spin_times(times: usize, ready: impl Fn() -> bool) -> bool {
    (0..times).any(|_| {
        std::hint::spin_loop();
        ready()
    })
}

/// Looks for about `time` whether something is ready, without sleeping.
#[cfg(not(feature = "loom"))]
pub(crate) fn spin_for(time: Duration, ready: impl Fn() -> bool) -> bool {
    let until = std::time::Instant::now() + time;
    while std::time::Instant::now() < until {
        if spin_times(32, &ready) {
            return true;
        }
    }
    false
}

/// A thread that gave way for longer had to wait for its processor.
#[cfg(not(feature = "loom"))]
const CROWDED: Duration = Duration::from_micros(5);

/// Looks for about `time` whether something is ready, giving way to whoever wants the processor. Stops early when somebody did: then
/// spinning keeps others from working, perhaps the very one that this thread waits for.
#[cfg(not(feature = "loom"))]
pub(crate) fn spin_politely(time: Duration, ready: impl Fn() -> bool) -> bool {
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

/// One look: another would only repeat it, at the model checker's expense. It does not yield, after which loom would show no value
/// as old as those seen before.
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
