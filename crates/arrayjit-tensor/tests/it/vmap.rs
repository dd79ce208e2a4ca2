//! Functions over batches against calls for one example after the other: results, gradients of results,
//! gradients in functions, bad input.

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, Init, ModelState, NumericClass, Parameter, Params, Settings, Tensor,
    TensorError, TensorOperand,
    nn::{Conv2d, Linear, Module},
};

use crate::sessions::message;

const COUNT: usize = 4;
const SIZE: usize = 5;

type Stage = fn(&Tensor, &Parameter) -> Result<Tensor, TensorError>;

/// Functions from vectors to vectors of the same size.
const STAGES: [Stage; 12] = [
    |x, _| x.tanh(),
    |x, w| x.matmul(w),
    |x, _| x.softmax(0),
    |x, _| x.cumsum(0),
    |x, _| x.add(x.gather(0, &x.sort(0, true)?.1)?),
    |x, _| Tensor::concat(&[&x.slice(0, 2..SIZE)?, &x.slice(0, 0..2)?], 0),
    |x, w| {
        let ([last], []) = x
            .graph()
            .scan(SIZE)
            .run([x], |step, [h]| Ok::<_, TensorError>(([(h * 0.5)?.add(&step.slice(w, 0)?.sin()?)?], [])))?;
        Ok(last)
    },
    |x, w| x.graph().apply("y[i] :+= x[k] * w[i,k] where k <= i", &[("x", x), ("w", &w)]),
    |x, _| x - x.max(0)?,
    |x, _| x.graph().apply("y[i] := 0.5 where i < 5\ny[2] := x[1] * x[1]\ny[0] := x[3]", &[("x", x)]),
    |x, w| {
        let loss = x.matmul(w)?.square()?.sum(..)?;
        Ok(x.graph().gradients(&loss, &[x])?.remove(0))
    },
    |x, _| {
        let [y] = x.graph().custom_vjp([x], |[x]| Ok([x.round()?]), |[x], _, [g]| Ok([(g * x)?]))?;
        y.add(x.sin()?)
    },
];

/// The result of some stages, and the gradients of the sum of its squares by the input and the parameter.
fn composed(stages: &[usize], x: &Tensor, w: &Parameter) -> Result<[Tensor; 3], TensorError> {
    let y = stages.iter().try_fold(x.clone(), |x, &stage| STAGES[stage](&x, w))?;
    // The parameter is mentioned, and the result depends on the input.
    let y = y.add(x.mul(w.clone())?.sum(0)?)?.add(x)?;
    let gradients = x.graph().gradients(&y.square()?.sum(..)?, &[x, w])?;
    Ok([y, gradients[0].clone(), gradients[1].clone()])
}

fn model(numerics: NumericClass) -> (Params, Parameter, ModelState) {
    let params = Params::new(7);
    let w = params.parameter("w", [SIZE, SIZE], Init::kaiming_uniform(SIZE, 1.0)).unwrap();
    let mut settings = Settings::default();
    settings.numerics = numerics;
    let backend = Backend::open_with("multicore", &settings).unwrap();
    let weights = ModelState::new(&backend, &params).unwrap();
    (params, w, weights)
}

fn example(at: usize) -> Vec<f32> {
    (0..SIZE).map(|i| ((at * 31 + i * 17) as f32 * 0.7).sin() * 1.5).collect()
}

/// The values of the tensors for each example.
fn one_after_another(
    weights: &ModelState,
    build: impl Fn(&Tensor) -> Result<Vec<Tensor>, TensorError>,
) -> Vec<Vec<f64>> {
    let graph = Graph::new();
    let tensors = build(&graph.input("x", [SIZE], DType::F32).unwrap()).unwrap();
    let model = graph.compile(weights, &tensors.iter().collect::<Vec<_>>()).unwrap();
    let mut all = vec![Vec::new(); tensors.len()];
    for at in 0..COUNT {
        let x = HostArray::from_slice(&example(at), [SIZE]).unwrap();
        let results = model.run(&[("x", &x)]).unwrap();
        all.iter_mut().zip(results).for_each(|(all, result)| all.extend(result.values()));
    }
    all
}

