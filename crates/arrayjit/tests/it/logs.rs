//! Logs of values: the same text from every backend, in a file for each routine or passed to the program.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrayjit::{
    Backend, DType, HostArray, LogSink, LogStyle, Logging, MemoryMode, Reason, Settings, TensorNode,
};

const BACKENDS: [&str; 3] = ["interpreter", "inline", "multicore"];

/// The expression `l = (a·b + c)·f` at `a = 2`, `b = −3`, `c = 10`, `f = −2`, where it is −8, and its
/// derivatives: with `d = a·b + c = 4`, `dl/df = d = 4`, `dl/dc = f = −2`, `dl/da = b·f = 6`, `dl/db = a·f =
/// −4`.
const EXPRESSION: &str = "
    d := a * b + c
    l := d * f
    gf := d
    gc := f
    ga := b * gc
    gb := 0
    gb += a * gc
";

fn logging(folder: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.debugging.logs = folder.to_str().unwrap().to_owned();
    settings
}

fn node(name: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype).build().unwrap();
    node.update_memory_mode(MemoryMode::Materialized, Reason::new("the test reads it")).unwrap();
    node
}

fn array(node: &TensorNode, values: &[f64]) -> HostArray {
    let mut array = HostArray::zeros(node.dtype(), node.dims().unwrap()).unwrap();
    let size = node.dtype().size_bytes();
    for (at, value) in values.iter().enumerate() {
        arrayjit::Scalar::from_f64(node.dtype(), *value).write(&mut array.bytes_mut()[at * size..]).unwrap();
    }
    array
}

/// Compiles and links a text as the routine `name`, and runs it `runs` times.
fn run(
    backend: &Backend,
    name: &str,
    text: &str,
    given: &[(&TensorNode, &[f64])],
    kept: &[&TensorNode],
    runs: usize,
) {
    let nodes = given.iter().map(|(node, _)| *node).chain(kept.iter().copied());
    let code = backend.compile_named(name, text, nodes).unwrap();
    let mut context = backend.context().unwrap();
    for (node, values) in given {
        context = context.init_from_host(node, array(node, values)).unwrap();
    }
    let routine = code.link(&context).unwrap();
    for _ in 0..runs {
        routine.run(&[]).unwrap().sync().unwrap();
    }
}

fn expression(backend: &Backend) {
    let scalar = |name: &str| node(name, DType::F32, &[]);
    let [a, b, c, f] = ["a", "b", "c", "f"].map(scalar);
    let [l, ga, gb, gc, gf] = ["l", "ga", "gb", "gc", "gf"].map(scalar);
    let d = TensorNode::builder("d").dims([]).dtype(DType::F32).build().unwrap();
    let given: [(&TensorNode, &[f64]); 4] = [(&a, &[2.0]), (&b, &[-3.0]), (&c, &[10.0]), (&f, &[-2.0])];
    run(backend, "expression", EXPRESSION, &given, &[&l, &ga, &gb, &gc, &gf, &d], 1);
}

#[test]
fn an_expression_and_its_derivatives() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs/expression.values.log");
    for name in BACKENDS {
        let folder = tempfile::tempdir().unwrap();
        expression(&Backend::open_with(name, &logging(folder.path())).unwrap());
        let log = fs::read_to_string(folder.path().join("expression.values.log")).unwrap();
        if std::env::var_os("BLESS").is_some() {
            fs::write(&golden, &log).unwrap();
        }
        assert_eq!(log, fs::read_to_string(&golden).unwrap(), "{name}");
        for line in ["l[] = -8.0", "ga[] = 6.0", "gc[] = -2.0", "gf[] = 4.0", "gb[]{=0.0} = -4.0"] {
            assert!(log.contains(line), "{line} is not in\n{log}");
        }
    }
}

