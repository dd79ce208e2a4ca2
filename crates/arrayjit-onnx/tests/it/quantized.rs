//! Products of quantized matrices and images, against sums of integers.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic")]

use arrayjit_onnx::{Backend, DType, HostArray};
use arrayjit_tensor::{NumericClass, Settings};

use crate::build::*;

/// Random integers of a type of 8 bits.
fn bytes(dtype: DType, shape: &[usize], seed: u64) -> HostArray {
    let mut random = fastrand::Rng::with_seed(seed);
    let bytes: Vec<u8> = (0..shape.iter().product()).map(|_| random.u8(..)).collect();
    HostArray::from_bytes(dtype, shape.iter().copied(), &bytes).unwrap()
}

fn integers(array: &HostArray) -> Vec<i64> {
    array.values().iter().map(|&value| value as i64).collect()
}

/// `Σ (x - a) (z - b)` of matrices `[m, k]` and `[k, n]`.
fn product(x: &HostArray, z: &HostArray, a: &HostArray, b: &HostArray) -> Vec<f64> {
    let (&[m, k], &[_, n]) = (&*x.dims().to_vec(), &*z.dims().to_vec()) else { panic!("matrices") };
    let [x, z, a, b] = [x, z, a, b].map(integers);
    let element = |at: usize| {
        let (row, column) = (at / n, at % n);
        let term = |p: usize| (x[row * k + p] - a[row % a.len()]) * (z[p * n + column] - b[column % b.len()]);
        (0..k).map(term).sum::<i64>() as f64
    };
    (0..m * n).map(element).collect()
}

/// Operands that are inputs and operands that are constants, with one zero point and with several.
#[test]
fn products_of_integers_are_exact() {
    let types = [DType::U8, DType::I8];
    for (x_type, z_type) in types.iter().flat_map(|x| types.map(|z| (*x, z))) {
        for [m, k, n] in [[3, 8, 5], [16, 60, 40], [7, 33, 18]] {
            for counts in [[1, 1], [m, n]] {
                let (x, z) = (bytes(x_type, &[m, k], 1), bytes(z_type, &[k, n], 2));
                let (a, b) = (bytes(x_type, &[counts[0]], 3), bytes(z_type, &[counts[1]], 4));
                let expected = product(&x, &z, &a, &b);
                let nodes = vec![node("y = MatMulInteger x z a b")];
                let of_inputs = session(graph(&["x", "z", "a", "b"], &["y"], nodes.clone()));
                let found = of_inputs.run(&[("x", &x), ("z", &z), ("a", &a), ("b", &b)]).unwrap();
                assert_eq!(found[0].values(), expected, "{x_type} {z_type} {m} {k} {n}");
                let weights = constant(constant(graph(&["x", "a"], &["y"], nodes), "z", &z), "b", &b);
                let found = session(weights).run(&[("x", &x), ("a", &a)]).unwrap();
                assert_eq!(found[0].values(), expected, "{x_type} {z_type} {m} {k} {n}, a constant");
            }
        }
    }
}

#[test]
fn batches_share_a_matrix_or_have_their_own() {
    let x = bytes(DType::U8, &[2, 3, 4, 9], 1);
    let a = bytes(DType::U8, &[1], 2);
    for shape in [vec![9, 5], vec![3, 9, 5], vec![2, 1, 9, 5]] {
        let z = bytes(DType::I8, &shape, 3);
        let (b, own) = (bytes(DType::I8, &[1], 4), shape.iter().product::<usize>() / 45);
        let found = session(graph(&["x", "z", "a", "b"], &["y"], vec![node("y = MatMulInteger x z a b")]))
            .run(&[("x", &x), ("z", &z), ("a", &a), ("b", &b)])
            .unwrap();
        let mut expected = Vec::new();
        for at in 0..6 {
            let matrix = match own {
                1 => 0,
                3 => at % 3,
                _ => at / 3,
            };
            let part = |array: &HostArray, at: usize, shape: [usize; 2]| {
                let size = shape[0] * shape[1];
                HostArray::from_bytes(array.dtype(), shape, &array.bytes()[at * size..][..size]).unwrap()
            };
            expected.extend(product(&part(&x, at, [4, 9]), &part(&z, matrix, [9, 5]), &a, &b));
        }
        assert_eq!(found[0].dims().to_vec(), [2, 3, 4, 5]);
        assert_eq!(found[0].values(), expected, "{shape:?}");
    }
}

