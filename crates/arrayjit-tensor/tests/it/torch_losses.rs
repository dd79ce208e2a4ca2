//! Losses and their gradients, compared with torch's.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit_tensor::{
    Backend, CrossEntropyOptions, DType, Graph, HostArray, ModelState, Params, Tensor, TensorError,
    TensorOperand,
};

use crate::torch::{Goldens, labels, pattern};

/// The largest distance from an element of torch's, relative to the largest element.
const TOLERANCE: f64 = 1e-5;

/// Compares a loss of inputs, of which those of floats are differentiated.
fn check(path: &str, inputs: &[HostArray], loss: impl FnOnce(&[Tensor]) -> Result<Tensor, TensorError>) {
    let graph = Graph::new();
    let names: Vec<String> = (0..inputs.len()).map(|at| format!("x{at}")).collect();
    let tensors = inputs.iter().zip(&names);
    let tensors: Vec<Tensor> = tensors
        .map(|(array, name)| graph.input(name, array.dims().iter().copied(), array.dtype()).unwrap())
        .collect();
    let loss = loss(&tensors).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut goldens = Goldens::read("losses.safetensors", path);
    let by: Vec<usize> =
        (0..inputs.len()).filter(|at| goldens.names().contains(&&format!("x{at}.grad"))).collect();
    assert!(!by.is_empty(), "{path}");
    let operands: Vec<&dyn TensorOperand> = by.iter().map(|&at| &tensors[at] as &dyn TensorOperand).collect();
    let gradients = graph.gradients(&loss, &operands).unwrap();
    let results: Vec<&Tensor> = [&loss].into_iter().chain(&gradients).collect();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let model = graph.compile(&weights, &results).unwrap();
    let data: Vec<(&str, &HostArray)> = names.iter().map(String::as_str).zip(inputs).collect();
    let found = model.run(&data).unwrap();
    goldens.compare(path, "y", &found[0], TOLERANCE);
    for (at, found) in by.iter().zip(&found[1..]) {
        goldens.compare(path, &format!("x{at}.grad"), found, TOLERANCE);
    }
    assert!(goldens.names().is_empty(), "{path}: not compared: {:?}", goldens.names());
}

/// [`check`] of a loss of a prediction of 4 by 6 elements and a target.
fn check_target(
    path: &str,
    target: &HostArray,
    loss: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor, TensorError>,
) {
    let prediction = pattern(&format!("{path}/x0"), &[4, 6], 2.0, 0.0);
    check(path, &[prediction, target.try_clone().unwrap()], |x| loss(&x[0], &x[1]));
}

/// Integers as floats, by `map`.
fn floats_of(integers: &HostArray, map: fn(f32) -> f32) -> HostArray {
    let floats: Vec<f32> = integers.values().iter().map(|&integer| map(integer as f32)).collect();
    HostArray::from_slice(&floats, integers.dims().iter().copied()).unwrap()
}

/// -1 or 1.
fn signs(name: &str, shape: &[usize]) -> HostArray {
    floats_of(&labels(name, shape, 2), |label| label * 2.0 - 1.0)
}

#[test]
fn losses_of_numbers() {
    let floats = |path: &str| pattern(&format!("{path}/target"), &[4, 6], 2.0, 0.0);
    let parts = |path: &str| pattern(&format!("{path}/target"), &[4, 6], 0.5, 0.5);
    check_target("huber_loss", &floats("huber_loss"), |x, z| x.huber_loss(z, 0.7));
    check_target("smooth_l1_loss", &floats("smooth_l1_loss"), |x, z| x.smooth_l1_loss(z, 0.7));
    check_target("kl_div", &parts("kl_div"), Tensor::kl_div);
    let probabilities = pattern("binary_cross_entropy/x0", &[4, 6], 0.49, 0.5);
    let inputs = [probabilities, parts("binary_cross_entropy")];
    check("binary_cross_entropy", &inputs, |x| x[0].binary_cross_entropy(&x[1]));
    let target = signs("hinge_embedding_loss/target", &[4, 6]);
    check_target("hinge_embedding_loss", &target, |x, z| x.hinge_embedding_loss(z, 0.6));
    let counts = floats_of(&labels("poisson_nll_loss/target", &[4, 6], 5), |label| label);
    check_target("poisson_nll_loss", &counts, Tensor::poisson_nll_loss);
    let [a, b] =
        ["x0", "x1"].map(|name| pattern(&format!("cosine_embedding_loss/{name}"), &[5, 6], 1.0, 0.0));
    let target = signs("cosine_embedding_loss/target", &[5]);
    check("cosine_embedding_loss", &[a, b, target], |x| x[0].cosine_embedding_loss(&x[1], &x[2], 0.1));
}

