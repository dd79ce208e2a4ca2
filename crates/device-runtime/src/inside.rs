//! Tracks which threads run a task, for calls that must not wait there.
//!
//! A submission holds the locks of its buffers until the task is submitted. That may take until the stream's
//! queue has room, or, on a device without threads of its own, until the task has run. If a task waited for
//! such a lock, the submission and the task could deadlock. Threads could also deadlock if they wait while
//! they run the user's code with a locked host array. So such a thread waits neither for another host array
//! nor for the lock under which links decide about sharing, because links use host arrays under that lock.

use std::{
    cell::Cell,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

use tnode::TensorNode;

use crate::{
    error::{DriverError, Result, RunError},
    pool::lock,
};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static HOLDING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a task of a stream on the calling thread. Drivers that run tasks on threads of the process call this
/// function for each task, so that code in a task that uses the runtime gets [`DriverError::SelfWait`]
/// instead of waiting.
pub fn run_task<R>(task: impl FnOnce() -> R) -> R {
    let _restore = Restore(INSIDE.replace(true));
    task()
}

/// Restores, when dropped, whether the thread was inside a task before.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Marks the thread as one that has locked a host array, until dropped.
pub(crate) struct HoldingArray(bool);

impl HoldingArray {
    pub(crate) fn begin() -> HoldingArray {
        HoldingArray(HOLDING.replace(true))
    }
}

impl Drop for HoldingArray {
    fn drop(&mut self) {
        HOLDING.set(self.0);
    }
}

/// The reason why a thread does not wait for a locked mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// The thread is inside a task.
    InTask,
    /// The thread has locked a host array.
    HoldingArray,
}

impl Busy {
    /// The error of a call that would have to wait for the host array of a node.
    pub(crate) fn error(self, node: &TensorNode) -> RunError {
        let during = || format!("using the host array of `{}`", node.name());
        match self {
            Busy::InTask => RunError::driver(during)(waiting("a stream".to_owned())),
            Busy::HoldingArray => RunError::HostArrayInUse { node: node.name() },
        }
    }
}

fn waiting(stream: String) -> DriverError {
    DriverError::SelfWait { stream, doing: "using memory of a task that is being submitted" }
}

/// Locks a mutex that submissions hold. Inside a task, fails if it is locked.
///
/// # Errors
///
/// [`DriverError::SelfWait`], with the stream's name.
pub(crate) fn lock_unless_inside<'a, T>(
    mutex: &'a Mutex<T>,
    stream: impl FnOnce() -> String,
) -> Result<MutexGuard<'a, T>> {
    let guard = if INSIDE.get() { try_lock(mutex) } else { Some(lock(mutex)) };
    guard.ok_or_else(|| waiting(stream()))
}

/// Locks a mutex whose holders may run the user's code or wait for host arrays. Inside a task, or while the
/// thread has locked a host array, fails if it is locked.
pub(crate) fn lock_unless_holding<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>, Busy> {
    let busy = if INSIDE.get() { Busy::InTask } else { Busy::HoldingArray };
    let guard = if INSIDE.get() || HOLDING.get() { try_lock(mutex) } else { Some(lock(mutex)) };
    guard.ok_or(busy)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}
