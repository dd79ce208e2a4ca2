//! Operations on elements: arithmetic with broadcasting, functions, comparisons, conversions.

use std::ops;

use arrayjit::DType;

use crate::{
    error::{Call, Result, misfit},
    operand::{Argument, TensorOperand, number, number_of},
    parameter::Parameter,
    shape::{broadcast, broadcast_access, whole},
    tensor::Tensor,
};

/// Whether an operation of that name is on elements.
pub(crate) fn has(op: &str) -> bool {
    UNARY.contains(&op) || BINARY.contains(&op)
}

/// Defines methods that apply a function of the language to each element.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $x:expr => $y:expr;)*) => {
        const UNARY: &[&str] = &[$(stringify!($name)),*];

        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// ```
                /// # use arrayjit_tensor::example::*;
                #[doc = concat!("let x = tensor(", stringify!($x), ");")]
                #[doc = concat!("check(x.", stringify!($name), "(), ", stringify!($y), ");")]
                /// ```
                ///
                /// # Errors
                /// An element type without this function.
                #[track_caller]
                pub fn $name(&self) -> Result<Tensor> {
                    self.map(Call::new(stringify!($name)), $text)
                }
            )*
        }
    };
}

unary! {
    /// The negative of each element.
    neg = "-{}", [1., -2.] => [-1., 2.];
    /// The absolute value of each element.
    abs = "abs({})", [-1.5, 2.] => [1.5, 2.];
    /// The exponential of each element.
    exp = "exp({})", [0., 1.] => [1., 2.718282];
    /// The natural logarithm of each element.
    log = "log({})", [1., 2.718282] => [0., 1.];
    /// The logarithm to base 2 of each element.
    log2 = "log2({})", [1., 8.] => [0., 3.];
    /// log(1 + x) for each element, accurate where x is small.
    log1p = "log1p({})", [0., 1.718282] => [0., 1.];
    /// The exponential of each element, minus 1, accurate where the element is small.
    expm1 = "expm1({})", [0., 1.] => [0., 1.718282];
    /// The sine of each element, in radians.
    sin = "sin({})", [0., 1.570796] => [0., 1.];
    /// The cosine of each element, in radians.
    cos = "cos({})", [0., 3.141593] => [1., -1.];
    /// The hyperbolic tangent of each element.
    tanh = "tanh({})", [0., 1.] => [0., 0.761594];
    /// The tangent of each element, in radians.
    tan = "tan({})", [0., 0.785398] => [0., 1.];
    /// The angle between −π/2 and π/2 whose sine is the element.
    asin = "asin({})", [0., 1.] => [0., 1.570796];
    /// The angle between 0 and π whose cosine is the element.
    acos = "acos({})", [1., -1.] => [0., 3.141593];
    /// The angle between −π/2 and π/2 whose tangent is the element.
    atan = "atan({})", [0., 1.] => [0., 0.785398];
    /// The hyperbolic sine of each element.
    sinh = "sinh({})", [0., 1.] => [0., 1.175201];
    /// The hyperbolic cosine of each element.
    cosh = "cosh({})", [0., 1.] => [1., 1.543081];
    /// The inverse hyperbolic sine of each element.
    asinh = "asinh({})", [0., 1.175201] => [0., 1.];
    /// The inverse hyperbolic cosine of each element, at least 0.
    acosh = "acosh({})", [1., 1.543081] => [0., 1.];
    /// The inverse hyperbolic tangent of each element.
    atanh = "atanh({})", [0., 0.761594] => [0., 1.];
    /// The square root of each element.
    sqrt = "sqrt({})", [4., 9.] => [2., 3.];
    /// 1/√x for each element.
    rsqrt = "recip_sqrt({})", [4., 16.] => [0.5, 0.25];
    /// 1/x for each element.
    reciprocal = "recip({})", [2., 4.] => [0.5, 0.25];
    /// x² for each element.
    square = "{} * {}", [2., -3.] => [4., 9.];
    /// The next integer towards −∞ of each element.
    floor = "floor({})", [1.7, -1.2] => [1., -2.];
    /// The next integer towards ∞ of each element.
    ceil = "-floor(-{})", [1.2, -1.7] => [2., -1.];
    /// The next integer towards 0 of each element.
    trunc = "trunc({})", [1.7, -1.7] => [1., -1.];
    /// The nearest integer of each element, the even one of two.
    round = "round_even({})", [0.5, 1.5, -1.2] => [0., 2., -1.];
    /// −1, 0 or 1: the sign of each element, in its type.
    sign = "where({} > 0, 1, where({} < 0, -1, {} * 0))", [-2., 0., 3.] => [-1., 0., 1.];
    /// Whether each element is not a number.
    isnan = "{} != {}", [f32::NAN, 1.] => [true, false];
    /// Whether each element is neither infinite nor a NaN.
    isfinite = "{} * 0 == 0", [f32::INFINITY, 1.] => [false, true];
    /// Whether each element is 0 or false, in the type of the element.
    logical_not = "not({})", [0., 2.] => [1., 0.];
    /// max(x, 0) for each element; NaN stays NaN. The derivative at 0 and at NaN is 0.
    relu = "relu({})", [-1., 2.] => [0., 2.];
    /// 1 / (1 + exp(−x)) for each element.
    sigmoid = "sigmoid({})", [0., 2.] => [0.5, 0.880797];
    /// x · sigmoid(x) for each element, also called swish.
    silu = "silu({})", [0., 2.] => [0., 1.761594];
    /// The error function of each element.
    erf = "erf({})", [0., 1.] => [0., 0.842701];
    /// 1 − erf(x) for each element, accurate where it is small.
    erfc = "erfc({})", [0., 1.] => [1., 0.157299];
    /// x · Φ(x) for each element, where Φ is the distribution function of the standard normal distribution.
    gelu = "gelu({})", [0., 1.] => [0., 0.841345];
    /// The approximation of [`gelu`](Tensor::gelu) by tanh.
    gelu_tanh = "gelu_tanh({})", [0., 1.] => [0., 0.841192];
    /// log(1 + exp(x)) for each element, without overflow.
    softplus = "softplus({})", [0., 1.] => [0.693147, 1.313262];
    /// log(sigmoid(x)) for each element, without overflow.
    logsigmoid = "log_sigmoid({})", [0., 1.] => [-0.693147, -0.313262];
    /// x · tanh(softplus(x)) for each element.
    mish = "mish({})", [0., 1.] => [0., 0.865098];
    /// 1.0507 · elu(x) with `alpha` 1.6733 for each element: the constants of self-normalizing networks.
    selu = "selu({})", [-1., 1.] => [-1.111331, 1.050701];
    /// min(1, max(0, x / 6 + 1/2)) for each element. The derivative at −3 and 3 is 0.
    hardsigmoid = "hard_sigmoid({})", [-4., 0., 4.] => [0., 0.5, 1.];
    /// x · hardsigmoid(x) for each element. The derivative at −3 is 0, and at 3 it is 1.
    hardswish = "hard_swish({})", [-4., 1., 4.] => [0., 0.666667, 4.];
    /// x / (1 + |x|) for each element.
    softsign = "softsign({})", [-1., 3.] => [-0.5, 0.75];
}

