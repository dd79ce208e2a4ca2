//! Scales of losses: gradients that would vanish, steps whose gradients overflow, and what halts.

use arrayjit_tensor::{
    Backend, Batch, DType, Executable, Graph, HostArray, Init, ModelState, Params, Session, TensorError,
    optim::{AdamW, LossScale, Optimizer, OptimizerState, Sgd, SgdRule},
};

use crate::sessions::{TwoLayers, batch};

/// The loss `factor · Σ w²` of weights in f32, multiplied in f16, with gradients that are rounded to f16.
struct Squares {
    weights: ModelState,
    state: OptimizerState,
    step: Executable,
}

impl Squares {
    fn new(optimizer: &Optimizer<SgdRule>) -> Result<Squares, TensorError> {
        let params = Params::new(1);
        let w = params.parameter("w", [4], Init::ONES)?;
        let weights = ModelState::new(&Backend::open("inline")?, &params)?;
        let (graph, state) = (Graph::for_training(), OptimizerState::new(&weights));
        graph.narrow_gradients(true);
        let factor = graph.input("factor", [], DType::F32)?;
        let text = "
            v[i] := w[i] * 1.0
            y[i] := f16(v[i])
            s :+= f32(y[i]) * f32(y[i])
            loss := factor[] * s[]";
        let loss = graph.apply(text, &[("w", &&w), ("factor", &&factor)])?;
        optimizer.update(&loss, &state)?;
        let step = graph.compile(&weights, &[&loss])?;
        Ok(Squares { weights, state, step })
    }

    /// The first weight and the scale after a step.
    fn step(&self, number: i64, factor: f32) -> Result<(f64, Option<f64>), TensorError> {
        let factor = HostArray::from_slice(&[factor], [])?;
        self.step.start(&[("factor", &factor)], &[("step", number)])?;
        Ok((self.weights.state_dict()?["w"].values()[0], self.state.loss_scale()?))
    }
}

#[test]
fn small_gradients_need_a_scale() {
    let rate = 1e7;
    let without = Squares::new(&Sgd::new(rate)).unwrap();
    assert_eq!(without.step(0, 1e-9).unwrap(), (1.0, None));
    let with = Squares::new(&Sgd::new(rate).loss_scale(LossScale::dynamic())).unwrap();
    let (w, scale) = with.step(0, 1e-9).unwrap();
    assert!((w - 0.98).abs() < 1e-5, "{w}");
    assert_eq!(scale, Some(65536.0));
}

#[test]
fn a_scale_is_halved_until_gradients_are_finite_and_doubled_later() {
    let scale = LossScale::dynamic().initial(32768.0).interval(3u32);
    let squares = Squares::new(&Sgd::new(0.01).loss_scale(scale)).unwrap();
    let mut scales = Vec::new();
    let mut values = Vec::new();
    for number in 0..7 {
        let (w, scale) = squares.step(number, 4.0).unwrap();
        scales.push(scale.unwrap());
        values.push(w);
        assert!(!squares.state.is_halted().unwrap());
    }
    // The gradient is 8 w times the scale, and 65,504 the greatest number of f16.
    assert_eq!(scales, [16384.0, 8192.0, 4096.0, 4096.0, 4096.0, 8192.0, 8192.0]);
    assert_eq!(values[..3], [1.0; 3]);
    let expected = [0.92, 0.8464, 0.7787, 0.7164];
    assert!(values[3..].iter().zip(expected).all(|(w, e)| (w - e).abs() < 1e-3), "{values:?}");
}

#[test]
fn a_loss_that_is_not_finite_halts_and_so_does_a_scale_of_one() {
    let scale = || LossScale::dynamic().initial(2.0);
    let squares = Squares::new(&Sgd::new(0.01).loss_scale(scale())).unwrap();
    assert_eq!(squares.step(0, f32::NAN).unwrap().0, 1.0);
    assert!(squares.state.is_halted().unwrap());
    let squares = Squares::new(&Sgd::new(0.01).loss_scale(scale())).unwrap();
    for (number, is_halted) in [(0, false), (1, true), (2, true)] {
        let (w, scale) = squares.step(number, 1e5).unwrap();
        assert_eq!((w, scale), (1.0, Some(1.0)));
        assert_eq!(squares.state.is_halted().unwrap(), is_halted);
    }
    squares.state.clear_halt().unwrap();
    assert!(squares.step(3, 1.0).unwrap().0 < 1.0);
}

/// A power of two changes no bit of a sum in f32, of one step or of micro-batches.
#[test]
fn sessions_learn_the_same_with_a_scale() -> Result<(), TensorError> {
    let train = |optimizer: AdamW, micro_batches: usize| -> Result<Vec<f64>, TensorError> {
        let session = TwoLayers::new("inline", DType::F32).session_with(optimizer);
        let mut session: Session = session.accumulate(micro_batches)?;
        for seed in 0..6 {
            session.step_by(batch(seed, 24))?.metrics()?;
        }
        Ok(session.model_state().state_dict()?.values().flat_map(HostArray::values).collect())
    };
    for micro_batches in [1, 3] {
        let expected = train(AdamW::new(0.03).clip_norm(0.2), micro_batches)?;
        let scaled = AdamW::new(0.03).clip_norm(0.2).loss_scale(LossScale::dynamic());
        assert_eq!(train(scaled, micro_batches)?, expected, "{micro_batches}");
    }
    Ok(())
}

#[test]
fn a_session_goes_on_behind_a_step_that_overflows() -> Result<(), TensorError> {
    let params = Params::new(1);
    let w = params.with_dtype(DType::F16).parameter("w", [2, 2], Init::ONES)?;
    let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    let scale = LossScale::dynamic().initial(16_777_216.0);
    let session = Session::new(&weights, Sgd::new(1e-3).loss_scale(scale), move |batch: &Batch| {
        let x = batch.input("x")?;
        x.graph().narrow_gradients(true);
        let y = x.to_dtype(DType::F16)?.matmul(&w)?;
        y.to_dtype(DType::F32)?.square()?.sum(..)
    });
    let mut session = session?;
    let x = HostArray::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2])?;
    let losses: Vec<f64> = (0..14)
        .map(|_| Ok(session.step(&[("x", &x)])?.metrics()?.loss()))
        .collect::<Result<_, TensorError>>()?;
    assert_eq!(losses[0], losses[5]);
    assert!(losses[13] < losses[0], "{losses:?}");
    Ok(())
}

#[test]
fn bad_scales_are_named() {
    let message = |scale: LossScale| match Squares::new(&Sgd::new(0.1).loss_scale(scale)) {
        Ok(_) => panic!("it is no scale"),
        Err(error) => error.to_string(),
    };
    for initial in [0.0, -1.0, f64::NAN, 1e9] {
        let text = message(LossScale::dynamic().initial(initial));
        assert!(text.contains("loss_scale") && text.contains("from 1 to 2^24"), "{text}");
    }
    let text = message(LossScale::dynamic().interval(0u32));
    assert!(text.contains("loss_scale.interval"), "{text}");
}
