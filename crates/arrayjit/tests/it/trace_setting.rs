//! The setting `trace`: a timeline of the process without a change to the program. The test has a
//! process of its own, which has one timeline.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, Settings, TensorNode};
use codegen_testkit::in_own_process;

use crate::trace::timeline::Timeline;

fn run_once(settings: &Settings, name: &str) {
    let y = TensorNode::builder(name).dims([4]).build().unwrap();
    let backend = Backend::open_with("inline", settings).unwrap();
    let text = format!("{name}[i] := i / 2.0");
    let routine = backend.compile(&text, [&y]).unwrap().link(&backend.context().unwrap()).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
}

#[test]
fn a_setting_writes_the_timeline_of_all_backends() {
    if !in_own_process("trace_setting::a_setting_writes_the_timeline_of_all_backends") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.debugging.trace = folder.path().join("trace.json").to_str().unwrap().to_owned();
    let compiled = |names: &[&str]| {
        let timeline = Timeline::read(settings.debugging.trace.as_ref());
        let thread = "host threads/trace_setting::a_setting_writes_the_timeline_of_all_backends";
        let paths = timeline.paths(thread);
        names.iter().all(|name| paths.iter().any(|path| *path == format!("compile {name}")))
    };
    run_once(&settings, "first");
    assert!(compiled(&["first"]), "written when the backend is gone");
    run_once(&settings, "second");
    assert!(compiled(&["first", "second"]), "and it goes on");

    // The process already writes a timeline, so another path has no effect.
    let mut elsewhere = settings.clone();
    elsewhere.debugging.trace = folder.path().join("other.json").to_str().unwrap().to_owned();
    run_once(&elsewhere, "third");
    assert!(!folder.path().join("other.json").exists());
}
