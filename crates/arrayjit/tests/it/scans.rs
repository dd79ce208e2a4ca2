//! Prefix and suffix sums, written as triangles, take one loop: their values, and the cost.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, DType, HostArray, MemoryMode, Settings, TensorNode, settings::NumericClass};

/// Sizes around the least size that is divided into blocks, and around the ends of blocks.
const SIZES: [usize; 9] = [1, 2, 3, 64, 2047, 2048, 2049, 2112, 5000];

fn node(name: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let dims = dims.iter().copied();
    TensorNode::builder(name).dtype(dtype).dims(dims).mode(MemoryMode::Materialized).build().unwrap()
}

/// Runs a text with the nodes `x` and `y` of these dimensions, and returns the values of `y`.
fn run(backend: &Backend, text: &str, x: &HostArray, dims: &[usize]) -> HostArray {
    let (source, target) = (node("x", x.dtype(), x.dims()), node("y", x.dtype(), dims));
    let compiled = backend.compile_named("scan", text, [&source, &target]).unwrap_or_else(|e| panic!("{e}"));
    let context = backend.context().unwrap().init_from_host(&source, x).unwrap();
    let linked = compiled.link(&context).unwrap();
    linked.run(&[]).unwrap();
    linked.context().to_host(&target).unwrap()
}

/// Small integers, which floats add up exactly.
fn numbers(count: usize) -> Vec<i32> {
    (0..count).map(|at| ((at * 7919) % 23) as i32 - 11).collect()
}

/// Whether position `k` counts for position `i`.
type Counts = fn(usize, usize) -> bool;

const RELATIONS: [(&str, Counts); 4] =
    [("k <= i", |k, i| k <= i), ("k < i", |k, i| k < i), ("k >= i", |k, i| k >= i), ("k > i", |k, i| k > i)];

/// The sums of the positions that count, in linear time.
fn sums(x: &[i32], counts: Counts) -> Vec<i32> {
    let (forwards, own) = (counts(0, 1), counts(0, 0));
    let order: Vec<usize> = if forwards { (0..x.len()).collect() } else { (0..x.len()).rev().collect() };
    let (mut y, mut sum) = (vec![0; x.len()], 0);
    for at in order {
        y[at] = if own { sum + x[at] } else { sum };
        sum += x[at];
    }
    y
}

#[test]
fn each_relation_gives_its_sums_at_the_ends_of_blocks() {
    let backend = Backend::open("inline").unwrap();
    for size in SIZES {
        let x = numbers(size);
        for (relation, counts) in RELATIONS {
            let expected: Vec<f64> = sums(&x, counts).into_iter().map(f64::from).collect();
            let text = format!("y[i] :+= x[k] where {relation}");
            let ints = HostArray::from_slice(&x, [size]).unwrap();
            let floats: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            let floats = HostArray::from_slice(&floats, [size]).unwrap();
            for x in [ints, floats] {
                assert_eq!(run(&backend, &text, &x, &[size]).values(), expected, "{relation}, {size}");
            }
        }
    }
}

/// Rows around and behind the axis, reductions within a step, old elements, and other operations.
#[test]
fn forms_of_scans_agree_with_their_definition() {
    let backend = Backend::open("inline").unwrap();
    let (rows, size, columns) = (3, 2100, 2);
    let x = numbers(rows * size * columns);
    let at = |r: usize, i: usize, c: usize| f64::from(x[(r * size + i) * columns + c]);
    let array = HostArray::from_slice(&x, [rows, size, columns]).unwrap();
    let whole = [rows, size, columns];
    let maxima = run(&backend, "y[r,i,c] :max= x[r,k,c] where k <= i", &array, &whole).values();
    let differences = run(&backend, "y[r,i,c] :-= x[r,k,c] where k <= i", &array, &whole).values();
    let added = run(&backend, "y[r,i,c] := 1\ny[r,i,c] += x[r,k,c] where k > i", &array, &whole).values();
    let joined = run(&backend, "y[i] :+= x[r,k,c] where k <= i", &array, &[size]).values();
    let mut total = 0.0;
    for (i, &joined) in joined.iter().enumerate() {
        total += (0..rows).flat_map(|r| (0..columns).map(move |c| at(r, i, c))).sum::<f64>();
        assert_eq!(joined, total, "{i}");
    }
    for (r, c) in (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c))) {
        let (mut most, mut sum, all) = (f64::MIN, 0.0, (0..size).map(|i| at(r, i, c)).sum::<f64>());
        for i in 0..size {
            most = most.max(at(r, i, c));
            sum += at(r, i, c);
            let place = (r * size + i) * columns + c;
            assert_eq!((maxima[place], differences[place]), (most, -sum), "{r}, {i}, {c}");
            assert_eq!(added[place], 1.0 + all - sum, "{r}, {i}, {c}");
        }
    }
}

/// The gradient of a prefix sum is a suffix sum, and the reverse.
#[test]
fn gradients_of_scans_are_scans() {
    let backend = Backend::open("inline").unwrap();
    for size in [1, 5, 2100] {
        let weights: Vec<f32> = numbers(size).into_iter().map(|x| x as f32).collect();
        let x = HostArray::from_slice(&weights, [size]).unwrap();
        for (relation, _) in RELATIONS {
            let text = format!(
                "s[i] :+= x[k] where {relation}, i < {size}\nl :+= s[i] * i\ngrad l by x\ny[i] := x.grad[i]"
            );
            let reversed: Vec<i32> = (0..size as i32).collect();
            let transposed: Counts = match relation {
                "k <= i" => |k, i| k >= i,
                "k < i" => |k, i| k > i,
                "k >= i" => |k, i| k <= i,
                _ => |k, i| k < i,
            };
            let expected: Vec<f64> = sums(&reversed, transposed).into_iter().map(f64::from).collect();
            assert_eq!(run(&backend, &text, &x, &[size]).values(), expected, "{relation}, {size}");
        }
    }
}

/// Blocks depend on the shape alone, so the interpreter and any number of threads give the same bits. The sum
/// of class strict is that of the order written.
#[test]
fn every_number_of_threads_gives_the_same_bits() {
    let size = 70_001;
    let values: Vec<f32> = (0..size).map(|at| ((at * 7919) % 1013) as f32 * 0.37 - 151.3).collect();
    let x = HostArray::from_slice(&values, [size]).unwrap();
    let text = "y[i] :+= x[k] where k <= i";
    let on = |name: &str, threads: usize, numerics: NumericClass| {
        let mut settings = Settings::default();
        settings.threads = threads;
        settings.numerics = numerics;
        run(&Backend::open_with(name, &settings).unwrap(), text, &x, &[size])
    };
    let fast = on("interpreter", 1, NumericClass::Fast);
    for threads in [1, 2, 3] {
        assert_eq!(on("multicore", threads, NumericClass::Fast), fast, "{threads} threads");
    }
    let mut sum = 0f32;
    let in_order: Vec<f64> = values
        .iter()
        .map(|x| {
            sum += x;
            f64::from(sum)
        })
        .collect();
    assert_eq!(on("multicore", 2, NumericClass::Strict).values(), in_order);
}
