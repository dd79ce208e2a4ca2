//! Sequences of arrays.

use arrayjit_onnx::{DType, HostArray};

use crate::build::*;

#[test]
fn a_loop_appends_to_a_sequence() {
    let body = ["next = Add c x", "more = SequenceInsert list next", "co = Identity ci"].map(node);
    let body = graph(&["it", "ci", "c", "list"], &["co", "next", "more"], body.into());
    let looped = subgraph(node("last rows = Loop m _ x empty"), "body", body);
    let joined = |axis, is_new, text| int(int(node(text), "axis", axis), "new_axis", is_new);
    let nodes = vec![
        node("empty = SequenceEmpty"),
        looped,
        node("count = SequenceLength rows"),
        joined(0, 1, "stack = ConcatFromSequence rows"),
        joined(-1, 0, "flat = ConcatFromSequence rows"),
        joined(-1, 1, "columns = ConcatFromSequence rows"),
    ];
    let session = session(graph(&["x", "m"], &["count", "stack", "flat", "columns"], nodes));
    for steps in [3, 1, 3] {
        let x = floats(&[1.0, 10.0], &[2]);
        let outputs = session.run(&[("x", &x), ("m", &longs(&[steps], &[]))]).unwrap();
        let rows: Vec<f64> = (0..steps).flat_map(|at| [(at + 2) as f64, 10.0 * (at + 2) as f64]).collect();
        let columns: Vec<f64> =
            rows.iter().step_by(2).chain(rows.iter().skip(1).step_by(2)).copied().collect();
        let count = steps as usize;
        assert_eq!(outputs[0].values(), [steps as f64]);
        assert_close(&outputs[1], &[count, 2], &rows);
        assert_close(&outputs[2], &[2 * count], &rows);
        assert_close(&outputs[3], &[2, count], &columns);
    }
    let error =
        session.run(&[("x", &floats(&[1.0], &[1])), ("m", &longs(&[0], &[]))]).unwrap_err().to_string();
    assert_eq!(error, "node `stack`, ConcatFromSequence of opset 17: operand 0: the sequence has no items");
}

/// The arrays at the positions of `[a, b]`, where `a` is 1 and `b` is 2, changed by a node that makes `list`.
fn changed(text: &str, count: usize) -> Result<Vec<f64>, String> {
    let mut nodes = vec![node("first = SequenceConstruct a b"), node(text)];
    let names: Vec<String> = (0..count).map(|at| format!("y{at}")).collect();
    nodes.extend((0..count).map(|at| node(&format!("y{at} = SequenceAt list p{at}"))));
    let outputs: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut model = graph(&["a", "b", "c", "at"], &outputs, nodes);
    for at in 0..count {
        model = constant(model, &format!("p{at}"), &longs(&[at as i64], &[]));
    }
    let inputs = [1.0, 2.0, 3.0].map(|value| floats(&[value], &[]));
    let outputs = session(model).run(&[
        ("a", &inputs[0]),
        ("b", &inputs[1]),
        ("c", &inputs[2]),
        ("at", &longs(&[-2], &[])),
    ]);
    outputs.map(|all| all.iter().flat_map(HostArray::values).collect()).map_err(|error| error.to_string())
}

#[test]
fn items_are_inserted_and_erased_at_positions() {
    assert_eq!(changed("list = SequenceInsert first c", 3).unwrap(), [1.0, 2.0, 3.0]);
    assert_eq!(changed("list = SequenceInsert first c at", 3).unwrap(), [3.0, 1.0, 2.0]);
    assert_eq!(changed("list = SequenceErase first", 1).unwrap(), [1.0]);
    assert_eq!(changed("list = SequenceErase first at", 1).unwrap(), [2.0]);
    assert_eq!(changed("list = Identity first", 2).unwrap(), [1.0, 2.0]);
    let problem = |text, count| changed(text, count).unwrap_err();
    assert!(problem("list = SequenceErase first", 2).ends_with("position 1 is outside of 1 positions"));
    assert!(problem("list = SequenceInsert first at", 1).ends_with("the items of the sequence are f32"));
    assert!(problem("list = Relu first", 1).ends_with("operand 0: it is a sequence, expected an array"));
    assert!(problem("list = Relu a", 1).ends_with("operand 0: it is an array, expected a sequence"));
}

