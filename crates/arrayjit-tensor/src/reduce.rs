//! Reductions over axes, and running sums.

use arrayjit::{DType, text::declared_sizes};

use crate::{
    error::{Call, Result, TensorError},
    operand::{Argument, number},
    shape::{Axes, access, axis_at, letter, whole},
    tensor::Tensor,
};

/// Whether a reduced axis disappears or has size 1 in the result.
#[derive(Clone, Copy, PartialEq)]
enum Reduced {
    Removed,
    Kept,
}

/// A reduction of a tensor: the accesses of its operand and of its result.
struct Reduction<'a> {
    tensor: &'a Tensor,
    axes: Vec<usize>,
    reduced: Reduced,
}

impl<'a> Reduction<'a> {
    fn new(tensor: &'a Tensor, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Self> {
        let axes = axes.of_shape(tensor.shape()).map_err(|kind| tensor.graph().fail(call, kind))?;
        Ok(Reduction { tensor, axes, reduced })
    }

    /// The access of a node of the result's shape.
    fn result(&self, name: &str) -> String {
        let indices =
            (0..self.tensor.rank()).filter_map(|at| match (self.axes.contains(&at), self.reduced) {
                (false, _) => Some(letter(at)),
                (true, Reduced::Kept) => Some("0".into()),
                (true, Reduced::Removed) => None,
            });
        access(name, indices)
    }

    /// The access of a node of the operand's shape.
    fn operand(&self, name: &str) -> String {
        whole(name, self.tensor.rank())
    }

    /// How many elements each result reduces.
    fn count(&self) -> usize {
        self.axes.iter().map(|&at| self.tensor.shape()[at]).product()
    }

    /// The number of elements that each result reduces, less `correction`, as a value of a text.
    fn count_text(&self, correction: usize) -> String {
        let size = |at: &usize| self.tensor.node().run_size(*at).map(|_| format!("size(x, {at})"));
        let sizes: Vec<String> = self.axes.iter().filter_map(size).collect();
        if sizes.is_empty() {
            return number(self.count() as f64 - correction as f64);
        }
        let constant = |at: &&usize| self.tensor.node().run_size(**at).is_none();
        let constants: usize = self.axes.iter().filter(constant).map(|&at| self.tensor.shape()[at]).product();
        let factor = if constants == 1 { String::new() } else { format!(" * {constants}") };
        let less = if correction == 0 { String::new() } else { format!(" - {correction}") };
        format!("({}{factor}{less})", sizes.join(" * "))
    }

    fn emit(&self, call: Call, text: impl FnOnce(&str) -> String) -> Result<Tensor> {
        self.tensor.graph().result(call, &[("x", Argument::Tensor(self.tensor))], text)
    }

    /// Accumulates the elements with `op` in the type of the result.
    fn folded(&self, call: Call, op: &str, finish: &str) -> Result<Tensor> {
        self.emit(call, |y| format!("{} {op} {}{finish}", self.result(y), self.operand("x")))
    }

    /// Accumulates `value` with `op`, in a type that holds sums, and converts the result by `finish`, in
    /// which `{}` is the sum.
    fn accumulated(&self, call: Call, op: &str, value: &str, finish: &str) -> Result<Tensor> {
        let (wide, narrow) = sum_types(self.tensor.dtype());
        let value = format!("{wide}({value})");
        if finish == "{}" && wide == narrow {
            return self.emit(call, |y| format!("{} {op} {value}", self.result(y)));
        }
        let sum = self.result("s");
        let result = finish.replace("{}", &sum);
        self.emit(call, |y| format!("{sum} {op} {value}\n{} := {narrow}({result})", self.result(y)))
    }
}

/// The type in which elements of a type are summed, and that of the sum: narrow floats are summed in f32,
/// narrow integers and truth values in i32.
pub fn sum_types(dtype: DType) -> (DType, DType) {
    match dtype {
        DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => (dtype, dtype),
        narrow if narrow.is_float() => (DType::F32, narrow),
        _ => (DType::I32, DType::I32),
    }
}

