//! Large cases for GPUs: matrix multiplications with narrow elements, and operations on hundreds of
//! megabytes.
//!
//! Inputs are random: a GPU multiplies zeros faster than other numbers. Some rows of the results are checked,
//! in f64; see [`crate::sample`].

use arrayjit::{DType, HostArray};

use super::{
    contractions::product_flops,
    rows::{layer_norm, layer_norm_row, softmax, softmax_row},
};
use crate::{
    case::{Case, Node, Operation},
    product::{product, transposed},
    sample,
};

/// The relative error of rounding to bf16: half the distance of neighbors.
const BF16: f64 = 1.0 / 256.0;
/// The relative error of rounding to f32.
const F32: f64 = 1.0 / (1 << 24) as f64;

pub(super) fn all() -> Vec<Case> {
    let size = 8192;
    vec![
        gemm_bf16("gemm_bf16_1024", 1024),
        gemm_bf16("gemm_bf16_2048", 2048),
        gemm_bf16("gemm_bf16_4096", 4096),
        gemm_bf16("gemm_bf16_8192", 8192),
        gemm_f32("gemm_f32_4096", 4096),
        copy("copy_1g", 1 << 15, size),
        large_softmax("softmax_8192x8192", size, size),
        large_layer_norm("layernorm_8192x8192", size, size),
        attention_bf16("attention_bf16_16x4096x128", [16, 4096, 128]),
    ]
}

/// `c = a b`, square: elements of bf16, sums in f32, rounded once. Tensor cores truncate to f32 instead of
/// rounding: an error of at most half a unit of the last place for each product.
fn gemm_bf16(name: &'static str, n: usize) -> Case {
    let text = "h[m,n] :+= f32(a[m,k]) * f32(b[k,n])\nc[m,n] := h[m,n]";
    let nodes = vec![
        Node::input("a", &[n, n]).of(DType::Bf16),
        Node::input("b", &[n, n]).of(DType::Bf16),
        Node::intermediate("h", &[n, n]),
        Node::written("c", &[n, n]).of(DType::Bf16),
    ];
    square(Case::new(name, Operation::Matmul, text, nodes), n).tolerance(BF16 + n as f64 * F32)
}

/// `c = a b`, square, f32. The error of a sum of random products grows with the square root of their number:
/// the tolerance is a small multiple of that, and far below the error of products in fewer bits, such as
/// tf32.
fn gemm_f32(name: &'static str, n: usize) -> Case {
    let nodes = vec![Node::input("a", &[n, n]), Node::input("b", &[n, n]), Node::written("c", &[n, n])];
    square(Case::new(name, Operation::Matmul, "c[m,n] :+= a[m,k] * b[k,n]", nodes), n).tolerance(1e-5)
}

fn square(case: Case, n: usize) -> Case {
    case.flops(product_flops([n, n, n])).by_rows(move |inputs, rows| {
        let b = sample::part(inputs[1], 0, n * n);
        product(&sample::rows(inputs[0], rows), &b, [rows.len(), n, n])
    })
}

/// Copies an array: with 2¹⁵ rows of 8192 elements, 1 GiB is read and 1 GiB written.
fn copy(name: &'static str, rows: usize, columns: usize) -> Case {
    let nodes = vec![Node::input("x", &[rows, columns]), Node::written("y", &[rows, columns])];
    let case = Case::new(name, Operation::Copy, "y[r,c] := x[r,c]", nodes).tolerance(0.0);
    case.by_rows(|inputs, rows| sample::rows(inputs[0], rows))
}

/// Softmax of each row, f32.
fn large_softmax(name: &'static str, rows: usize, columns: usize) -> Case {
    softmax(name, rows, columns).by_rows(move |inputs, rows| {
        sample::rows(inputs[0], rows).chunks_exact(columns).flat_map(softmax_row).collect()
    })
}

/// Layer normalization of each row, f32.
fn large_layer_norm(name: &'static str, rows: usize, columns: usize) -> Case {
    layer_norm(name, rows, columns).by_rows(move |inputs, rows| {
        let [scale, shift] = [1, 2].map(|i| sample::part(inputs[i], 0, columns));
        let row = |row: &[f64]| layer_norm_row(row, &scale, &shift);
        sample::rows(inputs[0], rows).chunks_exact(columns).flat_map(row).collect()
    })
}