/// The margins of an image are its zero point, which the sums leave out. Filters of four channels are stored
/// in groups.
#[test]
fn convolutions_of_integers_are_exact() {
    let types = [(DType::U8, DType::I8), (DType::I8, DType::I8), (DType::U8, DType::U8)];
    for ((x_type, w_type), channels) in types.into_iter().flat_map(|types| [(types, 3), (types, 8)]) {
        let [filters, size] = [20, 7];
        let x = bytes(x_type, &[1, channels, size, size], 1);
        let w = bytes(w_type, &[filters, channels, 3, 3], 2);
        let a = bytes(x_type, &[1], 3);
        let convolution = node("y = ConvInteger x w a");
        let convolution = ints(ints(convolution, "pads", &[1, 1, 1, 1]), "strides", &[2, 1]);
        let model = graph(&["x"], &["y"], vec![convolution]);
        let model = constant(constant(model, "w", &w), "a", &a);
        let found = session(model).run(&[("x", &x)]).unwrap();
        let [x, w, a] = [&x, &w, &a].map(integers);
        let (rows, columns) = (size.div_ceil(2), size);
        let mut expected = Vec::new();
        for at in 0..filters * rows * columns {
            let (filter, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
            let mut sum = 0;
            for tap in 0..channels * 9 {
                let (channel, i, j) = (tap / 9, 2 * row + tap / 3 % 3, column + tap % 3);
                if (1..=size).contains(&i) && (1..=size).contains(&j) {
                    let pixel = x[(channel * size + i - 1) * size + j - 1];
                    sum += (pixel - a[0]) * w[filter * channels * 9 + tap];
                }
            }
            expected.push(sum as f64);
        }
        assert_eq!(found[0].values(), expected, "{x_type} {w_type} {channels}");
    }
}

/// A product of dequantized matrices, with one scale for the right one or one for each column.
fn dequantized(z: &HostArray, scales: &[f32], zeros: &HostArray) -> GraphProto {
    let nodes =
        vec![node("f = DequantizeLinear x s a"), node("g = DequantizeLinear z t b"), node("y = MatMul f g")];
    let shape: &[usize] = if scales.len() == 1 { &[] } else { &[scales.len()] };
    let model = constant(graph(&["x"], &["y"], nodes), "z", z);
    let model = constant(constant(model, "t", &floats(scales, shape)), "b", zeros);
    constant(constant(model, "s", &floats(&[0.037], &[])), "a", &bytes(DType::U8, &[], 9))
}

#[test]
fn products_of_dequantized_matrices_are_rounded_three_times() {
    let [m, k, n] = [6, 36, 24];
    let x = bytes(DType::U8, &[m, k], 1);
    let z = bytes(DType::I8, &[k, n], 2);
    for scales in [vec![0.011], (1..=n).map(|at| 0.003 * at as f32).collect::<Vec<_>>()] {
        let zeros = if scales.len() == 1 { bytes(DType::I8, &[], 3) } else { bytes(DType::I8, &[n], 3) };
        let found = session(dequantized(&z, &scales, &zeros)).run(&[("x", &x)]).unwrap();
        let sums = product(&x, &z, &bytes(DType::U8, &[1], 9), &zeros);
        for (at, (found, sum)) in found[0].values().iter().zip(sums).enumerate() {
            let scale = 0.037f32 * scales[at % n % scales.len()];
            assert_eq!(*found as f32, sum as f32 * scale, "{at}");
        }
    }
}

/// Quantizations with the scale and the zero point of what they read are removed, and operators in between
/// move the integers.
#[test]
fn quantizations_that_give_back_integers_are_removed() {
    let x = HostArray::from_bytes(DType::U8, [16, 16], &(0..=255).collect::<Vec<u8>>()).unwrap();
    let nodes = |second: &str| {
        let moved = ints(node("g = Transpose f"), "perm", &[1, 0]);
        vec![node("f = DequantizeLinear x s a"), moved, node(&format!("y = QuantizeLinear g {second} a"))]
    };
    let model = |second: &str| {
        let model = constant(graph(&["x"], &["y"], nodes(second)), "s", &floats(&[0.0371], &[]));
        let model = constant(model, "t", &floats(&[0.0742], &[]));
        load(constant(model, "a", &bytes(DType::U8, &[], 4))).unwrap()
    };
    let backend = Backend::open("inline").unwrap();
    for (second, is_removed) in [("s", true), ("t", false)] {
        let model = model(second);
        assert_eq!(model.operators().contains_key("QuantizeLinear"), !is_removed);
        assert_eq!(model.operators().contains_key("DequantizeLinear"), !is_removed);
        let found = model.session(&backend).unwrap().run(&[("x", &x)]).unwrap();
        let expected: Vec<f64> = (0..256).map(|at| f64::from(at % 16 * 16 + at / 16)).collect();
        assert_eq!(found[0].values() == expected, is_removed);
    }
}

/// A backend of class strict.
fn strict() -> Backend {
    let mut settings = Settings::default();
    settings.numerics = NumericClass::Strict;
    Backend::open_with("inline", &settings).unwrap()
}

/// In class strict, a product has the bits of the operations of the file.
#[test]
fn strict_products_of_dequantized_matrices_are_those_of_floats() {
    let [m, k, n] = [5, 36, 24];
    let x = bytes(DType::U8, &[m, k], 1);
    let (z, zeros) = (bytes(DType::I8, &[k, n], 2), bytes(DType::I8, &[n], 3));
    let scales: Vec<f32> = (1..=n).map(|at| 0.003 * at as f32).collect();
    let session = load(dequantized(&z, &scales, &zeros)).unwrap().session(&strict()).unwrap();
    let found = session.run(&[("x", &x)]).unwrap();
    let zero = bytes(DType::U8, &[1], 9).values()[0];
    let [x, z, zeros] = [&x, &z, &zeros].map(HostArray::values);
    for (at, found) in found[0].values().iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let mut sum = 0f32;
        for p in 0..k {
            let left = (x[row * k + p] - zero) as f32 * 0.037;
            sum += left * ((z[p * n + column] - zeros[column]) as f32 * scales[column]);
        }
        assert_eq!(*found as f32, sum, "{at}");
    }
}

