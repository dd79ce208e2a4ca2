//! Optimizers against the same formulas on the host, schedules, clipping, and narrow parameters.

use arrayjit_tensor::{
    Backend, DType, Executable, Graph, HostArray, Init, ModelState, Params, Tensor, TensorError,
    TensorOperand,
    optim::{
        Adafactor, Adam, AdamW, Lamb, Lion, Muon, Optimizer, OptimizerState, ParameterUpdate, RmsProp,
        Schedule, Sgd, UpdateRule,
    },
};

const START: [f64; 3] = [1.0, -2.0, 0.5];

/// The loss Σ (w - x)², whose gradient is 2 (w - x), with its optimizer.
struct Quadratic {
    weights: ModelState,
    state: OptimizerState,
    step: Executable,
}

impl Quadratic {
    fn new<R: UpdateRule>(optimizer: &Optimizer<R>, dtype: DType) -> Result<Quadratic, TensorError> {
        let params = Params::new(1).with_dtype(dtype);
        let mut start = HostArray::zeros(dtype, [3])?;
        start.set_values(&START)?;
        let w = params.parameter("w", [3], Init::Values(start.into()))?;
        let weights = ModelState::new(&Backend::open("inline")?, &params)?;
        let graph = Graph::for_training();
        let x = graph.input("x", [3], DType::F32)?;
        let loss = graph.apply("d[i] := f32(w[i]) - x[i]; y :+= d[i] * d[i]", &[("w", &&w), ("x", &&x)])?;
        let state = OptimizerState::new(&weights);
        optimizer.update(&loss, &state)?;
        let step = graph.compile(&weights, &[&loss])?;
        Ok(Quadratic { weights, state, step })
    }

    fn step(&self, step: i64, x: [f32; 3]) -> Result<Vec<f64>, TensorError> {
        self.step.start(&[("x", &HostArray::from_slice(&x, [3])?)], &[("step", step)])?;
        self.w()
    }

    fn w(&self) -> Result<Vec<f64>, TensorError> {
        Ok(self.weights.state_dict()?["w"].values())
    }
}

/// Ten steps on the device and on the host, where `update` changes one element by its gradient in each step.
fn compare<R: UpdateRule>(optimizer: &Optimizer<R>, update: impl Fn(&mut f64, f64, i32, &mut [f64; 2])) {
    let quadratic = Quadratic::new(optimizer, DType::F32).unwrap();
    let mut expected = START.map(|w| (w, [0.0; 2]));
    for step in 0..10 {
        let found = quadratic.step(step, [0.0; 3]).unwrap();
        for ((w, state), found) in expected.iter_mut().zip(found) {
            let g = 2.0 * *w;
            update(w, g, step as i32 + 1, state);
            assert!((found - *w).abs() < 1e-5, "step {step}: {found}, expected {w}");
        }
    }
}

#[test]
fn sgd_with_momentum_decay_and_nesterov() {
    compare(&Sgd::new(0.1), |w, g, _, _| *w -= 0.1 * g);
    compare(&Sgd::new(0.1).weight_decay(0.5), |w, g, _, _| *w -= 0.1 * (g + 0.5 * *w));
    let momentum = Sgd::new(0.1).momentum(0.9).weight_decay(0.5);
    compare(&momentum, |w, g, _, [v, _]| {
        *v = 0.9 * *v + g + 0.5 * *w;
        *w -= 0.1 * *v;
    });
    compare(&momentum.clone().nesterov(true), |w, g, _, [v, _]| {
        let g = g + 0.5 * *w;
        *v = 0.9 * *v + g;
        *w -= 0.1 * (g + 0.9 * *v);
    });
}

#[test]
fn adam_with_and_without_weight_decay() {
    let adam = |w: &mut f64, g: f64, t: i32, [m, v]: &mut [f64; 2]| {
        *m = 0.9 * *m + 0.1 * g;
        *v = 0.99 * *v + 0.01 * g * g;
        *w -= 0.1 * (*m / (1.0 - 0.9f64.powi(t))) / ((*v / (1.0 - 0.99f64.powi(t))).sqrt() + 1e-6);
    };
    compare(&Adam::new(0.1).betas(0.9, 0.99).eps(1e-6), adam);
    compare(&AdamW::new(0.1).betas(0.9, 0.99).eps(1e-6).weight_decay(0.5), |w, g, t, state| {
        *w *= 1.0 - 0.1 * 0.5;
        adam(w, g, t, state);
    });
}

