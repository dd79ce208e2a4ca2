//! Kernels large enough to be split give the same bits on any number of threads.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, HostArray, MemoryMode, Settings, TensorNode};

const TEXT: &str = "
c[m,n] :+= a[m,k] * b[k,n]
e[m,n]  := exp(c[m,n] * 0.01)
row[m] :+= e[m,n]
y[m,n]  := e[m,n] / row[m]
col[n] :+= y[m,n] * a[m,0]
";

/// The outputs of the program above, and whether any of its kernels may be split.
fn run(threads: usize) -> (Vec<f64>, bool) {
    let mut settings = Settings::default();
    settings.threads = threads;
    let backend = Backend::open_with("multicore", settings).unwrap();
    let node = |name, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).build().unwrap();
    let (a, b, c) = (node("a", &[203, 130]), node("b", &[130, 259]), node("c", &[203, 259]));
    let (e, row) = (node("e", &[203, 259]), node("row", &[203]));
    // The program reads `y` again, so without a requested mode the node would need no memory.
    let y = TensorNode::builder("y").dims([203, 259]).mode(MemoryMode::Materialized).build().unwrap();
    let col = node("col", &[259]);
    let compiled = backend.compile(TEXT, [&a, &b, &c, &e, &row, &y, &col]).unwrap();
    let mut kernels = compiled.codes().flat_map(|code| code.schedule().kernels());
    let is_split = kernels.any(|k| k.abi().launch.extent > k.abi().launch.grain);

    let mut rng = fastrand::Rng::with_seed(3);
    let mut context = backend.context().unwrap();
    for input in [&a, &b] {
        let values: Vec<f32> = (0..input.num_elems().unwrap()).map(|_| rng.f32() - 0.5).collect();
        let array = HostArray::from_slice(&values, input.dims().unwrap()).unwrap();
        context = context.init_from_host(input, &array).unwrap();
    }
    let routine = compiled.link(&context).unwrap();
    // Runs several times, because workers start and stop between runs.
    for _ in 0..20 {
        routine.run(&[]).unwrap();
    }
    let read = |node: &TensorNode| routine.context().to_host(node).unwrap().values();
    ([read(&y), read(&col)].concat(), is_split)
}

#[test]
fn split_kernels_give_the_same_bits_on_any_number_of_threads() {
    let (reference, _) = run(1);
    assert!(reference.iter().all(|v| v.is_finite()));
    for threads in [2, 3, 7] {
        let (found, is_split) = run(threads);
        assert!(is_split, "the program is too small to be split");
        assert_eq!(found, reference, "{threads} threads");
    }
}
