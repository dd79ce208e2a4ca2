//! Ranks that are threads of this process.

use std::{
    fmt::Display,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::{
    announcement::Announcement,
    error::{CollectiveError, Result},
    transport::Transport,
};

/// Runs a function on `size` threads, each with its rank, and returns the results in the order of ranks. When
/// one returns an error, the waits of the others end with [`CollectiveError::RankFailed`]. A panic of a rank
/// does the same and is resumed when all have ended.
pub fn run<T: Send, E: Send + Display>(
    size: usize,
    body: impl Fn(LocalTransport) -> Result<T, E> + Sync,
) -> Vec<Result<T, E>> {
    let barrier = Arc::new(ExchangeBarrier {
        state: Mutex::new(State { deposits: vec![None; size], published: None, failed: None }),
        changed: Condvar::new(),
    });
    thread::scope(|scope| {
        let body = &body;
        let rank = |rank| {
            let guard = Guard {
                transport: LocalTransport { rank, size, barrier: barrier.clone(), operation: Arc::default() },
            };
            scope.spawn(move || {
                let result = body(guard.transport.clone());
                if let Err(error) = &result {
                    guard.transport.fail(error.to_string());
                }
                result
            })
        };
        let threads: Vec<_> = (0..size).map(rank).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Tells the other ranks if its thread panics.
struct Guard {
    transport: LocalTransport,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.transport.fail("it panicked".into());
        }
    }
}

/// Bytes between threads.
#[derive(Clone)]
pub struct LocalTransport {
    rank: usize,
    size: usize,
    barrier: Arc<ExchangeBarrier>,
    /// The operation under way, and how long its exchanges wait.
    operation: Arc<Mutex<(String, Duration)>>,
}

/// Lets the ranks exchange bytes: each deposits its own, and takes those of all when the last has come.
struct ExchangeBarrier {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    deposits: Vec<Option<Vec<u8>>>,
    /// The bytes of all ranks, and the number of ranks that have not taken them.
    published: Option<(Arc<Vec<Vec<u8>>>, usize)>,
    failed: Option<(usize, String)>,
}

impl LocalTransport {
    fn fail(&self, message: String) {
        self.state().failed.get_or_insert((self.rank, message));
        self.barrier.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.barrier.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of all ranks, as part of the operation under way.
    fn exchange_within(&self, bytes: &[u8]) -> Result<Arc<Vec<Vec<u8>>>> {
        let (operation, timeout) = self.operation.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.exchange(bytes, &operation, timeout)
    }

    /// The bytes of all ranks.
    fn exchange(&self, bytes: &[u8], operation: &str, timeout: Duration) -> Result<Arc<Vec<Vec<u8>>>> {
        let end = Instant::now() + timeout;
        let mut state = self.state();
        // The exchange before may not be over for all.
        while state.published.is_some() {
            state = self.wait(state, operation, end, timeout)?;
        }
        state.deposits[self.rank] = Some(bytes.to_vec());
        if state.deposits.iter().all(Option::is_some) {
            let all = state.deposits.iter_mut().map(|bytes| bytes.take().unwrap_or_default()).collect();
            state.published = Some((Arc::new(all), self.size));
            self.barrier.changed.notify_all();
        }
        loop {
            if let Some((all, waiting)) = &mut state.published {
                let all = all.clone();
                *waiting -= 1;
                if *waiting == 0 {
                    state.published = None;
                    self.barrier.changed.notify_all();
                }
                return Ok(all);
            }
            state = self.wait(state, operation, end, timeout)?;
        }
    }

    fn wait<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        operation: &str,
        end: Instant,
        timeout: Duration,
    ) -> Result<MutexGuard<'s, State>> {
        if let Some((rank, message)) = &state.failed {
            let (rank, message) = (*rank, message.clone());
            return Err(CollectiveError::RankFailed { operation: operation.into(), rank, message });
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let absent = |(rank, bytes): (usize, &Option<Vec<u8>>)| bytes.is_none().then_some(rank);
            let missing = state.deposits.iter().enumerate().filter_map(absent).collect();
            let (rank, size, operation) = (self.rank, self.size, operation.into());
            let error = CollectiveError::Missing { rank, size, operation, missing, timeout };
            // A rank that comes later would wait for one that has gone.
            state.failed.get_or_insert((rank, error.to_string()));
            self.barrier.changed.notify_all();
            return Err(error);
        }
        let waited = self.barrier.changed.wait_timeout(state, left);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Transport for LocalTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn meet(&self, own: &Announcement, timeout: Duration) -> Result<Vec<Announcement>> {
        *self.operation.lock().unwrap_or_else(PoisonError::into_inner) = (own.text(), timeout);
        let all = self.exchange_within(own.as_bytes())?;
        let announcement = |bytes: &Vec<u8>| {
            let mut announcement = Announcement::empty();
            announcement.as_bytes_mut().copy_from_slice(bytes);
            announcement
        };
        Ok(all.iter().map(announcement).collect())
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        let all = self.exchange_within(send)?;
        let block = send.len() / self.size;
        for (from, to) in all.iter().zip(received.chunks_mut(block.max(1))) {
            to.copy_from_slice(&from[self.rank * block..][..block]);
        }
        Ok(())
    }

    fn all_gather(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        let all = self.exchange_within(send)?;
        for (from, to) in all.iter().zip(received.chunks_mut(send.len().max(1))) {
            to.copy_from_slice(from);
        }
        Ok(())
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        let own: &[u8] = if self.rank == root { bytes } else { &[] };
        let all = self.exchange_within(own)?;
        bytes.copy_from_slice(&all[root]);
        Ok(())
    }
}
