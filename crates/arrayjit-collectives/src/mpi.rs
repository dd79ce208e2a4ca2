//! Ranks that are processes of MPI.
//!
//! The system's MPI library connects the processes that `mpirun` starts. It only moves bytes: operations are
//! computed by [`HostGroup`](crate::HostGroup), on a thread of a stream, so the library is asked for
//! `MPI_THREAD_MULTIPLE`.
//!
//! Open MPI makes no progress in the background, hence the exchanges are blocking calls on that thread. With
//! more processes than cores, `OMPI_MCA_mpi_yield_when_idle=1` keeps waiting processes from taking the time
//! of those that compute.

use std::{
    fmt::Display,
    panic,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ::mpi::{
    Rank, Tag, Threading,
    request::{Request, scope},
    topology::SimpleCommunicator,
    traits::{Communicator, CommunicatorCollectives, Destination, Root, Source},
};

use crate::{
    announcement::Announcement,
    error::{CollectiveError, Result},
    transport::Transport,
};

/// The tag of announcements.
const ANNOUNCEMENT: Tag = 1;

/// How long a rank sleeps between two looks for announcements, after a number of looks without.
const NAP: Duration = Duration::from_micros(50);

/// The number of looks for announcements without sleep.
const LOOKS: usize = 200;

/// Why MPI was not started.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// MPI was started before in this process.
    #[error("MPI was started before in this process")]
    Started,
    /// The library does not allow calls from several threads.
    #[error("the MPI library grants {granted}, expected MPI_THREAD_MULTIPLE")]
    Threads {
        /// The name of the level that it grants.
        granted: &'static str,
    },
}

tnode::debug_as_display!(MpiError);

/// Starts MPI and runs a function with the rank of this process. An error or a panic of the function is
/// printed with the rank, and `MPI_Abort` ends all processes with status 1; so does an exchange that takes
/// longer than the time that its group waits for other ranks.
///
/// The function must drop its streams and groups, or wait for their tasks, before it returns.
///
/// # Errors
/// A library that does not allow several threads, or a second call.
pub fn run<T, E: Display>(body: impl FnOnce(MpiTransport) -> Result<T, E>) -> Result<T, MpiError> {
    let (universe, granted) =
        ::mpi::initialize_with_threading(Threading::Multiple).ok_or(MpiError::Started)?;
    if granted != Threading::Multiple {
        return Err(MpiError::Threads { granted: level(granted) });
    }
    let world = universe.world();
    let transport = MpiTransport {
        rank: usize::try_from(world.rank()).unwrap_or_default(),
        size: usize::try_from(world.size()).unwrap_or(1),
        exchange: Arc::default(),
    };
    let earlier = Arc::new(panic::take_hook());
    let restored = earlier.clone();
    let (rank, size) = (transport.rank, transport.size);
    panic::set_hook(Box::new(move |info| {
        earlier(info);
        // Before it unwinds: dropped streams would wait for ranks that this one no longer answers. A panic on
        // the thread of a stream is an error of the stream instead, and reaches the caller as such.
        if thread::current().name() == Some("main") {
            abort(rank, size, "panicked");
        }
    }));
    let is_over = Arc::new(AtomicBool::new(false));
    let watchdog = transport.watch(is_over.clone());
    let result = body(transport);
    is_over.store(true, Ordering::Relaxed);
    match result {
        Ok(value) => {
            let _ = watchdog.map(thread::JoinHandle::join);
            panic::set_hook(Box::new(move |info| restored(info)));
            drop(universe);
            Ok(value)
        }
        // The alternate form of some types, such as `anyhow::Error`, has the causes too.
        Err(error) => abort(rank, size, &format!("{error:#}")),
    }
}

/// Prints the reason and ends all processes.
fn abort(rank: usize, size: usize, reason: &str) -> ! {
    eprintln!("rank {rank} of {size}: {reason}");
    SimpleCommunicator::world().abort(1)
}

