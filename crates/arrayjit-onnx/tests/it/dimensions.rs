//! Named dimensions as sizes of a run: one compilation computes what one for each shape does.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{Backend, HostArray, InferenceSession, Model, SessionOptions, ShapePolicy, proto::*};

use crate::build::*;

fn symbolic() -> SessionOptions {
    SessionOptions::new().shapes(ShapePolicy::Symbolic)
}

fn session_with(graph: GraphProto, options: SessionOptions) -> InferenceSession {
    load(graph).unwrap().session_with(&Backend::open("inline").unwrap(), options).unwrap()
}

/// A graph with an input `x` of these dimensions.
fn graph_of(dims: &[&str], outputs: &[&str], nodes: Vec<NodeProto>) -> GraphProto {
    let mut graph = graph(&[], outputs, nodes);
    graph.input.push(value("x", Some(dims)));
    graph
}

fn numbers(shape: &[usize]) -> HostArray {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|at| ((at * 37 % 101) as f32 - 50.0) / 40.0).collect();
    floats(&values, shape)
}

/// Checks that a session whose dimensions are sizes has the outputs of a session for each shape, and that all
/// dimensions are sizes.
#[track_caller]
fn check(graph: GraphProto, shapes: &[&[usize]]) {
    let sized = session_with(graph.clone(), symbolic());
    let exact = session_with(graph, SessionOptions::new());
    assert!(sized.exact_dimensions().unwrap().is_empty(), "{:?}", sized.exact_dimensions());
    for shape in shapes {
        let x = numbers(shape);
        let inputs = [("x", &x)];
        let (found, expected) = (sized.run(&inputs).unwrap(), exact.run(&inputs).unwrap());
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(found.dims(), expected.dims(), "output {at} of {shape:?}");
            assert_close(found, expected.dims(), &expected.values());
        }
    }
    assert!(sized.exact_dimensions().unwrap().is_empty(), "{:?}", sized.exact_dimensions());
}

const SHAPES: &[&[usize]] = &[&[1, 6], &[2, 6], &[5, 6], &[16, 6], &[3, 6], &[33, 6]];

#[test]
fn a_batch_is_a_size_of_layers() {
    let nodes = vec![
        node("h0 = MatMul x w"),
        node("h1 = Add h0 b"),
        node("h2 = Relu h1"),
        int(node("h3 = Gemm h2 w2 c"), "transB", 1),
        int(node("p = Softmax h3"), "axis", -1),
        int(node("n = LayerNormalization h3 gain"), "axis", -1),
        ints(node("t = Transpose n"), "perm", &[1, 0]),
        ints(int(node("mean = ReduceMean p"), "keepdims", 0), "axes", &[0]),
        ints(int(node("most = ReduceMax n"), "keepdims", 1), "axes", &[1]),
        int(node("column = Gather n two"), "axis", 1),
        node("s = Where positive p n"),
        node("positive = Greater n zero"),
        int(node("long = Cast h3"), "to", 11),
    ];
    let mut graph =
        graph_of(&["batch", "6"], &["h2", "p", "n", "t", "mean", "most", "column", "s", "long"], nodes);
    for (name, shape) in [("w", &[6, 8][..]), ("b", &[8]), ("w2", &[4, 8]), ("c", &[4]), ("gain", &[4])] {
        graph = constant(graph, name, &numbers(shape));
    }
    graph = constant(graph, "zero", &floats(&[0.0], &[]));
    check(constant(graph, "two", &longs(&[1, -1], &[2])), SHAPES);
}

