//! Sessions over ranks: equal bits on all ranks, buckets, sharded states, checkpoints, failures.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use arrayjit::{
    TensorNode,
    parallel::{DataParallel, DataParallelJob, MergeMethod, replicate},
};
use arrayjit_collectives::{
    BucketSizes, CollectiveError, HostGroup, Transport,
    local::{self, LocalTransport},
};
use arrayjit_tensor::{
    Backend, DType, Graph, HostArray, Init, ModelState, Params, TensorError,
    optim::{AdamW, Sgd},
    session::{Batch, NonFiniteCause, Ranks, Session},
};

use crate::sessions::{TwoLayers, batch, step};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How a session is joined with its ranks.
#[derive(Clone, Copy, Debug)]
struct Setup {
    ranks: usize,
    dtype: DType,
    bucket_bytes: usize,
    is_sharded: bool,
}

impl Setup {
    fn new(ranks: usize, dtype: DType) -> Setup {
        Setup { ranks, dtype, bucket_bytes: 1 << 20, is_sharded: false }
    }

    fn session(self, transport: LocalTransport, timeout: Duration) -> Outcome<(TwoLayers, Session)> {
        let model = TwoLayers::new("multicore", self.dtype);
        let group = HostGroup::new(transport, model.weights.backend().new_stream()?).with_timeout(timeout);
        let buckets = BucketSizes { first: self.bucket_bytes, others: self.bucket_bytes };
        let ranks = Ranks::new(Arc::new(group)).buckets(buckets).sharded_optimizer(self.is_sharded);
        let session = model.session_with(AdamW::new(0.03).clip_norm(0.5)).over_ranks(ranks)?;
        Ok((model, session))
    }

    /// Runs a function on each rank, and returns the results, which are equal on all ranks.
    fn on_all<T: PartialEq + std::fmt::Debug + Send>(
        self,
        body: impl Fn(&TwoLayers, Session, usize) -> Outcome<T> + Sync,
    ) -> T {
        let results = local::run(self.ranks, |transport| {
            let rank = transport.rank();
            let (model, session) = self.session(transport, Duration::from_secs(60))?;
            body(&model, session, rank)
        });
        let mut results: Vec<T> = results.into_iter().collect::<Outcome<_>>().unwrap();
        let first = results.remove(0);
        results.iter().for_each(|other| assert_eq!(*other, first, "{self:?}"));
        first
    }
}

/// Trains on batches of the rank, and returns the losses and the weights.
fn train(
    model: &TwoLayers,
    session: &mut Session,
    (rank, ranks): (usize, usize),
    seeds: std::ops::Range<usize>,
) -> Outcome<(Vec<f64>, Vec<u8>)> {
    let losses = seeds.map(|seed| step(session, seed * ranks + rank, 24 / ranks));
    let losses = losses.collect::<Result<_, _>>()?;
    session.check_ranks()?;
    Ok((losses, model.weights.to_safetensors()?))
}

#[test]
fn bits_depend_on_the_number_of_ranks_alone() {
    for (ranks, dtype) in [(2, DType::Bf16), (3, DType::F64), (4, DType::F32)] {
        let one_bucket = Setup::new(ranks, dtype);
        let cut = Setup { bucket_bytes: 1, ..one_bucket };
        let run = |setup: Setup| {
            setup.on_all(|model, mut session, rank| train(model, &mut session, (rank, ranks), 0..12))
        };
        let expected = run(one_bucket);
        assert!(expected.0.iter().all(|loss| loss.is_finite()) && expected.0[11] < expected.0[0]);
        for setup in [cut, Setup { is_sharded: true, ..one_bucket }, Setup { is_sharded: true, ..cut }] {
            assert_eq!(run(setup), expected, "{setup:?}");
        }
    }
}

