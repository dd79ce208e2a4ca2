//! Sessions that accumulate the gradients of micro-batches: against whole batches, over ranks, resumed, with
//! values that are not finite, bad input.

use std::sync::Arc;

use arrayjit_collectives::{BucketSizes, HostGroup, Transport, local};
use arrayjit_tensor::{
    Backend, Batch, DType, HostArray, Init, ModelState, Params, Session, TensorError,
    nn::{Linear, Module},
    optim::{AdamW, Schedule, Sgd},
    session::{NonFiniteCause, Ranks},
};

use crate::sessions::{TwoLayers, batch, message, step};

/// A session of two layers without dropout, whose optimizer has all options.
fn session(dtype: DType, micro_batches: usize) -> Session {
    let params = Params::new(42).with_dtype(dtype);
    let first = Linear::new(&params.sub("fc1"), 2, 16).unwrap();
    let second = Linear::new(&params.sub("fc2"), 16, 2).unwrap();
    let weights = ModelState::new(&Backend::open("multicore").unwrap(), &params).unwrap();
    let optimizer = AdamW::new(0.03)
        .clip_norm(0.2)
        .average(0.9)
        .schedule(Schedule::warm_up(4))
        .group(|name| name.ends_with("bias"), AdamW::new(0.1).weight_decay(0.0));
    let session = Session::new(&weights, optimizer, move |batch: &Batch| {
        let logits = second.forward(&first.forward(&batch.input("x")?)?.relu()?)?;
        let label = batch.input("label")?;
        let is_right = logits.argmax(1)?.eq(label.to_dtype(DType::I32)?)?;
        batch.metric("accuracy", &is_right.to_dtype(DType::F32)?.mean(..)?)?;
        logits.cross_entropy(&label)
    });
    session.unwrap().accumulate(micro_batches).unwrap()
}

/// The losses, accuracies and weights of some steps, and the means of the weights.
fn train(session: &mut Session, seeds: std::ops::Range<usize>) -> Vec<f64> {
    let mut all = Vec::new();
    for seed in seeds {
        let metrics = session.step_by(batch(seed, 24)).unwrap().metrics().unwrap();
        all.extend(metrics.iter().map(|(_, value)| value));
    }
    let values = [session.model_state().state_dict().unwrap(), session.averages().unwrap()];
    all.extend(values.iter().flat_map(|values| values.values()).flat_map(HostArray::values));
    all
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance, "value {at}: {found}, expected {expected}");
    }
}

#[test]
fn micro_batches_learn_what_whole_batches_do() {
    for (dtype, tolerance) in [(DType::F64, 1e-5), (DType::F32, 1e-4), (DType::Bf16, 0.05)] {
        let expected = train(&mut session(dtype, 1), 0..12);
        for count in [2, 3, 12, 24] {
            assert_close(&train(&mut session(dtype, count), 0..12), &expected, tolerance);
        }
    }
}

#[test]
fn micro_batches_over_ranks_learn_what_whole_batches_do() {
    let expected = train(&mut session(DType::F32, 1), 0..6);
    for (is_sharded, bytes) in [(false, 1 << 20), (true, 1 << 20), (true, 1)] {
        let found = local::run(2, |transport| -> Result<Vec<f64>, TensorError> {
            let rank = transport.rank();
            let session = session(DType::F32, 3);
            let stream = session.model_state().backend().new_stream().unwrap();
            let ranks = Ranks::new(Arc::new(HostGroup::new(transport, stream)))
                .buckets(BucketSizes { first: bytes, others: bytes })
                .sharded_optimizer(is_sharded);
            let mut session = session.over_ranks(ranks).unwrap();
            let mut all = Vec::new();
            for seed in 0..6 {
                let rows = batch(seed, 24)
                    .map(|(name, array)| (name, array.slice(0, rank * 12..(rank + 1) * 12).unwrap()));
                let metrics = session.step_by(rows).unwrap().metrics().unwrap();
                all.extend(metrics.iter().map(|(_, value)| value));
            }
            session.check_ranks().unwrap();
            let values = session.model_state().state_dict().unwrap();
            all.extend(values.values().flat_map(HostArray::values));
            Ok(all)
        });
        for found in found {
            let found = found.unwrap();
            assert_close(&found, &expected[..found.len()], 1e-4);
        }
    }
}

