//! A residual network on made pictures of 32 × 32 pixels: stripes, checks and shapes in a random color on
//! its opposite, at random places, with noise.
//!
//! Source: He, Zhang, Ren and Sun, Deep residual learning for image recognition, 2015.

use anyhow::{Context, Result};
use arrayjit_tensor::{
    Backend, HostArray, ModelState, Params, Tensor, TensorError,
    nn::{BatchNorm2d, Conv2d, Linear, Module},
    optim::{AdamW, Schedule},
    session::{Batch, Metrics, Session},
};

use crate::batches::shuffled;

/// The width and height of a picture.
pub const SIDE: usize = 32;
/// The kinds of pictures.
pub const CLASSES: usize = 8;
/// The pictures of a training step.
const BATCH: usize = 32;

/// A convolution without bias, and batch normalization.
struct NormalizedConv {
    conv: Conv2d,
    norm: BatchNorm2d,
}

impl NormalizedConv {
    fn new(
        params: &Params,
        (inputs, outputs): (usize, usize),
        size: usize,
        stride: usize,
    ) -> Result<NormalizedConv, TensorError> {
        let conv =
            Conv2d::builder(&params.sub("conv"), inputs, outputs, size).stride(stride).padding(size / 2);
        Ok(NormalizedConv {
            conv: conv.bias(false).build()?,
            norm: BatchNorm2d::new(&params.sub("norm"), outputs)?,
        })
    }
}

impl Module for NormalizedConv {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        self.norm.forward(&self.conv.forward(x)?)
    }
}

/// relu(f(x) + x), where f has two convolutions. If f changes the shape, x passes a convolution of size 1.
struct Block {
    first: NormalizedConv,
    second: NormalizedConv,
    shortcut: Option<NormalizedConv>,
}

impl Block {
    fn new(params: &Params, channels: (usize, usize), stride: usize) -> Result<Block, TensorError> {
        let (inputs, outputs) = channels;
        let shortcut = match inputs == outputs && stride == 1 {
            true => None,
            false => Some(NormalizedConv::new(&params.sub("shortcut"), channels, 1, stride)?),
        };
        Ok(Block {
            first: NormalizedConv::new(&params.sub("first"), channels, 3, stride)?,
            second: NormalizedConv::new(&params.sub("second"), (outputs, outputs), 3, 1)?,
            shortcut,
        })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let residue = self.second.forward(&self.first.forward(x)?.relu()?)?;
        match &self.shortcut {
            Some(shortcut) => (residue + shortcut.forward(x)?)?.relu(),
            None => (residue + x)?.relu(),
        }
    }
}

/// A convolution, residual blocks, the mean over the picture, and a linear layer. Each block but the first
/// halves the picture and doubles the channels.
pub struct ResNet {
    stem: NormalizedConv,
    blocks: Vec<Block>,
    head: Linear,
}

impl ResNet {
    /// Makes the parameters of a network with `width` channels in the first block.
    ///
    /// # Errors
    ///
    /// Names that exist already.
    pub fn new(params: &Params, width: usize, blocks: usize) -> Result<ResNet, TensorError> {
        let stem = NormalizedConv::new(&params.sub("stem"), (3, width), 3, 1)?;
        let mut channels = width;
        let mut made = Vec::new();
        for at in 0..blocks {
            let (outputs, stride) = if at == 0 { (width, 1) } else { (2 * channels, 2) };
            made.push(Block::new(&params.sub("blocks").sub(at), (channels, outputs), stride)?);
            channels = outputs;
        }
        Ok(ResNet { stem, blocks: made, head: Linear::new(&params.sub("head"), channels, CLASSES)? })
    }
}

impl Module for ResNet {
    /// The logits `[batch, 8]` of pictures `[batch, 3, 32, 32]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let mut x = self.stem.forward(x)?.relu()?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.head.forward(&x.mean([2, 3])?)
    }
}

/// Pictures and their kinds.
pub struct Pictures {
    /// `[count, 3, 32, 32]`, row-major.
    pub pixels: Vec<f32>,
    /// `[count]`, from 0 to 7.
    pub labels: Vec<i32>,
}

