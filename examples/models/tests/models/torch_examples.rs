//! The models of the examples train as torch's do: from the same weights and data, every gradient of the
//! first step and the losses of 100 steps of gradient descent.

use arrayjit_tensor::Graph;
use models::{char_gpt, lenet::LeNet, mlp::Mlp, resnet::ResNet};

use crate::torch_training::Task;

#[test]
fn mlp_trains_as_with_torch() {
    let task = Task { path: "mlp", shape: &[32, 2], classes: 2, rate: 0.5, has_tokens: false };
    task.check(Graph::for_training(), |params| Mlp::new(params, 16));
}

/// In evaluation, the images are not shifted.
#[test]
fn lenet_trains_as_with_torch() {
    let task = Task { path: "lenet", shape: &[8, 8, 8], classes: 10, rate: 0.2, has_tokens: false };
    task.check(Graph::new(), LeNet::new);
}

#[test]
fn resnet_trains_as_with_torch() {
    let task = Task { path: "resnet", shape: &[8, 3, 32, 32], classes: 8, rate: 0.002, has_tokens: false };
    task.check(Graph::for_training(), |params| ResNet::new(params, 8, 3));
}

#[test]
fn char_gpt_trains_as_with_torch() {
    let task = Task { path: "char_gpt", shape: &[4, 16], classes: 24, rate: 0.05, has_tokens: true };
    let options = char_gpt::Options { context: 16, width: 32, heads: 2, layers: 2, ..char_gpt::OPTIONS };
    task.check(Graph::for_training(), |params| char_gpt::CharGpt::new(params, 24, options));
}
