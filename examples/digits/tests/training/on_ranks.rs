//! Training on ranks has the bits of training on as many streams.

use arrayjit::{Backend, Settings};
use arrayjit_collectives::local;
use digits::{ranks::RankTraining, state::Network, streams::SharedTraining};

use crate::images;

/// The parameters and momenta.
const STATE: [&str; 8] = ["w1", "b1", "w2", "b2", "v1", "u1", "v2", "u2"];

/// The parameters, momenta and accuracy after ten steps on streams.
fn on_streams(streams: usize) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(7);
    let (train, test) = images(&mut rng);
    let network = Network::new(train.count(), test.count()).unwrap();
    let backend = Backend::open_with("multicore", Settings::default()).unwrap();
    let training = SharedTraining::prepare(&backend, &network, &train, &test, &mut rng, streams).unwrap();
    training.epoch(&(0..10).collect::<Vec<_>>()).unwrap();
    let state = STATE.into_iter().flat_map(|name| training.read(name).unwrap().values());
    state.chain([training.correct().unwrap()]).collect()
}

#[test]
fn ranks_train_to_the_bits_of_streams() {
    for (backend, ranks) in [("multicore", 4), ("inline", 3)] {
        let expected = on_streams(ranks);
        let found = local::run(ranks, |transport| -> anyhow::Result<Vec<f64>> {
            let mut rng = fastrand::Rng::with_seed(7);
            let (train, test) = images(&mut rng);
            let network = Network::new(train.count(), test.count())?;
            let backend = Backend::open_with(backend, Settings::default())?;
            let digits = (&train, &test);
            let training = RankTraining::prepare(&backend, &network, digits, &mut rng, transport)?;
            training.epoch(&(0..10).collect::<Vec<_>>())?;
            let mut state = Vec::new();
            for name in STATE {
                state.extend(training.read(name)?.values());
            }
            state.push(training.correct()?);
            Ok(state)
        });
        for (rank, found) in found.into_iter().enumerate() {
            assert!(found.unwrap() == expected, "rank {rank} of {ranks} on {backend}");
        }
    }
}
