//! Failures on either side: a typed error, no stale values, and the next run works.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use arrayjit::settings::FallbackSetting;
use arrayjit::{
    Backend, CompileError, FallbackCount, LogSink, LogStyle, Logging, Routine, RunError, Settings, TensorNode,
};

use super::placed;
use super::rejecting::{array, context, kept, rejecting, settings, values, with_text};

/// The backend computes `y` and `v`, the fallback `z`; `w` is updated in place.
const TEXT: &str = "y[i] := x[i] + 1\nz[i] := sqrt(y[7 - i])\nv[i] := z[7 - i] + y[i]\nw[i] += v[7 - i]";

struct FailingProgram {
    nodes: [TensorNode; 5],
    routine: Routine,
    /// While set, the next logged line that begins with the given text panics.
    fails: Arc<AtomicBool>,
}

fn logging(folder: &std::path::Path) -> Settings {
    let mut settings = settings(FallbackSetting::Inline);
    settings.debugging.logs = folder.to_str().unwrap().to_owned();
    settings
}

/// Makes a routine that fails when it logs `line` while the flag is set.
fn program(backend: &Backend, line: &'static str) -> FailingProgram {
    let nodes = ["x", "y", "z", "v", "w"].map(|name| kept(name, &[8]));
    let code = backend.compile_named("step", TEXT, &nodes).unwrap();
    assert_eq!(code.codes().count(), if backend.name() == "partial" { 3 } else { 1 });
    let fails = Arc::new(AtomicBool::new(false));
    let sink: Arc<dyn LogSink> = {
        let fails = Arc::clone(&fails);
        Arc::new(move |lines: &str| {
            assert!(!(fails.load(Ordering::Relaxed) && lines.contains(line)), "the disk is full");
        })
    };
    let given: [(&TensorNode, &[f64]); 2] = [(&nodes[0], &[3.0; 8]), (&nodes[4], &[10.0; 8])];
    let routine =
        code.link_logging(&context(backend, &given), Logging { sink, style: LogStyle::Exact }).unwrap();
    FailingProgram { nodes, routine, fails }
}

impl FailingProgram {
    fn run(&self) -> Result<(), RunError> {
        self.routine.run(&[]).and_then(|event| event.sync())
    }

    fn value(&self, node: usize) -> Result<f64, RunError> {
        Ok(self.routine.context().to_host(&self.nodes[node])?.values()[0])
    }
}

#[test]
fn a_part_that_fails_takes_the_outputs_with_it() {
    let folder = tempfile::tempdir().unwrap();
    for own in ["inline", "multicore", "interpreter"] {
        // The first line belongs to the part on the fallback, the second to the last part on the backend.
        for line in ["# z[", "# v["] {
            let backend = rejecting(own, logging(folder.path()), with_text("sqrt"));
            let program = program(&backend, line);
            program.run().unwrap();
            assert_eq!((program.value(3).unwrap(), program.value(4).unwrap()), (6.0, 16.0));
            program.fails.store(true, Ordering::Relaxed);
            let error = program.run().unwrap_err();
            let failure = error.failure().unwrap_or_else(|| panic!("{own}, {line}: {error:?}"));
            assert!(failure.message().contains("the disk is full"), "{error}");
            for output in 1..5 {
                let error = program.value(output).unwrap_err();
                assert!(error.failure().is_some(), "{own}, {line}: node {output} has {error:?}");
            }
            // `w` is read, so it needs a value first.
            program.fails.store(false, Ordering::Relaxed);
            program.routine.context().stream().reset().unwrap();
            assert_eq!(program.value(0).unwrap(), 3.0, "an input keeps its value");
            let error = program.run().unwrap_err();
            assert!(
                matches!(&error, RunError::Poisoned { node, .. } if node == "w"),
                "{own}, {line}: {error:?}"
            );
            let w = &program.nodes[4];
            program.routine.context().from_host(w, array(w, &[1.0; 8])).unwrap().sync().unwrap();
            program.run().unwrap();
            assert_eq!((program.value(3).unwrap(), program.value(4).unwrap()), (6.0, 7.0), "{own}, {line}");
        }
    }
}

