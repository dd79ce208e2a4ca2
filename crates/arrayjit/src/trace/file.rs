//! A file of trace events that is valid JSON whenever nobody is writing to it.
//!
//! Events are gathered up to [`BATCH`] bytes and then written with the closing brackets behind them, over
//! which the next batch begins. So memory does not grow, and a process that ends between two writes leaves a
//! file that opens. A write that fails, for want of space, is taken back. A write takes several steps of the
//! system, which a reader may see one by one and a killed process leaves where they are: a batch, and the
//! brackets, may be cut off then.

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
        let written = self.write_at_end();
        self.pending.clear();
        match written {
            Ok(()) => self.end += gathered as u64,
            // There was room for the brackets that this puts back. The first error is the one to tell.
            Err(_) => drop(self.take_back()),
        }
        written
    }

    fn write_at_end(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&self.pending)
    }

    /// Closes the file behind the last batch that was written whole.
    fn take_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        let opening = if self.end == 0 { OPENING } else { b"" };
        self.file.write_all(&[opening, CLOSING].concat())
    }
}
