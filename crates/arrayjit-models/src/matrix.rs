//! Matrices of weights: floats, or integers of few bits that products decode.

use arrayjit_tensor::{
    DType, Parameter, QuantizedFormat, Tensor,
    nn::{Linear, Module},
};

use crate::error::ModelError;

/// A matrix `[outputs, inputs]` of weights on a device.
#[derive(Clone)]
pub(crate) enum Matrix {
    /// Floats of 16 or 32 bits.
    Dense(Parameter),
    /// Integers with their scales.
    Packed {
        format: QuantizedFormat,
        /// The arrays that the format lists.
        arrays: Vec<Parameter>,
    },
}

impl Matrix {
    /// The rows at these positions, as a table of embeddings: `[…]` to `[…, inputs]`, in f32.
    pub(crate) fn rows(&self, positions: &Tensor) -> Result<Tensor, ModelError> {
        Ok(match self {
            Matrix::Dense(table) => positions.embedding(table)?.to_dtype(DType::F32)?,
            Matrix::Packed { format, arrays } => positions.quantized_rows(*format, arrays)?,
        })
    }
}

/// A linear map of the last axis: the product with a matrix, and a bias.
#[derive(Clone)]
pub(crate) struct Projection {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Parameter>,
}

impl Projection {
    /// `[…, inputs]` to `[…, outputs]`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, ModelError> {
        let bias = self.bias.clone();
        Ok(match (&self.matrix, bias) {
            (Matrix::Dense(weight), bias) => Linear { weight: weight.clone(), bias }.forward(x)?,
            (Matrix::Packed { format, arrays }, None) => x.quantized_linear(*format, arrays)?,
            (Matrix::Packed { format, arrays }, Some(bias)) => (x.quantized_linear(*format, arrays)? + bias)?,
        })
    }
}
