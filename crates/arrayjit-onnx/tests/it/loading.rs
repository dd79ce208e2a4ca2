//! Checks of model files.

use arrayjit_onnx::{
    Backend, DType, Dim, HostArray, Model, OnnxError, OnnxLimits, array_from_proto, proto::*,
};
use prost::Message;

use crate::build::*;

#[test]
fn all_nodes_that_are_not_supported_are_listed() {
    let nodes = vec![node("a = Unheard x"), node("b = Relu a"), node("y = Gelu b")];
    let error = load(graph(&["x"], &["y"], nodes)).err().unwrap().to_string();
    assert_eq!(
        error,
        "2 nodes are not supported:\n\
         node `a`: ai.onnx.Unheard of opset 17: the operator is not supported\n\
         node `y`: ai.onnx.Gelu of opset 17: the operator is supported from opset 20 on"
    );
}

#[test]
fn contradictions_are_errors() {
    let problem = |graph: GraphProto| load(graph).err().unwrap().to_string();
    let cycle = graph(&["x"], &["y"], vec![node("a = Add x b"), node("b = Relu a"), node("y = Relu b")]);
    assert_eq!(problem(cycle), "nodes: they depend on each other: a, b, y");
    let missing = graph(&["x"], &["y"], vec![node("y = Add x w")]);
    assert_eq!(problem(missing), "node `y`, Add: no node makes its operand `w`");
    let twice = graph(&["x"], &["y"], vec![node("y = Relu x"), node("y = Neg x")]);
    assert_eq!(problem(twice), "value `y`: node `y` makes it again");
    let nothing = graph(&["x"], &["z"], vec![node("y = Relu x")]);
    assert_eq!(problem(nothing), "output `z`: no node makes it");
}

#[test]
fn nodes_need_no_order() {
    let session = session(graph(&["x"], &["y"], vec![node("y = Neg a"), node("a = Add x x")]));
    assert_eq!(session.run(&[("x", &floats(&[1.0], &[1]))]).unwrap()[0].values(), [-2.0]);
}

#[test]
fn every_cut_of_a_file_is_an_error_or_a_model() {
    let model =
        model(constant(graph(&["x"], &["y"], vec![node("y = Add x w")]), "w", &floats(&[1.0; 4], &[4])));
    let bytes = model.encode_to_vec();
    for length in 0..bytes.len() {
        let _ = Model::from_bytes(bytes[..length].to_vec());
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        let _ = Model::from_bytes(changed);
    }
    assert!(Model::from_bytes(bytes).is_ok());
}

#[test]
fn an_error_of_decoding_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.onnx");
    std::fs::write(&path, [0xc7; 9]).unwrap();
    let error = Model::load(&path).err().unwrap().to_string();
    assert!(error.starts_with(&format!("{}: the file is no ONNX model: ", path.display())), "{error}");
}

#[test]
fn typed_fields_hold_narrow_elements() {
    let tensor = |data_type, int32_data: Vec<i32>| TensorProto {
        dims: vec![2],
        data_type,
        int32_data,
        ..Default::default()
    };
    let array = |tensor| array_from_proto(&tensor).unwrap();
    assert_eq!(array(tensor(10, vec![0x3c00, 0xc000])).values(), [1.0, -2.0]);
    assert_eq!(array(tensor(9, vec![0, 1])).values(), [0.0, 1.0]);
    assert_eq!(array(tensor(3, vec![-5, 7])).values(), [-5.0, 7.0]);
    assert!(array_from_proto(&tensor(3, vec![1])).is_err());
    assert!(array_from_proto(&TensorProto { dims: vec![-1], ..tensor(3, vec![1]) }).is_err());
    assert!(array_from_proto(&TensorProto { dims: vec![i64::MAX, i64::MAX], ..tensor(3, vec![1]) }).is_err());
    assert!(array_from_proto(&tensor(8, vec![])).is_err());
}

