//! The values and shapes of operations, small enough to check by hand.

use arrayjit_tensor::{
    Backend, ConvOptions, CrossEntropyOptions, DType, Graph, HostArray, ModelState, Params, PoolOptions,
    Tensor, TensorError,
};

/// The name of an operation, the operation, and the function that it should be.
type Case = (&'static str, fn(&Tensor) -> Result<Tensor, TensorError>, fn(f64) -> f64);

/// Runs a graph with input `x` of the given values, and returns the shape and values of the result.
fn run(
    shape: &[usize],
    values: &[f32],
    build: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>,
) -> (Vec<usize>, Vec<f64>) {
    let graph = Graph::new();
    match result(&graph, shape, values, build) {
        Ok(result) => result,
        Err(error) => panic!("{error}\n{graph:?}"),
    }
}

fn result(
    graph: &Graph,
    shape: &[usize],
    values: &[f32],
    build: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>,
) -> Result<(Vec<usize>, Vec<f64>), TensorError> {
    let x = graph.input("x", shape.iter().copied(), DType::F32)?;
    let y = build(&x)?;
    let weights = ModelState::new(&Backend::open("inline")?, &Params::new(1))?;
    let model = graph.compile(&weights, &[&y])?;
    let results = model.run(&[("x", &HostArray::from_slice(values, shape.iter().copied())?)])?;
    assert_eq!(results[0].dims().as_slice(), y.shape());
    Ok((y.shape().to_vec(), results[0].values()))
}

/// The numbers 0, 1, 2, … in a shape.
fn count(
    shape: &[usize],
    build: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>,
) -> (Vec<usize>, Vec<f64>) {
    let values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|at| at as f32).collect();
    run(shape, &values, build)
}

fn close(found: &[f64], expected: &[f64]) {
    let is_close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()) || a == b;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(is_close),
        "{found:?} {expected:?}"
    );
}

#[test]
fn arithmetic_broadcasts() {
    let (shape, values) = count(&[2, 3], |x| (x + x.sum_keepdim(0)?)? * 2.0);
    assert_eq!((shape, values), (vec![2, 3], vec![6., 12., 18., 12., 18., 24.]));
    let (_, values) = count(&[3], |x| (1.0 - x)?.maximum(-0.5));
    assert_eq!(values, [1., 0., -0.5]);
    let (shape, values) = count(&[2, 1], |x| x.mul(x.transpose(0, 1)?));
    assert_eq!((shape, values), (vec![2, 2], vec![0., 0., 0., 1.]));
    let (shape, values) = count(&[], |x| -&(x + 1.0)?);
    assert_eq!((shape, values), (vec![], vec![-1.]));
}

#[test]
fn functions_of_elements() {
    let x = [-2.5f32, -0.5, 0., 0.5, 2.5];
    let cases: [Case; 17] = [
        ("abs", Tensor::abs, f64::abs),
        ("exp", Tensor::exp, f64::exp),
        ("sin", Tensor::sin, f64::sin),
        ("cos", Tensor::cos, f64::cos),
        ("tanh", Tensor::tanh, f64::tanh),
        ("square", Tensor::square, |x| x * x),
        ("floor", Tensor::floor, f64::floor),
        ("ceil", Tensor::ceil, f64::ceil),
        ("trunc", Tensor::trunc, f64::trunc),
        ("round", Tensor::round, f64::round_ties_even),
        ("relu", Tensor::relu, |x| x.max(0.)),
        ("sigmoid", Tensor::sigmoid, |x| 1. / (1. + (-x).exp())),
        ("silu", Tensor::silu, |x| x / (1. + (-x).exp())),
        ("softplus", Tensor::softplus, |x| (1. + x.exp()).ln()),
        ("sign", Tensor::sign, |x| if x == 0. { 0. } else { x.signum() }),
        ("neg", Tensor::neg, |x| -x),
        ("leaky_relu", |x| x.leaky_relu(0.1), |x| if x > 0. { x } else { 0.1 * x }),
    ];
    for (name, operation, expected) in cases {
        let (_, found) = run(&[5], &x, operation);
        println!("{name}");
        close(&found, &x.map(|x| expected(f64::from(x))));
    }
}

