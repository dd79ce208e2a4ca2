//! Programs open the backend by its name.

use codegen_c_backend as _;

#[test]
fn a_routine_runs_on_c() {
    let backend = arrayjit::Backend::open("c").expect("the registered backend");
    let [x, y] =
        ["x", "y"].map(|name| arrayjit::TensorNode::builder(name).dims([3]).build().expect("a small node"));
    let values = arrayjit::HostArray::from_slice(&[1f32, 2., 3.], [3]).expect("three values");
    let context = backend.context().and_then(|context| Ok(context.init_from_host(&x, &values)?));
    let context = context.expect("memory for three values");
    let code = backend.compile("y[i] := 2 * x[i]", [&x, &y]).expect("a routine for C");
    let routine = code.link(&context).expect("a context with x");
    routine.run(&[]).expect("a routine that runs");
    assert_eq!(routine.context().to_host(&y).expect("y").values(), [2.0, 4.0, 6.0]);
}

#[test]
fn the_digits_example_takes_it_by_name() {
    let args = ["digits", "--backend", "c", "--epochs", "1"].map(Into::into);
    let accuracy = digits::command_line::run(args).expect("a program that trains").expect("an accuracy");
    assert!(accuracy > 0.5, "{accuracy} after one epoch");
}
