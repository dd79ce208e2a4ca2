//! Optimizers: statements that update parameters by gradients, within the compiled step.
//!
//! An [`Optimizer`] joins an [`UpdateRule`] with a [`Schedule`] of the learning rate and clipping. The rate
//! and the count of steps are values of the graph that depend on the symbol `@step`, so a schedule needs no
//! compilation.
//!
//! **Precision.** The state of a rule, such as the moments of Adam, is stored in f32, and in f64 for
//! parameters of f64. A parameter of bf16 or f16 has a further state named `rest`: its value in f32 minus its
//! stored value. Both together are a master copy in f32, so updates below the precision of the stored type
//! are not lost. A `rest` starts at zero, and values that are set from outside need no second copy.
//!
//! **Guard.** A step whose loss or gradient is not finite changes no parameter, nor do later steps until
//! [`OptimizerState::clear_halt`] is called: the parameters are those with which the step began. With
//! clipping, the same holds for the norm of the gradients. The moments of the guarded steps decay as if their
//! gradients were zero. With a [`LossScale`], gradients that are not finite guard their own step only, while
//! the scale can be halved.

mod adam; // Adam and AdamW
mod group; // parameters with options of their own
mod layer_wise; // LAMB and Adafactor
mod lion; // Lion
mod loss_scale; // factors of losses
mod muon; // Muon
mod root_mean_square; // RMSprop and Adagrad
mod rule; // the update of one parameter
mod schedule; // factors of the learning rate
mod sgd; // gradient descent
mod state; // arrays of optimizers

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use arrayjit::DType;

pub use self::{
    adam::{Adam, AdamRule, AdamW, AdamWRule},
    layer_wise::{Adafactor, AdafactorRule, Lamb, LambRule},
    lion::{Lion, LionRule},
    loss_scale::LossScale,
    muon::{Muon, MuonRule},
    root_mean_square::{Adagrad, AdagradRule, RmsProp, RmsPropRule},
    rule::{ParameterUpdate, UpdateRule},
    schedule::Schedule,
    sgd::{Sgd, SgdRule},
    state::OptimizerState,
};
use crate::{
    error::{Call, Result, TensorError, misfit},
    graph::Graph,
    operand::{Argument, TensorOperand, number},
    optim::{
        group::{ParameterGroup, UpdateOptions},
        loss_scale::multiplied,
        state::average_name,
    },
    options::options,
    parameter::Parameter,
    sample::STEP,
    shape::whole,
    tensor::Tensor,
};

/// An update rule with the learning rate, its schedule, and clipping: [`Sgd`], [`Adam`], [`AdamW`],
/// [`RmsProp`], [`Adagrad`], [`Lion`], [`Lamb`], [`Adafactor`], [`Muon`], or a rule of your own.
///
/// ```
/// use arrayjit_tensor::optim::{AdamW, Schedule};
///
/// let schedule = Schedule::warm_up(100).times(Schedule::cosine_decay(1000, 0.1));
/// let optimizer = AdamW::new(3e-4).weight_decay(0.1).schedule(schedule).clip_norm(1.0);
/// # let _ = optimizer;
/// ```
#[derive(Clone, Debug)]
pub struct Optimizer<R> {
    options: UpdateOptions<R>,
    groups: Vec<ParameterGroup>,
    clip_norm: Option<f64>,
    average: Option<f64>,
    loss_scale: Option<LossScale>,
}

impl<R: UpdateRule> Optimizer<R> {
    /// An optimizer with a rule and a constant learning rate.
    ///
    /// ```
    /// use arrayjit_tensor::{TensorError, optim::{Optimizer, ParameterUpdate, UpdateRule}};
    ///
    /// /// A step along the signs of the gradient.
    /// struct Sign;
    ///
    /// impl UpdateRule for Sign {
    ///     fn name(&self) -> &'static str {
    ///         "sign"
    ///     }
    ///
    ///     fn update(&self, update: &ParameterUpdate<'_>) -> Result<(), TensorError> {
    ///         update.apply(&[], "w[..] -= rate[] * where(g[..] > 0, 1, -1)")
    ///     }
    /// }
    ///
    /// let optimizer = Optimizer::with_rule(Sign, 0.1).clip_norm(1.0);
    /// # let _ = optimizer;
    /// ```
    pub fn with_rule(rule: R, rate: f64) -> Optimizer<R> {
        let options = UpdateOptions { rule, rate, schedule: Schedule::constant() };
        Optimizer { options, groups: Vec::new(), clip_norm: None, average: None, loss_scale: None }
    }

