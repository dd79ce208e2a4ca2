//! Which threads are inside a task, for what must not wait there.
//!
//! A submission holds the locks of what it touches until it is handed over, which may take until the stream's
//! queue has room, or, on a device without threads of its own, until the task has run. Were a task to wait
//! for such a lock, the submission and the task could wait for each other. The same holds for a thread that
//! has a host array while it runs code of the user's, and another host array, or a decision about sharing,
//! during which a link looks at host arrays.

use std::{
    cell::Cell,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

use tnode::TensorNode;

use crate::{
    error::{DriverError, Error},
    pool::lock,
};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static HOLDING: Cell<bool> = const { Cell::new(false) };
}

/// Runs what a stream has to do, on the calling thread. Drivers that run tasks on threads of the process wrap
/// them in it, so that code in a task that uses the runtime gets [`DriverError::SelfWait`] where it would
/// have to wait.
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

/// Marks the thread as one that has a host array, until dropped.
pub(crate) struct Holding(bool);

impl Holding {
    pub(crate) fn begin() -> Holding {
        Holding(HOLDING.replace(true))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        HOLDING.set(self.0);
    }
}

/// Why a thread does not wait for a lock that somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// It is inside a task.
    InTask,
    /// It has a host array.
    Holding,
}

impl Busy {
    /// The error of a call that would have had to wait for the host array of a node.
    pub(crate) fn error(self, node: &TensorNode) -> Error {
        let during = || format!("using the host array of `{}`", node.name());
        match self {
            Busy::InTask => Error::driver(during)(waiting("a stream".to_owned())),
            Busy::Holding => Error::HostArrayInUse { node: node.name() },
        }
    }
}

fn waiting(stream: String) -> DriverError {
    DriverError::SelfWait { stream, doing: "using memory that is being handed over" }
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
    let guard = if INSIDE.get() { try_lock(mutex) } else { Some(lock(mutex)) };
    guard.ok_or_else(|| waiting(stream()))
}

/// Locks a mutex that its holders keep while they run code of the user's or wait for host arrays. Inside a
/// task, and where the thread has a host array, it only tries.
pub(crate) fn lock_unless_holding<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>, Busy> {
    let busy = if INSIDE.get() { Busy::InTask } else { Busy::Holding };
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
