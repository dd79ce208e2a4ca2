//! Linking divided routines: required nodes, allocated nodes, and use by several threads.

use arrayjit::settings::FallbackSetting;
use arrayjit::{Backend, BatchMember, RunError};

use super::rejecting::{array, context, kept, rejecting, settings, values, with_text};

fn backend() -> Backend {
    rejecting("multicore", settings(FallbackSetting::Multicore), with_text("sqrt"))
}

#[test]
fn what_is_read_first_must_be_there() {
    let backend = backend();
    let [x, y, z, v] = ["x", "y", "z", "v"].map(|name| kept(name, &[6]));
    let text = "y[i] := sqrt(x[i]) * 2\nz[i] := y[5 - i]\nv[i] := sqrt(z[i]) + y[5 - i]";
    let code = backend.compile_named("step", text, [&x, &y, &z, &v]).unwrap();
    let fallback = backend.fallback().unwrap().unwrap();
    let before = (backend.device().memory().live_bytes, fallback.device().memory().live_bytes);
    let empty = backend.context().unwrap();
    let error = code.link(&empty).map(|_| ()).unwrap_err();
    let is_it = matches!(&error, RunError::ContextLacksNode { routine, node, .. } if routine == "step" && node == "x");
    assert!(is_it, "{error:?}");
    let after = (backend.device().memory().live_bytes, fallback.device().memory().live_bytes);
    assert_eq!(before, after, "nothing stays allocated");

    let routine = code.link(&context(&backend, &[(&x, &[4.0; 6])])).unwrap();
    assert!([&x, &y, &z, &v].iter().all(|node| routine.context().contains(node)));
    assert_eq!(values(&routine, &v), [0.0; 6], "what a link allocates is zero");
    routine.run(&[]).unwrap();
    assert_eq!(values(&routine, &v), [6.0; 6]);
    drop((routine, code));
    let after = (backend.device().memory().live_bytes, fallback.device().memory().live_bytes);
    assert_eq!(before, after, "everything is freed");
}

#[test]
fn routines_share_contexts_with_others() {
    let backend = backend();
    let [x, y, z] = ["x", "y", "z"].map(|name| kept(name, &[6]));
    let root = backend.compile("y[i] := sqrt(x[i])", [&x, &y]).unwrap();
    let twice = backend.compile("x[i] := y[i] * y[i] * 2", [&x, &y]).unwrap();
    let last = backend.compile("z[i] := sqrt(y[i]) + x[5 - i]", [&x, &y, &z]).unwrap();
    let root = root.link(&context(&backend, &[(&x, &[2.0; 6])])).unwrap();
    let twice = twice.link(root.context()).unwrap();
    let last = last.link(twice.context()).unwrap();
    for _ in 0..7 {
        root.run(&[]).unwrap();
        twice.run(&[]).unwrap();
    }
    last.run(&[]).unwrap();
    // `x` is 2, 4, … 256 up to the rounding of the square roots.
    assert!((values(&last, &x)[0] - 256.0).abs() < 1e-3);
    assert!((values(&last, &z)[0] - (128f64.sqrt().sqrt() + 256.0)).abs() < 1e-3);
}

