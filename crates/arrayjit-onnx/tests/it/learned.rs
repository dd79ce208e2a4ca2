//! Models of `ai.onnx.ml`: labels that are texts, trees that contradict themselves, rows whose number a run
//! gives.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{Backend, HostArray, Model, OnnxError, SessionOptions, ShapePolicy, proto::*};

use crate::build::{NodeProto, floats, graph, int, ints, longs, model, node, value};

/// The node with an attribute of floats.
fn numbers(mut node: NodeProto, name: &str, values: &[f32]) -> NodeProto {
    let floats = values.to_vec();
    node.attribute.push(AttributeProto { name: name.into(), floats, r#type: 6, ..Default::default() });
    node
}

/// The node with an attribute of texts.
fn texts(mut node: NodeProto, name: &str, values: &[&str]) -> NodeProto {
    let strings = values.iter().map(|value| value.as_bytes().to_vec().into()).collect();
    node.attribute.push(AttributeProto { name: name.into(), strings, r#type: 8, ..Default::default() });
    node
}

fn learned(text: &str) -> NodeProto {
    NodeProto { domain: "ai.onnx.ml".into(), ..node(text) }
}

fn load(mut proto: ModelProto) -> Result<Model, OnnxError> {
    proto.opset_import.push(OperatorSetIdProto { domain: "ai.onnx.ml".into(), version: 3 });
    Model::from_proto(&proto)
}

fn run(model: &Model, x: &HostArray) -> Result<Vec<HostArray>, OnnxError> {
    model.session(&Backend::open("inline").unwrap()).unwrap().run(&[("x", x)])
}

/// Three classes of points of a plane: left, right, above.
fn classifier() -> NodeProto {
    let node = learned("label scores = LinearClassifier x");
    let node = numbers(node, "coefficients", &[-1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    texts(numbers(node, "intercepts", &[0.0, 0.0, 0.5]), "classlabels_strings", &["left", "right", "above"])
}

#[test]
fn labels_that_are_texts_are_their_numbers() {
    let map = texts(learned("map = ZipMap scores"), "classlabels_strings", &["left", "right", "above"]);
    let nodes = vec![classifier(), node("name = Identity label"), map];
    let model = load(model(graph(&["x"], &["name", "map"], nodes))).unwrap();
    let outputs = run(&model, &floats(&[3.0, 0.0, -3.0, 0.0, 0.0, 2.0], &[3, 2])).unwrap();
    assert_eq!(outputs[0].values(), [1.0, 0.0, 2.0]);
    assert_eq!(model.labels("name").unwrap()[1], "right");
    assert_eq!(outputs[1].dims().as_slice(), [3, 3]);
    assert_eq!(model.labels("map").unwrap(), ["left", "right", "above"]);
    assert_eq!(model.labels("x"), None);
}

/// Support vector machines for three classes with one vector each on a line.
fn machine() -> NodeProto {
    let node = texts(learned("label scores = SVMClassifier x"), "classlabels_strings", &["a", "b", "c"]);
    let node = numbers(ints(node, "vectors_per_class", &[1, 1, 1]), "support_vectors", &[-1.0, 0.0, 1.0]);
    numbers(numbers(node, "coefficients", &[1.0, -1.0, -1.0, 1.0, 1.0, -1.0]), "rho", &[-0.5, 0.0, 0.5])
}

#[test]
fn machines_decide_between_pairs_of_classes() {
    let proto = model(graph(&["x"], &["label", "scores"], vec![machine()]));
    let model = load(proto).unwrap();
    let outputs = run(&model, &floats(&[-2.0, 0.0, 2.0], &[3, 1])).unwrap();
    // The first row has the sums 1.5, 4 and 2.5 for the pairs ab, ac and bc.
    assert_eq!(outputs[1].values(), [1.5, 4.0, 2.5, -0.5, 0.0, 0.5, -2.5, -4.0, -1.5]);
    assert_eq!(outputs[0].values(), [0.0, 1.0, 2.0]);
    assert_eq!(model.labels("label").unwrap(), ["a", "b", "c"]);
}

/// Numbers that do not fit the classes are errors that name the attribute, also where their sum overflows.
#[test]
fn machines_that_contradict_themselves_are_errors() {
    let x = floats(&[1.0, 2.0], &[2, 1]);
    for (name, text) in
        [("rho", "a float for each pair"), ("coefficients", "2 rows of 3"), ("support_vectors", "3 rows")]
    {
        let mut node = machine();
        node.attribute.iter_mut().filter(|attribute| attribute.name == name).for_each(|attribute| {
            attribute.floats.push(1.0);
        });
        let found = load(model(graph(&["x"], &["label"], vec![node])));
        let error = run(&found.unwrap(), &x).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(text), "{error}");
    }
    for counts in [&[i64::MAX, i64::MAX, 3][..], &[-1, 2, 2], &[3], &[]] {
        let mut node = machine();
        node.attribute.retain(|attribute| attribute.name != "vectors_per_class");
        let node = ints(node, "vectors_per_class", counts);
        assert!(run(&load(model(graph(&["x"], &["label"], vec![node]))).unwrap(), &x).is_err(), "{counts:?}");
    }
}

#[test]
fn an_encoder_to_texts_gives_their_numbers_and_that_of_others() {
    let encoder = ints(learned("name = LabelEncoder x"), "keys_int64s", &[4, 2]);
    let encoder = texts(encoder, "values_strings", &["four", "two"]);
    let model = load(model(graph(&["x"], &["name"], vec![encoder]))).unwrap();
    let outputs = run(&model, &longs(&[2, 7, 4], &[3])).unwrap();
    assert_eq!(outputs[0].values(), [1.0, 2.0, 0.0]);
    assert_eq!(model.labels("name").unwrap(), ["four", "two", "_Unused"]);
}

#[test]
fn texts_as_operands_are_rejected_with_the_node() {
    let nodes = vec![classifier(), node("y = Cast label")];
    let error = load(model(graph(&["x"], &["y"], nodes))).err().unwrap().to_string();
    assert_eq!(error, "node `y`, Cast of opset 17: an operand of texts is not supported");
}

#[test]
fn categories_that_are_texts_are_rejected_with_the_attribute() {
    let encoder = texts(learned("y = OneHotEncoder x"), "cats_strings", &["a", "b"]);
    let model = load(model(graph(&["x"], &["y"], vec![encoder]))).unwrap();
    let error = run(&model, &longs(&[1], &[1])).unwrap_err().to_string();
    assert!(error.starts_with("node `y`, OneHotEncoder of opset 3: attribute `cats_int64s`"), "{error}");
}

/// A tree of one comparison and two leaves, with changed columns.
fn tree(feature: i64, when_true: i64) -> NodeProto {
    let node = learned("y = TreeEnsembleRegressor x");
    let node = ints(ints(node, "nodes_treeids", &[0, 0, 0]), "nodes_nodeids", &[0, 1, 2]);
    let node = ints(node, "nodes_featureids", &[feature, 0, 0]);
    let node = texts(node, "nodes_modes", &["BRANCH_LEQ", "LEAF", "LEAF"]);
    let node = numbers(node, "nodes_values", &[0.5, 0.0, 0.0]);
    let node = ints(ints(node, "nodes_truenodeids", &[when_true, 0, 0]), "nodes_falsenodeids", &[2, 0, 0]);
    let node = ints(ints(node, "target_treeids", &[0, 0]), "target_nodeids", &[1, 2]);
    numbers(ints(int(node, "n_targets", 1), "target_ids", &[0, 0]), "target_weights", &[10.0, 20.0])
}

#[test]
fn trees_that_contradict_themselves_are_errors() {
    let x = floats(&[0.0, 0.5, 1.0, f32::NAN], &[4, 1]);
    let outcome = |node: NodeProto| {
        let model = load(model(graph(&["x"], &["y"], vec![node]))).unwrap();
        run(&model, &x).map(|outputs| outputs[0].values()).map_err(|error| error.to_string())
    };
    assert_eq!(outcome(tree(0, 1)).unwrap(), [10.0, 10.0, 20.0, 20.0]);
    for (node, problem) in [
        (tree(3, 1), "feature 3 is none of 1"),
        (tree(-1, 1), "attribute `nodes_featureids`: expected features from 0"),
        (tree(0, 7), "attribute `nodes_truenodeids`: expected nodes of the tree; it has no node 7"),
    ] {
        let error = outcome(node).unwrap_err();
        assert!(error.contains("node `y`, TreeEnsembleRegressor") && error.contains(problem), "{error}");
    }
}

/// The rows go down a chain of comparisons, whose length decides how the steps are compiled.
#[test]
fn trees_of_any_depth_are_evaluated() {
    for depth in [1i64, 31, 32, 33, 200] {
        let count = 2 * depth as usize + 1;
        let node = learned("y = TreeEnsembleRegressor x");
        let numbered: Vec<i64> = (0..count as i64).collect();
        let node = ints(ints(node, "nodes_treeids", &vec![0; count]), "nodes_nodeids", &numbered);
        // Splits have even numbers, and leaves odd ones and the last.
        let is_split = |at: usize| at.is_multiple_of(2) && at + 1 < count;
        let modes: Vec<&str> = (0..count).map(|at| if is_split(at) { "BRANCH_LT" } else { "LEAF" }).collect();
        let thresholds: Vec<f32> = (0..count).map(|at| (at / 2) as f32 + 1.0).collect();
        let ways = |more: i64| (0..count as i64).map(|at| (at + more).min(2 * depth)).collect::<Vec<_>>();
        let node = ints(texts(node, "nodes_modes", &modes), "nodes_featureids", &vec![0; count]);
        let node = numbers(node, "nodes_values", &thresholds);
        let node = ints(ints(node, "nodes_truenodeids", &ways(1)), "nodes_falsenodeids", &ways(2));
        let leaves: Vec<i64> = (0..count).filter(|&at| !is_split(at)).map(|at| at as i64).collect();
        let weights: Vec<f32> = (0..leaves.len()).map(|at| at as f32).collect();
        let node = ints(ints(node, "target_treeids", &vec![0; leaves.len()]), "target_nodeids", &leaves);
        let node = ints(int(node, "n_targets", 1), "target_ids", &vec![0; leaves.len()]);
        let node = numbers(node, "target_weights", &weights);
        let model = load(model(graph(&["x"], &["y"], vec![node]))).unwrap();
        let x: Vec<f32> = (0..depth + 3).map(|at| at as f32).collect();
        let expected: Vec<f64> = (0..depth + 3).map(|at| at.min(depth) as f64).collect();
        let outputs = run(&model, &floats(&x, &[x.len(), 1])).unwrap();
        assert_eq!(outputs[0].values(), expected, "depth {depth}");
    }
}

#[test]
fn one_compilation_serves_any_number_of_rows() {
    let label =
        ints(ints(learned("l = LabelEncoder k"), "keys_int64s", &[0, 1, 2]), "values_int64s", &[5, 6, 7]);
    let scaler = numbers(learned("s = Scaler x"), "offset", &[1.0]);
    let scaler = numbers(scaler, "scale", &[2.0]);
    let rows = NodeProto { input: vec!["s".into()], ..tree(0, 1) };
    let classes = ints(learned("k p = LinearClassifier s"), "classlabels_ints", &[0, 1, 2]);
    let classes =
        numbers(numbers(classes, "coefficients", &[1.0, -1.0, 0.0]), "intercepts", &[0.0, 0.0, 1.0]);
    let mut graph =
        graph(&[], &["y", "l", "n"], vec![scaler, rows, classes, label, learned("n = Normalizer p")]);
    graph.input = vec![value("x", Some(&["rows", "1"]))];
    let model = load(model(graph)).unwrap();
    let backend = Backend::open("inline").unwrap();
    let options = SessionOptions::new().shapes(ShapePolicy::Symbolic).bound("rows", 8);
    let (sized, exact) = (model.session_with(&backend, options).unwrap(), model.session(&backend).unwrap());
    assert_eq!(sized.exact_dimensions().unwrap().len(), 0);
    for count in [2, 5, 8] {
        let values: Vec<f32> = (0..count).map(|at| at as f32 / 2.0 - 0.5).collect();
        let x = floats(&values, &[count, 1]);
        let [found, expected] = [&sized, &exact].map(|session| session.run(&[("x", &x)]).unwrap());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.dims(), found.values()), (expected.dims(), expected.values()));
        }
    }
}
