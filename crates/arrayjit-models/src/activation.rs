//! The functions between two layers, by their names in configurations.

use arrayjit_tensor::Tensor;

use crate::{config::Config, error::Result};

/// A function of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Activation {
    Silu,
    Gelu,
    GeluTanh,
    Relu,
}

impl Activation {
    /// The function that a key names.
    pub(crate) fn read(config: &Config, key: &str) -> Result<Activation> {
        let choices = [
            ("silu", Activation::Silu),
            ("gelu", Activation::Gelu),
            ("gelu_new", Activation::GeluTanh),
            ("gelu_pytorch_tanh", Activation::GeluTanh),
            ("relu", Activation::Relu),
        ];
        config.choice(key, &choices)?.ok_or_else(|| config.misfit(key, "the name of a function"))
    }

    pub(crate) fn apply(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Activation::Silu => x.silu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Relu => x.relu(),
        }?)
    }
}
