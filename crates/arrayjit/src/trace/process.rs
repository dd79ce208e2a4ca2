//! The timeline that the setting `trace` asks for: one of the process, which all its backends share.
//!
//! Nobody knows when it ends, so it is written whenever a backend goes, and goes on. What goes wrong is told once on standard error
//! and disturbs nothing.

use std::sync::{Arc, Mutex, PoisonError};

use super::{TraceError, TraceFile};

/// The path as the setting gave it, and the file, or nothing if it could not be made.
static FILE: Mutex<Option<(String, Option<Arc<TraceFile>>)>> = Mutex::new(None);

/// A backend's share of the timeline.
pub(crate) struct ProcessTimeline(Arc<TraceFile>);

impl ProcessTimeline {
    /// Begins the timeline, or joins it; nothing for an empty path, and where it could not be begun.
    pub(crate) fn begin(path: &str) -> Option<ProcessTimeline> {
        if path.is_empty() {
            return None;
        }
        let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, file) = file.get_or_insert_with(|| (path.to_owned(), report(open(path))));
        if known != path {
            eprintln!("arrayjit: no timeline in `{path}`: this process writes one to `{known}`");
            return None;
        }
        file.clone().map(ProcessTimeline)
    }
}

impl Drop for ProcessTimeline {
    fn drop(&mut self) {
        report(self.0.flush());
    }
}

fn open(path: &str) -> Result<Arc<TraceFile>, TraceError> {
    let file = TraceFile::create(path)?;
    file.install()?;
    Ok(Arc::new(file))
}

fn report<T>(result: Result<T, TraceError>) -> Option<T> {
    result.map_err(|error| eprintln!("arrayjit: {error}")).ok()
}
