//! Orders, extremes, and elements by position.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{HostArray, InferenceSession};

use crate::build::*;

const NAN: f32 = f32::NAN;

fn outputs(session: &InferenceSession, inputs: &[(&str, &HostArray)]) -> Vec<HostArray> {
    session.run(inputs).unwrap()
}

#[test]
fn nan_is_the_largest_number_of_an_order() {
    let x = floats(&[1.0, NAN, f32::INFINITY, -0.0, NAN, 0.0], &[6]);
    for (largest, order) in [(1, [1, 4, 2, 0, 3, 5]), (0, [3, 5, 0, 2, 1, 4])] {
        for count in [0, 1, 3, 6] {
            let top = int(int(node("v i = TopK x k"), "axis", 0), "largest", largest);
            let session =
                session(constant(graph(&["x"], &["v", "i"], vec![top]), "k", &longs(&[count], &[1])));
            let found = outputs(&session, &[("x", &x)]);
            let order = &order[..count as usize];
            assert_eq!(found[1].as_slice::<i64>().unwrap(), order);
            let expected: Vec<f64> = order.iter().map(|&at| x.values()[at as usize]).collect();
            assert_close(&found[0], &[order.len()], &expected);
        }
    }
}

#[test]
fn the_extreme_of_an_axis_with_nan_is_a_nan() {
    let rows = [[2.0, NAN, 3.0, NAN], [NAN; 4], [1.0, 4.0, 4.0, -1.0], [f32::NEG_INFINITY; 4]];
    let x = floats(rows.as_flattened(), &[4, 4]);
    for (op, last, expected) in [
        ("ArgMax", 0, [1, 0, 1, 0]),
        ("ArgMax", 1, [3, 3, 2, 3]),
        ("ArgMin", 0, [1, 0, 3, 0]),
        ("ArgMin", 1, [3, 3, 3, 3]),
    ] {
        let found = int(int(node(&format!("y = {op} x")), "axis", 1), "select_last_index", last);
        let session = session(graph(&["x"], &["y"], vec![found]));
        assert_eq!(outputs(&session, &[("x", &x)])[0].as_slice::<i64>().unwrap(), expected, "{op} {last}");
    }
    let session = session(graph(&["x"], &["y"], vec![int(node("y = Hardmax x"), "axis", 1)]));
    let chosen = outputs(&session, &[("x", &x)])[0].values();
    assert_eq!(chosen, [1, 0, 1, 0].map(|at| [0, 1, 2, 3].map(|i| f64::from(i == at))).concat());
}

#[test]
fn an_axis_without_elements_has_no_extreme() {
    let session = session(graph(&["x"], &["y"], vec![int(node("y = ArgMax x"), "axis", 1)]));
    let error = session.run(&[("x", &floats(&[], &[2, 0]))]).unwrap_err().to_string();
    assert_eq!(error, "node `y`, ArgMax of opset 17: operand 0: axis 1 of [2, 0] has no elements");
    assert_eq!(outputs(&session, &[("x", &floats(&[], &[0, 2]))])[0].dims().to_vec(), [0, 1]);
}

#[test]
fn distinct_elements_are_sorted_with_nan_last() {
    let session = session(graph(&["x"], &["y", "n"], vec![node("y _ _ n = Unique x")]));
    let found = outputs(&session, &[("x", &floats(&[NAN, 1.0, -NAN, 0.0, -0.0], &[5]))]);
    assert_close(&found[0], &[3], &[0.0, 1.0, f64::NAN]);
    assert_eq!(found[1].values(), [2.0, 1.0, 2.0]);
    let large = HostArray::from_slice(&[u64::MAX, 1, 1 << 63], [3]).unwrap();
    let found = outputs(&session, &[("x", &large)]);
    assert_eq!(found[0].as_slice::<u64>().unwrap(), [1, 1 << 63, u64::MAX]);
}

/// The result of a node that reads the inputs `x`, `i` and perhaps `u`.
fn by_position(text: &str, inputs: &[(&str, &HostArray)]) -> Vec<f64> {
    let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
    outputs(&session(graph(&names, &["y"], vec![node(text)])), inputs)[0].values()
}

