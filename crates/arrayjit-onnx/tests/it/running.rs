//! Shapes, constants, branches and loops of models that run.

use arrayjit_onnx::{DType, HostArray};

use crate::build::*;

#[test]
fn a_session_takes_inputs_of_several_shapes() {
    let nodes = vec![node("shape = Shape x"), node("flat = Reshape x wanted"), node("y = Add flat flat")];
    let session = session(constant(graph(&["x"], &["y", "shape"], nodes), "wanted", &longs(&[-1], &[1])));
    for rows in [1, 2, 3, 2] {
        let x = floats(&vec![1.5; rows * 2], &[rows, 2]);
        let outputs = session.run(&[("x", &x)]).unwrap();
        assert_eq!(outputs[0].values(), vec![3.0; rows * 2]);
        assert_eq!(outputs[1].values(), [rows as f64, 2.0]);
    }
}

#[test]
fn a_shape_that_is_an_input_is_read_on_the_host() {
    let session = session(graph(&["x", "shape"], &["y"], vec![node("y = Reshape x shape")]));
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[6]);
    for shape in [[2, 3], [3, 2], [1, 6], [2, 3]] {
        let outputs = session.run(&[("x", &x), ("shape", &longs(&shape, &[2]))]).unwrap();
        assert_eq!(outputs[0].dims().to_vec(), shape.map(|size| size as usize));
        assert_eq!(outputs[0].values(), x.values());
    }
}

#[test]
fn a_shape_that_data_decides_cuts_the_graph() {
    let nodes = vec![
        node("doubled = Add x x"),
        node("found = NonZero doubled"),
        node("turned = Transpose found"),
        node("picked = GatherND doubled turned"),
        node("y = Neg picked"),
    ];
    let session = session(graph(&["x"], &["y", "doubled"], nodes));
    for (x, expected) in
        [([0.0, 1.0, 2.0], vec![-2.0, -4.0]), ([0.0; 3], vec![]), ([3.0, 0.0, 0.0], vec![-6.0])]
    {
        let outputs = session.run(&[("x", &floats(&x, &[3]))]).unwrap();
        assert_eq!(outputs[0].values(), expected);
        assert_eq!(outputs[1].values(), x.map(|x| f64::from(x) * 2.0));
    }
}

