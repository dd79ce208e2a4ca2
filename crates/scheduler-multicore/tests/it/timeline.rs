//! Marks and kernels reach the `tracing` subscriber in order, from the thread that runs them.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    fmt::Debug,
    slice::from_ref,
    sync::{Arc, Mutex},
};

use codegen_core::Access;
use codegen_testkit::in_own_process;
use device_runtime::{Driver, DriverError, Mark};
use scheduler_multicore::{Cpu, CpuConfig};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::support::*;

/// A subscriber that records one line per event or span.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

impl Listener {
    fn note(&self, what: &str, metadata: &Metadata<'_>, record: impl FnOnce(&mut dyn Visit)) {
        let mut line = Line(format!("{what} {}", metadata.target()));
        record(&mut line);
        assert!(!line.0.contains("no luck"), "this subscriber panics");
        self.0.lock().unwrap().push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["arrayjit::timeline", "arrayjit::kernel"].contains(&metadata.target())
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note("span", span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        self.note("event", event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {
        self.0.lock().unwrap().push("enter".to_owned());
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().push("exit".to_owned());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}
}

#[test]
fn marks_and_kernels_are_reported_in_order() {
    if !in_own_process("timeline::marks_and_kernels_are_reported_in_order") {
        return;
    }
    let listener = Listener::default();
    // The subscriber is set for every thread, since tasks run on the threads of their streams.
    tracing::subscriber::set_global_default(listener.clone()).unwrap();
    for driver in [
        Arc::new(Cpu::multicore(CpuConfig::default())) as Arc<dyn Driver>,
        Arc::new(Cpu::inline(CpuConfig::default())),
    ] {
        let stream = driver.new_stream("a stream").unwrap();
        assert!(driver.mark(&stream, Mark::Begin("outer".into())).unwrap());
        assert!(driver.mark(&stream, Mark::Begin("inner".into())).unwrap());
        assert!(driver.mark(&stream, Mark::End).unwrap());
        assert!(driver.mark(&stream, Mark::End).unwrap());
        driver.sync(&driver.record(&stream).unwrap()).unwrap();
        driver.drop_stream(stream);
        let expected =
            [("outer", "begin"), ("inner", "begin"), ("", "end"), ("", "end")].map(|(name, phase)| {
                format!("event arrayjit::timeline stream=\"a stream\" name={name:?} phase={phase:?}")
            });
        assert_eq!(std::mem::take(&mut *listener.0.lock().unwrap()), expected);
    }
    for device in [device(Cpu::multicore(CpuConfig::default())), device(Cpu::inline(CpuConfig::default()))] {
        let x = node("x", 1);
        let context = context(&device);
        let code = code("fill", &[(&x, Access::Write)], &[], |_, _| ());
        let routine = context.link(&code, from_ref(&x)).unwrap();
        listener.0.lock().unwrap().clear();
        routine.run(&[]).unwrap().sync().unwrap();
        let span = format!("span arrayjit::kernel stream={:?} name=\"fill\"", context.stream().name());
        let lines = std::mem::take(&mut *listener.0.lock().unwrap());
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with("event")).collect();
        assert_eq!(lines, [span.as_str(), "enter", "exit"]);
        // A subscriber that panics fails the stream, since its code is the user's.
        let driver = device.driver();
        let stream = driver.new_stream("a stream").unwrap();
        driver.mark(&stream, Mark::Begin("no luck".into())).unwrap();
        assert!(matches!(driver.sync(&driver.record(&stream).unwrap()), Err(DriverError::Failed(_))));
        driver.drop_stream(stream);
    }
}
