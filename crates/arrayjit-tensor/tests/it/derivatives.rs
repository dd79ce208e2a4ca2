//! Products of Jacobians and Hessians with vectors.

use arrayjit_tensor::{Backend, DType, Graph, HostArray, ModelState, Params, Tensor};

/// A graph with two inputs and a function of both, which has loops, extremes and a scan of 3 steps with
/// checkpoints.
fn two_inputs(every: usize) -> (Graph, [Tensor; 2], Tensor) {
    let graph = Graph::new();
    let x = graph.input("x", [3, 4], DType::F64).unwrap();
    let w = graph.input("w", [4], DType::F64).unwrap();
    let sums = (x.matmul(&w).unwrap() + x.max(1).unwrap()).unwrap().tanh().unwrap();
    let start = graph.zeros(&[4], DType::F64).unwrap();
    let ([last], []) = graph
        .scan(3)
        .checkpoint(every)
        .run([&start], |step, [sum]| {
            let row = step.slice(&x, 0)?;
            Ok(([(sum * 0.5)?.add(&row.mul(&w)?.sin()?)?], []))
        })
        .unwrap();
    let y = Tensor::concat(&[&sums, &last], 0).unwrap();
    (graph, [x, w], y)
}

fn values(seed: f64, dims: &[usize]) -> HostArray {
    let values: Vec<f64> = (0..dims.iter().product()).map(|at| (at as f64 * 1.7 + seed).sin()).collect();
    HostArray::from_slice(&values, dims.iter().copied()).unwrap()
}

/// Products with Jacobians and Hessians are those of differences along the direction.
#[test]
fn products_of_derivatives_are_differences() {
    check_products(3);
}

/// A second derivative has copies of the steps between checkpoints; the last one may have no effect.
#[test]
fn products_of_derivatives_go_through_checkpoints() {
    check_products(1);
}

fn check_products(every: usize) {
    let state = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let (graph, [x, w], y) = two_inputs(every);
    let [dx, dw] =
        [("dx", vec![3, 4]), ("dw", vec![4])].map(|(name, dims)| graph.input(name, dims, DType::F64));
    let (dx, dw) = (dx.unwrap(), dw.unwrap());
    let vector = graph.input("vector", [7], DType::F64).unwrap();
    let loss = y.square().unwrap().sum(..).unwrap();
    let change = graph.jvp(&y, &[(&x, &dx), (&w, &dw)]).unwrap();
    let rows = graph.vjp(&y, &vector, &[&x, &w]).unwrap();
    let products = graph.hvp(&loss, &[(&x, &dx), (&w, &dw)]).unwrap();
    let gradients = graph.gradients(&loss, &[&x, &w]).unwrap();
    let results = [&y, &change, &rows[0], &rows[1], &products[0], &products[1], &gradients[0], &gradients[1]];
    let model = graph.compile(&state, &results).unwrap();

    let (dx, dw, vector) = (values(0.3, &[3, 4]), values(0.9, &[4]), values(2.0, &[7]));
    let at = |step: f64| {
        let moved = |start: HostArray, direction: &HostArray| {
            let all: Vec<f64> =
                start.values().iter().zip(direction.values()).map(|(a, d)| a + step * d).collect();
            HostArray::from_slice(&all, start.dims().iter().copied()).unwrap()
        };
        let (x, w) = (moved(values(1.0, &[3, 4]), &dx), moved(values(5.0, &[4]), &dw));
        let inputs = [("x", &x), ("w", &w), ("dx", &dx), ("dw", &dw), ("vector", &vector)];
        model.run(&inputs).unwrap().iter().map(HostArray::values).collect::<Vec<_>>()
    };
    let step = 1e-5;
    let (less, here, more) = (at(-step), at(0.0), at(step));
    for (derivative, of) in [(1, 0), (4, 6), (5, 7)] {
        let differences = more[of].iter().zip(&less[of]).map(|(more, less)| (more - less) / (2.0 * step));
        for (found, expected) in here[derivative].iter().zip(differences) {
            assert!((found - expected).abs() < 1e-7, "{derivative}: {found} is not {expected}");
        }
    }
    // Both products with the Jacobian agree: vᵀ · (J · d) = (vᵀ · J) · d.
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (one, other) =
        (dot(&vector.values(), &here[1]), dot(&here[2], &dx.values()) + dot(&here[3], &dw.values()));
    assert!((one - other).abs() < 1e-12, "{one} is not {other}");
}

