//! The digits network trains on every backend: `multicore` and `inline` give the same bits on any number of
//! threads, the interpreter in the same numeric class differs by rounding, and several streams differ within
//! a bound.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod on_streams;
mod reference;

use std::path::Path;

use arrayjit::{Backend, Context, HostArray, Settings, TensorNode};
use digits::{
    data::{self, Digits},
    network,
    state::{self, Network},
};
use reference::Matrix;

fn images(rng: &mut fastrand::Rng) -> (Digits, Digits) {
    let (train, test) = data::split(&data::load(Path::new(data::FILE)).unwrap(), rng);
    assert_eq!((train.count(), test.count()), (1438, 359));
    (train, test)
}

/// Trains for a few steps and returns every weight and bias, then the loss.
fn short_training(backend: &str, settings: Settings, steps: i64) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(7);
    let (train, test) = images(&mut rng);
    let network = Network::new(train.count(), test.count()).unwrap();
    let backend = Backend::open_with(backend, &settings).unwrap();
    let step = backend.compile(network::TRAIN, network.nodes()).unwrap();
    assert_eq!(
        (step.symbols()[0].name.as_str(), step.symbols()[0].range),
        ("step", 44),
        "whole batches only"
    );

    let mut context: Context = backend.context().unwrap();
    for (node, values) in network.initial_state(&mut rng).unwrap() {
        context = context.init_from_host(&node, &values).unwrap();
    }
    let images = HostArray::from_slice(&train.images, [train.count(), network::PIXELS]).unwrap();
    let labels = HostArray::from_slice(&train.labels, [train.count()]).unwrap();
    context = context.init_from_host(network.node("x"), &images).unwrap();
    context = context.init_from_host(network.node("label"), &labels).unwrap();
    let step = step.link(&context).unwrap();
    for batch in 0..steps {
        step.run(&[batch]).unwrap();
    }
    let read = |name| step.context().to_host(network.node(name)).unwrap().values();
    ["w1", "b1", "w2", "b2", "loss"].into_iter().flat_map(read).collect()
}

fn with_threads(threads: usize) -> Settings {
    let mut settings = Settings::default();
    settings.threads = threads;
    settings
}

#[test]
fn backends_and_thread_counts_give_the_same_bits() {
    let reference = short_training("inline", with_threads(1), 10);
    assert!(reference.iter().all(|v| v.is_finite()));
    for threads in [1, 2, 5] {
        let found = short_training("multicore", with_threads(threads), 10);
        assert_eq!(found, reference, "multicore with {threads} threads");
    }
}

/// After two steps the interpreter's weights differ only by rounding: one or two units in the last place of
/// the largest weight per step.
#[test]
fn the_interpreter_agrees_within_rounding() {
    let compiled = short_training("inline", Settings::default(), 2);
    let interpreted = short_training("interpreter", Settings::default(), 2);
    for (i, (c, e)) in compiled.iter().zip(&interpreted).enumerate() {
        assert!((c - e).abs() <= 1e-5, "value {i}: compiled {c}, interpreted {e}");
    }
}

/// The untrained network classifies about a tenth of the images correctly; the count agrees with scores that
/// are computed by hand.
#[test]
fn evaluation_counts_what_the_scores_say() {
    let mut rng = fastrand::Rng::with_seed(7);
    let (train_set, test_set) = images(&mut rng);
    let network = Network::new(train_set.count(), test_set.count()).unwrap();
    let initial = network.initial_state(&mut rng).unwrap();
    let backend = Backend::open_with("inline", &Settings::default()).unwrap();
    let mut context = backend.context().unwrap();
    for (node, values) in &initial {
        context = context.init_from_host(node, values).unwrap();
    }
    let pixels = HostArray::from_slice(&test_set.images, [test_set.count(), network::PIXELS]).unwrap();
    let labels = HostArray::from_slice(&test_set.labels, [test_set.count()]).unwrap();
    context = context.init_from_host(network.node("tx"), &pixels).unwrap();
    context = context.init_from_host(network.node("tlabel"), &labels).unwrap();
    let evaluation = backend.compile(state::EVALUATE, network.nodes()).unwrap();
    let evaluate = evaluation.link(&context).unwrap();
    evaluate.run(&[]).unwrap();
    let correct = evaluation.node("correct").unwrap();
    let correct = evaluate.context().to_host(correct).unwrap().item().unwrap();

    let images = Matrix::new(test_set.count(), network::PIXELS, pixels.values());
    let by_hand = reference::ReferenceNetwork::new(parameters(&initial)).best_classes(&images);
    let expected =
        by_hand.iter().zip(&test_set.labels).filter(|(found, label)| **found == usize::from(**label));
    assert_eq!(correct, expected.count() as f64);
}

#[test]
fn the_loss_falls() {
    let early = short_training("inline", Settings::default(), 4);
    let late = short_training("inline", Settings::default(), 44);
    // The loss accumulates over the steps of an epoch, so the mean loss of a step is compared.
    assert!(late.last().unwrap() / 44.0 < early.last().unwrap() / 4.0);
}

/// The initial weights and biases as matrices.
fn parameters(initial: &[(TensorNode, HostArray)]) -> [Matrix; 4] {
    ["w1", "b1", "w2", "b2"].map(|name| {
        let (node, values) = initial.iter().find(|(node, _)| node.name() == name).unwrap();
        let dims = node.dims().unwrap();
        let (rows, columns) = if dims.len() == 2 { (dims[0], dims[1]) } else { (1, dims[0]) };
        Matrix::new(rows, columns, values.values())
    })
}

/// Training by the hand-written network in `f64` differs after five steps only by rounding in single
/// precision.
#[test]
fn training_follows_the_mathematics() {
    const STEPS: usize = 5;
    let mut rng = fastrand::Rng::with_seed(7);
    let (train_set, test_set) = images(&mut rng);
    let network = Network::new(train_set.count(), test_set.count()).unwrap();
    let initial = network.initial_state(&mut rng).unwrap();
    let mut by_hand = reference::ReferenceNetwork::new(parameters(&initial));
    let mut loss = 0.0;
    for batch in 0..STEPS {
        let rows = batch * network::BATCH..(batch + 1) * network::BATCH;
        let pixels = &train_set.images[rows.start * network::PIXELS..rows.end * network::PIXELS];
        let pixels = pixels.iter().map(|&v| f64::from(v)).collect();
        loss += by_hand.step(&Matrix::new(network::BATCH, network::PIXELS, pixels), &train_set.labels[rows]);
    }
    let expected = by_hand.parameters.into_iter().flat_map(|p| p.values).chain([loss]);
    let found = short_training("inline", Settings::default(), STEPS as i64);
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= 1e-5, "value {i}: found {f}, by hand {e}");
    }
}
