//! Functions with gradients of their own: values, further derivatives, overwritten parameters, bad input.

use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, Init, ModelState, Params, Tensor, TensorError, TensorOperand,
    optim::{OptimizerState, Sgd},
};

use crate::sessions::message;

/// The values of tensors of a graph with the input `x`.
fn values(graph: &Graph, params: &Params, x: &[f64], tensors: &[&Tensor]) -> Vec<Vec<f64>> {
    let weights = ModelState::new(&Backend::open("multicore").unwrap(), params).unwrap();
    let model = graph.compile(&weights, tensors).unwrap_or_else(|error| panic!("{error}"));
    let x = HostArray::from_slice(x, [x.len()]).unwrap();
    model.run(&[("x", &x)]).unwrap().iter().map(HostArray::values).collect()
}

fn input(size: usize) -> (Graph, Tensor) {
    let graph = Graph::new();
    let x = graph.input("x", [size], DType::F64).unwrap();
    (graph, x)
}

/// `log(1 + exp(x))` with the derivative that the user gives, or with that of the statements.
fn softplus(x: &Tensor, is_custom: bool) -> Result<Tensor, TensorError> {
    let forward = |x: &Tensor| x.exp()?.add(1.0)?.log();
    if !is_custom {
        return forward(x);
    }
    let [y] = x.graph().custom_vjp(
        [x],
        |[x]| Ok([forward(&x)?]),
        |[x], [y], [g]| Ok([(g * x.sub(&y)?.exp()?)?]), // the sigmoid is exp(x - softplus(x))
    )?;
    Ok(y)
}

const X: [f64; 4] = [0.5, -1.5, 2.0, 0.1];

#[test]
fn a_right_gradient_has_the_derivatives_of_the_statements() {
    let run = |is_custom: bool| {
        let (graph, x) = input(4);
        let y = softplus(&(&x * 2.0).unwrap(), is_custom).unwrap();
        let loss = y.mul(&x).unwrap().sum(..).unwrap();
        let direction = graph.constant(HostArray::from_slice(&[1.0, -0.5, 0.25, 2.0], [4]).unwrap()).unwrap();
        let gradient = graph.gradients(&loss, &[&x]).unwrap().remove(0);
        let hessian = graph.hvp(&loss, &[(&x, &direction)]).unwrap().remove(0);
        let change = graph.jvp(&y, &[(&x, &direction)]).unwrap();
        let product = graph.vjp(&y, &direction, &[&x]).unwrap().remove(0);
        values(&graph, &Params::new(1), &X, &[&y, &gradient, &hessian, &change, &product])
    };
    for (found, expected) in run(true).iter().flatten().zip(run(false).iter().flatten()) {
        assert!((found - expected).abs() < 1e-12, "{found}, expected {expected}");
    }
}

#[test]
fn gradients_are_those_that_the_function_gives() {
    let (graph, x) = input(4);
    let identity = |[x]: [Tensor; 1]| Ok([x]);
    let [reversed] = graph.custom_vjp([&x], identity, |_, _, [g]| Ok([(g * -1.0)?])).unwrap();
    let [clipped] = graph.custom_vjp([&x], identity, |_, _, [g]| Ok([g.clamp(-1.0, 1.0)?])).unwrap();
    let loss = (reversed.square().unwrap() + clipped.square().unwrap()).unwrap().sum(..).unwrap();
    let found = graph.gradients(&loss, &[&x, &reversed]).unwrap();
    let values = values(&graph, &Params::new(1), &X, &[&reversed, &found[0], &found[1]]);
    let clip = |x: f64| (2.0 * x).clamp(-1.0, 1.0);
    assert_eq!(values[0], X);
    assert_eq!(values[1], X.map(|x| clip(x) - 2.0 * x));
    assert_eq!(values[2], X.map(|x| 2.0 * x)); // by the result itself

    let error = message(graph.jvp(&clipped, &[(&x, &x)]));
    assert!(error.contains("not linear in the cotangents"), "{error}");
}

