//! Softmax, normalization, and losses.

use arrayjit::{DType, Scalar};

use crate::{
    error::{Call, TensorError},
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
    pub fn softmax(&self, axis: isize) -> Result<Tensor, TensorError> {
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
    pub fn log_softmax(&self, axis: isize) -> Result<Tensor, TensorError> {
        self.over_axis(Call::new("log_softmax"), axis, true)
    }

    /// The statements of the prelude's functions of these names, on any axis.
    fn over_axis(&self, call: Call, at: isize, is_log: bool) -> Result<Tensor, TensorError> {
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
    /// Weights of another shape than the last axis, or integers.
    #[track_caller]
    pub fn layer_norm(
        &self,
        weight: impl TensorOperand,
        bias: impl TensorOperand,
        eps: f64,
    ) -> Result<Tensor, TensorError> {
        let call = Call::new("layer_norm");
        let (weight, bias) = (weight.argument(), bias.argument());
        self.floats(call)?;
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
    /// Weights of another shape than the last axis, or integers.
    #[track_caller]
    pub fn rms_norm(
        &self,
        weight: impl TensorOperand,
        eps: impl Into<Option<f64>>,
    ) -> Result<Tensor, TensorError> {
        let call = Call::new("rms_norm");
        let weight = weight.argument();
        self.floats(call)?;
        let last = self.last_axis(call, &[weight])?;
        let rank = self.rank();
        let (wide, narrow) = sum_types(self.dtype());
        let eps = eps.into().unwrap_or(if wide == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() });
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
    fn last_axis(&self, call: Call, weights: &[Argument<'_>]) -> Result<String, TensorError> {
        let fail = |kind| self.graph().fail(call, kind);
        let last = axis_at(-1, self.shape()).map_err(fail)?;
        for weight in weights {
            if weight.shape() != [self.shape()[last]] {
                let (what, found) = (weight.name(), weight.shape().to_vec());
                let expected = format!("[{}], the last axis of {:?}", self.shape()[last], self.shape());
                return Err(fail(TensorError::Shape { what, found, expected }));
            }
        }
        Ok(letter(last))
    }

    /// The mean over all positions of `log Σ exp(logits) − logits[label]`, where the last axis has a logit
    /// for each class: `labels` are integers, of the shape of this tensor without the last axis. Positions
    /// with the label −100 do not count, as in torch. Another label that is no class is an error of the run
    /// if it comes from an input ([`Graph::check_positions`](crate::Graph::check_positions)), else adds 0.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let logits = tensor([[0., 0.], [0., 1.]]);
    /// check(logits.cross_entropy(&tensor([0, 1])), 0.503205);
    /// ```
    ///
    /// # Errors
    /// Labels of another shape, or labels that are no integers.
    #[track_caller]
    pub fn cross_entropy(&self, labels: &Tensor) -> Result<Tensor, TensorError> {
        self.mean_cross_entropy(Call::new("cross_entropy"), labels, -100)
    }

    /// As [`cross_entropy`](Tensor::cross_entropy), where positions with the label `ignore_index`, which may
    /// be a class, do not count, instead of those with −100. Without any other position, the mean is NaN.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let logits = tensor([[0., 0.], [0., 1.]]);
    /// check(logits.cross_entropy_ignoring(&tensor([0, 1]), 1), 0.693147);
    /// ```
    ///
    /// # Errors
    /// Labels of another shape, or labels that are no integers.
    #[track_caller]
    pub fn cross_entropy_ignoring(&self, labels: &Tensor, ignore_index: i64) -> Result<Tensor, TensorError> {
        self.mean_cross_entropy(Call::new("cross_entropy_ignoring"), labels, ignore_index)
    }

    fn mean_cross_entropy(
        &self,
        call: Call,
        labels: &Tensor,
        ignore_index: i64,
    ) -> Result<Tensor, TensorError> {
        labels.integers(call)?;
        self.floats(call)?;
        let last = axis_at(-1, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        if labels.shape() != &self.shape()[..last] {
            let (what, found) = (labels.name(), labels.shape().to_vec());
            let expected =
                format!("{:?}, the shape of the logits without the last axis", &self.shape()[..last]);
            return Err(self.graph().fail(call, TensorError::Shape { what, found, expected }));
        }
        self.some(call, labels.num_elements())?;
        self.graph().expect_positions(call, labels, self.shape()[last], Some(ignore_index));
        let (wide, _) = sum_types(self.dtype());
        let [t, p] = ["t", "p"].map(|name| whole(name, self.rank()));
        let (class, label) = (letter(last), whole("label", last));
        let inputs = [("x", Argument::Tensor(self)), ("label", Argument::Tensor(labels))];
        // A number that no label can be ignores none.
        let (is_ignored, is_class) =
            match Scalar::from_i64(labels.dtype(), ignore_index).as_i64() == ignore_index {
                true => (
                    format!("{label} == {ignore_index}"),
                    format!("and({class} == {label}, {label} != {ignore_index})"),
                ),
                false => (format!("{label} != {label}"), format!("{class} == {label}")),
            };
        // The classes are compared with the label. `p[.., label]` has a computed index, and its gradient is a
        // scatter: with one of them, the kernel of all statements around it has no vector code.
        self.graph().result(call, &inputs, |y| {
            format!(
                "{t} := {wide}({})\n{p} := log_softmax({t})\n\
                 s :+= where({is_class}, -{p}, 0.0)\nn :+= where({is_ignored}, 0.0, 1.0)\n{y} := s / n",
                whole("x", self.rank())
            )
        })
    }

    /// The mean of (x − target)².
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1., 2.]).mse_loss(&tensor([1., 4.])), 2.);
    /// ```
    ///
    /// # Errors
    /// A target of another shape.
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor) -> Result<Tensor, TensorError> {
        self.mean_of(Call::new("mse_loss"), target, "({x} - {z}) * ({x} - {z})")
    }

    /// The mean of |x − target|.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1., 2.]).l1_loss(&tensor([1., 4.])), 1.);
    /// ```
    ///
    /// # Errors
    /// A target of another shape.
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor) -> Result<Tensor, TensorError> {
        self.mean_of(Call::new("l1_loss"), target, "abs({x} - {z})")
    }

    /// The mean of −log p for the probability p = sigmoid(x) of the target, 0 or 1 or between, without
    /// overflow.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([0., 0.]).binary_cross_entropy_with_logits(&tensor([0., 1.])), 0.693147);
    /// ```
    ///
    /// # Errors
    /// A target of another shape.
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(&self, target: &Tensor) -> Result<Tensor, TensorError> {
        let call = Call::new("binary_cross_entropy_with_logits");
        self.mean_of(call, target, "max({x}, 0) - {x} * {z} + log1p(exp(-abs({x})))")
    }

    /// The mean of an expression of `{x}` and `{z}`, the elements of this tensor and of the target.
    fn mean_of(&self, call: Call, target: &Tensor, expression: &str) -> Result<Tensor, TensorError> {
        self.floats(call)?;
        if target.shape() != self.shape() {
            let (what, found) = (target.name(), target.shape().to_vec());
            let expected = format!("{:?}, the shape of the prediction", self.shape());
            return Err(self.graph().fail(call, TensorError::Shape { what, found, expected }));
        }
        self.some(call, self.num_elements())?;
        let (rank, count) = (self.rank(), self.num_elements() as f64);
        let (wide, _) = sum_types(self.dtype());
        let (p, t) = (whole("p", rank), whole("t", rank));
        let value = expression.replace("{x}", &p).replace("{z}", &t);
        let inputs = [("x", Argument::Tensor(self)), ("z", Argument::Tensor(target))];
        self.graph().result(call, &inputs, |y| {
            format!(
                "{p} := {wide}({})\n{t} := {wide}({})\n{y} :+= ({value}) / {count:?}",
                whole("x", rank),
                whole("z", rank)
            )
        })
    }
}