#[test]
fn reductions() {
    assert_eq!(count(&[2, 3], |x| x.sum(..)), (vec![], vec![15.]));
    assert_eq!(count(&[2, 3], |x| x.sum(-1)), (vec![2], vec![3., 12.]));
    assert_eq!(count(&[2, 3], |x| x.mean_keepdim([0])), (vec![1, 3], vec![1.5, 2.5, 3.5]));
    assert_eq!(count(&[2, 2], |x| (x + 1.0)?.prod(0)), (vec![2], vec![3., 8.]));
    assert_eq!(count(&[2, 3], |x| x.max([0, 1])), (vec![], vec![5.]));
    assert_eq!(count(&[2, 3], |x| x.min(1)), (vec![2], vec![0., 3.]));
    assert_eq!(count(&[2, 3], |x| x.any(1)), (vec![2], vec![1., 1.]));
    assert_eq!(count(&[2, 3], |x| x.all(1)), (vec![2], vec![0., 1.]));
    close(&count(&[4], |x| x.var(..)).1, &[5. / 3.]);
    close(&count(&[4], |x| x.var_population(..)).1, &[1.25]);
    close(&count(&[4], |x| x.std(..)).1, &[(5f64 / 3.).sqrt()]);
    close(&count(&[2], |x| x.logsumexp(0)).1, &[1f64.exp().ln_1p()]);
    close(&run(&[2], &[f32::NEG_INFINITY; 2], |x| x.logsumexp(0)).1, &[f64::NEG_INFINITY]);
    assert_eq!(run(&[2, 3], &[1., 5., 5., 7., 2., 2.], |x| x.argmax(1)), (vec![2], vec![1., 0.]));
    assert_eq!(run(&[2, 3], &[1., 5., 5., 7., 2., 2.], |x| x.argmin(-1)), (vec![2], vec![0., 1.]));
    assert_eq!(count(&[2, 3], |x| x.cumsum(1)), (vec![2, 3], vec![0., 1., 3., 3., 7., 12.]));
    assert_eq!(count(&[2, 2], |x| x.cumsum(0)), (vec![2, 2], vec![0., 1., 2., 4.]));
    assert_eq!(count(&[2, 2], |x| (x + 2.0)?.cumprod(1)).1, [2., 6., 4., 20.]);
    assert_eq!(count(&[2, 0], |x| x.cumsum(1)), (vec![2, 0], vec![]));
    assert_eq!(count(&[0, 2], |x| x.cumsum(1)), (vec![0, 2], vec![]));
    let long: Vec<f64> = (0..100u32).map(|n| f64::from(n * (n + 1) / 2)).collect();
    assert_eq!(count(&[100], |x| x.cumsum(0)).1, long);
}

#[test]
fn reductions_of_integers_and_truth_values() {
    assert_eq!(count(&[4], |x| x.gt(1.0)?.sum(..)), (vec![], vec![2.]));
    assert_eq!(count(&[4], |x| x.to_dtype(DType::U8)?.mean(..)), (vec![], vec![1.5]));
    let (_, values) = run(&[300], &[200.; 300], |x| x.to_dtype(DType::U8)?.sum(..));
    assert_eq!(values, [60_000.]);
}

