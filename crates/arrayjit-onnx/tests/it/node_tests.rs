//! The node tests of the Python package `onnx`, which `data/onnx-node-tests.tar.xz` holds, and tests of
//! operators of `com.microsoft` and `ai.onnx.ml` with results of onnxruntime, in
//! `data/microsoft-operator-tests.tar.xz` and `data/ml-operator-tests.tar.xz`.
//!
//! `tests/suite/expected.txt` lists the tests that pass, `tests/suite/excluded.txt` has the tests out of
//! scope, and `docs/onnx-operators.md` counts both by operator; `BLESS=1` rewrites the list and the page.
//! `ONNX_BACKEND` names another backend than `inline`, and `ONNX_NODE_TESTS=TEXT` runs only the tests whose
//! names contain the text.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::Read,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

use arrayjit_onnx::{
    Backend, HostArray, Model, array_from_proto,
    proto::{ModelProto, TensorProto},
};
use lzma_rust2::XzReader;
use prost::Message;

/// The tests that are out of scope: patterns of names, and the reason of each.
const EXCLUDED: &str = include_str!("../suite/excluded.txt");

/// What the operators do where the standard is open or libraries differ, for the page.
const CHOICES: &str = include_str!("../suite/choices.md");

/// The files of a test by their paths below its folder.
type Files = BTreeMap<String, Vec<u8>>;

/// The outcome of a test in scope or, for others, the reason why they are out of scope.
struct NodeTest {
    operator: String,
    excluded: Option<&'static str>,
    outcome: Result<(), String>,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of all tests, by the tests' names.
fn unpacked() -> BTreeMap<String, Files> {
    let mut tests: BTreeMap<String, Files> = BTreeMap::new();
    for name in ["onnx-node-tests", "microsoft-operator-tests", "ml-operator-tests"] {
        let file = fs::File::open(repository().join(format!("data/{name}.tar.xz"))).expect("the archive");
        let mut archive = tar::Archive::new(XzReader::new(std::io::BufReader::new(file), false));
        for entry in archive.entries().expect("a tar archive") {
            let mut entry = entry.expect("a whole archive");
            let path = entry.path().expect("a path").to_string_lossy().into_owned();
            let (test, file) = path.split_once('/').expect("the file of a test");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("a whole file");
            tests.entry(test.to_owned()).or_default().insert(file.to_owned(), bytes);
        }
    }
    tests
}

/// Whether a name matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name.strip_prefix(front).is_some_and(|name| {
            (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| matches(rest, name)))
        }),
    }
}

fn excluded(name: &str) -> Option<&'static str> {
    let mut patterns = EXCLUDED.lines().filter_map(|line| line.split_once(' '));
    patterns.find(|(pattern, _)| matches(pattern, name)).map(|(_, reason)| reason.trim())
}

/// The operator that a test is about: that of its first node. The tests of an operator's definition by other
/// operators have the name of a test of the operator in front of `_expanded`.
fn operator(tests: &BTreeMap<String, Files>, name: &str) -> Option<String> {
    let model = tests.get(name.split("_expanded").next()?)?.get("model.onnx")?;
    let model = ModelProto::decode(model.as_slice()).ok()?;
    let graph = model.graph?;
    let node = graph.node.first()?;
    Some(if node.domain.is_empty() {
        node.op_type.clone()
    } else {
        format!("{}.{}", node.domain, node.op_type)
    })
}

/// The arrays `kind_0.pb`, `kind_1.pb` and so on of a data set.
fn arrays(files: &Files, set: usize, kind: &str) -> Result<Vec<HostArray>, String> {
    let file = |at: usize| files.get(&format!("test_data_set_{set}/{kind}_{at}.pb"));
    let array = |bytes: &Vec<u8>| {
        let tensor = TensorProto::decode(bytes.as_slice()).map_err(|error| error.to_string())?;
        array_from_proto(&tensor).map_err(|error| error.to_string())
    };
    (0..).map_while(file).map(array).collect()
}

/// Runs all data sets of a test. Integers may differ by `unit`.
fn run(files: &Files, backend: &Backend, unit: f64) -> Result<(), String> {
    if files.contains_key("skipped") {
        return Err("values that are no tensors".into());
    }
    let model = Model::from_bytes(files["model.onnx"].clone()).map_err(|error| error.to_string())?;
    let session = model.session(backend).map_err(|error| error.to_string())?;
    let infos = model.inputs();
    for set in 0.. {
        let [inputs, outputs] = [arrays(files, set, "input")?, arrays(files, set, "output")?];
        if outputs.is_empty() {
            return if set > 0 { Ok(()) } else { Err("no data".into()) };
        }
        let pairs: Vec<(&str, &HostArray)> =
            infos.iter().map(|info| info.name.as_str()).zip(&inputs).collect();
        let found = session.run(&pairs).map_err(|error| error.to_string())?;
        if found.len() < outputs.len() {
            return Err(format!("{} outputs, expected {}", found.len(), outputs.len()));
        }
        for (at, (found, expected)) in found.iter().zip(&outputs).enumerate() {
            compare(found, expected, unit).map_err(|error| format!("output {at}: {error}"))?;
        }
    }
    Ok(())
}

