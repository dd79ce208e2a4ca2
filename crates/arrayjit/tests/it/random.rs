//! Random numbers have the same bits on every backend and number of threads, and statements without random
//! numbers have no generator state.

use arrayjit::{Backend, MemoryMode, Settings, TensorNode};

const BACKENDS: [(&str, usize); 4] = [("interpreter", 1), ("inline", 1), ("multicore", 1), ("multicore", 2)];

fn backend(name: &str, threads: usize) -> Backend {
    let mut settings = Settings::default();
    settings.threads = threads;
    Backend::open_with(name, &settings).expect("every backend of this build opens")
}

fn node(name: &str, dtype: &str, dims: &[usize]) -> TensorNode {
    let dtype = dtype.parse().expect("a type");
    let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
    node.mode(MemoryMode::Materialized).build().expect("a small node")
}

/// Runs the text once and returns the elements of all nodes as bits.
fn run(text: &str, nodes: &[TensorNode], bindings: &[i64], name: &str, threads: usize) -> Vec<Vec<u64>> {
    let backend = backend(name, threads);
    let code = backend.compile(text, nodes).unwrap_or_else(|error| panic!("{error}"));
    let context = backend.context().expect("a stream");
    let routine = code.link(&context).expect("nothing is read before it is written");
    routine.run(bindings).expect("in range").sync().expect("ran");
    let values = |node| routine.context().to_host(node).expect("in the context").values();
    nodes.iter().map(|node| values(node).into_iter().map(f64::to_bits).collect()).collect()
}

/// Checks that all backends give the same bits, and returns them.
fn everywhere(text: &str, nodes: &[TensorNode], bindings: &[i64]) -> Vec<Vec<u64>> {
    let mut found = BACKENDS.map(|(name, threads)| run(text, nodes, bindings, name, threads)).into_iter();
    let reference = found.next().expect("four backends");
    for (other, (name, threads)) in found.zip(&BACKENDS[1..]) {
        assert!(other == reference, "{name} with {threads} threads differs from the interpreter");
    }
    reference
}

#[test]
fn every_fill_has_the_same_bits_everywhere() {
    for dtype in ["f16", "bf16", "f32", "f64", "fp8_e5m2", "fp8_e4m3fn"] {
        let nodes = [node("u", dtype, &[7, 37]), node("z", dtype, &[7, 37]), node("r", dtype, &[37])];
        let text = "u := uniform(42, 1)\nz := normal(42, 2, @step) where @step < 100\nr[i] := z[3,i] * uniform(4, i)";
        let found = everywhere(text, &nodes, &[17]);
        assert!(found[0].iter().all(|&bits| (0.0..1.0).contains(&f64::from_bits(bits))), "{dtype}");
        assert!(found.iter().all(|values| values.iter().any(|&bits| bits != values[0])), "{dtype}");
    }
    for dtype in ["bool", "u8", "i8", "u16", "i32", "u32", "i64", "u64"] {
        let nodes = [node("r", dtype, &[5, 19]), node("c", dtype, &[19])];
        everywhere("r := random(42, 1)\nc := uniform(light(42))", &nodes, &[]);
    }
}

#[test]
fn fills_that_are_split_over_threads_have_the_same_bits() {
    let nodes = [node("w", "f32", &[400, 1001]), node("line", "f32", &[300_001])];
    let text = "w := normal(1)\nline := uniform(2)";
    let split = |threads| {
        let backend = backend("multicore", threads);
        let code = backend.compile(text, &nodes).expect("a valid text");
        let mut kernels = code.codes().flat_map(|code| code.schedule().kernels());
        kernels.any(|kernel| kernel.abi().launch.extent > kernel.abi().launch.grain)
    };
    assert!(split(2), "the program is too small to be split");
    let one = run(text, &nodes, &[], "inline", 1);
    for threads in [1, 2, 3] {
        assert!(run(text, &nodes, &[], "multicore", threads) == one, "{threads} threads");
    }
}

#[test]
fn dropout_keeps_what_it_says_and_agrees_with_its_derivative() {
    let (x, y, dx) =
        (node("x", "f32", &[64, 100]), node("y", "f32", &[64, 100]), node("dx", "f32", &[64, 100]));
    let text = "x[i,j] := 1 + 0*i + 0*j
        y[i,j] := where(uniform(7, @step, i, j) < 0.75, x[i,j] / 0.75, 0) where @step < 10
        dx[i,j] := where(uniform(7, @step, i, j) < 0.75, 1 / 0.75, 0)";
    let found = everywhere(text, &[x, y, dx], &[4]);
    assert_eq!(found[1], found[2], "the same draws");
    let kept = found[1].iter().filter(|&&bits| f64::from_bits(bits) != 0.0).count();
    assert!((4600..5000).contains(&kept), "{kept} of 6400 kept at 0.75");
}

#[test]
fn what_is_local_to_a_routine_may_be_random() {
    let sum = node("sum", "f64", &[]);
    let w = TensorNode::builder("w").dims([30, 33]).build().expect("small");
    let text = "w := uniform(3)\nsum :+= f64(w[i,j])";
    for (name, threads) in BACKENDS {
        let backend = backend(name, threads);
        let code = backend.compile(text, [&w, &sum]).expect("a valid text");
        let routine =
            code.link(&backend.context().expect("a stream")).expect("every element of w is written first");
        routine.run(&[]).expect("no symbols").sync().expect("ran");
        let mean = routine.context().to_host(&sum).expect("in the context").values()[0] / 990.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
    }
}

#[test]
fn code_without_random_numbers_has_no_generator() {
    let (x, y) = (node("x", "f32", &[64]), node("y", "f32", &[64]));
    let compiled = |text: &str| {
        let backend = backend("inline", 1);
        let code = backend.compile(text, [&x, &y]).expect("a valid text");
        let kernels = code.codes().flat_map(|code| code.schedule().kernels());
        kernels.map(|kernel| lowered_ir::text::print(kernel.ir())).collect::<String>()
    };
    let rotates = |text: &str| text.matches("bit_xor").count();
    let plain = compiled("y[i] := exp(x[i]) * 2");
    assert!(!plain.contains("threefry") && !plain.contains("u32x4") && rotates(&plain) == 0, "{plain}");
    assert!(rotates(&compiled("y[i] := x[i] * uniform(1, i)")) >= 40, "twenty rounds of two");
}
