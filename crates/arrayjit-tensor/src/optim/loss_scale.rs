//! Scales of losses, so that gradients in f16 do not vanish.
//!
//! The gradients of a loss times a factor are divided by that factor before anything else happens to them. A
//! step whose gradients are not finite changes no parameter and halves the factor; many steps in a row with
//! finite gradients double it.
//!
//! Source: Micikevicius et al., Mixed precision training, 2018.

use arrayjit::DType;

use crate::{
    error::{Call, Result, misfit},
    graph::Graph,
    operand::{Argument, number},
    optim::state::{LOSS_SCALE, OptimizerState},
    options::options,
    parameter::Parameter,
    shape::whole,
    tensor::Tensor,
};

/// The greatest scale: the sums of gradients in f32 have room above it.
const GREATEST: f64 = (1u64 << 24) as f64;

/// A scale of the loss for gradients that are rounded to f16
/// ([`Graph::narrow_gradients`](crate::Graph::narrow_gradients)), where those below 6e-8 are 0: torch's
/// `GradScaler`. It is a factor from 1 to 2²⁴, whose powers of two change no other bit of a gradient.
///
/// ```
/// use arrayjit_tensor::optim::{AdamW, LossScale};
///
/// let optimizer = AdamW::new(3e-4).loss_scale(LossScale::dynamic().initial(4096.0).interval(500u32));
/// # let _ = optimizer;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LossScale {
    initial: f64,
    interval: u32,
}

impl LossScale {
    /// A scale that begins with 65,536, is halved by a step whose gradients are not finite, and doubled after
    /// 2,000 steps in a row whose gradients are. A step without finite gradients changes no parameter. It is
    /// an error only if the loss is not finite either, or if the scale has come down to 1.
    pub fn dynamic() -> LossScale {
        LossScale { initial: 65536.0, interval: 2000 }
    }

    options! {
        /// The scale of the first step, from 1 to 2²⁴.
        initial: f64 => initial;
        /// The number of steps with finite gradients after which the scale is doubled.
        interval: u32 => interval;
    }

    pub(super) fn check(&self, call: Call, graph: &Graph) -> Result<()> {
        if !(1.0..=GREATEST).contains(&self.initial) {
            return Err(graph.fail(call, misfit("loss_scale", self.initial, "from 1 to 2^24")));
        }
        match self.interval {
            0 => Err(graph.fail(call, misfit("loss_scale.interval", 0, "at least 1"))),
            _ => Ok(()),
        }
    }

    /// The scale of this step.
    pub(super) fn current(&self, call: Call, graph: &Graph, state: &OptimizerState) -> Result<Tensor> {
        let scale = scale(state)?;
        let initial = number(self.initial);
        let inputs = [("scale", Argument::Parameter(&scale))];
        graph.result(call, &inputs, |y| format!("{y} := where(scale[] == 0, {initial}, scale[])"))
    }

    /// Adds the statements after a step: whether it halts later ones, and the scale of the next one.
    /// `is_finite` is 1 if the step changed parameters, `loss_within` the condition that the loss is finite.
    pub(super) fn update(
        &self,
        call: Call,
        (loss, loss_within): (&Tensor, &str),
        is_finite: &Tensor,
        state: &OptimizerState,
    ) -> Result<()> {
        let (graph, halted) = (is_finite.graph(), state.halted()?);
        let current = self.current(call, graph, state)?;
        let inputs = [
            ("loss", Argument::Tensor(loss)),
            ("is_finite", Argument::Tensor(is_finite)),
            ("current", Argument::Tensor(&current)),
            ("halted", Argument::Parameter(&halted)),
        ];
        let is_large = format!("and(halted[] == 0, and({loss_within}, current[] > 1))");
        let text = format!("halted[] := where(or(is_finite[] == 1, {is_large}), 0, 1)");
        graph.emit(call, &text, &inputs, &[])?;
        let (scale, steps) = (scale(state)?, state.array("loss_scale.steps", &[], DType::F32)?);
        let inputs = [
            ("is_finite", Argument::Tensor(is_finite)),
            ("current", Argument::Tensor(&current)),
            ("scale", Argument::Parameter(&scale)),
            ("steps", Argument::Parameter(&steps)),
        ];
        let (interval, greatest) = (self.interval, number(GREATEST));
        let text = format!(
            "taken := where(is_finite[] == 1, steps[] + 1, 0.0)
            longer := where(taken[] >= {interval}, min(current[] * 2, {greatest}), current[])
            scale[] := where(is_finite[] == 1, longer[], max(current[] * 0.5, 1))
            steps[] := where(taken[] >= {interval}, 0.0, taken[])"
        );
        graph.emit(call, &text, &inputs, &[]).map(drop)
    }
}

/// The scale of the next step; 0 before the first one.
fn scale(state: &OptimizerState) -> Result<Parameter> {
    state.array(LOSS_SCALE, &[], DType::F32)
}

/// The product of a loss with a scale, and of gradients with its inverse.
pub(super) fn multiplied(call: Call, x: &Tensor, scale: &Tensor, is_inverse: bool) -> Result<Tensor> {
    let factor = if is_inverse { "recip(scale[])" } else { "scale[]" };
    let inputs = [("x", Argument::Tensor(x)), ("scale", Argument::Tensor(scale))];
    let (rank, dtype) = (x.rank(), x.dtype());
    x.graph()
        .result(call, &inputs, |y| format!("{} := {dtype}({} * {factor})", whole(y, rank), whole("x", rank)))
}
