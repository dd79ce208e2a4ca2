//! The network: its inputs and parameters, and a training step as assignment text.

use arrayjit::DType;

/// Pixels of one image.
pub const PIXELS: usize = 64;
/// The number of different digits.
pub const CLASSES: usize = 10;
/// Units of the hidden layer.
pub const HIDDEN: usize = 128;
/// Images in a mini-batch.
pub const BATCH: usize = 32;

/// One step of stochastic gradient descent with momentum on the mini-batch that `@step` selects. The number
/// of images determines the range of `@step`: one value for each whole mini-batch; the remaining images are
/// not used. All nodes but those of [`declarations`] are intermediates. The gradients are derived from the
/// forward pass, and the momentum is 0.9 at a rate of 0.1.
pub const TRAIN: &str = "
# forward
h[b,j]  :+= x[32*@step + b, i] * w1[i,j] where b < 32
a[b,j]   := relu(h[b,j] + b1[j])
z[b,k]  :+= a[b,j] * w2[j,k]
y[b,k]   := z[b,k] + b2[k]

# softmax and cross-entropy
top[b]  :max= y[b,k]
detach top
e[b,k]   := exp(y[b,k] - top[b])
sum[b]  :+= e[b,k]
loss     += log(sum[b]) * 0.03125
loss     -= (y[b,k] - top[b]) * (k == label[32*@step + b]) * 0.03125

grad loss by w1, b1, w2, b2

# update
momentum(w1[i,j], w1.grad[i,j], v1[i,j], 0.1)
momentum(b1[j], b1.grad[j], u1[j], 0.1)
momentum(w2[j,k], w2.grad[j,k], v2[j,k], 0.1)
momentum(b2[k], b2.grad[k], u2[k], 0.1)
";

/// The name, dimensions and element type of the inputs, the parameters and the loss of [`TRAIN`] and
/// [`EVALUATE`](crate::state::EVALUATE), for `train` training images and `test` test images.
pub fn declarations(train: usize, test: usize) -> Vec<(&'static str, Vec<usize>, DType)> {
    let float = |name, dims: &[usize]| (name, dims.to_vec(), DType::F32);
    vec![
        float("x", &[train, PIXELS]),
        ("label", vec![train], DType::U8),
        float("w1", &[PIXELS, HIDDEN]),
        float("b1", &[HIDDEN]),
        float("w2", &[HIDDEN, CLASSES]),
        float("b2", &[CLASSES]),
        float("v1", &[PIXELS, HIDDEN]),
        float("u1", &[HIDDEN]),
        float("v2", &[HIDDEN, CLASSES]),
        float("u2", &[CLASSES]),
        float("loss", &[]),
        float("tx", &[test, PIXELS]),
        ("tlabel", vec![test], DType::U8),
    ]
}
