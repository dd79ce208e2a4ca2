//! The command rejects bad calls by one line that names the user's object, and writes nothing then.

use std::fs;
use std::path::Path;
use std::process::Command;

use prost::Message;
use tempfile::TempDir;

use crate::onnx_builder::{GraphProto, graph, int, model, node, value};

/// A folder with models and programs, valid ones and others.
fn sources() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let put =
        |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).expect("a writable folder");
    let graph_of = |dims: Option<&[&str]>, nodes: &[&str]| GraphProto {
        input: vec![value("x", dims)],
        ..graph(&[], &["y"], nodes.iter().map(|text| node(text)).collect())
    };
    let relu = model(graph_of(Some(&["n", "3"]), &["y = Relu x"])).encode_to_vec();
    put("layer.onnx", &relu);
    put("half.onnx", &relu[..relu.len() / 2]);
    put("empty.onnx", b"");
    put("garbage.onnx", &[0xc7; 999]);
    put("text.onnx", b"input x f32[3]; y[i] := x[i]; keep y");
    let mut strings = graph_of(Some(&["3"]), &["y = Identity x"]);
    let tensor = strings.input[0].r#type.as_mut().and_then(|of| of.tensor_type.as_mut());
    tensor.expect("the type of a tensor").elem_type = 8;
    let condition = int(node("b = Cast x"), "to", 9);
    for (name, graph) in [
        ("strings.onnx", strings),
        ("rank.onnx", graph_of(None, &["y = Relu x"])),
        ("operator.onnx", graph_of(Some(&["3"]), &["y = Blorp x"])),
        ("host.onnx", graph_of(Some(&["3"]), &["y = NonZero x"])),
        ("random.onnx", graph_of(Some(&["3"]), &["y = RandomNormalLike x"])),
        (
            "compress.onnx",
            GraphProto { node: vec![condition, node("y = Compress x b")], ..graph_of(Some(&["3"]), &[]) },
        ),
        ("sequence.onnx", graph_of(Some(&["3"]), &["y = SequenceConstruct x x"])),
        ("cycle.onnx", graph_of(Some(&["3"]), &["y = Add x z", "z = Neg y"])),
        ("no_output.onnx", GraphProto { output: Vec::new(), ..graph_of(Some(&["3"]), &["y = Relu x"]) }),
        ("other_output.onnx", graph_of(Some(&["3"]), &["z = Relu x"])),
        ("if.onnx", graph_of(Some(&["3"]), &["y = Relu x"])),
    ] {
        put(name, &model(graph).encode_to_vec());
    }
    put("copy.txt", b"input x f32[3]; y[i] := x[i]; keep y");
    put("syntax.txt", b"input x f32[3]; y[i] := x[i] +; keep y");
    put("unknown.txt", b"input x f32[3]; y[i] := w[i]; keep y");
    put("empty.txt", b"");
    put("bytes.txt", &[0xc7; 999]);
    put("nothing.txt", b"input x f32[0]; y[i] := x[i]; keep y");
    put("huge.txt", b"input x f32[9999999, 9999999, 9999999]; y[i,j,k] := x[i,j,k]; keep y");
    put("sine.txt", b"input x f64[3]; y[i] := sin(x[i]); keep y");
    put("merge.txt", b"param g f32[3]; g[i] += g.merge[i]; keep g");
    for name in ["folder", "folder.onnx", "taken/copy.h"] {
        fs::create_dir_all(folder.path().join(name)).expect("a writable folder");
    }
    folder
}