#[test]
fn boxes_are_chosen_again_for_each_input() {
    let nodes = vec![
        node("found = NonMaxSuppression boxes scores most share"),
        node("at = Gather found two"),
        node("turned = Squeeze at last"),
        node("rows = Squeeze boxes first"),
        node("y = Gather rows turned"),
    ];
    let nodes =
        nodes.into_iter().enumerate().map(|(at, node)| if at == 1 { int(node, "axis", 1) } else { node });
    let mut graph = graph(&["boxes", "scores"], &["y"], nodes.collect());
    for (name, value) in [("most", 2), ("two", 2), ("last", 1), ("first", 0)] {
        graph = constant(graph, name, &longs(&[value], &[1]));
    }
    let session = session(constant(graph, "share", &floats(&[0.5], &[1])));
    for shift in 0..100 {
        let shift = shift as f32;
        let corners = [0.0, 0.0, 2.0, 2.0, 0.0, 0.1, 2.0, 2.1, 5.0, 5.0, 6.0, 6.0].map(|at| at + shift);
        let boxes = floats(&corners, &[1, 3, 4]);
        let scores = floats(&[0.5, 0.25, 0.75 + shift], &[1, 1, 3]);
        let outputs = session.run(&[("boxes", &boxes), ("scores", &scores)]).unwrap();
        let expected = [&corners[8..], &corners[..4]].concat();
        assert_eq!(outputs[0].values(), expected.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    }
}

#[test]
fn a_branch_sees_the_values_around_it() {
    let then_branch = graph(&[], &["a"], vec![node("a = Mul doubled x")]);
    let else_branch = graph(&[], &["b"], vec![node("b = Sub x x")]);
    let choice = subgraph(node("y = If positive"), "then_branch", then_branch);
    let choice = subgraph(choice, "else_branch", else_branch);
    let sum = int(node("sum = ReduceSum x"), "keepdims", 0);
    let nodes = vec![node("doubled = Add x x"), sum, node("positive = Greater sum zero"), choice];
    let session = session(constant(graph(&["x"], &["y"], nodes), "zero", &floats(&[0.0], &[])));
    for (x, expected) in [([1.0, 2.0], [2.0, 8.0]), ([-1.0, -2.0], [0.0, 0.0]), ([3.0, 0.0], [18.0, 0.0])] {
        assert_eq!(session.run(&[("x", &floats(&x, &[2]))]).unwrap()[0].values(), expected);
    }
}

#[test]
fn a_loop_runs_until_its_condition_is_false() {
    let body = vec![
        node("doubled = Add state state"),
        int(node("most = ReduceMax doubled"), "keepdims", 0),
        node("more = Less most limit"),
        node("seen = Identity doubled"),
    ];
    let body = graph(&["step", "go", "state"], &["more", "doubled", "seen"], body);
    let nodes = vec![subgraph(node("last all = Loop _ _ x"), "body", body)];
    let session = session(constant(graph(&["x"], &["last", "all"], nodes), "limit", &floats(&[10.0], &[])));
    for (x, steps) in [(1.0, 4), (6.0, 1), (1.0, 4)] {
        let outputs = session.run(&[("x", &floats(&[x], &[1]))]).unwrap();
        assert_eq!(outputs[0].values(), [f64::from(x) * 2f64.powi(steps)]);
        assert_eq!(outputs[1].dims().to_vec(), [steps as usize, 1]);
    }
}

#[test]
fn a_loop_of_too_many_steps_is_an_error() {
    let body = vec![node("more = Identity go"), node("next = Identity state")];
    let body = graph(&["step", "go", "state"], &["more", "next"], body);
    let nodes = vec![subgraph(node("last = Loop most _ x"), "body", body)];
    let session = session(constant(graph(&["x"], &["last"], nodes), "most", &longs(&[1 << 62], &[])));
    let error = session.run(&[("x", &floats(&[1.0], &[1]))]).unwrap_err().to_string();
    assert!(error.contains("Loop of opset 17: ") && error.contains("`OnnxLimits::steps` allows"), "{error}");
}

#[test]
fn a_convolution_has_bias_groups_and_uneven_margins() {
    let conv = ints(int(node("y = Conv x w b"), "group", 2), "pads", &[1, 0, 0, 1]);
    let model = graph(&["x"], &["y"], vec![ints(conv, "strides", &[2, 1])]);
    let model = constant(model, "w", &floats(&[1.0; 8], &[2, 1, 2, 2]));
    let session = session(constant(model, "b", &floats(&[0.0, 100.0], &[2])));
    let x: Vec<f32> = (0..8).map(|at| at as f32).collect();
    let outputs = session.run(&[("x", &floats(&x, &[1, 2, 2, 2]))]).unwrap();
    assert_eq!(outputs[0].dims().to_vec(), [1, 2, 1, 2]);
    assert_eq!(outputs[0].values(), [1.0, 1.0, 109.0, 105.0]);
}

#[test]
fn arrays_without_elements_and_scalars_work() {
    let nodes = vec![node("both = Concat x z"), node("y = Add both one"), node("n = Size x")];
    let nodes =
        nodes.into_iter().map(|node| if node.op_type == "Concat" { int(node, "axis", 0) } else { node });
    let model = graph(&["x", "z"], &["y", "n"], nodes.collect());
    let session = session(constant(model, "one", &floats(&[1.0], &[])));
    let (empty, two) = (floats(&[], &[0]), floats(&[1.0, 2.0], &[2]));
    let outputs = session.run(&[("x", &empty), ("z", &two)]).unwrap();
    assert_eq!((outputs[0].values(), outputs[1].values()), (vec![2.0, 3.0], vec![0.0]));
    let outputs = session.run(&[("x", &empty), ("z", &empty)]).unwrap();
    assert_eq!((outputs[0].dims().to_vec(), outputs[0].dtype()), (vec![0], DType::F32));
}

/// Logarithms of sums of powers of integers are those of floats, truncated as onnxruntime does.
#[test]
fn integers_have_logarithms_of_sums_of_powers() {
    let nodes = vec![int(node("y = ReduceLogSumExp x axes"), "keepdims", 0)];
    let graph = constant(graph(&["x"], &["y"], nodes), "axes", &longs(&[1], &[1]));
    let x = longs(&[3, 3, 3, 0, 90, 1], &[2, 3]);
    let y = session_of_opset(18, graph).run(&[("x", &x)]).unwrap();
    assert_eq!((y[0].dtype(), y[0].values()), (DType::I64, vec![4.0, 90.0]));
}

#[test]
fn negative_indices_count_from_the_end() {
    let session = session(graph(&["x", "at"], &["y"], vec![node("y = Gather x at")]));
    let x = longs(&[1 << 40, 20, 30], &[3]);
    let outputs = session.run(&[("x", &x), ("at", &longs(&[-1, 0], &[2]))]).unwrap();
    assert_eq!(outputs[0].as_slice::<i64>().unwrap(), [30, 1 << 40]);
}

#[test]
fn a_problem_names_the_node() {
    let session = session(graph(&["x"], &["y"], vec![node("y = MatMul x x")]));
    let error = session.run(&[("x", &floats(&[0.0; 6], &[2, 3]))]).unwrap_err().to_string();
    assert!(error.starts_with("node `y`, MatMul of opset 17: operand 1: "), "{error}");
    let error = session.run(&[("z", &floats(&[], &[0]))]).unwrap_err().to_string();
    assert_eq!(error, "input `z` is unknown; the inputs are x");
    let error = session.run(&[]).unwrap_err().to_string();
    assert_eq!(error, "input `x` has no values; the inputs are x");
}

#[test]
fn named_axes_of_different_sizes_are_no_error_by_themselves() {
    let mut model = graph(&[], &["y"], vec![node("y = Add x z")]);
    model.input = vec![value("x", Some(&["n", "2"])), value("z", Some(&["n", "?"]))];
    let session = session(model);
    let array = |rows: usize| floats(&vec![1.0; rows * 2], &[rows, 2]);
    assert!(session.run(&[("x", &array(3)), ("z", &array(3))]).is_ok());
    assert_close(&session.run(&[("x", &array(3)), ("z", &array(1))]).unwrap()[0], &[3, 2], &[2.0; 6]);
    let error = session.run(&[("x", &array(3)), ("z", &array(4))]).unwrap_err().to_string();
    assert_eq!(error, "node `y`, Add of opset 17: shapes [3, 2] and [4, 2] do not broadcast");
    let error =
        session.run(&[("x", &HostArray::zeros(DType::I32, [3, 2]).unwrap())]).unwrap_err().to_string();
    assert_eq!(error, "input `x` is given i32, expected f32");
}

#[test]
fn a_scan_walks_along_any_axis_in_both_directions() {
    let body = vec![node("next = Add state row"), node("seen = Identity next")];
    let body = graph(&["state", "row"], &["next", "seen"], body);
    let scan = int(subgraph(node("last all = Scan start x"), "body", body), "num_scan_inputs", 1);
    let scan = ints(scan, "scan_input_axes", &[-1]);
    let scan = ints(ints(scan, "scan_input_directions", &[1]), "scan_output_axes", &[1]);
    let session = session(graph(&["start", "x"], &["last", "all"], vec![scan]));
    let (start, x) = (floats(&[0.0, 10.0], &[2]), floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]));
    let outputs = session.run(&[("start", &start), ("x", &x)]).unwrap();
    assert_eq!(outputs[0].values(), [6.0, 25.0]);
    assert_eq!(outputs[1].dims().to_vec(), [2, 3]);
    assert_eq!(outputs[1].values(), [3.0, 5.0, 6.0, 16.0, 21.0, 25.0]);
}