/// Self-attention of two heads over `[batch, n, 6]`, as exporters write it.
fn attention(dims: &[&str]) -> GraphProto {
    let mut nodes = vec![
        node("shape = Shape x"),
        node("batch = Gather shape i0"),
        node("length = Gather shape i1"),
        node("batches = Unsqueeze batch front"),
        node("lengths = Unsqueeze length front"),
        int(node("split = Concat batches lengths two three"), "axis", 0),
        int(node("merged = Concat batches lengths all"), "axis", 0),
    ];
    for name in ["q", "k", "v"] {
        nodes.push(node(&format!("{name}0 = MatMul x w{name}")));
        nodes.push(node(&format!("{name}1 = Reshape {name}0 split")));
        let order = if name == "k" { [0, 2, 3, 1] } else { [0, 2, 1, 3] };
        nodes.push(ints(node(&format!("{name} = Transpose {name}1")), "perm", &order));
    }
    nodes.extend([
        node("products = MatMul q k"),
        node("scaled = Div products root"),
        // The mask is 0 up to the query, and large behind it.
        node("positions = Range zero length one"),
        node("rows = Unsqueeze positions last"),
        node("seen = LessOrEqual positions rows"),
        int(node("seen_shape = Concat batches one_axis lengths lengths"), "axis", 0),
        node("is_open = Equal seen_shape minus"),
        node("wanted = Where is_open ones seen_shape"),
        node("mask = Expand seen wanted"),
        node("masked = Where mask scaled lowest"),
        int(node("weights = Softmax masked"), "axis", -1),
        node("mixed = MatMul weights v"),
        ints(node("turned = Transpose mixed"), "perm", &[0, 2, 1, 3]),
        node("joined = Reshape turned merged"),
        node("sum = Add joined x"),
        int(node("y = LayerNormalization sum gain"), "axis", -1),
        ints(int(node("pooled = ReduceMean y"), "keepdims", 0), "axes", &[1]),
        int(node("first = Gather y i0"), "axis", 1),
        node("embedded = Slice table zeros lengths front"),
        node("placed = Add y embedded"),
    ]);
    let mut graph = graph_of(dims, &["y", "pooled", "first", "placed"], nodes);
    for name in ["wq", "wk", "wv"] {
        graph = constant(graph, name, &numbers(&[6, 6]));
    }
    graph = constant(constant(graph, "gain", &numbers(&[6])), "table", &numbers(&[64, 6]));
    graph = constant(constant(graph, "root", &floats(&[1.7], &[])), "lowest", &floats(&[-1e9], &[]));
    for (name, at) in [("i0", 0), ("i1", 1), ("zero", 0), ("one", 1), ("minus", -1)] {
        graph = constant(graph, name, &longs(&[at], &[]));
    }
    let vectors =
        [("front", 0), ("two", 2), ("three", 3), ("all", 6), ("last", -1), ("one_axis", 1), ("zeros", 0)];
    for (name, at) in vectors {
        graph = constant(graph, name, &longs(&[at], &[1]));
    }
    constant(graph, "ones", &longs(&[1; 4], &[4]))
}

#[test]
fn heights_and_widths_are_sizes_of_convolutions_and_pools() {
    let window = |text: &str, size: i64, stride: i64, pad: i64| {
        let node = ints(node(text), "kernel_shape", &[size, size]);
        ints(ints(node, "strides", &[stride, stride]), "pads", &[pad; 4])
    };
    let nodes = vec![
        window("a = Conv x w b", 3, 2, 1),
        node("r = Relu a"),
        window("m = MaxPool r", 3, 2, 1),
        window("v = AveragePool r", 2, 1, 0),
        ints(window("d = Conv m wide", 3, 1, 1), "dilations", &[1, 1]),
        node("s = Add m d"),
        text(node("u = Resize s _ factors"), "mode", "nearest"),
        int(node("c = Concat s s"), "axis", 3),
        node("g = GlobalAveragePool u"),
        node("most = GlobalMaxPool v"),
    ];
    let dims = ["batch", "3", "height", "width"];
    let mut graph = graph_of(&dims, &["s", "u", "c", "g", "most", "v"], nodes);
    graph = constant(graph, "w", &numbers(&[4, 3, 3, 3]));
    graph = constant(graph, "b", &numbers(&[4]));
    graph = constant(graph, "wide", &numbers(&[4, 4, 3, 3]));
    graph = constant(graph, "factors", &floats(&[1.0, 1.0, 2.0, 2.0], &[4]));
    check(graph, &[&[2, 3, 9, 30], &[3, 3, 16, 32], &[2, 3, 7, 5], &[4, 3, 12, 17]]);
}

#[test]
fn batches_and_lengths_are_sizes_of_attention() {
    let shapes: &[&[usize]] =
        &[&[1, 1, 6], &[2, 7, 6], &[1, 33, 6], &[3, 16, 6], &[4, 5, 6], &[1, 2, 6], &[2, 64, 6]];
    check(attention(&["batch", "n", "6"]), shapes);
}

#[test]
fn heights_and_widths_are_sizes_of_margins_and_transposed_convolutions() {
    let window = |text: &str, size: i64, stride: i64, pad: i64| {
        let node = ints(node(text), "kernel_shape", &[size, size]);
        ints(ints(node, "strides", &[stride, stride]), "pads", &[pad; 4])
    };
    let nodes = vec![
        window("large = ConvTranspose x up b", 4, 2, 1),
        window("tight = ConvTranspose x up", 4, 3, 0),
        ints(window("more = ConvTranspose x up b", 4, 2, 0), "output_padding", &[1, 1]),
        node("zeros = Pad x margins"),
        text(node("mirror = Pad x margins"), "mode", "reflect"),
        text(node("edges = Pad x margins"), "mode", "edge"),
        text(node("around = Pad x margins"), "mode", "wrap"),
        int(window("most = MaxPool x", 3, 2, 0), "ceil_mode", 1),
        int(window("mean = AveragePool x", 3, 2, 1), "ceil_mode", 1),
        int(node("at = ArgMax x"), "axis", 3),
        int(int(node("of = ArgMin x"), "axis", 1), "keepdims", 0),
        node("sums = CumSum x axis"),
        node("normal = InstanceNormalization x gain shift"),
        text(window("same = Conv mirror w", 3, 1, 1), "auto_pad", "NOTSET"),
    ];
    let outputs = [
        "large", "tight", "more", "zeros", "mirror", "edges", "around", "most", "mean", "at", "of", "sums",
        "normal", "same",
    ];
    let mut graph = graph_of(&["batch", "3", "height", "width"], &outputs, nodes);
    let weights =
        [("up", &[3, 2, 4, 4][..]), ("b", &[2]), ("w", &[4, 3, 3, 3]), ("gain", &[3]), ("shift", &[3])];
    for (name, shape) in weights {
        graph = constant(graph, name, &numbers(shape));
    }
    graph = constant(graph, "margins", &longs(&[0, 0, 2, 1, 0, 0, 1, 3], &[8]));
    graph = constant(graph, "axis", &longs(&[2], &[]));
    check(graph, &[&[2, 3, 9, 30], &[3, 3, 16, 32], &[2, 3, 7, 5], &[4, 3, 12, 17], &[2, 3, 4, 3]]);
}

