//! Training of the digits example on a GPU reaches the accuracy of the CPU, and every kernel runs on the GPU.

use std::path::Path;

use ::digits::{data, state::Network, streams::SharedTraining, train::Training};
use arrayjit::{Backend, Settings};

use crate::backend;

/// The fraction of test images that are classified correctly after training.
fn accuracy(backend: &Backend, epochs: u32) -> f64 {
    let mut rng = fastrand::Rng::with_seed(5);
    let (train, test) = data::split(&data::load(Path::new(data::FILE)).unwrap(), &mut rng);
    let network = Network::new(train.count(), test.count()).unwrap();
    let training = Training::prepare(backend, &network, &train, &test, &mut rng).unwrap();
    let mut order: Vec<i64> = (0..training.batches()).collect();
    let mut losses = Vec::new();
    for _ in 0..epochs {
        rng.shuffle(&mut order);
        losses.push(training.epoch(&order).unwrap());
    }
    assert!(losses.last() < losses.first(), "the loss falls: {losses:?}");
    training.correct().unwrap() / test.count() as f64
}

#[test]
fn the_digits_train_as_on_the_cpu() {
    let Some(gpu) = backend("the_digits_train_as_on_the_cpu") else { return };
    let cpu = Backend::open_with("inline", &Settings::default()).unwrap();
    let (on_gpu, on_cpu) = (accuracy(&gpu, 20), accuracy(&cpu, 20));
    // A different order of summation changes the weights slightly, and with them the class of one or two of
    // 359 images.
    assert!(on_gpu > 0.95 && (on_gpu - on_cpu).abs() < 0.012, "{on_gpu} on the GPU, {on_cpu} on the CPU");
    assert_eq!(gpu.fallback_count(), Default::default(), "nothing of it falls back");
}

/// The streams of a GPU share one queue; merges between them are ordinary kernels and copies.
#[test]
fn the_digits_train_on_two_streams() {
    let Some(gpu) = backend("the_digits_train_on_two_streams") else { return };
    let losses = |streams: usize| {
        let mut rng = fastrand::Rng::with_seed(5);
        let (train, test) = data::split(&data::load(Path::new(data::FILE)).unwrap(), &mut rng);
        let network = Network::new(train.count(), test.count()).unwrap();
        let training = SharedTraining::prepare(&gpu, &network, &train, &test, &mut rng, streams).unwrap();
        let order: Vec<i64> = (0..training.batches()).collect();
        let losses = [training.epoch(&order).unwrap(), training.epoch(&order).unwrap()];
        (losses, training.correct().unwrap() / test.count() as f64)
    };
    let ((two, accuracy), (one, _)) = (losses(2), losses(1));
    assert!(two[1] < two[0] && accuracy > 0.85, "{two:?}, {accuracy}");
    assert!((two[0] - one[0]).abs() < 1e-3 * one[0], "{two:?} on two streams, {one:?} on one");
    assert_eq!(gpu.fallback_count(), Default::default(), "nothing of it falls back");
}
