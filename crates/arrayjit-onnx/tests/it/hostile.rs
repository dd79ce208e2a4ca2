//! Small files that ask for much memory or many steps.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use std::time::{Duration, Instant};

use arrayjit_onnx::{DType, HostArray, Model, OnnxError, OnnxLimits, proto::*};
use prost::Message;

use crate::build::*;

/// Little memory, so that a test that fails does no harm.
const SMALL: OnnxLimits = OnnxLimits { bytes: 1 << 20, steps: 1 << 16 };

/// The error of loading a graph and running it on one element, in much less time than its work would take.
#[track_caller]
fn refused(limits: OnnxLimits, graph: GraphProto) -> String {
    let start = Instant::now();
    let session = match session_within(limits, graph) {
        Ok(session) => session,
        Err(error) => return error.to_string(),
    };
    let outcome = session.run(&[("x", &floats(&[1.0], &[1]))]);
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds < 20.0, "{seconds} s");
    outcome.expect_err("the model asks for too much").to_string()
}

#[track_caller]
fn assert_exceeds(error: &str, place: &str, limit: &str) {
    assert!(
        error.contains(place) && error.contains(&format!("that `OnnxLimits::{limit}` allows")),
        "{error}"
    );
}

#[test]
fn margins_of_many_gigabytes_are_an_error() {
    let pad = text(node("p = Pad one margins"), "mode", "wrap");
    let model = graph(&["x"], &["y"], vec![pad, node("y = ReduceSum p")]);
    let model = constant(model, "one", &floats(&[1.0], &[1]));
    let error = refused(OnnxLimits::default(), constant(model, "margins", &longs(&[0, 1_700_000_000], &[2])));
    assert_exceeds(&error, "node `p`, Pad of opset 17", "bytes");
}

#[test]
fn each_operator_asks_before_it_makes_an_array() {
    let range = |from: f32, to: f32| [from, to, 1.0].map(|value| floats(&[value], &[]));
    let [start, end, one] = range(0.0, 9e8);
    let huge = [1i64 << 20, 1 << 14];
    for (text, operands) in [
        ("c = Expand a b", vec![floats(&[1.0], &[1]), longs(&huge, &[2])]),
        ("c = Tile a b", vec![floats(&[1.0; 2], &[1, 2]), longs(&huge, &[2])]),
        ("c = ConstantOfShape a", vec![longs(&huge, &[2])]),
        ("c = Range a b d", vec![start, end, one]),
        ("c = Range a b d", vec![longs(&[0], &[]), longs(&[900_000_000], &[]), longs(&[1], &[])]),
        ("c = OneHot a b d", vec![longs(&[1], &[1]), longs(&[900_000_000], &[]), floats(&[0.0, 1.0], &[2])]),
        ("c = Pad a b", vec![floats(&[1.0], &[1]), longs(&[1 << 33, 1 << 33], &[2])]),
        ("c = Resize a _ b", vec![floats(&[1.0], &[1]), floats(&[9e8], &[1])]),
        ("c = Upsample a b", vec![floats(&[1.0], &[1]), floats(&[9e8], &[1])]),
        ("c = MatMul a b", vec![floats(&[1.0; 4096], &[4096, 1]), floats(&[1.0; 4096], &[1, 4096])]),
        ("c = Add a b", vec![floats(&[1.0; 4096], &[4096, 1]), floats(&[1.0; 4096], &[1, 4096])]),
        ("c = Equal a b", vec![floats(&[1.0; 4096], &[4096, 1]), floats(&[1.0; 4096], &[1, 4096])]),
        ("c = Where t a b", vec![floats(&[1.0; 4096], &[4096, 1]), floats(&[1.0; 4096], &[1, 4096])]),
        ("c = HannWindow a", vec![longs(&[60_000_000], &[])]),
        ("c = Trilu e", vec![]),
        ("c = Gather a b", vec![floats(&[1.0; 4096], &[1, 4096]), longs(&[0; 4096], &[4096])]),
    ] {
        let mut nodes = vec![node(text), node("y = ReduceSum c")];
        if text.contains(" e") {
            nodes.insert(0, node("e = ConstantOfShape s"));
        }
        let mut model = constant(graph(&["x"], &["y"], nodes), "s", &longs(&huge, &[2]));
        let names = ["a", "b", "d"].into_iter().zip(&operands);
        for (name, array) in names {
            model = constant(model, name, array);
        }
        model = constant(model, "t", &HostArray::from_bytes(DType::Bool, [1], &[1]).unwrap());
        assert_exceeds(&refused(SMALL, model), "node `", "bytes");
    }
}