/// Margins of `SAME` depend on the size where windows have strides.
#[test]
fn same_margins_of_strides_follow_from_sizes() {
    let window = |of: &str, (rows, columns): (i64, i64), strides: [i64; 2], mode: &str| {
        let node = ints(node(of), "kernel_shape", &[rows, columns]);
        text(ints(node, "strides", &strides), "auto_pad", mode)
    };
    let nodes = vec![
        window("a = Conv x w b", (3, 3), [2, 2], "SAME_UPPER"),
        window("c = Conv x w", (3, 3), [2, 3], "SAME_LOWER"),
        window("d = Conv x even", (4, 2), [3, 1], "SAME_UPPER"),
        window("e = Conv x even b", (4, 2), [2, 2], "SAME_LOWER"),
        ints(window("g = Conv x w", (3, 3), [2, 2], "SAME_UPPER"), "dilations", &[2, 1]),
        window("h = Conv x one", (1, 1), [2, 2], "SAME_UPPER"),
        window("m = MaxPool x", (3, 2), [2, 2], "SAME_UPPER"),
        window("n = MaxPool a", (2, 3), [2, 2], "SAME_LOWER"),
        window("p = LpPool x", (3, 2), [3, 2], "SAME_UPPER"),
        int(window("q = AveragePool x", (3, 4), [2, 3], "SAME_LOWER"), "count_include_pad", 1),
        window("r = AveragePool x", (3, 4), [2, 3], "SAME_LOWER"),
        ints(window("s = AveragePool a", (2, 3), [2, 1], "SAME_UPPER"), "dilations", &[2, 1]),
    ];
    let mut graph = graph_of(
        &["batch", "3", "height", "width"],
        &["a", "c", "d", "e", "g", "h", "m", "n", "p", "q", "r", "s"],
        nodes,
    );
    let weights = [("w", &[4, 3, 3, 3][..]), ("even", &[4, 3, 4, 2]), ("one", &[4, 3, 1, 1]), ("b", &[4])];
    for (name, shape) in weights {
        graph = constant(graph, name, &numbers(shape));
    }
    check(graph, &[&[2, 3, 9, 30], &[3, 3, 16, 32], &[2, 3, 7, 5], &[4, 3, 12, 17], &[2, 3, 10, 2]]);
}

/// Elements that updates replace or change, along axes with sizes and at tuples of positions.
#[test]
fn updates_are_scattered_along_sizes() {
    let reduced = |node: NodeProto, reduction: &str| text(node, "reduction", reduction);
    let nodes = vec![
        node("plane = ReduceSum x two"),
        node("flat = Squeeze plane two"),
        node("shape = Shape flat"),
        node("length = Gather shape i1"),
        node("batch = Gather shape i0"),
        node("of_length = Range i0 length i1"),
        node("of_batch = Range i0 batch i1"),
        // Positions that repeat, some from the end.
        node("repeated_0 = Div of_length i3"),
        node("repeated = Sub repeated_0 i2"),
        node("wide = Expand repeated shape"),
        int(node("replaced = ScatterElements flat wide flat"), "axis", 1),
        reduced(int(node("added = ScatterElements flat wide flat"), "axis", 1), "add"),
        reduced(int(node("most = ScatterElements flat wide flat"), "axis", 1), "max"),
        node("rows_at = Unsqueeze repeated last"),
        ints(node("by_rows = Transpose flat"), "perm", &[1, 0]),
        node("rows = ScatterND by_rows rows_at by_rows"),
        reduced(node("sums = ScatterND by_rows rows_at by_rows"), "add"),
        node("b_row = Unsqueeze of_batch ones"),
        node("b_all = Expand b_row shape"),
        node("b_last = Unsqueeze b_all last"),
        node("k_last = Unsqueeze wide last"),
        int(node("tuples = Concat b_last k_last"), "axis", -1),
        node("of_tuples = ScatterND x tuples x"),
        reduced(node("sum_of_tuples = ScatterND x tuples x"), "add"),
        node("elements = ScatterND flat tuples flat"),
    ];
    let outputs = ["replaced", "added", "most", "rows", "sums", "of_tuples", "sum_of_tuples", "elements"];
    let mut graph = graph_of(&["batch", "n", "6"], &outputs, nodes);
    for (name, at) in [("i0", 0), ("i1", 1), ("i2", 2), ("i3", 3)] {
        graph = constant(graph, name, &longs(&[at], &[]));
    }
    for (name, at) in [("two", 2), ("last", -1), ("ones", 1)] {
        graph = constant(graph, name, &longs(&[at], &[1]));
    }
    check(graph, &[&[2, 7, 6], &[3, 16, 6], &[4, 5, 6], &[2, 64, 6], &[5, 2, 6]]);
}