/// Calls, without the folder of outputs, and texts that their errors contain.
const BAD_CALLS: &[(&str, &[&str])] = &[
    // Sources.
    ("missing.onnx", &["missing.onnx", "No such file"]),
    ("missing.txt", &["missing.txt", "No such file"]),
    ("folder", &["cannot compile folder", "directory"]),
    ("folder.onnx", &["folder.onnx", "no regular file"]),
    ("/", &["--name"]),
    ("empty.onnx", &["empty.onnx", "no graph"]),
    ("garbage.onnx", &["garbage.onnx", "no ONNX model"]),
    ("half.onnx", &["half.onnx", "no ONNX model"]),
    ("text.onnx", &["text.onnx", "no ONNX model"]),
    ("strings.onnx", &["strings.onnx", "input `x`", "elements"]),
    ("rank.onnx", &["rank.onnx", "input `x`", "no type"]),
    ("operator.onnx", &["operator.onnx", "Blorp"]),
    ("host.onnx", &["host.onnx", "routine `run`", "NonZero", "only a run has"]),
    ("random.onnx", &["random.onnx", "RandomNormalLike"]),
    ("compress.onnx", &["compress.onnx", "Compress"]),
    ("sequence.onnx", &["sequence.onnx", "sequence"]),
    ("cycle.onnx", &["cycle.onnx", "depend on each other: y, z"]),
    ("no_output.onnx", &["no_output.onnx", "routine `run` writes no array"]),
    ("other_output.onnx", &["other_output.onnx", "output `y`"]),
    ("if.onnx", &["if.onnx: give --name", "`if`"]),
    ("syntax.txt", &["syntax.txt", "line 1, column 31", "expected an expression"]),
    ("unknown.txt", &["unknown.txt", "`w`"]),
    ("empty.txt", &["empty.txt", "routine `run` writes no array"]),
    ("bytes.txt", &["bytes.txt", "UTF-8"]),
    ("nothing.txt", &["nothing.txt", "routine `run` writes no array"]),
    ("huge.txt", &["huge.txt", "too large"]),
    ("sine.txt", &["sine.txt", "sine", "an object file has no such function"]),
    ("merge.txt", &["merge.txt", "routine `run`", "merges values of another context"]),
    ("copy.txt syntax.txt", &["syntax.txt"]),
    // Sizes.
    ("layer.onnx", &["layer.onnx", "`x`", "dimension `n`", "expected a size"]),
    ("layer.onnx --size n", &["NAME=SIZE"]),
    ("layer.onnx --size =3", &["'=3'", "NAME=SIZE"]),
    ("layer.onnx --size n=", &["'n='", "no size"]),
    ("layer.onnx --size n<3", &["'n<3'", "NAME<=SIZE"]),
    ("layer.onnx --size n>=3", &["'n>=3'", "NAME<=SIZE"]),
    ("layer.onnx --size n=three", &["`three`"]),
    ("layer.onnx --size n=-1", &["`-1`"]),
    ("layer.onnx --size n=99999999999999999999", &["`99999999999999999999`"]),
    ("layer.onnx --size n=0", &["dimension `n`", "given 0, expected 1 or more"]),
    ("layer.onnx --size n<=0", &["dimension `n`", "given 0, expected 1 or more"]),
    ("layer.onnx --size n=9000000000000000000", &["layer.onnx", "too large"]),
    ("layer.onnx --size n<=100000000000", &["layer.onnx", "1200000000000 bytes"]),
    ("layer.onnx --size m=3", &["dimension `m`", "but `n`"]),
    ("layer.onnx --size n=3 --size m=3", &["dimension `m`", "but `n`"]),
    ("layer.onnx --size n=3 --size n<=4", &["--size n", "two sizes"]),
    ("copy.txt --size n=3", &["copy.txt", "--size n", "only ONNX models"]),
    // Levels and targets.
    ("copy.txt --level x86-64-v5", &["`x86-64-v5`", "`x86-64-v4`"]),
    ("copy.txt --level=", &["``", "`x86-64-v4`"]),
    ("copy.txt --target x86_64-unknown-linux-gnu --level arm64", &["x86_64-unknown-linux-gnu", "`arm64`"]),
    ("copy.txt --target aarch64-apple-ios --level x86-64-v3", &["aarch64-apple-ios", "`x86-64-v3`"]),
    ("copy.txt --target laptop", &["`laptop`", "no target triple"]),
    ("copy.txt --target=", &["``", "no target triple"]),
    ("copy.txt --target wasm32-unknown-unknown", &["`wasm32-unknown-unknown`", "only for x86-64 and"]),
    ("copy.txt --target i686-pc-windows-gnu", &["`i686-pc-windows-gnu`", "only for x86-64 and"]),
    ("copy.txt --target x86_64-unknown-linux-gnux32", &["gnux32`", "64-bit pointers"]),
    ("copy.txt --target aarch64_be-unknown-linux-gnu", &["`aarch64_be-unknown-linux-gnu`", "little-endian"]),
    ("copy.txt --target x86_64-unknown-uefi", &["`x86_64-unknown-uefi`", "not for UEFI"]),
    #[cfg(not(feature = "cross"))]
    (
        "copy.txt --target aarch64-unknown-none",
        &["cannot compile copy.txt: cranelift failed in target set-up", "its architecture is left out"],
    ),
    ("copy.txt --target aarch64-pc-windows-msvc", &["`aarch64-pc-windows-msvc`", "ARM64 with Windows"]),
    (
        "layer.onnx --size n=3 --products --target x86_64-unknown-linux-gnu --level x86-64-v2",
        &["--products", "`x86-64-v2`"],
    ),
    // Names.
    ("copy.txt --name=", &["`` cannot name a library"]),
    ("copy.txt --name fn", &["`fn` cannot name a library", "word of Rust or C"]),
    ("copy.txt --name asm", &["`asm` cannot name a library"]),
    ("copy.txt --name Model", &["`Model` cannot name a library"]),
    ("copy.txt --name 1a", &["`1a` cannot name a library"]),
    ("copy.txt --name ../a", &["`../a` cannot name a library"]),
    ("copy.txt --routine struct", &["`struct` cannot name a routine"]),
    ("copy.txt --routine new", &["`new` cannot name a routine"]),
    ("copy.txt --routine run_x86_64_v3", &["`run_x86_64_v3` cannot name a routine"]),
    ("copy.txt --constants nowhere", &["nowhere", "object", "file"]),
];