/// Defines methods of two operands that are broadcast to one shape.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $x:expr, $z:expr => $y:expr;)*) => {
        const BINARY: &[&str] = &[$(stringify!($name)),*];

        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// ```
                /// # use arrayjit_tensor::example::*;
                #[doc = concat!("let (x, y) = (tensor(", stringify!($x), "), tensor(", stringify!($z), "));")]
                #[doc = concat!("check(x.", stringify!($name), "(y), ", stringify!($y), ");")]
                /// ```
                ///
                /// # Errors
                /// Shapes that do not broadcast, or a tensor of another graph.
                #[track_caller]
                pub fn $name(&self, other: impl TensorOperand) -> Result<Tensor> {
                    combine(Call::new(stringify!($name)), Argument::Tensor(self), other.argument(), $text)
                }
            )*
        }
    };
}

binary! {
    /// x + y, broadcast as in NumPy.
    add = "{x} + {z}", [[1.], [2.]], [10., 20.] => [[11., 21.], [12., 22.]];
    /// x − y, broadcast as in NumPy.
    sub = "{x} - {z}", [[5., 7.]], [1., 2.] => [[4., 5.]];
    /// x · y, broadcast as in NumPy.
    mul = "{x} * {z}", [2., 3.], [10., 100.] => [20., 300.];
    /// x / y, broadcast as in NumPy. The quotient of integers is an integer, rounded towards 0.
    div = "{x} / {z}", [7, -7], [2] => [3, -3];
    /// The remainder of x / y with the sign of x, broadcast as in NumPy.
    fmod = "{x} % {z}", [7., -7.], [4.] => [3., -3.];
    /// x raised to the power y, broadcast as in NumPy.
    pow = "pow({x}, {z})", [2., 3.], [3., 2.] => [8., 9.];
    /// The larger of x and y, NaN if either is, broadcast as in NumPy. Where both are equal, each gets half
    /// of the gradient; where one is NaN, neither gets any.
    maximum = "max({x}, {z})", [1., 5.], [3., 2.] => [3., 5.];
    /// The smaller of x and y, NaN if either is, broadcast as in NumPy. Where both are equal, each gets half
    /// of the gradient; where one is NaN, neither gets any.
    minimum = "min({x}, {z})", [1., 5.], [3., 2.] => [1., 2.];
    /// The larger of x and y, or the other one where one is NaN, broadcast as in NumPy (`fmax` there).
    maxnum = "maxnum({x}, {z})", [f32::NAN, 5.], [3., 2.] => [3., 5.];
    /// The smaller of x and y, or the other one where one is NaN, broadcast as in NumPy (`fmin` there).
    minnum = "minnum({x}, {z})", [f32::NAN, 5.], [3., 2.] => [3., 2.];
    /// Whether x = y, broadcast as in NumPy.
    eq = "{x} == {z}", [1., 2.], [1., 3.] => [true, false];
    /// Whether x ≠ y, broadcast as in NumPy.
    ne = "{x} != {z}", [1., 2.], [1., 3.] => [false, true];
    /// Whether x < y, broadcast as in NumPy.
    lt = "{x} < {z}", [1., 3.], [2.] => [true, false];
    /// Whether x ≤ y, broadcast as in NumPy.
    le = "{x} <= {z}", [1., 2., 3.], [2.] => [true, true, false];
    /// Whether x > y, broadcast as in NumPy.
    gt = "{x} > {z}", [1., 3.], [2.] => [false, true];
    /// Whether x ≥ y, broadcast as in NumPy.
    ge = "{x} >= {z}", [1., 2., 3.], [2.] => [false, true, true];
    /// Whether both are neither 0 nor false, in their type, broadcast as in NumPy.
    logical_and = "and({x}, {z})", [1., 0.], [2., 2.] => [1., 0.];
    /// Whether one is neither 0 nor false, in their type, broadcast as in NumPy.
    logical_or = "or({x}, {z})", [1., 0.], [0., 0.] => [1., 0.];
}