/// All elements of an axis with a size in order, among them NaN, infinities and equal ones.
#[test]
fn elements_are_sorted_along_sizes() {
    let nodes = vec![
        node("odd = Div x zero_or_more"),
        node("shape = Shape x"),
        node("length = Gather shape i1"),
        int(node("down down_at = TopK odd length"), "axis", 1),
        int(int(node("up up_at = TopK odd length"), "axis", 1), "largest", 0),
        int(node("first first_at = TopK odd one"), "axis", 1),
        int(node("whole = Cast x"), "to", 7),
        int(node("integers integers_at = TopK whole length"), "axis", 1),
        int(int(node("least least_at = TopK whole length"), "axis", 1), "largest", 0),
    ];
    let outputs = [
        "down",
        "down_at",
        "up",
        "up_at",
        "first",
        "first_at",
        "integers",
        "integers_at",
        "least",
        "least_at",
    ];
    let mut graph = graph_of(&["batch", "n", "4"], &outputs, nodes);
    graph = constant(graph, "i1", &longs(&[1], &[1]));
    graph = constant(graph, "one", &longs(&[1], &[1]));
    graph = constant(graph, "zero_or_more", &floats(&[1.0, 0.0, -0.0, 3.0], &[4]));
    check(graph, &[&[2, 7, 4], &[3, 16, 4], &[2, 2, 4], &[4, 33, 4]]);
}

/// An array without elements has the sizes of the run on its other axes, which the host must know.
#[test]
fn results_without_elements_have_the_sizes_of_their_run() {
    let nodes = vec![
        node("none = Slice x i0 i0 i0"),
        node("other = Transpose none"),
        int(node("both = Concat none none"), "axis", 0),
        node("product = MatMul other none"),
        node("sum = Add none x_row"),
        node("x_row = Slice x i0 i1 i0"),
        int(node("gathered = Gather x nothing"), "axis", 0),
    ];
    let outputs = ["none", "other", "both", "product", "sum", "gathered"];
    let mut graph = graph_of(&["batch", "n"], &outputs, nodes);
    for (name, at) in [("i0", 0), ("i1", 1)] {
        graph = constant(graph, name, &longs(&[at], &[1]));
    }
    let graph = constant(graph, "nothing", &longs(&[], &[0]));
    let sized = session_with(graph.clone(), symbolic());
    let exact = session_with(graph, SessionOptions::new());
    for shape in [[2, 3], [5, 6], [3, 9]] {
        let x = numbers(&shape);
        let [found, expected] = [&sized, &exact].map(|session| session.run(&[("x", &x)]).unwrap());
        assert_eq!(found, expected, "{shape:?}");
    }
}

/// A run without elements has the sizes of its other axes, not their bounds, and leaves sizes to other runs.
#[test]
fn runs_without_elements_have_the_sizes_of_their_inputs() {
    let nodes = vec![
        int(ints(node("sums = ReduceSum x"), "axes", &[0]), "keepdims", 0),
        ints(node("most = ReduceMax x"), "axes", &[0]),
        node("columns = Transpose x"),
        node("product = MatMul columns x"),
        int(node("joined = Concat x x"), "axis", 0),
    ];
    let graph = graph_of(&["batch", "n"], &["sums", "most", "product", "joined"], nodes);
    let mut opset_12 = model(graph);
    opset_12.opset_import[0].version = 12;
    let model = Model::from_proto(&opset_12).unwrap();
    let backend = Backend::open("inline").unwrap();
    let sized = model.session_with(&backend, symbolic()).unwrap();
    let exact = model.session(&backend).unwrap();
    for shape in [[2, 3], [0, 3], [5, 6], [0, 9], [4, 0]] {
        let x = numbers(&shape);
        let [found, expected] = [&sized, &exact].map(|session| session.run(&[("x", &x)]).unwrap());
        assert_eq!(found, expected, "{shape:?}");
    }
    assert!(sized.exact_dimensions().unwrap().is_empty(), "{:?}", sized.exact_dimensions());
}

/// A loop without steps has rows of the size that a run gives, which the host must know.
#[test]
fn rows_of_no_steps_have_the_sizes_of_their_run() {
    for step in ["c2 = Add c z", "c2 = Add c x"] {
        let nodes = [step, "s = Exp c2", "co = Identity ci"].map(node);
        let body = graph(&["it", "ci", "c"], &["co", "c2", "s"], nodes.to_vec());
        let looped = subgraph(node("last rows = Loop m _ x"), "body", body);
        let mut model = graph_of(&["n"], &["last", "rows"], vec![looped]);
        model = constant(constant(model, "m", &longs(&[0], &[])), "z", &numbers(&[3]));
        let session = session_with(model, symbolic());
        let outputs = session.run(&[("x", &numbers(&[3]))]).unwrap();
        assert_eq!(outputs[0].dims().to_vec(), [3], "{step}");
        assert_eq!(outputs[1].dims().to_vec(), [0, 3], "{step}");
    }
}

