//! Linear maps of the last axis.

use crate::{
    error::{Call, Result},
    nn::{Module, ModuleTypes, check_axis},
    operand::{Argument, TensorOperand},
    options::options,
    parameter::{Init, Parameter, Params},
    shape::{access, letter},
    tensor::Tensor,
};

/// x · weightᵀ + bias over the last axis, as torch's `Linear`.
///
/// ```
/// use arrayjit_tensor::{DType, Graph, Params};
/// use arrayjit_tensor::nn::{Linear, Module};
///
/// let params = Params::new(42);
/// let fc1 = Linear::new(&params.sub("fc1"), 784, 128)?;
/// let fc2 = Linear::builder(&params.sub("fc2"), 128, 10).bias(false).build()?;
/// let x = Graph::new().input("x", [32, 784], DType::F32)?;
/// assert_eq!(fc2.forward(&fc1.forward(&x)?)?.shape(), [32, 10]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
pub struct Linear {
    /// `weight`, of shape `[outputs, inputs]`.
    pub weight: Parameter,
    /// `bias`, of shape `[outputs]`.
    pub bias: Option<Parameter>,
}

/// The options of a [`Linear`] whose parameters are not made yet.
pub struct LinearBuilder {
    params: Params,
    inputs: usize,
    outputs: usize,
    bias: bool,
}

impl Linear {
    /// A map from `inputs` to `outputs` elements. The weight and the bias are uniform in ±1/√`inputs`.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, inputs: usize, outputs: usize) -> Result<Linear> {
        Linear::builder(params, inputs, outputs).build()
    }

    /// [`new`](Linear::new) with options.
    pub fn builder(params: &Params, inputs: usize, outputs: usize) -> LinearBuilder {
        LinearBuilder { params: params.clone(), inputs, outputs, bias: true }
    }
}

impl LinearBuilder {
    options! {
        /// Whether a number is added to each output; true by default.
        bias: bool => bias;
    }

    /// Makes the parameters.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn build(self) -> Result<Linear> {
        let LinearBuilder { params, inputs, outputs, bias } = self;
        let weight = params.parameter("weight", [outputs, inputs], uniform(inputs))?;
        let bias = match bias {
            true => Some(params.parameter("bias", [outputs], uniform(inputs))?),
            false => None,
        };
        Ok(Linear { weight, bias })
    }
}

/// Uniform in ±1/√`fan_in`, the initial values of most layers of torch.
pub(super) fn uniform(fan_in: usize) -> Init {
    Init::kaiming_uniform(fan_in, (1.0f64 / 3.0).sqrt())
}

impl Module for Linear {
    /// `[…, inputs]` to `[…, outputs]`.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        let bias = self.bias.as_ref().map(|bias| bias as &dyn TensorOperand);
        x.linear(&self.weight, bias)
    }
}

impl Tensor {
    /// x · weightᵀ + bias over the last axis, as torch's `linear`: `[…, inputs]` to `[…, outputs]`, for a
    /// weight `[outputs, inputs]` and a bias `[outputs]`. Narrow floats are multiplied and summed in f32.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let (x, weight, bias) = (tensor([[1., 2.]]), tensor([[1., 10.], [0., 1.]]), tensor([0.5, 0.]));
    /// check(x.linear(&weight, Some(&bias)), [[21.5, 2.]]);
    /// ```
    ///
    /// # Errors
    /// A weight or a bias of another shape, or a tensor of another graph.
    #[track_caller]
    pub fn linear(&self, weight: &dyn TensorOperand, bias: Option<&dyn TensorOperand>) -> Result<Tensor> {
        let weight = weight.argument();
        let rows = weight.shape().first().copied().unwrap_or_default();
        apply(Call::new("linear"), self, weight, bias.map(TensorOperand::argument), 0..rows)
    }
}

/// x · weightᵀ + bias, with these rows of the weight and elements of the bias.
pub(super) fn apply(
    call: Call,
    x: &Tensor,
    weight: Argument<'_>,
    bias: Option<Argument<'_>>,
    rows: std::ops::Range<usize>,
) -> Result<Tensor> {
    let (&[_, size], Some(dtype)) = (weight.shape(), weight.dtype()) else {
        return Err(x.graph().fail(call, weight.misshapen("2 axes")));
    };
    check_axis(call, x, -1, size, &weight.name())?;
    let types = ModuleTypes::of(x, dtype);
    let axes = |last: &str| (0..x.rank() - 1).map(letter).chain([last.to_owned()]).collect::<Vec<_>>();
    let row = if rows.start == 0 { "o".to_owned() } else { format!("o + {}", rows.start) };
    let value = types.widen(&access("x", axes("k")), x.dtype());
    let factor = types.widen(&format!("w[{row},k]"), dtype);
    let outputs = rows.len();
    let mut inputs = vec![("x", Argument::Tensor(x)), ("w", weight)];
    let mut result = access("s", axes("o"));
    if let Some(bias) = bias {
        inputs.push(("b", bias));
        let bias = types.widen(&format!("b[{row}]"), bias.dtype().unwrap_or(types.wide));
        result = format!("{result} + {bias}");
    }
    x.graph().result(call, &inputs, |y| {
        format!(
            "{} :+= {value} * {factor} where o < {outputs}\n{} := {} where o < {outputs}",
            access("s", axes("o")),
            access(y, axes("o")),
            types.narrowed(&result)
        )
    })
}
