//! The log of a routine on the GPU equals the interpreter's log. With a small buffer, it is the beginning of
//! that log.

use std::sync::{Arc, Mutex};

use arrayjit::{Backend, HostArray, LogSink, Settings, TensorNode};

use crate::{gpu, or_skip};

/// Contains sums, functions, a reduction, and elements that are overwritten.
const PROGRAM: &str = "
    y[i] :+= w[i, j] * tanh(x[j])
    z[i] := exp(y[i]) / (1 + exp(y[i]))
    s :+= z[i]
    y[i] := y[i] - s / 4
";

fn backend(name: &str, change: impl FnOnce(&mut Settings)) -> Result<Backend, arrayjit::OpenError> {
    let mut settings = Settings::default();
    settings.logging.values = true;
    change(&mut settings);
    Backend::open_with(name, settings)
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
    let context = context.init_from_host(&w, &HostArray::from_slice(&numbers(15), [3, 5]).unwrap()).unwrap();
    let context = context.init_from_host(&x, &HostArray::from_slice(&numbers(5), [5]).unwrap()).unwrap();
    let text = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&text);
    let sink: Arc<dyn LogSink> = Arc::new(move |lines: &str| into.lock().unwrap().push_str(lines));
    let routine = code.link_logging(&context, sink).unwrap();
    drop(routine.run(&[]).unwrap());
    routine.run(&[]).unwrap().sync().unwrap();
    text.lock().unwrap().clone()
}

#[test]
fn routines_log_what_they_log_on_the_interpreter() {
    if gpu("routines_log_what_they_log_on_the_interpreter").is_none() {
        return;
    }
    let [found, expected] = ["cuda", "interpreter"].map(|name| logged(&backend(name, |_| {}).unwrap()));
    assert!(expected.lines().count() > 100);
    assert_eq!(found, expected);
}

#[test]
fn a_small_buffer_has_the_beginning_of_the_log() {
    let opened = backend("cuda", |settings| settings.logging.buffer_bytes = 1000);
    let Some(backend) = or_skip("a_small_buffer_has_the_beginning_of_the_log", opened) else { return };
    let found = logged(&backend);
    let whole = logged(&self::backend("interpreter", |_| {}).unwrap());
    let [first, second] = [0, 1].map(|run| found.split_inclusive("1000 bytes\n").nth(run).unwrap());
    let (kept, _) = first.split_once("DROPPED: ").unwrap();
    assert!(!kept.is_empty() && whole.starts_with(kept), "{found}");
    assert_eq!(first.lines().count(), second.lines().count());
}