/// Layers that halve an axis and add what they double again fit each other for multiples of 4 only.
#[test]
fn multiples_of_a_number_are_sizes_of_models_that_halve_and_double() {
    let halved = |text: &str| {
        let node = ints(node(text), "kernel_shape", &[3, 3]);
        ints(ints(node, "strides", &[2, 2]), "pads", &[1; 4])
    };
    let nodes = vec![
        halved("half = Conv x w"),
        halved("quarter = Conv half w"),
        text(node("up = Resize quarter _ factors"), "mode", "nearest"),
        node("sum = Add half up"),
        text(node("y = Resize sum _ factors"), "mode", "nearest"),
    ];
    let mut graph = graph_of(&["batch", "3", "height", "width"], &["y"], nodes);
    graph = constant(graph, "w", &numbers(&[3, 3, 3, 3]));
    graph = constant(graph, "factors", &floats(&[1.0, 1.0, 2.0, 2.0], &[4]));
    let sized = session_with(graph.clone(), symbolic());
    check(
        graph.clone(),
        &[&[2, 3, 64, 96], &[3, 3, 128, 64], &[2, 3, 96, 32], &[2, 3, 8, 64], &[1, 3, 4, 8]],
    );
    assert!(sized.exact_dimensions().unwrap().is_empty());
    let steps: Vec<_> = sized.dimension_steps().into_iter().collect();
    assert_eq!(steps, [("height".to_owned(), 32), ("width".to_owned(), 32)]);
    let odd = session_with(graph, symbolic());
    let error = odd.run(&[("x", &numbers(&[2, 3, 66, 64]))]).unwrap_err().to_string();
    let start =
        "`height` is 66, where layers may fit each other for multiples of 32 only: node `sum`, Add of";
    assert!(error.starts_with(start) && error.ends_with("do not broadcast"), "{error}");
}

/// Layers over `[batch, n, 6]` whose rows are one axis, `[batch * n, 6]`, as exporters of linear layers write
/// them, and products of batches and heads, `[batch * 2, n, 3]`.
#[test]
fn batches_and_lengths_are_joined_to_rows() {
    let nodes = vec![
        node("shape = Shape x"),
        node("batch = Gather shape i0"),
        node("length = Gather shape i1"),
        node("batches = Unsqueeze batch front"),
        node("lengths = Unsqueeze length front"),
        node("rows = Reshape x to_rows"),
        int(node("hidden = Gemm rows w c"), "transB", 1),
        int(node("p = Softmax hidden"), "axis", 1),
        int(node("normal = LayerNormalization hidden gain"), "axis", -1),
        node("sum = Add p normal"),
        node("product = MatMul sum w"),
        int(node("both = Concat product rows"), "axis", 1),
        int(node("left right = Split both"), "axis", 1),
        node("kept = Mul left right"),
        int(node("whole = Concat batches lengths all"), "axis", 0),
        node("y = Reshape kept whole"),
        // Batches and heads are one axis of products of matrices.
        int(node("heads = Concat batches lengths two three"), "axis", 0),
        node("split = Reshape rows heads"),
        ints(node("turned = Transpose split"), "perm", &[0, 2, 1, 3]),
        int(node("of_heads = Concat open lengths three"), "axis", 0),
        node("q = Reshape turned of_heads"),
        ints(node("k = Transpose q"), "perm", &[0, 2, 1]),
        node("scores = MatMul q k"),
        int(node("weights = Softmax scores"), "axis", -1),
        node("mixed = MatMul weights q"),
        int(node("apart = Concat batches two lengths three"), "axis", 0),
        node("z = Reshape mixed apart"),
        // Rows at computed positions, and the other way around.
        int(node("first = Gather x i0"), "axis", 2),
        int(node("flat = Flatten first"), "axis", 2),
        node("to = Range i0 length i1"),
        node("of = Range i0 batch i1"),
        node("column = Unsqueeze of last"),
        node("start = Mul column length"),
        node("position = Add start to"),
        int(node("picked = Gather flat position"), "axis", 0),
        node("in_order = Reshape picked open"),
        int(node("back = Concat batches lengths"), "axis", 0),
        node("g = Reshape in_order back"),
        node("some = Reshape position open"),
        int(node("taken = Gather w some_less"), "axis", 0),
        node("some_less = Mod some four"),
        node("h = Reshape taken whole"),
    ];
    let mut graph = graph_of(&["batch", "n", "6"], &["y", "z", "g", "h"], nodes);
    for (name, shape) in [("w", &[4, 6][..]), ("c", &[4]), ("gain", &[4])] {
        graph = constant(graph, name, &numbers(shape));
    }
    for (name, at) in [("i0", 0), ("i1", 1), ("four", 4)] {
        graph = constant(graph, name, &longs(&[at], &[]));
    }
    for (name, at) in [("front", 0), ("two", 2), ("three", 3), ("all", 6), ("last", -1), ("open", -1)] {
        graph = constant(graph, name, &longs(&[at], &[1]));
    }
    graph = constant(graph, "to_rows", &longs(&[-1, 6], &[2]));
    check(graph, &[&[2, 7, 6], &[1, 33, 6], &[3, 16, 6], &[4, 5, 6], &[1, 1, 6], &[2, 64, 6]]);
}

