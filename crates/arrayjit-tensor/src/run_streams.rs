//! The streams of runs: calls that overlap run side by side, each on a stream of its own.
//!
//! A call takes a stream while it copies inputs, runs and copies results, so nothing comes between. There are
//! at most as many streams as runs that may overlap; further calls wait, in the order in which they came.

use std::{
    num::NonZero,
    sync::{Condvar, Mutex, PoisonError},
    thread,
};

use arrayjit::{Context, RunError, Stream};

use crate::parameter::locked;

/// The streams of the runs over one set of weights, the first of which is that of the weights.
pub(crate) struct RunStreams {
    state: Mutex<RunStreamsState>,
    returned: Condvar,
}

struct RunStreamsState {
    /// How many runs may overlap.
    most: usize,
    is_taken: Vec<bool>,
    /// The streams that were made, by number; the first one is that of the weights.
    streams: Vec<Option<Stream>>,
    /// The calls that wait, in the order in which they came.
    waiting: Vec<WaitingCall>,
    calls: u64,
}

struct WaitingCall {
    number: u64,
    /// The call may have a stream with a number below.
    most: usize,
}

/// A stream that one call has until this value is dropped.
pub(crate) struct TakenStream<'a> {
    of: &'a RunStreams,
    /// The number of the stream; 0 is that of the weights.
    pub(crate) number: usize,
}

impl Default for RunStreams {
    /// As many runs may overlap as there are processors.
    fn default() -> RunStreams {
        let most = thread::available_parallelism().map_or(1, NonZero::get);
        let (is_taken, streams, waiting) = (vec![false; most], vec![None; most], Vec::new());
        let state = RunStreamsState { most, is_taken, streams, waiting, calls: 0 };
        RunStreams { state: Mutex::new(state), returned: Condvar::new() }
    }
}

impl RunStreams {
    /// Changes how many runs may overlap.
    pub(crate) fn set_most(&self, most: NonZero<usize>) {
        let mut state = locked(&self.state);
        state.most = most.get();
        let len = state.is_taken.len().max(state.most);
        state.is_taken.resize(len, false);
        state.streams.resize(len, None);
        self.returned.notify_all();
    }

    /// Takes the first stream that is free, of the first `most` ones. Waits until there is one.
    pub(crate) fn take(&self, most: usize) -> TakenStream<'_> {
        let mut state = locked(&self.state);
        let number = state.calls;
        state.calls += 1;
        state.waiting.push(WaitingCall { number, most });
        loop {
            if let Some(at) = state.free_for(number) {
                state.waiting.retain(|call| call.number != number);
                state.is_taken[at] = true;
                return TakenStream { of: self, number: at };
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl RunStreamsState {
    /// The free stream that a waiting call gets after the calls that came before it.
    fn free_for(&self, number: u64) -> Option<usize> {
        let mut free: Vec<usize> = (0..self.most).filter(|&at| !self.is_taken[at]).collect();
        for call in &self.waiting {
            let own = free.iter().position(|&at| at < call.most).map(|position| free.remove(position));
            if call.number == number {
                return own;
            }
        }
        None
    }
}

impl TakenStream<'_> {
    /// A context with the memory of `context` on this stream, which is not the first one.
    pub(crate) fn context(&self, context: &Context) -> Result<Context, RunError> {
        let made = locked(&self.of.state).streams[self.number].clone();
        let stream = match made {
            Some(stream) => stream,
            None => context.stream().device().new_stream()?,
        };
        locked(&self.of.state).streams[self.number] = Some(stream.clone());
        context.on_stream(&stream)
    }
}

impl Drop for TakenStream<'_> {
    fn drop(&mut self) {
        locked(&self.of.state).is_taken[self.number] = false;
        self.of.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn calls_get_the_first_free_stream() {
        let streams = RunStreams::default();
        streams.set_most(NonZero::new(3).unwrap());
        let (first, second) = (streams.take(usize::MAX), streams.take(usize::MAX));
        assert_eq!((first.number, second.number), (0, 1));
        drop(first);
        assert_eq!(streams.take(1).number, 0);
        let (_zero, two) = (streams.take(usize::MAX), streams.take(usize::MAX));
        assert_eq!(two.number, 2);
    }

    #[test]
    fn a_call_that_needs_the_first_stream_holds_up_no_other() {
        let streams = RunStreams::default();
        streams.set_most(NonZero::new(2).unwrap());
        let (first, second) = (streams.take(usize::MAX), streams.take(usize::MAX));
        let (sender, numbers) = mpsc::channel();
        thread::scope(|scope| {
            let (of, writer) = (&streams, sender.clone());
            scope.spawn(move || writer.send(of.take(1).number).unwrap());
            while locked(&streams.state).waiting.is_empty() {
                thread::yield_now();
            }
            drop(second);
            assert_eq!(streams.take(usize::MAX).number, 1, "the first call that waits cannot have it");
            drop(first);
            assert_eq!(numbers.recv().unwrap(), 0);
        });
    }
}