#[test]
fn one_rank_learns_what_a_session_without_ranks_does() {
    let alone = TwoLayers::new("multicore", DType::F64);
    let mut session = alone.session_with(AdamW::new(0.03).clip_norm(0.5));
    let expected: Vec<f64> = (0..12).map(|seed| step(&mut session, seed, 24).unwrap()).collect();
    let found =
        Setup::new(1, DType::F64).on_all(|model, mut session, _| train(model, &mut session, (0, 1), 0..12));
    let is_close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
    assert!(found.0.iter().zip(&expected).all(is_close), "{found:?} {expected:?}");
}

/// The weight of a mean of squares after a step with some numbers.
fn weight_after(numbers: &[f64], transport: Option<LocalTransport>) -> Outcome<f64> {
    let params = Params::new(1).with_dtype(DType::F64);
    let w = params.parameter("w", [], Init::ONES)?;
    let backend = Backend::open("multicore")?;
    let weights = ModelState::new(&backend, &params)?;
    let parameter = w.clone();
    let target = Arc::new(HostArray::from_slice(&[2.0], [1])?);
    let mut session = Session::new(&weights, Sgd::new(0.25), move |batch: &Batch| {
        batch.input("x")?.mul(&w)?.sub(batch.graph().constant(target.clone())?)?.square()?.mean(..)
    })?;
    if let Some(transport) = transport {
        let group = HostGroup::new(transport, backend.new_stream()?);
        session = session.over_ranks(Ranks::new(Arc::new(group)))?;
    }
    session.step_by([("x", HostArray::from_slice(numbers, [numbers.len()])?)])?;
    Ok(weights.get(&parameter)?.item()?)
}

#[test]
fn the_step_of_two_ranks_is_that_of_the_joined_batch() {
    let numbers = [1.0, -2.0, 0.5, 3.0];
    let expected = weight_after(&numbers, None).unwrap();
    let on_ranks = local::run(2, |transport| {
        let start = 2 * transport.rank();
        weight_after(&numbers[start..start + 2], Some(transport))
    });
    for found in on_ranks {
        assert!((found.unwrap() - expected).abs() < 1e-12 && (expected - 1.0).abs() > 0.1);
    }
}

/// The number that a row has at a position.
fn element(row: usize, at: usize) -> f32 {
    ((row * 7919 + at * 104_729) % 211) as f32 * 0.013 - 1.2
}

/// The weight after steps of one row on each rank.
fn on_ranks(transport: LocalTransport, backend: &str, steps: usize) -> Outcome<Vec<f64>> {
    let (rank, ranks) = (transport.rank(), transport.size());
    let params = Params::new(1);
    let w = params.parameter("w", [5], Init::ONES)?;
    let backend = Backend::open(backend)?;
    let weights = ModelState::new(&backend, &params)?;
    let parameter = w.clone();
    let session = Session::new(&weights, Sgd::new(0.25), move |batch: &Batch| {
        let x = batch.input("x")?;
        batch.graph().apply("e[k] := w[k] * x[k] - 1", &[("w", &w), ("x", &x)])?.square()?.sum(..)
    })?;
    let group = HostGroup::new(transport, backend.new_stream()?);
    let mut session = session.over_ranks(Ranks::new(Arc::new(group)))?;
    for step in 0..steps {
        let row = [0, 1, 2, 3, 4].map(|at| element(step * ranks + rank, at));
        session.step_by([("x", HostArray::from_slice(&row, [5])?)])?;
    }
    session.check_ranks()?;
    Ok(weights.get(&parameter)?.values())
}