    options! {
        /// Multiplies the learning rate by a factor that depends on the step.
        schedule: Schedule => options.schedule;
        /// Scales the gradients down if the norm of all gradients together exceeds this limit.
        clip_norm: f64 => clip_norm;
        /// Keeps an exponential mean of the values of each parameter, which decays by this factor per step
        /// and begins with the values after the first step. See [`OptimizerState::average`] and
        /// [`Session::averages`](crate::Session::averages).
        average: f64 => average;
        /// Scales the loss, so that gradients in f16 do not vanish.
        loss_scale: LossScale => loss_scale;
    }

    /// The optimizer without the type of its rule.
    pub(crate) fn shared(self) -> Optimizer<Arc<dyn UpdateRule>>
    where
        R: 'static,
    {
        let Optimizer { options, groups, clip_norm, average, loss_scale } = self;
        Optimizer { options: options.shared(), groups, clip_norm, average, loss_scale }
    }

    /// The position of the group of the parameter of that name, if it belongs to one.
    fn group_of(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.contains(name))
    }

    /// The rule of a group, or of parameters without one, with the rate and its schedule.
    fn options_in(&self, group: Option<usize>) -> (&dyn UpdateRule, f64, &Schedule) {
        match group.and_then(|at| self.groups.get(at)) {
            Some(group) => group.options.parts(),
            None => self.options.parts(),
        }
    }

    /// Adds statements to the graph of `loss`: the gradients by all trainable parameters that the loss
    /// depends on, and the updates of these parameters. Each run of the compiled graph is then one step, and
    /// its symbol `step` counts the steps from 0.
    ///
    /// A graph may have several losses with an update each, also of the same parameters: an update comes
    /// after those before it, and its gradients are the ones by the values that its loss was computed with.
    /// [`update_of`](Optimizer::update_of) updates some parameters only.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, Graph, Init, Params, ModelState, optim::{OptimizerState, Sgd}};
    ///
    /// let params = Params::new(1);
    /// let w = params.parameter("w", [3], Init::ONES)?;
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let graph = Graph::for_training();
    /// let loss = graph.apply("y :+= w[i] * w[i]", &[("w", &&w)])?;
    /// Sgd::new(0.25).update(&loss, &OptimizerState::new(&weights))?;
    /// graph.compile(&weights, &[])?.start(&[], &[("step", 0)])?;
    /// assert_eq!(weights.get(&w)?.values(), [0.5; 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A loss of several elements or of integers, an operation without a derivative, no trainable parameter,
    /// a rate, schedule or rule that is no number, or parameters of the state that have other shapes.
    #[track_caller]
    pub fn update(&self, loss: &Tensor, state: &OptimizerState) -> Result<()> {
        self.update_guarded(Call::new("update"), loss, None, state).map(drop)
    }

    /// [`update`](Optimizer::update) of the given parameters only: of one of several groups of parameters, or
    /// of one of two networks that are trained against each other.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, Graph, Init, Params, ModelState, optim::{OptimizerState, Sgd}};
    ///
    /// let params = Params::new(1);
    /// let [a, b] = [params.parameter("a", [], Init::ONES)?, params.parameter("b", [], Init::ONES)?];
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let graph = Graph::for_training();
    /// let loss = graph.apply("y := a[] * b[]", &[("a", &&a), ("b", &&b)])?;
    /// Sgd::new(0.5).update_of(&loss, &[&a], &OptimizerState::new(&weights))?;
    /// Sgd::new(0.25).update_of(&loss, &[&b], &OptimizerState::new(&weights))?;
    /// graph.compile(&weights, &[])?.start(&[], &[("step", 0)])?;
    /// assert_eq!(weights.get(&a)?.values(), [0.5]);
    /// assert_eq!(weights.get(&b)?.values(), [0.75]); // by the value that the loss was computed with
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`update`](Optimizer::update).
    #[track_caller]
    pub fn update_of(&self, loss: &Tensor, parameters: &[&Parameter], state: &OptimizerState) -> Result<()> {
        self.update_guarded(Call::new("update_of"), loss, Some(parameters), state).map(drop)
    }

    /// [`update`](Optimizer::update) of all or of `only` some parameters, which returns 1 if the step is not
    /// guarded, else 0. A loss or a gradient that is not finite guards a step.
    pub(crate) fn update_guarded(
        &self,
        call: Call,
        loss: &Tensor,
        only: Option<&[&Parameter]>,
        state: &OptimizerState,
    ) -> Result<Tensor> {
        let graph = loss.graph();
        let mut parameters = graph.parameters();
        let is_chosen = |parameter: &Parameter| only.is_none_or(|only| only.contains(&parameter));
        parameters.retain(|parameter| parameter.is_trainable() && is_chosen(parameter));
        if parameters.is_empty() {
            return Err(no_parameter(call, graph));
        }
        let by: Vec<_> = parameters.iter().collect();
        let by: Vec<&dyn TensorOperand> =
            by.iter().map(|parameter| parameter as &dyn TensorOperand).collect();
        let gradients = self.gradients(call, loss, &by, state)?;
        let reached = parameters.into_iter().zip(gradients).filter(|(_, (_, is_reached))| *is_reached);
        let gradients: Vec<_> = reached.map(|(parameter, (gradient, _))| (parameter, gradient)).collect();
        if gradients.is_empty() {
            return Err(no_parameter(call, graph));
        }
        let all: Vec<Tensor> = gradients.iter().map(|(_, gradient)| gradient.clone()).collect();
        let norm = self.global_norm(call, graph, &all)?;
        self.apply(call, (loss, &norm), &gradients, state)
    }

    /// The gradients of a loss, each with whether the loss depends on the parameter: those of the scaled
    /// loss, divided by the scale.
    pub(crate) fn gradients(
        &self,
        call: Call,
        loss: &Tensor,
        by: &[&dyn TensorOperand],
        state: &OptimizerState,
    ) -> Result<Vec<(Tensor, bool)>> {
        let graph = loss.graph();
        let Some(loss_scale) = &self.loss_scale else { return graph.reached_gradients(call, loss, by) };
        let scale = loss_scale.current(call, graph, state)?;
        let scaled = multiplied(call, loss, &scale, false)?;
        let gradients = graph.reached_gradients(call, &scaled, by)?.into_iter();
        let unscaled = |(gradient, is_reached): (Tensor, bool)| {
            Ok((multiplied(call, &gradient, &scale, true)?, is_reached))
        };
        gradients.map(unscaled).collect()
    }

    /// The norm of all gradients, in f32; without a limit, a value that is finite only if all elements are.
    pub(crate) fn global_norm(&self, call: Call, graph: &Graph, gradients: &[Tensor]) -> Result<Tensor> {
        let squares = gradients.iter().map(|gradient| self.square_sum(call, gradient));
        norm_of_squares(call, graph, &squares.collect::<Result<Vec<_>, _>>()?)
    }

    /// The sum of the squares of all elements, in f32. Without a limit on the norm, the greatest magnitude,
    /// because the squares of finite elements may be infinite.
    pub(crate) fn square_sum(&self, call: Call, gradient: &Tensor) -> Result<Tensor> {
        let g = whole("g", gradient.rank());
        let sum = match self.clip_norm {
            Some(_) => format!("s := square_sum({g})"),
            None => format!("s :max= abs({g})"),
        };
        let inputs = [("g", Argument::Tensor(gradient))];
        // A gradient without elements has the greatest magnitude −∞.
        gradient.graph().result(call, &inputs, |y| format!("{sum}\n{y} := f32(max(s, 0))"))
    }

    /// Adds the updates of parameters by their gradients to the graph of the loss. Returns 1 if the step
    /// changes parameters or only its scale was too large, else 0.
    pub(crate) fn apply(
        &self,
        call: Call,
        (loss, norm): (&Tensor, &Tensor),
        gradients: &[(Parameter, Tensor)],
        state: &OptimizerState,
    ) -> Result<Tensor> {
        let graph = loss.graph();
        self.check(call, graph)?;
        let is_finite = self.is_finite(call, loss, norm, state)?;
        let count = graph.result(call, &[], |y| format!("{y} := f32(@step + 1) where {STEP}"))?;
        let mut rates: BTreeMap<Option<usize>, Tensor> = BTreeMap::new();
        for (parameter, gradient) in gradients {
            let group = self.group_of(parameter.name());
            let (rule, rate, schedule) = self.options_in(group);
            let rate = match rates.entry(group) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(guarded_rate(call, (rate, schedule), &is_finite)?),
            };
            let gradient = self.guarded_gradient(call, gradient, norm, &is_finite)?;
            let (name, gradient, count) = (rule.name(), &gradient, &count);
            rule.update(&ParameterUpdate { call, rule: name, parameter, gradient, rate, count, state })?;
            self.update_average(call, (graph, count), parameter, state)?;
        }
        if self.loss_scale.is_none() {
            return Ok(is_finite);
        }
        let halted = state.halted()?;
        graph.result(call, &[("halted", Argument::Parameter(&halted))], |y| format!("{y} := 1 - halted[]"))
    }

    /// Adds statements that move the mean of the values of a parameter towards the new ones.
    fn update_average(
        &self,
        call: Call,
        (graph, count): (&Graph, &Tensor),
        parameter: &Parameter,
        state: &OptimizerState,
    ) -> Result<()> {
        let Some(decay) = self.average else { return Ok(()) };
        let dtype = if parameter.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let array = state.array(&average_name(parameter), parameter.shape(), dtype)?;
        let [a, w] = ["a", "w"].map(|name| whole(name, parameter.shape().len()));
        let inputs = [
            ("a", Argument::Parameter(&array)),
            ("w", Argument::Parameter(parameter)),
            ("t", Argument::Tensor(count)),
        ];
        let rest = number(1.0 - decay);
        let text = format!("{a} += where(t[] == 1, 1, {rest}) * ({dtype}({w}) - {a})");
        graph.emit(call, &text, &inputs, &[]).map(drop)
    }

    /// The arrays of the state that the rule has for these parameters.
    pub(crate) fn arrays(&self, parameters: &[Parameter], state: &OptimizerState) -> Result<Vec<Parameter>> {
        let (call, graph) = (Call::new("update"), Graph::new());
        // The state may have arrays of other parameters too, such as frozen ones.
        let own = OptimizerState::without_memory(state.weights());
        let scalar = |name| graph.input(name, [], DType::F32);
        let (rate, count) = (&scalar("rate")?, &scalar("count")?);
        for (at, parameter) in parameters.iter().enumerate() {
            let dtype = if parameter.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
            let shape = parameter.shape().iter().copied();
            let (rule, ..) = self.options_in(self.group_of(parameter.name()));
            let (name, gradient) = (rule.name(), &graph.input(&format!("gradient_{at}"), shape, dtype)?);
            rule.update(&ParameterUpdate {
                call,
                rule: name,
                parameter,
                gradient,
                rate,
                count,
                state: &own,
            })?;
            self.update_average(call, (&graph, count), parameter, &own)?;
        }
        let arrays = own.arrays().into_iter();
        arrays.map(|array| state.array(array.name(), array.shape(), array.dtype())).collect()
    }

    fn check(&self, call: Call, graph: &Graph) -> Result<()> {
        self.options.check(call, graph)?;
        self.groups.iter().try_for_each(|group| group.options.check(call, graph))?;
        self.loss_scale.iter().try_for_each(|scale| scale.check(call, graph))?;
        let is_limit = |limit: f64| limit > 0.0 && limit.is_finite();
        if let Some(limit) = self.clip_norm.filter(|&limit| !is_limit(limit)) {
            return Err(graph.fail(call, misfit("clip_norm", limit, "a finite number above 0")));
        }
        match self.average {
            Some(decay) if !(0.0..1.0).contains(&decay) => {
                Err(graph.fail(call, misfit("average", decay, "at least 0 and less than 1")))
            }
            _ => Ok(()),
        }
    }

    /// 1 if the loss and the norm are finite and no earlier step halted, else 0.
    fn is_finite(&self, call: Call, loss: &Tensor, norm: &Tensor, state: &OptimizerState) -> Result<Tensor> {
        let halted = state.halted()?;
        let loss = loss.reshape(&[])?;
        let inputs = [
            ("loss", Argument::Tensor(&loss)),
            ("norm", Argument::Tensor(norm)),
            ("halted", Argument::Parameter(&halted)),
        ];
        let within = |value: &str| format!("abs({value}) <= 3.4e38");
        let wide = if loss.dtype() == DType::F64 { "loss[]" } else { "f32(loss[])" };
        let (loss_within, norm_within) = (within(wide), within("norm[]"));
        let condition = format!("and(halted[] == 0, and({loss_within}, {norm_within}))");
        let graph = loss.graph();
        let is_finite = graph.result(call, &inputs, |y| format!("{y} := i32({condition})"))?;
        match &self.loss_scale {
            Some(scale) => scale.update(call, (&loss, &loss_within), &is_finite, state)?,
            None => {
                let inputs =
                    [("is_finite", Argument::Tensor(&is_finite)), ("halted", Argument::Parameter(&halted))];
                graph.emit(call, "halted[] := 1 - is_finite[]", &inputs, &[])?;
            }
        }
        Ok(is_finite)
    }

    /// The clipped gradient; 0 in a guarded step.
    fn guarded_gradient(
        &self,
        call: Call,
        gradient: &Tensor,
        norm: &Tensor,
        is_finite: &Tensor,
    ) -> Result<Tensor> {
        let rank = gradient.rank();
        let (g, clipped) = (whole("g", rank), whole("clipped", rank));
        let guarded = |y: &str, g: &str| format!("{} := where(is_finite[] == 1, {g}, 0)", whole(y, rank));
        let mut inputs = vec![("g", Argument::Tensor(gradient)), ("is_finite", Argument::Tensor(is_finite))];
        match self.clip_norm {
            Some(limit) => {
                inputs.push(("norm", Argument::Tensor(norm)));
                let limit = number(limit);
                gradient.graph().result(call, &inputs, |y| {
                    let clip = format!("{clipped} := {g}\nclip_by_norm({clipped}, norm[], {limit})\n");
                    clip + &guarded(y, &clipped)
                })
            }
            None => gradient.graph().result(call, &inputs, |y| guarded(y, &g)),
        }
    }
}

