//! ONNX models: objects compute the bits of sessions of this process.

use std::collections::BTreeMap;

use arrayjit::{Backend, HostArray};
use arrayjit_aot::{AotError, Library, LibraryRoutine};
use arrayjit_onnx::{DimensionSize, Model};
use object_loader::{LoadedObject, levels};

use crate::onnx_builder::{GraphProto, constant, floats, graph, int, ints, load, longs, node, value};
use crate::programs::{TRIPLE, run_on, symbol};

/// Numbers of both signs without a pattern along any axis.
pub(crate) fn numbers(dims: &[usize]) -> HostArray {
    let number = |at: usize| ((at * 7919 + dims.len()) % 1013) as f32 / 506.0 - 1.0;
    let numbers: Vec<f32> = (0..dims.iter().product()).map(number).collect();
    floats(&numbers, dims)
}

/// The graph with one input of these dimensions.
fn of_input(mut graph: GraphProto, name: &str, dims: &[&str]) -> GraphProto {
    graph.input = vec![value(name, Some(dims))];
    graph
}

fn inputs(graph: GraphProto, dims: &[&str]) -> Model {
    load(of_input(graph, "x", dims)).expect("a valid model")
}

/// A classifier of images: convolutions, of which one is depthwise, a pool, a product and probabilities.
pub(crate) fn classifier_graph(outputs: &[&str]) -> GraphProto {
    let nodes = vec![
        ints(ints(node("c = Conv x w1 b1"), "strides", &[2, 2]), "pads", &[1, 1, 1, 1]),
        node("s = HardSigmoid c"),
        node("h = Mul c s"),
        ints(int(node("d = Conv h w2"), "group", 8), "pads", &[1, 1, 1, 1]),
        node("p = Conv d w3"),
        node("r = Relu p"),
        node("g = GlobalAveragePool r"),
        node("f = Flatten g"),
        int(node("z = Gemm f w4 b4"), "transB", 1),
        node("y = Softmax z"),
    ];
    let mut all = graph(&["x"], outputs, nodes);
    for (name, dims) in [
        ("w1", &[8, 3, 3, 3][..]),
        ("b1", &[8]),
        ("w2", &[8, 1, 3, 3]),
        ("w3", &[24, 8, 1, 1]),
        ("w4", &[10, 24]),
        ("b4", &[10]),
    ] {
        all = constant(all, name, &numbers(dims));
    }
    of_input(all, "x", &["batch", "3", "24", "20"])
}

/// A head of attention over a sequence of any length, with a residual connection.
pub(crate) fn attention() -> Model {
    let nodes = vec![
        node("q = MatMul x wq"),
        node("k = MatMul x wk"),
        node("v = MatMul x wv"),
        ints(node("kt = Transpose k"), "perm", &[1, 0]),
        node("s = MatMul q kt"),
        node("t = Mul s scale"),
        node("p = Softmax t"),
        node("o = MatMul p v"),
        node("y = Add o x"),
    ];
    let mut all = graph(&["x"], &["y"], nodes);
    for name in ["wq", "wk", "wv"] {
        all = constant(all, name, &numbers(&[32, 32]));
    }
    inputs(constant(all, "scale", &floats(&[0.25], &[])), &["length", "32"])
}

