//! Static symbols: bound at each run, checked against their ranges on every backend.

use arrayjit::settings::Settings;
use arrayjit::{Backend, HostArray, RunError, TensorNode};

const BACKENDS: [&str; 3] = ["inline", "multicore", "interpreter"];

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().expect("a small node")
}

#[test]
fn two_symbols_run_over_their_ranges() {
    for name in BACKENDS {
        let backend =
            Backend::open_with(name, &Settings::default()).expect("every backend of this build opens");
        let (x, y, seen) = (node("x", &[3, 4]), node("y", &[4, 3]), node("seen", &[]));
        let text = "y[@col, @row] := x[@row, @col]\nseen += 100 * @row + @col";
        let code = backend.compile(text, [&x, &y, &seen]);
        assert!(code.is_err(), "most of y would have no value");

        let y = TensorNode::builder("y")
            .dims([4, 3])
            .mode(arrayjit::MemoryMode::Materialized)
            .build()
            .expect("small");
        let code = backend.compile(text, [&x, &y, &seen]).expect("y keeps its values");
        let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let zero = HostArray::from_slice(&[0f32], []).expect("one");
        let context = backend.context().expect("a stream");
        let context =
            context.init_from_host(&x, HostArray::from_slice(&values, [3, 4]).expect("12")).expect("memory");
        let context = context.init_from_host(&seen, &zero).expect("memory");
        let routine = code.link(&context).expect("all nodes are there");
        let ranges: Vec<(&str, i64)> =
            routine.bindings().iter().map(|s| (s.name.as_str(), s.range)).collect();
        assert_eq!(ranges, [("col", 4), ("row", 3)]);

        let all: Vec<Vec<i64>> = routine.all_bindings().collect();
        assert_eq!(
            (all.len(), &all[0][..], &all[1][..], &all[11][..]),
            (12, &[0, 0][..], &[0, 1][..], &[3, 2][..])
        );
        for bindings in &all {
            routine.run(bindings).expect("in range");
        }
        let got = |node| routine.context().to_host(node).expect("in the context").values();
        let transposed: Vec<f64> = (0..12).map(|at| f64::from(values[at % 3 * 4 + at / 3])).collect();
        assert_eq!(got(&y), transposed, "{name}");
        assert_eq!(got(&seen), [f64::from(4 * 100 * (1 + 2) + 3 * (1 + 2 + 3))], "{name}");

        for outside in [[4, 0], [0, 3], [-1, 0], [0, i64::MIN]] {
            let error = routine.run(&outside).map(|_| ()).expect_err("out of range");
            assert!(matches!(error, RunError::BindingRange { .. }), "{error:?}");
        }
        assert_eq!(got(&y), transposed, "a rejected run writes nothing");
    }
}

#[test]
fn without_symbols_there_is_one_run() {
    let backend = Backend::open_with("inline", &Settings::default()).expect("opens");
    let y = node("y", &[2]);
    let code = backend.compile("y[i] := i", [&y]).expect("a valid text");
    let routine = code.link(&backend.context().expect("a stream")).expect("nothing is read");
    assert_eq!(routine.all_bindings().collect::<Vec<_>>(), [Vec::<i64>::new()]);
}
