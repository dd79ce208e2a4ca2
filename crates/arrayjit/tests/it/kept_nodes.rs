//! Nodes that a text makes: kept intermediates are readable, and declared nodes get their initial values.

use arrayjit::{Backend, Context, HostArray, Nodes, Program, Routine, TensorNode};

const TEXT: &str = "
    h[b,j] :+= x[b,i] * w1[i,j]
    a[b,j]  := relu(h[b,j])
    y[b,k] :+= a[b,j] * w2[j,k]";

fn node(name: &str, dims: [usize; 2]) -> TensorNode {
    TensorNode::builder(name).dims(dims).build().expect("small")
}

/// The inputs of [`TEXT`] with their values.
fn inputs() -> [(TensorNode, Vec<f32>); 3] {
    let values = |count: u8| (0..count).map(|i| f32::from(i % 5) - 2.0).collect();
    [(node("x", [2, 3]), values(6)), (node("w1", [3, 4]), values(12)), (node("w2", [4, 2]), values(8))]
}

fn context(backend: &Backend, inputs: &[(TensorNode, Vec<f32>)]) -> Context {
    let context = backend.context().expect("a stream");
    inputs.iter().fold(context, |context, (node, values)| {
        let array = HostArray::from_slice(values, node.dims().expect("settled")).expect("as many values");
        context.init_from_host(node, &array).expect("memory")
    })
}

fn values(routine: &Routine, node: &TensorNode) -> Vec<f64> {
    routine.context().to_host(node).expect("in the context").values()
}

#[test]
fn a_second_compilation_keeps_what_the_first_inlined() {
    for name in ["inline", "interpreter"] {
        let backend = Backend::open(name).expect("it is in every build");
        let inputs = inputs();
        let nodes = || inputs.iter().map(|(node, _)| node);
        let program = Program::parse(TEXT).expect("a program").keep("y");
        let first = backend.compile_program(&program, nodes()).expect("valid");
        let context = context(&backend, &inputs);
        let first_routine = first.link(&context).expect("all inputs are there");
        first_routine.run(&[]).expect("scheduled");
        let result = values(&first_routine, first.node("y").expect("it is kept"));
        let inlined = first.node("a").expect("it is in the text");
        assert!(inlined.mode().known_virtual(), "{}", inlined.explain());
        assert!(first_routine.context().to_host(inlined).is_err());

        let second = backend.compile_program(&program.keep("a").keep("h"), nodes()).expect("valid");
        let second_routine = second.link(first_routine.context()).expect("all inputs are there");
        second_routine.run(&[]).expect("scheduled");
        let [h, a, y] =
            ["h", "a", "y"].map(|name| values(&second_routine, second.node(name).expect("it is kept")));
        let relu: Vec<f64> = h.iter().map(|h| h.max(0.0)).collect();
        assert_eq!(a, relu);
        assert_eq!(y, result);

        // The routine of the first compilation runs as before.
        first_routine.run(&[]).expect("scheduled");
        assert_eq!(values(&first_routine, first.node("y").expect("it is kept")), result);
    }
}

#[test]
fn a_later_program_reads_a_kept_node() {
    let backend = Backend::open("inline").expect("it is in every build");
    let inputs = inputs();
    let nodes = || inputs.iter().map(|(node, _)| node);
    let forward = Program::parse(TEXT).expect("a program").keep("y");
    let forward = backend.compile_program(&forward, nodes()).expect("valid");
    let y = forward.node("y").expect("it is kept");
    let loss = Program::parse("loss :+= y[b,k] * y[b,k]").expect("a program").keep("loss");
    let loss = backend.compile_program(&loss, [y]).expect("valid");
    let forward_routine = forward.link(&context(&backend, &inputs)).expect("all inputs are there");
    let loss_routine = loss.link(forward_routine.context()).expect("y is there");
    forward_routine.run(&[]).expect("scheduled");
    loss_routine.run(&[]).expect("scheduled");
    let squares: f64 = values(&forward_routine, y).iter().map(|y| y * y).sum();
    assert_eq!(values(&loss_routine, loss.node("loss").expect("it is kept")), [squares]);
}

#[test]
fn unknown_names_list_similar_ones() {
    let backend = Backend::open("inline").expect("it is in every build");
    let program = Program::parse(TEXT).expect("a program").keep("y");
    let code = backend.compile_program(&program, inputs().iter().map(|(node, _)| node)).expect("valid");
    assert_eq!(code.node("x").expect("an input").name(), "x");
    let error = code.node("w3").expect_err("there is none");
    assert_eq!(error.to_string(), "unknown node `w3`; expected one of w1, w2");
}

/// A least-squares fit whose inputs, parameter and initial values the text declares.
const FIT: &str = "
    size count = 4
    input x f32[count, 2], t f32[count]
    param w f32[2] := normal(1) * 0.1
    e[b]  :+= x[b,i] * w[i]
    e[b]   -= t[b]
    loss  :+= e[b] * e[b] / count
    g[i]  :+= 2 * x[b,i] * e[b] / count
    w[i]   -= 0.1 * g[i]
    keep loss";

#[test]
fn a_program_is_one_text() {
    let backend = Backend::open("inline").expect("it is in every build");
    let program = Program::parse(FIT).expect("a program");
    let nodes = program.declare().expect("valid");
    let code = backend.compile_program(&program, &nodes).expect("valid");
    let context = backend.context().expect("a stream");
    let context = backend.initialize(&code, &context).expect("memory");
    let (x, t) = ([[1f32, 0.], [0., 1.], [1., 1.], [2., 1.]].concat(), [2f32, -1., 1., 3.]);
    let array = |values: &[f32], dims: &[usize]| {
        HostArray::from_slice(values, dims.iter().copied()).expect("as many values")
    };
    let find = |name: &str| nodes.find(name).expect("it is declared");
    let context = context.init_from_host(find("x"), array(&x, &[4, 2])).expect("memory");
    let context = context.init_from_host(find("t"), array(&t, &[4])).expect("memory");
    let routine = code.link(&context).expect("all nodes are there");
    let loss = code.node("loss").expect("it is kept");
    let start = values(&routine, find("w"));
    assert!(start.iter().all(|w| *w != 0.0 && w.abs() < 0.5), "{start:?}");
    (0..200).for_each(|_| drop(routine.run(&[]).expect("scheduled")));
    assert!(values(&routine, loss)[0] < 1e-6);
    for (w, expected) in values(&routine, find("w")).into_iter().zip([2.0, -1.0]) {
        assert!((w - expected).abs() < 1e-3, "{w}");
    }

    // Another compilation, which keeps the gradient, trains the same parameter.
    let code = backend.compile_program(&program.keep("g"), &nodes).expect("valid");
    let routine = code.link(routine.context()).expect("all nodes are there");
    routine.run(&[]).expect("scheduled");
    assert!(values(&routine, code.node("g").expect("it is kept")).iter().all(|g| g.abs() < 1e-2));
}

#[test]
fn a_program_without_initial_values_leaves_the_context_as_it_is() {
    let backend = Backend::open("inline").expect("it is in every build");
    let code = backend.compile("input x f32[2]; y :+= x[i]; keep y", &Nodes::default()).expect("valid");
    let context = backend.context().expect("a stream");
    let same = backend.initialize(&code, &context).expect("nothing to do");
    assert!(same.to_host(code.node("x").expect("declared")).is_err());
}