/// `Gemm` with a transposed matrix, and `Conv` with margins, against the floats of class strict.
#[test]
fn other_products_of_dequantized_operands_are_close_to_those_of_floats() {
    let [m, k, n] = [4, 36, 20];
    let gemm = int(node("y = Gemm f g c"), "transB", 1);
    let convolution = ints(node("y = Conv f g c"), "pads", &[1, 1, 1, 1]);
    let cases = [
        (gemm, vec![m, k], vec![n, k], vec![m, n]),
        (convolution, vec![1, 4, 6, 6], vec![n, 4, 3, 3], vec![1, n, 6, 6]),
    ];
    for (operator, x_shape, z_shape, shape) in cases {
        let x = bytes(DType::U8, &x_shape, 1);
        let scales: Vec<f32> = (1..=n).map(|at| 0.003 * at as f32).collect();
        let of_z = int(node("g = DequantizeLinear z t b"), "axis", 0);
        let nodes = vec![node("f = DequantizeLinear x s a"), of_z, operator];
        let model = || {
            let model = constant(graph(&["x"], &["y"], nodes.clone()), "z", &bytes(DType::I8, &z_shape, 2));
            let model = constant(constant(model, "t", &floats(&scales, &[n])), "c", &floats(&scales, &[n]));
            let zeros = HostArray::zeros(DType::I8, [n]).unwrap();
            let model = constant(constant(model, "b", &zeros), "s", &floats(&[0.037], &[]));
            constant(model, "a", &bytes(DType::U8, &[], 9))
        };
        let strict = load(model()).unwrap().session(&strict()).unwrap();
        let expected = strict.run(&[("x", &x)]).unwrap()[0].values();
        let found = session(model()).run(&[("x", &x)]).unwrap();
        assert_close(&found[0], &shape, &expected);
    }
}