/// Two layers whose products are of 8-bit integers: the scales of the first operand are those of its values.
pub(crate) fn quantized() -> Model {
    let nodes = vec![
        node("q s z = DynamicQuantizeLinear x"),
        node("p = MatMulInteger q w z"),
        node("f = Cast p"),
        node("t = Mul s scale"),
        node("g = Mul f t"),
        node("r = Relu g"),
        node("u = QuantizeLinear r scale_2 zero_2"),
        node("y = QLinearMatMul u scale_2 zero_2 w_2 scale zero scale_2 zero_2"),
        node("d = DequantizeLinear y scale_2 zero_2"),
    ];
    let nodes =
        nodes.into_iter().map(|of| if of.op_type == "Cast" { int(of, "to", 1) } else { of }).collect();
    let mut all = graph(&["x"], &["d", "g"], nodes);
    let bytes = |dims: &[usize]| {
        let byte = |at: usize| ((at * 7919 + dims.len()) % 255) as i32 as u8 as i8;
        HostArray::from_slice(
            &(0..dims.iter().product()).map(byte).collect::<Vec<i8>>(),
            dims.iter().copied(),
        )
        .expect("a small array")
    };
    let zero = |value: u8| HostArray::from_slice(&[value], [0; 0]).expect("a number");
    for (name, array) in [
        ("w", bytes(&[64, 48])),
        ("w_2", bytes(&[48, 40])),
        ("scale", floats(&[0.0371], &[])),
        ("scale_2", floats(&[0.193], &[])),
        ("zero", HostArray::from_slice(&[0i8], [0; 0]).expect("a number")),
        ("zero_2", zero(3)),
    ] {
        all = constant(all, name, &array);
    }
    inputs(all, &["rows", "64"])
}

pub(crate) fn sizes(sizes: &[(&str, DimensionSize)]) -> BTreeMap<String, DimensionSize> {
    sizes.iter().map(|&(name, size)| (name.to_owned(), size)).collect()
}

/// The array within one of greater dimensions, whose other elements are 0.
fn widened(array: &HostArray, dims: &[usize]) -> HostArray {
    array.resized(dims.iter().copied().collect::<arrayjit::Dims>()).expect("a small array")
}

/// The arrays that a routine gets for an input of these dimensions, and the outputs of a session for it, as
/// the routine's outputs have them.
pub(crate) fn run_in_session(
    routine: &LibraryRoutine,
    model: &Model,
    dims: &[usize],
) -> (Vec<HostArray>, Vec<HostArray>) {
    let session = model.session(&Backend::open("inline").expect("a backend")).expect("a session");
    let x = numbers(dims);
    let outputs = session.run(&[("x", &x)]).expect("a run");
    let [input, rest @ ..] = routine.arrays() else { panic!("an input") };
    let mut given = vec![widened(&x, &input.dims)];
    given.extend(
        rest.iter()
            .map(|array| HostArray::zeros(array.dtype, array.dims.iter().copied()).expect("a small array")),
    );
    let expected = rest.iter().zip(&outputs).map(|(array, output)| widened(output, &array.dims)).collect();
    (given, expected)
}

/// Compares a routine with a session, on inputs of these dimensions.
fn check(library: &Library, routine: &LibraryRoutine, model: &Model, dims: &[usize], sizes: &[i64]) {
    let (given, expected) = run_in_session(routine, model, dims);
    let object = LoadedObject::new(&library.object().expect("a small object"));
    for level in levels() {
        let found = run_on(&object, &symbol("net", routine.name(), level), routine, &given, sizes)
            .unwrap_or_else(|status| panic!("{} at {level}: status {status}", routine.name()));
        for ((array, expected), found) in routine.arrays()[1..].iter().zip(&expected).zip(&found[1..]) {
            assert!(expected.bytes() == found, "{} at {level}: `{}` differs", routine.name(), array.name);
        }
    }
}

#[test]
fn models_have_the_bits_of_sessions() {
    use DimensionSize::{Fixed, UpTo};
    let mut library = Library::with_levels("net", TRIPLE, &levels()).expect("a target");
    let (images, text) = (load(classifier_graph(&["y", "z"])).expect("a valid model"), attention());
    library.add_onnx("classify", &images, &sizes(&[("batch", Fixed(2))])).expect("one graph");
    library.add_onnx("attend", &text, &sizes(&[("length", Fixed(48))])).expect("one graph");
    library.add_onnx("attend_up_to", &text, &sizes(&[("length", UpTo(50))])).expect("one graph");
    let integers = quantized();
    library.add_onnx("quantized", &integers, &sizes(&[("rows", Fixed(30))])).expect("one graph");
    let [classify, attend, up_to, quantized] = library.routines() else { panic!("four routines") };
    let names: Vec<&str> = classify.arrays().iter().map(|array| &*array.name).collect();
    assert_eq!(names, ["x", "y", "z"]);
    assert_eq!(up_to.parameters()[0].name, "length", "the name of the dimension");
    assert!(library.rust_module().contains("        length: i64,"));
    check(&library, classify, &images, &[2, 3, 24, 20], &[]);
    check(&library, attend, &text, &[48, 32], &[]);
    check(&library, quantized, &integers, &[30, 64], &[]);
    for length in [50, 31, 2] {
        check(&library, up_to, &text, &[length, 32], &[length as i64]);
    }
}

