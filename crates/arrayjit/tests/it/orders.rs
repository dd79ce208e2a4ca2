//! Positions in sorted order: every type, the sizes at which the algorithm changes, and values that are equal
//! or no numbers, against a stable sort of Rust's.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::cmp::Ordering;

use arrayjit::{Backend, DType, HostArray, MemoryMode, TensorNode};

fn node(name: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let dims = dims.iter().copied();
    TensorNode::builder(name).dtype(dtype).dims(dims).mode(MemoryMode::Materialized).build().unwrap()
}

/// The first `count` positions along an axis, as the backend computes them.
fn positions(backend: &Backend, x: &HostArray, axis: usize, count: usize, order: &str) -> Vec<f64> {
    let mut dims = x.dims().to_vec();
    dims[axis] = count;
    let (source, target) = (node("x", x.dtype(), x.dims()), node("p", DType::I32, &dims));
    let text = format!("p := {order}(x, {axis})");
    let compiled =
        backend.compile_named("order", &text, [&source, &target]).unwrap_or_else(|e| panic!("{e}"));
    let context = backend.context().unwrap().init_from_host(&source, x).unwrap();
    let linked = compiled.link(&context).unwrap();
    linked.run(&[]).unwrap();
    linked.context().to_host(&target).unwrap().values()
}

/// NaN is the largest number, and both zeros are equal.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn expected(x: &HostArray, axis: usize, count: usize, order: &str) -> Vec<f64> {
    let (values, dims) = (x.values(), x.dims().to_vec());
    let inner: usize = dims[axis + 1..].iter().product();
    let outer: usize = dims[..axis].iter().product();
    let size = dims[axis];
    let mut result = vec![0.0; outer * count * inner];
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        let value = |k: usize| values[(o * size + k) * inner + i];
        let mut order_of: Vec<usize> = (0..size).collect();
        order_of.sort_by(|&a, &b| match order {
            "ascending" => compare(value(a), value(b)),
            _ => compare(value(b), value(a)),
        });
        for (rank, k) in order_of.into_iter().take(count).enumerate() {
            result[(o * count + rank) * inner + i] = k as f64;
        }
    }
    result
}

/// Numbers with many equal ones among them, both zeros, infinities and NaN.
fn values(dtype: DType, count: usize) -> Vec<f64> {
    let special = [f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN, 1e-7, -1e-7];
    let number = |at: usize| {
        let bits = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        match (bits % 5, dtype.is_float()) {
            (0, true) => special[(bits / 5) as usize % special.len()],
            (1, _) => (bits / 5 % 4) as f64,
            // The integers of `f64` are exact, and some need more than 32 bits.
            (2, _) if dtype.size_bytes() == 8 => (bits as f64 - 1e9) * 4e6,
            _ => (bits / 5) as f64 - 2e8,
        }
    };
    (0..count).map(number).collect()
}

fn array(dtype: DType, dims: &[usize]) -> HostArray {
    let mut array = HostArray::zeros(dtype, dims.iter().copied()).unwrap();
    array.set_values(&values(dtype, dims.iter().product())).unwrap();
    array
}

fn check(backend: &Backend, x: &HostArray, axis: usize, count: usize) {
    for order in ["ascending", "descending"] {
        let found = positions(backend, x, axis, count, order);
        let expected = expected(x, axis, count, order);
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        let (dtype, dims) = (x.dtype(), x.dims());
        assert_eq!((first, found.len()), (None, expected.len()), "{order}, {dtype}{dims:?}, {axis}, {count}");
    }
}

#[test]
fn every_type_has_its_order() {
    let backend = Backend::open("inline").unwrap();
    for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::U32x4) {
        for (size, count) in [(40, 40), (300, 300), (2000, 3)] {
            check(&backend, &array(dtype, &[size]), 0, count);
        }
    }
}

#[test]
fn sizes_around_changes_of_the_algorithm() {
    let backend = Backend::open("inline").unwrap();
    for size in [1, 2, 63, 64, 65, 200, 255, 256, 257, 1023, 1025, 5000] {
        for count in [1, 2, 7, size / 20, size].into_iter().filter(|count| (1..=size).contains(count)) {
            check(&backend, &array(DType::F32, &[size]), 0, count);
        }
    }
}

#[test]
fn every_axis_has_its_order() {
    let backend = Backend::open("inline").unwrap();
    for (dims, counts) in [([3, 70, 2], [1, 2, 70]), ([1, 1030, 3], [1, 5, 1030]), ([2, 5, 4], [1, 3, 5])] {
        let x = array(DType::F32, &dims);
        for count in counts {
            check(&backend, &x, 1, count);
        }
        check(&backend, &x, 0, dims[0]);
        check(&backend, &x, 2, 1);
    }
}

/// The interpreter defines the result, and threads do not change it.
#[test]
fn other_backends_agree() {
    for backend in ["interpreter", "multicore"] {
        let backend = Backend::open(backend).unwrap();
        for (size, count) in [(33, 33), (300, 10), (1100, 4)] {
            check(&backend, &array(DType::F32, &[2, size]), 1, count);
        }
    }
}

/// A million elements take a few operations each.
#[test]
fn long_axes() {
    let backend = Backend::open("inline").unwrap();
    let x = array(DType::F32, &[1 << 20]);
    for count in [1, 1000, 1 << 20] {
        check(&backend, &x, 0, count);
    }
}

#[test]
fn mistakes_name_the_nodes() {
    let backend = Backend::open("inline").unwrap();
    let error = |text: &str| {
        let x = node("x", DType::F32, &[3, 4]);
        backend.compile_named("order", text, [&x]).unwrap_err().to_string()
    };
    let shape = error("node p i32[3, 5]\np := ascending(x, 1)\nkeep p");
    assert!(shape.contains("node p: positions along axis 1 of x, which has dimensions [3, 4]"), "{shape}");
    let axis = error("node p i32[3, 4]\np := ascending(x, 2)\nkeep p");
    assert!(axis.contains("node p: positions along axis 2 of x"), "{axis}");
    let floats = error("node p f32[3, 4]\np := descending(x, 1)\nkeep p");
    assert!(floats.contains("descending"), "{floats}");
}
