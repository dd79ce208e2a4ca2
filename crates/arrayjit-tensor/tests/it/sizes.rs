//! Sizes that each run chooses: one executable has the results of those for constant shapes.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit_tensor::{
    Backend, ConvOptions, DType, Executable, Graph, HostArray, Init, InputDim, ModelState, Params,
    PoolOptions, ScanStep, Tensor, TensorError,
};

const D: usize = 12;

/// A layer of a transformer over `x`, and the mean over its rows.
fn layer(graph: &Graph, params: &Params, x: &Tensor) -> Result<Vec<Tensor>, TensorError> {
    let weight =
        |name: &str, shape: [usize; 2]| params.parameter(name, shape, Init::Normal { mean: 0.0, std: 0.3 });
    let gain = params.parameter("gain", [D], Init::ONES)?;
    let [q, k, v] = ["q", "k", "v"].map(|name| x.matmul(&weight(name, [D, D])?));
    let heads = |x: Tensor| {
        let [batch, rows] = [x.shape()[0] as isize, x.shape()[1] as isize];
        x.reshape(&[batch, rows, 3, 4])?.transpose(1, 2)
    };
    let (q, k, v) = (heads(q?)?, heads(k?)?, heads(v?)?);
    let scores = (q.matmul(k.transpose(-1, -2)?)? * 0.5)?.softmax(-1)?;
    let mixed = scores.matmul(&v)?.transpose(1, 2)?;
    let mixed = mixed.reshape(&[x.shape()[0] as isize, x.shape()[1] as isize, D as isize])?;
    let sum = (&mixed + x)?;
    let norm = (&sum - sum.mean_keepdim(-1)?)?;
    let norm = ((&norm / (norm.square()?.mean_keepdim(-1)? + 1e-5)?.sqrt()?)? * &gain)?;
    let hidden = norm.matmul(&weight("up", [D, 2 * D])?)?.gelu()?;
    let y = hidden.matmul(&weight("down", [2 * D, D])?)?;
    let _ = graph;
    Ok(vec![y.clone(), y.mean(1)?, y.var([0, 1])?, y.max(..)?])
}

fn model(backend: &Backend, batch: InputDim, rows: InputDim) -> Executable {
    let params = Params::new(3);
    let graph = Graph::new();
    let [batch, rows] = [batch, rows].map(|dim| match dim {
        InputDim::Size(size) => InputDim::Size(graph.size(size.name(), size.bound()).unwrap()),
        constant => constant,
    });
    let x = graph.input_of("x", &[batch, rows, D.into()], DType::F32).unwrap();
    let results = layer(&graph, &params, &x).unwrap();
    let weights = ModelState::new(backend, &params).unwrap();
    graph.compile(&weights, &results.iter().collect::<Vec<_>>()).unwrap()
}

fn input(batch: usize, rows: usize) -> HostArray {
    let values: Vec<f32> = (0..batch * rows * D).map(|at| ((at * 37 % 101) as f32 - 50.0) / 40.0).collect();
    HostArray::from_slice(&values, [batch, rows, D]).unwrap()
}

#[test]
fn one_executable_serves_every_size() {
    let backend = Backend::open("inline").unwrap();
    let sized = Graph::new();
    let (b, n) = (sized.size("b", 5).unwrap(), sized.size("n", 40).unwrap());
    let all = model(&backend, (&b).into(), (&n).into());
    for (batch, rows) in [(1, 1), (2, 7), (5, 40), (1, 33), (3, 16)] {
        let own = model(&backend, batch.into(), rows.into());
        let x = input(batch, rows);
        let (expected, found) = (own.run(&[("x", &x)]).unwrap(), all.run(&[("x", &x)]).unwrap());
        for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
            assert_eq!(expected.dims(), found.dims(), "result {at} of {batch} by {rows}");
            let (expected, found) = (expected.values(), found.values());
            let far = expected.iter().zip(&found).find(|(a, b)| (*a - *b).abs() > 1e-4 * (1.0 + a.abs()));
            assert!(far.is_none(), "result {at} of {batch} by {rows}: {far:?}");
        }
    }
}

