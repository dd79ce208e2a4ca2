//! Threads that wait for tasks as long as a function runs.

use core::hint;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::threads::RunOnThreads;

/// Calls a function with [threads](RunOnThreads): the thread of the caller, and `count - 1` others that live
/// until the function returns. Programs that run routines often keep them over all runs, because making
/// threads takes longer than waking them.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let calls = AtomicUsize::new(0);
/// arrayjit_rt::on_threads(3, |run| {
///     run(3, &|| _ = calls.fetch_add(1, Ordering::Relaxed)); // a run of a routine calls it
/// });
/// assert!((1..=3).contains(&calls.into_inner()));
/// ```
///
/// If the system has fewer threads, there are as many as it has.
pub fn on_threads<R>(count: usize, function: impl FnOnce(&RunOnThreads<'_>) -> R) -> R {
    let threads = ScopedThreads::default();
    thread::scope(|scope| {
        let _closed = OnDrop(|| threads.close());
        let start = |_| thread::Builder::new().spawn_scoped(scope, || threads.work());
        let _started = (1..count).map(start).take_while(Result::is_ok).count();
        function(&|count, task| threads.run(count, task))
    })
}

/// Polls for a task before a thread sleeps. The kernels of a routine follow each other within microseconds.
const POLLS: u32 = 2_000;

#[derive(Default)]
struct ScopedThreads {
    state: Mutex<TaskState>,
    /// Counts tasks, for threads that poll.
    tasks: AtomicU64,
    has_task: Condvar,
    has_finished: Condvar,
}

#[derive(Default)]
struct TaskState {
    task: Option<&'static (dyn Fn() + Sync)>,
    /// The number of threads that the task still takes.
    wanted: usize,
    /// The number of threads that run the task.
    active: usize,
    is_closed: bool,
}

/// Calls a function when it is dropped, so after a panic too.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl ScopedThreads {
    fn state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a task on this thread and on up to `count - 1` others.
    fn run(&self, count: usize, task: &(dyn Fn() + Sync)) {
        // SAFETY: `finish` runs before this function returns or unwinds, so before the task may be gone. Then
        // no thread runs the task, nor finds it.
        let lasting = unsafe { mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(task) };
        let _finished = OnDrop(|| self.finish());
        let wanted = count.saturating_sub(1);
        {
            let mut state = self.state();
            (state.task, state.wanted) = (Some(lasting), wanted);
        }
        self.tasks.fetch_add(1, Ordering::Release);
        (0..wanted).for_each(|_| self.has_task.notify_one());
        task();
    }

    /// Withdraws the task, and waits for the threads that run it.
    fn finish(&self) {
        let mut state = self.state();
        (state.task, state.wanted) = (None, 0);
        while state.active > 0 {
            state = self.has_finished.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs tasks until there are no more.
    fn work(&self) {
        let mut state = self.state();
        while !state.is_closed {
            if let Some(task) = state.task.filter(|_| state.wanted > 0) {
                state.wanted -= 1;
                state.active += 1;
                drop(state);
                let left = OnDrop(|| self.leave());
                task();
                drop(left);
                self.poll();
                state = self.state();
            } else {
                state = self.has_task.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn leave(&self) {
        let mut state = self.state();
        state.active -= 1;
        if state.active == 0 {
            self.has_finished.notify_one();
        }
    }

    /// Waits for a task for a short time.
    fn poll(&self) {
        let seen = self.tasks.load(Ordering::Acquire);
        for _ in 0..POLLS {
            if self.tasks.load(Ordering::Acquire) != seen {
                return;
            }
            hint::spin_loop();
        }
    }

    fn close(&self) {
        self.state().is_closed = true;
        self.tasks.fetch_add(1, Ordering::Release);
        self.has_task.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;

    use super::on_threads;

    #[test]
    fn tasks_run_at_the_same_time_and_end_before_the_next() {
        let (barrier, sum) = (Barrier::new(3), AtomicUsize::new(0));
        on_threads(3, |run| {
            for round in 1..=100 {
                run(3, &|| {
                    barrier.wait(); // all three threads take part
                    sum.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(sum.load(Ordering::Relaxed), 3 * round);
            }
        });
    }

    #[test]
    fn a_panic_ends_the_threads() {
        for panics_here in [true, false] {
            let caller = std::thread::current().id();
            let barrier = Barrier::new(2);
            let result = catch_unwind(AssertUnwindSafe(|| {
                on_threads(2, |run| {
                    run(2, &|| {
                        barrier.wait();
                        assert_ne!(std::thread::current().id() == caller, panics_here, "a panic of a task");
                    });
                });
            }));
            assert!(result.is_err());
        }
    }
}
