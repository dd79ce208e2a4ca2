//! Loops and branches whose states and rows are constants.

use arrayjit_onnx::{DType, HostArray};

use crate::build::*;

/// A loop of `steps` steps over the state `c0`, whose body makes `c2` and a row `s` from `c` and `x`.
fn counting(steps: i64, c0: &HostArray, body: Vec<&str>) -> GraphProto {
    let nodes = body.into_iter().chain(["co = Identity ci"]).map(node).collect();
    let body = graph(&["it", "ci", "c"], &["co", "c2", "s"], nodes);
    let looped = subgraph(node("last rows = Loop m _ c0"), "body", body);
    let model = constant(graph(&["x"], &["last", "rows"], vec![looped]), "m", &longs(&[steps], &[]));
    constant(model, "c0", c0)
}

#[test]
fn a_state_that_starts_as_a_constant_changes_from_step_to_step() {
    let one = floats(&[1.0], &[]);
    // The host computes the first counter, a routine of its own the second.
    for (text, states) in [
        ("c2 = Add c one", [1.0, 2.0, 3.0]),
        ("c2 = Softplus c", [std::f64::consts::LN_2, 1.098612, 1.386294]),
    ] {
        let model = counting(3, &floats(&[0.0], &[]), vec![text, "s = Mul x c2"]);
        let session = session(constant(model, "one", &one));
        for _ in 0..2 {
            let outputs = session.run(&[("x", &floats(&[1.0, 2.0], &[2]))]).unwrap();
            assert_close(&outputs[0], &[], &states[2..]);
            assert_close(&outputs[1], &[3, 2], &states.map(|c| [c, 2.0 * c]).concat());
        }
    }
}

#[test]
fn a_condition_on_a_counter_ends_a_loop() {
    let nodes = ["c2 = Add c one", "co = Less c2 most", "s = Add x x"].map(node).into();
    let body = graph(&["it", "ci", "c"], &["co", "c2", "s"], nodes);
    let looped = subgraph(node("last rows = Loop _ _ c0"), "body", body);
    let mut model = graph(&["x"], &["last", "rows"], vec![looped]);
    for (name, value) in [("c0", 0), ("one", 1), ("most", 7)] {
        model = constant(model, name, &longs(&[value], &[]));
    }
    let outputs = session(model).run(&[("x", &floats(&[1.0], &[1]))]).unwrap();
    assert_eq!((outputs[0].values(), outputs[1].dims().to_vec()), (vec![7.0], vec![7, 1]));
}

#[test]
fn a_scan_reads_other_rows_of_a_constant_at_each_step() {
    let body = graph(&["c", "row"], &["c2", "s"], ["s = Exp row", "c2 = Add c s"].map(node).into());
    let scan = int(subgraph(node("last rows = Scan c0 table"), "body", body), "num_scan_inputs", 1);
    let model = graph(&["x"], &["y", "rows"], vec![scan, node("y = Add last x")]);
    let model = constant(model, "c0", &floats(&[0.0], &[1]));
    let session = session(constant(model, "table", &floats(&[0.0, 1.0, 2.0], &[3, 1])));
    let outputs = session.run(&[("x", &floats(&[1.0], &[1]))]).unwrap();
    let powers = [1.0, std::f64::consts::E, 7.389056];
    assert_close(&outputs[0], &[1], &[1.0 + powers.iter().sum::<f64>()]);
    assert_close(&outputs[1], &[3, 1], &powers);
}

#[test]
fn data_choose_between_the_constants_of_branches() {
    let [then_branch, else_branch] = ["a = Identity k1", "b = Identity k2"].map(node).map(|node| {
        let output = node.output[0].clone();
        graph(&[], &[&output], vec![node])
    });
    let choice = subgraph(node("k = If x"), "then_branch", then_branch);
    let choice = subgraph(choice, "else_branch", else_branch);
    let mut model = graph(&["x"], &["y", "z"], vec![choice, node("y = Exp k"), node("z = Add k k1")]);
    model = constant(model, "k1", &floats(&[0.0], &[1]));
    let session = session(constant(model, "k2", &floats(&[1.0], &[1])));
    for (x, y, z) in [(1, 1.0, 0.0), (0, std::f64::consts::E, 1.0), (1, 1.0, 0.0)] {
        let x = HostArray::from_bytes(DType::Bool, [], &[x]).unwrap();
        let outputs = session.run(&[("x", &x)]).unwrap();
        assert_close(&outputs[0], &[1], &[y]);
        assert_close(&outputs[1], &[1], &[z]);
    }
}