#[test]
fn every_output_is_an_array_of_its_own() {
    let nodes = vec![node("y = Add x w"), node("z = Identity y"), node("same = Identity x")];
    let all = constant(graph(&["x"], &["y", "z", "same", "w"], nodes), "w", &numbers(&[3]));
    let model = inputs(all, &["2", "3"]);
    let mut library = Library::with_levels("net", TRIPLE, &levels()).expect("a target");
    library.add_onnx("f", &model, &BTreeMap::new()).expect("one graph");
    let routine = &library.routines()[0];
    let names: Vec<&str> = routine.arrays().iter().map(|array| &*array.name).collect();
    assert_eq!(names, ["x", "y", "z", "same", "w"]);
    check(&library, routine, &model, &[2, 3], &[]);
}

#[test]
fn results_that_are_no_outputs_are_no_arrays_of_the_caller() {
    let top = constant(graph(&["x"], &["v", "i"], vec![node("v i = TopK x k")]), "k", &longs(&[20], &[1]));
    let model = inputs(top, &["1", "6000"]);
    let mut library = Library::with_levels("net", TRIPLE, &levels()).expect("a target");
    library.add_onnx("top", &model, &BTreeMap::new()).expect("one graph");
    let routine = &library.routines()[0];
    let names: Vec<&str> = routine.arrays().iter().map(|array| &*array.name).collect();
    assert_eq!(names, ["x", "v", "i"]);
    check(&library, routine, &model, &[1, 6000], &[]);
}

fn rejected(model: &Model, with: &[(&str, DimensionSize)]) -> String {
    let mut library = Library::new("net", TRIPLE).expect("a target");
    match library.add_onnx("f", model, &sizes(with)) {
        Ok(_) => panic!("it is accepted"),
        Err(error @ AotError::Compile { .. }) => error.to_string(),
        Err(error) => panic!("another error: {error}"),
    }
}

#[test]
fn models_that_are_no_routine_are_rejected() {
    use DimensionSize::Fixed;
    let error = rejected(&attention(), &[]);
    assert!(error.contains("`x`") && error.contains("`length`"), "{error}");
    let error = rejected(&attention(), &[("length", Fixed(0))]);
    assert!(error.contains("`length`") && error.contains("1 or more"), "{error}");
    let error = rejected(&attention(), &[("length", Fixed(3)), ("height", Fixed(2))]);
    assert!(error.contains("`height`") && error.contains("`length`"), "{error}");
    let sum = inputs(graph(&["x"], &["y"], vec![node("y = Add x x")]), &["4"]);
    let error = rejected(&sum, &[("length", Fixed(3))]);
    assert!(error.contains("leaves no dimension open"), "{error}");
    let nonzero = inputs(graph(&["x"], &["y"], vec![node("y = NonZero x")]), &["4"]);
    let error = rejected(&nonzero, &[]);
    assert!(error.contains("NonZero of opset") && error.contains("only a run has"), "{error}");
    let shape = constant(graph(&["x"], &["y"], vec![node("y = Reshape x to")]), "to", &longs(&[3], &[1]));
    let error = rejected(&inputs(shape, &["4"]), &[]);
    assert!(error.contains("Reshape of opset"), "{error}");
}