#[test]
fn operands_that_are_many_times_the_same_are_counted_each_time() {
    let concat = int(node(&format!("c = Concat {}", "a ".repeat(4096))), "axis", 0);
    let model = graph(&["x"], &["y"], vec![concat, node("y = ReduceSum c")]);
    assert_exceeds(
        &refused(SMALL, constant(model, "a", &floats(&[1.0; 128], &[128]))),
        "`c`, Concat",
        "bytes",
    );
}

#[test]
fn values_that_are_still_needed_are_counted_together() {
    let mut nodes: Vec<_> = (0..64).map(|at| node(&format!("a{at} = Expand x s"))).collect();
    let sum: Vec<String> = (0..64).map(|at| format!("a{at}")).collect();
    nodes.push(node(&format!("y = Sum {}", sum.join(" "))));
    let model = constant(graph(&["x"], &["y"], nodes), "s", &longs(&[1 << 14], &[1]));
    assert_exceeds(&refused(SMALL, model), "`a16`, Expand", "bytes");
    // One after the other, they need no more than two at once.
    let mut nodes = vec![node("a0 = Expand x s")];
    nodes.extend((0..64).map(|at| node(&format!("a{} = Neg a{at}", at + 1))));
    nodes.push(node("y = ReduceMax a64"));
    let model = constant(graph(&["x"], &["y"], nodes), "s", &longs(&[1 << 14], &[1]));
    let session = session_within(SMALL, model).unwrap();
    assert_eq!(session.run(&[("x", &floats(&[1.0], &[1]))]).unwrap()[0].values(), [1.0]);
}

#[test]
fn constants_that_a_session_keeps_are_counted_together() {
    let mut nodes: Vec<_> = (0..64).map(|at| node(&format!("a{} = Neg a{at}", at + 1))).collect();
    nodes.push(node("y = Add x a64"));
    let model = constant(graph(&["x"], &["y"], nodes), "a0", &floats(&vec![1.0; 1 << 14], &[1 << 14]));
    let session = session_within(SMALL, model).unwrap();
    for x in [1.0, 2.0] {
        let outputs = session.run(&[("x", &floats(&[x], &[1]))]).unwrap();
        assert_eq!(outputs[0].values(), vec![f64::from(x) + 1.0; 1 << 14]);
    }
}

#[test]
fn sizes_that_a_call_asks_for_are_bounded() {
    let nodes = ["t = Transpose x", "o = MatMul t x", "y = ReduceSum o"].map(node);
    let session = session_within(SMALL, graph(&["x"], &["y"], nodes.into())).unwrap();
    let run = |size: usize| session.run(&[("x", &floats(&vec![1.0; size], &[1, size]))]);
    assert_eq!(run(100).unwrap()[0].values(), [10000.0]);
    assert_exceeds(&run(100_000).unwrap_err().to_string(), "node `o`, MatMul", "bytes");
    assert_eq!(run(100).unwrap()[0].values(), [10000.0]);
}

#[test]
fn rows_of_a_loop_are_counted_together() {
    let body =
        graph(&["it", "ci"], &["co", "row"], ["row = Expand x s", "co = Identity ci"].map(node).into());
    let looped = subgraph(node("rows = Loop m _"), "body", body);
    let model = graph(&["x"], &["y"], vec![looped, node("y = ReduceSum rows")]);
    let model = constant(constant(model, "m", &longs(&[4096], &[])), "s", &longs(&[1 << 14], &[1]));
    assert_exceeds(&refused(SMALL, model), "node `rows`, Loop", "bytes");
}

