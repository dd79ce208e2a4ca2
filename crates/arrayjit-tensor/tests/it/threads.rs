//! Calls from several threads: every answer is that of its own call, and changes of weights are whole.

use std::{
    num::NonZero,
    thread,
    time::{Duration, Instant},
};

use arrayjit_tensor::{
    Backend, DType, Executable, Graph, HostArray, Init, ModelState, Parameter, Params, Settings, Tensor,
    TensorError,
    optim::Sgd,
    session::{Batch, Session},
};

const THREADS: usize = 6;

/// Backends whose streams have workers, and one whose callers run the kernels.
fn backends() -> [Backend; 2] {
    let mut settings = Settings::default();
    settings.threads = 2;
    [Backend::open_with("multicore", &settings).unwrap(), Backend::open("inline").unwrap()]
}

/// ModelState of which three runs may overlap, on any machine.
fn weights(backend: &Backend, params: &Params) -> ModelState {
    let weights = ModelState::new(backend, params).unwrap();
    weights.set_concurrent_runs(NonZero::new(3).unwrap());
    weights
}

/// Calls a function on several threads at once with the numbers of the thread and of the call.
fn on_threads(calls: usize, call: impl Fn(usize, usize) + Sync) {
    let call = &call;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (0..calls).for_each(|number| call(thread, number)));
        }
    });
}

fn floats(value: f32, dims: &[usize]) -> HostArray {
    HostArray::from_slice(&vec![value; dims.iter().product()], dims.iter().copied()).unwrap()
}

/// A parameter that a product with leaves as it is.
fn identity(params: &Params, size: usize) -> Parameter {
    let values: Vec<f32> = (0..size * size).map(|at| f32::from(u8::from(at % (size + 1) == 0))).collect();
    let values = HostArray::from_slice(&values, [size, size]).unwrap();
    params.parameter("w", [size, size], Init::Values(values.into())).unwrap()
}

#[test]
fn every_call_gets_its_own_answer() {
    for backend in backends() {
        let params = Params::new(0);
        let w = identity(&params, 64);
        let weights = weights(&backend, &params);
        let graph = Graph::new();
        let x = graph.input("x", [32, 64], DType::F32).unwrap();
        let product = x.matmul(&w).unwrap();
        let (y, sum) = ((&product * 2.0).unwrap(), product.sum(..).unwrap());
        let model = graph.compile(&weights, &[&y, &sum]).unwrap();
        on_threads(100, |thread, number| {
            let value = (thread * 1000 + number) as f32;
            let x = floats(value, &[32, 64]);
            let results = match number % 2 {
                0 => model.run(&[("x", &x)]).unwrap(),
                _ => model.run_shared(&[("x", x.into())]).unwrap(),
            };
            assert_eq!(results[0].values(), vec![f64::from(2.0 * value); 32 * 64]);
            assert_eq!(results[1].values(), [f64::from(value) * 2048.0]);
        });
    }
}

#[test]
fn a_started_run_keeps_its_results() {
    for backend in backends() {
        let weights = weights(&backend, &Params::new(0));
        let graph = Graph::new();
        let x = graph.input("x", [1000], DType::F32).unwrap();
        let model = graph.compile(&weights, &[&(&x * 2.0).unwrap(), &x]).unwrap();
        on_threads(5, |thread, number| {
            let value = |at: usize| (thread * 1000 + number * 100 + at) as f32;
            let start = |at| model.start(&[("x", &floats(value(at), &[1000]))], &[]).unwrap();
            let runs: Vec<_> = (0..20).map(start).collect();
            for (at, run) in runs.iter().enumerate().rev() {
                assert_eq!(run.result(0).unwrap().values(), vec![f64::from(2.0 * value(at)); 1000]);
                assert_eq!(run.result(1).unwrap().values(), vec![f64::from(value(at)); 1000]);
                assert!(run.event().is_done());
            }
            assert!(runs[0].result(2).unwrap_err().to_string().contains("is no position of a result"));
        });
    }
}

#[test]
fn calls_take_place_side_by_side_with_one_copy_of_the_weights() {
    let backend = &backends()[1];
    let params = Params::new(0);
    let w = identity(&params, 256);
    let weights = weights(backend, &params);
    let graph = Graph::new();
    let x = graph.input("x", [64, 256], DType::F32).unwrap();
    let mut y = x.matmul(&w).unwrap();
    for _ in 0..20 {
        y = y.matmul(&w).unwrap();
    }
    let model = graph.compile(&weights, &[&y]).unwrap();
    let used = || weights.context().unwrap().stream().device().memory().live_bytes;
    let array = floats(1.0, &[64, 256]);
    model.run(&[("x", &array)]).unwrap();
    let alone = used();
    for _ in 0..20 {
        model.start(&[("x", &array)], &[]).unwrap();
        model.run(&[("x", &array)]).unwrap();
    }
    assert_eq!(used(), alone, "calls that do not overlap share all memory");
    on_threads(20, |_, _| drop(model.run(&[("x", &array)]).unwrap()));
    let (weight, more) = (256 * 256 * 4, used() - alone);
    assert!(more > 0, "no calls overlapped");
    assert!(
        more <= 2 * (alone - weight) + weight / 2,
        "{more} more bytes for two more runs, {alone} for one"
    );

    weights.set_concurrent_runs(NonZero::<usize>::MIN);
    let before = used();
    on_threads(5, |_, _| drop(model.run(&[("x", &array)]).unwrap()));
    assert_eq!(used(), before);
}