#[test]
fn positions_outside_read_zero_and_write_nothing() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let tuples = longs(&[0, 3, 1, -1, -3, 0, 0, -4, 2, 0], &[5, 2]);
    assert_eq!(by_position("y = GatherND x i", &[("x", &x), ("i", &tuples)]), [0.0, 6.0, 0.0, 0.0, 0.0]);
    let rows = longs(&[-1, 2, -3], &[3, 1]);
    let expected = [4.0, 5.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(by_position("y = GatherND x i", &[("x", &x), ("i", &rows)]), expected);
    let i = longs(&[5, -1, 0, -3, 1, 2], &[2, 3]);
    assert_eq!(
        by_position("y = GatherElements x i", &[("x", &x), ("i", &i)]),
        [0.0, 5.0, 3.0, 0.0, 5.0, 0.0]
    );
    let updates = floats(&[10.0, 20.0, 30.0, 40.0, 50.0], &[5]);
    let written = by_position("y = ScatterND x i u", &[("x", &x), ("i", &tuples), ("u", &updates)]);
    assert_eq!(written, [1.0, 2.0, 3.0, 4.0, 5.0, 20.0]);
}

#[test]
fn a_constant_position_outside_is_an_error() {
    for (text, i) in [
        ("y = Gather x i", longs(&[3], &[1])),
        ("y = GatherElements x i", longs(&[0, 2, 0], &[1, 3])),
        ("y = GatherND x i", longs(&[0, 3], &[1, 2])),
        ("y = ScatterND x i u", longs(&[0, 3], &[1, 2])),
        ("y = ScatterElements x i u", longs(&[-3], &[1, 1])),
    ] {
        let session = session(constant(graph(&["x", "u"], &["y"], vec![node(text)]), "i", &i));
        let x = floats(&[1.0; 6], &[2, 3]);
        let u = floats(&[1.0], if text.contains("ND") { &[1] } else { &[1, 1] });
        let error = session.run(&[("x", &x), ("u", &u)]).unwrap_err().to_string();
        assert!(error.contains("operand 1: position ") && error.contains(" is outside of "), "{error}");
    }
}

#[test]
fn the_last_of_equal_positions_counts() {
    let x = floats(&[0.0; 6], &[2, 3]);
    let u = floats(&[1.0, 2.0, NAN, 4.0, -0.0], &[5]);
    let i = longs(&[1, 1, 0, 2, 1, 1, 1, -2, 0, 2], &[5, 2]);
    let inputs = [("x", &x), ("i", &i), ("u", &u)];
    let found = by_position("y = ScatterND x i u", &inputs);
    assert_eq!(found, [0.0, 0.0, -0.0, 0.0, 4.0, 0.0]);
    assert!(found[2].is_sign_negative());
    let u = floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let i = longs(&[1, 0, 1, 0], &[2, 2]);
    let found = by_position("y = ScatterElements x i u", &[("x", &x), ("i", &i), ("u", &u)]);
    assert_eq!(found, [0.0, 4.0, 0.0, 3.0, 0.0, 0.0]);
    let rows = longs(&[1, 1], &[2, 1]);
    let u = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let found = by_position("y = ScatterND x i u", &[("x", &x), ("i", &rows), ("u", &u)]);
    assert_eq!(found, [0.0, 0.0, 0.0, 4.0, 5.0, 6.0]);
}

#[test]
fn updates_may_be_shorter_than_the_array() {
    let x = floats(&[1.0; 6], &[2, 3]);
    let (i, u) = (longs(&[1, 1], &[1, 2]), floats(&[5.0, 6.0], &[1, 2]));
    let inputs = [("x", &x), ("i", &i), ("u", &u)];
    for (reduction, expected) in
        [("add", [6.0, 7.0]), ("mul", [5.0, 6.0]), ("max", [5.0, 6.0]), ("min", [1.0; 2])]
    {
        let scatter = text(node("y = ScatterElements x i u"), "reduction", reduction);
        let session = session_of_opset(18, graph(&["x", "i", "u"], &["y"], vec![scatter]));
        let expected = [1.0, 1.0, 1.0, expected[0], expected[1], 1.0];
        assert_eq!(outputs(&session, &inputs)[0].values(), expected, "{reduction}");
    }
}

#[test]
fn letters_of_a_result_that_an_equation_leaves_out_are_sorted() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    for (equation, shape) in [("da", [3, 2]), ("ad", [2, 3]), ("aB", [3, 2]), ("zd", [3, 2])] {
        let einsum = text(node("y = Einsum x"), "equation", equation);
        let found = outputs(&session(graph(&["x"], &["y"], vec![einsum])), &[("x", &x)]);
        assert_eq!(found[0].dims().to_vec(), shape, "{equation}");
        let expected = if shape == [2, 3] { x.values() } else { vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0] };
        assert_eq!(found[0].values(), expected, "{equation}");
    }
    let einsum = text(node("y = Einsum x z"), "equation", "ab,bd");
    let z = floats(&[1.0; 12], &[3, 4]);
    let found = outputs(&session(graph(&["x", "z"], &["y"], vec![einsum])), &[("x", &x), ("z", &z)]);
    assert_close(&found[0], &[2, 4], &[[6.0; 4], [15.0; 4]].concat());
}
