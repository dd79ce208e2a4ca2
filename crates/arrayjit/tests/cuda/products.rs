//! Matmuls on tensor cores, on layouts that the specification of PTX leaves open or that only a GPU can
//! confirm: graphs of kernels with clusters, tensor maps at unusual addresses and strides, and the rounding
//! of `tf32`.
//!
//! Elements are small integers, so all sums are exact and every bit is compared.

use std::collections::BTreeMap;

use arrayjit::{Backend, HostArray, Settings, TensorNode};
use codegen_core::Payload;
use tnode::DType;

use crate::{backend, or_skip};

/// A program with the values of its inputs, which come before its results.
struct Program {
    text: &'static str,
    nodes: Vec<TensorNode>,
    inputs: Vec<HostArray>,
}

/// Integers from -2 to 2, exact in every float type.
fn small(random: &mut fastrand::Rng, dtype: DType, dims: &[usize]) -> HostArray {
    let values: Vec<f64> = (0..dims.iter().product()).map(|_| f64::from(random.i32(-2..=2))).collect();
    let mut array = HostArray::zeros(dtype, dims.iter().copied()).unwrap();
    array.set_values(&values).unwrap();
    array
}

impl Program {
    /// A program on `inputs` of this type, and on results.
    fn new(
        text: &'static str,
        dtype: DType,
        inputs: &[(&str, &[usize])],
        results: &[(&str, &[usize], DType)],
    ) -> Program {
        let mut random = fastrand::Rng::with_seed(7);
        let node = |name: &str, dims: &[usize], dtype| {
            TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype).build().unwrap()
        };
        let arrays = inputs.iter().map(|(_, dims)| small(&mut random, dtype, dims)).collect();
        let nodes = inputs.iter().map(|(name, dims)| node(name, dims, dtype));
        let nodes = nodes.chain(results.iter().map(|(name, dims, dtype)| node(name, dims, *dtype))).collect();
        Program { text, nodes, inputs: arrays }
    }

    /// Runs the program `count` times and returns the values of all its results after each run.
    fn run(&self, backend: &Backend, count: usize) -> Vec<Vec<HostArray>> {
        let code = backend.compile(self.text, &self.nodes).unwrap();
        for code in code.codes() {
            let Payload::Ptx(module) = code.artifact().payload() else { panic!("no PTX") };
            let is_hopper = module.text().contains("sm_90a");
            let wgmma = module.text().matches("wgmma.mma_async").count();
            println!("{}: {} kernels, {wgmma} wgmma instructions", self.text, module.launches().len());
            assert!(!is_hopper || wgmma > 0, "{}", self.text);
        }
        let (inputs, results) = self.nodes.split_at(self.inputs.len());
        let context =
            inputs.iter().zip(&self.inputs).fold(backend.context().unwrap(), |context, (node, array)| {
                context.init_from_host(node, array).unwrap()
            });
        let routine = code.link(&context).unwrap();
        let run = || {
            routine.run(&[]).unwrap();
            results.iter().map(|node| routine.context().to_host(node).unwrap()).collect()
        };
        (0..count).map(|_| run()).collect()
    }
}

/// The rows of a product that tests compare: the first and last of several tiles.
const ROWS: [usize; 9] = [0, 1, 63, 64, 127, 128, 255, 300, 511];

/// Compares rows of a result with `sum`, which adds the products of an element.
fn compare(result: &HostArray, [rows, columns]: [usize; 2], sum: impl Fn(usize, usize) -> f32) {
    let found = result.as_slice::<f32>().unwrap();
    for row in ROWS.into_iter().filter(|&row| row < rows).chain([rows - 1]) {
        for column in 0..columns {
            let (found, expected) = (found[row * columns + column], sum(row, column));
            assert_eq!(found, expected, "row {row}, column {column}");
        }
    }
}

/// The sums of a square product of this size.
fn square_product(a: &[f64], b: &[f64], n: usize) -> Vec<f32> {
    let [a, b] = [a, b].map(|values| values.iter().map(|&value| value as f32).collect::<Vec<_>>());
    let mut y = vec![0.0; n * n];
    for (y, a) in y.chunks_exact_mut(n).zip(a.chunks_exact(n)) {
        for (a, b) in a.iter().zip(b.chunks_exact(n)) {
            y.iter_mut().zip(b).for_each(|(y, b)| *y += a * b);
        }
    }
    y
}

/// Fails unless all elements of a square result are the expected ones; names the parts of a cluster's tile
/// that have wrong elements: bands of 16 rows, and 64 columns.
fn all_equal(what: &str, result: &HostArray, expected: &[f32], n: usize) {
    let mut wrong = BTreeMap::<[usize; 2], usize>::new();
    let mut first = None;
    for (at, (found, &expected)) in result.values().into_iter().zip(expected).enumerate() {
        if found != f64::from(expected) {
            let [row, column] = [at / n, at % n];
            *wrong.entry([row % 256 / 16, column % 256 / 64]).or_default() += 1;
            first.get_or_insert((row, column, found, expected));
        }
    }
    assert!(wrong.is_empty(), "{what}: the first wrong element is {first:?}; all by part: {wrong:?}");
}