/// Defines a reduction and its form that keeps reduced axes.
macro_rules! reduction {
    ($($(#[$doc:meta])* $name:ident $kept:ident $with:ident, $x:expr => $y:expr;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// ```
                /// # use arrayjit_tensor::example::*;
                #[doc = concat!("let x = tensor(", stringify!($x), ");")]
                #[doc = concat!("check(x.", stringify!($name), "(-1), ", stringify!($y), ");")]
                /// ```
                ///
                /// # Errors
                /// An axis that the tensor does not have; a mean or variance of no elements.
                #[track_caller]
                pub fn $name(&self, axes: impl Axes) -> Result<Tensor> {
                    self.$with(Call::new(stringify!($name)), axes, Reduced::Removed)
                }

                #[doc = concat!("[`", stringify!($name), "`](Tensor::", stringify!($name), "), where the")]
                /// reduced axes have size 1 in the result.
                ///
                /// ```
                /// # use arrayjit_tensor::example::*;
                #[doc = concat!("let x = tensor(", stringify!($x), ");")]
                #[doc = concat!("assert_eq!(x.", stringify!($kept), "(-1)?.shape(), [2, 1]);")]
                /// # Ok::<(), arrayjit_tensor::TensorError>(())
                /// ```
                ///
                /// # Errors
                /// An axis that the tensor does not have; a mean or variance of no elements.
                #[track_caller]
                pub fn $kept(&self, axes: impl Axes) -> Result<Tensor> {
                    self.$with(Call::new(stringify!($kept)), axes, Reduced::Kept)
                }
            )*
        }
    };
}

reduction! {
    /// The sum over axes. Narrow floats are summed in f32 and rounded once; narrow integers and truth values
    /// are summed in i32.
    sum sum_keepdim sum_with, [[1., 2.], [3., 4.]] => [3., 7.];
    /// The mean over axes; of integers, in f32.
    mean mean_keepdim mean_with, [[1., 2.], [3., 4.]] => [1.5, 3.5];
    /// The product over axes.
    prod prod_keepdim prod_with, [[1., 2.], [3., 4.]] => [2., 12.];
    /// The largest element over axes. Equal elements share the gradient.
    max max_keepdim max_with, [[1., 2.], [3., 4.]] => [2., 4.];
    /// The smallest element over axes. Equal elements share the gradient.
    min min_keepdim min_with, [[1., 2.], [3., 4.]] => [1., 3.];
    /// Whether any element over axes is neither 0 nor false.
    any any_keepdim any_with, [[0., 2.], [0., 0.]] => [true, false];
    /// Whether all elements over axes are neither 0 nor false.
    all all_keepdim all_with, [[1., 2.], [0., 3.]] => [true, false];
    /// The variance over axes, which divides by the number of elements less 1, as torch's does. See
    /// [`var_population`](Tensor::var_population).
    var var_keepdim var_with, [[1., 3.], [4., 4.]] => [2., 0.];
    /// The variance over axes, which divides by the number of elements.
    var_population var_population_keepdim var_population_with, [[1., 3.], [4., 4.]] => [1., 0.];
    /// The standard deviation over axes: the root of [`var`](Tensor::var).
    std std_keepdim std_with, [[1., 3.], [4., 4.]] => [1.414214, 0.];
    /// log Σ exp(x) over axes, without overflow.
    logsumexp logsumexp_keepdim logsumexp_with, [[0., 0.], [1., 1.]] => [0.693147, 1.693147];
}

