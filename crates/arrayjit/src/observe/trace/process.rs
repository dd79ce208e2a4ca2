//! The timeline of the setting `trace`: one file for the process, which all its backends share.
//!
//! The process may end at any time, so the timeline is flushed whenever a backend is dropped, and continues
//! after that. Errors are printed once on standard error and disturb nothing.

use std::sync::{Arc, Mutex, PoisonError};

use super::{TraceError, TraceFile};

/// The path from the setting, and the file, or `None` if it could not be created.
static FILE: Mutex<Option<(String, Option<Arc<TraceFile>>)>> = Mutex::new(None);

/// A backend's share of the timeline.
pub(crate) struct ProcessTimeline(Arc<TraceFile>);

impl ProcessTimeline {
    /// Starts the timeline, or joins the one that runs; `None` for an empty path, or if it could not be
    /// started.
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
