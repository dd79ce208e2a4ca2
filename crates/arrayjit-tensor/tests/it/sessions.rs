//! Sessions: steps, metrics, graphs by shape, evaluation, batches from another thread, bad input.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use arrayjit_tensor::{
    Backend, DType, HostArray, Init, ModelState, Params, Settings, Tensor, TensorError,
    optim::{AdamW, Sgd},
    session::{Batch, Session, gradient_check},
};
use codegen_testkit::gpu::or_skip;

/// A model of two layers with dropout, which learns whether the sum of two numbers is above 1.
pub(crate) struct TwoLayers {
    pub(crate) params: Params,
    pub(crate) weights: ModelState,
}

impl TwoLayers {
    pub(crate) fn new(backend: &str, dtype: DType) -> TwoLayers {
        let params = Params::new(42).with_dtype(dtype);
        for (name, shape) in [("fc1", [16, 2]), ("fc2", [2, 16])] {
            let module = params.sub(name);
            module.parameter("weight", shape, Init::kaiming_uniform(shape[1], 1.0)).unwrap();
            module.parameter("bias", [shape[0]], Init::ZEROS).unwrap();
        }
        let weights = ModelState::new(&Backend::open(backend).unwrap(), &params).unwrap();
        TwoLayers { params, weights }
    }

    pub(crate) fn session(&self) -> Session {
        self.session_with(AdamW::new(0.03))
    }

    pub(crate) fn session_with(&self, optimizer: AdamW) -> Session {
        let params = self.params.clone();
        Session::new(&self.weights, optimizer, move |batch| loss(&params, batch)).unwrap()
    }
}

fn linear(params: &Params, name: &str, x: &Tensor) -> Result<Tensor, TensorError> {
    let _scope = x.graph().enter(name);
    let parameter = |part: &str| params.get(&format!("{name}.{part}")).unwrap();
    x.einsum("n i, o i -> n o", parameter("weight"))?.add(parameter("bias"))
}

fn loss(params: &Params, batch: &Batch) -> Result<Tensor, TensorError> {
    let (mut x, label) = (linear(params, "fc1", &batch.input("x")?)?.relu()?, batch.input("label")?);
    if batch.is_training() {
        x = x.dropout(0.1, 7)?;
    }
    let logits = linear(params, "fc2", &x)?;
    let is_right = logits.argmax(1)?.eq(&label.to_dtype(DType::I32)?)?;
    batch.metric("accuracy", &is_right.to_dtype(DType::F32)?.mean(..)?)?;
    logits.cross_entropy(&label)
}