/// Compares floats within 1e-3 relative and 1e-5 absolute, narrow floats within two units of their last
/// place, and integers within `unit`.
fn compare(found: &HostArray, expected: &HostArray, unit: f64) -> Result<(), String> {
    if (found.dtype(), found.dims()) != (expected.dtype(), expected.dims()) {
        let form = |array: &HostArray| format!("{}{:?}", array.dtype(), array.dims());
        return Err(format!("{}, expected {}", form(found), form(expected)));
    }
    let relative = match found.dtype().significand_bits() {
        Some(bits @ ..=11) => 1e-3f64.max(2f64.powi(2 - bits as i32)),
        _ => 1e-3,
    };
    let is_close = |a: f64, b: f64| match found.dtype().is_float() {
        true => a == b || (a - b).abs() <= 1e-5 + relative * b.abs() || a.is_nan() && b.is_nan(),
        false => (a - b).abs() <= unit,
    };
    let differs = |&(_, (a, b)): &(usize, (f64, f64))| !is_close(a, b);
    match found.values().into_iter().zip(expected.values()).enumerate().find(differs) {
        Some((at, (a, b))) => Err(format!("element {at} is {a}, expected {b}")),
        None => Ok(()),
    }
}

/// Runs the tests whose names contain the text, on all cores.
fn outcomes(filter: &str) -> BTreeMap<String, NodeTest> {
    let tests = unpacked();
    let wanted = Mutex::new(tests.keys().filter(|name| name.contains(filter)));
    let done = Mutex::new(BTreeMap::new());
    let backend = env::var("ONNX_BACKEND").unwrap_or_else(|_| "inline".into());
    let work = || {
        let backend = Backend::open(&backend).unwrap_or_else(|error| panic!("{error}"));
        loop {
            let Some(name) = wanted.lock().expect("no test panics").next() else { break };
            // Where a number is halfway between two integers, onnxruntime's order of operations decides.
            let unit = if name.starts_with("microsoft_q") { 1.0 } else { 0.0 };
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&tests[name], &backend, unit)));
            let outcome = outcome.unwrap_or_else(|_| Err("a panic, whose message is above".into()));
            let operator = operator(&tests, name).unwrap_or_default();
            let test = NodeTest { operator, excluded: excluded(name), outcome };
            done.lock().expect("no test panics").insert(name.clone(), test);
        }
    };
    thread::scope(|scope| {
        (0..thread::available_parallelism().map_or(1, usize::from)).for_each(|_| drop(scope.spawn(work)));
    });
    done.into_inner().expect("no test panics")
}

/// The table of operators as a page in Markdown.
fn page(tests: &BTreeMap<String, NodeTest>) -> String {
    let mut operators: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = [0; 2];
    for test in tests.values() {
        match test.excluded {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => {
                let counts = operators.entry(&test.operator).or_default();
                for [passes, scope] in [counts, &mut all] {
                    *passes += usize::from(test.outcome.is_ok());
                    *scope += 1;
                }
            }
        }
    }
    let row = |(operator, [passes, scope]): (&&str, &[usize; 2])| {
        format!("| `{operator}` | {passes} | {scope} |\n")
    };
    let rows: String = operators.iter().map(row).collect();
    let excluded: String =
        reasons.iter().map(|(reason, count)| format!("| {reason} | {count} |\n")).collect();
    let [passes, scope] = all;
    let percent = 100.0 * passes as f64 / scope.max(1) as f64;
    format!(
        "# Operators of ONNX\n\nWritten by the test `the_node_tests_of_the_list_pass`: the node tests of the \
         Python package `onnx`\n1.23.2, and tests of operators of `com.microsoft` and `ai.onnx.ml` with results of \
         onnxruntime 1.32,\nby operator.\n\n{passes} of {scope} tests in scope pass ({percent:.1} \
         %); {} are out of scope.\n\n| operator | tests that pass | tests in scope |\n|---|--:|--:|\n{rows}\n## \
         Out of scope\n\n| reason | tests |\n|---|--:|\n{excluded}\n{CHOICES}",
        tests.len() - scope
    )
}

/// Compares a file with its text, or writes the text.
fn golden(path: &Path, text: &str) {
    if env::var_os("BLESS").is_some() {
        return fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let found = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(found == text, "{} is not what the tests show; `BLESS=1` rewrites it", path.display());
}

#[test]
fn the_node_tests_of_the_list_pass() {
    let filter = env::var("ONNX_NODE_TESTS").unwrap_or_default();
    let tests = outcomes(&filter);
    let failures: Vec<String> = tests
        .iter()
        .filter(|(_, test)| test.excluded.is_none())
        .filter_map(|(name, test)| Some(format!("{name}: {}", test.outcome.as_ref().err()?)))
        .collect();
    // A few random numbers may be the expected ones by chance.
    let is_random = |reason: &str| reason.starts_with("random numbers");
    let passes: BTreeSet<&String> = tests
        .iter()
        .filter(|(_, test)| test.outcome.is_ok() && !test.excluded.is_some_and(is_random))
        .map(|(name, _)| name)
        .collect();
    for name in &passes {
        assert!(
            tests[*name].excluded.is_none(),
            "{name} passes, but excluded.txt says that it is out of scope"
        );
    }
    if !filter.is_empty() {
        assert!(failures.is_empty() && !passes.is_empty(), "{}", failures.join("\n"));
        return;
    }
    let list: String = passes.iter().map(|name| format!("{name}\n")).collect();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/expected.txt");
    let expected = fs::read_to_string(&suite).expect("the list");
    let lost: Vec<&String> = failures
        .iter()
        .filter(|failure| expected.lines().any(|name| failure.starts_with(&format!("{name}: "))))
        .collect();
    assert!(lost.is_empty() || env::var_os("BLESS").is_some(), "tests of the list do not pass: {lost:#?}");
    golden(&suite, &list);
    golden(&repository().join("docs/onnx-operators.md"), &page(&tests));
}
