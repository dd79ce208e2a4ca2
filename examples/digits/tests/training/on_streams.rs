//! Training on several streams differs from one stream only by rounding, gives the same bits in every run,
//! and is as accurate.
//!
//! # The bound
//!
//! A step on `N` streams and one on a single stream, from the same state, compute the same terms of each
//! element of a gradient: the rows of a mini-batch are computed independently of each other, by the same
//! operations. Only the order of the sum over the 32 rows differs. In any order, a term goes through at most
//! 33 roundings (rows past the mini-batch's end add 0), so with `u = 2⁻²⁴` and `S` the sum of the terms'
//! magnitudes either sum is within `33 u S` of the exact one, and the two sums differ by at most `66 u S`,
//! except for terms in `u²`.
//!
//! The update `v := 0.9 v + g`, `w -= 0.1 v` rounds at most four times: twice a number of magnitude at most
//! `|v| + S`, and twice a number of magnitude at most `|w| + 0.1 (|v| + S)`. The bounds for both computations
//! together are:
//!
//! ```text
//! |Δv| ≤ u (66 S + 4 (|v| + S))
//! |Δw| ≤ 0.1 |Δv| + 4 u (|w| + 0.1 (|v| + S)) ≤ u (8 S + |v| + 4 |w|)
//! ```
//!
//! No such bound holds from different states: differences grow over many steps, as in any training.

use std::iter::zip;

use arrayjit::{Backend, Context, HostArray, Routine, Settings};

use digits::{
    data::Digits,
    network::{self, BATCH},
    state::Network,
    streams::SharedTraining,
};

use crate::{
    images,
    reference::{self, Matrix},
    with_threads,
};

/// Parameters with their momenta, in the order of the hand-written network.
const STATE: [(&str, &str); 4] = [("w1", "v1"), ("b1", "u1"), ("w2", "v2"), ("b2", "u2")];

/// One training step on a single stream, from any state.
struct OneStream {
    network: Network,
    step: Routine,
}

impl OneStream {
    fn prepare(train: &Digits, test: &Digits) -> OneStream {
        let backend = Backend::open_with("inline", &Settings::default()).unwrap();
        let network = Network::new(train.count(), test.count()).unwrap();
        let rng = &mut fastrand::Rng::with_seed(0);
        let context = network.upload(&backend, train, test, rng).unwrap();
        let step = backend.compile(network::TRAIN, network.nodes()).unwrap().link(&context).unwrap();
        OneStream { network, step }
    }

    fn context(&self) -> &Context {
        self.step.context()
    }

    fn set(&self, name: &str, values: &HostArray) {
        let _ = self.context().from_host(self.network.node(name), values).unwrap();
    }

    fn read(&self, name: &str) -> Vec<f64> {
        self.context().to_host(self.network.node(name)).unwrap().values()
    }
}

fn matrix(array: &HostArray) -> Matrix {
    let dims = array.dims();
    let (rows, columns) = if dims.len() == 2 { (dims[0], dims[1]) } else { (1, dims[0]) };
    Matrix::new(rows, columns, array.values())
}

/// The magnitudes `S` of each parameter's gradient for one mini-batch, from the given parameters.
fn magnitudes(parameters: [Matrix; 4], train: &Digits, batch: usize) -> [Matrix; 4] {
    let range = batch * BATCH..(batch + 1) * BATCH;
    let pixels = &train.images[range.start * network::PIXELS..range.end * network::PIXELS];
    let pixels = Matrix::new(BATCH, network::PIXELS, pixels.iter().map(|&v| f64::from(v)).collect());
    reference::ReferenceNetwork::new(parameters).gradient_magnitudes(&pixels, &train.labels[range])
}

/// Three and five streams have unequal shares of the 32 rows.
#[test]
fn a_step_on_streams_is_that_of_one_stream_within_its_bound() {
    const U: f64 = 1.0 / (1 << 24) as f64;
    let mut rng = fastrand::Rng::with_seed(7);
    let (train, test) = images(&mut rng);
    let one = OneStream::prepare(&train, &test);
    for streams in 1..=5 {
        let network = Network::new(train.count(), test.count()).unwrap();
        let backend = Backend::open_with("multicore", &Settings::default()).unwrap();
        let rng = &mut fastrand::Rng::with_seed(11);
        let several = SharedTraining::prepare(&backend, &network, &train, &test, rng, streams).unwrap();
        assert_eq!(several.batches(), 44);
        for batch in [0i64, 17, 43, 5] {
            let before = STATE.map(|(p, v)| [p, v].map(|name| several.read(name).unwrap()));
            for ((p, v), [parameter, momentum]) in zip(STATE, &before) {
                one.set(p, parameter);
                one.set(v, momentum);
            }
            one.set("loss", &HostArray::from_slice(&[0f32], []).unwrap());
            one.step.run(&[batch]).unwrap();
            let loss = several.epoch(&[batch]).unwrap();
            let expected = one.read("loss")[0];
            assert!((loss - expected).abs() <= 1e-5 * expected, "loss {loss}, of one stream {expected}");

            let sums = magnitudes(before.each_ref().map(|[p, _]| matrix(p)), &train, batch as usize);
            for (((p, _), [parameter, momentum]), sums) in zip(zip(STATE, &before), sums) {
                let (found, expected) = (several.read(p).unwrap().values(), one.read(p));
                let (w, v) = (parameter.values(), momentum.values());
                for (i, (f, e)) in zip(found, expected).enumerate() {
                    let bound = U * (8.0 * sums.values[i] + v[i].abs() + 4.0 * w[i].abs());
                    assert!(
                        (f - e).abs() <= bound,
                        "{streams} streams, batch {batch}, {p} at {i}: {f}, of one stream {e}, bound {bound:e}"
                    );
                }
            }
        }
    }
}

/// Trains on a few mini-batches on `streams` streams and returns every parameter, then the losses.
fn short_training(backend: &str, settings: Settings, streams: usize) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(7);
    let (train, test) = images(&mut rng);
    let network = Network::new(train.count(), test.count()).unwrap();
    let backend = Backend::open_with(backend, &settings).unwrap();
    let training = SharedTraining::prepare(&backend, &network, &train, &test, &mut rng, streams).unwrap();
    let order: Vec<i64> = (0..12).collect();
    let losses = [training.epoch(&order).unwrap(), training.epoch(&order).unwrap()];
    assert!(losses[1] < losses[0], "{losses:?}");
    let parameters = STATE.iter().flat_map(|(p, _)| training.read(p).unwrap().values());
    parameters.chain(losses).collect()
}

#[test]
fn training_on_streams_has_the_same_bits_in_every_run() {
    for streams in [2, 3, 5] {
        let reference = short_training("inline", Settings::default(), streams);
        assert!(reference.iter().all(|v| v.is_finite()));
        for threads in [1, 2, 2, 2, 5] {
            let found = short_training("multicore", with_threads(threads), streams);
            assert_eq!(found, reference, "{streams} streams, {threads} threads");
        }
    }
}

/// The program prints these accuracies, as the README states for one stream and for four.
#[test]
fn training_is_as_accurate_as_stated() {
    for streams in [vec![], vec!["--streams", "2"], vec!["--streams", "4"]] {
        let args = ["digits", "--backend", "multicore"].iter().chain(&streams).map(Into::into);
        let accuracy = digits::command_line::run(args).unwrap().unwrap();
        assert!(accuracy >= 0.98, "{accuracy} with {streams:?}");
    }
}