#[test]
fn lion_steps_along_signs() {
    compare(&Lion::new(0.1).betas(0.8, 0.9).weight_decay(0.5), |w, g, _, [m, _]| {
        let c = 0.8 * *m + 0.2 * g;
        *m = 0.9 * *m + 0.1 * g;
        *w = *w * (1.0 - 0.1 * 0.5) - 0.1 * c.signum();
    });
}

/// The norms of the parameter and of the step are over all three elements.
#[test]
fn lamb_scales_by_the_norms_of_parameters() {
    let lamb = Lamb::new(0.1).betas(0.9, 0.99).eps(1e-6).weight_decay(0.5);
    let quadratic = Quadratic::new(&lamb, DType::F32).unwrap();
    let (mut w, mut m, mut v) = (START, [0.0; 3], [0.0; 3]);
    let norm = |x: &[f64; 3]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
    for t in 1..=10 {
        let mut step = [0.0; 3];
        for at in 0..3 {
            let g = 2.0 * w[at];
            m[at] = 0.9 * m[at] + 0.1 * g;
            v[at] = 0.99 * v[at] + 0.01 * g * g;
            let (m, v) = (m[at] / (1.0 - 0.9f64.powi(t)), v[at] / (1.0 - 0.99f64.powi(t)));
            step[at] = m / (v.sqrt() + 1e-6) + 0.5 * w[at];
        }
        let ratio = norm(&w) / norm(&step);
        (0..3).for_each(|at| w[at] -= 0.1 * ratio * step[at]);
        let found = quadratic.step(i64::from(t) - 1, [0.0; 3]).unwrap();
        assert!(found.iter().zip(w).all(|(found, w)| (found - w).abs() < 1e-5), "{t}: {found:?}, {w:?}");
    }
}

#[test]
fn means_of_the_values_of_parameters() {
    let quadratic = Quadratic::new(&Sgd::new(0.1).average(0.75), DType::F32).unwrap();
    let w = quadratic.weights.params().all().remove(0);
    let mut expected = Vec::new();
    for step in 0..5 {
        let values = quadratic.step(step, [0.0; 3]).unwrap();
        match step {
            0 => expected = values,
            _ => expected.iter_mut().zip(values).for_each(|(mean, w)| *mean += 0.25 * (w - *mean)),
        }
        let found = quadratic.state.average(&w).unwrap().unwrap().values();
        assert!(found.iter().zip(&expected).all(|(found, mean)| (found - mean).abs() < 1e-6));
    }
    let without = Quadratic::new(&Sgd::new(0.1), DType::F32).unwrap();
    assert!(without.state.average(&w).unwrap().is_none());
}

#[test]
fn state_has_names_and_shapes_of_the_parameters() {
    let quadratic = Quadratic::new(&AdamW::new(0.1), DType::Bf16).unwrap();
    let arrays: Vec<_> = quadratic.state.arrays().iter().map(|array| format!("{array:?}")).collect();
    assert_eq!(arrays, ["halted i32[]", "adamw.m.w f32[3]", "adamw.v.w f32[3]", "adamw.rest.w f32[3]"]);
    assert_eq!(quadratic.weights.state_dict().unwrap().keys().collect::<Vec<_>>(), ["w"]);
}

#[test]
fn schedules_multiply_the_rate() {
    let schedule = Schedule::warm_up(4).times(Schedule::cosine_decay(8, 0.1));
    let schedule = schedule.times(Schedule::expression("recip(f32(@step) + 1)"));
    compare(&Sgd::new(0.5).schedule(schedule), |w, g, t, _| {
        let step = f64::from(t - 1);
        let cosine = 0.1 + 0.9 * (0.5 + 0.5 * (std::f64::consts::PI * (step / 8.0).min(1.0)).cos());
        *w -= 0.5 * ((step + 1.0) / 4.0).min(1.0) * cosine / (step + 1.0) * g;
    });
}

