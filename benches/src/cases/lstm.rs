//! A training step of a recurrent network that classifies sequences by its last state.
//!
//! Source: Hochreiter and Schmidhuber, Long short-term memory, 1997; Gers, Schmidhuber and Cummins, 2000.

use arrayjit::DType;

use super::{
    contractions::product_flops,
    parameters::{Optimizer, Parameters},
};
use crate::case::{Case, Init, Node, Operation};

const CLASSES: usize = 10;

pub(super) fn all() -> Vec<Case> {
    let small = lstm_train("lstm_train_3x4x8", [3, 4, 8]);
    vec![lstm_train("lstm_train_32x64x256", [32, 64, 256]).checked_in_small(small)]
}

/// [`all`]'s case with three steps in time.
#[cfg(test)]
pub(super) fn few_steps() -> Case {
    lstm_train("lstm_train_32x3x256", [32, 3, 256])
}

/// The mean cross-entropy of a linear layer behind the last state. One product has the inputs of all steps.
const FORWARD: &str = "
node h f32[steps + 1, batch, width], c f32[steps + 1, batch, width]
h[0,b,u] := 0
c[0,b,u] := 0
a[s,b,g,u] :+= x[s,b,i] * wx[g,u,i]
scan s in 0..steps {
    d[b,g,u] :+= h[s,b,v] * wh[g,u,v]
    e[b,g,u] := a[s,b,g,u] + d[b,g,u] + bias[g,u]
    c[s + 1, b, u] := sigmoid(e[b,1,u]) * c[s,b,u] + sigmoid(e[b,0,u]) * tanh(e[b,2,u])
    h[s + 1, b, u] := sigmoid(e[b,3,u]) * tanh(c[s + 1, b, u])
}
logits[b,k] :+= h[steps,b,u] * w[u,k]
logits[b,k] += b[k]
loss :+= cross_entropy(logits[n,k], label[n]) / size(n)
";

fn lstm_train(name: &'static str, [batch, steps, width]: [usize; 3]) -> Case {
    let init = Init::Within(1.0 / (width as f32).sqrt());
    let mut parameters = Parameters::default();
    parameters.add("wx", &[4, width, width], init);
    parameters.add("wh", &[4, width, width], init);
    parameters.add("bias", &[4, width], init);
    parameters.add("w", &[width, CLASSES], init);
    parameters.add("b", &[CLASSES], init);
    let label = Node::with("label", &[batch], Init::Below(CLASSES as u16)).of(DType::U8);
    let data = vec![Node::input("x", &[steps, batch, width]), label];
    let text = format!("size batch = {batch}, steps = {steps}, width = {width}\n{FORWARD}");
    // The products with the inputs have no gradient by the inputs.
    let product = steps as f64 * product_flops([batch, width, 4 * width]);
    parameters
        .train(name, Operation::LstmTrain, &text, Optimizer::AdamW, [data, vec![]])
        .flops(5.0 * product + 12.0 * parameters.count() as f64)
        .tolerance(2e-4)
}
