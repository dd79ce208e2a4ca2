//! The program `onnx-run` as its users call it.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use prost::Message;
use tempfile::TempDir;

use crate::build::{floats, graph, model, node, value};

/// Calls the program, and returns whether it succeeded, and its output and errors.
fn onnx_run(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_onnx-run")).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// A file with `a/y = relu(x)` for `x` of shape `[batch, 3]`.
fn relu_model(operator: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let mut relu = graph(&[], &["a/y"], vec![node(&format!("a/y = {operator} x"))]);
    relu.input = vec![value("x", Some(&["batch", "3"]))];
    std::fs::write(&path, model(relu).encode_to_vec()).unwrap();
    (folder, path)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn runs_on_a_file_and_saves_outputs() {
    let (folder, path) = relu_model("Relu");
    let input = folder.path().join("x.npy");
    let x = floats(&[1., -2., 3., -4., 5., -6.], &[2, 3]);
    tnode::npy::write(&x, std::fs::File::create(&input).unwrap()).unwrap();
    let saved = folder.path().join("out");
    let given = format!("x={}", text(&input));
    let args =
        [text(&path), "--input", &given, "--backend", "inline", "--bench", "2", "--save", text(&saved)];
    let (succeeds, printed) = onnx_run(&args);
    assert!(succeeds, "{printed}");
    assert!(printed.contains("a/y f32[2, 3]: min 0, max 5, mean 1.5; 1, 0, 3, 0, 5, 0"), "{printed}");
    assert!(printed.contains("2 runs: median "), "{printed}");
    let y = tnode::npy::read(std::fs::File::open(saved.join("a_y.npy")).unwrap()).unwrap();
    assert_eq!((y.dims().as_slice(), y.values()), ([2, 3].as_slice(), vec![1., 0., 3., 0., 5., 0.]));
}

#[test]
fn profiles_show_the_kernels_of_a_model() {
    let (folder, path) = relu_model("Relu");
    for name in ["profile.json", "profile.html"] {
        let profile = folder.path().join(name);
        let args =
            [text(&path), "--random", "--shape", "x=4,3", "--backend", "inline", "--profile", text(&profile)];
        let (succeeds, printed) = onnx_run(&args);
        assert!(succeeds && printed.contains("1 routines in "), "{printed}");
        let written = std::fs::read_to_string(profile).unwrap();
        assert!(written.contains("onnx_k0") && written.contains("max(x0[i0,i1], 0)"), "{written}");
        // The node has no name but that of its output, and its result is its second `y`.
        assert!(written.contains("a_y2"), "{written}");
    }
}

#[test]
fn random_inputs_need_the_sizes_that_the_model_leaves_open() {
    let (_folder, path) = relu_model("Relu");
    let (succeeds, printed) = onnx_run(&[text(&path), "--random"]);
    assert!(!succeeds && printed.contains("input x f32[batch, 3] leaves sizes open"), "{printed}");
    let (succeeds, printed) = onnx_run(&[text(&path), "--random", "--shape", "x=4,3", "--backend", "inline"]);
    assert!(succeeds && printed.contains("a/y f32[4, 3]: min 0"), "{printed}");
    let then = [text(&path), "--random", "--shape", "x=4,3", "--then-shape", "x=7,3", "--backend", "inline"];
    let (succeeds, printed) = onnx_run(&then);
    assert!(succeeds && printed.contains("new shape "), "{printed}");
    let (succeeds, printed) = onnx_run(&[text(&path), "--random", "--shape", "x=4,2", "--backend", "inline"]);
    assert!(!succeeds && printed.contains("has size 2 on axis 1, expected 3"), "{printed}");
}

#[test]
fn errors_name_the_inputs_of_the_model() {
    let (_folder, path) = relu_model("Relu");
    for args in [&[text(&path)][..], &[text(&path), "--shape", "z=1"]] {
        let (succeeds, printed) = onnx_run(args);
        assert!(!succeeds && printed.contains("x f32[batch, 3]"), "{printed}");
    }
    let (succeeds, printed) = onnx_run(&["no_model.onnx", "--random"]);
    assert!(!succeeds && printed.contains("cannot read no_model.onnx"), "{printed}");
}

#[test]
fn inspect_shows_the_interface_or_the_unsupported_nodes() {
    let (_folder, path) = relu_model("Relu");
    let (succeeds, printed) = onnx_run(&["inspect", text(&path)]);
    assert!(succeeds && printed.contains("x f32[batch, 3]") && printed.contains("1 Relu"), "{printed}");
    let (_folder, path) = relu_model("Relux");
    let (succeeds, printed) = onnx_run(&["inspect", text(&path)]);
    assert!(!succeeds && printed.contains("ai.onnx.Relux of opset 17"), "{printed}");
}

#[test]
fn an_error_tells_its_cause_once() {
    let (succeeds, printed) = onnx_run(&["/nothing"]);
    assert!(!succeeds);
    assert_eq!(printed.matches("os error").count(), 1, "{printed}");
    assert_eq!(printed.matches("/nothing").count(), 1, "{printed}");
}