/// The values of the tensors for all examples, which are the columns of the input if `axis` is 1.
fn at_once(
    weights: &ModelState,
    axis: isize,
    build: impl Fn(&Graph, &Tensor) -> Result<Vec<Tensor>, TensorError>,
) -> Vec<Vec<f64>> {
    let graph = Graph::new();
    let rows: Vec<f32> = (0..COUNT).flat_map(example).collect();
    let (values, shape) = match axis {
        0 => (rows, [COUNT, SIZE]),
        _ => {
            let at = |at: usize| rows[at % COUNT * SIZE + at / COUNT];
            ((0..COUNT * SIZE).map(at).collect(), [SIZE, COUNT])
        }
    };
    let x = graph.input("x", shape, DType::F32).unwrap();
    let tensors = build(&graph, &x).unwrap_or_else(|error| panic!("{error}"));
    let model =
        graph.compile(weights, &tensors.iter().collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}"));
    let x = HostArray::from_slice(&values, shape).unwrap();
    model.run(&[("x", &x)]).unwrap().iter().map(HostArray::values).collect()
}

/// Bits, but for the sign of zero.
fn assert_same(found: &[f64], expected: &[f64], of: &[usize]) {
    assert_eq!(found.len(), expected.len(), "{of:?}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(found == expected, "stages {of:?}, element {at}: {found}, expected {expected}");
    }
}

#[test]
fn each_stage_has_the_bits_of_single_calls() {
    let mut programs: Vec<Vec<usize>> = (0..STAGES.len()).map(|stage| vec![stage]).collect();
    programs
        .extend((0..14).map(|seed| (0..3).map(|at| (seed * 7 + at * (seed + 5) + seed / 3) % 12).collect()));
    for stages in programs {
        let (_params, w, weights) = model(NumericClass::Strict);
        let expected = one_after_another(&weights, |x| composed(&stages, x, &w).map(Vec::from));
        for axis in [0, 1] {
            let found = at_once(&weights, axis, |graph, x| {
                Ok(graph.vmap([(x, axis)], |[x]| composed(&stages, &x, &w))?.into())
            });
            found.iter().zip(&expected).for_each(|(found, expected)| assert_same(found, expected, &stages));
        }
    }
}

/// The gradient of the results of all examples by the input is that of each example, and the gradient by the
/// parameter is their sum.
#[test]
fn gradients_go_through_the_results() {
    for stages in [vec![1, 0], vec![4, 7], vec![6, 2], vec![11, 1], vec![10, 3]] {
        let (_params, w, weights) = model(NumericClass::Strict);
        let expected = one_after_another(&weights, |x| composed(&stages, x, &w).map(Vec::from));
        let found = at_once(&weights, 0, |graph, x| {
            let [y] = graph.vmap([(x, 0)], |[x]| {
                let y = stages.iter().try_fold(x.clone(), |x, &stage| STAGES[stage](&x, &w))?;
                Ok([y.add(x.mul(w.clone())?.sum(0)?)?.add(&x)?])
            })?;
            let gradients = graph.gradients(&y.square()?.sum(..)?, &[x, &w])?;
            Ok([vec![y], gradients].concat())
        });
        assert_same(&found[0], &expected[0], &stages);
        let sum = |at: usize| (0..COUNT).map(|example| expected[2][example * SIZE * SIZE + at]).sum::<f64>();
        let sums: Vec<f64> = (0..SIZE * SIZE).map(sum).collect();
        for (found, expected) in found[1..].iter().flatten().zip(expected[1].iter().chain(&sums)) {
            assert!(
                (found - expected).abs() <= 1e-5 * (1.0 + expected.abs()),
                "{stages:?}: {found} {expected}"
            );
        }
    }
}

/// A function over two axes, one in the other, and a result that no input changes.
#[test]
fn functions_over_functions() {
    let (_params, _, weights) = model(NumericClass::Fast);
    let found = at_once(&weights, 0, |graph, x| {
        let [products, twos] = graph.vmap([(x, 0)], |[a]| {
            let [products] = graph.vmap([(x, 0)], |[b]| Ok([a.mul(&b)?.sum(..)?]))?;
            Ok([products, graph.full(&[2], 2.0, DType::F32)?])
        })?;
        assert_eq!((products.shape(), twos.shape()), (&[COUNT, COUNT][..], &[COUNT, 2][..]));
        Ok(vec![products, twos])
    });
    let dot = |a: usize, b: usize| example(a).iter().zip(example(b)).fold(0f32, |sum, (a, b)| sum + a * b);
    let expected: Vec<f32> = (0..COUNT * COUNT).map(|at| dot(at / COUNT, at % COUNT)).collect();
    for (found, expected) in found[0].iter().zip(expected) {
        assert!((found - f64::from(expected)).abs() < 1e-5, "{found} {expected}");
    }
    assert_eq!(found[1], [2.0; 2 * COUNT]);
}

