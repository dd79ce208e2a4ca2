//! Matrix multiplications in their variants, and convolution.

use arrayjit::DType;

use crate::{
    case::{Case, Init, Node, Operation},
    product::{product, transposed},
};

pub(super) fn all() -> Vec<Case> {
    let square = [
        ("matmul_64", 64),
        ("matmul_128", 128),
        ("matmul_256", 256),
        ("matmul_512", 512),
        ("matmul_1024", 1024),
        ("matmul_2048", 2048),
    ];
    let mut cases: Vec<Case> = square.map(|(name, n)| matmul(name, [n, n, n])).into();
    cases.extend([
        matmul("matmul_tall_4096x64x64", [4096, 64, 64]),
        matmul_u8i8("matmul_u8i8_256", 256),
        matmul_u8i8("matmul_u8i8_1024", 1024),
        matmul_nt("matmul_nt_512", 512),
        bmm("bmm_256x32x32x32", 256, 32),
        matvec("matvec_4096", 4096),
        dense_relu("dense_relu_256x784x512", [256, 784, 512]),
        dense_u8i8("dense_u8i8_256x784x512", [256, 784, 512]),
        conv3x3("conv3x3_8x64x28x28", 8, 64, 28),
        conv3x3_u8i8("conv3x3_u8i8_8x64x28x28", 8, 64, 28),
    ]);
    cases
}

/// The floating-point operations of a product of `[m, k]` and `[k, n]`.
pub(super) fn product_flops(sizes: [usize; 3]) -> f64 {
    2.0 * sizes.iter().product::<usize>() as f64
}

/// `c = a b`, f32.
fn matmul(name: &'static str, [m, k, n]: [usize; 3]) -> Case {
    let nodes = vec![Node::input("a", &[m, k]), Node::input("b", &[k, n]), Node::written("c", &[m, n])];
    Case::new(name, Operation::Matmul, "c[m,n] :+= a[m,k] * b[k,n]", nodes)
        .flops(product_flops([m, k, n]))
        .formula(move |inputs| product(&inputs[0], &inputs[1], [m, k, n]))
}

/// `c = a b / 2`, square: `u8` by `i8` with exact sums in `i32`, which are converted to `f32`. No peer has
/// this operation.
fn matmul_u8i8(name: &'static str, n: usize) -> Case {
    let text = "h[m,n] :+= i32(a[m,k]) * i32(b[k,n])\nc[m,n] := f32(h[m,n]) * 0.5";
    let nodes = vec![
        Node::with("a", &[n, n], Init::Below(256)).of(DType::U8),
        Node::with("b", &[n, n], Init::Below(128)).of(DType::I8),
        Node::intermediate("h", &[n, n]).of(DType::I32),
        Node::written("c", &[n, n]),
    ];
    let case = Case::new(name, Operation::Matmul, text, nodes);
    let case = case.flops(product_flops([n, n, n])).formula(move |inputs| {
        product(&inputs[0], &inputs[1], [n, n, n]).into_iter().map(|sum| sum / 2.0).collect()
    });
    Case { operation: None, ..case }
}

/// What is subtracted from the bytes of quantized operands, and added to results.
const ZERO: f64 = 9.0;

/// The statement that rounds sums `h` to the bytes of a quantized result, at these indices.
fn requantized(result: &str, indices: &str) -> String {
    format!("{result}[{indices}] := u8(min(max(i32(round_even(f32(h[{indices}]) / 4096)) + {ZERO}, 0), 255))")
}

/// The bytes of sums.
fn bytes_of(sums: impl IntoIterator<Item = f64>) -> Vec<f64> {
    sums.into_iter().map(|sum| ((sum / 4096.0).round_ties_even() + ZERO).clamp(0.0, 255.0)).collect()
}

/// A quantized dense layer: `(a - 9) b` of `u8` and `i8`, rounded to `u8`. No peer has this operation.
fn dense_u8i8(name: &'static str, [m, k, n]: [usize; 3]) -> Case {
    let text = format!("h[m,n] :+= (i32(a[m,k]) - {ZERO}) * i32(b[k,n])\n{}", requantized("c", "m,n"));
    let nodes = vec![
        Node::with("a", &[m, k], Init::Below(256)).of(DType::U8),
        Node::with("b", &[k, n], Init::Below(128)).of(DType::I8),
        Node::intermediate("h", &[m, n]).of(DType::I32),
        Node::written("c", &[m, n]).of(DType::U8),
    ];
    let case = Case::new(name, Operation::Matmul, &text, nodes);
    let case = case.flops(product_flops([m, k, n])).formula(move |inputs| {
        let a: Vec<f64> = inputs[0].iter().map(|byte| byte - ZERO).collect();
        bytes_of(product(&a, &inputs[1], [m, k, n]))
    });
    Case { operation: None, ..case }
}