/// Axes of numbers behind a size are divided in another way: neither of two sizes divides the other.
#[test]
fn axes_behind_a_size_are_divided_anew() {
    let nodes = [("a", "6 2"), ("b", "2 6"), ("c", "3 4"), ("d", "1 12"), ("e", "4 3 1")];
    let reshapes = nodes.map(|(name, _)| node(&format!("{name} = Reshape x to_{name}")));
    let mut graph = graph_of(&["batch", "4", "3"], &nodes.map(|(name, _)| name), reshapes.to_vec());
    for (name, axes) in nodes {
        let to: Vec<i64> = [0].into_iter().chain(axes.split(' ').map(|size| size.parse().unwrap())).collect();
        graph = constant(graph, &format!("to_{name}"), &longs(&to, &[to.len()]));
    }
    let [sized, exact] =
        [symbolic(), SessionOptions::new()].map(|options| session_with(graph.clone(), options));
    for batch in [2, 1, 9] {
        let x = numbers(&[batch, 4, 3]);
        let [found, expected] = [&sized, &exact].map(|session| session.run(&[("x", &x)]).unwrap());
        assert_eq!(found, expected, "{batch}");
    }
}

/// Elements at positions, among them a mask of `[batch, 1, n, n]` that is gathered from `[batch, n]`.
#[test]
fn elements_at_computed_positions_of_sizes() {
    let nodes = vec![
        node("shape = Shape x"),
        node("batch = Gather shape i0"),
        node("length = Gather shape i1"),
        node("of_batch = Range i0 batch i1"),
        node("of_length = Range i0 length i1"),
        node("b = Unsqueeze of_batch ones_three"),
        node("k = Unsqueeze of_length fronts"),
        node("q = Unsqueeze of_length around"),
        node("all = Max b q k"),
        node("wide = Shape all"),
        node("b_wide = Expand b wide"),
        node("k_wide = Expand k wide"),
        node("b_last = Unsqueeze b_wide last"),
        node("k_last = Unsqueeze k_wide last"),
        int(node("tuples = Concat b_last k_last"), "axis", -1),
        node("plane = ReduceSum x two"),
        node("flat = Squeeze plane two"),
        node("mask = GatherND flat tuples"),
        node("rows = GatherND x tuples"),
        // Positions from the end, some of which are outside of the array.
        node("from_end = Sub k_wide length"),
        node("less_known = Sub from_end i1"),
        node("unknown = Mul x zero"),
        int(node("unknown_integers = Cast unknown"), "to", 7),
        int(node("nothing = ReduceMax unknown_integers"), "keepdims", 0),
        node("less = Sub less_known nothing"),
        node("less_last = Unsqueeze less last"),
        int(node("outside = Concat b_last less_last"), "axis", -1),
        node("some = GatherND flat outside"),
        node("of_batches = Unsqueeze less_row last"),
        node("less_row = Expand row plane_shape"),
        node("row_0 = Unsqueeze of_length front"),
        node("row = Sub row_0 length"),
        node("plane_shape = Shape flat"),
        int(node("shared = GatherND x of_batches"), "batch_dims", 1),
        int(node("along = GatherElements flat less_row"), "axis", 1),
        int(node("taken = Gather x row"), "axis", 1),
        int(node("fixed = GatherElements table less_three"), "axis", 1),
        node("less_three = Mod less_row four"),
        node("all_rows = Reshape x to_rows"),
        node("nine = Sub nine_known nothing"),
        node("far = Mul less_row nine"),
        int(node("apart = Gather all_rows far"), "axis", 0),
        int(node("hot = OneHot less_row four switch"), "axis", 1),
        int(node("high low = TopK x four_values"), "axis", 2),
        int(int(node("turned = ReverseSequence x lengths"), "time_axis", 1), "batch_axis", 0),
        node("lengths = Add of_batch i1"),
    ];
    let outputs = [
        "mask", "rows", "some", "shared", "along", "taken", "fixed", "apart", "hot", "high", "low", "turned",
    ];
    let mut graph = graph_of(&["batch", "n", "6"], &outputs, nodes);
    for (name, at) in [("i0", 0), ("i1", 1), ("four", 4), ("nine_known", 9)] {
        graph = constant(graph, name, &longs(&[at], &[]));
    }
    graph = constant(graph, "to_rows", &longs(&[-1, 6], &[2]));
    for (name, at) in [("front", 0), ("two", 2), ("last", -1), ("four_values", 4)] {
        graph = constant(graph, name, &longs(&[at], &[1]));
    }
    graph = constant(graph, "ones_three", &longs(&[1, 2, 3], &[3]));
    graph = constant(graph, "fronts", &longs(&[0, 1, 2], &[3]));
    graph = constant(graph, "around", &longs(&[0, 1, 3], &[3]));
    graph = constant(graph, "switch", &floats(&[-1.0, 2.0], &[2]));
    graph = constant(graph, "zero", &floats(&[0.0], &[]));
    graph = constant(graph, "table", &numbers(&[64, 7]));
    check(graph, &[&[2, 7, 6], &[1, 33, 6], &[3, 16, 6], &[4, 5, 6], &[1, 1, 6], &[2, 64, 6]]);
}

