//! Models train as torch's do: from the same weights and data, every gradient of the first step and the
//! losses of 100 steps of gradient descent.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit_tensor::{
    Graph, Params, Tensor, TensorError,
    nn::{BatchNorm2d, Conv2d, Embedding, LayerNorm, Linear, Lstm, Module, MultiHeadAttention},
};

use crate::torch_training::Task;

struct Mlp([Linear; 3]);

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let Mlp([first, second, third]) = self;
        third.forward(&second.forward(&first.forward(x)?.relu()?)?.relu()?)
    }
}

#[test]
fn mlp() {
    let task = Task { path: "mlp", shape: &[32, 8], classes: 4, rate: 0.5, has_tokens: false };
    task.check(Graph::for_training(), |params| {
        let linear = |at: usize, inputs, outputs| Linear::new(&params.sub(at), inputs, outputs);
        Ok(Mlp([linear(0, 8, 32)?, linear(2, 32, 32)?, linear(4, 32, 4)?]))
    });
}

struct LeNet {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
}

impl Module for LeNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let x = self.conv1.forward(x)?.relu()?.max_pool2d(2)?;
        let x = self.conv2.forward(&x)?.relu()?.max_pool2d(2)?.flatten(1, -1)?;
        self.fc3.forward(&self.fc2.forward(&self.fc1.forward(&x)?.relu()?)?.relu()?)
    }
}

#[test]
fn lenet() {
    let task = Task { path: "lenet", shape: &[8, 1, 28, 28], classes: 10, rate: 0.2, has_tokens: false };
    task.check(Graph::for_training(), |params| {
        Ok(LeNet {
            conv1: Conv2d::builder(&params.sub("conv1"), 1, 6, 5).padding(2).build()?,
            conv2: Conv2d::new(&params.sub("conv2"), 6, 16, 5)?,
            fc1: Linear::new(&params.sub("fc1"), 400, 120)?,
            fc2: Linear::new(&params.sub("fc2"), 120, 84)?,
            fc3: Linear::new(&params.sub("fc3"), 84, 10)?,
        })
    });
}

/// A convolution without bias, and the normalization of its result.
struct Normalized {
    conv: Conv2d,
    norm: BatchNorm2d,
}

impl Normalized {
    fn new(
        conv: &Params,
        norm: &Params,
        channels: [usize; 2],
        size: usize,
        stride: usize,
    ) -> Result<Self, TensorError> {
        let conv = Conv2d::builder(conv, channels[0], channels[1], size).stride(stride).padding(size / 2);
        Ok(Normalized { conv: conv.bias(false).build()?, norm: BatchNorm2d::new(norm, channels[1])? })
    }
}

impl Module for Normalized {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        self.norm.forward(&self.conv.forward(x)?)
    }
}

/// Two convolutions next to a shortcut.
struct Block {
    first: Normalized,
    second: Normalized,
    shortcut: Option<Normalized>,
}

impl Block {
    fn new(params: &Params, channels: usize, out: usize, stride: usize) -> Result<Block, TensorError> {
        let part = |name: &str| params.sub(name);
        let down = params.sub("downsample");
        let shortcut = (stride != 1)
            .then(|| Normalized::new(&down.sub(0), &down.sub(1), [channels, out], 1, stride))
            .transpose()?;
        Ok(Block {
            first: Normalized::new(&part("conv1"), &part("bn1"), [channels, out], 3, stride)?,
            second: Normalized::new(&part("conv2"), &part("bn2"), [out, out], 3, 1)?,
            shortcut,
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let y = self.second.forward(&self.first.forward(x)?.relu()?)?;
        let shortcut = self.shortcut.as_ref().map(|shortcut| shortcut.forward(x)).transpose()?;
        (y + shortcut.as_ref().unwrap_or(x))?.relu()
    }
}

struct ResNet {
    first: Normalized,
    blocks: [Block; 2],
    fc: Linear,
}

impl Module for ResNet {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let mut x = self.first.forward(x)?.relu()?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.fc.forward(&x.mean([2, 3])?)
    }
}

#[test]
fn resnet() {
    let task = Task { path: "resnet", shape: &[8, 3, 8, 8], classes: 10, rate: 0.02, has_tokens: false };
    task.check(Graph::for_training(), |params| {
        let layer = |name: &str| params.sub(name).sub(0);
        Ok(ResNet {
            first: Normalized::new(&params.sub("conv1"), &params.sub("bn1"), [3, 8], 3, 1)?,
            blocks: [Block::new(&layer("layer1"), 8, 8, 1)?, Block::new(&layer("layer2"), 8, 16, 2)?],
            fc: Linear::new(&params.sub("fc"), 16, 10)?,
        })
    });
}

struct GptBlock {
    ln_1: LayerNorm,
    attn: MultiHeadAttention,
    ln_2: LayerNorm,
    mlp: [Linear; 2],
}

impl Module for GptBlock {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let x = (x + self.attn.forward(&self.ln_1.forward(x)?)?)?;
        let hidden = self.mlp[0].forward(&self.ln_2.forward(&x)?)?.gelu()?;
        x + self.mlp[1].forward(&hidden)?
    }
}

struct Gpt {
    wte: Embedding,
    wpe: Embedding,
    blocks: Vec<GptBlock>,
    ln_f: LayerNorm,
    lm_head: Linear,
}

impl Module for Gpt {
    fn forward(&self, ids: &Tensor) -> Result<Tensor, TensorError> {
        let positions = ids.graph().arange(ids.shape()[1])?;
        let mut x = (self.wte.forward(ids)? + self.wpe.forward(&positions)?)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.lm_head.forward(&self.ln_f.forward(&x)?)
    }
}

#[test]
fn gpt() {
    let task = Task { path: "gpt", shape: &[4, 16], classes: 24, rate: 0.05, has_tokens: true };
    task.check(Graph::for_training(), |params| {
        let block = |at: usize| -> Result<GptBlock, TensorError> {
            let params = params.sub("h").sub(at);
            Ok(GptBlock {
                ln_1: LayerNorm::new(&params.sub("ln_1"), 32)?,
                attn: MultiHeadAttention::builder(&params.sub("attn"), 32, 4).causal(true).build()?,
                ln_2: LayerNorm::new(&params.sub("ln_2"), 32)?,
                mlp: [
                    Linear::new(&params.sub("mlp").sub(0), 32, 128)?,
                    Linear::new(&params.sub("mlp").sub(2), 128, 32)?,
                ],
            })
        };
        Ok(Gpt {
            wte: Embedding::new(&params.sub("wte"), 24, 32)?,
            wpe: Embedding::new(&params.sub("wpe"), 16, 32)?,
            blocks: vec![block(0)?, block(1)?],
            ln_f: LayerNorm::new(&params.sub("ln_f"), 32)?,
            lm_head: Linear::builder(&params.sub("lm_head"), 32, 24).bias(false).build()?,
        })
    });
}

struct SequenceModel {
    lstm: Lstm,
    fc: Linear,
}

impl Module for SequenceModel {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let last = x.shape()[1] - 1;
        self.fc.forward(&self.lstm.forward(x)?.select(1, last)?)
    }
}

#[test]
fn lstm() {
    let task = Task { path: "lstm", shape: &[8, 6, 6], classes: 5, rate: 0.5, has_tokens: false };
    task.check(Graph::for_training(), |params| {
        let lstm = Lstm::builder(&params.sub("lstm"), 6, 16).layers(2).batch_first(true).build()?;
        Ok(SequenceModel { lstm, fc: Linear::new(&params.sub("fc"), 16, 5)? })
    });
}