#[test]
fn external_data_stays_in_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("model");
    std::fs::create_dir(&inner).unwrap();
    let data: Vec<u8> = [0f32, 1.0, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(inner.join("data.bin"), &data).unwrap();
    std::fs::write(folder.path().join("secret.bin"), &data).unwrap();
    let load = |location: &str, offset: &str| {
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        let tensor = TensorProto {
            name: "w".into(),
            dims: vec![2],
            data_type: 1,
            data_location: 1,
            external_data: vec![entry("location", location), entry("offset", offset)],
            ..Default::default()
        };
        let mut graph = graph(&["x"], &["y"], vec![node("y = Add x w")]);
        graph.initializer.push(tensor);
        let path = inner.join("model.onnx");
        std::fs::write(&path, model(graph).encode_to_vec()).unwrap();
        Model::load(&path)
    };
    assert!(load("data.bin", "4").is_ok());
    let problem = |location, offset| load(location, offset).err().unwrap().to_string();
    assert!(problem("data.bin", "8").contains("leave the file of 12 bytes"));
    assert!(problem("data.bin", "18446744073709551615").contains("leave the file"));
    assert!(problem("data.bin", "-1").contains("is no offset"));
    assert!(problem("../secret.bin", "0").contains("is no path within the folder"));
    assert!(problem("missing.bin", "0").contains("cannot be read"));
    let absolute = folder.path().join("secret.bin");
    assert!(problem(absolute.to_str().unwrap(), "0").contains("is no path within the folder"));
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("secret.bin"), inner.join("link.bin")).unwrap();
        assert!(problem("link.bin", "0").contains("outside of the folder"));
    }
}