/// The first run launches the kernels one by one, and later runs launch a graph of them, whose nodes must
/// keep the cluster size that the kernels were compiled with.
#[test]
fn a_graph_of_kernels_with_clusters() {
    let Some(backend) = backend("a_graph_of_kernels_with_clusters") else { return };
    const N: usize = 2048;
    let square: &[usize] = &[N, N];
    let text = "y[m,n] :+= f32(a[m,k]) * f32(b[k,n])\nz[m,n] :+= f32(b[m,k]) * f32(a[k,n])";
    let inputs = [("a", square), ("b", square)];
    let program =
        Program::new(text, DType::Bf16, &inputs, &[("y", square, DType::F32), ("z", square, DType::F32)]);
    let [a, b] = [0, 1].map(|at| program.inputs[at].values());
    let expected = [square_product(&a, &b, N), square_product(&b, &a, N)];
    for (run, results) in program.run(&backend, 3).into_iter().enumerate() {
        for (result, expected) in results.iter().zip(&expected) {
            all_equal(&format!("run {run}"), result, expected, N);
        }
    }
}

/// A warp stages its results in two tiles in turn, and uses each of them several times.
#[test]
fn results_of_bf16_from_clusters() {
    let Some(backend) = backend("results_of_bf16_from_clusters") else { return };
    const N: usize = 2048;
    let square: &[usize] = &[N, N];
    let text = "h[m,n] :+= f32(a[m,k]) * f32(b[k,n])\nc[m,n] := h[m,n]";
    let program =
        Program::new(text, DType::Bf16, &[("a", square), ("b", square)], &[("c", square, DType::Bf16)]);
    let [a, b] = [0, 1].map(|at| program.inputs[at].values());
    let expected = square_product(&a, &b, N);
    for (run, results) in program.run(&backend, 2).into_iter().enumerate() {
        let mut rounded = HostArray::zeros(DType::Bf16, [N, N]).unwrap();
        rounded.set_values(&expected.iter().copied().map(f64::from).collect::<Vec<_>>()).unwrap();
        let rounded: Vec<f32> = rounded.values().into_iter().map(|value| value as f32).collect();
        all_equal(&format!("run {run}"), &results[0], &rounded, N);
    }
}

/// A tensor map with swizzled tiles of 128 bytes at an address that only 16 divides.
#[test]
fn a_product_on_a_slice() {
    let Some(backend) = backend("a_product_on_a_slice") else { return };
    const N: usize = 512;
    const WIDE: usize = N + 8;
    let program = Program::new(
        "y[m,n] :+= f32(a[m,k+8]) * f32(b[k,n])",
        DType::Bf16,
        &[("a", &[N, WIDE]), ("b", &[N, N])],
        &[("y", &[N, N], DType::F32)],
    );
    let [a, b] = [0, 1].map(|at| program.inputs[at].values());
    for results in program.run(&backend, 1) {
        compare(&results[0], [N, N], |m, n| {
            (0..N).map(|k| a[m * WIDE + k + 8] * b[k * N + n]).sum::<f64>() as f32
        });
    }
}

/// A tensor map whose outermost stride, of the batch, is below the stride of rows.
#[test]
fn a_batch_within_rows() {
    let Some(backend) = backend("a_batch_within_rows") else { return };
    const B: usize = 4;
    const N: usize = 512;
    let program = Program::new(
        "y[b,m,n] :+= f32(a[m,b,k]) * f32(w[b,k,n])",
        DType::Bf16,
        &[("a", &[N, B, N]), ("w", &[B, N, N])],
        &[("y", &[B, N, N], DType::F32)],
    );
    let [a, w] = [0, 1].map(|at| program.inputs[at].values());
    for results in program.run(&backend, 1) {
        compare(&results[0], [B * N, N], |row, n| {
            let (b, m) = (row / N, row % N);
            (0..N).map(|k| a[(m * B + b) * N + k] * w[(b * N + k) * N + n]).sum::<f64>() as f32
        });
    }
}

/// Tensor cores use the upper 10 bits of the mantissa of `f32` operands and ignore the others.
#[test]
fn tf32_operands_are_truncated() {
    let mut settings = Settings::default();
    settings.gpu.tf32 = true;
    let opened = Backend::open_with("cuda", &settings);
    let Some(backend) = or_skip("tf32_operands_are_truncated", opened) else { return };
    const N: usize = 256;
    let [a, b, y] = ["a", "b", "y"].map(|name| TensorNode::builder(name).dims([N, N]).build().unwrap());
    let code = backend.compile("y[m,n] :+= a[m,k] * b[k,n]", [&a, &b, &y]).unwrap();
    // Each row has one element, with bits below the 10th: rounding to the nearest would carry.
    let element = f32::from_bits(1.0_f32.to_bits() | 0x1fff);
    let diagonal = |value: f32| {
        let values: Vec<f32> = (0..N * N).map(|at| if at % (N + 1) == 0 { value } else { 0.0 }).collect();
        HostArray::from_slice(&values, [N, N]).unwrap()
    };
    let context = backend.context().unwrap();
    let context = context.init_from_host(&a, diagonal(element)).unwrap();
    let context = context.init_from_host(&b, diagonal(1.0)).unwrap();
    let routine = code.link(&context).unwrap();
    routine.run(&[]).unwrap();
    let found = routine.context().to_host(&y).unwrap();
    assert_eq!(found.as_slice::<f32>().unwrap(), diagonal(1.0).as_slice::<f32>().unwrap());
}