/// The loss of two micro-batches of equal rows is the mean of the losses of two steps.
#[test]
fn random_numbers_differ_between_micro_batches() {
    let losses = |micro_batches: usize, rows: usize, steps: usize| -> Vec<f64> {
        let params = Params::new(1);
        let w = params.parameter("w", [], Init::ONES).unwrap();
        let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
        let session = Session::new(&weights, Sgd::new(0.0), move |batch: &Batch| {
            batch.input("x")?.mul(&w)?.dropout(0.5, 3)?.sum(..)
        });
        let mut session = session.unwrap().accumulate(micro_batches).unwrap();
        let x = HostArray::from_slice(&vec![1f32; rows], [rows]).unwrap();
        (0..steps).map(|_| session.step(&[("x", &x)]).unwrap().metrics().unwrap().loss()).collect()
    };
    let (one, two) = (losses(1, 50, 4), losses(2, 100, 2));
    assert_ne!(one[0], one[1]);
    assert_eq!(two, [(one[0] + one[1]) / 2.0, (one[2] + one[3]) / 2.0]);
}

#[test]
fn checkpoints_resume_with_the_same_bits_and_another_number_of_micro_batches() {
    let path = std::env::temp_dir().join(format!("arrayjit-accumulation-{}", std::process::id()));
    let mut first = session(DType::F32, 4);
    train(&mut first, 0..3);
    first.save(&path).unwrap();
    let expected = train(&mut first, 3..8);
    for (count, tolerance) in [(4, 0.0), (1, 1e-4)] {
        let mut second = session(DType::F32, count);
        second.load(&path).unwrap();
        assert_close(&train(&mut second, 3..8), &expected, tolerance);
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_micro_batch_that_is_not_finite_changes_nothing() {
    let mut session = session(DType::F32, 4);
    let train_on = |session: &mut Session, broken: Option<usize>| {
        let [(x, mut values), label] = batch(5, 8);
        if let Some(row) = broken {
            values.as_mut_slice::<f32>().unwrap()[2 * row] = f32::NAN;
        }
        session.step_by([(x, values), label])?.metrics()
    };
    train_on(&mut session, None).unwrap();
    let before = session.model_state().to_safetensors().unwrap();
    match train_on(&mut session, Some(5)) {
        Err(TensorError::NotFinite { step: 1, cause: NonFiniteCause::Input(name) }) => assert_eq!(name, "x"),
        other => panic!("{other:?}"),
    }
    assert_eq!(session.model_state().to_safetensors().unwrap(), before);
    train_on(&mut session, None).unwrap();
    assert_ne!(session.model_state().to_safetensors().unwrap(), before);
}

#[test]
fn bad_micro_batches_are_errors_that_change_nothing() {
    let model = TwoLayers::new("inline", DType::F32);
    let error = message(model.session().accumulate(0));
    assert!(error.ends_with(": micro_batches is 0, expected at least 1"), "{error}");
    let mut session = model.session();
    step(&mut session, 0, 8).unwrap();
    assert!(matches!(session.accumulate(2), Err(TensorError::Begun)));

    let mut session = model.session().accumulate(4).unwrap();
    let before = model.weights.to_safetensors().unwrap();
    let error = message(step(&mut session, 0, 10));
    assert_eq!(error, "input `x` has shape [10, 2], expected rows for 4 equal micro-batches");
    let [x, _] = batch(0, 8);
    let [_, label] = batch(0, 4);
    let error = message(session.step_by([x, label]));
    assert_eq!(error, "input `label` has shape [4], expected 8 rows, as all inputs have");
    let [x, (name, mut labels)] = batch(0, 8);
    labels.set_values(&[0., 1., 0., 1., 0., 1., 0., 2.]).unwrap();
    let error = message(session.step_by([x, (name, labels)]));
    assert!(error.contains("label"), "{error}");
    assert_eq!(model.weights.to_safetensors().unwrap(), before);
    assert_eq!(session.steps(), 0);
}