impl Tensor {
    /// Converts each element to a type: floats to integers towards 0, anything to truth values by ≠ 0.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1.7, -1.7]).to_dtype(arrayjit_tensor::DType::I32), [1, -1]);
    /// ```
    ///
    /// # Errors
    /// A size that overflows.
    #[track_caller]
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        let call = Call::new("to_dtype");
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        self.map(call, &format!("{dtype}({{}})"))
    }

    /// Each element, at least `low` and at most `high`; NaN stays NaN. The derivative at the bounds is 1, as
    /// within them.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([-3., 0.5, 3.]).clamp(-1., 1.), [-1., 0.5, 1.]);
    /// ```
    ///
    /// # Errors
    /// A size that overflows.
    #[track_caller]
    pub fn clamp(&self, low: f64, high: f64) -> Result<Tensor> {
        let call = Call::new("clamp");
        let is_ordered = low <= high;
        let [low, high] = [low, high].map(|bound| number_of(self.dtype(), bound));
        self.map(
            call,
            &if is_ordered {
                format!("where({{}} > {high}, {high}, where({{}} < {low}, {low}, {{}}))")
            } else {
                format!("min(max({{}}, {low}), {high})")
            },
        )
    }

    /// x where it is positive, else `alpha`·(exp(x) − 1). The derivative at 0 is `alpha`.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([-1., 2.]).elu(1.), [-0.632121, 2.]);
    /// ```
    ///
    /// # Errors
    /// An element type without this function.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Result<Tensor> {
        self.map(Call::new("elu"), &format!("elu({{}}, {})", number(alpha)))
    }

    /// x where it is positive, else `alpha`·(exp(x / `alpha`) − 1). The derivative at 0 is 1.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([-1., 2.]).celu(2.), [-0.786939, 2.]);
    /// ```
    ///
    /// # Errors
    /// An element type without this function.
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Result<Tensor> {
        self.map(Call::new("celu"), &format!("celu({{}}, {})", number(alpha)))
    }

    /// x where it is positive, else `slope`·x. The derivative at 0 is `slope`.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([-1., 2.]).leaky_relu(0.1), [-0.1, 2.]);
    /// ```
    ///
    /// # Errors
    /// An element type without a product.
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Result<Tensor> {
        self.map(Call::new("leaky_relu"), &format!("where({{}} > 0, {{}}, {{}} * {})", number(slope)))
    }

    /// `then` where this tensor is true or not 0, else `otherwise`; all three broadcast as in NumPy. The
    /// gradient reaches only the chosen elements, so an infinite element that is not chosen does no harm.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([-1., 4.]);
    /// check(x.gt(0.)?.where_(x.sqrt()?, 0.), [0., 2.]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, or a tensor of another graph.
    #[track_caller]
    pub fn where_(&self, then: impl TensorOperand, otherwise: impl TensorOperand) -> Result<Tensor> {
        let call = Call::new("where");
        let (then, otherwise) = (then.argument(), otherwise.argument());
        let fail = |kind| self.graph().fail(call, kind);
        let arms = broadcast(then.shape(), otherwise.shape()).map_err(fail)?;
        let to = broadcast(self.shape(), &arms).map_err(fail)?;
        let condition = broadcast_access("c", self.shape(), &to);
        let [(x, then), (z, otherwise)] =
            [("x", then), ("z", otherwise)].map(|(name, argument)| (written(name, argument, &to), argument));
        let inputs = [("c", Argument::Tensor(self)), ("x", then), ("z", otherwise)];
        let inputs = named(&inputs);
        self.graph().result(call, &inputs, |y| {
            format!("{} := where({condition}, {x}, {z})", broadcast_access(y, &to, &to))
        })
    }

    /// Applies an expression, in which `{}` is the element.
    /// The same values as constants: no gradient goes through the result.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let graph = Graph::new();
    /// let x = graph.input("x", [3], DType::F32)?;
    /// let loss = x.mul(&x.detach()?)?.sum(..)?; // its gradient is x, not 2 · x
    /// assert_eq!(graph.gradients(&loss, &[&x])?[0].shape(), [3]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// None but for a tensor of a scan whose body has ended.
    #[track_caller]
    pub fn detach(&self) -> Result<Tensor> {
        let rank = self.rank();
        self.graph().result(Call::new("detach"), &[("x", Argument::Tensor(self))], |y| {
            format!("{} := {}\ndetach {y}", whole(y, rank), whole("x", rank))
        })
    }

    pub(crate) fn map(&self, call: Call, expression: &str) -> Result<Tensor> {
        let rank = self.rank();
        let value = expression.replace("{}", &whole("x", rank));
        self.graph()
            .result(call, &[("x", Argument::Tensor(self))], |y| format!("{} := {value}", whole(y, rank)))
    }
}

