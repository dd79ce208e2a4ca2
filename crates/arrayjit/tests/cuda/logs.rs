//! The log of a routine on the GPU equals the interpreter's log. With a small buffer, it is the beginning of
//! that log.

use std::sync::{Arc, Mutex};

use arrayjit::{Backend, BackendParts, HostArray, LogSink, LogStyle, Logging, Settings, TensorNode};
use codegen_ptx::{PtxOptions, Target, ptx};

use crate::{gpu, or_skip};

/// Contains sums, functions, a reduction, and elements that are overwritten.
const PROGRAM: &str = "
    y[i] :+= w[i, j] * tanh(x[j])
    z[i] := exp(y[i]) / (1 + exp(y[i]))
    s :+= z[i]
    y[i] := y[i] - s / 4
";

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.debugging.logs = "arrayjit_logs".to_owned();
    settings
}

fn backend(name: &str) -> Backend {
    Backend::open_with(name, &settings()).unwrap()
}

/// Runs the program twice and returns its log; no part of it may run on another backend.
fn logged(backend: &Backend) -> String {
    let node =
        |name: &str, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).build().unwrap();
    let (w, x) = (node("w", &[3, 5]), node("x", &[5]));
    let (y, z, s) = (node("y", &[3]), node("z", &[3]), node("s", &[]));
    let code = backend.compile_named("program", PROGRAM, [&w, &x, &y, &z, &s]).unwrap();
    assert!(code.fallbacks().is_empty(), "{:?}", code.fallbacks());
    let numbers = |n: usize| (0..n).map(|i| (i * 7 % 11) as f32 / 8.0 - 0.6).collect::<Vec<_>>();
    let context = backend.context().unwrap();
    let context = context.init_from_host(&w, HostArray::from_slice(&numbers(15), [3, 5]).unwrap()).unwrap();
    let context = context.init_from_host(&x, HostArray::from_slice(&numbers(5), [5]).unwrap()).unwrap();
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    let sink: Arc<dyn LogSink> = Arc::new(move |lines: &str| into.lock().unwrap().push_str(lines));
    let routine = code.link_logging(&context, Logging { sink, style: LogStyle::Exact }).unwrap();
    drop(routine.run(&[]).unwrap());
    routine.run(&[]).unwrap().sync().unwrap();
    text.lock().unwrap().clone()
}

#[test]
fn routines_log_what_they_log_on_the_interpreter() {
    if gpu("routines_log_what_they_log_on_the_interpreter").is_none() {
        return;
    }
    let [found, expected] = ["cuda", "interpreter"].map(|name| logged(&backend(name)));
    assert!(expected.lines().count() > 100);
    assert_eq!(found, expected);
}

#[test]
fn a_small_buffer_has_the_beginning_of_the_log() {
    let opened = Backend::open_with("cuda", &settings());
    let Some(cuda) = or_skip("a_small_buffer_has_the_beginning_of_the_log", opened) else { return };
    let small = ptx(Target::Sm70, PtxOptions { log_bytes: 1000, ..PtxOptions::default() });
    let parts = BackendParts::new(Arc::new(small), cuda.device().clone());
    let found = logged(&Backend::from_parts("cuda", parts, &settings()).unwrap());
    let whole = logged(&backend("interpreter"));
    let [first, second] = [0, 1].map(|run| found.split_inclusive("1000 bytes\n").nth(run).unwrap());
    let (kept, _) = first.split_once("DROPPED: ").unwrap();
    assert!(!kept.is_empty() && whole.starts_with(kept), "{found}");
    assert_eq!(first.lines().count(), second.lines().count());
}