fn level(granted: Threading) -> &'static str {
    match granted {
        Threading::Single => "MPI_THREAD_SINGLE",
        Threading::Funneled => "MPI_THREAD_FUNNELED",
        Threading::Serialized => "MPI_THREAD_SERIALIZED",
        Threading::Multiple => "MPI_THREAD_MULTIPLE",
    }
}

/// Bytes between processes of MPI.
#[derive(Clone)]
pub struct MpiTransport {
    rank: usize,
    size: usize,
    /// The operation whose bytes are being exchanged, and when that must be over.
    exchange: Arc<Mutex<Option<(String, Instant)>>>,
}

impl MpiTransport {
    fn exchange(&self) -> MutexGuard<'_, Option<(String, Instant)>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all processes when an exchange takes too long: a blocking call of MPI cannot be left otherwise.
    fn watch(&self, is_over: Arc<AtomicBool>) -> Option<thread::JoinHandle<()>> {
        let transport = self.clone();
        let watch = move || {
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
                let late = transport.exchange().as_ref().filter(|(_, end)| Instant::now() > *end).cloned();
                if let Some((operation, _)) = late {
                    let reason = format!("`{operation}`: a rank stopped during the exchange");
                    abort(transport.rank, transport.size, &reason);
                }
            }
        };
        thread::Builder::new().name("mpi watchdog".into()).spawn(watch).ok()
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.rank;
        (0..self.size).filter(move |&rank| rank != own)
    }
}

/// Takes the requests that are complete out of a list.
fn complete<'a>(pending: &mut Vec<(usize, Request<'a, [u8], &::mpi::request::LocalScope<'a>>)>) {
    for (rank, request) in std::mem::take(pending) {
        if let Err(request) = request.test() {
            pending.push((rank, request));
        }
    }
}

/// The number of a process as MPI counts.
fn process(rank: usize) -> Rank {
    Rank::try_from(rank).unwrap_or(Rank::MAX)
}

impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn meet(&self, own: &Announcement, timeout: Duration) -> Result<Vec<Announcement>> {
        let world = SimpleCommunicator::world();
        let mut all = vec![Announcement::empty(); self.size];
        all[self.rank] = own.clone();
        let end = Instant::now() + timeout;
        let missing = scope(|scope| {
            let mut pending = Vec::new();
            for rank in self.others() {
                let to = world.process_at_rank(process(rank));
                pending.push((rank, to.immediate_send_with_tag(scope, own.as_bytes(), ANNOUNCEMENT)));
            }
            let mut expected = Vec::new();
            for (rank, announcement) in all.iter_mut().enumerate().filter(|(rank, _)| *rank != self.rank) {
                let from = world.process_at_rank(process(rank));
                let into = announcement.as_bytes_mut();
                expected.push((rank, from.immediate_receive_into_with_tag(scope, into, ANNOUNCEMENT)));
            }
            for look in 0.. {
                complete(&mut pending);
                complete(&mut expected);
                if pending.is_empty() && expected.is_empty() || Instant::now() > end {
                    break;
                }
                if look > LOOKS {
                    thread::sleep(NAP);
                }
            }
            let missing = expected.iter().map(|(rank, _)| *rank).collect::<Vec<_>>();
            for (_, request) in pending.into_iter().chain(expected) {
                request.cancel();
                request.wait_without_status();
            }
            missing
        });
        if missing.is_empty() {
            *self.exchange() = Some((own.text(), Instant::now() + timeout));
            return Ok(all);
        }
        let (rank, size, operation) = (self.rank, self.size, own.text());
        Err(CollectiveError::Missing { rank, size, operation, missing, timeout })
    }

    fn all_to_all(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        SimpleCommunicator::world().all_to_all_into(send, received);
        Ok(())
    }

    fn all_gather(&self, send: &[u8], received: &mut [u8]) -> Result<()> {
        SimpleCommunicator::world().all_gather_into(send, received);
        Ok(())
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        SimpleCommunicator::world().process_at_rank(process(root)).broadcast_into(bytes);
        Ok(())
    }

    fn done(&self) {
        *self.exchange() = None;
    }
}