/// Large arrays are read from the file, and others are decoded; what is wrong with a file is found in both.
#[test]
fn a_file_is_the_model_that_its_bytes_are() {
    let count = 1 << 12;
    let weights: Vec<f32> = (0..count).map(|at| at as f32).collect();
    let mut graph =
        graph(&["x"], &["y"], vec![node("s = Add x a"), node("p = Mul s b"), node("y = Add p c")]);
    graph = constant(graph, "a", &floats(&[0.5], &[1]));
    graph = constant(graph, "b", &floats(&weights, &[count]));
    let halves = [0x21u8].repeat(4 * count); // i4: 1, 2, …
    let mut narrow = TensorProto { name: "i".into(), dims: vec![8 * count as i64], ..Default::default() };
    (narrow.data_type, narrow.raw_data) = (22, halves.into());
    graph.initializer.push(narrow);
    graph = constant(graph, "c", &floats(&weights, &[count]));
    graph.output.push(value("j", None));
    graph.node.push(int(node("j = Cast i"), "to", 1));
    let bytes = model(graph).encode_to_vec();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let compare = |bytes: &[u8], runs: bool| {
        std::fs::write(&path, bytes).unwrap();
        // SAFETY: nothing writes the file while the model lives.
        let mapped = unsafe { Model::load_mapped(&path, OnnxLimits::default()) };
        let results = [Model::from_bytes(bytes.to_vec()), Model::load(&path), mapped].map(|loaded| {
            // Where a length is too large, decoding finds it out one way or the other.
            // A file that is no message is named.
            let named = format!("{}: ", path.display());
            let unnamed = |text: &str| text.strip_prefix(&named).unwrap_or(text).to_owned();
            let start = |error: OnnxError| error.to_string().split("message: ").next().map(unnamed);
            let loaded = loaded.map_err(start)?;
            if !runs {
                return Ok(Vec::new());
            }
            let session = loaded.session(&Backend::open("inline").unwrap()).unwrap();
            let outputs = session.run(&[("x", &floats(&[1.0], &[1]))]).unwrap();
            Ok::<_, Option<String>>(outputs.iter().map(HostArray::values).collect())
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
        results[0].is_ok()
    };
    assert!(compare(&bytes, true));
    // Of two fields the last one counts: elements of the array, or none.
    let elements: Vec<u8> = weights.iter().flat_map(|value| value.to_le_bytes()).collect();
    for (first, last, is_valid) in [(&elements[..], &elements[..4], false), (&elements[..4], &elements, true)]
    {
        let mut tensor =
            TensorProto { name: "d".into(), dims: vec![count as i64], data_type: 1, ..Default::default() };
        tensor.raw_data = first.to_vec().into();
        let again = TensorProto { raw_data: last.to_vec().into(), ..Default::default() };
        let tensor = [tensor.encode_to_vec(), again.encode_to_vec()].concat();
        let mut graph = Vec::new();
        prost::encoding::bytes::encode(5, &tensor, &mut graph);
        let rest = model(self::graph(&["x"], &["y"], vec![node("y = Add x d")]));
        graph.extend(rest.graph.clone().unwrap().encode_to_vec());
        let mut bytes = ModelProto { graph: None, ..rest }.encode_to_vec();
        prost::encoding::bytes::encode(7, &graph, &mut bytes);
        assert_eq!(compare(&bytes, true), is_valid);
    }
    // Changes of everything but the elements of large arrays.
    let is_outside = |at: &usize| bytes[at.saturating_sub(8)..bytes.len().min(at + 8)] != [0x21; 16];
    let ends = [bytes.len() - 1, bytes.len() - 4 * count, bytes.len() / 2, count, 100, 1, 0];
    assert!(!ends.iter().any(|&end| compare(&bytes[..end], false)));
    let near = |name: &[u8]| bytes.windows(name.len()).position(|part| part == name).unwrap();
    let places = [0, near(b"\x42\x01b"), near(b"\x42\x01i"), near(b"\x42\x01c"), bytes.len() - 40];
    let mut valid = 0;
    for at in places.into_iter().flat_map(|at| at.saturating_sub(24)..at + 16).filter(is_outside) {
        for flip in [1, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            valid += usize::from(compare(&changed, false));
        }
    }
    assert!(valid > 0);
}

/// A model `y = (x + a) · b + c`, whose arrays start at these bytes of `data.bin`.
fn with_external(folder: &std::path::Path, offsets: [usize; 3]) -> std::path::PathBuf {
    let entry = |key: &str, value: String| StringStringEntryProto { key: key.into(), value };
    let mut graph =
        graph(&["x"], &["y"], vec![node("s = Add x a"), node("p = Mul s b"), node("y = Add p c")]);
    let mut data = vec![0u8; 256];
    for ((name, offset), values) in
        ["a", "b", "c"].into_iter().zip(offsets).zip([[1f32, 2.0], [3.0, 4.0], [0.5, -0.5]])
    {
        data[offset..][..8].copy_from_slice(values.map(f32::to_le_bytes).as_flattened());
        graph.initializer.push(TensorProto {
            name: name.into(),
            dims: vec![2],
            data_type: 1,
            data_location: 1,
            external_data: vec![entry("location", "data.bin".into()), entry("offset", offset.to_string())],
            ..Default::default()
        });
    }
    std::fs::write(folder.join("data.bin"), data).expect("written");
    let path = folder.join("model.onnx");
    std::fs::write(&path, model(graph).encode_to_vec()).expect("written");
    path
}

/// Aligned arrays are parts of the file, the others are copied.
#[test]
fn mapped_weights_are_those_of_the_file() {
    for (offsets, is_mapped) in [([0, 64, 128], true), ([4, 68, 100], false), ([8, 192, 16], true)] {
        let folder = tempfile::tempdir().unwrap();
        let path = with_external(folder.path(), offsets);
        // SAFETY: nothing writes the files while the model lives.
        let mapped = unsafe { Model::load_mapped(&path, OnnxLimits::default()) }.unwrap();
        #[cfg(target_os = "linux")]
        assert_eq!(
            std::fs::read_to_string("/proc/self/maps").unwrap().contains(folder.path().to_str().unwrap()),
            is_mapped
        );
        for backend in ["inline", "multicore", "interpreter"] {
            let session = mapped.session(&Backend::open(backend).unwrap()).unwrap();
            for rows in [1, 3] {
                let x = floats(&vec![1.0; 2 * rows], &[rows, 2]);
                let found = session.run(&[("x", &x)]).unwrap();
                assert_eq!(found[0].values(), [6.5, 11.5].repeat(rows), "{backend}");
            }
        }
    }
}

#[test]
fn inputs_have_names_types_and_axes() {
    let mut graph = graph(&[], &["y"], vec![node("y = Relu x")]);
    graph.input = vec![value("x", Some(&["batch", "3", "-1", "0", "?", ""]))];
    let inputs = load(graph).unwrap().inputs();
    let unknown = || Dim::Unknown;
    let dims = vec![Dim::Named("batch".into()), Dim::Known(3), unknown(), unknown(), unknown(), unknown()];
    assert_eq!(
        (inputs[0].name.as_str(), inputs[0].dtype, &inputs[0].dims),
        ("x", Some(DType::F32), &Some(dims))
    );
}

#[test]
fn initializers_are_defaults_of_inputs() {
    let model = constant(graph(&["x", "w"], &["y"], vec![node("y = Add x w")]), "w", &floats(&[1.0], &[1]));
    let session = session(model);
    assert_eq!(session.model().inputs().len(), 1);
    let x: HostArray = floats(&[1.0], &[1]);
    assert_eq!(session.run(&[("x", &x)]).unwrap()[0].values(), [2.0]);
    assert_eq!(session.run(&[("x", &x), ("w", &floats(&[5.0], &[1]))]).unwrap()[0].values(), [6.0]);
}

/// A model with the function `Twice(x) = scale * (x + x)` in the domain `own`, called by these nodes.
fn with_function(nodes: Vec<NodeProto>, body: Vec<NodeProto>) -> ModelProto {
    let mut model = model(graph(&["x"], &["y"], nodes));
    model.functions.push(FunctionProto {
        name: "Twice".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        attribute: vec!["scale".into()],
        node: body,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: 13 }],
        ..Default::default()
    });
    model
}