pub(crate) fn batch(seed: usize, rows: usize) -> [(&'static str, HostArray); 2] {
    let number = |at: usize| ((seed * 7919 + at * 104_729 + at * at * 31) % 1000) as f32 / 1000.0;
    let x: Vec<f32> = (0..2 * rows).map(number).collect();
    let label: Vec<u8> = x.chunks(2).map(|pair| u8::from(pair[0] + pair[1] > 1.0)).collect();
    [
        ("x", HostArray::from_slice(&x, [rows, 2]).unwrap()),
        ("label", HostArray::from_slice(&label, [rows]).unwrap()),
    ]
}

pub(crate) fn step(session: &mut Session, seed: usize, rows: usize) -> Result<f64, TensorError> {
    Ok(session.step_by(batch(seed, rows))?.metrics()?.loss())
}

pub(crate) fn message<T>(result: Result<T, TensorError>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_model_learns_and_reports_metrics() {
    for (backend, dtype) in [("multicore", DType::F32), ("inline", DType::Bf16), ("multicore", DType::F64)] {
        let model = TwoLayers::new(backend, dtype);
        let mut session = model.session();
        let first = step(&mut session, 0, 32).unwrap();
        let mut losses = Vec::new();
        let last = session
            .fit((1..300).map(|seed| batch(seed, 32)), |progress| {
                losses.extend(progress.metrics().iter().map(|metrics| (metrics.step(), metrics.loss())));
            })
            .unwrap();
        assert!(last.loss() < 0.3 && first > 0.5, "{dtype}: {first} {last:?}");
        assert_eq!(last.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["loss", "accuracy"]);
        assert_eq!(losses.iter().map(|(step, _)| *step).collect::<Vec<_>>(), (1..300).collect::<Vec<_>>());
        assert_eq!((session.steps(), session.compilations()), (300, 1));
        if dtype == DType::Bf16 {
            continue;
        }
        let mean = session.evaluate((0..4).map(|seed| batch(1000 + seed, 64))).unwrap();
        assert!(mean.get("accuracy").unwrap() > 0.9, "{dtype}: {mean:?}");
    }
}

#[test]
fn steps_do_not_wait_and_keep_their_metrics() {
    let model = TwoLayers::new("multicore", DType::F32);
    let (mut now, mut later) = (model.session(), TwoLayers::new("multicore", DType::F32).session());
    let started: Vec<_> = (0..150).map(|seed| later.step_by(batch(seed, 8)).unwrap()).collect();
    let expected: Vec<f64> = (0..150).map(|seed| step(&mut now, seed, 8).unwrap()).collect();
    for step in &started[86..] {
        assert_eq!(step.metrics().unwrap().loss(), expected[step.number() as usize]);
    }
    let error = message(started[85].metrics());
    assert_eq!(error, "the metrics of step 85 are overwritten; read them within the next 64 steps");
    let from_elsewhere = thread::scope(|scope| scope.spawn(|| started[149].metrics()).join().unwrap());
    assert_eq!(from_elsewhere.unwrap().step(), 149);
}

#[test]
fn graphs_are_compiled_once_for_each_shape() {
    let calls = Arc::new(AtomicUsize::new(0));
    let model = TwoLayers::new("inline", DType::F32);
    let (params, counter) = (model.params.clone(), calls.clone());
    let session = Session::new(&model.weights, AdamW::new(0.03), move |batch: &Batch| {
        counter.fetch_add(1, Ordering::SeqCst);
        loss(&params, batch)
    });
    let mut session = session.unwrap().cached_graphs(2);
    let mut compiled_after = |rows: usize| {
        step(&mut session, rows, rows).unwrap();
        assert_eq!(session.compilations(), calls.load(Ordering::SeqCst));
        session.compilations()
    };
    let compilations = [4, 8, 4, 8, 2, 4, 2, 8].map(&mut compiled_after);
    assert_eq!(compilations, [1, 2, 2, 2, 3, 4, 4, 5]);
    let swapped: Vec<_> = batch(1, 2).into_iter().rev().collect();
    session.step_by(swapped).unwrap();
    assert_eq!(session.compilations(), 5);
}

#[test]
fn evaluation_weighs_batches_by_their_rows_and_changes_nothing() {
    let model = TwoLayers::new("multicore", DType::F32);
    let session = model.session();
    let before = model.weights.to_safetensors().unwrap();
    let mean = session.evaluate([batch(0, 10), batch(1, 30)]).unwrap();
    let [one, other] = [(0, 10), (1, 30)].map(|(seed, rows)| session.evaluate([batch(seed, rows)]).unwrap());
    for (name, value) in mean.iter() {
        let expected = 0.25 * one.get(name).unwrap() + 0.75 * other.get(name).unwrap();
        assert!((value - expected).abs() < 1e-6, "{name}: {value} {expected}");
    }
    let many = session.evaluate((0..100).map(|_| batch(0, 10))).unwrap();
    assert!((many.loss() - one.loss()).abs() < 1e-9);
    assert_eq!((session.steps(), model.weights.to_safetensors().unwrap()), (0, before));
    let none: [[(&str, HostArray); 0]; 0] = [];
    assert_eq!(message(session.evaluate(none)), "the iterator has no batch, expected at least one");
}

#[test]
fn batches_come_from_another_thread() {
    let mut session = TwoLayers::new("multicore", DType::F32).session();
    let here = thread::current().id();
    let elsewhere = |seed| {
        assert_ne!(thread::current().id(), here);
        batch(seed, 4)
    };
    session.fit((0..5).map(elsewhere), |_| {}).unwrap();
    let failing = (0..5).map(|seed| if seed < 3 { Ok(batch(seed, 4)) } else { Err("the file is gone") });
    assert_eq!(message(session.fit(failing, |_| {})), "a batch cannot be made: the file is gone");
    assert_eq!(session.steps(), 8);
    let none: [[(&str, HostArray); 0]; 0] = [];
    assert_eq!(message(session.fit(none, |_| {})), "the iterator has no batch, expected at least one");
    let endless = (0..).map(|seed| if seed == 7 { batch(seed, 0) } else { batch(seed, 4) });
    assert_eq!(
        message(session.fit(endless, |_| {})),
        "input `x` has shape [0, 2], expected at least one element"
    );
}

#[test]
fn bad_input_is_named() {
    let model = TwoLayers::new("inline", DType::F32);
    let mut session = model.session();
    let [x, label] = batch(0, 4);
    let found = message(session.step(&[("x", &x.1)]));
    assert!(found.starts_with("input at "), "{found}");
    assert!(found.ends_with("name is `label`, expected an input of the batch, which has `x`"), "{found}");
    let found = message(session.step(&[("x", &x.1), ("label", &label.1), ("mask", &label.1)]));
    assert_eq!(found, "input `mask` is read by no operation of the closure; the inputs are `x`, `label`");
    let found = message(session.step(&[("x", &x.1), ("x", &x.1)]));
    assert_eq!(found, "input `x` is given twice; the inputs are `x`, `x`");
    let wide = HostArray::zeros(DType::F32, [4, 3]).unwrap();
    let found = message(session.step(&[("x", &wide), ("label", &label.1)]));
    assert!(found.starts_with("einsum in module `fc1` at "), "{found}");
    assert_eq!(session.steps(), 0);
    step(&mut session, 0, 4).unwrap();

    let none = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(1)).unwrap();
    let found = message(Session::new(&none, Sgd::new(0.1), |batch: &Batch| batch.input("x")));
    assert_eq!(found, "the weights have no trainable parameter; make the modules before `ModelState::new`");
    let other = TwoLayers::new("inline", DType::F32);
    let params = other.params.clone();
    let session = Session::new(&model.weights, Sgd::new(0.1), move |batch: &Batch| loss(&params, batch));
    let found = message(session.unwrap().step(&[("x", &x.1), ("label", &label.1)]));
    assert!(found.starts_with("parameter `fc1.weight` is none of the weights"), "{found}");
}

#[test]
fn metrics_are_single_values_with_names_of_their_own() {
    let run = |name: &'static str, keepdim: bool| {
        let model = TwoLayers::new("inline", DType::F32);
        let w = model.params.get("fc1.weight").unwrap();
        let session = Session::new(&model.weights, Sgd::new(0.1), move |batch: &Batch| {
            let x = batch.input("x")?.einsum("n i, o i -> n o", &w)?;
            batch.metric("norm", &x.square()?.sum(..)?)?;
            batch.metric(name, &if keepdim { x.sum_keepdim([0, 1])? } else { x.clone() })?;
            x.square()?.mean_keepdim(..)
        });
        session.unwrap().step(&[("x", &batch(0, 4)[0].1)])?.metrics()
    };
    let metrics = run("sum", true).unwrap();
    assert!(metrics.get("norm").unwrap() > 0.0 && metrics.get("sum").is_some() && metrics.loss() > 0.0);
    assert!(message(run("sum", false)).ends_with("metric `sum` has shape [4, 16], expected one element"));
    assert!(message(run("norm", true)).ends_with("metric `norm` exists already"));
    assert!(message(run("loss", true)).ends_with("metric `loss` exists already"));
}

