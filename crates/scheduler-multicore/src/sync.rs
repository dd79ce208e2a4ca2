//! All locks, atomics and threads of the crate, so that a model checker can take their place.
//!
//! Mutexes here ignore poisoning: tasks run outside of all locks, so a panic cannot leave a protected value half-written.

pub(crate) use std::sync::{Arc, MutexGuard, OnceLock, atomic, atomic::Ordering};
pub(crate) use std::{hint::spin_loop, thread};

use std::sync::{self, PoisonError};

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