fn call(text: &str) -> NodeProto {
    NodeProto { domain: "own".into(), ..node(text) }
}

fn twice() -> Vec<NodeProto> {
    let mut factor = node("factor = Constant");
    let ref_attr_name = "scale".into();
    factor.attribute.push(AttributeProto {
        name: "value_float".into(),
        ref_attr_name,
        r#type: 1,
        ..Default::default()
    });
    vec![factor, node("x = Add a a"), node("b = Mul x factor")]
}

#[test]
fn functions_of_a_model_are_called() {
    let scaled = |text: &str, f: f32| {
        let mut node = call(text);
        node.attribute.push(AttributeProto { name: "scale".into(), f, r#type: 1, ..Default::default() });
        node
    };
    let model = with_function(vec![scaled("z = Twice x", 3.0), scaled("y = Twice z", 0.5)], twice());
    let session = Model::from_proto(&model).unwrap().session(&Backend::open("inline").unwrap()).unwrap();
    let outputs = session.run(&[("x", &floats(&[1.0, -2.0], &[2]))]).unwrap();
    assert_eq!(outputs[0].values(), [6.0, -12.0]);
}

#[test]
fn functions_that_call_themselves_are_errors() {
    let model = with_function(vec![call("y = Twice x")], vec![call("b = Twice a")]);
    let error = Model::from_proto(&model).err().unwrap().to_string();
    assert!(error.ends_with("calls are nested too deeply"), "{error}");
    let body = vec![call("c = Twice a"), call("b = Twice c")];
    let error = Model::from_proto(&with_function(vec![call("y = Twice x")], body)).err().unwrap().to_string();
    assert!(error.ends_with("calls are nested too deeply"), "{error}");
}
