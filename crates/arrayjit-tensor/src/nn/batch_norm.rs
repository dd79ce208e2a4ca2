//! Normalization over a batch.

use arrayjit::DType;

use crate::{
    error::{Call, Result, check_epsilon},
    nn::{Module, ModuleTypes, check_axis, check_rank},
    operand::{Argument, number},
    options::options,
    parameter::{Init, Parameter, Params},
    reduce::sum_types,
    shape::{access, letter, whole},
    tensor::Tensor,
    window,
};

/// Batch normalization over `AXES` axes of space, as torch's `BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d`:
/// (x − mean) / √(variance + eps) · weight + bias for each channel.
///
/// A graph for training uses the mean and the variance of the batch, and a run moves the running statistics
/// towards them: running = (1 − momentum) · running + momentum · batch. Other graphs use the running
/// statistics.
///
/// Source: Ioffe and Szegedy, Batch normalization, 2015.
pub struct BatchNorm<const AXES: usize> {
    /// `weight`, of shape `[channels]`.
    pub weight: Parameter,
    /// `bias`, of shape `[channels]`.
    pub bias: Parameter,
    /// The buffer `running_mean`, of shape `[channels]`, in f32 for narrow floats.
    pub running_mean: Parameter,
    /// The buffer `running_var`, of shape `[channels]`, in f32 for narrow floats.
    pub running_var: Parameter,
    /// The buffer `num_batches_tracked`, of rank 0: the number of training steps. It is an i32, since not all
    /// GPUs have the i64 of torch, whose checkpoints load nevertheless.
    pub num_batches_tracked: Parameter,
    /// The weight of a batch in the running statistics.
    pub momentum: f64,
    /// The number that is added to variances.
    pub eps: f64,
}

/// Batch normalization of sequences or of vectors.
pub type BatchNorm1d = BatchNorm<1>;
/// Batch normalization of images.
pub type BatchNorm2d = BatchNorm<2>;
/// Batch normalization of volumes.
pub type BatchNorm3d = BatchNorm<3>;

impl<const AXES: usize> BatchNorm<AXES> {
    /// Normalizes `channels` channels, with a momentum of 0.1 and an eps of 1e-5. The weights and running
    /// variances are 1 at first, the biases and running means 0.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, channels: usize) -> Result<Self> {
        let wide = params.with_dtype(sum_types(params.dtype()).0);
        Ok(BatchNorm {
            weight: params.parameter("weight", [channels], Init::ONES)?,
            bias: params.parameter("bias", [channels], Init::ZEROS)?,
            running_mean: wide.buffer("running_mean", [channels], Init::ZEROS)?,
            running_var: wide.buffer("running_var", [channels], Init::ONES)?,
            num_batches_tracked: params.with_dtype(DType::I32).buffer(
                "num_batches_tracked",
                [],
                Init::ZEROS,
            )?,
            momentum: 0.1,
            eps: 1e-5,
        })
    }

    options! {
        /// The weight of a batch in the running statistics.
        momentum: f64 => momentum;
        /// The number that is added to variances.
        eps: f64 => eps;
    }
}

impl<const AXES: usize> Module for BatchNorm<AXES> {
    /// `[batch, channels, …]` to the same shape; of one axis of space, also `[batch, channels]`.
    ///
    /// # Errors
    /// A tensor of integers or another rank, another number of channels, or, in training, only one value per
    /// channel.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        let call = Call::new("batch_norm");
        x.floats(call)?;
        let &[batch, channels, ref space @ ..] = x.shape() else {
            return Err(x.graph().fail(call, x.misshapen("[batch, channels, …]")));
        };
        if space.len() != AXES && (AXES, space.len()) != (1, 0) {
            let expected = format!("[batch, channels, {}]", window::space(AXES));
            return Err(x.graph().fail(call, x.misshapen(expected)));
        }
        check_rank(call, x, &self.weight, 1)?;
        check_axis(call, x, 1, self.weight.shape()[0], self.weight.name())?;
        check_epsilon(x.graph(), call, self.eps)?;
        let is_training = x.graph().is_training();
        if is_training && channels > 0 && batch * space.iter().product::<usize>() < 2 {
            let expected = "at least two values per channel, since their variance is used in training";
            return Err(x.graph().fail(call, x.misshapen(expected)));
        }
        let types = ModuleTypes::new(x, &self.running_mean);
        let types = ModuleTypes { narrow: x.dtype().promote(self.weight.dtype()), ..types };
        let (rank, channel) = (x.rank(), &[letter(1)]);
        let [r, m, v] = [whole("r", rank), access("m", channel), access("v", channel)];
        let arguments = [
            types.widen(&whole("x", rank), x.dtype()),
            types.widen(&access("g", channel), self.weight.dtype()),
            types.widen(&access("a", channel), self.bias.dtype()),
        ];
        let arguments = arguments.join(", ");
        let (momentum, eps) = (number(self.momentum), number(self.eps));
        let normalized = match is_training {
            true => {
                format!("n[] := n[] + 1\n{r} := batch_norm_train({arguments}, {m}, {v}, {momentum}, {eps})")
            }
            false => format!("{r} := batch_norm({arguments}, {m}, {v}, {eps})"),
        };
        let mut inputs = vec![("x", Argument::Tensor(x))];
        let parameters =
            [("g", &self.weight), ("a", &self.bias), ("m", &self.running_mean), ("v", &self.running_var)];
        inputs.extend(parameters.map(|(name, parameter)| (name, Argument::Parameter(parameter))));
        if is_training {
            inputs.push(("n", Argument::Parameter(&self.num_batches_tracked)));
        }
        let result = types.narrowed(&r);
        x.graph().result(call, &inputs, |y| format!("{normalized}\n{} := {result}", whole(y, rank)))
    }
}
