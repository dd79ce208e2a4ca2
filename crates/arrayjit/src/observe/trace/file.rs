//! A file of trace events that is valid JSON between writes.
//!
//! Events are collected up to [`BATCH`] bytes and then written together with the closing brackets; the next
//! batch overwrites the brackets. So the memory in use is bounded, and a process that ends between two writes
//! leaves a complete file. A failed write, for instance on a full disk, is undone. A write takes several
//! system calls: a reader in the middle of a write, or a process killed there, may see a file that lacks the
//! end of the batch and the closing brackets.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// The number of collected bytes that starts a write.
const BATCH: usize = 64 << 10;
const CLOSING: &[u8] = b"\n]}\n";

/// A trace file that grows only.
#[derive(Debug)]
pub(super) struct EventFile {
    file: File,
    /// The text before the first event.
    opening: Vec<u8>,
    /// The position of the closing brackets.
    end: u64,
    /// Events that are not written yet.
    pending: Vec<u8>,
    is_empty: bool,
}

impl EventFile {
    /// Creates a file without events, or replaces an existing one.
    pub(super) fn create(path: &Path) -> io::Result<EventFile> {
        let file = File::create(path)?;
        // The time of day, by which timelines of several processes are joined.
        let start_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let opening = format!(
            "{{\"displayTimeUnit\": \"ms\", \"otherData\": {{\"start_us\": {start_us}}}, \"traceEvents\": ["
        );
        let opening = opening.into_bytes();
        let mut file = EventFile { file, pending: opening.clone(), opening, end: 0, is_empty: true };
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

    /// Writes the collected events.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let gathered = self.pending.len();
        self.pending.extend_from_slice(CLOSING);
        let written = self.write_at_end();
        self.pending.clear();
        match written {
            Ok(()) => self.end += gathered as u64,
            // The brackets fit, because they were in the file before. The first error is returned.
            Err(_) => drop(self.take_back()),
        }
        written
    }

    fn write_at_end(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&self.pending)
    }

    /// Ends the file after the last batch that was written completely.
    fn take_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        let opening: &[u8] = if self.end == 0 { &self.opening } else { b"" };
        self.file.write_all(&[opening, CLOSING].concat())
    }
}