#[test]
fn layouts() {
    let (shape, values) = count(&[4, 6], |x| x.reshape(&[3, -1]));
    assert_eq!((shape, values), (vec![3, 8], (0..24).map(f64::from).collect()));
    let (shape, values) = count(&[2, 3, 4], |x| x.flatten(1, 2));
    assert_eq!((shape, values), (vec![2, 12], (0..24).map(f64::from).collect()));
    let (shape, values) = count(&[2, 12], |x| x.reshape(&[2, 3, 4])?.permute(&[2, 0, 1])?.select(0, 1));
    assert_eq!((shape, values), (vec![2, 3], vec![1., 5., 9., 13., 17., 21.]));
    assert_eq!(count(&[3], |x| x.unsqueeze(-1)).0, [3, 1]);
    assert_eq!(count(&[1, 3], |x| x.squeeze(0)), (vec![3], vec![0., 1., 2.]));
    assert_eq!(count(&[1], |x| x.reshape(&[])), (vec![], vec![0.]));
    assert_eq!(count(&[5], |x| x.slice(0, 1..4)).1, [1., 2., 3.]);
    assert_eq!(count(&[6], |x| x.slice_step(0, 1..6, 2)).1, [1., 3., 5.]);
    assert_eq!(count(&[4], |x| x.narrow(-1, 2, 1)).1, [2.]);
    assert_eq!(count(&[3], |x| x.flip(0)).1, [2., 1., 0.]);
    let (shape, values) = count(&[1, 2], |x| x.pad(&[(1, 0), (0, 1)], -1.));
    assert_eq!((shape, values), (vec![2, 3], vec![-1., 0., 1., -1., -1., -1.]));
    assert_eq!(count(&[2, 1], |x| x.broadcast_to(&[2, 2, 2])).1, [0., 0., 1., 1., 0., 0., 1., 1.]);
    let (shape, values) = count(&[2, 2], |x| Tensor::concat(&[x, &(x * 10.0)?, x], 1));
    assert_eq!((shape, values), (vec![2, 6], vec![0., 1., 0., 10., 0., 1., 2., 3., 20., 30., 2., 3.]));
    let (shape, values) = count(&[2], |x| Tensor::stack(&[x, x], -1));
    assert_eq!((shape, values), (vec![2, 2], vec![0., 0., 1., 1.]));
    let (_, values) = count(&[5], |x| x.split(&[2, 3], 0)?[1].add(1.0));
    assert_eq!(values, [3., 4., 5.]);
    let (_, values) = count(&[6], |x| Ok(x.chunk(3, 0)?.remove(2)));
    assert_eq!(values, [4., 5.]);
    assert_eq!(count(&[5], |x| x.unfold(0, 3, 2)), (vec![2, 3], vec![0., 1., 2., 2., 3., 4.]));
    assert_eq!(count(&[2], |x| x.full_like(3.5)).1, [3.5, 3.5]);
}

#[test]
fn positions() {
    let two = |x: &Tensor| x.graph().arange(2)? * 2;
    let (shape, values) = count(&[3, 2], |x| x.take(0, &two(x)?));
    assert_eq!((shape, values), (vec![2, 2], vec![0., 1., 4., 5.]));
    assert_eq!(count(&[2, 3], |x| x.index_select(1, &two(x)?)).1, [0., 2., 3., 5.]);
    let (_, values) = count(&[3, 2], |x| x.gather(0, &two(x)?.unsqueeze(0)?));
    assert_eq!(values, [0., 5.]);
    let (_, values) = count(&[3, 2], |x| {
        let p = two(x)?.unsqueeze(0)?;
        x.scatter_add(0, &p, &p.to_dtype(DType::F32)?)
    });
    assert_eq!(values, [0., 1., 2., 3., 4., 7.]);
    let (_, values) = count(&[3, 2], |x| {
        let p = two(x)?.unsqueeze(0)?;
        x.scatter(0, &p, &(p.to_dtype(DType::F32)? - 9.0)?)
    });
    assert_eq!(values, [-9., 1., 2., 3., 4., -7.]);
    let (_, values) = count(&[2, 2], |x| x.masked_fill(&x.gt(1.5)?, -1.));
    assert_eq!(values, [0., 1., -1., -1.]);
    assert_eq!(count(&[2, 2], |x| (x + 1.0)?.tril(0)).1, [1., 0., 3., 4.]);
    assert_eq!(count(&[2, 2], |x| (x + 1.0)?.triu(1)).1, [0., 2., 0., 0.]);
    let (shape, values) = count(&[2], |x| x.to_dtype(DType::I32)?.one_hot(3));
    assert_eq!((shape, values), (vec![2, 3], vec![1., 0., 0., 0., 1., 0.]));
    assert_eq!(count(&[2, 2], |x| x.gt(1.5)?.where_(x, -1.0)).1, [-1., -1., 2., 3.]);
}

