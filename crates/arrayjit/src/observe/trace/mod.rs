//! Timelines of streams and threads, as files for trace viewers.
//!
//! The file has the trace-event format, which <https://ui.perfetto.dev> and `chrome://tracing` display. Each
//! stream has a track with the stream's name: a slice for each task, and in it one for each kernel. Each
//! thread of the host has a track with slices for compiling, linking, launching, copying and waiting. Events
//! are written as they occur; memory is needed for one buffer only.
//!
//! Between two writes the file is valid JSON: after a panic, after the end of the process, and on a full
//! disk, with the events that fitted. In the middle of a write, the file may lack the last events and the
//! closing brackets. A process that is killed there leaves such a file, and a reader may find one;
//! [`TraceFile::flush`] before reading prevents the latter.
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
//! Spans of the program itself appear on the track of their thread. A program that already has a subscriber
//! adds [`TraceFile::layer`] to it. The setting [`trace`](crate::settings::DebugSettings::trace) writes a
//! timeline without a change of the program, beginning with the first opened backend.

mod file; // a file that is valid between writes
mod layer; // from spans to slices
mod merge; // timelines of several processes in one file
mod process; // the timeline of the setting `trace`
mod tracks; // the tracks of streams and threads

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

pub use self::merge::merge;
pub(crate) use self::process::ProcessTimeline;
use self::{layer::TraceLayer, tracks::Tracks};

/// The target of events of level `TRACE` that drivers send when a task of a stream begins and ends. Fields:
/// `stream`, `name`, and `phase`, which is `begin` or `end`.
pub const TIMELINE: &str = "arrayjit::timeline";

/// The target of spans around each kernel. Fields: `stream` and `name`.
pub const KERNEL: &str = "arrayjit::kernel";

/// A file with a timeline, written until the value is finished or dropped.
#[derive(Debug)]
pub struct TraceFile {
    shared: Arc<SharedTrace>,
}

/// The state that the file shares with its layers.
#[derive(Debug)]
struct SharedTrace {
    path: PathBuf,
    /// Set once nothing is written any more; layers check it before they take the lock.
    is_over: AtomicBool,
    state: Mutex<TraceState>,
}

#[derive(Debug)]
enum TraceState {
    Writing(Tracks),
    Finished,
    /// The first error of the file, after which nothing is written.
    Failed(io::Error),
}

/// Why a timeline could not be started or written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be created or written.
    #[error("trace file `{path}`: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file to be joined with others that is no finished timeline.
    #[error("the timeline of {process} is not one that is finished: {problem}")]
    Format {
        /// The name of the process.
        process: String,
        /// The problem of its text.
        problem: String,
    },
    /// The process already has a subscriber.
    #[error(
        "trace file `{path}`: this process has a `tracing` subscriber already; add `TraceFile::layer` to it"
    )]
    OtherSubscriber {
        /// The path of the timeline.
        path: PathBuf,
    },
}

impl TraceFile {
    /// Creates a file, or replaces an existing one. Events are recorded from [`TraceFile::install`] or
    /// [`TraceFile::layer`] on.
    ///
    /// # Errors
    ///
    /// [`TraceError::File`].
    pub fn create(path: impl AsRef<Path>) -> Result<TraceFile, TraceError> {
        let path = path.as_ref().to_owned();
        match Tracks::create(&path) {
            Ok(tracks) => {
                let (is_over, state) = (AtomicBool::new(false), Mutex::new(TraceState::Writing(tracks)));
                Ok(TraceFile { shared: Arc::new(SharedTrace { path, is_over, state }) })
            }
            Err(source) => Err(TraceError::File { path, source }),
        }
    }

    /// Installs this timeline as the `tracing` subscriber of the process. A process has at most one.
    ///
    /// # Errors
    ///
    /// [`TraceError::OtherSubscriber`].
    pub fn install(&self) -> Result<(), TraceError> {
        set_global_default(Registry::default().with(self.layer()))
            .map_err(|_| TraceError::OtherSubscriber { path: self.shared.path.clone() })
    }

    /// A layer for the program's own subscriber.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_drawn = |metadata: &tracing::Metadata<'_>| metadata.is_span() || metadata.target() == TIMELINE;
        TraceLayer { shared: Arc::clone(&self.shared) }.with_filter(filter_fn(is_drawn))
    }

    /// Writes the collected events to the file; the timeline continues.
    ///
    /// # Errors
    ///
    /// The first error of this file.
    pub fn flush(&self) -> Result<(), TraceError> {
        self.shared.with(Tracks::flush);
        self.shared.first_error()
    }

    /// Closes all open slices and ends the timeline. Dropping the value does the same and ignores errors.
    ///
    /// # Errors
    ///
    /// The first error of this file; everything written before it is in the file.
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

impl SharedTrace {
    fn state(&self) -> MutexGuard<'_, TraceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `draw` with the tracks, unless the timeline has ended.
    fn with(&self, draw: impl FnOnce(&mut Tracks) -> io::Result<()>) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        if let TraceState::Writing(tracks) = &mut *state
            && let Err(error) = draw(tracks)
        {
            self.end(&mut state, TraceState::Failed(error));
        }
    }

    fn finish(&self) {
        let mut state = self.state();
        if let TraceState::Writing(tracks) = &mut *state {
            let written = tracks.end_all().and_then(|()| tracks.flush());
            self.end(&mut state, written.map_or_else(TraceState::Failed, |()| TraceState::Finished));
        }
    }

    fn end(&self, state: &mut TraceState, as_what: TraceState) {
        *state = as_what;
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn first_error(&self) -> Result<(), TraceError> {
        let TraceState::Failed(error) = &*self.state() else { return Ok(()) };
        let source = io::Error::new(error.kind(), error.to_string());
        Err(TraceError::File { path: self.path.clone(), source })
    }
}