/// `softmax(q kᵀ / √features) v` of each head: elements of bf16, sums and exponentials in f32. The weights
/// are rounded to bf16 for the second product, and so are the results; each rounding contributes to the
/// tolerance.
fn attention_bf16(name: &'static str, sizes: [usize; 3]) -> Case {
    let [heads, positions, features] = sizes;
    let text = format!(
        "s[h,i,j] :+= f32(q[h,i,d]) * f32(k[h,j,d])
        top[h,i] :max= s[h,i,j]
        e[h,i,j] := exp((s[h,i,j] - top[h,i]) * {})
        sum[h,i] :+= f32(e[h,i,j])
        o[h,i,d] :+= f32(e[h,i,j]) * f32(v[h,j,d])
        y[h,i,d] := o[h,i,d] / sum[h,i]",
        1.0 / (features as f64).sqrt()
    );
    let (values, scores) = ([heads, positions, features], [heads, positions, positions]);
    let input = |name| Node::input(name, &values).of(DType::Bf16);
    let nodes = vec![
        input("q"),
        input("k"),
        input("v"),
        Node::intermediate("s", &scores),
        Node::intermediate("top", &[heads, positions]),
        Node::intermediate("e", &scores).of(DType::Bf16),
        Node::intermediate("sum", &[heads, positions]),
        Node::intermediate("o", &values),
        Node::written("y", &values).of(DType::Bf16),
    ];
    let products = 2.0 * heads as f64 * product_flops([positions, features, positions]);
    Case::new(name, Operation::Attention, &text, nodes)
        .flops(products + 5.0 * (heads * positions * positions) as f64)
        .tolerance(2.0 * BF16)
        .by_rows(move |inputs, rows| {
            rows.chunk_by(|a, b| a / positions == b / positions)
                .flat_map(|rows| attention_rows(inputs, rows, sizes))
                .collect()
        })
}

/// Some rows of one head.
fn attention_rows(inputs: &[&HostArray], rows: &[usize], [_, positions, features]: [usize; 3]) -> Vec<f64> {
    let size = positions * features;
    let [k, v] = [1, 2].map(|i| sample::part(inputs[i], rows[0] / positions * size, size));
    let q = sample::rows(inputs[0], rows);
    let mut scores = product(&q, &transposed(&k, features), [rows.len(), features, positions]);
    scores.iter_mut().for_each(|score| *score /= (features as f64).sqrt());
    let weights: Vec<f64> = scores.chunks_exact(positions).flat_map(softmax_row).collect();
    product(&weights, &v, [rows.len(), positions, features])
}

#[cfg(test)]
mod tests {
    use arrayjit::{Backend, Settings};

    use super::*;
    use crate::{case::Check, check, ours::LinkedCase};

    /// Every case that is small enough to be checked completely.
    fn small() -> Vec<Case> {
        vec![
            gemm_bf16("gemm_bf16", 96),
            gemm_f32("gemm_f32", 80),
            copy("copy", 100, 24),
            large_softmax("softmax", 90, 64),
            large_layer_norm("layernorm", 70, 64),
            attention_bf16("attention_bf16", [3, 48, 32]),
        ]
    }

    fn inline() -> Backend {
        Backend::open_with("inline", &Settings::default()).unwrap()
    }

    fn ran(case: &Case) -> (Vec<Option<HostArray>>, Vec<HostArray>) {
        let inputs: Vec<_> = case.nodes.iter().map(|node| node.array().unwrap()).collect();
        let ours = LinkedCase::prepare(&inline(), case, &inputs).unwrap();
        ours.run_once().unwrap();
        let outputs = ours.outputs().unwrap();
        (inputs, outputs)
    }

    #[test]
    fn there_is_a_small_one_of_every_kind() {
        for case in all() {
            assert!(case.is_large && matches!(case.check, Check::Rows(_)), "{}", case.name);
            let has_kind = |small: &Case| case.name.split('_').next() == small.name.split('_').next();
            assert!(
                small().iter().any(|small| has_kind(small) && small.dtype() == case.dtype()),
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn rows_that_are_right_pass_and_agree_with_the_whole() {
        for case in small() {
            let (inputs, outputs) = ran(&case);
            check::check(&inline(), &case, &outputs, &inputs).unwrap();
            let tolerance = case.tolerance.max(1e-6);
            let whole = Case { check: Check::Interpreter, tolerance, ..case };
            check::check(&inline(), &whole, &outputs, &inputs).unwrap();
        }
    }

    #[test]
    fn all_rows_are_what_the_interpreter_says() {
        for case in small() {
            let (inputs, _) = ran(&case);
            let Check::Rows(formula) = &case.check else { panic!("{} is not checked by rows", case.name) };
            let backend = Backend::open_with("interpreter", &Settings::default()).unwrap();
            let ours = LinkedCase::prepare(&backend, &case, &inputs).unwrap();
            ours.run_once().unwrap();
            let found = ours.outputs().unwrap();
            let rows: Vec<usize> = (0..sample::count(&found[0])).collect();
            let expected = formula(&inputs.iter().flatten().collect::<Vec<_>>(), &rows);
            let found: Vec<_> = found.iter().map(HostArray::values).collect();
            check::compare(&case, &found, &[expected], case.tolerance).unwrap();
        }
    }

    #[test]
    fn a_wrong_value_in_a_row_that_is_looked_at_is_found() {
        for case in small() {
            let (inputs, mut outputs) = ran(&case);
            let output = &mut outputs[0];
            let rows = sample::chosen(case.name, sample::count(output));
            let (row, columns) = (rows[rows.len() / 2], sample::columns(output));
            let mut values = output.values();
            let greatest = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            values[row * columns + 3] += greatest * (4.0 * case.tolerance).max(1e-4);
            output.set_values(&values).unwrap();
            let error = format!("{:#}", check::check(&inline(), &case, &outputs, &inputs).unwrap_err());
            assert!(error.contains(&format!("row {row}, column 3")), "{error}");
        }
    }
}