#[test]
fn sorting() {
    let x = [3f32, 1., 2., 1., 5., 5.];
    assert_eq!(run(&[6], &x, |x| Ok(x.sort(0, false)?.0)).1, [1., 1., 2., 3., 5., 5.]);
    assert_eq!(run(&[6], &x, |x| Ok(x.sort(0, false)?.1)).1, [1., 3., 2., 0., 4., 5.]);
    assert_eq!(run(&[6], &x, |x| Ok(x.sort(0, true)?.1)).1, [4., 5., 0., 2., 1., 3.]);
    assert_eq!(run(&[2, 3], &x, |x| Ok(x.topk(2, 1)?.0)), (vec![2, 2], vec![3., 2., 5., 5.]));
    assert_eq!(run(&[2, 3], &x, |x| Ok(x.topk(2, 1)?.1)).1, [0., 2., 1., 2.]);
}

#[test]
fn nan_is_the_largest_number_of_an_order() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let x = [2., nan, inf, -inf, nan, 0.];
    assert_eq!(run(&[6], &x, |x| Ok(x.sort(0, false)?.1)).1, [3., 5., 0., 2., 1., 4.]);
    assert_eq!(run(&[6], &x, |x| Ok(x.sort(0, true)?.1)).1, [1., 4., 2., 0., 5., 3.]);
    let (_, values) = run(&[6], &x, |x| Ok(x.topk(3, 0)?.0));
    assert!(values[0].is_nan() && values[1].is_nan() && values[2] == f64::INFINITY, "{values:?}");
    let rows = [1., nan, 3., nan, nan, nan];
    assert_eq!(run(&[2, 3], &rows, |x| x.argmax(1)).1, [1., 0.]);
    assert_eq!(run(&[2, 3], &rows, |x| x.argmin(1)).1, [1., 0.]);
}

#[test]
fn the_last_of_equal_positions_counts() {
    let scattered = |x: &Tensor| {
        let positions = x.eq(1.0)?.to_dtype(DType::I32)?;
        Tensor::scatter(&(x * 0.0)?, 1, &positions, x)
    };
    assert_eq!(run(&[2, 3], &[1., 5., 1., 7., 2., 2.], scattered).1, [5., 1., 0., 2., 0., 0.]);
}

#[test]
fn products() {
    let (shape, values) = count(&[2, 3], |x| x.matmul(x.transpose(0, 1)?));
    assert_eq!((shape, values), (vec![2, 2], vec![5., 14., 14., 50.]));
    assert_eq!(count(&[3], |x| x.matmul(x)), (vec![], vec![5.]));
    assert_eq!(count(&[2, 2], |x| x.matmul(x.select(0, 1)?)), (vec![2], vec![3., 13.]));
    assert_eq!(count(&[2, 2], |x| x.select(0, 1)?.matmul(x)), (vec![2], vec![6., 11.]));
    assert_eq!(count(&[3, 1, 2, 2], |x| x.matmul(x.reshape(&[3, 2, 2])?)).0, [3, 3, 2, 2]);
    let (_, values) = count(&[2, 3], |x| x.einsum("row col, row col -> col", x));
    assert_eq!(values, [9., 17., 29.]);
    let (_, values) = count(&[2, 2], |x| x.einsum("ik,kj->ji", x));
    assert_eq!(values, [2., 6., 3., 11.]);
    let (shape, values) = count(&[2, 1, 2], |x| x.einsum("...ij,...kj->...ik", x));
    assert_eq!((shape, values), (vec![2, 1, 1], vec![1., 13.]));
    let (shape, values) =
        count(&[1, 2], |x| x.einsum("... row col, ... row col -> ... row", x.transpose(0, 1)?));
    assert_eq!((shape, values), (vec![2], vec![0., 1.]));
    // Operands of one letter are alike in words and in letters.
    for equation in ["i,j->ji", "i, j -> j i"] {
        let (shape, values) = count(&[3], |x| x.einsum(equation, x.narrow(0, 1, 2)?));
        assert_eq!((shape, values), (vec![2, 3], vec![0., 1., 2., 0., 2., 4.]), "{equation}");
    }
    assert_eq!(count(&[2, 2], |x| x.rearrange("i i -> i")).1, [0., 3.]);
    assert_eq!(count(&[2, 3], |x| x.rearrange("i j -> j")).1, [3., 5., 7.]);
}

