//! Matrices of weights: floats, or integers of few bits that products decode.

use arrayjit_tensor::{DType, Parameter, QuantizedFormat, Tensor, TensorOperand};

use crate::error::Result;

/// A matrix `[outputs, inputs]` of weights on a device, in parameters or in parts of them.
#[derive(Clone)]
pub(crate) enum Matrix<P = Parameter> {
    /// Floats of 16 or 32 bits.
    Dense(P),
    /// Integers with their scales.
    Packed {
        format: QuantizedFormat,
        /// The arrays that the format lists.
        arrays: Vec<P>,
    },
}

impl Matrix {
    /// The rows at these positions, as a table of embeddings: `[…]` to `[…, inputs]`, in f32.
    pub(crate) fn rows(&self, positions: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Matrix::Dense(table) => positions.embedding(table)?.to_dtype(DType::F32)?,
            Matrix::Packed { format, arrays } => positions.quantized_rows(*format, arrays)?,
        })
    }
}

/// A linear map of the last axis: the product with a matrix, and a bias.
#[derive(Clone)]
pub(crate) struct Projection<P = Parameter> {
    pub(crate) matrix: Matrix<P>,
    pub(crate) bias: Option<P>,
    /// The path of the module.
    pub(crate) module: String,
}

impl<P: TensorOperand + Clone> Projection<P> {
    /// `[…, inputs]` to `[…, outputs]`.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(&self.module);
        Ok(match (&self.matrix, &self.bias) {
            (Matrix::Dense(weight), bias) => {
                x.linear(weight, bias.as_ref().map(|bias| bias as &dyn TensorOperand))?
            }
            (Matrix::Packed { format, arrays }, None) => x.quantized_linear(*format, arrays)?,
            (Matrix::Packed { format, arrays }, Some(bias)) => {
                x.quantized_linear(*format, arrays)?.add(bias.clone())?
            }
        })
    }

    /// The map with a part of each parameter.
    pub(crate) fn parts<Q>(&self, part: impl Fn(&P) -> Result<Q>) -> Result<Projection<Q>> {
        let matrix = match &self.matrix {
            Matrix::Dense(weight) => Matrix::Dense(part(weight)?),
            Matrix::Packed { format, arrays } => {
                let arrays = arrays.iter().map(&part).collect::<Result<_, _>>()?;
                Matrix::Packed { format: *format, arrays }
            }
        };
        let bias = self.bias.as_ref().map(part).transpose()?;
        Ok(Projection { matrix, bias, module: self.module.clone() })
    }
}