#[test]
fn fast_code_computes_the_same() {
    let (_params, w, weights) = model(NumericClass::Fast);
    let stages = [1, 0, 4, 2, 6, 5];
    let expected = one_after_another(&weights, |x| composed(&stages, x, &w).map(Vec::from));
    let found =
        at_once(&weights, 0, |graph, x| Ok(graph.vmap([(x, 0)], |[x]| composed(&stages, &x, &w))?.into()));
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!((found - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{found} {expected}");
    }
}

#[test]
fn bad_functions_are_errors() {
    let params = Params::new(1);
    let seen = params.buffer("seen", [3], Init::ZEROS).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", [2, 3], DType::F32).unwrap();
    let same = |[x]: [Tensor; 1]| Ok([x]);
    let error = message(graph.vmap([(&x, 2)], same));
    assert!(error.contains("axis 2"), "{error}");
    let error = message(graph.vmap([(&x, 0), (&x, 1)], |[a, _]| Ok([a])));
    assert!(
        error.ends_with("has shape [2, 3], expected 2 elements on axis 1, as the first input has"),
        "{error}"
    );
    let error = message(graph.vmap([(&1.0, 0)], same));
    assert!(error.ends_with("inputs is 1, expected a tensor or a parameter"), "{error}");
    let store = |[x]: [Tensor; 1]| {
        graph.apply("seen[i] := x[i]\ny[i] := 2 * x[i]", &[("seen", &seen), ("x", &x)]).map(|y| [y])
    };
    let error = message(graph.vmap([(&x, 0)], store));
    assert!(
        error.contains("a statement of the function is one that stores values of an example in `seen`"),
        "{error}"
    );
    let unused = graph.input("unused", [2], DType::F32).unwrap();
    let gradient = |[x, unused]: [Tensor; 2]| Ok([graph.gradients(&x.sum(..)?, &[&unused])?.remove(0)]);
    let error = message(graph.vmap([(&x, 0), (&unused, 0)], gradient));
    assert!(error.ends_with("no statement mentions the parameter unused; expected one of x"), "{error}");
    let ends = |[x]: [Tensor; 1]| {
        let scan = graph.scan(3);
        let ([last], []) = scan.run_while(
            [&x],
            |_, [h]| h.sum(..)?.gt(0.0),
            |_, [h]| Ok::<_, TensorError>(([(h - 1.0)?], [])),
        )?;
        Ok([last])
    };
    let error = message(graph.vmap([(&x, 0)], ends));
    assert!(error.contains("a loop that an example ends"), "{error}");
    let mut kept = None;
    let keep = |[x]: [Tensor; 1]| Ok([kept.insert(x).clone()]);
    graph.vmap([(&x, 0)], keep).unwrap();
    let error = message(kept.unwrap().exp());
    assert!(error.contains("x belongs to the body of a scan or function"), "{error}");
    assert_eq!(graph.vmap([(&x, 0)], same).unwrap()[0].shape(), [2, 3]); // errors leave the graph as it was
}

/// The gradients by all parameters of a network, for each image of a batch of three or one, with labels that
/// each run checks.
#[test]
fn gradients_of_a_network_for_each_example() {
    let params = Params::new(3);
    let conv = Conv2d::builder(&params.sub("conv"), 1, 2, 3).padding(1).build().unwrap();
    let head = Linear::new(&params.sub("head"), 2 * 2 * 2, 3).unwrap();
    let backend = Backend::open("inline").unwrap();
    let weights = ModelState::new(&backend, &params).unwrap();
    let trainable = params.trainable();
    let gradients = |x: &Tensor, label: &Tensor| -> Result<[Tensor; 4], TensorError> {
        let features = conv.forward(x)?.relu()?.max_pool2d(2)?.flatten(1, -1)?;
        let loss = head.forward(&features)?.cross_entropy(label)?;
        let by: Vec<&dyn TensorOperand> = trainable.iter().map(|of| of as &dyn TensorOperand).collect();
        let gradients = x.graph().gradients(&loss, &by)?;
        Ok(gradients.try_into().unwrap_or_else(|_| panic!("four parameters")))
    };
    let images: Vec<f32> = (0..3 * 16).map(|at| (at as f32 * 1.3).sin()).collect();
    let run = |count: usize, labels: &[i32], first: usize, is_mapped: bool| {
        let graph = Graph::new();
        let x = graph.input("x", [count, 1, 4, 4], DType::F32).unwrap();
        let y = graph.input("y", [count], DType::I32).unwrap();
        let found = match is_mapped {
            true => graph.vmap([(&x, 0), (&y, 0)], |[x, y]| gradients(&x.unsqueeze(0)?, &y.unsqueeze(0)?)),
            false => gradients(&x, &y),
        };
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        let model = graph.compile(&weights, &found.iter().collect::<Vec<_>>()).unwrap();
        let x = HostArray::from_slice(&images[first * 16..][..count * 16], [count, 1, 4, 4]).unwrap();
        model.run(&[("x", &x), ("y", &HostArray::from_slice(labels, [count]).unwrap())])
    };
    for (labels, first) in [(&[2, 0, 1][..], 0), (&[1], 2)] {
        let all = run(labels.len(), labels, first, true).unwrap();
        for (at, label) in labels.iter().enumerate() {
            let one = run(1, &[*label], first + at, false).unwrap();
            for (all, one) in all.iter().zip(&one) {
                let (found, expected) = (all.row(at).unwrap().values(), one.values());
                let is_close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
                assert!(found.iter().zip(&expected).all(is_close), "{found:?} {expected:?}");
            }
        }
    }
    let error = message(run(3, &[2, 0, 3], 0, true));
    assert!(error.contains('y') && error.contains('3'), "{error}");
}

/// Another axis has a size that each run chooses.
#[test]
fn other_axes_may_have_sizes_of_runs() {
    let graph = Graph::new();
    let n = graph.size("n", 8).unwrap();
    let x = graph.input_of("x", &[2.into(), (&n).into()], DType::F32).unwrap();
    let [y] = graph.vmap([(&x, 0)], |[x]| Ok([x.softmax(0)?.mul(x.sum(0)?)?])).unwrap();
    let expected = x.softmax(1).unwrap().mul(x.sum_keepdim(1).unwrap()).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(1)).unwrap();
    let model = graph.compile(&weights, &[&y, &expected]).unwrap_or_else(|error| panic!("{error}"));
    for size in [3, 8] {
        let values: Vec<f32> = (0..2 * size).map(|at| at as f32 * 0.3).collect();
        let results = model.run(&[("x", &HostArray::from_slice(&values, [2, size]).unwrap())]).unwrap();
        assert_eq!(results[0].dims().as_slice(), [2, size]);
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
        assert!(results[0].values().iter().zip(&results[1].values()).all(close), "{results:?}");
    }
    let error = message(graph.vmap([(&x, 1)], |[x]| Ok([x])));
    assert!(error.ends_with("expected a constant size on axis 1"), "{error}");
}

