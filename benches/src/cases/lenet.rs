//! A training step of LeNet, the convolutional network of the assignment guide.

use super::contractions::product_flops;
use crate::case::{Case, Check, Init, Node, Operation, Traffic};
use arrayjit::DType;

const BATCH: usize = 32;

/// The loss, as in the guide.
const FORWARD: &str = "
h1[b,o,i,j] := relu(conv2d(x[b,c,h,w], f1[o,c,p,q], padding = 2)[b,o,i,j] + b1[o])
p1[b,o,i,j] := max_pool(h1[b,o,h,w])
h2[b,o,i,j] := relu(conv2d(p1[b,c,h,w], f2[o,c,p,q])[b,o,i,j] + b2[o])
p2[b,o,i,j] := max_pool(h2[b,o,h,w])
h3[b,k] :+= p2[b,c,i,j] * w3[c,i,j,k]
h4[b,k] :+= relu(h3[b,i] + b3[i]) * w4[i,k]
y[b,k] :+= relu(h4[b,i] + b4[i]) * w5[i,k]
y[b,k] += b5[k]
loss :+= cross_entropy(y[b,k], label[b]) / size(b)
";

const DERIVED: &str = "
grad loss by f1, b1, f2, b2, w3, b3, w4, b4, w5, b5

sgd(f1[o,c,p,q], f1.grad[o,c,p,q], 0.01)
sgd(b1[o], b1.grad[o], 0.01)
sgd(f2[o,c,p,q], f2.grad[o,c,p,q], 0.01)
sgd(b2[o], b2.grad[o], 0.01)
sgd(w3[c,i,j,k], w3.grad[c,i,j,k], 0.01)
sgd(b3[k], b3.grad[k], 0.01)
sgd(w4[i,k], w4.grad[i,k], 0.01)
sgd(b4[k], b4.grad[k], 0.01)
sgd(w5[i,k], w5.grad[i,k], 0.01)
sgd(b5[k], b5.grad[k], 0.01)
";

/// The gradients written by hand. Where elements of a window share the maximum, all of them get its gradient;
/// `relu` stops it where they are 0.
const BY_HAND: &str = "
s[b,k] := softmax(y[b,k])
dy[b,k] := (s[b,k] - (k == label[b])) / 32
dw5[i,k] :+= relu(h4[b,i] + b4[i]) * dy[b,k]
db5[k] :+= dy[b,k]
da4[b,i] :+= dy[b,k] * w5[i,k]
dh4[b,i] := relu_gate(h4[b,i] + b4[i], da4[b,i])
dw4[i,k] :+= relu(h3[b,i] + b3[i]) * dh4[b,k]
db4[k] :+= dh4[b,k]
da3[b,i] :+= dh4[b,k] * w4[i,k]
dh3[b,i] := relu_gate(h3[b,i] + b3[i], da3[b,i])
dw3[c,i,j,k] :+= p2[b,c,i,j] * dh3[b,k]
db3[k] :+= dh3[b,k]
dp2[b,c,i,j] :+= dh3[b,k] * w3[c,i,j,k]
dh2[b, o, 2*i + p, 2*j + q] := where(h2[b, o, 2*i + p, 2*j + q] == p2[b,o,i,j], dp2[b,o,i,j], 0)
    where p < 2, q < 2
dc2[b,o,i,j] := relu_gate(h2[b,o,i,j], dh2[b,o,i,j])
df2[o,c,p,q] :+= p1[b, c, i + p, j + q] * dc2[b,o,i,j]
db2[o] :+= dc2[b,o,i,j]
dp1[b,c,i,j] :+= pad(dc2, 0)[b, o, i - p, j - q] * f2[o,c,p,q] where b < 32, i < 14, j < 14
dh1[b, o, 2*i + p, 2*j + q] := where(h1[b, o, 2*i + p, 2*j + q] == p1[b,o,i,j], dp1[b,o,i,j], 0)
    where p < 2, q < 2
dc1[b,o,i,j] := relu_gate(h1[b,o,i,j], dh1[b,o,i,j])
df1[o,c,p,q] :+= pad(x, 0)[b, c, i + p - 2, j + q - 2] * dc1[b,o,i,j] where c < 1, p < 5, q < 5
db1[o] :+= dc1[b,o,i,j]

sgd(f1[o,c,p,q], df1[o,c,p,q], 0.01)
sgd(b1[o], db1[o], 0.01)
sgd(f2[o,c,p,q], df2[o,c,p,q], 0.01)
sgd(b2[o], db2[o], 0.01)
sgd(w3[c,i,j,k], dw3[c,i,j,k], 0.01)
sgd(b3[k], db3[k], 0.01)
sgd(w4[i,k], dw4[i,k], 0.01)
sgd(b4[k], db4[k], 0.01)
sgd(w5[i,k], dw5[i,k], 0.01)
sgd(b5[k], db5[k], 0.01)
";

pub(super) fn all() -> Vec<Case> {
    vec![lenet_train("lenet_train_32", DERIVED).by_hand(lenet_train("lenet_train_32_by_hand", BY_HAND))]
}

/// One training step on random images.
fn lenet_train(name: &'static str, gradients: &str) -> Case {
    let weight = |name, dims: &[usize], fan_in: usize| {
        Node::with(name, dims, Init::Within(1.0 / (fan_in as f32).sqrt()))
    };
    let bias = |name, size: usize| Node::with(name, &[size], Init::Zeros);
    let parameters = [
        weight("f1", &[6, 1, 5, 5], 25),
        bias("b1", 6),
        weight("f2", &[16, 6, 5, 5], 150),
        bias("b2", 16),
        weight("w3", &[16, 5, 5, 120], 400),
        bias("b3", 120),
        weight("w4", &[120, 84], 120),
        bias("b4", 84),
        weight("w5", &[84, 10], 84),
        bias("b5", 10),
    ];
    let updated = parameters.clone().map(|node| node.name);
    let inputs = [Node::input("x", &[BATCH, 1, 28, 28]), Node::input("label", &[BATCH]).of(DType::U8)];
    let bytes = |nodes: &[Node]| nodes.iter().map(Node::bytes).sum::<f64>();
    let traffic = Traffic { reads: bytes(&inputs) + bytes(&parameters), writes: bytes(&parameters) };
    let nodes = inputs.into_iter().chain(parameters).chain([Node::written("loss", &[])]).collect();
    // The first convolution has no gradient by the images.
    let first = product_flops([BATCH * 28 * 28, 6, 25]);
    let others =
        [[BATCH * 100, 16, 150], [BATCH, 400, 120], [BATCH, 120, 84], [BATCH, 84, 10]].map(product_flops);
    Case {
        name,
        operation: Some(Operation::LenetTrain),
        text: format!("{FORWARD}{gradients}"),
        by_hand: None,
        nodes,
        bindings: vec![],
        outputs: [&["loss".into()], &updated[..]].concat(),
        flops: 2.0 * first + 3.0 * others.iter().sum::<f64>(),
        traffic,
        check: Check::Interpreter,
        tolerance: 1e-5,
        is_latency: false,
        is_large: false,
    }
}
