//! Softmax and normalization.

use arrayjit::DType;

use crate::{
    error::{Call, Result, check_epsilon},
    operand::{Argument, TensorOperand},
    reduce::sum_types,
    shape::{access, axis_at, letter, whole},
    tensor::Tensor,
};

impl Tensor {
    /// exp(x) / Σ exp(x) over an axis, without overflow; narrow floats are computed in f32.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[0., 0.], [0., 1.]]).softmax(-1), [[0.5, 0.5], [0.268941, 0.731059]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or integers.
    #[track_caller]
    pub fn softmax(&self, axis: isize) -> Result<Tensor> {
        self.over_axis(Call::new("softmax"), axis, false)
    }

    /// log(softmax(x)) over an axis, without overflow; narrow floats are computed in f32.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[0., 0.]]).log_softmax(-1), [[-0.693147, -0.693147]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or integers.
    #[track_caller]
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor> {
        self.over_axis(Call::new("log_softmax"), axis, true)
    }

    /// The statements of the prelude's functions of these names, on any axis.
    fn over_axis(&self, call: Call, at: isize, is_log: bool) -> Result<Tensor> {
        self.floats(call)?;
        let at = axis_at(at, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        let rank = self.rank();
        let outer: Vec<String> = (0..rank).filter(|&axis| axis != at).map(letter).collect();
        let (wide, narrow) = sum_types(self.dtype());
        let (most, sum) = (access("m", &outer), access("s", &outer));
        let (element, power) = (format!("{wide}({})", whole("x", rank)), whole("e", rank));
        let (powers, result) = match is_log {
            true => {
                let powers = format!("{sum} :+= exp({element} - {most})");
                (powers, format!("{element} - {most} - log({sum})"))
            }
            false => {
                let powers = format!("{power} := exp({element} - {most})\n{sum} :+= {power}");
                (powers, format!("{power} / {sum}"))
            }
        };
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            let y = whole(y, rank);
            format!("{most} :max= {element}\ndetach m\n{powers}\n{y} := {narrow}({result})")
        })
    }

    /// (x − mean) / √(variance + eps) · weight + bias over the last axis.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let (x, weight, bias) = (tensor([[1., 3.]]), tensor([1., 1.]), tensor([0., 10.]));
    /// check(x.layer_norm(&weight, &bias, 1e-8), [[-1., 11.]]);
    /// ```
    ///
    /// # Errors
    /// Weights of another shape than the last axis, a negative `eps`, or integers.
    #[track_caller]
    pub fn layer_norm(
        &self,
        weight: impl TensorOperand,
        bias: impl TensorOperand,
        eps: f64,
    ) -> Result<Tensor> {
        let call = Call::new("layer_norm");
        let (weight, bias) = (weight.argument(), bias.argument());
        self.floats(call)?;
        check_epsilon(self.graph(), call, eps)?;
        let last = self.last_axis(call, &[weight, bias])?;
        let rank = self.rank();
        let (wide, narrow) = sum_types(self.dtype());
        let (t, r) = (whole("t", rank), whole("r", rank));
        let inputs = [("x", Argument::Tensor(self)), ("g", weight), ("b", bias)];
        self.graph().result(call, &inputs, |y| {
            format!(
                "{t} := {wide}({})\n{r} := layer_norm({t}, {wide}(g[{last}]), {wide}(b[{last}]), {eps:?})\n\
                 {} := {narrow}({r})",
                whole("x", rank),
                whole(y, rank)
            )
        })
    }

    /// x / √(mean(x²) + eps) · weight over the last axis. If `eps` is `None`, it is the machine epsilon of
    /// the type in which squares are summed, as in torch: 2⁻⁵² for f64, else 2⁻²³.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let (x, weight) = (tensor([[3., 4.]]), tensor([1., 1.]));
    /// check(x.rms_norm(&weight, None), [[0.848528, 1.131371]]);
    /// ```
    ///
    /// # Errors
    /// Weights of another shape than the last axis, a negative `eps`, or integers.
    #[track_caller]
    pub fn rms_norm(&self, weight: impl TensorOperand, eps: impl Into<Option<f64>>) -> Result<Tensor> {
        let call = Call::new("rms_norm");
        let weight = weight.argument();
        self.floats(call)?;
        let last = self.last_axis(call, &[weight])?;
        let rank = self.rank();
        let (wide, narrow) = sum_types(self.dtype());
        let eps = eps.into().unwrap_or(if wide == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() });
        check_epsilon(self.graph(), call, eps)?;
        let (t, r) = (whole("t", rank), whole("r", rank));
        self.graph().result(call, &[("x", Argument::Tensor(self)), ("g", weight)], |y| {
            format!(
                "{t} := {wide}({})\n{r} := rms_norm({t}, {wide}(g[{last}]), {eps:?})\n{} := {narrow}({r})",
                whole("x", rank),
                whole(y, rank)
            )
        })
    }

    /// The letter of the last axis, if the weights have its shape.
    fn last_axis(&self, call: Call, weights: &[Argument<'_>]) -> Result<String> {
        let fail = |kind| self.graph().fail(call, kind);
        let last = axis_at(-1, self.shape()).map_err(fail)?;
        for weight in weights {
            if weight.shape() != [self.shape()[last]] {
                let expected = format!("[{}], the last axis of {:?}", self.shape()[last], self.shape());
                return Err(fail(weight.misshapen(expected)));
            }
        }
        Ok(letter(last))
    }
}
