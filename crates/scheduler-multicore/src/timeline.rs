//! What the scheduler tells whoever draws a timeline, through `tracing`, on the thread that runs the task.
//!
//! Marks are events of the target `arrayjit::timeline` with the fields `stream`, `name` (empty at an end) and `phase` (`begin`
//! or `end`); kernels are spans of the target `arrayjit::kernel` with `stream` and `name`. When nobody listens, each is one look
//! at a flag.

use device_runtime::Mark;
use tracing::{Level, span::EnteredSpan};

use crate::raw::Work;

/// Reports that a mark was reached.
pub(crate) fn mark(stream: &str, mark: &Mark) {
    let (name, phase) = match mark {
        Mark::Begin(name) => (&**name, "begin"),
        Mark::End => ("", "end"),
    };
    tracing::event!(target: "arrayjit::timeline", Level::TRACE, stream, name, phase);
}

/// A span around the work, if it is a kernel.
pub(crate) fn kernel(stream: &str, work: &Work) -> Option<EnteredSpan> {
    let Work::Launch(_) = work else { return None };
    let span = tracing::trace_span!(target: "arrayjit::kernel", "kernel", stream, name = work.name());
    (!span.is_disabled()).then(|| span.entered())
}