#[test]
fn the_shape_of_an_input_decides_that_of_a_constant() {
    let nodes = ["shape = Shape x", "all = Expand one shape", "y = Exp all", "z = Add y x"].map(node).into();
    let session = session(constant(graph(&["x"], &["z"], nodes), "one", &floats(&[0.0], &[1])));
    for size in [2, 3, 2] {
        let outputs = session.run(&[("x", &floats(&vec![1.0; size], &[size]))]).unwrap();
        assert_close(&outputs[0], &[size], &vec![2.0; size]);
    }
}

#[test]
fn a_loop_without_steps_has_rows_of_the_right_shape() {
    let nodes = ["c2 = Add c c", "s = Mul c2 x", "co = Identity ci"].map(node);
    for declared in [None, Some(["2", "3"].as_slice()), Some(&["a", "b"])] {
        let mut body = graph(&["it", "ci", "c"], &["co", "c2", "s"], nodes.to_vec());
        body.output[2] = value("s", declared);
        let looped = subgraph(node("last rows = Loop m _ c0"), "body", body);
        let joined = int(node("y = Concat rows head"), "axis", 0);
        let session = session(graph(&["m", "c0", "x", "head"], &["y", "rows", "last"], vec![looped, joined]));
        let (c0, x) = (floats(&[1.0; 6], &[2, 3]), floats(&[2.0], &[1]));
        let head = floats(&[5.0; 6], &[1, 2, 3]);
        for (steps, rows) in [(0, 0), (2, 2), (-1, 0)] {
            let inputs = [("m", &longs(&[steps], &[])), ("c0", &c0), ("x", &x), ("head", &head)];
            let outputs = session.run(&inputs).unwrap();
            assert_eq!(outputs[1].dims().to_vec(), [rows, 2, 3]);
            assert_eq!(outputs[0].dims().to_vec(), [rows + 1, 2, 3]);
            assert_eq!(outputs[2].values(), vec![if rows == 0 { 1.0 } else { 4.0 }; 6]);
        }
    }
}

#[test]
fn a_scan_without_steps_has_rows_along_their_axis() {
    let body = graph(&["c", "row"], &["c2", "s"], ["c2 = Add c row", "s = Exp c2"].map(node).into());
    let scan = int(subgraph(node("last rows = Scan c0 x"), "body", body), "num_scan_inputs", 1);
    let scan = ints(ints(scan, "scan_input_axes", &[1]), "scan_output_axes", &[1]);
    let session =
        session(constant(graph(&["x"], &["last", "rows"], vec![scan]), "c0", &floats(&[3.0; 2], &[2])));
    let outputs = session.run(&[("x", &floats(&[], &[2, 0]))]).unwrap();
    assert_eq!((outputs[0].values(), outputs[1].dims().to_vec()), (vec![3.0; 2], vec![2, 0]));
}

/// A loop of `steps` steps over two states, which change places, with the number of the step and `x` from
/// outside; `more` are nodes that compute `z` from the states.
fn exchanging(steps: i64, more: &[&str]) -> GraphProto {
    let own =
        ["n = Cast it", "b2 = Mul a x", "a1 = Add b n", "a2 = Add a1 z", "s = Sub a2 b2", "co = Identity ci"];
    let nodes = more.iter().chain(&own).map(|text| match node(text) {
        cast if cast.op_type == "Cast" => int(cast, "to", 1),
        other => other,
    });
    let body = graph(&["it", "ci", "a", "b"], &["co", "a2", "b2", "s"], nodes.collect());
    let looped = subgraph(node("last_a last_b rows = Loop m _ a0 b0"), "body", body);
    let model = graph(&["x", "a0", "b0"], &["last_a", "last_b", "rows"], vec![looped]);
    constant(model, "m", &longs(&[steps], &[]))
}

#[test]
fn a_loop_in_the_graph_has_the_values_of_steps_that_the_host_walks() {
    let input = |values: [f32; 3]| floats(&values, &[3]);
    let (x, a, b) = (input([0.5, -1.0, 0.25]), input([1.0, 2.0, 3.0]), input([-1.0, 0.5, 2.0]));
    for steps in [1, 2, 7] {
        // `NonZero` needs the values of each step on the host.
        let forms = [vec!["z = Abs a"], vec!["nonzero = NonZero a", "size = Size nonzero", "z = Abs a"]];
        let [found, expected] = forms.map(|more| {
            let session = session(exchanging(steps, &more));
            session.run(&[("x", &x), ("a0", &a), ("b0", &b)]).unwrap()
        });
        assert_eq!(found[2].dims().to_vec(), [steps as usize, 3]);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.values(), expected.values(), "{steps} steps");
        }
    }
}