/// The same on the streams of one process, by routines.
fn on_streams(streams: usize, steps: usize) -> Outcome<Vec<f64>> {
    let rows = steps * streams;
    let node = |name: &str, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).build();
    let (x, w, g) = (node("x", &[rows, 5])?, node("w", &[5])?, node("g", &[5])?);
    let backend = Backend::open("multicore")?;
    let gradient = backend.compile("g[k] := 2 * (w[k] * x[@row, k] - 1) * x[@row, k]", [&x, &w, &g])?;
    let mean = 1.0 / streams as f64;
    let update = backend.compile(&format!("w[k] -= 0.25 * ({mean} * g[k])"), [&w, &g])?;
    let all: Vec<f32> = (0..rows).flat_map(|row| (0..5).map(move |at| element(row, at))).collect();
    let context = backend.context()?.init_from_host(&x, &HostArray::from_slice(&all, [rows, 5])?)?;
    let mut contexts = vec![context.init_from_host(&w, &HostArray::from_slice(&[1f32; 5], [5])?)?];
    for _ in 1..streams {
        contexts.extend(replicate(&contexts[0], std::slice::from_ref(&w), &[backend.new_stream()?])?);
    }
    let job = DataParallelJob {
        gradient: &gradient,
        update: &update,
        summed: &[g],
        parameters: std::slice::from_ref(&w),
        merge_method: MergeMethod::default(),
    };
    let training = DataParallel::link(&backend, &job, &contexts)?;
    training.run((0..rows as i64).map(|row| [row]))?;
    Ok(training.context().to_host(&w)?.values())
}

/// The numbers of ranks are powers of two, so that no mean rounds.
#[test]
fn ranks_train_to_the_bits_of_streams() {
    for (backend, ranks) in [("multicore", 1), ("inline", 2), ("multicore", 4)] {
        let expected = on_streams(ranks, 8).unwrap();
        let found = local::run(ranks, |transport| on_ranks(transport, backend, 8));
        for (rank, found) in found.into_iter().enumerate() {
            assert_eq!(found.unwrap(), expected, "rank {rank} of {ranks} on {backend}");
        }
    }
}

fn resumed(path: &Path, before: Setup, after: Setup) -> (Vec<f64>, Vec<u8>) {
    let saved = before.on_all(|model, mut session, rank| {
        let result = train(model, &mut session, (rank, before.ranks), 0..6)?;
        session.save(path)?;
        Ok(result)
    });
    after.on_all(|model, mut session, rank| {
        step(&mut session, 99, 8)?;
        session.load(path)?;
        assert_eq!(session.steps(), 6);
        assert_eq!(model.weights.to_safetensors()?, saved.1);
        session.check_ranks()?;
        train(model, &mut session, (rank, after.ranks), 6..12)
    })
}

#[test]
fn a_restart_with_other_ranks_goes_on_from_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let sharded = |ranks| Setup { is_sharded: true, ..Setup::new(ranks, DType::Bf16) };
    let plain = |ranks| Setup::new(ranks, DType::Bf16);
    let expected = plain(4).on_all(|model, mut session, rank| train(model, &mut session, (rank, 4), 0..12));
    for (before, after) in [(plain(4), sharded(4)), (sharded(4), plain(4)), (sharded(4), sharded(4))] {
        assert_eq!(resumed(&path, before, after).1, expected.1, "{before:?} {after:?}");
    }
    let two = resumed(&path, plain(4), plain(2));
    for before in [plain(4), sharded(4)] {
        assert_eq!(resumed(&path, before, sharded(2)), two, "{before:?}");
    }
    let mut alone = TwoLayers::new("multicore", DType::Bf16).session_with(AdamW::new(0.03).clip_norm(0.5));
    alone.load(&path).unwrap(); // a session without ranks reads the same file
    assert_eq!(alone.steps(), 6);
}

#[test]
fn all_ranks_report_a_file_that_rank_0_cannot_use() {
    let texts = Setup::new(2, DType::F32).on_all(|_, mut session, _| {
        let missing = session.load("no/such/file").unwrap_err().to_string();
        let folder = session.save("no/such/folder/model").unwrap_err().to_string();
        step(&mut session, 1, 8)?; // the ranks still agree
        Ok([missing, folder])
    });
    assert!(texts[0].starts_with("file `no/such/file`: "), "{}", texts[0]);
    assert!(texts[1].starts_with("file `no/such/folder/model`: rank 0: "), "{}", texts[1]);
}

