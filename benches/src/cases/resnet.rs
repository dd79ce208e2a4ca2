//! A training step of a residual network of eight layers, as for pictures of 32 × 32 pixels in ten classes.
//!
//! Source: He, Zhang, Ren and Sun, Deep residual learning for image recognition, 2015, section 4.2, with one
//! block per stage.

use std::fmt::Write as _;

use arrayjit::DType;

use super::{
    contractions::product_flops,
    parameters::{Optimizer, Parameters},
};
use crate::case::{Case, Init, Node, Operation};

/// The sizes of the network: the pictures of a step, their width, and the channels of the first stage.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    side: usize,
    channels: usize,
}

const CLASSES: usize = 10;
const SIZES: Sizes = Sizes { batch: 32, side: 32, channels: 16 };

pub(super) fn all() -> Vec<Case> {
    let small = Sizes { batch: 3, side: 8, channels: 4 };
    vec![resnet8_train("resnet8_train_32", SIZES).checked_in_small(resnet8_train("resnet8_train_3", small))]
}

/// A convolution without bias, and batch normalization.
struct Convolution {
    name: String,
    input: String,
    output: String,
    /// Channels of input and output.
    channels: [usize; 2],
    /// The width of the filter.
    width: usize,
    stride: usize,
    /// The width of the output.
    side: usize,
}

impl Convolution {
    fn statements(&self) -> String {
        let Convolution { name, input, output, width, stride, .. } = self;
        format!(
            "{name}_c[b,o,i,j] := conv2d({input}[b,c,h,w], {name}[o,c,p,q], stride = {stride}, padding = {})
            {output}[b,o,i,j] := batch_norm_train({name}_c[b,o,i,j], {name}_gain[o], {name}_shift[o],
                {name}_mean[o], {name}_variance[o])\n",
            width / 2
        )
    }

    fn flops(&self, batch: usize) -> f64 {
        let [inputs, outputs] = self.channels;
        product_flops([batch * self.side * self.side, inputs * self.width * self.width, outputs])
    }
}

/// The convolutions in order of execution, and the statements from the pictures `x` to the loss.
fn network(sizes: Sizes) -> (Vec<Convolution>, String) {
    let (mut text, mut all) = (String::new(), Vec::new());
    let mut add = |text: &mut String, convolution: Convolution| {
        *text += &convolution.statements();
        all.push(convolution);
    };
    let convolution = |names: [String; 3], channels, [width, stride, side]: [usize; 3]| {
        let [name, input, output] = names;
        Convolution { name, input, output, channels, width, stride, side }
    };
    let (mut side, mut channels) = (sizes.side, sizes.channels);
    add(&mut text, convolution(["stem", "x", "y"].map(String::from), [3, channels], [3, 1, side]));
    text += "r0[b,o,i,j] := relu(y[b,o,i,j])\n";
    for block in 0..3 {
        let (stride, inputs) = if block == 0 { (1, channels) } else { (2, channels) };
        channels *= stride;
        side /= stride;
        let names = [format!("first{block}"), format!("r{block}"), format!("f{block}")];
        add(&mut text, convolution(names, [inputs, channels], [3, stride, side]));
        let _ = writeln!(text, "a{block}[b,o,i,j] := relu(f{block}[b,o,i,j])");
        let names = [format!("second{block}"), format!("a{block}"), format!("s{block}")];
        add(&mut text, convolution(names, [channels, channels], [3, 1, side]));
        let mut shortcut = format!("r{block}");
        if stride > 1 {
            let names = [format!("shortcut{block}"), shortcut, format!("d{block}")];
            shortcut = names[2].clone();
            add(&mut text, convolution(names, [inputs, channels], [1, stride, side]));
        }
        let next = block + 1;
        let _ = writeln!(text, "r{next}[b,o,i,j] := relu(s{block}[b,o,i,j] + {shortcut}[b,o,i,j])");
    }
    text += "mean[b,o] :+= r3[b,o,i,j] / (size(i) * size(j))
        logits[b,k] :+= mean[b,o] * w[o,k]
        logits[b,k] += b[k]
        loss :+= cross_entropy(logits[n,k], label[n]) / size(n)\n";
    (all, text)
}

/// One training step on random pictures: mean cross-entropy, gradient descent with momentum.
fn resnet8_train(name: &'static str, sizes: Sizes) -> Case {
    let Sizes { batch, side, channels } = sizes;
    let (convolutions, text) = network(sizes);
    let mut parameters = Parameters::default();
    let mut statistics = Vec::new();
    for Convolution { name, channels: [inputs, outputs], width, .. } in &convolutions {
        let init = Init::Within(1.0 / ((inputs * width * width) as f32).sqrt());
        parameters.add(name, &[*outputs, *inputs, *width, *width], init);
        parameters.add(&format!("{name}_gain"), &[*outputs], Init::Positive);
        parameters.add(&format!("{name}_shift"), &[*outputs], Init::Within(0.1));
        let statistic = |suffix| Node::with(format!("{name}_{suffix}"), &[*outputs], Init::Positive);
        statistics.extend(["mean", "variance"].map(statistic));
    }
    let features = 4 * channels;
    parameters.add("w", &[features, CLASSES], Init::Within(1.0 / (features as f32).sqrt()));
    parameters.add("b", &[CLASSES], Init::Zeros);
    let label = Node::with("label", &[batch], Init::Below(CLASSES as u16)).of(DType::U8);
    let data = vec![Node::input("x", &[batch, 3, side, side]), label];
    // The first convolution has no gradient by the pictures.
    let products: f64 = convolutions.iter().map(|convolution| convolution.flops(batch)).sum();
    let flops =
        3.0 * products - convolutions[0].flops(batch) + 3.0 * product_flops([batch, features, CLASSES]);
    parameters
        .train(name, Operation::Resnet8Train, &text, Optimizer::Momentum, [data, statistics])
        .flops(flops)
        .tolerance(1e-4)
}
