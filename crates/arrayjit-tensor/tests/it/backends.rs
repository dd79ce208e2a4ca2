//! One model on all backends: the same bits on processors, close values on GPUs.

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, Init, ModelError, Params, Tensor, TensorError, Weights, WindowOptions,
};
use codegen_testkit::gpu::or_skip;

/// A loss of convolution, normalisation, attention, an embedding and sorted values, with the gradients by all
/// parameters.
fn results(graph: &Graph, params: &Params) -> Result<Vec<Tensor>, TensorError> {
    let normal = Init::Normal { mean: 0., std: 0.5 };
    let filters = params.parameter("filters", [4, 1, 3, 3], normal.clone())?;
    let table = params.parameter("table", [6, 16], normal.clone())?;
    let gain = params.parameter("gain", [16], normal)?;
    let image = graph.rand(&[1, 1, 8, 8], DType::F32, 3)?;
    let convolved = image.conv2d(&filters, WindowOptions { padding: 1, ..WindowOptions::default() })?;
    let tokens = convolved.max_pool2d(2, WindowOptions { stride: 2, ..WindowOptions::default() })?;
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

fn run(backend: &Backend) -> Result<Vec<HostArray>, ModelError> {
    let (graph, params) = (Graph::new(), Params::new(5));
    let results = results(&graph, &params)?;
    let weights = Weights::new(backend, &params)?;
    let model = graph.compile(&weights, &results.iter().collect::<Vec<_>>())?;
    model.run_with(&[], &[("step", 7)])
}

#[test]
fn processors_give_the_same_bits() -> Result<(), ModelError> {
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
fn gpus_give_close_values() -> Result<(), ModelError> {
    let Some(backend) = or_skip("gpus_give_close_values", Backend::open("wgpu")) else { return Ok(()) };
    is_close(&run(&backend)?, &run(&Backend::open("inline")?)?, 1e-4);
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