#[test]
fn logs_of_divided_routines_are_those_of_undivided_ones() {
    let folder = tempfile::tempdir().unwrap();
    // The statement that falls back does not depend on earlier statements; it waits only because the log has
    // an order.
    let text = "y[i] := x[i] + 1\nz[i] := sqrt(i)\nv[i] := z[2999 - i] + y[i]";
    let partial = rejecting("multicore", logging(folder.path()), with_text("sqrt"));
    let whole = Backend::open_with("multicore", &logging(folder.path())).unwrap();
    let [found, expected] = [&partial, &whole].map(|backend| {
        let log = Arc::new(std::sync::Mutex::new(String::new()));
        let sink: Arc<dyn LogSink> = {
            let log = Arc::clone(&log);
            Arc::new(move |lines: &str| log.lock().unwrap().push_str(lines))
        };
        let nodes = ["x", "y", "z", "v"].map(|name| kept(name, &[3000]));
        let code = backend.compile_named("step", text, &nodes).unwrap();
        let given: [(&TensorNode, &[f64]); 1] = [(&nodes[0], &[3.0; 3000])];
        let routine =
            code.link_logging(&context(backend, &given), Logging { sink, style: LogStyle::Exact }).unwrap();
        for _ in 0..2 {
            routine.run(&[]).unwrap().sync().unwrap();
        }
        log.lock().unwrap().clone()
    });
    assert!(found.contains("z[0] = ") && found.contains("v[0] = "), "{found}");
    assert_eq!(found, expected);
}

#[test]
fn inputs_without_value_stop_a_run_before_it_begins() {
    let backend = rejecting("inline", settings(FallbackSetting::Inline), with_text("sqrt"));
    let [x, late, y, z] = ["x", "late", "y", "z"].map(|name| kept(name, &[4]));
    let text = "y[i] := x[i] + 1\nz[i] := sqrt(y[3 - i]) + late[i]";
    let code = backend.compile(text, [&x, &late, &y, &z]).unwrap();
    let given: [(&TensorNode, &[f64]); 2] = [(&x, &[3.0; 4]), (&late, &[1.0; 4])];
    let routine = code.link(&context(&backend, &given)).unwrap();
    routine.run(&[]).unwrap();
    let failure = {
        let stream = routine.context().stream().name();
        device_runtime::Failure::new(stream, "loader", "the file ended")
    };
    routine.context().poison(&late, &failure).unwrap();
    let _ = routine.context().from_host(&x, array(&x, &[8.0; 4])).unwrap();
    let error = routine.run(&[]).map(|_| ()).unwrap_err();
    assert!(matches!(&error, RunError::Poisoned { node, .. } if node == "late"), "{error:?}");
    assert_eq!(error.failure(), Some(&failure));
    assert_eq!(values(&routine, &y), [4.0; 4], "nothing has run");
    let _ = routine.context().from_host(&late, array(&late, &[0.0; 4])).unwrap();
    routine.run(&[]).unwrap();
    assert_eq!((values(&routine, &y), values(&routine, &z)), (vec![9.0; 4], vec![3.0; 4]));
}

#[test]
fn bindings_are_checked_before_anything_runs() {
    let backend = rejecting("inline", settings(FallbackSetting::Inline), with_text("sqrt"));
    let [x, y] = ["x", "y"].map(|name| kept(name, &[4]));
    let code = backend.compile_named("pick", "y[i] := sqrt(x[@k]) + i where i < 4", [&x, &y]).unwrap();
    let routine = code.link(&context(&backend, &[(&x, &[1.0, 4.0, 9.0, 16.0])])).unwrap();
    assert_eq!(routine.bindings().len(), 1);
    assert_eq!(routine.all_bindings().count(), 4);
    for wrong in [&[][..], &[4], &[-1], &[0, 0]] {
        let error = routine.run(wrong).map(|_| ()).unwrap_err();
        let is_it = matches!(&error, RunError::BindingCount { routine, .. } | RunError::BindingRange { routine, .. } if routine == "pick");
        assert!(is_it, "{error:?}");
    }
    assert_eq!(values(&routine, &y), [0.0; 4]);
    for (k, bindings) in routine.all_bindings().enumerate() {
        routine.run(&bindings).unwrap();
        assert_eq!(values(&routine, &y)[0], k as f64 + 1.0);
    }
}

#[test]
fn what_the_fallback_rejects_too_is_an_error() {
    let roots = || rejecting("interpreter", settings(FallbackSetting::Auto), with_text("sqrt"));
    let backend = roots().falling_back_to(&roots());
    let nodes = ["x", "y", "z", "v", "w"].map(|name| kept(name, &[8]));
    let modes: Vec<_> = nodes.iter().map(|node| node.mode()).collect();
    let error = backend.compile_named("step", TEXT, &nodes).map(|_| ()).unwrap_err();
    let (_, rejected) = placed(&error);
    let CompileError::FallbackRejected { routine, what, to, source } = rejected else { panic!("{error:?}") };
    assert_eq!(
        (routine.as_str(), what.as_str(), to.as_str()),
        ("step", "`sqrt`: the test says so", "partial")
    );
    assert!(matches!(**source, CompileError::Codegen(_)), "{source:?}");
    for part in ["`step`", "`sqrt`", "`partial`"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(nodes.iter().map(|node| node.mode()).eq(modes), "a rejection decides nothing");
    assert_eq!(backend.fallback_count(), FallbackCount::default());
}