#[test]
fn gradients_of_a_model_are_those_of_differences() {
    let model = TwoLayers::new("inline", DType::F32);
    let [x, label] = batch(3, 4);
    let inputs = [("x", &x.1), ("label", &label.1)];
    let worst = gradient_check(&model.weights, &inputs, |batch| loss(&model.params, batch)).unwrap();
    let names: Vec<_> = worst.iter().map(|worst| worst.parameter.clone()).collect();
    assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
    assert!(worst.iter().all(|worst| worst.error < 1e-6), "{worst:?}");
    let bias = model.params.get("fc2.bias").unwrap();
    let kink = gradient_check(&model.weights, &[], |batch| {
        batch.graph().apply("y :+= relu(b[i] - i)", &[("b", &&bias)])
    });
    let found = message(kink);
    assert!(found.starts_with("the gradient by fc2.bias is 0 at [0], and the difference"), "{found}");
}

#[test]
fn a_model_trains_on_a_gpu() {
    if or_skip("a_model_trains_on_a_gpu", Backend::open("wgpu")).is_none() {
        return;
    }
    let mut session = TwoLayers::new("wgpu", DType::F32).session();
    let mut reference = TwoLayers::new("inline", DType::F32).session();
    for seed in 0..20 {
        let (found, expected) =
            (step(&mut session, seed, 8).unwrap(), step(&mut reference, seed, 8).unwrap());
        assert!((found - expected).abs() < 1e-3 * expected.abs(), "{seed}: {found} {expected}");
    }
}

