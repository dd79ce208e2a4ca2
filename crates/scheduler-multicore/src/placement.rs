//! Keeps a worker off the processor of the thread that it helps.
//!
//! The two shall compute at the same time, but a system may let the worker wait for the other's processor
//! while another one is idle: it places a thread that wakes up by the loads of the last milliseconds, which
//! other programs cause too, and takes the idle processor of a virtual machine for one that its host has
//! taken away. The worker then waits for a whole time slice, which is longer than most kernels.
//!
//! So the worker gives up one processor, that of its initiator. It may run on all others, and on all when it
//! runs tasks itself. On systems other than Linux nothing happens.

#[cfg(all(target_os = "linux", not(feature = "loom"), not(miri)))]
mod linux {
    use std::sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    };

    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// No processor.
    const NONE: usize = usize::MAX;

    /// The processors on which a worker may run.
    #[derive(Debug)]
    pub(crate) struct Placement {
        /// The processor that the worker has given up. A hint, which saves a lock and system calls.
        avoided: AtomicUsize,
        affinity: Mutex<Option<Affinity>>,
    }

    /// The affinity of a worker's thread.
    #[derive(Debug)]
    struct Affinity {
        thread: Pid,
        /// The processors that others allow: the user, by the affinity of the process or of this thread.
        allowed: CpuSet,
        /// The affinity that was set last. If it is another now, somebody else has set it.
        current: CpuSet,
    }

    impl Default for Placement {
        fn default() -> Placement {
            Placement { avoided: AtomicUsize::new(NONE), affinity: Mutex::new(None) }
        }
    }

    impl Placement {
        /// Called by the worker's thread when it starts.
        pub(crate) fn enter(&self) {
            let affinity = sched_getaffinity(None).ok();
            let affinity = affinity.map(|allowed| Affinity { thread: gettid(), allowed, current: allowed });
            *self.affinity.lock().unwrap_or_else(PoisonError::into_inner) = affinity;
        }

        /// Keeps the worker off the calling thread's processor.
        pub(crate) fn avoid_caller(&self) {
            self.avoid(sched_getcpu());
        }

        /// Lets the worker run on every processor.
        pub(crate) fn avoid_nobody(&self) {
            self.avoid(NONE);
        }

        /// Errors are ignored: the affinity is then that of before, which only affects speed.
        fn avoid(&self, processor: usize) {
            if self.avoided.load(Ordering::Relaxed) == processor {
                return;
            }
            let mut affinity = self.affinity.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(affinity) = &mut *affinity {
                let _ = affinity.avoid(processor);
                self.avoided.store(processor, Ordering::Relaxed);
            }
        }
    }

    impl Affinity {
        fn avoid(&mut self, processor: usize) -> rustix::io::Result<()> {
            let now = sched_getaffinity(Some(self.thread))?;
            if now != self.current {
                (self.allowed, self.current) = (now, now);
            }
            let mut wanted = self.allowed;
            if processor < CpuSet::MAX_CPU {
                wanted.unset(processor);
            }
            if wanted.count() > 0 && wanted != self.current {
                sched_setaffinity(Some(self.thread), &wanted)?;
                self.current = wanted;
            }
            Ok(())
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Runs a test on a thread of its own, whose affinity it changes.
        fn on_own_thread(test: impl FnOnce() + Send + 'static) {
            std::thread::spawn(test).join().unwrap();
        }

        #[test]
        fn a_worker_gives_up_one_processor_and_gets_it_back() {
            on_own_thread(|| {
                let all = sched_getaffinity(None).unwrap();
                let placement = Placement::default();
                placement.enter();
                let first = (0..CpuSet::MAX_CPU).find(|&processor| all.is_set(processor)).unwrap();
                placement.avoid(first);
                let rest = sched_getaffinity(None).unwrap();
                assert_eq!(rest.count(), all.count().max(2) - 1, "the only processor is not given up");
                assert!(all.count() == 1 || !rest.is_set(first));
                placement.avoid_nobody();
                assert_eq!(sched_getaffinity(None).unwrap(), all);
            });
        }

        #[test]
        fn processors_that_the_user_forbids_stay_forbidden() {
            on_own_thread(|| {
                let placement = Placement::default();
                placement.enter();
                let mut only = CpuSet::new();
                only.set(sched_getcpu());
                sched_setaffinity(None, &only).unwrap();
                for _ in 0..2 {
                    placement.avoid_caller();
                    assert_eq!(sched_getaffinity(None).unwrap(), only);
                    placement.avoid_nobody();
                    assert_eq!(sched_getaffinity(None).unwrap(), only);
                }
            });
        }
    }
}

#[cfg(all(target_os = "linux", not(feature = "loom"), not(miri)))]
pub(crate) use linux::Placement;

/// Does nothing: the system places workers.
#[cfg(not(all(target_os = "linux", not(feature = "loom"), not(miri))))]
#[derive(Debug, Default)]
pub(crate) struct Placement {}

#[cfg(not(all(target_os = "linux", not(feature = "loom"), not(miri))))]
impl Placement {
    pub(crate) fn enter(&self) {}

    pub(crate) fn avoid_caller(&self) {}

    pub(crate) fn avoid_nobody(&self) {}
}