#[test]
fn every_routine_has_its_file_and_every_run_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Backend::open_with("multicore", &logging(folder.path())).unwrap();
    let (x, y, z) = (node("x", DType::F32, &[2]), node("y", DType::F32, &[2]), node("z", DType::F32, &[2]));
    let given: [(&TensorNode, &[f64]); 1] = [(&x, &[1.0, 1.0 / 3.0])];
    run(&backend, "double", "y[i] := 2 * x[i]", &given, &[&y], 2);
    run(&backend, "triple", "z[i] := 3 * x[i]", &given, &[&z], 1);
    run(&backend, "double", "z[i] := 2 * x[i]", &given, &[&z], 1);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let starts = |text: &str| text.lines().filter(|line| *line == "index i0 = 0").count();
    assert_eq!(starts(&read("double.values.log")), 2);
    assert_eq!(starts(&read("triple.values.log")), 1);
    // The second routine differs only in the name of a node, so it has its own code with its own log text.
    assert!(read("double-2.values.log").contains("z[0] = 2.0 = "), "{}", read("double-2.values.log"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn logs_can_be_rounded_and_given_to_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let backend = Backend::open_with("inline", &logging(folder.path())).unwrap();
    let (x, y) = (node("x", DType::F32, &[1]), node("y", DType::F32, &[1]));
    let code = backend.compile("y[i] := x[i] / 3", [&x, &y]).unwrap();
    let context = backend.context().unwrap().init_from_host(&x, array(&x, &[1.0])).unwrap();
    let log = Arc::new(Mutex::new(String::new()));
    let sink: Arc<dyn LogSink> = {
        let log = Arc::clone(&log);
        Arc::new(move |lines: &str| log.lock().unwrap().push_str(lines))
    };
    let routine = code.link_logging(&context, Logging { sink, style: LogStyle::Rounded }).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    let log = log.lock().unwrap();
    assert!(log.contains("y[0] = 33333e-5 = x[0]{=1}"), "{log}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing goes to a file");
}

#[test]
fn nothing_is_logged_unless_it_is_asked_for() {
    let backend = Backend::open_with("inline", &Settings::default()).unwrap();
    let (x, y) = (node("x", DType::F32, &[2]), node("y", DType::F32, &[2]));
    let code = backend.compile("y[i] := x[i] + 1", [&x, &y]).unwrap();
    assert!(code.codes().flat_map(|code| code.artifact().kernels()).all(|kernel| kernel.log.is_empty()));
    let context = backend.context().unwrap().init_from_host(&x, array(&x, &[1.0, 2.0])).unwrap();
    let sink = Arc::new(|lines: &str| panic!("logged {lines}"));
    let routine = code.link_logging(&context, Logging { sink, style: LogStyle::Exact }).unwrap();
    routine.run(&[]).unwrap().sync().unwrap();
    assert_eq!(routine.context().to_host(&y).unwrap().values(), [2.0, 3.0]);
}

#[test]
fn a_sink_that_panics_fails_its_run_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for name in BACKENDS {
        let backend = Backend::open_with(name, &logging(folder.path())).unwrap();
        // The log is so long that the sink gets a part of it before the run ends.
        let (x, y) = (node("x", DType::F32, &[2000]), node("y", DType::F32, &[2000]));
        let code = backend.compile("y[i] := 2 * x[i]", [&x, &y]).unwrap();
        let context = backend.context().unwrap().init_from_host(&x, array(&x, &[1.0])).unwrap();
        let sink: Arc<dyn LogSink> = Arc::new(|_: &str| panic!("the disk is full"));
        let routine = code.link_logging(&context, Logging { sink, style: LogStyle::Exact }).unwrap();
        let error = routine.run(&[]).and_then(|event| event.sync()).unwrap_err();
        assert!(error.to_string().contains("the disk is full"), "{name}: {error}");
        let (other, z) = (node("other", DType::F32, &[1]), node("z", DType::F32, &[1]));
        run(&Backend::open(name).unwrap(), "after", "z[i] := other[i]", &[(&other, &[1.0])], &[&z], 1);
    }
}
