//! Timelines are read back from their files and compared with the program's tasks.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod program;
pub(crate) mod timeline;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    thread,
};

use arrayjit::trace::{KERNEL, TIMELINE, TraceFile};
use serde_json::Value;
use tempfile::TempDir;
use timeline::Timeline;
use tracing::{Dispatch, dispatcher, trace, trace_span};
use tracing_subscriber::{Registry, layer::SubscriberExt};

/// Creates a file in a folder of its own, and a subscriber that only threads with this dispatcher use.
fn begin() -> (TempDir, PathBuf, TraceFile, Dispatch) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let file = TraceFile::create(&path).unwrap();
    let dispatch = Dispatch::new(Registry::default().with(file.layer()));
    (folder, path, file, dispatch)
}

/// Sends the events that a driver sends for a task with kernels.
fn task(stream: &str, name: &str, kernels: &[&str]) {
    trace!(target: TIMELINE, stream, name, phase = "begin");
    for kernel in kernels {
        trace_span!(target: KERNEL, "kernel", stream, name = kernel).in_scope(|| {});
    }
    trace!(target: TIMELINE, stream, phase = "end");
}

#[test]
fn a_file_without_events_is_whole() {
    let (_folder, path, file, _) = begin();
    assert!(Timeline::read(&path).tracks.is_empty(), "from the beginning");
    file.finish().unwrap();
    assert!(Timeline::read(&path).tracks.is_empty());
}

#[test]
fn streams_have_tracks_whichever_thread_works_for_them() {
    let (_folder, path, file, dispatch) = begin();
    dispatcher::with_default(&dispatch, || task("cpu:0:0", "step", &["a", "b"]));
    let on_other_thread = || dispatcher::with_default(&dispatch, || task("cpu:0:1", "copy x", &[]));
    thread::scope(|scope| scope.spawn(on_other_thread).join().unwrap());
    dispatcher::with_default(&dispatch, || task("cpu:0:1", "step", &["a"]));
    file.finish().unwrap();

    let timeline = Timeline::read(&path);
    assert_eq!(timeline.tracks.len(), 2);
    assert_eq!(timeline.paths("streams/cpu:0:0"), ["step", "step/a", "step/b"]);
    assert_eq!(timeline.paths("streams/cpu:0:1"), ["copy x", "step", "step/a"]);
}

#[test]
fn host_spans_are_on_the_track_of_their_thread() {
    let (_folder, path, file, dispatch) = begin();
    let spans = || {
        let _launch = trace_span!("launch", routine = "step", bindings = ?[1, 2], size = 8u64).entered();
        trace_span!("wait", node = "x\"\n", is_short = true).in_scope(|| {});
    };
    let worker = thread::Builder::new().name("loader".to_owned());
    worker.spawn(move || dispatcher::with_default(&dispatch, spans)).unwrap().join().unwrap();
    file.finish().unwrap();

    let timeline = Timeline::read(&path);
    let slices = &timeline.tracks["host threads/loader"];
    assert_eq!(timeline.paths("host threads/loader"), ["launch step", "launch step/wait x\"\n"]);
    assert_eq!(slices[0].args, serde_json::json!({"routine": "step", "bindings": "[1, 2]", "size": 8}));
    assert_eq!(slices[1].args, serde_json::json!({"node": "x\"\n", "is_short": true}));
    assert!(slices[0].begin <= slices[1].begin && slices[1].end <= slices[0].end);
}

#[test]
fn a_timeline_that_ends_in_the_middle_is_whole() {
    let (_folder, path, file, dispatch) = begin();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _file = file;
        dispatcher::with_default(&dispatch, || {
            trace!(target: TIMELINE, stream = "s", phase = "end");
            trace!(target: TIMELINE, stream = "s", name = "step", phase = "begin");
            let _wait = trace_span!("wait").entered();
            panic!("in the middle");
        })
    }));
    assert!(panicked.is_err());
    // The file is finished, so this task is not recorded.
    dispatcher::with_default(&dispatch, || task("s", "late", &["k"]));
    assert_eq!(Timeline::read(&path).paths("streams/s"), ["step"]);
}

#[test]
fn what_is_written_is_whole_after_every_write() {
    let (_folder, path, file, dispatch) = begin();
    let mut counts = Vec::new();
    dispatcher::with_default(&dispatch, || {
        for _ in 0..6 {
            (0..500).for_each(|_| task("s", "step", &["a", "b"]));
            let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            counts.push(json["traceEvents"].as_array().unwrap().len());
        }
    });
    assert!(counts.is_sorted() && counts[0] > 0 && counts[0] < counts[5], "as things happen: {counts:?}");
    file.flush().unwrap();
    assert_eq!(Timeline::read(&path).paths("streams/s").len(), 9000);
}

/// A full disk is imitated by a child process whose files are limited to 100 KiB.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_what_had_room() {
    const FILE: &str = "TRACE_ON_A_FULL_DISK";
    if let Some(path) = std::env::var_os(FILE) {
        let file = TraceFile::create(path).unwrap();
        let dispatch = Dispatch::new(Registry::default().with(file.layer()));
        dispatcher::with_default(&dispatch, || (0..2000).for_each(|_| task("s", "step", &["a", "b"])));
        let message = file.finish().unwrap_err().to_string();
        assert!(message.contains("full.json"), "{message}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.json");
    // With the signal ignored, a write beyond the limit is an error, as on a full disk. The limit counts
    // blocks of 512 or 1024 bytes.
    let limited =
        "trap '' XFSZ; ulimit -f 200 && exec \"$0\" --exact trace::a_full_disk_leaves_what_had_room";
    let mut child = std::process::Command::new("sh");
    child.args(["-c", limited]).arg(std::env::current_exe().unwrap()).env(FILE, &path);
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let size = std::fs::metadata(&path).unwrap().len();
    assert!((64 << 10..=200 << 10).contains(&size), "{size}: a batch and not all");
    let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(json["traceEvents"].as_array().unwrap().len() > 100);
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = TraceFile::create(folder.path().join("none/trace.json")).unwrap_err().to_string();
    assert!(message.contains("none/trace.json"), "{message}");
}