/// A direction may follow from the gradient, as in the power iteration for the largest curvature.
#[test]
fn directions_may_be_computed() {
    let state = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", [2], DType::F32).unwrap();
    let loss = graph.apply("y := x[0] * x[0] * x[0] + x[1] * x[1]", &[("x", &x)]).unwrap();
    let gradient = graph.gradients(&loss, &[&x]).unwrap().remove(0);
    let product = graph.hvp(&loss, &[(&x, &gradient)]).unwrap().remove(0);
    let change = graph.jvp(&gradient, &[(&x, &gradient)]).unwrap();
    let model = graph.compile(&state, &[&product, &change]).unwrap();
    let results = model.run(&[("x", &HostArray::from_slice(&[1f32, 3.0], [2]).unwrap())]).unwrap();
    assert_eq!((results[0].values(), results[1].values()), (vec![18.0, 12.0], vec![18.0, 12.0]));
}

/// The square of a logarithm has adjoint 0 at 1, and second derivative 2.
#[test]
fn products_with_second_derivatives_where_an_adjoint_is_0() {
    let state = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", [2], DType::F64).unwrap();
    let direction = graph.input("direction", [2], DType::F64).unwrap();
    let loss = x.log().unwrap().square().unwrap().sum(..).unwrap();
    let gradient = graph.gradients(&loss, &[&x]).unwrap().remove(0);
    let product = graph.hvp(&loss, &[(&x, &direction)]).unwrap().remove(0);
    let change = graph.jvp(&gradient, &[(&x, &direction)]).unwrap();
    let model = graph.compile(&state, &[&product, &change]).unwrap();
    let array = |values: [f64; 2]| HostArray::from_slice(&values, [2]).unwrap();
    let results = model.run(&[("x", &array([1.0, 1.0])), ("direction", &array([0.0, 3.0]))]).unwrap();
    assert_eq!((results[0].values(), results[1].values()), (vec![0.0, 6.0], vec![0.0, 6.0]));
}

#[test]
fn wrong_directions_are_named() {
    let graph = Graph::new();
    let x = graph.input("x", [2], DType::F32).unwrap();
    let loss = x.square().unwrap().sum(..).unwrap();
    let error = graph.hvp(&loss, &[(&x, &loss)]).unwrap_err().to_string();
    assert!(error.contains("expected floats of shape [2], as its tensor has"), "{error}");
    let error = graph.jvp(&loss, &[]).unwrap_err().to_string();
    assert!(error.ends_with("directions is none, expected at least one"), "{error}");
    let error = graph.vjp(&x.square().unwrap(), &loss, &[&x]).unwrap_err().to_string();
    assert!(error.starts_with("vjp at"), "{error}");
}

/// The product with the transposed Jacobian, from which `jvp` follows, is not computed.
#[test]
fn a_product_with_a_jacobian_takes_one_pass() {
    let state = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let graph = Graph::new();
    let x = graph.input("x", [20, 30], DType::F32).unwrap();
    let direction = graph.input("direction", [20, 30], DType::F32).unwrap();
    let w = graph.input("w", [30, 40], DType::F32).unwrap();
    let change = graph.jvp(&x.matmul(&w).unwrap().tanh().unwrap(), &[(&x, &direction)]).unwrap();
    let change = graph.compile(&state, &[&change]).unwrap();
    let nodes: Vec<String> = change.compiled().nodes().iter().map(|node| node.name()).collect();
    let unneeded = ["x.grad", "sum_1", "jvp_1"];
    assert!(!nodes.iter().any(|name| unneeded.contains(&name.as_str())), "{nodes:?}");
}

#[test]
fn a_product_with_the_jacobian_of_an_input_is_the_direction() {
    let graph = Graph::new();
    let [x, dx] = ["x", "dx"].map(|name| graph.input(name, [1, 2], DType::F64).unwrap());
    let input = graph.jvp(&x, &[(&x as _, &dx)]).unwrap();
    let row = graph.vjp(&x, &dx, &[&x]).unwrap().remove(0);
    let state = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let model = graph.compile(&state, &[&input, &row]).unwrap();
    let [x, dx] = [[2.0, 1.0], [0.5, 0.25]].map(|values| HostArray::from_slice(&values, [1, 2]).unwrap());
    let found = model.run(&[("x", &x), ("dx", &dx)]).unwrap();
    let found: Vec<Vec<f64>> = found.iter().map(HostArray::values).collect();
    assert_eq!(found, [[0.5, 0.25], [0.5, 0.25]]);
}