#[test]
fn a_loop_of_many_steps_is_fast_or_an_error() {
    let looped = |steps: i64| {
        let nodes = ["c2 = Add c one", "s = Mul c2 c2", "co = Identity ci"].map(node);
        let body = graph(&["it", "ci", "c"], &["co", "c2", "s"], nodes.into());
        let looped = subgraph(node("last rows = Loop m _ c0"), "body", body);
        let model = graph(&["x"], &["last", "rows"], vec![looped]);
        let model = constant(constant(model, "m", &longs(&[steps], &[])), "one", &floats(&[1.0], &[]));
        constant(model, "c0", &floats(&[0.0], &[]))
    };
    assert_exceeds(&refused(OnnxLimits::default(), looped(16_000)), "node `last`, Loop", "steps");
    let start = Instant::now();
    let limits = OnnxLimits { steps: 1 << 20, ..OnnxLimits::default() };
    let session = session_within(limits, looped(16_000)).unwrap();
    let outputs = session.run(&[("x", &floats(&[1.0], &[1]))]).unwrap();
    assert_eq!((outputs[0].values(), outputs[1].dims().to_vec()), (vec![16_000.0], vec![16_000]));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_layer_of_many_steps_is_an_error() {
    let mut model = graph(
        &["x"],
        &["y"],
        vec![node("s = ConstantOfShape n"), int(node("y = RNN s w w"), "hidden_size", 1)],
    );
    model = constant(model, "n", &longs(&[100_000, 1, 1], &[3]));
    let limits = OnnxLimits { steps: 1 << 8, ..SMALL };
    assert_exceeds(
        &refused(limits, constant(model, "w", &floats(&[1.0], &[1, 1, 1]))),
        "node `y`, RNN",
        "steps",
    );
}

/// A sparse array of zeros.
fn sparse(name: &str, dims: &[i64]) -> SparseTensorProto {
    let tensor = |name: &str, data_type| TensorProto {
        name: name.into(),
        dims: vec![0],
        data_type,
        ..Default::default()
    };
    SparseTensorProto { values: Some(tensor(name, 1)), indices: Some(tensor("", 7)), dims: dims.to_vec() }
}

#[test]
fn sparse_arrays_are_counted_together() {
    let mut model = graph(&["x"], &["y"], vec![node("y = Relu x")]);
    model.sparse_initializer = (0..12).map(|at| sparse(&format!("w{at}"), &[1 << 28])).collect();
    assert_exceeds(&load(model.clone()).err().unwrap().to_string(), "sparse tensors", "bytes");
    for dims in [&[1 << 62, 1 << 62][..], &[i64::MAX, 3]] {
        model.sparse_initializer = vec![sparse("w", dims)];
        assert_exceeds(&load(model.clone()).err().unwrap().to_string(), "sparse tensors", "bytes");
    }
    model.sparse_initializer = vec![sparse("w", &[0, 1 << 40])];
    assert!(load(model.clone()).is_ok());
    // No bytes, but strides that cannot be addressed.
    model.sparse_initializer = vec![sparse("w", &[i64::MAX, i64::MAX, 0])];
    assert!(matches!(load(model.clone()), Err(OnnxError::Array(_))));
    model.sparse_initializer = vec![sparse("w", &[-1])];
    assert!(load(model).err().unwrap().to_string().contains("a size is negative"));
}

/// Functions `f0` to `f30`, each of which calls the next one twice.
fn doubling(name: &str) -> ModelProto {
    let call = |at: usize, text: &str, name: &str| NodeProto {
        op_type: format!("f{at}"),
        domain: "own".into(),
        name: name.into(),
        ..node(text)
    };
    let mut model = model(graph(&["x"], &["y"], vec![call(0, "y = F x", name)]));
    model.functions = (0..31)
        .map(|at| FunctionProto {
            name: format!("f{at}"),
            domain: "own".into(),
            input: vec!["a".into()],
            output: vec!["b".into()],
            node: match at {
                30 => vec![node("b = Neg a")],
                _ => vec![call(at + 1, "c = F a", name), call(at + 1, "b = F c", name)],
            },
            opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 13 }],
            ..Default::default()
        })
        .collect();
    model
}