/// A session with the setting `profile` has a profile of each graph, with the statements of its operations.
#[test]
fn sessions_have_profiles_of_their_graphs() {
    let mut settings = Settings::default();
    settings.debugging.profile = true;
    let params = Params::new(42);
    let weight = params.parameter("weight", [16, 64], Init::kaiming_uniform(64, 1.0)).unwrap();
    let weights = ModelState::new(&Backend::open_with("inline", &settings).unwrap(), &params).unwrap();
    let mut session = Session::new(&weights, Sgd::new(0.1), move |batch: &Batch| {
        batch.input("x")?.einsum("n i, o i -> n o", &weight)?.relu()?.mean(..)
    })
    .unwrap();
    let x = HostArray::from_slice(&[0.5f32; 32 * 64], [32, 64]).unwrap();
    for _ in 0..3 {
        session.step(&[("x", &x)]).unwrap();
    }
    session.evaluate([[("x", x.clone())]]).unwrap();
    let profiles = session.profiles();
    let runs = |at: usize| (profiles[at].routine.as_str(), profiles[at].run_time.unwrap().count);
    assert_eq!((profiles.len(), runs(0), runs(1)), (2, ("evaluation", 1), ("training_step", 3)));
    let step = &profiles[1];
    assert!(step.calls.iter().any(|call| call.description.cost.flops >= 2.0 * 32.0 * 64.0 * 16.0));
    assert!(step.calls.iter().all(|call| !call.description.statements.is_empty()), "{}", step.to_table());
}

/// Each step is checked, and the metrics of all of them are reported.
#[test]
fn fit_that_checks_every_step() {
    let model = TwoLayers::new("inline", DType::F32);
    let mut session = model.session().check_every_step(true);
    let mut losses = Vec::new();
    let last = session.fit((0..70).map(|seed| batch(seed, 8)), |progress| {
        losses.extend(progress.metrics().iter().map(|metrics| metrics.loss()));
    });
    assert_eq!(losses.len(), 70);
    assert_eq!(losses.last(), Some(&last.unwrap().loss()));
}

/// The error names the operation of the closure that made the loss.
#[test]
fn a_loss_of_several_elements() {
    let params = Params::new(1);
    let w = params.parameter("w", [3], Init::ONES).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let loss = move |batch: &Batch| batch.input("x")?.mul(&w);
    let mut session = Session::new(&weights, Sgd::new(0.1), loss).unwrap();
    let x = HostArray::from_slice(&[1f32; 3], [3]).unwrap();
    let error = session.step(&[("x", &x)]).map(drop).unwrap_err().to_string();
    assert!(error.starts_with(&format!("session at {}:{}:", file!(), line!() - 4)), "{error}");
    assert!(error.contains("has shape [3], expected one element"), "{error}");
}

/// Training that never ends stops once the loss is small.
#[test]
fn a_callback_stops_training() {
    let model = TwoLayers::new("inline", DType::F32);
    let mut session = model.session();
    let mut seen = Vec::new();
    let last = session.fit((0..).map(|seed| batch(seed % 4, 32)), |progress| {
        seen.extend(progress.metrics().iter().map(|metrics| metrics.loss()));
        if progress.loss() < 0.5 * seen[0] { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(last.unwrap().loss(), *seen.last().unwrap());
    assert_eq!(session.steps(), seen.len() as u64);
    step(&mut session, 0, 32).unwrap();
}
