//! The command compiles an ONNX model, and the example is a small program that computes the bits of a
//! session.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use arrayjit::{Backend, HostArray};
use arrayjit_onnx::{DType, Dim, Model};
use prost::Message;
use tempfile::TempDir;

use crate::onnx::{classifier_graph, numbers};
use crate::onnx_builder::model;

/// The sizes of dimensions of the models, beside the sizes that models have.
const BATCH: &str = "batch=1";

/// The most bytes of a program beside its constants.
const MOST_BYTES: u64 = 1_000_000;

/// The most microseconds from the start of `main` to the run of the network.
const MOST_MICROSECONDS: u64 = 1_000;

/// Writes the files of a model into a folder by the command, whose output is returned.
fn compiled(file: &Path, folder: &Path, more: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_arrayjit-aot"))
        .args([file, Path::new("--output"), folder, Path::new("--name"), Path::new("model")])
        .args(more)
        .output()
        .expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Builds the example with the files of a folder. `name` is that of the folder of the build.
fn built(folder: &Path, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let build = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--manifest-path"])
        .arg(root.join("examples/aot/Cargo.toml"))
        .env("MODEL_FOLDER", folder)
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .expect("cargo runs");
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    target.join("release/aot")
}

/// The bytes that the program writes for this input on threads, and its messages.
fn output_of(program: &Path, threads: &str, input: &[u8]) -> Result<(Vec<u8>, String), String> {
    let mut child = Command::new(program)
        .arg(threads)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that rejects its arguments ends without reading.
    let _written = child.stdin.take().expect("a pipe").write_all(input);
    let output = child.wait_with_output().expect("the program ends");
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok((output.stdout, messages)) } else { Err(messages) }
}

/// The input of a model, with numbers that name no pattern, and the bytes of the output of a session.
fn run_in_session(file: &Path) -> (HostArray, Vec<u8>) {
    let model = Model::load(file).expect("a model");
    let (name, dims) = input(&model);
    let x = numbers(&dims);
    let session = model.session(&Backend::open("inline").expect("a backend")).expect("a session");
    let outputs = session.run(&[(&name, &x)]).expect("a run");
    (x, outputs[0].bytes().to_vec())
}

/// The name and the dimensions of the only input of a model.
pub(crate) fn input(model: &Model) -> (String, Vec<usize>) {
    let [input] = &*model.inputs() else { panic!("one input") };
    assert_eq!(input.dtype, Some(DType::F32), "the example has floats");
    let size = |(at, dim): (usize, &Dim)| match dim {
        Dim::Known(size) => *size,
        // The classifier of PP-OCR leaves the shape open, and reads 48 by 192 pixels.
        _ => [1, 3, 48, 192][at],
    };
    (input.name.clone(), input.dims.iter().flatten().enumerate().map(size).collect())
}

/// The model of a file, and the sizes of its open dimensions as options of the command.
pub(crate) fn model_of_file() -> (PathBuf, Vec<String>) {
    let file = std::env::var_os("AOT_MODEL").expect("the variable `AOT_MODEL` names a file");
    let sizes = std::env::var("AOT_SIZES").unwrap_or_default();
    (file.into(), sizes.split_whitespace().map(str::to_owned).collect())
}

/// Compares the program of a model with a session, and checks its size and what it depends on.
fn check(file: &Path, sizes: &[&str], name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    compiled(file, folder.path(), sizes).expect("the model is one routine");
    let program = built(folder.path(), name);
    let (x, expected) = run_in_session(file);
    for threads in ["3", "1"] {
        let (found, messages) = output_of(&program, threads, x.bytes()).expect("the program runs");
        assert!(found == expected, "the outputs differ on {threads} threads");
        println!("{name}, {threads} threads: {messages}");
    }

    let start_up = || {
        let (_, messages) = output_of(&program, "1", x.bytes()).expect("the program runs");
        let word = messages.split_whitespace().nth(2).expect("ready after N µs");
        word.parse::<u64>().expect("microseconds")
    };
    let mut start_ups: Vec<u64> = (0..21).map(|_| start_up()).collect();
    start_ups.sort_unstable();
    println!("{name}: ready after {} µs, median of 21", start_ups[10]);
    // The fastest quarter, since other tests may hold the processors.
    assert!(start_ups[5] < MOST_MICROSECONDS, "{start_ups:?} µs");

    let bytes = |file: &Path| fs::metadata(file).expect("the file").len();
    let constants = tempfile::tempdir().expect("a folder");
    compiled(file, constants.path(), &[sizes, &["--constants", "file"]].concat()).expect("the same model");
    let size = bytes(&program) - bytes(&constants.path().join("model.constants"));
    println!("{name}: {size} bytes beside the weights");
    assert!(size < MOST_BYTES, "{size} bytes");
    let error = output_of(&program, "1", &x.bytes()[4..]).expect_err("an element is missing");
    assert!(error.contains("bytes of input"), "{error}");
    let error = output_of(&program, "100000", x.bytes()).expect_err("too many threads");
    assert!(error.contains("100000 threads, expected 1 to 1024"), "{error}");
}

fn saved_classifier() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("classifier.onnx");
    fs::write(&file, model(classifier_graph(&["y"])).encode_to_vec()).expect("a writable folder");
    (folder, file)
}

#[test]
fn the_example_has_the_bits_of_a_session() {
    let (_folder, file) = saved_classifier();
    check(&file, &["--size", BATCH], "aot-example");
}

#[test]
#[ignore = "needs the file of the variable `AOT_MODEL`"]
fn the_example_runs_the_model_of_a_file() {
    let (file, sizes) = model_of_file();
    let sizes: Vec<&str> = sizes.iter().flat_map(|size| ["--size", size]).collect();
    check(&file, &sizes, "aot-example-of-file");
}

#[test]
fn the_example_contains_no_compiler() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/aot/Cargo.lock");
    let lock = fs::read_to_string(lock).expect("the list of packages");
    let names = lock.lines().filter_map(|line| line.strip_prefix("name = "));
    assert_eq!(names.collect::<Vec<_>>(), ["\"aot\"", "\"arrayjit-rt\"", "\"libm\""]);
}

#[test]
fn the_command_names_what_it_cannot_do() {
    let (folder, file) = saved_classifier();
    let rejected = |more: &[&str]| compiled(&file, folder.path(), more).expect_err("it is accepted");
    let error = rejected(&[]);
    assert!(error.contains("`batch`"), "{error}");
    let error = rejected(&["--size", "batch"]);
    assert!(error.contains("NAME=SIZE"), "{error}");
    let error = rejected(&["--size", BATCH, "--level", "x86-64-v5"]);
    assert!(error.contains("`x86-64-v4`"), "{error}");
    let error = rejected(&["--size", BATCH, "--target", "riscv64gc-unknown-linux-gnu"]);
    assert!(error.contains("riscv64gc"), "{error}");
}
