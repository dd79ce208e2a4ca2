//! Losses that are not finite stop a session, which names the first cause.

use arrayjit_tensor::{
    Backend, DType, HostArray, Init, ModelState, Params, Tensor, TensorError,
    optim::Sgd,
    session::{Batch, NonFiniteCause, Session},
};
use codegen_testkit::gpu::or_skip;

/// A session for one parameter `head.w` of shape [3], of the loss that a closure computes.
fn session(loss: impl Fn(&Batch, &Tensor) -> Result<Tensor, TensorError> + Send + Sync + 'static) -> Session {
    let params = Params::new(1);
    let w = params.sub("head").parameter("w", [3], Init::Constant(0.5)).unwrap();
    let weights = ModelState::new(&Backend::open("multicore").unwrap(), &params).unwrap();
    let build = move |batch: &Batch| {
        let graph = batch.graph();
        let x = {
            let _scope = graph.enter("head");
            batch.input("x")?.mul(&w)?
        };
        loss(batch, &x)
    };
    Session::new(&weights, Sgd::new(0.001), build).unwrap()
}

fn step(session: &mut Session, x: [f32; 3]) -> Result<f64, TensorError> {
    Ok(session.step(&[("x", &HostArray::from_slice(&x, [3]).unwrap())])?.metrics()?.loss())
}

fn cause<T>(result: Result<T, TensorError>) -> (u64, NonFiniteCause) {
    match result {
        Err(TensorError::NotFinite { step, cause }) => (step, cause),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("expected an error"),
    }
}

fn weights(session: &Session) -> Vec<f64> {
    session.model_state().state_dict().unwrap()["head.w"].values()
}

/// The logarithm of `x` in the module `tail.0`, then other operations.
fn log_in_tail(batch: &Batch, x: &Tensor) -> Result<Tensor, TensorError> {
    let y = {
        let _scope = batch.graph().enter("tail.0");
        (x + 1.0)?.log()?
    };
    let _scope = batch.graph().enter("tail.1");
    (y * 2.0)?.square()?.sum(..)
}

#[test]
fn the_module_is_named_and_training_goes_on() {
    let mut session = session(log_in_tail);
    step(&mut session, [1.0; 3]).unwrap();
    let before = weights(&session);
    let error = step(&mut session, [1.0, -10.0, 1.0]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("the loss of step 1 is not finite: the result of `log` in module `tail.0` at "),
        "{text}"
    );
    assert!(text.contains("non_finite.rs"), "{text}");
    assert_eq!(weights(&session), before);
    assert!(step(&mut session, [1.0; 3]).unwrap().is_finite());
    assert_ne!(weights(&session), before);
}

/// An evaluation names the batch, the metric and the module, and changes nothing.
#[test]
fn evaluations_name_the_module_too() {
    let session = session(|batch, x| {
        {
            let _scope = batch.graph().enter("metrics");
            batch.metric("entropy", &x.add(2.0)?.log()?.mean(..)?)?;
        }
        log_in_tail(batch, x)
    });
    let batches = |last: f32| {
        let batch = |x: f32| [("x", HostArray::from_slice(&[1.0, x, 1.0], [3]).unwrap())];
        [batch(1.0), batch(0.5), batch(last)]
    };
    let before = weights(&session);
    let message = |last: f32| session.evaluate(batches(last)).unwrap_err().to_string();
    let found = message(-3.0);
    assert!(
        found.starts_with(
            "the loss of batch 2 of the evaluation is not finite: the result of `log` in module `tail.0` at "
        ),
        "{found}"
    );
    let found = message(f32::NAN);
    assert!(found.ends_with("is not finite: input `x` is not finite"), "{found}");
    assert!(session.evaluate(batches(2.0)).unwrap().loss().is_finite());
    assert_eq!((weights(&session), session.steps()), (before, 0));

    let metric = self::session(|batch, x| {
        let _scope = batch.graph().enter("metrics");
        batch.metric("entropy", &x.log()?.mean(..)?)?;
        x.square()?.sum(..)
    });
    match metric.evaluate(batches(-1.0)).unwrap_err() {
        TensorError::NotFiniteEvaluation { metric, batch: 2, cause } => {
            assert_eq!(metric, "entropy");
            assert!(
                matches!(&cause, NonFiniteCause::Module { module, operation: "log", .. } if module == "metrics"),
                "{cause}"
            );
        }
        other => panic!("{other}"),
    }
}

/// Steps after the first one change nothing, and are not blamed.
#[test]
fn the_first_of_several_steps_is_named() {
    let mut session = session(log_in_tail);
    let batches = (0..60).map(|step| {
        let x = if step == 17 { [-10.0f32; 3] } else { [1.0; 3] };
        [("x", HostArray::from_slice(&x, [3]).unwrap())]
    });
    let (step, cause) = cause(session.fit(batches, |_| {}));
    assert_eq!(step, 17);
    assert!(
        matches!(&cause, NonFiniteCause::Module { module, operation: "log", .. } if module == "tail.0"),
        "{cause}"
    );
    assert!(weights(&session).iter().all(|w| w.is_finite()));
}

