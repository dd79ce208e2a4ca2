//! A file of trace events that is valid JSON whenever it is looked at.
//!
//! Events are gathered up to [`BATCH`] bytes and then written with the closing brackets behind them, over which the next
//! batch begins. So neither memory grows, nor does a process that ends in the middle leave a file that does not open.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use serde::Serialize;

/// Bytes gathered before they are written.
const BATCH: usize = 64 << 10;
const OPENING: &[u8] = b"{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
const CLOSING: &[u8] = b"\n]}\n";

/// A trace file, to which events are only added.
#[derive(Debug)]
pub(super) struct EventFile {
    file: File,
    /// Where the closing brackets are.
    end: u64,
    /// Events that are not written yet.
    pending: Vec<u8>,
    is_empty: bool,
}

impl EventFile {
    /// A file without events, in place of what was there.
    pub(super) fn create(path: &Path) -> io::Result<EventFile> {
        let file = File::create(path)?;
        let mut file = EventFile { file, end: 0, pending: OPENING.to_vec(), is_empty: true };
        file.flush()?;
        Ok(file)
    }

    /// Adds an event.
    pub(super) fn push(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.pending.extend_from_slice(if self.is_empty { b"\n" } else { b",\n" });
        self.is_empty = false;
        serde_json::to_writer(&mut self.pending, event)?;
        if self.pending.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let gathered = self.pending.len();
        self.pending.extend_from_slice(CLOSING);
        self.file.seek(SeekFrom::Start(self.end))?;
        let written = self.file.write_all(&self.pending);
        self.pending.clear();
        self.end += gathered as u64;
        written
    }
}
