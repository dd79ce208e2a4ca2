//! The timeline of a program on two streams.

use std::sync::Arc;

use arrayjit::{Backend, HostArray, MergeBufferUse, Settings, TensorNode, trace::TraceFile};

use codegen_testkit::in_own_process;

use super::timeline::{Slice, Timeline};

/// Computes `y` on one stream, and its sum with a copy of itself on another.
fn run() {
    let x = TensorNode::builder("x").dims([4]).build().unwrap();
    let y = TensorNode::builder("y").dims([4]).build().unwrap();
    let z = TensorNode::builder("z").dims([4]).build().unwrap();
    let backend = Backend::open_with("multicore", &Settings::default()).unwrap();
    let produce = backend.compile_named("produce", "y[i] := x[i] * 2", [&x, &y]).unwrap();
    let consume = backend.compile_named("consume", "z[i] := y.merge[i] + x[i]", [&x, &y, &z]).unwrap();
    let values = Arc::new(HostArray::from_slice(&[1f32, 2., 3., 4.], [4]).unwrap());
    let first = backend.context().unwrap().init_from_host(&x, Arc::clone(&values)).unwrap();
    let produce = produce.link(&first).unwrap();
    let consume = consume.link(&backend.context().unwrap()).unwrap();
    let consumer = consume.context();
    for _ in 0..3 {
        produce.run(&[]).unwrap();
        let _ = consumer.device_to_device(&y, MergeBufferUse::Copy, produce.context()).unwrap();
        consume.run(&[]).unwrap();
    }
    assert_eq!(consumer.to_host(&z).unwrap().values(), [3.0, 6.0, 9.0, 12.0]);
}

fn named<'t>(timeline: &'t Timeline, track: &str, name: &str) -> Vec<&'t Slice> {
    timeline.tracks[track].iter().filter(|slice| slice.path.rsplit('/').next() == Some(name)).collect()
}

#[test]
fn a_program_on_two_streams_has_two_tracks_of_tasks_and_one_of_the_host() {
    // The subscriber of the whole process gets what it shows, so no other test may run beside.
    const NAME: &str = "trace::program::a_program_on_two_streams_has_two_tracks_of_tasks_and_one_of_the_host";
    if !in_own_process(NAME) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let file = TraceFile::create(&path).unwrap();
    file.install().unwrap();
    run();
    file.finish().unwrap();
    let timeline = Timeline::read(&path);

    let (first, second) = ("streams/multicore:0:0", "streams/multicore:0:1");
    let kernel = |task: &str, name: &str| format!("{task}/{name}");
    let produced = named(&timeline, first, "produce_k0");
    let consumed = named(&timeline, second, "consume_k0");
    assert_eq!((produced.len(), consumed.len()), (3, 3), "{timeline:#?}");
    assert!(produced.iter().all(|slice| slice.path == kernel("running `produce`", "produce_k0")));
    assert!(consumed.iter().all(|slice| slice.path == kernel("running `consume`", "consume_k0")));
    // Slices that an event orders are in that order in the file, whichever threads they ran on.
    for (produced, consumed) in produced.iter().zip(&consumed) {
        assert!(produced.end <= consumed.begin, "{produced:?} is before {consumed:?}");
    }
    assert!(timeline.paths(second).iter().any(|path| path.contains("node `y`")), "the copy for the merge");

    let host = timeline.tracks.keys().find(|name| name.contains("a_program_on_two_streams")).unwrap();
    let host = host.clone();
    for name in ["compile produce", "compile consume", "link produce", "link consume", "copy x", "copy y"] {
        assert!(!named(&timeline, &host, name).is_empty(), "`{name}` in {:?}", timeline.paths(&host));
    }
    assert_eq!(named(&timeline, &host, "launch produce").len(), 3);
    assert_eq!(named(&timeline, &host, "launch produce")[0].args["stream"], "multicore:0:0");
    assert!(!named(&timeline, &host, "wait").is_empty());
}
