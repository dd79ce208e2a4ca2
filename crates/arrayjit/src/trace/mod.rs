//! Timelines: what streams and threads do when, in a file that trace viewers of browsers open.
//!
//! The file has the trace-event format, which <https://ui.perfetto.dev> and `chrome://tracing` draw. Each stream has a track,
//! named like it, with a slice for each task and in it one for each kernel; each thread of the host has one with
//! what it spends in compiling, linking, launching, copying and waiting. It is written as things happen and takes no memory but
//! for a buffer. It is valid JSON whenever nobody is writing to it: between two writes, after a panic, after the process has ended, and
//! where the disk is full, with the events for which there was room. Whoever reads it in the middle of a write, or kills the process
//! there, may find the last events cut off, and the closing brackets with them; [`TraceFile::flush`] before reading avoids that.
//!
//! ```
//! use arrayjit::{Backend, HostArray, TensorNode, trace::TraceFile};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("trace.json");
//! let trace = TraceFile::create(&path)?;
//! trace.install()?;
//!
//! let y = TensorNode::builder("y").dims([4]).build()?;
//! let backend = Backend::open("multicore")?;
//! let routine = backend.compile("y[i] := i / 2.0", [&y])?.link(&backend.context()?)?;
//! routine.run(&[])?.sync()?;
//! trace.finish()?;
//! assert!(std::fs::read_to_string(&path)?.contains("compile"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Spans of the program itself are drawn too, on the track of their thread. A program that has a subscriber already adds
//! [`TraceFile::layer`] to it. Without a change to the program the setting [`trace`](crate::settings::DebugSettings::trace) writes the same, from when the
//! first backend opens.

mod file; // valid between writes
mod layer; // from spans to slices
mod process; // the one that a setting asks for
mod tracks; // who is drawn where

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tracing::{Subscriber, subscriber::set_global_default};
use tracing_subscriber::{
    filter::filter_fn,
    layer::{Layer, SubscriberExt},
    registry::{LookupSpan, Registry},
};

pub(crate) use self::process::ProcessTimeline;
use self::{layer::TraceLayer, tracks::Tracks};

/// The target of events of level `TRACE` that drivers send when a task of a stream begins and ends. Fields: `stream`, `name`, and
/// `phase`, which is `begin` or `end`.
pub const TIMELINE: &str = "arrayjit::timeline";

/// The target of spans around each kernel. Fields: `stream` and `name`.
pub const KERNEL: &str = "arrayjit::kernel";

/// A file that a timeline is written to, until it is finished or dropped.
#[derive(Debug)]
pub struct TraceFile {
    shared: Arc<Shared>,
}

/// What the file and its layers have in common.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// A hint that nothing is written any more.
    is_over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Writing(Tracks),
    Finished,
    /// The first error of the file, after which nothing is written.
    Failed(io::Error),
}

/// Why a timeline could not be begun or written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file.
    #[error("trace file `{path}`: {source}")]
    File {
        /// Where it was to be.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process has a subscriber.
    #[error(
        "trace file `{path}`: this process has a `tracing` subscriber already; add `TraceFile::layer` to it"
    )]
    OtherSubscriber {
        /// Where the timeline was to be.
        path: PathBuf,
    },
}

impl TraceFile {
    /// Makes a file, in place of what is there. Nothing goes to it before [`TraceFile::install`] or [`TraceFile::layer`].
    ///
    /// # Errors
    ///
    /// [`TraceError::File`].
    pub fn create(path: impl AsRef<Path>) -> Result<TraceFile, TraceError> {
        let path = path.as_ref().to_owned();
        match Tracks::create(&path) {
            Ok(tracks) => {
                let (is_over, state) = (AtomicBool::new(false), Mutex::new(State::Writing(tracks)));
                Ok(TraceFile { shared: Arc::new(Shared { path, is_over, state }) })
            }
            Err(source) => Err(TraceError::File { path, source }),
        }
    }

    /// Makes this timeline the `tracing` subscriber of the process, which it can have only one of.
    ///
    /// # Errors
    ///
    /// [`TraceError::OtherSubscriber`].
    pub fn install(&self) -> Result<(), TraceError> {
        set_global_default(Registry::default().with(self.layer()))
            .map_err(|_| TraceError::OtherSubscriber { path: self.shared.path.clone() })
    }

    /// A layer for a subscriber of the program's own.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_drawn = |metadata: &tracing::Metadata<'_>| metadata.is_span() || metadata.target() == TIMELINE;
        TraceLayer { shared: Arc::clone(&self.shared) }.with_filter(filter_fn(is_drawn))
    }

    /// Writes what is not in the file yet; the timeline goes on.
    ///
    /// # Errors
    ///
    /// The first error of this file.
    pub fn flush(&self) -> Result<(), TraceError> {
        self.shared.with(Tracks::flush);
        self.shared.first_error()
    }

    /// Closes what is open and ends the timeline. The same happens when the value is dropped, errors aside.
    ///
    /// # Errors
    ///
    /// The first error of this file; what was written before is there.
    pub fn finish(self) -> Result<(), TraceError> {
        self.shared.finish();
        self.shared.first_error()
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        self.shared.finish();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws something, unless the timeline is over.
    fn with(&self, draw: impl FnOnce(&mut Tracks) -> io::Result<()>) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        if let State::Writing(tracks) = &mut *state
            && let Err(error) = draw(tracks)
        {
            self.end(&mut state, State::Failed(error));
        }
    }

    fn finish(&self) {
        let mut state = self.state();
        if let State::Writing(tracks) = &mut *state {
            let written = tracks.end_all().and_then(|()| tracks.flush());
            self.end(&mut state, written.map_or_else(State::Failed, |()| State::Finished));
        }
    }

    fn end(&self, state: &mut State, as_what: State) {
        *state = as_what;
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn first_error(&self) -> Result<(), TraceError> {
        let State::Failed(error) = &*self.state() else { return Ok(()) };
        let source = io::Error::new(error.kind(), error.to_string());
        Err(TraceError::File { path: self.path.clone(), source })
    }
}