#[test]
fn known_positions_of_a_size_are_compiled_for_each() {
    let graph = graph_of(&["n", "2"], &["y"], vec![node("y = Gather x at")]);
    let session = session_with(constant(graph, "at", &longs(&[0, -1, 1], &[3])), symbolic());
    for size in [2, 5, 3] {
        let x = numbers(&[size, 2]);
        let (row, values) = (|at: usize| [2 * at, 2 * at + 1], x.values());
        let expected = [row(0), row(size - 1), row(1)].concat().into_iter().map(|at| values[at]);
        assert_close(&session.run(&[("x", &x)]).unwrap()[0], &[3, 2], &expected.collect::<Vec<_>>());
    }
}

#[test]
fn bad_sizes_are_named_before_anything_runs() {
    let sum = || {
        let mut graph = graph_of(&["batch", "3"], &["y"], vec![node("y = Add x z")]);
        graph.input.push(value("z", Some(&["batch", "3"])));
        graph
    };
    let session = session_with(sum(), symbolic().bound("batch", 8));
    let run = |x: usize, z: usize| {
        session.run(&[("x", &numbers(&[x, 3])), ("z", &numbers(&[z, 3]))]).map_err(|error| error.to_string())
    };
    assert!(run(8, 8).is_ok());
    assert_eq!(
        run(9, 9).unwrap_err(),
        "input `x` has size 9 on axis 0, expected 1 to 8, the bound of `batch`"
    );
    assert_eq!(
        run(3, 0).unwrap_err(),
        "input `z` has size 0 on axis 0, expected 1 to 8, the bound of `batch`"
    );
    // Sizes that the model names alike may differ, if its operators take it.
    assert!(run(3, 4).unwrap_err().contains("[3, 3] and [4, 3] do not broadcast"));
    assert_eq!(run(1, 4).unwrap()[0].dims().as_slice(), [4, 3]);
    assert!(session.exact_dimensions().unwrap().is_empty());
    let unknown =
        load(sum()).unwrap().session_with(&Backend::open("inline").unwrap(), symbolic().bound("n", 8));
    let expected = "dimension `n`: the model does not leave it open, but `batch`";
    assert_eq!(unknown.err().unwrap().to_string(), expected);
}

#[test]
fn bounds_that_nobody_gives_double() {
    let session = session_with(graph_of(&["n"], &["y"], vec![node("y = Exp x")]), symbolic());
    for size in [3, 4, 5, 1, 0, 100, 2] {
        let x = numbers(&[size]);
        let expected: Vec<f64> = x.values().iter().map(|x| x.exp()).collect();
        assert_close(&session.run(&[("x", &x)]).unwrap()[0], &[size], &expected);
    }
}

#[test]
fn a_node_that_needs_numbers_forces_its_dimensions_alone() {
    let nodes = vec![
        node("doubled = Add x x"),
        int(node("at = Hardmax doubled"), "axis", 1),
        int(node("y = Cast at"), "to", 1),
    ];
    let session = session_with(graph_of(&["batch", "n"], &["y", "doubled"], nodes), symbolic());
    let exact = session.exact_dimensions().unwrap();
    assert_eq!(exact.keys().collect::<Vec<_>>(), ["batch", "n"]);
    assert!(exact["n"].starts_with("node `at`, Hardmax of opset 17: "), "{}", exact["n"]);
    let nodes = vec![int(node("p = Hardmax x"), "axis", 1), node("y = Relu p")];
    let session = session_with(graph_of(&["batch", "n"], &["y"], nodes), symbolic());
    for shape in [[2, 3], [5, 3], [4, 2], [1, 1]] {
        let y = session.run(&[("x", &numbers(&shape))]).unwrap();
        assert_eq!(y[0].dims().as_slice(), shape);
    }
    assert!(session.exact_dimensions().unwrap()["n"].starts_with("node `p`, Hardmax of opset 17: "));
}

#[test]
fn an_axis_that_must_fit_a_number_leaves_the_others_sizes() {
    let graph = graph_of(&["batch", "n", "m"], &["y"], vec![node("y = Add x c")]);
    let graph = constant(graph, "c", &numbers(&[4, 1]));
    let session = session_with(graph, symbolic().bound("n", 4));
    let exact = session.exact_dimensions().unwrap();
    assert_eq!(exact.keys().collect::<Vec<_>>(), ["n"]);
    for shape in [[2, 4, 3], [5, 4, 9]] {
        assert_eq!(session.run(&[("x", &numbers(&shape))]).unwrap()[0].dims().as_slice(), shape);
    }
}