#[test]
fn gradients_follow_sizes() {
    let run = |sized: bool, rows: usize| {
        let params = Params::new(5);
        let w = params.parameter("w", [3, 2], Init::ONES).unwrap();
        let graph = Graph::new();
        let n = graph.size("n", 9).unwrap();
        let dim = if sized { InputDim::from(&n) } else { rows.into() };
        let x = graph.input_of("x", &[dim, 3.into()], DType::F32).unwrap();
        let loss = x.matmul(&w).unwrap().tanh().unwrap().square().unwrap().mean(..).unwrap();
        let gradients = graph.gradients(&loss, &[&w, &x]).unwrap();
        let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
        let executable = graph.compile(&weights, &[&loss, &gradients[0], &gradients[1]]).unwrap();
        let values: Vec<f32> = (0..3 * rows).map(|at| at as f32 * 0.1 - 0.7).collect();
        let x = HostArray::from_slice(&values, [rows, 3]).unwrap();
        executable.run(&[("x", &x)]).unwrap().iter().map(HostArray::values).collect::<Vec<_>>()
    };
    for rows in [1, 4, 9] {
        for (expected, found) in run(false, rows).iter().zip(&run(true, rows)) {
            assert_eq!(expected.len(), found.len());
            assert!(expected.iter().zip(found).all(|(a, b)| (a - b).abs() < 1e-6), "{expected:?} {found:?}");
        }
    }
}

/// The results of a convolutional net over images of this size, from one executable for all sizes or from one
/// for this size: the net, joined parts, positions, and gradients.
fn image_net(height: InputDim, width: InputDim, images: &[[usize; 2]]) -> Vec<Vec<HostArray>> {
    let params = Params::new(7);
    let init = Init::Normal { mean: 0.0, std: 0.3 };
    let filters = params.parameter("filters", [4, 2, 3, 3], init.clone()).unwrap();
    let points = params.parameter("points", [3, 4, 1, 1], init).unwrap();
    let graph = Graph::new();
    let [height, width] = [height, width].map(|dim| match dim {
        InputDim::Size(size) => InputDim::Size(graph.size(size.name(), size.bound()).unwrap()),
        constant => constant,
    });
    let x = graph.input_of("x", &[2.into(), 2.into(), height, width], DType::F32).unwrap();
    let y = x.conv2d(&filters, ConvOptions::new().stride(2).padding(1)).unwrap().relu().unwrap();
    let pooled = y.max_pool2d(PoolOptions::new(2)).unwrap();
    let y = pooled.conv2d(&points, ConvOptions::new()).unwrap();
    let joined = Tensor::concat(&[&y, &y.tanh().unwrap()], -1).unwrap();
    let means = y.avg_pool2d(PoolOptions::new(2).stride(1).padding(1)).unwrap();
    let at = y.mean(2).unwrap().argmax(-1).unwrap();
    let loss = y.square().unwrap().mean(..).unwrap();
    let gradients = graph.gradients(&loss, &[&filters, &x]).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let results = [&y, &joined, &means, &at, &loss, &gradients[0], &gradients[1]];
    let executable = graph.compile(&weights, &results).unwrap();
    let run = |&[height, width]: &[usize; 2]| {
        let count = 4 * height * width;
        let values: Vec<f32> = (0..count).map(|at| ((at * 37 % 101) as f32 - 50.0) / 40.0).collect();
        let x = HostArray::from_slice(&values, [2, 2, height, width]).unwrap();
        executable.run(&[("x", &x)]).unwrap()
    };
    images.iter().map(run).collect()
}

#[test]
fn images_of_every_size_pass_one_executable() {
    let graph = Graph::new();
    let (height, width) = (graph.size("height", 24).unwrap(), graph.size("width", 40).unwrap());
    let images = [[24, 40], [7, 9], [16, 33], [3, 3], [4, 12]];
    let all = image_net((&height).into(), (&width).into(), &images);
    for (image, found) in images.iter().zip(&all) {
        let expected = image_net(image[0].into(), image[1].into(), &[*image]).remove(0);
        for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
            assert_eq!(expected.dims(), found.dims(), "result {at} of {image:?}");
            let (expected, found) = (expected.values(), found.values());
            let far = expected.iter().zip(&found).find(|(a, b)| (*a - *b).abs() > 1e-4 * (1.0 + a.abs()));
            assert!(far.is_none(), "result {at} of {image:?}: {far:?}");
        }
    }
}

