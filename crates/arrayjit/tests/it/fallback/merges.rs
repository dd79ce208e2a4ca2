//! Merge buffers: merged values reach statements that fall back, or the routine is rejected.

use arrayjit::settings::FallbackSetting;
use arrayjit::{Backend, CompileError, MergeBufferUse, TensorNode};

use super::rejecting::{context, kept, rejecting, settings, values, with_text};

const TEXT: &str =
    "g[i,j] += g.merge[i,j]\nr[j,i] := sqrt(g.merge[i,j] + 0 * g[i,j])\ns[i] :+= r[j,i] + g.merge[i,j]";

/// Runs the text twice with merges of different values, and returns the results of each run.
fn run(backend: &Backend, [g, r, s]: &[TensorNode; 3], falls_back: bool) -> Vec<Vec<f64>> {
    let code = backend.compile_named("merge", TEXT, [g, r, s]).unwrap();
    assert_eq!(!code.fallbacks().is_empty(), falls_back, "{:?}", code.fallbacks());
    let routine = code.link(&context(backend, &[(g, &[1., 2., 3., 4., 5., 6.])])).unwrap();
    assert_eq!(routine.merge_buffer_input(), Some(g));
    assert!(routine.run(&[]).is_err(), "nothing is in the merge buffer yet");
    let mut found = Vec::new();
    for merged in [[4., 9., 16., 25., 36., 49.], [1., 0., 1., 4., 0., 81.]] {
        let source = context(backend, &[(g, &merged)]);
        let _ = routine.context().device_to_device(g, MergeBufferUse::Copy, &source).unwrap();
        routine.run(&[]).unwrap();
        found.extend([g, r, s].map(|node| values(&routine, node)));
    }
    found
}

fn nodes() -> [TensorNode; 3] {
    [kept("g", &[2, 3]), kept("r", &[3, 2]), kept("s", &[2])]
}

#[test]
fn statements_that_fall_back_see_what_was_merged() {
    let whole = run(&rejecting("inline", settings(FallbackSetting::None), |_| None), &nodes(), false);
    assert_eq!(whole[0], [5., 11., 19., 29., 41., 55.]);
    assert_eq!(whole[1], [2., 5., 3., 6., 4., 7.]);
    for own in ["inline", "multicore"] {
        let backend = rejecting(own, settings(FallbackSetting::Interpreter), with_text("sqrt"));
        assert_eq!(run(&backend, &nodes(), true), whole, "{own}");
    }
}

#[test]
fn a_merge_buffer_that_the_backend_does_not_read_is_rejected() {
    let backend = rejecting("inline", settings(FallbackSetting::Interpreter), with_text("merge %"));
    let nodes = nodes();
    let modes = nodes.each_ref().map(TensorNode::mode);
    let error = backend.compile_named("merge", TEXT, &nodes).unwrap_err();
    let CompileError::FallbackMerge { routine, node, backend, what } = &error else { panic!("{error}") };
    assert_eq!((routine.as_str(), node.as_str(), backend.as_str()), ("merge", "g", "partial"));
    assert_eq!(what, "`merge %`: the test says so");
    assert_eq!(nodes.each_ref().map(TensorNode::mode), modes);
}