/// Makes `count` pictures, of all kinds in turn.
pub fn pictures(count: usize, seed: u64) -> Pictures {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut made = Pictures { pixels: Vec::new(), labels: Vec::new() };
    for at in 0..count {
        let kind = at % CLASSES;
        let color: [f32; 3] = std::array::from_fn(|_| (0.5 + rng.f32()) * if rng.bool() { 1. } else { -1. });
        let (x, y, size) = (12. + 8. * rng.f32(), 12. + 8. * rng.f32(), 6. + 4. * rng.f32());
        let mask: Vec<bool> = (0..SIDE * SIDE)
            .map(|pixel| is_marked(kind, (pixel % SIDE) as f32 - x, (pixel / SIDE) as f32 - y, size))
            .collect();
        for channel in color {
            let signed = |marked| if marked { channel } else { -channel };
            made.pixels.extend(mask.iter().map(|&marked| signed(marked) + rng.f32() - 0.5));
        }
        made.labels.push(kind as i32);
    }
    made
}

/// Whether the point at a distance (x, y) from the center is marked in a picture of this kind.
fn is_marked(kind: usize, x: f32, y: f32, size: f32) -> bool {
    let stripe = |distance: f32| (2. * distance / size).floor() as i32 % 2 == 0;
    let (radius, square) = (x.hypot(y), x.abs().max(y.abs()));
    match kind {
        0 => stripe(x),
        1 => stripe(y),
        2 => stripe((x + y) * 0.7),
        3 => stripe(x) == stripe(y),
        4 => radius < size,
        5 => radius < size && radius > 0.6 * size,
        6 => square < 0.9 * size,
        _ => square < size && x.abs().min(y.abs()) < 0.25 * size,
    }
}

/// The size of the network, and how long to train.
#[derive(Clone, Copy)]
pub struct Options {
    /// Channels of the first block.
    pub width: usize,
    /// Residual blocks.
    pub blocks: usize,
    /// Pictures to train on.
    pub pictures: usize,
    /// Passes over them.
    pub epochs: usize,
    /// The seed of the pictures, their order and the initial weights.
    pub seed: u32,
}

/// The network that the program trains.
pub const OPTIONS: Options = Options { width: 8, blocks: 3, pictures: 1024, epochs: 3, seed: 1 };

/// The accuracy that [`OPTIONS`] reach; guesses have 1/8.
pub const ACCURACY: f64 = 0.7;

/// The losses of training, and the accuracy after it.
pub struct Trained {
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// The fraction of 256 other pictures that the network classifies correctly.
    pub accuracy: f64,
}

/// Trains, and tests with other pictures.
///
/// # Errors
///
/// An error of the backend.
pub fn train(backend: &Backend, options: Options) -> Result<Trained> {
    let params = Params::new(options.seed);
    let model = ResNet::new(&params, options.width, options.blocks)?;
    let weights = ModelState::new(backend, &params)?;
    let steps = options.epochs * (options.pictures / BATCH);
    let schedule = Schedule::cosine_decay(steps as u32, 0.01);
    let optimizer = AdamW::new(5e-3).schedule(schedule);
    let mut session = Session::new(&weights, optimizer, move |batch: &Batch| {
        let (logits, y) = (model.forward(&batch.input("x")?)?, batch.input("y")?);
        batch.metric("accuracy", &logits.argmax(-1)?.eq(&y)?.mean(..)?)?;
        logits.cross_entropy(&y)
    })?;
    let train = pictures(options.pictures, options.seed.into());
    let rng = fastrand::Rng::with_seed(options.seed.into());
    let batches = shuffled(options.pictures, BATCH, options.epochs, rng);
    let mut losses = Vec::new();
    session.fit(batches.map(|rows| arrays(&train, &rows)), |progress| {
        losses.extend(progress.metrics().iter().map(Metrics::loss));
    })?;

    let test = pictures(256, u64::from(options.seed) + 1_000_000);
    let all: Vec<usize> = (0..256).collect();
    let metrics = session.evaluate(all.chunks(BATCH).map(|rows| arrays(&test, rows)))?;
    let accuracy = metrics.get("accuracy").context("the closure reports it")?;
    Ok(Trained { losses, accuracy })
}

/// The pictures `[rows, 3, 32, 32]` and labels `[rows]` of some rows.
fn arrays(pictures: &Pictures, rows: &[usize]) -> Result<[(&'static str, HostArray); 2]> {
    const SIZE: usize = 3 * SIDE * SIDE;
    let pixels: Vec<f32> =
        rows.iter().flat_map(|&row| &pictures.pixels[row * SIZE..][..SIZE]).copied().collect();
    let labels: Vec<i32> = rows.iter().map(|&row| pictures.labels[row]).collect();
    let images = HostArray::from_slice(&pixels, [rows.len(), 3, SIDE, SIDE])?;
    Ok([("x", images), ("y", HostArray::from_slice(&labels, [rows.len()])?)])
}
