//! Logs of kernels: the destination of the text, and its conversion from records.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use lowered_ir::log::{LogLine, LogStyle};
use tnode::Scalar;

use crate::panic::drop_payload;

/// Takes the text of a log.
///
/// The thread that runs a kernel calls the sink during the run. If the device has memory of its own, a thread
/// that notices the end of a run calls it instead. So the sink should be quick, and must not wait for
/// anything. If it panics, it is not called again for that call of the kernel: the kernel runs to its end,
/// and then the panic resumes.
pub trait LogSink: Send + Sync {
    /// Takes one or more whole lines, each with its line end.
    fn write(&self, lines: &str);
}

impl<F: Fn(&str) + Send + Sync> LogSink for F {
    fn write(&self, lines: &str) {
        self(lines);
    }
}

/// The destination of a kernel's log, and the format of values.
#[derive(Clone)]
pub struct Logging {
    /// Takes the text.
    pub sink: Arc<dyn LogSink>,
    /// The format of floats.
    pub style: LogStyle,
}

impl fmt::Debug for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logging").field("style", &self.style).finish_non_exhaustive()
    }
}

/// The size at which text is passed on before a call ends.
const CHUNK_BYTES: usize = 1 << 16;

/// Converts the records of one call of a kernel to text.
pub(crate) struct LogWriter<'a> {
    lines: &'a [LogLine],
    logging: Option<&'a Logging>,
    text: String,
    /// The payload of a panic of the sink.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> LogWriter<'a> {
    /// The writer for a kernel with these lines. Without a destination nothing is written.
    pub(crate) fn new(lines: &'a [LogLine], logging: Option<&'a Logging>) -> Self {
        LogWriter { lines, logging, text: String::new(), panic: None }
    }

    /// The line with this number.
    pub(crate) fn line(&self, line: usize) -> Option<&'a LogLine> {
        self.lines.get(line)
    }

    /// Writes a line. A line that the kernel does not have is skipped.
    pub(crate) fn record(&mut self, line: usize, values: &[Scalar]) {
        let (Some(line), Some(logging)) = (self.line(line), self.logging) else { return };
        line.write(values, logging.style, &mut self.text);
        if self.text.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    /// Writes how many lines did not fit into the buffer.
    pub(crate) fn dropped(&mut self, lines: u64, bytes: usize) {
        self.text.push_str(&format!("DROPPED: {lines} lines; the log of a run has room for {bytes} bytes\n"));
    }

    /// Passes on the remaining text. A panic of the sink resumes here, where no compiled code is on the
    /// stack.
    pub(crate) fn finish(mut self) {
        self.flush();
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    /// Passes the text on. Compiled code may be the caller, so no panic may escape.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        if let (Some(logging), None, false) = (self.logging, &self.panic, text.is_empty()) {
            self.panic = catch_unwind(AssertUnwindSafe(|| logging.sink.write(&text))).err();
        }
    }
}

/// Text that was logged before an interpreted kernel panicked is passed on as well.
impl Drop for LogWriter<'_> {
    fn drop(&mut self) {
        self.flush();
        // A second panic during the unwinding of another one would abort.
        if let Some(panic) = self.panic.take() {
            drop_payload(panic);
        }
    }
}
