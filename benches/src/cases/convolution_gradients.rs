//! Gradients of convolutions in the shapes of a small residual network, over batch, channel, row, column.
//!
//! The loss is `sum(y * g)`, so that `g` is the adjoint of the convolution's result `y`.

use super::contractions::product_flops;
use crate::case::{Case, Node, Operation};

pub(super) fn all() -> Vec<Case> {
    vec![
        input_gradient("conv_input_gradient_stride2_32x16x32", 32, [16, 32], 32),
        filter_gradient("conv_filter_gradient_32x16x32", 32, [16, 16], 32),
    ]
}

/// The gradient by the images, of `size` by `size` pixels, of a 3×3 convolution with step 2.
fn input_gradient(name: &'static str, batch: usize, [inputs, outputs]: [usize; 2], size: usize) -> Case {
    let small = size / 2;
    let text = format!(
        "y[b,o,i,j] :+= pad(x, 0)[b, c, 2*i + k - 1, 2*j + l - 1] * w[o,c,k,l]
            where b < {batch}, i < {small}, j < {small}
        loss :+= y[b,o,i,j] * g[b,o,i,j]
        grad loss by x"
    );
    let nodes = vec![
        Node::input("x", &[batch, inputs, size, size]),
        Node::input("w", &[outputs, inputs, 3, 3]),
        Node::input("g", &[batch, outputs, small, small]),
        Node::intermediate("loss", &[]),
        Node::written("x.grad", &[batch, inputs, size, size]),
    ];
    let window = Window { batch, channels: [inputs, outputs], size, step: 2 };
    Case::new(name, Operation::ConvInputGradient, &text, nodes)
        .flops(product_flops([batch * small * small, inputs * 9, outputs]))
        .formula(move |inputs| window.input_gradient(&inputs[1], &inputs[2]))
}

/// The gradient by the filters of a 3×3 convolution that keeps the size of images.
fn filter_gradient(name: &'static str, batch: usize, [inputs, outputs]: [usize; 2], size: usize) -> Case {
    let text = format!(
        "y[b,o,i,j] :+= pad(x, 0)[b, c, i + k - 1, j + l - 1] * w[o,c,k,l]
            where b < {batch}, i < {size}, j < {size}
        loss :+= y[b,o,i,j] * g[b,o,i,j]
        grad loss by w"
    );
    let nodes = vec![
        Node::input("x", &[batch, inputs, size, size]),
        Node::input("w", &[outputs, inputs, 3, 3]),
        Node::input("g", &[batch, outputs, size, size]),
        Node::intermediate("loss", &[]),
        Node::written("w.grad", &[outputs, inputs, 3, 3]),
    ];
    let window = Window { batch, channels: [inputs, outputs], size, step: 1 };
    Case::new(name, Operation::ConvFilterGradient, &text, nodes)
        .flops(product_flops([batch * size * size, inputs * 9, outputs]))
        .formula(move |inputs| window.filter_gradient(&inputs[0], &inputs[2]))
}

/// A 3×3 convolution with a margin of one pixel.
#[derive(Clone, Copy)]
struct Window {
    batch: usize,
    /// Channels of the images and of the result.
    channels: [usize; 2],
    /// Width and height of the images.
    size: usize,
    /// Distance of neighboring windows.
    step: usize,
}

impl Window {
    /// Calls a function with the positions in the images, the filters and the result of each product.
    fn each_product(&self, mut f: impl FnMut(usize, usize, usize)) {
        let Window { batch, channels: [inputs, outputs], size, step } = *self;
        let small = size / step;
        let inside = |at: usize| (1..=size).contains(&at).then(|| at - 1);
        for (b, o, c) in
            (0..batch).flat_map(|b| (0..outputs).flat_map(move |o| (0..inputs).map(move |c| (b, o, c))))
        {
            for (i, j, tap) in
                (0..small).flat_map(|i| (0..small).flat_map(move |j| (0..9).map(move |tap| (i, j, tap))))
            {
                if let (Some(row), Some(column)) = (inside(step * i + tap / 3), inside(step * j + tap % 3)) {
                    let pixel = ((b * inputs + c) * size + row) * size + column;
                    f(pixel, (o * inputs + c) * 9 + tap, ((b * outputs + o) * small + i) * small + j);
                }
            }
        }
    }

    fn input_gradient(&self, filters: &[f64], adjoint: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.batch * self.channels[0] * self.size * self.size];
        self.each_product(|pixel, tap, result| sums[pixel] += filters[tap] * adjoint[result]);
        sums
    }

    fn filter_gradient(&self, images: &[f64], adjoint: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.channels[1] * self.channels[0] * 9];
        self.each_product(|pixel, tap, result| sums[tap] += images[pixel] * adjoint[result]);
        sums
    }
}