#[test]
fn grams_longer_than_a_row_take_no_time() {
    let grams = ["min_gram_length", "max_gram_length", "max_skip_count"].iter().zip([1, 65_000, 65_000]);
    let grams = grams.fold(node("y = TfIdfVectorizer i"), |node, (name, value)| int(node, name, value));
    let grams = text(ints(grams, "pool_int64s", &[1]), "mode", "TF");
    let grams = ints(ints(grams, "ngram_counts", &[0]), "ngram_indexes", &[0]);
    let model = constant(graph(&["x"], &["y"], vec![grams]), "i", &longs(&[1, 2], &[2]));
    let start = Instant::now();
    let outputs = session_within(SMALL, model).unwrap().run(&[("x", &floats(&[1.0], &[1]))]).unwrap();
    assert_eq!(outputs[0].values(), [1.0]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn calls_that_double_are_bounded() {
    let start = Instant::now();
    let error = Model::from_proto(&doubling("")).err().unwrap().to_string();
    assert_exceeds(&error, "function `f", "steps");
    let error = Model::from_proto_within(&doubling(&"n".repeat(10_000)), SMALL).err().unwrap().to_string();
    assert_exceeds(&error, "function `f", "bytes");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn nodes_in_the_opposite_order_are_sorted_in_linear_time() {
    let mut nodes: Vec<_> = (0..20_000).map(|at| node(&format!("a{} = Neg a{at}", at + 1))).collect();
    nodes[0].input[0] = "x".into();
    nodes.reverse();
    let start = Instant::now();
    assert!(load(graph(&["x"], &["a20000"], nodes)).is_ok());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Loads a model beside a file `data.bin`, with an array of that many elements in it.
fn load_beside(folder: &std::path::Path, elements: i64, times: usize) -> Result<Model, OnnxError> {
    let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
    let mut graph = graph(&["x"], &["y"], vec![node("y = Relu x")]);
    graph.initializer = (0..times)
        .map(|at| TensorProto {
            name: format!("w{at}"),
            dims: vec![elements],
            data_type: 1,
            data_location: 1,
            external_data: vec![entry("location", "data.bin")],
            ..Default::default()
        })
        .collect();
    std::fs::write(folder.join("model.onnx"), model(graph).encode_to_vec()).unwrap();
    Model::load_within(folder.join("model.onnx"), SMALL)
}

#[test]
fn files_are_counted_by_what_they_store() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data.bin");
    // Weights beyond the limit are no attack if a file stores them, but arrays that share them may be one.
    std::fs::write(&data, vec![0x5a; 4 << 20]).unwrap();
    assert!(load_beside(folder.path(), 1 << 20, 1).is_ok());
    let problem = |elements, times| load_beside(folder.path(), elements, times).err().unwrap().to_string();
    assert_exceeds(&problem(1 << 20, 3), "tensor `w1`", "bytes");
    #[cfg(unix)]
    {
        std::fs::File::create(&data).unwrap().set_len(1 << 40).unwrap();
        assert_exceeds(&problem(1 << 38, 1), "tensor `w0`", "bytes");
        std::fs::File::create(folder.path().join("model.onnx")).unwrap().set_len(1 << 40).unwrap();
        let error = Model::load(folder.path().join("model.onnx")).err().unwrap().to_string();
        assert_exceeds(&error, "model.onnx", "bytes");
    }
}

#[test]
fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data.bin")).unwrap();
    let problem = || load_beside(folder.path(), 1, 1).err().unwrap().to_string();
    assert!(problem().ends_with("it is no regular file"), "{}", problem());
    assert!(Model::load(folder.path()).err().unwrap().to_string().ends_with("it is no regular file"));
    #[cfg(unix)]
    {
        std::fs::remove_dir(folder.path().join("data.bin")).unwrap();
        for name in ["data.bin", "pipe.onnx"] {
            let made = std::process::Command::new("mkfifo").arg(folder.path().join(name)).status().unwrap();
            assert!(made.success());
        }
        assert!(problem().ends_with("it is no regular file"), "{}", problem());
        let error = Model::load(folder.path().join("pipe.onnx")).err().unwrap().to_string();
        assert!(error.ends_with("it is no regular file"), "{error}");
        let error = Model::load("/dev/zero").err().unwrap().to_string();
        assert!(error.ends_with("it is no regular file"), "{error}");
    }
}