impl Tensor {
    #[track_caller]
    fn sum_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        let reduction = Reduction::new(self, call, axes, reduced)?;
        reduction.accumulated(call, ":+=", &reduction.operand("x"), "{}")
    }

    fn mean_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        let reduction = Reduction::new(self, call, axes, reduced)?;
        self.some(call, reduction.count())?;
        let count = reduction.count_text(0);
        if self.dtype().is_float() {
            return reduction.accumulated(call, ":+=", &reduction.operand("x"), &format!("{{}} / {count}"));
        }
        let sum = reduction.result("s");
        let value = reduction.operand("x");
        reduction
            .emit(call, |y| format!("{sum} :+= f32({value})\n{} := {sum} / {count}", reduction.result(y)))
    }

    fn prod_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        let reduction = Reduction::new(self, call, axes, reduced)?;
        reduction.accumulated(call, ":*=", &reduction.operand("x"), "{}")
    }

    fn max_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        Reduction::new(self, call, axes, reduced)?.folded(call, ":max=", "")
    }

    fn min_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        Reduction::new(self, call, axes, reduced)?.folded(call, ":min=", "")
    }

    fn any_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        Reduction::new(self, call, axes, reduced)?.folded(call, ":or=", " != 0")
    }

    fn all_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        Reduction::new(self, call, axes, reduced)?.folded(call, ":and=", " != 0")
    }

    fn var_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        self.variance(call, axes, reduced, 1, "{}")
    }

    fn var_population_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        self.variance(call, axes, reduced, 0, "{}")
    }

    fn std_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        // Where all elements are equal, the derivative is 0, and not NaN.
        self.variance(call, axes, reduced, 1, "where({v} == 0, 0, sqrt(where({v} == 0, 1, {})))")
    }

    /// The variance, which divides by the number of elements less `correction`; `finish` is applied to it.
    fn variance(
        &self,
        call: Call,
        axes: impl Axes,
        reduced: Reduced,
        correction: usize,
        finish: &str,
    ) -> Result<Tensor> {
        self.floats(call)?;
        let reduction = Reduction::new(self, call, axes, reduced)?;
        self.some(call, reduction.count())?;
        let (mean, square) = (reduction.result("m"), reduction.result("v"));
        let (count, divisor) = (reduction.count_text(0), reduction.count_text(correction));
        let (wide, narrow) = sum_types(self.dtype());
        let value = format!("{wide}({})", reduction.operand("x"));
        let result = finish.replace("{}", &format!("({square} / {divisor})")).replace("{v}", &square);
        reduction.emit(call, |y| {
            format!(
                "{mean} :+= {value} / {count}\n{square} :+= ({value} - {mean}) * ({value} - {mean})\n\
                 {} := {narrow}({result})",
                reduction.result(y)
            )
        })
    }

    fn logsumexp_with(&self, call: Call, axes: impl Axes, reduced: Reduced) -> Result<Tensor> {
        self.floats(call)?;
        let reduction = Reduction::new(self, call, axes, reduced)?;
        let (top, sum, value) = (reduction.result("m"), reduction.result("s"), reduction.operand("x"));
        let (wide, narrow) = sum_types(self.dtype());
        // Of infinities alone, the largest element is subtracted from itself, which would give NaN.
        reduction.emit(call, |y| {
            format!(
                "{top} :max= {wide}({value})\n{sum} :+= where({value} == {top}, 1, exp({wide}({value}) - {top}))\n\
                 {} := {narrow}(log({sum}) + {top})",
                reduction.result(y)
            )
        })
    }

    /// The position of the first largest element along an axis, in i32. If there are NaNs, it is that of the
    /// first of them, as in torch and NumPy.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([[1., 5., 5.], [9., 2., 3.]]);
    /// check(x.argmax(-1), [1, 0]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or one without elements.
    #[track_caller]
    pub fn argmax(&self, axis: isize) -> Result<Tensor> {
        self.position(Call::new("argmax"), axis, ":max=")
    }

    /// The position of the first smallest element along an axis, in i32. If there are NaNs, it is that of the
    /// first of them, as in torch and NumPy.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([[1., 5., 5.], [9., 2., 3.]]);
    /// check(x.argmin(-1), [0, 1]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or one without elements.
    #[track_caller]
    pub fn argmin(&self, axis: isize) -> Result<Tensor> {
        self.position(Call::new("argmin"), axis, ":min=")
    }

    fn position(&self, call: Call, axis: isize, op: &str) -> Result<Tensor> {
        let reduction = Reduction::new(self, call, axis, Reduced::Removed)?;
        if reduction.count() == 0 {
            let expected = format!("elements along axis {}", reduction.axes[0]);
            return Err(self.graph().fail(call, self.misshapen(expected)));
        }
        let (extreme, value) = (reduction.result("m"), reduction.operand("x"));
        let (at, last) = (letter(reduction.axes[0]), reduction.count() - 1);
        let nans = reduction.result("nans");
        let (counted, is_extreme) = match self.dtype().is_float() {
            true => (
                format!("{nans} :+= i32({value} != {value})\n"),
                format!("or({value} != {value}, and({nans} == 0, {value} == {extreme}))"),
            ),
            false => (String::new(), format!("{value} == {extreme}")),
        };
        reduction.emit(call, |y| {
            format!(
                "{extreme} {op} {value}\n{counted}{} :min= where({is_extreme}, {at}, {last})",
                reduction.result(y)
            )
        })
    }

    /// The sum of the elements up to each position along an axis.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1., 2., 3.]]).cumsum(1), [[1., 3., 6.]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have.
    #[track_caller]
    pub fn cumsum(&self, axis: isize) -> Result<Tensor> {
        self.accumulated(Call::new("cumsum"), axis, ":+=", "<=")
    }

    /// The product of the elements up to each position along an axis.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[2., 3., 4.]]).cumprod(1), [[2., 6., 24.]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have.
    #[track_caller]
    pub fn cumprod(&self, axis: isize) -> Result<Tensor> {
        self.accumulated(Call::new("cumprod"), axis, ":*=", "<=")
    }

    /// Accumulates along an axis, by `op`, the elements whose positions have this `relation` to that of the
    /// result.
    ///
    /// # Errors
    /// An axis that the tensor does not have.
    #[doc(hidden)]
    pub fn accumulated(&self, call: Call, at: isize, op: &str, relation: &str) -> Result<Tensor> {
        let at = axis_at(at, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        let (wide, narrow) = sum_types(self.dtype());
        let (rank, size, here) = (self.rank(), self.shape()[at], letter(at));
        let value = access("x", (0..rank).map(|axis| if axis == at { "k".to_owned() } else { letter(axis) }));
        let run_size = self.node().run_size(at);
        let end = run_size.map_or_else(|| size.to_string(), |size| size.name().to_owned());
        let declared = declared_sizes(run_size);
        // Lowering makes one loop of this triangle, if no run gives its size.
        let sum = |name: &str| {
            let target = whole(name, rank);
            format!("{declared}{target} {op} {wide}({value}) where {here} < {end}, k {relation} {here}")
        };
        let text = |y: &str| match wide == narrow {
            _ if size == 0 => format!("{} := {}", whole(y, rank), whole("x", rank)),
            true => sum(y),
            false => format!("{}\n{} := {narrow}({})", sum("s"), whole(y, rank), whole("s", rank)),
        };
        self.graph().result(call, &[("x", Argument::Tensor(self))], text)
    }

    /// Rejects a mean of no elements, which would be NaN.
    pub(crate) fn some(&self, call: Call, count: usize) -> Result<()> {
        if count > 0 {
            return Ok(());
        }
        Err(self.graph().fail(call, self.misshapen("at least one element for each mean")))
    }

    /// Rejects integers, for which the result of the operation would be rounded.
    pub(crate) fn floats(&self, call: Call) -> Result<()> {
        if self.dtype().is_float() {
            return Ok(());
        }
        let kind = TensorError::ElementType { what: self.name(), found: self.dtype(), expected: "floats" };
        Err(self.graph().fail(call, kind))
    }
}
