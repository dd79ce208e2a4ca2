//! Rows of a table.

use crate::{
    error::Result,
    nn::Module,
    parameter::{Init, Parameter, Params},
    tensor::Tensor,
};

/// The rows of a table at integer positions, as torch's `Embedding`.
pub struct Embedding {
    /// `weight`, of shape `[count, size]`.
    pub weight: Parameter,
}

impl Embedding {
    /// A table of `count` rows of `size` elements, normal random numbers of variance 1.
    ///
    /// # Errors
    /// A name that exists already, or a size that overflows.
    #[track_caller]
    pub fn new(params: &Params, count: usize, size: usize) -> Result<Embedding> {
        let init = Init::Normal { mean: 0.0, std: 1.0 };
        Ok(Embedding { weight: params.parameter("weight", [count, size], init)? })
    }
}

impl Module for Embedding {
    /// Integers of shape `[…]` to `[…, size]`. For a position outside the table, see
    /// [`take`](Tensor::take).
    ///
    /// # Errors
    /// A tensor of floats.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(self.weight.module());
        x.embedding(&self.weight)
    }
}