/// The learning rate of the step; 0 in a guarded step.
fn guarded_rate(call: Call, (rate, schedule): (f64, &Schedule), is_finite: &Tensor) -> Result<Tensor> {
    let (rate, factor) = (number(rate), schedule.text());
    is_finite.graph().result(call, &[("is_finite", Argument::Tensor(is_finite))], |y| {
        format!("{y} := where(is_finite[] == 1, f32({rate} * {factor}), 0.0) where {STEP}")
    })
}

/// The norm of all gradients, of which each has the given sum of squares.
pub(crate) fn norm_of_squares(call: Call, graph: &Graph, squares: &[Tensor]) -> Result<Tensor> {
    let mut total = graph.result(call, &[], |y| format!("{y} := f32(0)"))?;
    for squares in squares {
        let inputs = [("s", Argument::Tensor(squares)), ("total", Argument::Tensor(&total))];
        total = graph.result(call, &inputs, |y| format!("{y} := total[] + s[]"))?;
    }
    let inputs = [("total", Argument::Tensor(&total))];
    graph.result(call, &inputs, |y| format!("{y} := sqrt(total[])"))
}

fn no_parameter(call: Call, graph: &Graph) -> TensorError {
    graph.fail(call, misfit("loss", "a loss that depends on no trainable parameter", "a loss of parameters"))
}
