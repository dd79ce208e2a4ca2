//! Losses: means over all elements or positions, under torch's names.

use arrayjit::Scalar;

use crate::{
    error::{Call, Result, misfit},
    operand::{Argument, number},
    options::options,
    reduce::sum_types,
    shape::{access, axis_at, letter, letters, whole},
    tensor::Tensor,
};

/// How [`Tensor::cross_entropy_with`] and [`Tensor::nll_loss`] count positions and classes.
///
/// ```
/// # use arrayjit_tensor::example::*;
/// use arrayjit_tensor::CrossEntropyOptions;
///
/// let logits = tensor([[0., 0.], [0., 1.]]);
/// let options = CrossEntropyOptions::new().ignore_index(1);
/// check(logits.cross_entropy_with(&tensor([0, 1]), &options), 0.693147);
/// let weights = tensor([1., 3.]);
/// let options = CrossEntropyOptions::new().class_axis(0).weight(&weights).label_smoothing(0.2);
/// check(logits.cross_entropy_with(&tensor([0, 1]), &options), 0.452227);
/// ```
#[derive(Clone)]
pub struct CrossEntropyOptions {
    class_axis: isize,
    ignore_index: i64,
    label_smoothing: f64,
    weight: Option<Tensor>,
}

impl CrossEntropyOptions {
    /// The classes have equal weights and are on the last axis. The label -100 does not count, and labels are
    /// not smoothed.
    pub const fn new() -> CrossEntropyOptions {
        CrossEntropyOptions { class_axis: -1, ignore_index: -100, label_smoothing: 0.0, weight: None }
    }

    options! {
        /// The axis of the classes; the last one by default. That of torch is 1.
        class_axis: isize => class_axis;
        /// The label of positions that do not count; it may be a class. -100 by default.
        ignore_index: i64 => ignore_index;
        /// The part of each label that is spread over all classes, from 0 to 1; 0 by default.
        label_smoothing: f64 => label_smoothing;
    }

    /// A weight for each class, of shape `[classes]`. A mean is divided by the sum of the weights of the
    /// labels.
    #[must_use]
    pub fn weight(mut self, weight: &Tensor) -> CrossEntropyOptions {
        self.weight = Some(weight.clone());
        self
    }
}

impl Default for CrossEntropyOptions {
    fn default() -> CrossEntropyOptions {
        CrossEntropyOptions::new()
    }
}

/// Losses of logits and labels of classes.
impl Tensor {
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
    pub fn cross_entropy(&self, labels: &Tensor) -> Result<Tensor> {
        self.of_classes(Call::new("cross_entropy"), labels, &CrossEntropyOptions::new(), true)
    }

    /// As [`cross_entropy`](Tensor::cross_entropy), with options. Without any position that counts, the mean
    /// is NaN.
    ///
    /// # Errors
    /// Labels of another shape than this tensor without the class axis, or labels that are no integers;
    /// weights that are not one for each class; a smoothing beyond 0 to 1.
    #[track_caller]
    pub fn cross_entropy_with(&self, labels: &Tensor, options: &CrossEntropyOptions) -> Result<Tensor> {
        self.of_classes(Call::new("cross_entropy_with"), labels, options, true)
    }

    /// The mean over all positions of `−x[label]`, for logarithms x of probabilities.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// use arrayjit_tensor::CrossEntropyOptions;
    ///
    /// let logarithms = tensor([[-1., -2.], [-3., -4.]]);
    /// check(logarithms.nll_loss(&tensor([0, 1]), &CrossEntropyOptions::new()), 2.5);
    /// ```
    ///
    /// # Errors
    /// Fails like [`cross_entropy_with`](Tensor::cross_entropy_with).
    #[track_caller]
    pub fn nll_loss(&self, labels: &Tensor, options: &CrossEntropyOptions) -> Result<Tensor> {
        self.of_classes(Call::new("nll_loss"), labels, options, false)
    }

