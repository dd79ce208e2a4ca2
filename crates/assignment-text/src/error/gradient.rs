//! The errors about gradients in a text.

use tnode::DType;

/// The kind of an error about a gradient in a text.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TextGradientError {
    /// A loss that is no float of rank 0.
    #[error("the loss of a gradient is a float of rank 0, found `{name} {dtype}{dims:?}`")]
    Loss {
        /// The name.
        name: String,
        /// Its type.
        dtype: DType,
        /// Its dimensions.
        dims: Vec<usize>,
    },
    /// A loss that the program does not compute.
    #[error("no statement before this one writes the loss `{name}`")]
    LossNotWritten {
        /// The name.
        name: String,
    },
    /// A parameter or gradient of integers.
    #[error("node `{name}` is of {dtype}; expected a float, since integers have no derivatives")]
    Integer {
        /// The name.
        name: String,
        /// Its type.
        dtype: DType,
    },
    /// A read of a gradient that nothing computes.
    #[error(
        "no statement before this one computes `{name}`; expected `grad loss by {parameter}`, where `loss` is the node to \
         differentiate"
    )]
    NotComputed {
        /// The name of the gradient.
        name: String,
        /// The node by which to differentiate.
        parameter: String,
    },
}