/// Ignored positions add nothing, and the mean is over the others. A class may be ignored; where all
/// positions are, the mean is NaN, as in torch.
#[test]
fn cross_entropy_ignores_an_index() {
    let all = [(2.0 * 1f64.exp() + 1.0).ln(), (1.0 + 2.0 * (-2f64).exp()).ln()];
    let values = [1.0, 1.0, 0.0, 2.0, 0.0, 0.0];
    let loss = |labels: &[i32], ignored: Option<i64>| {
        let (_, found) = run(&[2, 3], &values, |x| {
            let text = format!("y[i] := i32(where(i == 0, {}, {})) where i < 2", labels[0], labels[1]);
            let labels = x.graph().apply(&text, &[])?;
            match ignored {
                Some(ignored) => {
                    x.cross_entropy_with(&labels, &CrossEntropyOptions::new().ignore_index(ignored))
                }
                None => x.cross_entropy(&labels),
            }
        });
        found[0]
    };
    close(&[loss(&[2, 0], None)], &[(all[0] + all[1]) / 2.0]);
    close(&[loss(&[-100, 0], None)], &[all[1]]);
    close(&[loss(&[2, 0], Some(0))], &[all[0]]);
    close(&[loss(&[7, 0], Some(7))], &[all[1]]);
    close(&[loss(&[2, 0], Some(1 << 40))], &[(all[0] + all[1]) / 2.0]);
    assert!(loss(&[-100, -100], None).is_nan());
}

/// Where a function changes its formula, its derivative is torch's.
#[test]
fn derivatives_at_seams_are_those_of_torch() {
    type Row = (&'static str, fn(&Tensor) -> Result<Tensor, TensorError>, &'static [(f32, f64)]);
    let rows: [Row; 9] = [
        ("relu", Tensor::relu, &[(0.0, 0.0), (1.0, 1.0)]),
        ("leaky_relu", |x| x.leaky_relu(0.1), &[(0.0, 0.1), (-1.0, 0.1), (1.0, 1.0)]),
        ("clamp", |x| x.clamp(-1.0, 2.0), &[(-1.0, 1.0), (2.0, 1.0), (-1.5, 0.0), (2.5, 0.0), (0.0, 1.0)]),
        ("elu", |x| x.elu(2.0), &[(0.0, 2.0), (1.0, 1.0)]),
        ("celu", |x| x.celu(2.0), &[(0.0, 1.0), (1.0, 1.0)]),
        ("hardswish", Tensor::hardswish, &[(-3.0, 0.0), (3.0, 1.0)]),
        ("erf", Tensor::erf, &[(0.0, std::f64::consts::FRAC_2_SQRT_PI)]),
        ("maximum", |x| x.maximum(1.0), &[(1.0, 0.5)]),
        ("std", |x| x.std(..), &[(3.0, 0.0), (3.0, 0.0)]),
    ];
    for (name, operation, points) in rows {
        let values: Vec<f32> = points.iter().map(|(x, _)| *x).collect();
        let (_, found) = run(&[points.len()], &values, |x| {
            let loss = operation(x)?.sum(..)?;
            Ok(x.graph().gradients(&loss, &[x])?.remove(0))
        });
        let expected: Vec<f64> = points.iter().map(|(_, expected)| *expected).collect();
        assert!(
            found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6),
            "{name}: {found:?} {expected:?}"
        );
    }
}