#[test]
fn functions_of_channels_are_folded_into_convolutions() {
    let nodes = || {
        vec![
            node("a = Conv x filters"),
            node("b = BatchNormalization a gain bias mean variance"),
            node("c = Mul two b"),
            node("d = Add c rows"),
            node("e = Add d columns"),
            node("f = Conv x filters"),
            node("y = Add e f"),
        ]
    };
    let values = |count: usize| (0..count).map(|at| 0.25 + at as f32).collect::<Vec<_>>();
    let build = |outputs: &[&str]| {
        let mut graph = graph(&["x"], outputs, nodes());
        for (name, shape) in [("gain", vec![3]), ("bias", vec![3]), ("mean", vec![3]), ("variance", vec![3])]
        {
            graph = constant(graph, name, &floats(&values(3), &shape));
        }
        graph = constant(graph, "filters", &floats(&values(6), &[3, 2, 1]));
        graph = constant(graph, "rows", &floats(&values(3), &[3, 1]));
        graph = constant(graph, "columns", &floats(&values(2), &[2]));
        session(constant(graph, "two", &floats(&[2.0], &[1, 1, 1])))
    };
    let x = floats(&values(4), &[1, 2, 2]);
    let folded = build(&["y"]).run(&[("x", &x)]).unwrap();
    // Values that are outputs too are not folded away.
    let plain = build(&["y", "a", "b", "c", "d"]).run(&[("x", &x)]).unwrap();
    for (a, b) in folded[0].values().into_iter().zip(plain[0].values()) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} instead of {b}");
    }
    let filters = values(6);
    let sum = f64::from(filters[0] * 0.25 + filters[1] * 2.25);
    assert!((plain[1].values()[0] - sum).abs() < 1e-6);
}

