//! Vector clocks: the progress of each thread of work at a point in time.

/// A thread of work: the host, or a stream of any device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(pub(super) usize);

/// The thread of the program that submits tasks.
pub(super) const HOST: Thread = Thread(0);

/// The time of an access on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timestamp {
    pub(super) thread: Thread,
    time: u64,
}

/// For each thread of work, the time up to which its accesses happen before this clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    fn time(&self, thread: Thread) -> u64 {
        self.0.get(thread.0).copied().unwrap_or(0)
    }

    /// Advances the clock of a thread, and returns its new time.
    pub(super) fn tick(&mut self, thread: Thread) -> Timestamp {
        if self.0.len() <= thread.0 {
            self.0.resize(thread.0 + 1, 0);
        }
        self.0[thread.0] += 1;
        Timestamp { thread, time: self.0[thread.0] }
    }

    /// Joins another clock: everything before it is before this one too.
    pub(super) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// Whether a time happens before this clock, or is the thread's own present.
    pub(super) fn knows(&self, moment: Timestamp) -> bool {
        self.time(moment.thread) >= moment.time
    }
}