#[test]
fn normalization() {
    let e = 1f64.exp();
    close(&count(&[2], |x| x.softmax(0)).1, &[1. / (1. + e), e / (1. + e)]);
    close(&count(&[2, 2], |x| x.log_softmax(0)).1, &[-2.126928, -2.126928, -0.126928, -0.126928]);
    let (_, values) = count(&[1, 2], |x| x.layer_norm(x.select(0, 0)?, x.select(0, 0)?, 0.));
    close(&values, &[0., 2.]);
    let (_, values) = count(&[1, 2], |x| x.rms_norm(x.select(0, 0)?, 0.));
    close(&values, &[0., 2f64.sqrt()]);
    let (_, values) = count(&[2, 2], |x| x.cross_entropy(&x.graph().arange(2)?));
    close(&values, &[(1.3132617 + 0.3132617) / 2.]);
    close(&count(&[2], |x| x.mse_loss(&(x + 2.0)?)).1, &[4.]);
    close(&count(&[2], |x| x.l1_loss(&(x - 2.0)?)).1, &[2.]);
    close(&count(&[2], |x| x.binary_cross_entropy_with_logits(x)).1, &[(2f64.ln() + 0.3132617) / 2.]);
}

#[test]
fn windows() {
    let window = ConvOptions::new().padding(1);
    let ones = |x: &Tensor, shape: &[isize]| {
        (x * 0.0)?
            .add(1.0)?
            .reshape(&[-1])?
            .narrow(0, 0, shape.iter().product::<isize>() as usize)?
            .reshape(shape)
    };
    let (shape, values) = count(&[1, 1, 3, 3], |x| x.conv2d(ones(x, &[1, 1, 3, 3])?, window));
    assert_eq!((shape, values), (vec![1, 1, 3, 3], vec![8., 15., 12., 21., 36., 27., 20., 33., 24.]));
    let strided = ConvOptions::new().stride(2);
    assert_eq!(count(&[1, 1, 4, 4], |x| x.max_pool2d(2)).1, [5., 7., 13., 15.]);
    assert_eq!(count(&[1, 1, 4, 4], |x| x.avg_pool2d(2)).1, [2.5, 4.5, 10.5, 12.5]);
    let overlapping = PoolOptions::new(2).stride(1);
    assert_eq!(count(&[1, 1, 3, 3], |x| x.max_pool2d(overlapping)).1, [4., 5., 7., 8.]);
    let padded = PoolOptions::new(2).padding(1);
    assert_eq!(count(&[1, 1, 2, 2], |x| (x - 5.0)?.max_pool2d(padded)).1, [-5., -4., -3., -2.]);
    assert_eq!(count(&[1, 1, 4, 4], |x| x.adaptive_avg_pool2d(1, 2)).1, [6.5, 8.5]);
    let grouped = ConvOptions::new().groups(2);
    let (shape, values) = count(&[1, 4, 1, 1], |x| x.conv2d(ones(x, &[2, 2, 1, 1])?, grouped));
    assert_eq!((shape, values), (vec![1, 2, 1, 1], vec![1., 5.]));
    let (shape, values) = count(&[1, 1, 2, 2], |x| x.conv_transpose2d(ones(x, &[1, 1, 2, 2])?, strided));
    assert_eq!(shape, [1, 1, 4, 4]);
    assert_eq!(values, [0., 0., 1., 1., 0., 0., 1., 1., 2., 2., 3., 3., 2., 2., 3., 3.]);
    assert_eq!(count(&[1, 1, 5], |x| x.conv1d(ones(x, &[1, 1, 3])?, strided)).1, [3., 9.]);
    let cube = [1, 1, 2, 2, 2];
    assert_eq!(count(&cube, |x| x.conv3d(ones(x, &[1, 1, 2, 2, 2])?, strided)), (vec![1; 5], vec![28.]));
    let (shape, values) =
        count(&[1, 2, 2], |x| x.conv_transpose1d(ones(x, &[2, 1, 2])?, strided.output_padding(1)));
    assert_eq!((shape, values), (vec![1, 1, 5], vec![2., 2., 4., 4., 0.]));
    let (shape, values) = count(&cube, |x| x.conv_transpose3d(ones(x, &[1, 1, 1, 1, 2])?, strided));
    assert_eq!((shape, values.iter().sum::<f64>()), (vec![1, 1, 3, 3, 4], 56.));
    assert_eq!(count(&[1, 1, 5], |x| x.max_pool1d(2)).1, [1., 3.]);
    assert_eq!(count(&[1, 1, 4], |x| x.avg_pool1d(overlapping)).1, [0.5, 1.5, 2.5]);
    assert_eq!(count(&cube, |x| x.max_pool3d(2)), (vec![1; 5], vec![7.]));
    assert_eq!(count(&cube, |x| x.avg_pool3d(2)), (vec![1; 5], vec![3.5]));
}