#[test]
fn shapes_with_many_runs_get_code_of_their_own() {
    let options = SessionOptions::new().shapes(ShapePolicy::SymbolicThenExact { runs: 2 });
    let session = session_with(graph_of(&["n", "4"], &["y"], vec![node("y = Softmax x")]), options);
    let exact = session_with(graph_of(&["3", "4"], &["y"], vec![node("y = Softmax x")]), symbolic());
    let x = numbers(&[3, 4]);
    let expected = exact.run(&[("x", &x)]).unwrap();
    for _ in 0..5 {
        assert_eq!(session.run(&[("x", &x)]).unwrap()[0].values(), expected[0].values());
    }
}

/// Nodes that make `{to}` of `{x}`, both of shape `[b, n, 6]`; `{k}` is one of the first two axes.
const STEPS: &[&str] = &[
    "{to} = Relu {x}",
    "{to} = Tanh {x}",
    "{to} = Add {x} row",
    "{to} = Mul {x} x",
    "{to} = MatMul {x} w",
    "{to} = Softmax:axis={k} {x}",
    "{to} = Softmax:axis=2 {x}",
    "{to} = LayerNormalization:axis=-1 {x} row",
    "{to}m = ReduceMean:axes={k} {x}; {to} = Sub {x} {to}m",
    "{to}m = ReduceMax:axes={k} {x}; {to} = Add {x} {to}m",
    "{to}c = Greater {x} zero; {to} = Where {to}c {x} x",
    "{to}t = Transpose:perm=1,0,2 {x}; {to}r = Sigmoid {to}t; {to} = Transpose:perm=1,0,2 {to}r",
    "{to}a {to}b = Split:axis=2 {x} threes; {to} = Concat:axis=2 {to}b {to}a",
    "{to}u = Unsqueeze {x} one; {to}e = Exp {to}u; {to}l = Log {to}e; {to} = Squeeze {to}l one",
    "{to}s = Shape {x}; {to}r = Reshape {x} open; {to}q = Relu {to}r; {to} = Reshape {to}q {to}s",
    "{to}h = Reshape {x} split; {to}q = Transpose:perm=0,2,1,3 {to}h; {to}k = Transpose:perm=0,2,3,1 {to}h; \
     {to}p = MatMul {to}q {to}k; {to}w = Softmax:axis=-1 {to}p; {to}v = MatMul {to}w {to}q; \
     {to}t = Transpose:perm=0,2,1,3 {to}v; {to} = Reshape {to}t merge",
];

/// A node from a text of [`STEPS`].
fn step(text: &str) -> NodeProto {
    let colon = text.split_whitespace().find(|word| word.contains(':'));
    let Some((operator, attribute)) = colon.and_then(|word| word.split_once(':')) else { return node(text) };
    let made = node(&text.replace(&format!(":{attribute}"), ""));
    assert_eq!(made.op_type, operator);
    let (name, numbers) = attribute.split_once('=').unwrap();
    let numbers: Vec<i64> = numbers.split(',').map(|number| number.parse().unwrap()).collect();
    match name {
        "axis" => int(made, name, numbers[0]),
        _ => ints(made, name, &numbers),
    }
}

#[test]
fn random_models_have_the_outputs_of_exact_shapes() {
    for seed in 0..12 {
        let mut random = seed * 7919 + 17;
        let mut next = |below: usize| {
            random = (random * 1_103_515_245 + 12345) % (1 << 31);
            (random >> 8) % below
        };
        let (mut nodes, mut from) = (Vec::new(), "x".to_owned());
        for at in 0..6 {
            let (text, to, k) = (STEPS[next(STEPS.len())], format!("v{at}"), next(2).to_string());
            let text = text.replace("{to}", &to).replace("{x}", &from).replace("{k}", &k);
            nodes.extend(text.split(';').map(|text| step(text.trim())));
            from = to;
        }
        nodes.push(int(node(&format!("sum = ReduceSum {from} one")), "keepdims", 0));
        let mut graph = graph_of(&["b", "n", "6"], &[&from, "sum"], nodes);
        graph = constant(constant(graph, "row", &numbers(&[6])), "w", &numbers(&[6, 6]));
        graph = constant(graph, "zero", &floats(&[0.0], &[]));
        let lists: [(&str, &[i64]); 5] = [
            ("one", &[1]),
            ("threes", &[3, 3]),
            ("open", &[0, -1, 2, 3]),
            ("split", &[0, 0, 2, 3]),
            ("merge", &[0, 0, 6]),
        ];
        for (name, values) in lists {
            graph = constant(graph, name, &longs(values, &[values.len()]));
        }
        let shapes: Vec<[usize; 3]> = (0..3).map(|_| [1 + next(5), 1 + next(20), 6]).collect();
        check(graph, &shapes.iter().map(|shape| &shape[..]).collect::<Vec<_>>());
    }
}