#[test]
fn an_array_is_split_into_a_sequence() {
    let nodes = |text: &str| {
        let axis = text.contains("axis");
        let text = text.trim_end_matches(" axis");
        let split = int(node(text), "axis", i64::from(axis));
        vec![split, node("n = SequenceLength list"), node("y = SequenceAt list zero")]
    };
    let x = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[3, 2]);
    for (text, size, count, shape, items) in [
        ("list = SplitToSequence x", longs(&[], &[0]), 3.0, &[1, 2][..], &[0.0, 1.0][..]),
        ("list = SplitToSequence x size", longs(&[2], &[]), 2.0, &[2, 2], &[0.0, 1.0, 2.0, 3.0]),
        ("list = SplitToSequence x size axis", longs(&[1, 1], &[2]), 2.0, &[3, 1], &[0.0, 2.0, 4.0]),
    ] {
        let model = graph(&["x"], &["n", "y"], nodes(text));
        let model = constant(constant(model, "size", &size), "zero", &longs(&[0], &[]));
        let outputs = session(model).run(&[("x", &x)]).unwrap();
        assert_eq!(outputs[0].values(), [count], "{text}");
        assert_close(&outputs[1], shape, items);
    }
    let mut bare = nodes("list = SplitToSequence x");
    bare[0] = int(bare[0].clone(), "keepdims", 0);
    let model = constant(graph(&["x"], &["n", "y"], bare), "zero", &longs(&[-1], &[]));
    assert_close(&session(model).run(&[("x", &x)]).unwrap()[1], &[2], &[4.0, 5.0]);
}

#[test]
fn branches_choose_between_sequences() {
    let branch = |text: &str| graph(&[], &["list"], vec![node(text)]);
    let choice = subgraph(node("chosen = If c"), "then_branch", branch("list = SequenceConstruct x x"));
    let choice = subgraph(choice, "else_branch", branch("list = SequenceConstruct z"));
    // The condition is computed, so what comes before is cut off with the items.
    let nodes = vec![
        node("z = Exp x"),
        node("pair = SequenceConstruct z x"),
        node("c = Greater x zero"),
        choice,
        int(node("y = ConcatFromSequence chosen"), "axis", 0),
        int(node("w = ConcatFromSequence pair"), "axis", 0),
    ];
    let session = session(constant(graph(&["x"], &["y", "w"], nodes), "zero", &floats(&[0.0], &[1])));
    for (x, y) in [(1.0, vec![1.0, 1.0]), (-1.0, vec![(-1f64).exp()])] {
        let outputs = session.run(&[("x", &floats(&[x], &[1]))]).unwrap();
        assert_close(&outputs[0], &[y.len()], &y);
        assert_close(&outputs[1], &[2], &[f64::from(x).exp(), f64::from(x)]);
    }
}

#[test]
fn a_map_evaluates_its_body_for_each_item() {
    let body = graph(&["item", "other"], &["sum"], vec![node("sum = Add item other")]);
    let nodes = vec![
        node("list = SequenceConstruct x z"),
        subgraph(node("sums = SequenceMap list x"), "body", body),
        int(node("y = ConcatFromSequence sums"), "axis", 0),
    ];
    let session = session(graph(&["x", "z"], &["y"], nodes));
    let outputs = session.run(&[("x", &floats(&[1.0], &[1])), ("z", &floats(&[5.0], &[1]))]).unwrap();
    assert_close(&outputs[0], &[2], &[2.0, 6.0]);
}

#[test]
fn an_output_is_no_sequence() {
    let session = session(graph(&["x"], &["y"], vec![node("y = SequenceConstruct x")]));
    let error = session.run(&[("x", &HostArray::zeros(DType::F32, [1]).unwrap())]).unwrap_err().to_string();
    assert_eq!(error, "output `y`: it is a sequence, expected an array");
}
