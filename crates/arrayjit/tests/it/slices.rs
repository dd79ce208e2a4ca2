//! Slices end to end: a view takes no memory, writes through it reach the parent, and later routines access
//! the same part.

use arrayjit::settings::Settings;
use arrayjit::{Backend, HostArray, MemoryMode, TensorNode};

const BACKENDS: [&str; 3] = ["inline", "multicore", "interpreter"];

fn backend(name: &str) -> Backend {
    Backend::open_with(name, &Settings::default()).expect("every backend of this build opens")
}

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().expect("a small node")
}

fn counted(dims: &[usize]) -> HostArray {
    let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|i| i as f32).collect();
    HostArray::from_slice(&values, dims.iter().copied()).expect("as many values")
}

#[test]
fn views_of_a_batch() {
    for name in BACKENDS {
        let backend = backend(name);
        let (x, batch, y) = (node("x", &[4, 2, 3]), node("batch", &[2, 3]), node("y", &[2]));
        let text = "batch := slice(x, @b)\ny[i] :+= batch[i,j]\nbatch[i,j] *= 10";
        let code = backend.compile(text, [&x, &batch, &y]).expect("a valid text");
        assert_eq!(code.nodes(), [x.clone(), y.clone()], "the view is no node of the routine");
        assert_eq!(batch.view().map(|view| view.to_string()).as_deref(), Some("a view of x at @b"));
        let context = backend.context().expect("a stream");
        let context = context.init_from_host(&x, counted(&[4, 2, 3])).expect("memory");
        let routine = code.link(&context).expect("the parent is there");
        assert!(!routine.context().contains(&batch));
        routine.run(&[2]).expect("in range").sync().expect("ran");
        let values = |node| routine.context().to_host(node).expect("in the context").values();
        assert_eq!(values(&y), [12. + 13. + 14., 15. + 16. + 17.]);
        assert_eq!(values(&x)[11..19], [11., 120., 130., 140., 150., 160., 170., 18.]);
        assert!(routine.run(&[4]).is_err(), "the parent has 4");

        // A second routine without the slice statement accesses the same part.
        let second = backend.compile("batch[i,j] += y[i]", [&batch, &y]).expect("the view is recorded");
        assert_eq!(
            second.symbols().iter().map(|s| (s.name.as_str(), s.range)).collect::<Vec<_>>(),
            [("b", 4)]
        );
        let second = second.link(routine.context()).expect("the parent is there");
        second.run(&[0]).expect("in range").sync().expect("ran");
        assert_eq!(values(&x)[..7], [39., 40., 41., 51., 52., 53., 6.]);

        // The view has no memory, and the message names the node that has it.
        let error = routine.context().to_host(&batch).map(|_| ()).expect_err("no memory of its own");
        assert!(error.to_string().contains("`batch` is a view of x at @b"), "{error}");
        let error =
            context.init_from_host(&batch, counted(&[2, 3])).map(|_| ()).expect_err("no memory of its own");
        assert!(error.to_string().contains("a view of x at @b"), "{error}");
        assert!(batch.explain().contains("a view of x at @b"), "{}", batch.explain());
    }
}

#[test]
fn a_node_with_memory_gets_a_copy() {
    for name in BACKENDS {
        let backend = backend(name);
        let x = node("x", &[4, 3]);
        let row = TensorNode::builder("row").dims([3]).mode(MemoryMode::Materialized).build().expect("small");
        let code = backend.compile("row := slice(x, @b)\nrow[i] *= 10", [&x, &row]).expect("a valid text");
        assert_eq!(row.view(), None);
        let context =
            backend.context().expect("a stream").init_from_host(&x, counted(&[4, 3])).expect("memory");
        let routine = code.link(&context).expect("all nodes are there");
        routine.run(&[1]).expect("in range").sync().expect("ran");
        let values = |node| routine.context().to_host(node).expect("in the context").values();
        assert_eq!(values(&row), [30., 40., 50.]);
        assert_eq!(values(&x), counted(&[4, 3]).values(), "the copy is apart");
    }
}

#[test]
fn a_rejected_program_makes_no_view() {
    let backend = backend("inline");
    let (x, s, y) = (node("x", &[4, 3]), node("s", &[3]), node("y", &[3]));
    backend
        .compile("s := slice(x, @b)\ny[2*i] := s[i] where i < 2", [&x, &s, &y])
        .map(|_| ())
        .expect_err("a gap");
    assert_eq!(s.view(), None);
    assert_eq!(s.mode().mode(), None);
}