#[test]
fn random_numbers_differ_between_runs_and_nodes() {
    let shaped = |text: &str| int(ints(node(text), "shape", &[10_000]), "seed", 7);
    let nodes = vec![
        shaped("a = RandomUniform"),
        shaped("b = RandomNormal"),
        node("kept = Bernoulli half"),
        node("y = Add a zero"),
    ];
    let build = || {
        let graph = constant(
            graph(&["half"], &["y", "a", "b", "kept"], nodes.clone()),
            "zero",
            &floats(&[0.0], &[1]),
        );
        session(graph)
    };
    let half = floats(&[0.5; 10_000], &[10_000]);
    let (one, two) = (build(), build());
    let run = |session: &arrayjit_onnx::InferenceSession| session.run(&[("half", &half)]).unwrap();
    let (first, second, other) = (run(&one), run(&one), run(&two));
    assert_eq!(first[0].values(), first[1].values());
    assert_ne!(first[0].values(), second[0].values());
    assert_eq!(first[0].values(), other[0].values(), "a seed gives the same numbers");
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let [uniform, normal, kept] = [1, 2, 3].map(|at| first[at].values());
    assert!((mean(&uniform) - 0.5).abs() < 0.02 && uniform.iter().all(|x| (0.0..1.0).contains(x)));
    assert!(mean(&normal).abs() < 0.05);
    assert!((mean(&normal.iter().map(|x| x * x).collect::<Vec<_>>()) - 1.0).abs() < 0.1);
    assert!((mean(&kept) - 0.5).abs() < 0.02);
}

#[test]
fn half_of_the_elements_drop_out_in_training() {
    let mut graph = graph(&["x"], &["y", "mask"], vec![node("y mask = Dropout x ratio training")]);
    graph = constant(graph, "ratio", &floats(&[0.5], &[]));
    let yes = HostArray::from_bytes(DType::Bool, [], &[1]).unwrap();
    let session = session(constant(graph, "training", &yes));
    let outputs = session.run(&[("x", &floats(&[3.0; 10_000], &[10_000]))]).unwrap();
    for (y, kept) in outputs[0].values().into_iter().zip(outputs[1].values()) {
        assert_eq!(y, 6.0 * kept);
    }
    let kept = outputs[1].values().iter().sum::<f64>();
    assert!((kept - 5000.0).abs() < 300.0, "{kept}");
}

#[test]
fn attention_rejects_shapes_that_do_not_fit() {
    let session = session_of_opset(24, graph(&["q", "k"], &["y"], vec![node("y = Attention q k k")]));
    let array = |shape: &[usize]| floats(&vec![0.5; shape.iter().product()], shape);
    let run = |q: &[usize], k: &[usize]| session.run(&[("q", &array(q)), ("k", &array(k))]);
    assert_eq!(run(&[1, 4, 2, 8], &[1, 2, 3, 8]).unwrap()[0].dims().to_vec(), [1, 4, 2, 8]);
    for (q, k) in [([1, 3, 2, 8], [1, 2, 3, 8]), ([1, 2, 2, 8], [2, 2, 3, 8]), ([1, 2, 2, 8], [1, 2, 3, 4])] {
        let error = run(&q, &k).err().unwrap().to_string();
        assert!(error.contains("do not fit"), "{error}");
    }
}