/// Applies an expression to the elements `{x}` and `{z}` of two operands; at least one is a tensor.
pub(crate) fn combine(
    call: Call,
    left: Argument<'_>,
    right: Argument<'_>,
    expression: &str,
) -> Result<Tensor> {
    let Some(graph) = left.graph().or(right.graph()) else {
        return Err(call.error("", misfit("the operands", left.name(), "a tensor: parameters have no graph")));
    };
    let to = broadcast(left.shape(), right.shape()).map_err(|kind| graph.fail(call, kind))?;
    let text = expression.replace("{x}", &written("x", left, &to)).replace("{z}", &written("z", right, &to));
    graph.result(call, &named(&[("x", left), ("z", right)]), |y| {
        format!("{} := {text}", broadcast_access(y, &to, &to))
    })
}

/// An operand as text: a number itself, or the access of a node that is broadcast to `to`.
fn written(name: &str, argument: Argument<'_>, to: &[usize]) -> String {
    match argument {
        Argument::Integer(value) => value.to_string(),
        Argument::Float(value) => number(value),
        _ => broadcast_access(name, argument.shape(), to),
    }
}

/// The arguments that are nodes.
fn named<'a>(arguments: &[(&'a str, Argument<'a>)]) -> Vec<(&'a str, Argument<'a>)> {
    arguments.iter().copied().filter(|(_, argument)| argument.node().is_some()).collect()
}

/// Implements an operator for tensors, parameters and numbers; each side may be a reference.
macro_rules! operator {
    ($($trait:ident $method:ident $text:literal;)*) => {
        $(
            operator!(@ $trait $method $text: &Tensor);
            operator!(@ $trait $method $text: Tensor);
            operator!(@ $trait $method $text: &Parameter);
            operator!(@from number $trait $method $text: f64 i64);
        )*
    };
    (@ $trait:ident $method:ident $text:literal: $left:ty) => {
        impl<O: TensorOperand> ops::$trait<O> for $left {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: O) -> Result<Tensor> {
                combine(Call::new(stringify!($method)), TensorOperand::argument(&self), other.argument(), $text)
            }
        }
    };
    (@from number $trait:ident $method:ident $text:literal: $($number:ty)*) => {
        $(
            operator!(@number $trait $method $text: $number, &Tensor);
            operator!(@number $trait $method $text: $number, Tensor);
        )*
    };
    (@number $trait:ident $method:ident $text:literal: $number:ty, $right:ty) => {
        impl ops::$trait<$right> for $number {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $right) -> Result<Tensor> {
                combine(Call::new(stringify!($method)), TensorOperand::argument(&self), TensorOperand::argument(&other), $text)
            }
        }
    };
}

operator! {
    Add add "{x} + {z}";
    Sub sub "{x} - {z}";
    Mul mul "{x} * {z}";
    Div div "{x} / {z}";
}

impl ops::Neg for &Tensor {
    type Output = Result<Tensor>;

    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}