#[test]
fn steps_of_threads_take_turns() {
    for backend in backends() {
        let params = Params::new(0);
        let w = params.parameter("w", [100], Init::ZEROS).unwrap();
        let weights = weights(&backend, &params);
        let graph = Graph::new();
        let x = graph.input("x", [100], DType::F32).unwrap();
        let sum = graph.apply("w[i] := w[i] + x[i]\nseen[i] := w[i]", &[("w", &w), ("x", &x)]).unwrap();
        let step = graph.compile(&weights, &[&sum]).unwrap();
        on_threads(100, |_, number| {
            let x = [("x", &floats(1.0, &[100]))];
            let seen = match number % 3 {
                0 => step.run(&x).unwrap().remove(0).values(),
                1 => step.start(&x, &[]).unwrap().result(0).unwrap().values(),
                _ => {
                    step.start(&x, &[]).unwrap();
                    return;
                }
            };
            assert!(seen.iter().all(|value| *value == seen[0] && *value > number as f64), "{seen:?}");
        });
        assert_eq!(weights.get(&w).unwrap().values(), vec![(THREADS * 100) as f64; 100]);
    }
}

/// Two parameters that always have the same values, and a model whose result is their difference.
fn twins(backend: &Backend) -> Result<(ModelState, Executable, Executable), TensorError> {
    let params = Params::new(0);
    let (a, b) = (params.parameter("a", [500], Init::ZEROS)?, params.parameter("b", [500], Init::ZEROS)?);
    let weights = weights(backend, &params);
    let graph = Graph::new();
    let difference = graph.apply("d[i] := a[i] - b[i]", &[("a", &a), ("b", &b)])?;
    let reading = graph.compile(&weights, &[&difference])?;
    let graph = Graph::new();
    graph.apply("a[i] := a[i] + 1\nb[i] := b[i] + 1", &[("a", &a), ("b", &b)])?;
    let writing = graph.compile(&weights, &[])?;
    Ok((weights, reading, writing))
}

#[test]
fn no_call_sees_a_half_of_a_change() {
    for backend in backends() {
        let (weights, reading, writing) = twins(&backend).unwrap();
        let deadline = Instant::now() + Duration::from_secs(1);
        on_threads(1, |thread, _| {
            let mut round = 0;
            while Instant::now() < deadline || round < 3 {
                round += 1;
                match thread {
                    0 => {
                        let value = floats(round as f32, &[500]);
                        let values =
                            [("a", value.clone()), ("b", value)].map(|(name, v)| (name.to_owned(), v));
                        weights.load_state_dict(&values.into()).unwrap();
                    }
                    1 => drop(writing.run(&[]).unwrap()),
                    2 => {
                        let values = weights.state_dict().unwrap();
                        assert_eq!(values["a"].values(), values["b"].values());
                    }
                    _ => assert_eq!(reading.run(&[]).unwrap()[0].values(), [0.0; 500]),
                }
            }
        });
    }
}

fn session(backend: &Backend) -> Session {
    let params = Params::new(0);
    let w = params.parameter("w", [1], Init::Constant(3.0)).unwrap();
    let weights = weights(backend, &params);
    let loss = move |batch: &Batch| -> Result<Tensor, TensorError> {
        let x = batch.input("x")?;
        batch.metric("largest", &x.max(0)?)?;
        x.mul(&w)?.mean(..)
    };
    Session::new(&weights, Sgd::new(0.1), loss).unwrap()
}

#[test]
fn threads_evaluate_a_session_at_the_same_time() {
    for backend in backends() {
        let session = session(&backend);
        on_threads(3, |thread, number| {
            // More batches than a session keeps rows of metrics for, of several shapes.
            let batches = (0..70).map(|at| [("x", floats((thread + 1) as f32, &[1 + (at + number) % 3]))]);
            let metrics = session.evaluate(batches).unwrap();
            assert_eq!(metrics.loss(), 3.0 * (thread + 1) as f64);
            assert_eq!(metrics.get("largest"), Some((thread + 1) as f64));
        });
        assert_eq!(session.compilations(), 3, "each shape is compiled once");
    }
}

#[test]
fn threads_wait_for_steps_while_another_makes_them() {
    for backend in backends() {
        let mut session = session(&backend);
        thread::scope(|scope| {
            for number in 0..60 {
                let step = session.step_by([("x", floats(1.0, &[4]))]).unwrap();
                scope.spawn(move || {
                    let loss = step.metrics().unwrap().loss();
                    assert!((loss - (3.0 - 0.1 * f64::from(number))).abs() < 1e-4, "step {number}: {loss}");
                });
            }
        });
    }
}