/// Functions near 0, in the tails and in narrow types: each operator, an element type of the standard (1 for
/// `f32`, 10 for `f16`, 11 for `f64`), an argument and the value, which the result has to a few places.
#[test]
fn functions_are_accurate_near_zero_and_in_the_tails() {
    let cases = [
        ("Softplus", 1, -20.0, 2.061_153_620_314_381e-9),
        ("Softplus", 11, -40.0, 4.248_354_255_291_589e-18),
        ("Sigmoid", 1, -90.0, 8.194_012_623_990_515e-40),
        ("Asinh", 1, 1e20, 46.744_849_040_440_86),
        ("Asinh", 1, 1e-6, 1e-6),
        ("Acosh", 1, 1e20, 46.744_849_040_440_86),
        ("Atanh", 1, 1e-6, 1e-6),
        ("Sinh", 1, 1e-6, 1e-6),
        ("Cosh", 11, 1e-6, 1.000_000_000_000_5),
        ("Elu", 1, -1e-6, -9.999_995e-7),
        ("Celu", 1, -1e-6, -9.999_995e-7),
        ("Selu", 1, -1e-6, -1.758_098_461_843_2e-6),
        ("Mish", 1, -20.0, -4.122_307_240_628_762e-8),
        ("Gelu", 1, -6.0, -5.919_525_870_189_3e-9),
        ("Erf", 1, 1e-6, 1.128_379_167_095_136e-6),
        ("Erf", 10, 0.001, 0.001_128_6),
        ("Softplus", 10, -9.0, 1.234_022e-4),
        ("Softsign", 10, 1000.0, 0.999),
        ("Erf", 11, 0.5, 0.520_499_877_813_046_5),
        ("Gelu", 11, -2.0, -0.045_500_263_896_358_4),
        ("Atan", 11, 0.7, 0.610_725_964_389_208_6),
        ("Asin", 11, 0.7, 0.775_397_496_610_753),
        ("Acos", 11, 0.7, 0.795_398_830_184_143_5),
    ];
    for (operator, element, x, expected) in cases {
        let nodes = vec![
            int(node("narrow = Cast x"), "to", element),
            node(&format!("value = {operator} narrow")),
            int(node("y = Cast value"), "to", 11),
        ];
        let session = session_of_opset(20, graph(&["x"], &["y"], nodes));
        let found = session.run(&[("x", &floats(&[x], &[1]))]).unwrap()[0].values()[0];
        // The argument is rounded to `f32` first.
        let slack = if f64::from(x).fract() == 0.0 || x == 0.5 { 1.0 } else { 1e8 };
        let tolerance = match element {
            11 => 1e-15 * slack,
            10 => 6e-4,
            _ => 5e-6,
        };
        assert!(
            (found - expected).abs() <= tolerance * expected.abs(),
            "{operator}({x}): {found:e}, {expected:e}"
        );
    }
}

#[test]
fn a_slice_backwards_from_in_front_of_the_axis_has_its_first_element() {
    let slice = node("y = Slice x start end axis step");
    let numbers = [("start", -2), ("end", i64::MIN), ("axis", 0), ("step", -1)];
    let graph = graph(&["x"], &["y"], vec![slice]);
    let graph = numbers.iter().fold(graph, |graph, (name, at)| constant(graph, name, &longs(&[*at], &[1])));
    let session = session(graph);
    for (x, expected) in [(&[][..], &[][..]), (&[5.0], &[5.0]), (&[5.0, 6.0, 7.0], &[6.0, 5.0])] {
        let outputs = session.run(&[("x", &floats(x, &[x.len()]))]).unwrap();
        assert_eq!(outputs[0].values(), expected);
    }
}

#[test]
fn a_diagonal_outside_of_the_matrix_has_no_elements() {
    for k in [i64::MIN, -2, 2, 1 << 31, i64::MAX] {
        let session = session(graph(&["x"], &["y"], vec![int(node("y = EyeLike x"), "k", k)]));
        assert_eq!(session.run(&[("x", &floats(&[1.0; 4], &[2, 2]))]).unwrap()[0].values(), [0.0; 4]);
    }
}
