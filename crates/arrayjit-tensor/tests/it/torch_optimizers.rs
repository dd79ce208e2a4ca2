//! Optimizers change parameters as torch's do, in each of 20 steps.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit_tensor::{
    Backend, Batch, DType, Graph, HostArray, ModelState, Params, Session,
    nn::{Linear, Module},
    optim::{
        Adafactor, Adagrad, Adam, AdamW, Muon, Optimizer, OptimizerState, RmsProp, Schedule, Sgd, UpdateRule,
    },
};

use crate::torch::{Goldens, fill, pattern};

/// The largest distance from torch's parameters, relative to the largest of them.
const TOLERANCE: f64 = 1e-5;

/// The layer of `optimizer_case` in goldens.py, and its weights.
fn layer() -> (Linear, ModelState) {
    let params = Params::new(1);
    let layer = Linear::new(&params, 4, 3).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    fill("optimizers", &weights);
    (layer, weights)
}

/// Compares the parameters after each step, which gets the batch of all steps and its number.
fn compare(
    goldens: &mut Goldens,
    name: &str,
    weights: &ModelState,
    mut run: impl FnMut(&[(&str, &HostArray)], i64),
) {
    let x = pattern("optimizers/x", &[8, 4], 1.0, 0.0);
    let target = pattern("optimizers/target", &[8, 3], 1.0, 0.0);
    let expected = goldens.take(name);
    assert_eq!(expected.dims().as_slice(), [20, 15], "{name}");
    for (step, expected) in expected.values().chunks(15).enumerate() {
        run(&[("x", &x), ("target", &target)], step as i64);
        let parameters = weights.params().all();
        let found = parameters.iter().flat_map(|parameter| weights.get(parameter).unwrap().values());
        let largest = expected.iter().fold(0f64, |largest, value| largest.max(value.abs()));
        for (found, expected) in found.zip(expected) {
            let is_close = (found - expected).abs() <= TOLERANCE * largest;
            assert!(is_close, "{name}, step {step}: {found}, torch has {expected}");
        }
    }
}

/// Trains a layer by an optimizer, and compares its parameters.
fn check<R: UpdateRule>(goldens: &mut Goldens, name: &str, optimizer: &Optimizer<R>) {
    let (layer, weights) = layer();
    let graph = Graph::for_training();
    let x = graph.input("x", [8, 4], DType::F32).unwrap();
    let target = graph.input("target", [8, 3], DType::F32).unwrap();
    let loss = layer.forward(&x).unwrap().tanh().unwrap().mse_loss(&target).unwrap();
    optimizer.update(&loss, &OptimizerState::new(&weights)).unwrap();
    let model = graph.compile(&weights, &[&loss]).unwrap();
    compare(goldens, name, &weights, |batch, step| drop(model.start(batch, &[("step", step)]).unwrap()));
}

/// Trains a layer by a session that accumulates gradients, and compares its parameters.
fn check_accumulated(goldens: &mut Goldens, name: &str, optimizer: AdamW, micro_batches: usize) {
    let (layer, weights) = layer();
    let session = Session::new(&weights, optimizer, move |batch: &Batch| {
        layer.forward(&batch.input("x")?)?.tanh()?.mse_loss(&batch.input("target")?)
    });
    let mut session = session.unwrap().accumulate(micro_batches).unwrap();
    compare(goldens, name, &weights, |batch, _| drop(session.step(batch).unwrap()));
}

#[test]
fn optimizers_update_as_those_of_torch() {
    let mut goldens = Goldens::read("optimizers.safetensors", "optimizers");
    let all = &mut goldens;
    let momentum = Sgd::new(0.2).momentum(0.9);
    check(all, "sgd", &Sgd::new(0.5));
    check(all, "sgd_decay", &Sgd::new(0.5).weight_decay(0.1));
    check(all, "sgd_momentum", &momentum);
    check(all, "sgd_momentum_decay", &momentum.clone().weight_decay(0.1));
    check(all, "sgd_nesterov", &momentum.clone().nesterov(true));
    check(all, "sgd_nesterov_decay", &momentum.nesterov(true).weight_decay(0.1));
    check(all, "sgd_clipped", &Sgd::new(0.5).momentum(0.5).clip_norm(0.1));
    check(all, "adam", &Adam::new(0.05));
    check(all, "adam_options", &Adam::new(0.05).betas(0.7, 0.9).eps(1e-3));
    check(all, "adamw", &AdamW::new(0.05));
    check(all, "adamw_options", &AdamW::new(0.05).betas(0.7, 0.9).eps(1e-3).weight_decay(0.3));
    let cosine = AdamW::new(0.05).schedule(Schedule::cosine_decay(20, 0.1)).clip_norm(0.1);
    check(all, "adamw_cosine", &cosine);
    check_accumulated(all, "adamw_accumulated", cosine, 4);
    check(all, "rmsprop", &RmsProp::new(0.02));
    let options = RmsProp::new(0.02).alpha(0.9).eps(1e-3).weight_decay(0.1).momentum(0.5).centered(true);
    check(all, "rmsprop_options", &options);
    check(all, "adagrad", &Adagrad::new(0.1));
    let options = Adagrad::new(0.1).rate_decay(0.2).weight_decay(0.1).initial_accumulator(0.5).eps(1e-3);
    check(all, "adagrad_options", &options);
    check(all, "adafactor", &Adafactor::new(0.05));
    let options = Adafactor::new(0.2).beta2_decay(-0.5).eps(1e-3).least_scale(0.3).clip_threshold(1.1);
    check(all, "adafactor_options", &options.weight_decay(0.1));
    let muon = |muon: Muon| muon.group(|name| name == "bias", AdamW::new(0.05));
    check(all, "muon", &muon(Muon::new(0.05)));
    let options = Muon::new(0.1).weight_decay(0.3).momentum(0.8).nesterov(false).iterations(3).eps(1e-3);
    check(all, "muon_options", &muon(options.match_rms(true)));
    let biases = AdamW::new(0.1).weight_decay(0.0);
    check(all, "adamw_groups", &AdamW::new(0.05).weight_decay(0.3).group(|name| name == "bias", biases));
    assert!(goldens.names().is_empty(), "not compared: {:?}", goldens.names());
}
