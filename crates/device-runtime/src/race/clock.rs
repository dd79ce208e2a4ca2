//! Vector clocks: how far each thread of work had got when something happened.

/// Who works: the host, or a stream of any device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread(pub(super) usize);

/// The thread of the program that schedules.
pub(super) const HOST: Thread = Thread(0);

/// The moment of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) thread: Thread,
    time: u64,
}

/// By thread, the last moment that comes before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    fn time(&self, thread: Thread) -> u64 {
        self.0.get(thread.0).copied().unwrap_or(0)
    }

    /// The next moment of a thread, whose clock this is.
    pub(super) fn tick(&mut self, thread: Thread) -> Moment {
        if self.0.len() <= thread.0 {
            self.0.resize(thread.0 + 1, 0);
        }
        self.0[thread.0] += 1;
        Moment { thread, time: self.0[thread.0] }
    }

    /// What comes before the other comes before this one too.
    pub(super) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// Whether the moment comes before, or is the thread's own present.
    pub(super) fn knows(&self, moment: Moment) -> bool {
        self.time(moment.thread) >= moment.time
    }
}