/// Two inputs, one of them a parameter, and two results, of which the loss uses one; the other inputs of the
/// functions are constants.
#[test]
fn several_inputs_and_results() {
    let params = Params::new(1).with_dtype(DType::F64);
    let w = params.parameter("w", [4], Init::Constant(3.0)).unwrap();
    let (graph, x) = input(4);
    let [product, _] = graph
        .custom_vjp(
            [&x, &w],
            |[a, b]| Ok([a.mul(&b)?.mul(&x)?, a.add(&b)?]),
            |[a, b], [product, sum], [g, h]| {
                Ok([((&g * &b)? + &h)?, g.mul(product.sub(sum)?)?.mul(a.add(h)?)?])
            },
        )
        .unwrap();
    let loss = product.sum(..).unwrap();
    let gradients = graph.gradients(&loss, &[&x, &w]).unwrap();
    let found = values(&graph, &params, &X, &[&gradients[0], &gradients[1]]);
    assert_eq!(found[0], [3.0; 4]);
    let close = |(a, b): (&f64, f64)| (a - b).abs() < 1e-12;
    assert!(found[1].iter().zip(X.map(|x| (3.0 * x * x - (x + 3.0)) * x)).all(close), "{found:?}");
}

/// Narrow floats have gradients in f32, which `backward` gets.
#[test]
fn gradients_of_narrow_floats_are_wide() {
    let graph = Graph::new();
    let x = graph.input("x", [2], DType::Bf16).unwrap();
    let backward = |_: [Tensor; 1], _: [Tensor; 1], [g]: [Tensor; 1]| {
        assert_eq!(g.dtype(), DType::F32);
        Ok([(g * 1.001)?])
    };
    let [y] = graph.custom_vjp([&x], |[x]| Ok([x]), backward).unwrap();
    let gradient = graph.gradients(&y.sum(..).unwrap(), &[&x]).unwrap().remove(0);
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let model = graph.compile(&weights, &[&gradient]).unwrap();
    let x = HostArray::zeros(DType::Bf16, [2]).unwrap();
    assert_eq!(model.run(&[("x", &x)]).unwrap()[0].values(), [f64::from(1.001f32); 2]);
}

/// The function reads a parameter that an update changes before the gradient is computed.
#[test]
fn gradients_are_by_the_values_before_an_update() {
    let params = Params::new(1);
    let w = params.parameter("w", [], Init::Constant(3.0)).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let (graph, state) = (Graph::for_training(), OptimizerState::new(&weights));
    let [y] = graph
        .custom_vjp([&w], |[w]| Ok([w.square()?]), |[w], _, [g]| Ok([(g * w)?])) // half the derivative
        .unwrap();
    let losses = [(&y * 1.0).unwrap(), (&y * 2.0).unwrap()];
    losses.iter().for_each(|loss| Sgd::new(1.0).update(loss, &state).unwrap());
    graph.compile(&weights, &[]).unwrap().start(&[], &[("step", 0)]).unwrap();
    assert_eq!(weights.get(&w).unwrap().values(), [3.0 - 3.0 - 6.0]);
}

#[test]
fn bad_functions_are_errors() {
    let (graph, x) = input(4);
    let same = |[x]: [Tensor; 1]| Ok([x]);
    let number = graph.arange(4).unwrap();
    let call = |inputs: [&dyn TensorOperand; 1], backward: &dyn Fn(Tensor) -> Result<Tensor, TensorError>| {
        message(graph.custom_vjp(inputs, same, |_, _, [g]| Ok([backward(g)?])))
    };
    let twice = |g: Tensor| {
        let ([g], []) = g.graph().scan(2).run([&g], |_, [g]| Ok::<_, TensorError>(([(g * 2.0)?], [])))?;
        Ok(g)
    };
    let checks: [(String, &str); 5] = [
        (call([&number], &|g| Ok(g)), "an input is arange_1 i32[4], expected a tensor of floats"),
        (call([&1.0], &|g| Ok(g)), "inputs is 1, expected a tensor or a parameter"),
        (call([&x], &|g| g.sum(..)), "has shape [], expected [4], as the input x has"),
        (call([&x], &|g| g.gt(0.0)), "expected a tensor of floats"),
        (call([&x], &twice), "backward is a function with a scan, expected one without"),
    ];
    for (error, expected) in checks {
        assert!(error.contains(expected), "{error}");
    }
    let mut kept = None;
    let keep = |_: [Tensor; 1], _: [Tensor; 1], [g]: [Tensor; 1]| {
        kept = Some([(&g * 1.0)?, g.clone()]);
        Ok([g])
    };
    graph.custom_vjp([&x], same, keep).unwrap();
    for kept in kept.unwrap() {
        let error = message(kept.exp());
        assert!(error.contains("belongs to the body of a scan or function"), "{error}");
    }
}