    fn of_classes(
        &self,
        call: Call,
        labels: &Tensor,
        options: &CrossEntropyOptions,
        are_logits: bool,
    ) -> Result<Tensor> {
        labels.integers(call)?;
        self.floats(call)?;
        let fail = |kind| self.graph().fail(call, kind);
        let shape = self.shape();
        let at = axis_at(options.class_axis, shape).map_err(fail)?;
        let mut positions = shape.to_vec();
        let classes = positions.remove(at);
        if labels.shape() != positions {
            let expected = match at + 1 == shape.len() {
                true => format!("{positions:?}, the shape of the logits without the last axis"),
                false => format!("{positions:?}, the shape of the logits without axis {at}"),
            };
            return Err(fail(labels.misshapen(expected)));
        }
        if !(0.0..=1.0).contains(&options.label_smoothing) {
            return Err(fail(misfit("label_smoothing", options.label_smoothing, "from 0 to 1")));
        }
        self.some(call, labels.num_elements())?;
        let ignore_index = options.ignore_index;
        self.graph().expect_positions(call, labels, classes, Some(ignore_index));
        let (wide, _) = sum_types(self.dtype());
        let last = positions.len();
        let mut indices = letters(last);
        indices.insert(at, letter(last));
        let (class, label) = (letter(last), whole("label", last));
        let [t, p] = ["t", "p"].map(|name| whole(name, shape.len()));
        let mut inputs = vec![("x", Argument::Tensor(self)), ("label", Argument::Tensor(labels))];
        // A number that no label can be ignores none.
        let can_ignore = Scalar::from_i64(labels.dtype(), ignore_index).as_i64() == ignore_index;
        let (is_ignored, is_class) = match can_ignore {
            true => (
                format!("{label} == {ignore_index}"),
                format!("and({class} == {label}, {label} != {ignore_index})"),
            ),
            false => (format!("{label} != {label}"), format!("{class} == {label}")),
        };
        let weighted = match &options.weight {
            Some(weight) if weight.shape() != [classes] => {
                return Err(fail(weight.misshapen(format!("[{classes}], a weight for each class"))));
            }
            Some(weight) => {
                inputs.push(("weight", Argument::Tensor(weight)));
                format!(" * {wide}(weight[{class}])")
            }
            None => String::new(),
        };
        let count = match &options.weight {
            Some(weight) => {
                format!("n :+= where({is_class}, {}(weight[{class}]), 0.0)", sum_types(weight.dtype()).0)
            }
            None => format!("n :+= where({is_ignored}, 0.0, 1.0)"),
        };
        let sum = match options.label_smoothing {
            0.0 => format!("s :+= where({is_class}, -{p}{weighted}, 0.0)"),
            smoothing => {
                let (spread, rest) = (number(smoothing / classes as f64), number(1.0 - smoothing));
                let part = format!("where({class} == {label}, {rest}, 0.0)");
                format!("s :+= where({is_ignored}, 0.0, -{p}{weighted} * ({spread} + {part}))")
            }
        };
        let logarithms = if are_logits { format!("log_softmax({t})") } else { t.clone() };
        // The classes are compared with the label. `p[.., label]` has a computed index, and its gradient is a
        // scatter: with one of them, the kernel of all statements around it has no vector code.
        self.graph().result(call, &inputs, |y| {
            format!(
                "{t} := {wide}({})\n{p} := {logarithms}\n{sum}\n{count}\n{y} := s / n",
                access("x", &indices)
            )
        })
    }
}

/// Losses of predictions and targets of one shape.
impl Tensor {
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
    pub fn mse_loss(&self, target: &Tensor) -> Result<Tensor> {
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
    pub fn l1_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.mean_of(Call::new("l1_loss"), target, "abs({x} - {z})")
    }