/// torch 2.15: `binary_cross_entropy(x, z)` of ten elements and its gradient by x. By the targets, torch's is
/// infinite where ours is that of the limited logarithms.
#[test]
fn binary_cross_entropy_at_its_limits() {
    let graph = Graph::new();
    let [x, z] = ["x", "z"].map(|name| graph.input(name, [10], DType::F32).unwrap());
    let loss = x.binary_cross_entropy(&z).unwrap();
    let gradients = graph.gradients(&loss, &[&x, &z]).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(0)).unwrap();
    let model = graph.compile(&weights, &[&loss, &gradients[0], &gradients[1]]).unwrap();
    let [a, b] =
        [[0.0f32, 0., 0., 1., 1., 1., 1e-13, 1e-13, 1e-6, 0.5], [0., 1., 0.5, 0., 1., 0.5, 0., 1., 1., 0.25]]
            .map(|values| HostArray::from_slice(&values, [10]).unwrap());
    let found = model.run(&[("x", &a), ("z", &b)]).unwrap();
    let by_x = [0.0, -1e11, -5e10, 1e11, 0.0, 5e10, 0.01, -1e11, -1e5, 0.1];
    let by_z = [10.0, 10.0, 10.0, -10.0, -10.0, -10.0, 2.9933608, 2.9933608, 1.381551, 0.0];
    for (found, expected) in found.iter().zip([&[34.444225][..], &by_x, &by_z]) {
        for (found, expected) in found.values().iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{found}, expected {expected}");
        }
    }
}

#[test]
fn losses_of_classes() {
    let classes = |path: &str| labels(&format!("{path}/target"), &[4], 6);
    let weighted = |x: &Tensor, options: CrossEntropyOptions| -> Result<CrossEntropyOptions, TensorError> {
        Ok(options.weight(&x.graph().constant(pattern("weight", &[6], 0.5, 1.0))?))
    };
    let plain = CrossEntropyOptions::new;
    check_target("nll_loss", &classes("nll_loss"), |x, z| x.nll_loss(z, &weighted(x, plain())?));
    check_target("cross_entropy", &classes("cross_entropy"), Tensor::cross_entropy);
    check_target("cross_entropy_smoothed", &classes("cross_entropy_smoothed"), |x, z| {
        x.cross_entropy_with(z, &plain().label_smoothing(0.2))
    });
    check_target("cross_entropy_weighted", &classes("cross_entropy_weighted"), |x, z| {
        x.cross_entropy_with(z, &weighted(x, plain())?)
    });
    let logits = pattern("cross_entropy_all/x0", &[4, 6, 3], 2.0, 0.0);
    let target = labels("cross_entropy_all/target", &[4, 3], 6);
    check("cross_entropy_all", &[logits, target], |x| {
        let options = plain().class_axis(1).label_smoothing(0.2).ignore_index(2);
        x[0].cross_entropy_with(&x[1], &weighted(&x[0], options)?)
    });
}

#[test]
fn bad_arguments_of_losses() {
    let graph = Graph::new();
    let x = graph.input("x", [4, 6], DType::F32).unwrap();
    let labels = graph.input("labels", [4], DType::I32).unwrap();
    let message = |result: Result<Tensor, TensorError>| result.unwrap_err().to_string();
    let with = |options: CrossEntropyOptions| message(x.cross_entropy_with(&labels, &options));
    let found = with(CrossEntropyOptions::new().label_smoothing(1.5));
    assert!(found.ends_with("label_smoothing is 1.5, expected from 0 to 1"), "{found}");
    let found = with(CrossEntropyOptions::new().class_axis(0));
    assert!(found.ends_with("expected [6], the shape of the logits without axis 0"), "{found}");
    let found = with(CrossEntropyOptions::new().weight(&graph.input("w", [5], DType::F32).unwrap()));
    assert!(found.ends_with("expected [6], a weight for each class"), "{found}");
    let found = message(x.huber_loss(&x, 0.0));
    assert!(found.ends_with("delta is 0, expected a finite number above 0"), "{found}");
    let found = message(x.kl_div(&labels));
    assert!(found.ends_with("expected [4, 6], the shape of the prediction"), "{found}");
}
