//! The tracks of a timeline, and the open slices of each.
//!
//! Slices of a track nest: the slice that began last ends first. An end without a beginning is dropped, and
//! slices that are open at the end are closed, so the file is well-formed whenever writing starts and ends.
//! Events are in the order of their times.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
    thread::{self, Thread, ThreadId},
    time::Instant,
};

use serde::Serialize;
use serde_json::{Map, Value};

use super::file::EventFile;

/// Properties of a slice besides its name, as JSON.
pub(super) type SliceArgs = Map<String, Value>;

/// The track of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Track<'a> {
    /// The track of a stream, by its name.
    Stream(&'a str),
    /// The track of the current thread.
    ThisThread,
}

/// A group of tracks. The format calls groups processes.
#[derive(Clone, Copy, Debug)]
enum TrackGroup {
    Streams = 1,
    Threads = 2,
}

/// The state of a track. Its number in the file is its position in the table, counted from 1.
#[derive(Clone, Copy, Debug)]
struct TrackState {
    group: TrackGroup,
    /// The number of open slices.
    open: usize,
}

/// An event of the trace-event format.
#[derive(Serialize)]
struct TraceEvent<'a> {
    #[serde(rename = "ph")]
    phase: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    /// Microseconds since the file was made.
    ts: f64,
    pid: u32,
    tid: usize,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: &'a SliceArgs,
}

/// All tracks, and their file.
#[derive(Debug)]
pub(super) struct Tracks {
    file: EventFile,
    start: Instant,
    rows: Vec<TrackState>,
    streams: BTreeMap<String, usize>,
    threads: HashMap<ThreadId, usize>,
}

impl Tracks {
    /// Creates a file with a heading for each group.
    pub(super) fn create(path: &Path) -> io::Result<Tracks> {
        let file = EventFile::create(path)?;
        let (rows, streams, threads) = Default::default();
        let mut tracks = Tracks { file, start: Instant::now(), rows, streams, threads };
        tracks.heading("process_name", TrackGroup::Streams, 0, "streams")?;
        tracks.heading("process_name", TrackGroup::Threads, 0, "host threads")?;
        Ok(tracks)
    }

    /// Opens a slice that begins now.
    pub(super) fn begin(&mut self, track: Track<'_>, name: &str, args: &SliceArgs) -> io::Result<()> {
        let row = self.row(track)?;
        self.rows[row].open += 1;
        self.push(row, "B", name, args)
    }

    /// Closes the slice that was opened last.
    pub(super) fn end(&mut self, track: Track<'_>) -> io::Result<()> {
        let row = self.row(track)?;
        if self.rows[row].open == 0 {
            return Ok(());
        }
        self.rows[row].open -= 1;
        self.push(row, "E", "", &SliceArgs::new())
    }

    /// Closes all slices.
    pub(super) fn end_all(&mut self) -> io::Result<()> {
        for row in 0..self.rows.len() {
            for _ in 0..std::mem::take(&mut self.rows[row].open) {
                self.push(row, "E", "", &SliceArgs::new())?;
            }
        }
        Ok(())
    }

    /// Writes the collected events.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// The row of a track. A new track gets a row, and a heading in the file.
    fn row(&mut self, track: Track<'_>) -> io::Result<usize> {
        let next = self.rows.len();
        match track {
            Track::Stream(name) => {
                if let Some(&row) = self.streams.get(name) {
                    return Ok(row);
                }
                self.streams.insert(name.to_owned(), next);
                self.add_row(TrackGroup::Streams, name)?;
            }
            Track::ThisThread => {
                let thread = thread::current();
                if let Some(&row) = self.threads.get(&thread.id()) {
                    return Ok(row);
                }
                self.threads.insert(thread.id(), next);
                self.add_row(TrackGroup::Threads, &name_of(&thread))?;
            }
        }
        Ok(next)
    }

    fn add_row(&mut self, group: TrackGroup, name: &str) -> io::Result<()> {
        self.rows.push(TrackState { group, open: 0 });
        self.heading("thread_name", group, self.rows.len(), name)
    }

    fn push(&mut self, row: usize, phase: &'static str, name: &str, args: &SliceArgs) -> io::Result<()> {
        let ts = self.start.elapsed().as_nanos() as f64 / 1e3;
        let pid = self.rows[row].group as u32;
        self.file.push(&TraceEvent { phase, name, ts, pid, tid: row + 1, args })
    }

    /// Names a group, or a track of it.
    fn heading(&mut self, kind: &'static str, group: TrackGroup, tid: usize, name: &str) -> io::Result<()> {
        let args = SliceArgs::from_iter([("name".to_owned(), Value::from(name))]);
        self.file.push(&TraceEvent { phase: "M", name: kind, ts: 0.0, pid: group as u32, tid, args: &args })
    }
}

/// The name of a thread, or its number.
fn name_of(thread: &Thread) -> String {
    thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned)
}