    /// The mean of d² / 2 for d = |x − target| below `delta`, and of `delta` · (d − `delta` / 2) above.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1., 2.]).huber_loss(&tensor([2., 6.]), 2.), 3.25);
    /// ```
    ///
    /// # Errors
    /// A target of another shape, or a `delta` that is not above 0.
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64) -> Result<Tensor> {
        let call = Call::new("huber_loss");
        self.above_zero(call, "delta", delta)?;
        let (delta, half) = (number(delta), number(0.5 * delta));
        let outer = format!("{delta} * (abs({{x}} - {{z}}) - {half})");
        let inner = "0.5 * ({x} - {z}) * ({x} - {z})";
        self.mean_of(call, target, &format!("where(abs({{x}} - {{z}}) < {delta}, {inner}, {outer})"))
    }

    /// The mean of d² / (2 · `beta`) for d = |x − target| below `beta`, and of d − `beta` / 2 above.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1., 2.]).smooth_l1_loss(&tensor([2., 6.]), 2.), 1.625);
    /// ```
    ///
    /// # Errors
    /// A target of another shape, or a `beta` that is not above 0.
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64) -> Result<Tensor> {
        let call = Call::new("smooth_l1_loss");
        self.above_zero(call, "beta", beta)?;
        let (scale, beta, half) = (number(0.5 / beta), number(beta), number(0.5 * beta));
        let inner = format!("{scale} * ({{x}} - {{z}}) * ({{x}} - {{z}})");
        let outer = format!("abs({{x}} - {{z}}) - {half}");
        self.mean_of(call, target, &format!("where(abs({{x}} - {{z}}) < {beta}, {inner}, {outer})"))
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
    pub fn binary_cross_entropy_with_logits(&self, target: &Tensor) -> Result<Tensor> {
        let call = Call::new("binary_cross_entropy_with_logits");
        self.mean_of(call, target, "max({x}, 0) - {x} * {z} + log1p(exp(-abs({x})))")
    }

    /// The mean of −z · log x − (1 − z) · log(1 − x) for probabilities x and targets z from 0 to 1, where
    /// logarithms are at least −100, as in torch. The derivative is (x − z) / max(x · (1 − x), 1e-12), so at
    /// probabilities of 0 and 1 it is finite.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([0.5, 0., 0.25]).binary_cross_entropy(&tensor([1., 1., 0.])), 33.660276);
    /// ```
    ///
    /// # Errors
    /// A target of another shape.
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor) -> Result<Tensor> {
        let call = Call::new("binary_cross_entropy");
        // `h` is 0, and has the derivative where that of the logarithms is not finite.
        let terms = "c[..] := {x}\ndetach c\nq[..] := c[..] * (1 - c[..]) < 1e-12\n\
                     s[..] := where(q[..], 0.5, {x})\nd[..] := {x} - c[..]\n\
                     h[..] := 1e12 * d[..] * (c[..] - {z} + 0.5 * d[..])";
        let limited = "({z} - 1) * max(log1p(-c[..]), -100) - {z} * max(log(c[..]), -100)";
        let term =
            format!("where(q[..], {limited} + h[..], ({{z}} - 1) * log1p(-s[..]) - {{z}} * log(s[..]))");
        self.sum_of_terms(call, target, terms, &term, self.num_elements())
    }

    /// The sum of z · (log z − x) over all elements, divided by the size of the first axis, as torch's
    /// `kl_div` with the reduction `batchmean`: x are logarithms of probabilities, the targets z are
    /// probabilities, and a target of 0 adds 0.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let uniform = tensor([[-0.693147, -0.693147]]);
    /// check(uniform.kl_div(&tensor([[1., 0.]])), 0.693147);
    /// ```
    ///
    /// # Errors
    /// A target of another shape.
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor) -> Result<Tensor> {
        let batch = self.shape().first().copied().unwrap_or(1);
        let term = "where({z} > 0, {z} * (log({z}) - {x}), 0.0)";
        self.sum_of(Call::new("kl_div"), target, term, batch)
    }

    /// The mean of exp(x) − z · x for logarithms x of expected counts and counts z, as torch's
    /// `poisson_nll_loss` with its default options.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([0., 1.]).poisson_nll_loss(&tensor([2., 1.])), 1.359141);
    /// ```
    ///
    /// # Errors
    /// A target of another shape.
    #[track_caller]
    pub fn poisson_nll_loss(&self, target: &Tensor) -> Result<Tensor> {
        self.mean_of(Call::new("poisson_nll_loss"), target, "exp({x}) - {z} * {x}")
    }

    /// The mean of x for targets of 1, and of max(0, `margin` − x) for other targets, which are −1.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([0.5, 0.25]).hinge_embedding_loss(&tensor([1., -1.]), 1.), 0.625);
    /// ```
    ///
    /// # Errors
    /// A target of another shape.
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: &Tensor, margin: f64) -> Result<Tensor> {
        let term = format!("where({{z}} == 1, {{x}}, max({} - {{x}}, 0))", number(margin));
        self.mean_of(Call::new("hinge_embedding_loss"), target, &term)
    }

    /// The mean of 1 − cos for targets of 1, and of max(0, cos − `margin`) for other targets, which are −1:
    /// cos is the cosine between two vectors along the last axis, and targets have the shape without it.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let (a, b) = (tensor([[1., 0.], [1., 0.]]), tensor([[1., 1.], [1., 1.]]));
    /// check(a.cosine_embedding_loss(&b, &tensor([1., -1.]), 0.5), 0.25);
    /// ```
    ///
    /// # Errors
    /// Vectors or targets of other shapes.
    #[track_caller]
    pub fn cosine_embedding_loss(&self, other: &Tensor, target: &Tensor, margin: f64) -> Result<Tensor> {
        let call = Call::new("cosine_embedding_loss");
        self.floats(call)?;
        self.same_shape(call, other)?;
        let last = axis_at(-1, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        let (wide, _) = sum_types(self.dtype());
        let [a, b] = ["a", "b"].map(|name| format!("{wide}({})", whole(name, self.rank())));
        let [ab, aa, bb, c] = ["ab", "aa", "bb", "c"].map(|name| whole(name, last));
        // The number that torch adds to the squares of norms.
        let cosine = format!("{ab} / sqrt(({aa} + 1e-12) * ({bb} + 1e-12))");
        let inputs = [("a", Argument::Tensor(self)), ("b", Argument::Tensor(other))];
        let cosine = self.graph().result(call, &inputs, |y| {
            let y = whole(y, last);
            format!("{ab} :+= {a} * {b}\n{aa} :+= {a} * {a}\n{bb} :+= {b} * {b}\n{c} := {cosine}\n{y} := {c}")
        })?;
        let term = format!("where({{z}} == 1, 1 - {{x}}, max({{x}} - {}, 0))", number(margin));
        cosine.mean_of(call, target, &term)
    }

    /// The mean of an expression of `{x}` and `{z}`, the elements of this tensor and of the target.
    fn mean_of(&self, call: Call, target: &Tensor, expression: &str) -> Result<Tensor> {
        self.sum_of(call, target, expression, self.num_elements())
    }

    /// The sum of an expression of `{x}` and `{z}`, the elements of this tensor and of the target, divided by
    /// a number.
    fn sum_of(&self, call: Call, target: &Tensor, expression: &str, divisor: usize) -> Result<Tensor> {
        self.sum_of_terms(call, target, "", expression, divisor)
    }

    /// [`sum_of`](Tensor::sum_of) with statements before, in which `[..]` are the axes.
    fn sum_of_terms(
        &self,
        call: Call,
        target: &Tensor,
        statements: &str,
        expression: &str,
        divisor: usize,
    ) -> Result<Tensor> {
        self.floats(call)?;
        self.same_shape(call, target)?;
        self.some(call, self.num_elements())?;
        let (rank, divisor) = (self.rank(), divisor as f64);
        let (wide, _) = sum_types(self.dtype());
        let (p, t) = (whole("p", rank), whole("t", rank));
        let letters = |text: &str| text.replace("[..]", &whole("", rank));
        let [statements, value] =
            [statements, expression].map(|text| letters(text).replace("{x}", &p).replace("{z}", &t));
        let inputs = [("x", Argument::Tensor(self)), ("z", Argument::Tensor(target))];
        self.graph().result(call, &inputs, |y| {
            format!(
                "{p} := {wide}({})\n{t} := {wide}({})\n{statements}\n{y} :+= ({value}) / {divisor:?}",
                whole("x", rank),
                whole("z", rank)
            )
        })
    }

    fn same_shape(&self, call: Call, target: &Tensor) -> Result<()> {
        if target.shape() == self.shape() {
            return Ok(());
        }
        let expected = format!("{:?}, the shape of the prediction", self.shape());
        Err(self.graph().fail(call, target.misshapen(expected)))
    }

    fn above_zero(&self, call: Call, argument: &'static str, value: f64) -> Result<()> {
        if value > 0.0 && value.is_finite() {
            return Ok(());
        }
        Err(self.graph().fail(call, misfit(argument, value, "a finite number above 0")))
    }
}