#[test]
fn empty_tensors() {
    assert_eq!(count(&[0, 3], |x| x.sum(0)), (vec![3], vec![0.; 3]));
    assert_eq!(count(&[0, 3], |x| x.reshape(&[3, 0])), (vec![3, 0], vec![]));
    assert_eq!(count(&[2, 0], |x| x.matmul(x.transpose(0, 1)?)), (vec![2, 2], vec![0.; 4]));
    assert_eq!(count(&[0, 1], |x| x.add(x.transpose(0, 1)?)).0, [0, 0]);
    assert_eq!(count(&[3], |x| Tensor::concat(&[x, &x.slice(0, 1..1)?], 0)).1, [0., 1., 2.]);
    assert_eq!(count(&[3], |x| Ok(x.topk(0, 0)?.0)), (vec![0], vec![]));
}

#[test]
fn narrow_floats_are_summed_in_f32() {
    // 2,048 + 1 is no f16, so a sum in f16 would stay at 2,048.
    let (_, values) = run(&[4096], &[1.; 4096], |x| x.to_dtype(DType::F16)?.sum(..)?.to_dtype(DType::F32));
    assert_eq!(values, [4096.]);
    let (_, values) = run(&[4096], &[1.; 4096], |x| {
        let x = x.to_dtype(DType::Bf16)?;
        x.matmul(&x)?.to_dtype(DType::F32)
    });
    assert_eq!(values, [4096.]);
    let (_, values) = count(&[2, 3], |x| x.to_dtype(DType::Bf16)?.softmax(1)?.sum(1));
    close(&values, &[1., 1.]);
}

/// The gradient of sorted elements goes back to their positions, and the running sum of a long axis is exact.
#[test]
fn orders_and_running_sums_of_long_axes() {
    let size = 3000usize;
    let x: Vec<f32> = (0..size).map(|at| ((at * 7919) % 3001) as f32).collect();
    let mut sorted = x.clone();
    sorted.sort_by(f32::total_cmp);
    let widened = |values: &[f32]| values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    assert_eq!(run(&[size], &x, |x| Ok(x.sort(0, false)?.0)).1, widened(&sorted));
    sorted.reverse();
    assert_eq!(run(&[size], &x, |x| Ok(x.topk(4, 0)?.0)).1, widened(&sorted[..4]));
    let ones = vec![1f32; size];
    let counted: Vec<f64> = (1..=size).map(|at| at as f64).collect();
    assert_eq!(run(&[size], &ones, |x| x.cumsum(0)).1, counted);
    assert_eq!(run(&[0, 3], &[], |x| Ok(x.sort(0, false)?.1)), (vec![0, 3], vec![]));
    assert_eq!(run(&[3], &x[..3], |x| Ok(x.topk(0, 0)?.0)), (vec![0], vec![]));
}
