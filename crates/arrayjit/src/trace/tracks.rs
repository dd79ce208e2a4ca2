//! The tracks of a timeline, and what is open on each.
//!
//! Slices of a track nest: what begins last ends first. An end without a beginning is dropped, and what is open at the end is
//! closed, so a file is well-formed whenever writing began and ended. Events are in the order of their times.

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

/// What is told of a slice besides its name.
pub(super) type Args = Map<String, Value>;

/// Where something is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Track<'a> {
    /// The track of a stream, by its name.
    Stream(&'a str),
    /// The track of the thread that calls.
    ThisThread,
}

/// Tracks are drawn in groups, which the format calls processes.
#[derive(Clone, Copy, Debug)]
enum Group {
    Streams = 1,
    Threads = 2,
}

/// What is known of a track; its number in the file is its position, counted from 1.
#[derive(Clone, Copy, Debug)]
struct Row {
    group: Group,
    /// How many slices are open.
    open: usize,
}

/// An event of the trace-event format.
#[derive(Serialize)]
struct Event<'a> {
    #[serde(rename = "ph")]
    phase: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    /// Microseconds since the file was made.
    ts: f64,
    pid: u32,
    tid: usize,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: &'a Args,
}

/// All tracks, with the file they are written to.
#[derive(Debug)]
pub(super) struct Tracks {
    file: EventFile,
    start: Instant,
    rows: Vec<Row>,
    streams: BTreeMap<String, usize>,
    threads: HashMap<ThreadId, usize>,
}

impl Tracks {
    /// A new file with a heading for each group.
    pub(super) fn create(path: &Path) -> io::Result<Tracks> {
        let file = EventFile::create(path)?;
        let (rows, streams, threads) = Default::default();
        let mut tracks = Tracks { file, start: Instant::now(), rows, streams, threads };
        tracks.heading("process_name", Group::Streams, 0, "streams")?;
        tracks.heading("process_name", Group::Threads, 0, "host threads")?;
        Ok(tracks)
    }

    /// Opens a slice now.
    pub(super) fn begin(&mut self, track: Track<'_>, name: &str, args: &Args) -> io::Result<()> {
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
        self.push(row, "E", "", &Args::new())
    }

    /// Closes all slices.
    pub(super) fn end_all(&mut self) -> io::Result<()> {
        for row in 0..self.rows.len() {
            for _ in 0..std::mem::take(&mut self.rows[row].open) {
                self.push(row, "E", "", &Args::new())?;
            }
        }
        Ok(())
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// The row of a track. When it is first seen it is made, and named in the file.
    fn row(&mut self, track: Track<'_>) -> io::Result<usize> {
        let next = self.rows.len();
        match track {
            Track::Stream(name) => {
                if let Some(&row) = self.streams.get(name) {
                    return Ok(row);
                }
                self.streams.insert(name.to_owned(), next);
                self.add_row(Group::Streams, name)?;
            }
            Track::ThisThread => {
                let thread = thread::current();
                if let Some(&row) = self.threads.get(&thread.id()) {
                    return Ok(row);
                }
                self.threads.insert(thread.id(), next);
                self.add_row(Group::Threads, &name_of(&thread))?;
            }
        }
        Ok(next)
    }

    fn add_row(&mut self, group: Group, name: &str) -> io::Result<()> {
        self.rows.push(Row { group, open: 0 });
        self.heading("thread_name", group, self.rows.len(), name)
    }

    fn push(&mut self, row: usize, phase: &'static str, name: &str, args: &Args) -> io::Result<()> {
        let ts = self.start.elapsed().as_nanos() as f64 / 1e3;
        let pid = self.rows[row].group as u32;
        self.file.push(&Event { phase, name, ts, pid, tid: row + 1, args })
    }

    /// Names a group, or a track of it.
    fn heading(&mut self, kind: &'static str, group: Group, tid: usize, name: &str) -> io::Result<()> {
        let args = Args::from_iter([("name".to_owned(), Value::from(name))]);
        self.file.push(&Event { phase: "M", name: kind, ts: 0.0, pid: group as u32, tid, args: &args })
    }
}

/// What a thread is called, or its number.
fn name_of(thread: &Thread) -> String {
    thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned)
}