#[test]
fn a_loss_that_is_not_finite_on_one_rank_stops_all() {
    let results = local::run(2, |transport| -> Outcome<_> {
        let rank = transport.rank();
        let (model, mut session) = Setup::new(2, DType::F32).session(transport, Duration::from_secs(60))?;
        step(&mut session, 1, 8)?;
        let before = model.weights.to_safetensors()?;
        let [(_, mut x), label] = batch(2, 8);
        if rank == 1 {
            x.set_values(&[f64::NAN; 16])?;
        }
        let error = session.step_by([("x", x), label])?.metrics().unwrap_err();
        assert_eq!(model.weights.to_safetensors()?, before);
        let TensorError::NotFinite { step: 1, cause } = error else { panic!("{error}") };
        step(&mut session, 3, 8)?;
        session.check_ranks()?;
        Ok(cause)
    });
    let causes: Vec<_> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(causes, [NonFiniteCause::OtherRank, NonFiniteCause::Input("x".into())]);
}

#[test]
fn a_rank_that_stops_is_named() {
    let results = local::run(2, |transport| -> Outcome<String> {
        let rank = transport.rank();
        let (_model, mut session) =
            Setup::new(2, DType::F32).session(transport, Duration::from_millis(300))?;
        if rank == 1 {
            return Ok(String::new());
        }
        let started = session.step_by(batch(1, 8))?;
        match started.metrics() {
            Err(TensorError::Ranks(error @ CollectiveError::Missing { .. })) => {
                assert!(matches!(session.step_by(batch(2, 8)), Err(TensorError::Ranks(_))));
                Ok(error.to_string())
            }
            other => panic!("{other:?}"),
        }
    });
    let text = results[0].as_ref().unwrap();
    assert!(text.contains("no call of rank 1 within 0.3 s") && text.contains("fc2_bias.grad"), "{text}");
}

#[test]
fn ranks_join_before_the_first_step() {
    let results = local::run(1, |transport| -> Outcome<bool> {
        let model = TwoLayers::new("inline", DType::F32);
        let group = Arc::new(HostGroup::new(transport, model.weights.backend().new_stream()?));
        let mut session = model.session();
        step(&mut session, 1, 8)?;
        Ok(matches!(session.over_ranks(Ranks::new(group)), Err(TensorError::Begun)))
    });
    assert!(results.into_iter().all(Result::unwrap));
}

/// Two parameters that are equal before and after each step; with a sharded optimizer each rank updates one.
#[test]
fn other_threads_see_whole_steps() {
    let seen = local::run(2, |transport| -> Outcome<usize> {
        let backend = Backend::open("multicore")?;
        let params = Params::new(0);
        let [a, b] = ["a", "b"].map(|name| params.parameter(name, [2000], Init::ONES));
        let (a, b) = (a?, b?);
        let weights = ModelState::new(&backend, &params)?;
        let graph = Graph::new();
        let difference = graph.apply("d[i] := a[i] - b[i]", &[("a", &a), ("b", &b)])?;
        let reading = graph.compile(&weights, &[&difference])?;
        let group = HostGroup::new(transport, backend.new_stream()?);
        let session = Session::new(&weights, Sgd::new(0.01), move |batch: &Batch| {
            let x = batch.input("x")?;
            (x.mul(&a)?.mul(&a)? + x.mul(&b)?.mul(&b)?)?.mean(..)
        })?;
        let mut session = session.over_ranks(Ranks::new(Arc::new(group)).sharded_optimizer(true))?;
        let x = HostArray::from_slice(&[1f32; 2000], [2000])?;
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| -> Outcome<usize> {
                let mut runs = 0;
                while !is_done.load(Ordering::Relaxed) {
                    let difference = reading.run(&[])?.remove(0).values();
                    assert_eq!(difference, [0.0; 2000], "a half of a step");
                    runs += 1;
                }
                Ok(runs)
            });
            let trained = (0..60).try_for_each(|_| session.step(&[("x", &x)]).map(drop));
            is_done.store(true, Ordering::Relaxed);
            let runs = reader.join().unwrap();
            trained?;
            runs
        })
    });
    assert!(seen.into_iter().all(|runs| runs.unwrap() > 0));
}
