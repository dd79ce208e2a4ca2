//! What kernels log: where the text goes, and how the records of a kernel become text.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use lowered_ir::log::{LogLine, LogStyle};
use tnode::Scalar;

use crate::panic::drop_payload;

/// Takes the text of a log.
///
/// The thread that runs a kernel calls it meanwhile; where the device has memory of its own, a thread that notices that a run is done. So it should
/// be quick, and it may wait for nothing. If it panics, it is not called again for that call of a kernel, which runs to its end and then goes on
/// panicking.
pub trait LogSink: Send + Sync {
    /// Takes one or more whole lines, each with its line end.
    fn write(&self, lines: &str);
}

impl<F: Fn(&str) + Send + Sync> LogSink for F {
    fn write(&self, lines: &str) {
        self(lines);
    }
}

/// Where kernels log to, and how the values in their lines are written.
#[derive(Clone)]
pub struct Logging {
    /// Takes the text.
    pub sink: Arc<dyn LogSink>,
    /// How floats are written.
    pub style: LogStyle,
}

impl fmt::Debug for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logging").field("style", &self.style).finish_non_exhaustive()
    }
}

/// Text is handed over when there is this much of it, and when a call ends.
const CHUNK_BYTES: usize = 1 << 16;

/// Turns the records of one call of a kernel into text.
pub(crate) struct LogWriter<'a> {
    lines: &'a [LogLine],
    logging: Option<&'a Logging>,
    text: String,
    /// What the sink panicked with.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> LogWriter<'a> {
    /// For a kernel with these lines. Where there is nowhere to log to, nothing is written.
    pub(crate) fn new(lines: &'a [LogLine], logging: Option<&'a Logging>) -> Self {
        LogWriter { lines, logging, text: String::new(), panic: None }
    }

    /// The line of that number.
    pub(crate) fn line(&self, line: usize) -> Option<&'a LogLine> {
        self.lines.get(line)
    }

    /// Writes a line; one that the kernel does not have is left out.
    pub(crate) fn record(&mut self, line: usize, values: &[Scalar]) {
        let (Some(line), Some(logging)) = (self.line(line), self.logging) else { return };
        line.write(values, logging.style, &mut self.text);
        if self.text.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    /// Writes that there was no room for so many lines.
    pub(crate) fn dropped(&mut self, lines: u64, bytes: usize) {
        self.text.push_str(&format!("DROPPED: {lines} lines; the log of a run has room for {bytes} bytes\n"));
    }

    /// Hands over what is left; a panic of the sink goes on here, where no compiled code is on the stack.
    pub(crate) fn finish(mut self) {
        self.flush();
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    /// Compiled code may have called: no panic may leave.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        if let (Some(logging), None, false) = (self.logging, &self.panic, text.is_empty()) {
            self.panic = catch_unwind(AssertUnwindSafe(|| logging.sink.write(&text))).err();
        }
    }
}

/// What was logged before an interpreted kernel panicked is handed over all the same.
impl Drop for LogWriter<'_> {
    fn drop(&mut self) {
        self.flush();
        // This may be the unwinding of another panic, which a second one would make an abort.
        if let Some(panic) = self.panic.take() {
            drop_payload(panic);
        }
    }
}