/// A routine depends on an earlier one even if both use a common node, such as `y`, on the fallback only.
#[test]
fn divided_routines_know_what_comes_before() {
    let backend = backend();
    let [x, y, z] = ["x", "y", "z"].map(|name| kept(name, &[6]));
    let linked = |name: &str, text: &str, nodes: [&arrayjit::TensorNode; 2], context: &arrayjit::Context| {
        backend.compile_named(name, text, nodes).unwrap().link(context).unwrap()
    };
    let root = linked("root", "y[i] := sqrt(x[i])", [&x, &y], &context(&backend, &[(&x, &[16.0; 6])]));
    let rest = linked("rest", "z[i] := sqrt(y[i]) + 1\nz[i] += 1", [&y, &z], root.context());
    let reset = linked("reset", "x[i] := z[i]", [&z, &x], rest.context());
    let behind = |routine: &arrayjit::Routine| {
        let one =
            |d: &arrayjit::Dependency| format!("{:?} of {} behind {}", d.hazard, d.node.name(), d.routine());
        routine.dependencies().iter().map(one).collect::<Vec<_>>()
    };
    assert!(root.whole().is_none() && rest.whole().is_none() && reset.whole().is_some());
    assert_eq!(behind(&root), [""; 0]);
    assert_eq!(behind(&rest), ["ReadAfterWrite of y behind root"]);
    assert_eq!(behind(&reset), ["ReadAfterWrite of z behind rest", "WriteAfterRead of x behind root"]);
    let tasks = [&root, &rest].map(|routine| routine.schedule(&[]).unwrap());
    assert!(root.schedule(&[1]).is_err(), "it has no symbols");
    assert_eq!([&root, &rest, &reset].map(arrayjit::Routine::can_run), [true, false, false]);
    tasks[0].run().unwrap();
    assert_eq!([&root, &rest, &reset].map(arrayjit::Routine::can_run), [true, true, false]);
    tasks[1].run().unwrap();
    assert!(reset.can_run());
    reset.run(&[]).unwrap();
    assert_eq!(values(&reset, &x), [4.0; 6]);
}

#[test]
fn one_code_in_several_contexts() {
    let backend = backend();
    let [x, y] = ["x", "y"].map(|name| kept(name, &[6]));
    let t = arrayjit::TensorNode::builder("t").dims([6]).build().unwrap();
    let text = "t[i] := sqrt(x[i])\ny[i] := t[5 - i] + t[i]";
    let code = backend.compile(text, [&x, &t, &y]).unwrap();
    let linked = [1.0, 4.0, 9.0].map(|x0| code.link(&context(&backend, &[(&x, &[x0; 6])])).unwrap());
    for _ in 0..3 {
        linked.iter().for_each(|routine| drop(routine.run(&[]).unwrap()));
    }
    for (routine, root) in linked.iter().zip([1.0, 2.0, 3.0]) {
        assert_eq!(values(routine, &y), [2.0 * root; 6]);
    }
}

/// Runs from several threads do not interleave: `y` counts them.
#[test]
fn runs_from_several_threads() {
    let backend = backend();
    let [x, y, z] = ["x", "y", "z"].map(|name| kept(name, &[64]));
    let text = "z[i] := y[63 - i] + 1\ny[i] := sqrt(z[63 - i] * z[63 - i]) + x[i]";
    let code = backend.compile(text, [&x, &y, &z]).unwrap();
    let given: [(_, &[f64]); 2] = [(&x, &[0.0; 64]), (&y, &[0.0; 64])];
    let first = code.link(&context(&backend, &given)).unwrap();
    let elsewhere = first.context().on_stream(&backend.new_stream().unwrap()).unwrap();
    let second = code.link(&elsewhere).unwrap();
    std::thread::scope(|scope| {
        for routine in [&first, &second, &first] {
            scope.spawn(move || (0..20).for_each(|_| drop(routine.run(&[]).unwrap())));
        }
    });
    assert_eq!(values(&first, &y), [60.0; 64]);
    assert_eq!(values(&second, &z), [60.0; 64]);
    let _ = first.context().from_host(&y, array(&y, &[5.0; 64])).unwrap();
    second.run(&[]).unwrap();
    assert_eq!(values(&first, &y), [6.0; 64]);
}

#[test]
fn batches_link_divided_routines_too() {
    let backend = rejecting("inline", settings(FallbackSetting::Interpreter), with_text("sqrt"));
    let [x, y, z] = ["x", "y", "z"].map(|name| kept(name, &[4]));
    let members = [
        BatchMember::text("y[i] := x[i] * 4", [&x, &y]),
        BatchMember::text("z[i] := sqrt(y[i])", [&y, &z]),
        BatchMember::text("y[i] := z[i] + 1", [&y, &z]),
    ];
    let batch = backend.compile_batch(&members, |_, at| at < 3).unwrap();
    let given = context(&backend, &[(&x, &[1., 4., 9., 16.])]);
    let (context, routines) = batch.link(&given).unwrap();
    for routine in routines.iter().flatten() {
        routine.run(&[]).unwrap();
    }
    assert_eq!(context.to_host(&y).unwrap().values(), [3., 5., 7., 9.]);
}