/// The gradient by a parameter that all examples share is the sum of theirs, and a gradient that no example
/// changes is that of each.
#[test]
fn functions_of_custom_vjp_share_inputs() {
    let (_params, w, weights) = model(NumericClass::Fast);
    let run = |is_custom: bool| {
        at_once(&weights, 0, |graph, x| {
            let [y] = graph.vmap([(x, 0)], |[x]| {
                let product = |x: &Tensor, w: &Tensor| x.mul(w)?.sum(1)?.add(x);
                let backward = |[x, w]: [Tensor; 2], _: [Tensor; 1], [g]: [Tensor; 1]| {
                    let by_w = g.unsqueeze(1)?.mul(x.unsqueeze(0)?)?;
                    Ok([g.unsqueeze(1)?.mul(&w)?.sum(0)?.add(&g)?, by_w])
                };
                let flat = |[x]: [Tensor; 1], _: [Tensor; 1], _: [Tensor; 1]| {
                    Ok([x.graph().ones(x.shape(), DType::F32)?])
                };
                let w = graph.apply("v[i,j] := w[i,j]", &[("w", &w)])?;
                let (y, z) = match is_custom {
                    true => {
                        let [y] = graph.custom_vjp([&x, &w], |[x, w]| Ok([product(&x, &w)?]), backward)?;
                        let [z] = graph.custom_vjp([&x], |[x]| Ok([x.sum(..)?]), flat)?;
                        (y, z)
                    }
                    false => (product(&x, &w)?, x.sum(..)?),
                };
                Ok([y.sin()?.sum(..)?.add(z)?])
            })?;
            graph.gradients(&y.sum(..)?, &[x, &w])
        })
    };
    for (found, expected) in run(true).iter().flatten().zip(run(false).iter().flatten()) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}