/// Square roots of `x` by Newton's method: a loop that goes on until they change by `least` at most; `more`
/// are nodes that compute `z` from the present roots.
fn newton(most: Option<i64>, least: f32, more: &[&str]) -> GraphProto {
    let own = [
        "q = Div x c",
        "sum = Add c q",
        "c2 = Mul sum half",
        "difference = Sub c2 z",
        "size = Abs difference",
        "change = ReduceMax size",
        "co = Greater change least",
        "rows = Identity change",
    ];
    let nodes = more.iter().chain(&own).map(|text| match node(text) {
        reduced if reduced.op_type == "ReduceMax" => int(reduced, "keepdims", 0),
        other => other,
    });
    let body = graph(&["it", "ci", "c"], &["co", "c2", "rows"], nodes.collect());
    let text = if most.is_some() { "roots changes = Loop m _ x" } else { "roots changes = Loop _ _ x" };
    let mut model = graph(&["x"], &["roots", "changes"], vec![subgraph(node(text), "body", body)]);
    if let Some(most) = most {
        model = constant(model, "m", &longs(&[most], &[]));
    }
    constant(constant(model, "half", &floats(&[0.5], &[])), "least", &floats(&[least], &[]))
}

#[test]
fn a_condition_on_data_ends_a_loop_in_the_graph() {
    let x = floats(&[1.0, 2.0, 9.0], &[3]);
    // At most 3 steps, at most 100, and as many as it takes, which is 5.
    for (most, steps) in [(Some(3), 3), (Some(100), 5), (None, 5)] {
        // `NonZero` needs the values of each step on the host.
        let forms = [vec!["z = Identity c"], vec!["z = Identity c", "nonzero = NonZero c"]];
        let [found, expected] = forms.map(|more| {
            let session = session(newton(most, 1e-4, &more));
            let first = session.run(&[("x", &floats(&[4.0, 4.0, 4.0], &[3]))]).unwrap();
            assert_eq!(first[1].dims().to_vec(), [if most == Some(3) { 3 } else { 5 }]);
            session.run(&[("x", &x)]).unwrap()
        });
        assert_eq!(found[1].dims().to_vec(), [steps]);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.values(), expected.values(), "at most {most:?} steps");
        }
    }
}

#[test]
fn a_loop_without_end_is_an_error() {
    // The change of a root is never below -1.
    let error = session(newton(None, -1.0, &["z = Identity c"])).run(&[("x", &floats(&[2.0], &[1]))]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("node `roots`, Loop") && error.contains("OnnxLimits::steps"), "{error}");
}

#[test]
fn loops_stand_in_loops() {
    let inner =
        graph(&["j", "cj", "d"], &["dj", "d2"], ["d2 = Add d c", "dj = Identity cj"].map(node).into());
    let inner = subgraph(node("sum = Loop three _ x"), "body", inner);
    let nodes = vec![inner, node("c2 = Mul sum half"), node("co = Identity ci")];
    let body = graph(&["it", "ci", "c"], &["co", "c2", "sum"], nodes);
    let looped = subgraph(node("last rows = Loop two _ x"), "body", body);
    let mut model = graph(&["x"], &["last", "rows"], vec![looped]);
    for (name, value) in [("two", 2), ("three", 3)] {
        model = constant(model, name, &longs(&[value], &[]));
    }
    let session = session(constant(model, "half", &floats(&[0.5], &[])));
    let outputs = session.run(&[("x", &floats(&[1.0, -2.0], &[2]))]).unwrap();
    // 1 + 3 · 1 = 4 and half of it; then 1 + 3 · 2 = 7.
    assert_eq!(outputs[0].values(), [3.5, -7.0]);
    assert_eq!(outputs[1].values(), [4.0, -8.0, 7.0, -14.0]);
}

#[test]
fn each_step_of_a_loop_draws_its_own_numbers() {
    let draw = node("s = RandomUniformLike c");
    let nodes = vec![draw, node("c2 = Add c s"), node("co = Identity ci")];
    let body = graph(&["it", "ci", "c"], &["co", "c2", "s"], nodes);
    let looped = subgraph(node("last rows = Loop m _ x"), "body", body);
    let session = session(constant(graph(&["x"], &["last", "rows"], vec![looped]), "m", &longs(&[3], &[])));
    let rows = session.run(&[("x", &floats(&[0.0], &[1]))]).unwrap()[1].values();
    assert!(rows[0] != rows[1] && rows[1] != rows[2], "{rows:?}");
}

#[test]
fn a_loop_whose_state_grows_has_the_shape_of_the_last_step() {
    let nodes = vec![int(node("c2 = Concat c x"), "axis", 0), node("co = Identity ci")];
    let body = graph(&["it", "ci", "c"], &["co", "c2"], nodes);
    let looped = subgraph(node("last = Loop m _ x"), "body", body);
    let session = session(constant(graph(&["x"], &["last"], vec![looped]), "m", &longs(&[3], &[])));
    let outputs = session.run(&[("x", &floats(&[1.0, 2.0], &[2]))]).unwrap();
    assert_eq!(outputs[0].values(), [1.0, 2.0].repeat(4));
}