/// A quantized convolution with same padding, rounded to `u8`, with the channels last. No peer has this
/// operation.
fn conv3x3_u8i8(name: &'static str, batch: usize, channels: usize, size: usize) -> Case {
    let pixel = format!("i32(pad(x, {ZERO})[b, i + k - 1, j + l - 1, c]) - {ZERO}");
    let text = format!("h[b,i,j,o] :+= ({pixel}) * i32(w[k,l,c,o])\n{}", requantized("y", "b,i,j,o"));
    let image = [batch, size, size, channels];
    let nodes = vec![
        Node::with("x", &image, Init::Below(256)).of(DType::U8),
        Node::with("w", &[3, 3, channels, channels], Init::Below(128)).of(DType::I8),
        Node::intermediate("h", &image).of(DType::I32),
        Node::written("y", &image).of(DType::U8),
    ];
    let case = Case::new(name, Operation::Conv3x3, &text, nodes);
    let case = case.flops(product_flops([batch * size * size, channels * 9, channels]));
    let case = case.formula(move |inputs| {
        // The same with channels first, as the taps of `windows` are.
        let x: Vec<f64> = inputs[0].iter().map(|byte| byte - ZERO).collect();
        let w: Vec<f64> = (0..channels * channels * 9)
            .map(|at| inputs[1][(at % 9 * channels + at / 9 % channels) * channels + at / (9 * channels)])
            .collect();
        let image = |x: &[f64]| {
            let sums =
                product(&w, &windows(&transposed(x, channels), size), [channels, channels * 9, size * size]);
            transposed(&sums, size * size)
        };
        bytes_of(x.chunks_exact(channels * size * size).flat_map(image))
    });
    Case { operation: None, ..case }
}

/// `c = a bᵀ`, square.
fn matmul_nt(name: &'static str, n: usize) -> Case {
    let nodes = vec![Node::input("a", &[n, n]), Node::input("b", &[n, n]), Node::written("c", &[n, n])];
    Case::new(name, Operation::MatmulNt, "c[m,n] :+= a[m,k] * b[n,k]", nodes)
        .flops(product_flops([n, n, n]))
        .formula(move |inputs| product(&inputs[0], &transposed(&inputs[1], n), [n, n, n]))
}

/// Many small square products.
fn bmm(name: &'static str, batch: usize, n: usize) -> Case {
    let dims = [batch, n, n];
    let nodes = vec![Node::input("a", &dims), Node::input("b", &dims), Node::written("c", &dims)];
    Case::new(name, Operation::Bmm, "c[z,m,n] :+= a[z,m,k] * b[z,k,n]", nodes)
        .flops(batch as f64 * product_flops([n, n, n]))
        .formula(move |inputs| {
            let pairs = inputs[0].chunks_exact(n * n).zip(inputs[1].chunks_exact(n * n));
            pairs.flat_map(|(a, b)| product(a, b, [n, n, n])).collect()
        })
}

/// A square matrix times a vector.
fn matvec(name: &'static str, n: usize) -> Case {
    let nodes = vec![Node::input("a", &[n, n]), Node::input("x", &[n]), Node::written("y", &[n])];
    Case::new(name, Operation::Matvec, "y[m] :+= a[m,k] * x[k]", nodes)
        .flops(product_flops([n, n, 1]))
        .formula(move |inputs| product(&inputs[0], &inputs[1], [n, n, 1]))
}

/// A layer: product, bias, relu.
fn dense_relu(name: &'static str, [m, k, n]: [usize; 3]) -> Case {
    let text = "h[m,n] :+= x[m,k] * w[k,n]\ny[m,n] := relu(h[m,n] + bias[n])";
    let nodes = vec![
        Node::input("x", &[m, k]),
        Node::input("w", &[k, n]),
        Node::input("bias", &[n]),
        Node::intermediate("h", &[m, n]),
        Node::written("y", &[m, n]),
    ];
    Case::new(name, Operation::DenseRelu, text, nodes)
        .flops(product_flops([m, k, n]) + 2.0 * (m * n) as f64)
        .formula(move |inputs| {
            let sums = product(&inputs[0], &inputs[1], [m, k, n]);
            sums.iter().zip(inputs[2].iter().cycle()).map(|(sum, bias)| (sum + bias).max(0.0)).collect()
        })
}

/// A convolution of 3×3 that keeps channels and size, over batch, channel, row, column.
fn conv3x3(name: &'static str, batch: usize, channels: usize, size: usize) -> Case {
    let text = "y[b,o,i,j] :+= pad(x, 0)[b, c, i + k - 1, j + l - 1] * w[o,c,k,l]";
    let image = [batch, channels, size, size];
    let nodes = vec![
        Node::input("x", &image),
        Node::input("w", &[channels, channels, 3, 3]),
        Node::written("y", &image),
    ];
    Case::new(name, Operation::Conv3x3, text, nodes)
        .flops(product_flops([batch * size * size, channels * 9, channels]))
        .formula(move |inputs| {
            let images = inputs[0].chunks_exact(channels * size * size);
            images
                .flat_map(|x| product(&inputs[1], &windows(x, size), [channels, channels * 9, size * size]))
                .collect()
        })
}

/// The elements of 3×3 windows of an image `[c, size, size]`, as `[c * 9, size * size]`; 0 outside of the
/// image (im2col).
fn windows(image: &[f64], size: usize) -> Vec<f64> {
    let channels = image.len() / (size * size);
    let mut columns = Vec::with_capacity(9 * image.len());
    for row in 0..channels * 9 {
        let (channel, k, l) = (row / 9, row / 3 % 3, row % 3);
        for position in 0..size * size {
            let (i, j) = (position / size + k, position % size + l);
            let is_inside = (1..=size).contains(&i) && (1..=size).contains(&j);
            columns.push(if is_inside { image[(channel * size + i - 1) * size + j - 1] } else { 0.0 });
        }
    }
    columns
}