/// Calls in a folder of sources whose outputs cannot be written, and texts that their errors contain.
const BAD_OUTPUTS: &[(&str, &[&str])] = &[
    ("copy.txt --output /proc/nothing", &["cannot make the folder /proc/nothing"]),
    ("copy.txt --output syntax.txt", &["cannot make the folder syntax.txt"]),
    ("copy.txt --output syntax.txt/sub", &["cannot make the folder syntax.txt/sub"]),
    ("copy.txt --output=", &["--output"]),
    ("copy.txt", &["--output"]),
    ("copy.txt --output taken", &["copy.h", "directory"]),
];

/// The message of a call that fails.
fn message(folder: &Path, call: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_arrayjit-aot"))
        .args(call.split(' '))
        .current_dir(folder)
        .output()
        .expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, message) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success(), "{call}: accepted: {out}");
    assert!(output.status.code().is_some_and(|code| code < 100), "{call}: {message}");
    assert!(out.is_empty(), "{call}: {out}");
    message
}

/// Names of all files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn bad_calls_name_the_users_object_and_write_nothing() {
    let folder = sources();
    let mut wrong = Vec::new();
    for (call, expected) in BAD_CALLS {
        let message = message(folder.path(), &format!("{call} --output out"));
        // Texts are shown with the place of the error, in two lines more.
        let (first, rest) = message.split_once('\n').expect("a line");
        let first = first.strip_prefix("error: ").or(first.strip_prefix("arrayjit-aot: "));
        assert!(first.is_some_and(|first| !first.is_empty()), "{call}: {message}");
        let is_shown = rest.is_empty() || rest.starts_with("1 | ") || rest.starts_with("node `");
        let is_right = (is_shown || message.starts_with("error: "))
            && expected.iter().all(|text| message.contains(text))
            // The setting is none of the command's.
            && !message.contains("fallback");
        if !is_right {
            wrong.push(format!("{call}, expected {expected:?}: {message}"));
        }
        assert!(!folder.path().join("out").exists(), "{call} leaves a folder");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn outputs_that_cannot_be_written_leave_no_files() {
    let folder = sources();
    let before = files(folder.path());
    for (call, expected) in BAD_OUTPUTS {
        let message = message(folder.path(), call);
        assert!(expected.iter().all(|text| message.contains(text)), "{call}: {message}");
    }
    assert_eq!(files(folder.path()), before);
    assert_eq!(files(&folder.path().join("taken")), ["copy.h"]);
}
