//! One model on all backends: the same bits on processors, close values on GPUs.

use arrayjit::TensorNodeError;
use arrayjit_tensor::{
    Backend, ConvOptions, DType, Graph, HostArray, Init, ModelState, Params, Tensor, TensorError,
    nn::{BatchNorm2d, Conv2d, Dropout, Linear, Lstm, Module, MultiHeadAttention},
    optim::AdamW,
    session::{Batch, Session},
};
use codegen_testkit::gpu::or_skip;

/// A loss of convolution, normalization, attention, an embedding and sorted values, with the gradients by all
/// parameters.
fn results(graph: &Graph, params: &Params) -> Result<Vec<Tensor>, TensorError> {
    let normal = Init::Normal { mean: 0., std: 0.5 };
    let filters = params.parameter("filters", [4, 1, 3, 3], normal.clone())?;
    let table = params.parameter("table", [6, 16], normal.clone())?;
    let gain = params.parameter("gain", [16], normal)?;
    let image = graph.rand(&[1, 1, 8, 8], DType::F32, 3)?;
    let convolved = image.conv2d(&filters, ConvOptions::new().padding(1))?;
    let tokens = convolved.max_pool2d(2)?;
    let tokens = tokens.reshape(&[1, 4, 16])?;
    let ids = graph.apply("p[b,t] := (b + 3*t) % 6 where b < 1, t < 4", &[])?;
    let tokens = (tokens + ids.embedding(&table)?)?.rms_norm(&gain, 1e-5)?;
    let scores =
        (tokens.matmul(tokens.transpose(1, 2)?)? * 0.25)?.masked_fill(&later(graph)?, f64::NEG_INFINITY)?;
    let attended = scores.softmax(-1)?.matmul(&tokens)?;
    let (top, _) = attended.topk(3, 2)?;
    let loss = (top.gelu()?.mean(..)? + attended.square()?.mean(..)?)?;
    let mut results = graph.gradients(&loss, &[&filters, &table, &gain])?;
    results.extend([attended, loss]);
    Ok(results)
}

/// Whether position j comes after position i.
fn later(graph: &Graph) -> Result<Tensor, TensorError> {
    graph.apply("later[i,j] := j > i where i < 4, j < 4", &[])
}

fn run(backend: &Backend) -> Result<Vec<HostArray>, TensorError> {
    let (graph, params) = (Graph::new(), Params::new(5));
    let results = results(&graph, &params)?;
    let weights = ModelState::new(backend, &params)?;
    let model = graph.compile(&weights, &results.iter().collect::<Vec<_>>())?;
    model.run_with(&[], &[("step", 7)])
}

#[test]
fn processors_give_the_same_bits() -> Result<(), TensorError> {
    let expected = run(&Backend::open("inline")?)?;
    let found = run(&Backend::open("multicore")?)?;
    for (expected, found) in expected.iter().zip(&found) {
        assert!(expected.bytes() == found.bytes());
        assert!(found.values().iter().all(|value| value.is_finite()));
    }
    is_close(&run(&Backend::open("interpreter")?)?, &expected, 1e-5);
    Ok(())
}

#[test]
fn gpus_give_close_values() -> Result<(), TensorError> {
    let Some(backend) = or_skip("gpus_give_close_values", Backend::open("wgpu")) else { return Ok(()) };
    is_close(&run(&backend)?, &run(&Backend::open("inline")?)?, 1e-4);
    Ok(())
}

/// A classifier of images, with modules that have statistics, random numbers and steps in time.
struct Classifier {
    conv: Conv2d,
    norm: BatchNorm2d,
    lstm: Lstm,
    attention: MultiHeadAttention,
    dropout: Dropout,
    head: Linear,
}

impl Classifier {
    fn new(params: &Params) -> Result<Classifier, TensorError> {
        let part = |name: &str| params.sub(name);
        Ok(Classifier {
            conv: Conv2d::builder(&part("conv"), 1, 4, 3).padding(1).bias(false).build()?,
            norm: BatchNorm2d::new(&part("norm"), 4)?,
            lstm: Lstm::builder(&part("lstm"), 32, 16).batch_first(true).build()?,
            attention: MultiHeadAttention::builder(&part("attention"), 16, 2).dropout(0.1).build()?,
            dropout: Dropout::new(&part("dropout"), 0.1)?,
            head: Linear::new(&part("head"), 16, 2)?,
        })
    }
}

impl Module for Classifier {
    /// The logits `[batch, 2]` of images `[batch, 1, 8, 8]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
        let x = self.norm.forward(&self.conv.forward(x)?)?.relu()?.max_pool2d(2)?;
        let x = self.lstm.forward(&x.reshape(&[x.shape()[0] as isize, 2, 32])?)?;
        let x = (self.attention.forward(&x)? + &x)?.mean(1)?;
        self.head.forward(&self.dropout.forward(&x)?)
    }
}

/// The losses of 20 steps, that of an evaluation, and the statistics of the normalization.
fn trained(backend: &Backend) -> Result<Vec<f64>, TensorError> {
    let params = Params::new(3);
    let model = Classifier::new(&params)?;
    let weights = ModelState::new(backend, &params)?;
    let mut session = Session::new(&weights, AdamW::new(0.01).clip_norm(1.0), move |batch: &Batch| {
        model.forward(&batch.input("x")?)?.cross_entropy(&batch.input("y")?)
    })?;
    let batch = |seed: usize| -> Result<_, TensorNodeError> {
        let stripe = |at: usize| if (at / 64).is_multiple_of(2) { at % 8 } else { at / 8 % 8 };
        let pixels: Vec<f32> = (0..512).map(|at| ((stripe(at) + at / 64 + seed) / 2 % 2) as f32).collect();
        let labels: Vec<i32> = (0..8).map(|at| at % 2).collect();
        Ok([
            ("x", HostArray::from_slice(&pixels, [8, 1, 8, 8])?),
            ("y", HostArray::from_slice(&labels, [8])?),
        ])
    };
    let mut found = Vec::new();
    for seed in 0..20 {
        found.push(session.step_by(batch(seed))?.metrics()?.loss());
    }
    found.push(session.evaluate([batch(7)])?.loss());
    let state = weights.state_dict()?;
    assert_eq!(state["norm.num_batches_tracked"].values(), [20.0]);
    found.extend(state["norm.running_mean"].values());
    Ok(found)
}

#[test]
fn modules_train_on_gpus() -> Result<(), TensorError> {
    let inline = Backend::open("inline")?;
    let expected = trained(&inline)?;
    assert!(expected[20] < 0.7 * expected[0], "{expected:?}");
    let Some(backend) = or_skip("modules_train_on_gpus", Backend::open("wgpu")) else { return Ok(()) };
    let found = trained(&backend)?;
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() < 1e-3 * expected.abs().max(0.1), "{at}: {found}, {expected}");
    }
    Ok(())
}

/// Compares arrays, relative to the largest element of each.
fn is_close(found: &[HostArray], expected: &[HostArray], tolerance: f64) {
    for (found, expected) in found.iter().zip(expected) {
        let (found, expected) = (found.values(), expected.values());
        let largest = expected.iter().fold(0., |largest: f64, value| largest.max(value.abs()));
        let far = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0., f64::max);
        assert!(far <= tolerance * largest, "{far} of {largest}");
    }
}