/// A session reads the losses of its steps at the latest after 64 of them.
#[test]
fn losses_that_nobody_reads_stop_a_session() {
    let mut session = session(log_in_tail);
    let array = |x: f32| HostArray::from_slice(&[x; 3], [3]).unwrap();
    let stopped =
        (0..100).map(|step| session.step(&[("x", &array(if step < 5 { 1.0 } else { -10.0 }))]).map(drop));
    let stopped = stopped.take_while(Result::is_ok).count();
    assert_eq!(stopped, 64);
}

#[test]
fn inputs_and_parameters_are_named() {
    let mut session = session(|_, x| x.square()?.sum(..));
    let (at, found) = cause(step(&mut session, [1.0, f32::INFINITY, 1.0]));
    assert_eq!((at, found), (0, NonFiniteCause::Input("x".into())));
    let w = session.model_state().params().get("head.w").unwrap();
    session.model_state().set(&w, HostArray::from_slice(&[1.0, f32::NAN, 1.0], [3]).unwrap()).unwrap();
    let error = step(&mut session, [1.0; 3]).unwrap_err().to_string();
    assert_eq!(error, "the loss of step 1 is not finite: parameter `head.w` is not finite before the step");
}

/// An infinity that a softmax removes is no cause, nor is the constant that masks with it.
#[test]
fn masks_are_not_blamed() {
    let mut session = session(|batch, x| {
        let masked = {
            let _scope = batch.graph().enter("attention");
            let mask = batch.graph().arange(3)?.gt(1)?;
            x.masked_fill(&mask, f64::NEG_INFINITY)?.softmax(0)?
        };
        let _scope = batch.graph().enter("norm");
        masked.sum(..)?.sub(1.5)?.sqrt()?.add(x.sum(..)?)
    });
    let (_, found) = cause(step(&mut session, [1.0; 3]));
    assert!(
        matches!(&found, NonFiniteCause::Module { module, operation: "sqrt", .. } if module == "norm"),
        "{found}"
    );
}

#[test]
fn gradients_that_are_not_finite_change_nothing() {
    let root = |_: &Batch, x: &Tensor| x.sqrt()?.sum(..);
    for checks in [false, true] {
        let mut session = session(root).check_every_step(checks);
        let (at, found) = cause(step(&mut session, [0.0, 1.0, 1.0]));
        assert_eq!((at, found), (0, NonFiniteCause::Gradient("head.w".into())));
        assert_eq!(weights(&session), [0.5; 3]);
        step(&mut session, [1.0; 3]).unwrap();
        assert!(weights(&session).iter().all(|w| *w < 0.5));
    }
}

/// The squares of these gradients overflow, the gradients do not.
#[test]
fn huge_gradients_are_finite() {
    let mut session = session(|_, x| x.sum(..));
    step(&mut session, [1e25, 1.0, 1.0]).unwrap();
    assert!((weights(&session)[0] + 1e22).abs() < 1e16);
}

type Operation = fn(&Tensor) -> Result<Tensor, TensorError>;

/// A NaN of one element of the batch reaches the loss through a relu, a clamp, a maximum and a pool.
#[test]
fn nan_passes_to_the_loss() {
    let through: [Operation; 6] = [
        |x| x.relu(),
        |x| x.clamp(0.0, 1.0),
        |x| x.maximum(0.0),
        |x| x.minimum(&x.mul(2.0)?),
        |x| x.max(..),
        |x| x.reshape(&[1, 1, 1, 3])?.max_pool2d(1),
    ];
    for through in through {
        let mut session = session(move |_, x| through(x)?.sum(..));
        let (_, found) = cause(step(&mut session, [1.0, f32::NAN, 1.0]));
        assert_eq!(found, NonFiniteCause::Input("x".into()));
        assert_eq!(weights(&session), [0.5; 3]);
    }
}

#[test]
fn losses_on_a_gpu_are_checked_too() {
    if or_skip("losses_on_a_gpu_are_checked_too", Backend::open("wgpu")).is_none() {
        return;
    }
    let params = Params::new(1);
    let w = params.parameter("w", [3], Init::Constant(0.5)).unwrap();
    let weights = ModelState::new(&Backend::open("wgpu").unwrap(), &params).unwrap();
    let session = Session::new(&weights, Sgd::new(0.1), move |batch: &Batch| {
        let _scope = batch.graph().enter("tail");
        batch.input("x")?.mul(&w)?.log()?.sum(..)
    });
    let mut session = session.unwrap();
    step(&mut session, [1.0; 3]).unwrap();
    let (at, found) = cause(step(&mut session, [1.0, -1.0, 1.0]));
    assert_eq!(at, 1);
    assert!(matches!(&found, NonFiniteCause::Module { operation: "log", .. }), "{found}");
    assert_eq!(session.model_state().params().all()[0].dtype(), DType::F32);
}
