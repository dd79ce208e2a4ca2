//! Which threads are inside a task, for what must not wait there.
//!
//! A submission holds the locks of what it touches until it is handed over, which may take until the stream's queue has room, or,
//! on a device without threads of its own, until the task has run. Were a task to wait for such a lock, the submission and the
//! task could wait for each other.

use std::{
    cell::Cell,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

use crate::{error::DriverError, pool::lock};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs what a stream has to do, on the calling thread. Drivers that run tasks on threads of the process wrap them in it, so that
/// code in a task that uses the runtime gets [`DriverError::SelfWait`] where it would have to wait.
pub fn run_task<R>(task: impl FnOnce() -> R) -> R {
    let _restore = Restore(INSIDE.replace(true));
    task()
}

/// Puts back whether the thread was inside a task before.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// Locks what a submission holds while it hands over; inside a task, only if nobody does.
///
/// # Errors
///
/// [`DriverError::SelfWait`], with the stream's name.
pub(crate) fn lock_unless_inside<'a, T>(
    mutex: &'a Mutex<T>,
    stream: impl FnOnce() -> String,
) -> Result<MutexGuard<'a, T>, DriverError> {
    if !INSIDE.get() {
        return Ok(lock(mutex));
    }
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => {
            Err(DriverError::SelfWait { stream: stream(), doing: "using memory that is being handed over" })
        }
    }
}
