//! Modules: layers with named parameters, under torch's names and with torch's initial values.
//!
//! A module is a plain struct whose public fields are its parameters and options, and a model is a struct of
//! modules. [`Module::forward`] adds the statements of a module to the graph of its input. Messages and the
//! names of results have the path that [`Params::sub`](crate::Params::sub) gave the module. Parameters
//! have the names that torch's modules give them, so a checkpoint of a torch model loads with
//! [`ModelState::load_safetensors`](crate::ModelState::load_safetensors).
//!
//! ```
//! use arrayjit_tensor::{DType, Graph, Params, Tensor, TensorError};
//! use arrayjit_tensor::nn::{Linear, Module};
//!
//! struct Mlp {
//!     fc1: Linear,
//!     fc2: Linear,
//! }
//!
//! impl Mlp {
//!     fn new(params: &Params) -> Result<Mlp, TensorError> {
//!         let fc1 = Linear::new(&params.sub("fc1"), 784, 128)?;
//!         Ok(Mlp { fc1, fc2: Linear::new(&params.sub("fc2"), 128, 10)? })
//!     }
//! }
//!
//! impl Module for Mlp {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor, TensorError> {
//!         self.fc2.forward(&self.fc1.forward(x)?.relu()?)
//!     }
//! }
//!
//! let params = Params::new(42);
//! let model = Mlp::new(&params)?;
//! let graph = Graph::new();
//! let logits = model.forward(&graph.input("x", [32, 784], DType::F32)?)?;
//! assert_eq!(logits.shape(), [32, 10]);
//! # Ok::<(), TensorError>(())
//! ```
//!
//! `new` takes sizes, `builder` options too, as consuming methods with torch's names:
//! `Conv2d::builder(&params, 1, 6, 5).padding(2).bias(false).build()?`. An option that decides about no
//! parameter may change later: `LayerNorm::new(&params, 64)?.eps(1e-6)`.
//!
//! Whether a module trains follows from its graph: in one of
//! [`Graph::for_training`](crate::Graph::for_training), [`Dropout`] drops elements, and [`BatchNorm`]
//! uses the statistics of the batch and updates its running statistics. Parameters of bf16 and f16
//! ([`Params::with_dtype`](crate::Params::with_dtype)) are converted to f32 where they are used, so that
//! sums and normalization are computed in f32.

mod attention; // attention with several heads
mod batch_norm; // normalization over a batch
mod convolution; // convolution
mod dropout; // dropout
mod embedding; // rows of a table
mod encoder; // a layer of a transformer
mod group_norm; // normalization of each element of a batch
mod linear; // x · wᵀ + b
mod lora; // adapters of low rank
mod recurrent; // LSTM, GRU, RNN

pub use attention::{MultiHeadAttention, MultiHeadAttentionBuilder};
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use convolution::{
    Conv, Conv1d, Conv2d, Conv3d, ConvBuilder, ConvTranspose, ConvTranspose1d, ConvTranspose2d,
    ConvTranspose3d,
};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use encoder::{TransformerEncoderLayer, TransformerEncoderLayerBuilder};
pub use group_norm::{GroupNorm, LayerNorm, RmsNorm};
pub use linear::{Linear, LinearBuilder};
pub use lora::{Lora, LoraBuilder};
pub use recurrent::{
    Gru, GruCell, Lstm, LstmCell, LstmState, Recurrent, RecurrentBuilder, RecurrentCell, RecurrentLayer, Rnn,
    RnnCell,
};

use arrayjit::DType;

use crate::{
    error::{Call, Result, misfit},
    operand::Argument,
    parameter::Parameter,
    reduce::sum_types,
    tensor::Tensor,
};

/// A layer or a model: a function of a tensor that has parameters.
pub trait Module {
    /// Adds the statements of the module to the graph of `x`, and returns the result.
    ///
    /// # Errors
    /// A tensor whose shape or type the module does not take.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor>;
}

/// The types of a module: `wide` in which it computes, `narrow` of its result.
#[derive(Clone, Copy)]
struct ModuleTypes {
    wide: DType,
    narrow: DType,
}

impl ModuleTypes {
    /// The types for an input and a parameter: of the result, the type to which both promote.
    fn new(x: &Tensor, parameter: &Parameter) -> ModuleTypes {
        ModuleTypes::of(x, parameter.dtype())
    }

    /// The same for a parameter of this type.
    fn of(x: &Tensor, parameter: DType) -> ModuleTypes {
        let narrow = x.dtype().promote(parameter);
        ModuleTypes { wide: sum_types(narrow).0, narrow }
    }

    /// The access of a node of type `from` as a value of the wide type. Without a conversion that changes
    /// nothing, a function of the prelude uses the node in place.
    fn widen(self, access: &str, from: DType) -> String {
        if from == self.wide { access.to_owned() } else { format!("{}({access})", self.wide) }
    }

    /// An expression of the wide type as a value of the narrow type.
    fn narrowed(self, expression: &str) -> String {
        if self.wide == self.narrow {
            expression.to_owned()
        } else {
            format!("{}({expression})", self.narrow)
        }
    }
}

/// Checks that axis `at` of an input has as many elements as an axis of a parameter. A negative axis counts
/// from the last.
fn check_axis(call: Call, x: &Tensor, at: isize, size: usize, parameter: &str) -> Result<()> {
    let axis = crate::shape::axis_at(at, x.shape()).map_err(|kind| x.graph().fail(call, kind))?;
    if x.shape()[axis] == size {
        return Ok(());
    }
    Err(x.graph().fail(call, x.misshapen(format!("{size} elements on axis {axis}, as {parameter} has"))))
}

/// Checks the number of axes of a parameter, since the fields of a module may be replaced.
fn check_rank(call: Call, x: &Tensor, parameter: &Parameter, rank: usize) -> Result<()> {
    if parameter.shape().len() == rank {
        return Ok(());
    }
    Err(x.graph().fail(call, Argument::Parameter(parameter).misshapen(format!("{rank} axes"))))
}

/// Checks that a field of a module divides a size.
fn check_divisor(
    call: Call,
    x: &Tensor,
    (argument, value): (&'static str, usize),
    size: usize,
) -> Result<()> {
    if value > 0 && size.is_multiple_of(value) {
        return Ok(());
    }
    Err(x.graph().fail(call, misfit(argument, value, format!("a divisor of {size}"))))
}
