//! Reports marks and kernels to timelines through `tracing`, on the thread that runs the task.
//!
//! Marks are events of the target `arrayjit::timeline` with the fields `stream`, `name` (empty at an end) and
//! `phase` (`begin` or `end`). Kernels are spans of the target `arrayjit::kernel` with the fields `stream`
//! and `name`. Without a subscriber, each costs one load of a flag.

use device_runtime::Mark;
use tracing::{Level, span::EnteredSpan};

use crate::raw::MemoryTask;

/// Reports a mark that the queue reached.
pub(crate) fn mark(stream: &str, mark: &Mark) {
    let (name, phase) = match mark {
        Mark::Begin(name) => (&**name, "begin"),
        Mark::End => ("", "end"),
    };
    tracing::event!(target: "arrayjit::timeline", Level::TRACE, stream, name, phase);
}

/// Enters a span for the task, if it is a kernel and a subscriber wants it.
pub(crate) fn kernel(stream: &str, task: &MemoryTask) -> Option<EnteredSpan> {
    let (MemoryTask::Launch(_) | MemoryTask::TimedLaunch(_)) = task else { return None };
    let span = tracing::trace_span!(target: "arrayjit::kernel", "kernel", stream, name = task.name());
    (!span.is_disabled()).then(|| span.entered())
}