#[test]
fn gradients_are_clipped_by_their_norm() {
    let quadratic = Quadratic::new(&Sgd::new(1.0).clip_norm(0.1), DType::F32).unwrap();
    let found = quadratic.step(0, [0.0; 3]).unwrap();
    let norm = START.iter().map(|w| w * w).sum::<f64>().sqrt();
    for (found, w) in found.iter().zip(START) {
        assert!((found - (w - 0.1 * w / norm)).abs() < 1e-6, "{found}");
    }
    let quadratic = Quadratic::new(&Sgd::new(0.5).clip_norm(100.0), DType::F32).unwrap();
    assert_eq!(quadratic.step(0, [3.0, 4.0, 5.0]).unwrap(), [3.0, 4.0, 5.0]);
}

/// Updates far below the precision of bf16 add up, as they do in f32.
#[test]
fn narrow_parameters_keep_what_their_type_rounds_away() {
    for dtype in [DType::Bf16, DType::F16] {
        let quadratic = Quadratic::new(&Sgd::new(1e-4), dtype).unwrap();
        (0..1000).for_each(|step| drop(quadratic.step(step, [0.0; 3]).unwrap()));
        let found = quadratic.w().unwrap();
        let decay = (1.0 - 2e-4f64).powi(1000);
        for (found, w) in found.iter().zip(START) {
            assert!((found - w * decay).abs() < 4e-3 * w.abs(), "{dtype}: {found}, expected {}", w * decay);
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_changes_no_parameter() {
    let quadratic = Quadratic::new(&AdamW::new(0.1).clip_norm(1e30), DType::F32).unwrap();
    let before = quadratic.step(0, [0.0; 3]).unwrap();
    assert!(!quadratic.state.is_halted().unwrap());
    for (step, x) in [(1, f32::NAN), (2, 0.0), (3, f32::INFINITY)] {
        assert_eq!(quadratic.step(step, [x, 0.0, 0.0]).unwrap(), before);
        assert!(quadratic.state.is_halted().unwrap());
    }
    quadratic.state.clear_halt().unwrap();
    let after = quadratic.step(4, [0.0; 3]).unwrap();
    assert!(after.iter().zip(&before).all(|(after, before)| after.is_finite() && after != before));
}

/// A rule of a user: the sign of the gradient.
struct Sign;

impl UpdateRule for Sign {
    fn name(&self) -> &'static str {
        "sign"
    }

    fn update(&self, update: &ParameterUpdate<'_>) -> Result<(), TensorError> {
        update.apply(&["count"], "w[..] -= rate[] * where(g[..] > 0, 1, -1)\ncount[..] += t[]")
    }
}

#[test]
fn rules_may_be_written_in_assignment_text() {
    let quadratic = Quadratic::new(&Optimizer::with_rule(Sign, 0.25), DType::F64).unwrap();
    assert_eq!(quadratic.step(0, [0.0; 3]).unwrap(), [0.75, -1.75, 0.25]);
    quadratic.step(1, [0.0; 3]).unwrap();
    let count = &quadratic.state.arrays()[1];
    assert_eq!((count.name(), count.dtype()), ("sign.count.w", DType::F64));
    assert_eq!(quadratic.weights.get(count).unwrap().values(), [3.0; 3]);
}

#[test]
fn bad_arguments_are_named() {
    let build = |loss: fn(&Tensor) -> Result<Tensor, TensorError>, optimizer: &Sgd| {
        let params = Params::new(1);
        let w = params.parameter("w", [3], Init::ONES)?;
        let weights = ModelState::new(&Backend::open("inline")?, &params)?;
        let graph = Graph::new();
        let w = graph.apply("y[i] := 2 * w[i]", &[("w", &&w)])?;
        optimizer.update(&loss(&w)?, &OptimizerState::new(&weights))
    };
    let message = |result: Result<(), TensorError>| result.unwrap_err().to_string();
    let sum = |x: &Tensor| x.sum(..);
    assert!(message(build(|x| Ok(x.clone()), &Sgd::new(0.1))).contains("expected a scalar"));
    let found = message(build(sum, &Sgd::new(f64::NAN)));
    assert!(found.ends_with("rate is NaN, expected a finite number"), "{found}");
    let found = message(build(sum, &Sgd::new(0.1).average(1.0)));
    assert!(found.ends_with("average is 1, expected at least 0 and less than 1"), "{found}");
    let found = message(build(sum, &Sgd::new(0.1).group(|_| true, Sgd::new(f64::INFINITY))));
    assert!(found.ends_with("rate is inf, expected a finite number"), "{found}");
    let quadratic = |optimizer| message(Quadratic::new(&optimizer, DType::F32).map(drop));
    let found = quadratic(RmsProp::new(0.1).alpha(-1.0));
    assert!(found.ends_with("alpha is -1, expected a finite number, 0 or more"), "{found}");
    let found = message(Quadratic::new(&Adafactor::new(0.1).eps(0.0), DType::F32).map(drop));
    assert!(found.ends_with("eps is 0, expected a finite number above 0"), "{found}");
    let found = message(build(sum, &Sgd::new(0.1).clip_norm(0.0)));
    assert!(found.ends_with("clip_norm is 0, expected a finite number above 0"), "{found}");
    let found = message(build(sum, &Sgd::new(0.1).schedule(Schedule::expression("half"))));
    assert!(found.contains("`half`"), "{found}");
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &Params::new(1)).unwrap();
    let loss = Graph::new().input("x", [], DType::F32).unwrap();
    let error = Sgd::new(0.1).update(&loss, &OptimizerState::new(&weights)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("a loss that depends on no trainable parameter, expected a loss of parameters")
    );
}

/// The second update of a parameter has the gradient by the value that its loss was computed with.
#[test]
fn two_losses_with_an_update_each() -> Result<(), TensorError> {
    let params = Params::new(1);
    let w = params.parameter("w", [], Init::ONES)?;
    let unused = params.parameter("unused", [], Init::ONES)?;
    let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    let graph = Graph::for_training();
    let inputs: [(&str, &dyn TensorOperand); 2] = [("w", &&w), ("u", &&unused)];
    let [square, linear, _] =
        graph.apply_all("a := w[] * w[]\nb := 10 * w[]\nc := u[]", &inputs, ["a", "b", "c"])?;
    let sgd = Sgd::new(0.01).weight_decay(0.0);
    sgd.update(&square, &OptimizerState::new(&weights))?;
    sgd.update(&linear, &OptimizerState::new(&weights))?;
    let step = graph.compile(&weights, &[])?;
    step.start(&[], &[("step", 0)])?;
    assert!((weights.get(&w)?.values()[0] - 0.88).abs() < 1e-6, "1 - 0.01 * 2 - 0.01 * 10");

    // A parameter that the loss does not depend on stays as it is, also under a decay.
    let graph = Graph::for_training();
    let [loss, _] = graph.apply_all("a := w[] * w[]\nc := u[]", &inputs, ["a", "c"])?;
    Sgd::new(0.01).weight_decay(0.5).update(&loss, &OptimizerState::new(&weights))?;
    graph.compile(&weights, &[])?.start(&[], &[("step", 0)])?;
    assert_eq!(weights.get(&unused)?.values(), [1.0]);

    // A loss of old and new values has no whole gradient.
    let graph = Graph::for_training();
    let w = &w;
    let old = graph.apply("a := w[] * w[]", &[("w", &w)])?;
    sgd.update(&old, &OptimizerState::new(&weights))?;
    let both = graph.apply("b := a[] * w[]", &[("a", &old), ("w", &w)])?;
    let error = graph.gradients(&both, &[&w]).map(drop).unwrap_err().to_string();
    assert!(error.contains("depends on values of w from before and after"), "{error}");
    Ok(())
}

/// A gradient that is 0 because the loss does not depend on the parameter gives a warning.
#[test]
fn warnings_of_a_graph() -> Result<(), TensorError> {
    let params = Params::new(1);
    let [v, w] = [params.parameter("v", [], Init::ONES)?, params.parameter("w", [], Init::ONES)?];
    let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    let graph = Graph::new();
    let (v, w) = (&v, &w);
    let [loss, _] = graph.apply_all("a := w[] * w[]\nb := v[]", &[("v", &v), ("w", &w)], ["a", "b"])?;
    let gradients = graph.gradients(&loss, &[&w, &v])?;
    let model = graph.compile(&weights, &gradients.iter().collect::<Vec<_>>())?;
    let warnings: Vec<String> = model.warnings().iter().map(|warning| warning.kind().to_string()).collect();
    let expected = "the gradient of node a by v is zero: no statements with derivatives lead from v to a";
    assert_eq!(warnings, [expected]);
    Ok(())
}

/// The error of an expression shows what the user wrote, and where.
#[test]
fn a_misspelled_schedule() -> Result<(), TensorError> {
    let params = Params::new(1);
    let w = params.parameter("w", [], Init::ONES)?;
    let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    let graph = Graph::for_training();
    let loss = graph.apply("a := w[] * w[]", &[("w", &&w)])?;
    let misspelled = Schedule::warm_up(10).times(Schedule::expression("cosine(@step, 10)"));
    let error = Sgd::new(0.1).schedule(misspelled).update(&loss, &OptimizerState::new(&weights));
    let error = error.unwrap_err().to_string();
    let at = format!("Schedule::expression at {}:{}:", file!(), line!() - 3);
    assert!(error.starts_with(&at), "{error}");
    assert!(
        error.contains("the expression is `cosine(@step, 10)`, expected a number that depends on `@step`: ")
    );
    Ok(())
}

/// A tall matrix and its transpose, whose products are smaller from the other side, have the same steps; a
/// step has singular values near 1.
#[test]
fn muon_updates_tall_and_wide_matrices_alike() {
    let params = Params::new(1);
    let wide = params.parameter("wide", [2, 5], Init::ZEROS).unwrap();
    let tall = params.parameter("tall", [5, 2], Init::ZEROS).unwrap();
    let weights = ModelState::new(&Backend::open("inline").unwrap(), &params).unwrap();
    let graph = Graph::for_training();
    let c = graph.input("c", [2, 5], DType::F32).unwrap();
    let inputs: [(&str, &dyn TensorOperand); 3] = [("a", &&wide), ("b", &&tall), ("c", &c)];
    let loss = graph.apply("y :+= c[i,j] * (a[i,j] + b[j,i])", &inputs).unwrap();
    Muon::new(1.0).match_rms(true).update(&loss, &OptimizerState::new(&weights)).unwrap();
    let step = graph.compile(&weights, &[]).unwrap();
    let c = [0.3f32, -1.2, 0.7, 0.1, 2.0, 0.9, 0.4, -0.6, 1.1, 0.2];
    step.start(&[("c", &HostArray::from_slice(&c, [2, 5]).unwrap())], &[("step", 0)]).unwrap();
    let (wide, tall) = (weights.get(&wide).unwrap().values(), weights.get(&tall).unwrap().values());
    for (at, value) in wide.iter().enumerate() {
        assert!((value - tall[at % 5 * 2 + at / 5]).abs() < 1e-5, "{wide:?}: {tall:?}");
    }
    // The squares of the two singular values of the step without its factor 0.2 · √5, by the sum and the
    // product of them.
    let dot = |a: usize, b: usize| (0..5).map(|at| wide[5 * a + at] * wide[5 * b + at]).sum::<f64>() / 0.2;
    let (half, product) = ((dot(0, 0) + dot(1, 1)) / 2.0, dot(0, 0) * dot(1, 1) - dot(0, 1).powi(2));
    let root = (half * half - product).max(0.0).sqrt();
    let squares = [half + root, half - root];
    assert!(squares.iter().all(|square| (0.4..1.5).contains(square)), "{squares:?}");
}

/// Muon is for matrices, and the error of a vector says what to do.
#[test]
fn muon_names_parameters_that_are_no_matrices() {
    let error = Quadratic::new(&Muon::new(0.1), DType::F32).err().unwrap().to_string();
    assert!(error.contains("w has shape [3], expected 2 axes; a group gives"), "{error}");
    let grouped = Muon::new(0.1).group(|_| true, Sgd::new(0.25));
    assert_eq!(Quadratic::new(&grouped, DType::F32).unwrap().step(0, [0.0; 3]).unwrap(), [0.5, -1.0, 0.25]);
}