#[test]
fn misfits_are_named() {
    let graph = Graph::new();
    let (n, m) = (graph.size("n", 8).unwrap(), graph.size("m", 8).unwrap());
    let x = graph.input_of("x", &[(&n).into(), 2.into()], DType::F32).unwrap();
    let z = graph.input_of("z", &[(&m).into(), 2.into()], DType::F32).unwrap();
    let message = |result: Result<Tensor, TensorError>| result.unwrap_err().to_string();
    let found = message(&x + &z);
    assert!(found.contains("runs over `n` elements") && found.contains("has `m` elements"), "{found}");
    let found = message(x.flip(0));
    assert!(found.contains("x has the size `n`, which each run chooses"), "{found}");
    assert!(graph.size("n", 9).unwrap_err().to_string().contains("expected the bound 8"));
    assert!(graph.size("a b", 9).unwrap_err().to_string().contains("expected a name"));
    let y = graph.input_of("y", &[(&n).into(), 2.into()], DType::F32).unwrap();
    let sum = (&x + &y).unwrap();
    let params = Params::new(0);
    let weights = ModelState::new(&Backend::open("interpreter").unwrap(), &params).unwrap();
    let executable = graph.compile(&weights, &[&sum]).unwrap();
    let ones = |rows: usize| HostArray::from_slice(&vec![1f32; 2 * rows], [rows, 2]).unwrap();
    let run = |x: usize, y: usize| executable.run(&[("x", &ones(x)), ("y", &ones(y)), ("z", &ones(1))]);
    assert_eq!(run(3, 3).unwrap()[0].values(), [2.0; 6]);
    assert_eq!(run(3, 4).unwrap_err().to_string(), "size `n` is 3 by `input x`, but 4 by `input y`");
    let long = run(9, 9).unwrap_err().to_string();
    assert_eq!(long, "size `n` is from 1 to 8, but axis 0 of input `x` has 9 elements");
    let none = run(0, 0).unwrap_err().to_string();
    assert_eq!(none, "size `n` is from 1 to 8, but axis 0 of input `x` has 0 elements");
}

/// Three layers `x + relu(x · w)` with weights that are parts of one parameter, one after the other or as a
/// loop, and the gradient of a sum.
fn stacked_layers(in_loop: bool) -> Executable {
    let params = Params::new(5);
    let weights = params.parameter("w", [3, D, D], Init::Normal { mean: 0.0, std: 0.3 }).unwrap();
    let graph = Graph::new();
    let size = graph.size("n", 9).unwrap();
    let x = graph.input_of("x", &[(&size).into(), D.into()], DType::F32).unwrap();
    let layer = |x: &Tensor, weight: &Tensor| x + x.linear(weight, None)?.relu()?;
    let y = if in_loop {
        let run = |step: &ScanStep, [x]: [Tensor; 1]| Ok(([layer(&x, &step.slice(&weights, 0)?)?], []));
        let ([y], []) = graph.scan(3).run([&x], run).unwrap();
        y
    } else {
        let weight = |at: usize| {
            let text = format!("y[i,j] := w[{at},i,j]");
            graph.apply(&text, &[("w", &weights)]).unwrap()
        };
        (0..3).fold(x, |x, at| layer(&x, &weight(at)).unwrap())
    };
    let loss = y.square().unwrap().sum(..).unwrap();
    let gradients = graph.gradients(&loss, &[&weights]).unwrap();
    let state = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    graph.compile(&state, &[&y, &gradients[0]]).unwrap()
}

#[test]
fn loops_carry_tensors_of_every_size() {
    let [unrolled, scanned] = [false, true].map(stacked_layers);
    for rows in [1, 4, 9] {
        let values: Vec<f32> = (0..rows * D).map(|at| ((at * 31 % 67) as f32 - 33.0) / 20.0).collect();
        let x = HostArray::from_slice(&values, [rows, D]).unwrap();
        let [expected, found] = [&unrolled, &scanned].map(|model| model.run(&[("x", &x)]).unwrap());
        assert_eq!(found[0].dims()[..], [rows, D]);
        assert!(expected.iter().zip(&found).all(|(a, b)| a.bytes() == b.bytes()), "{rows} rows");
    }
    let graph = Graph::new();
    let size = graph.size("n", 9).unwrap();
    let x = graph.input_of("x", &[(&size).into()], DType::F32).unwrap();
    let collected = graph.scan(2).run([&x], |_, [x]| Ok(([x.clone()], [x]))).map(drop);
    assert!(collected.unwrap_err().to_string().contains("has the size `n`, which each run chooses"));
}
