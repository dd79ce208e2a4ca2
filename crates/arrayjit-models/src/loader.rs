//! Parameters with the values of files.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use arrayjit_tensor::{
    HostArray, Init, Parameter, Params,
    nn::{Embedding, LayerNorm, Linear, RmsNorm},
};

use crate::{error::ModelError, weights::Weights};

/// The name and the shape of a tensor.
type NamedShape = (String, Vec<usize>);

/// Makes the parameters of a module with the values of the tensors of the same names. Tensors that are
/// missing are collected, so that one error names all.
#[derive(Clone)]
pub(crate) struct Loader<'w> {
    params: Params,
    weights: &'w Weights,
    missing: Rc<RefCell<Vec<NamedShape>>>,
}

impl<'w> Loader<'w> {
    pub(crate) fn new(weights: &'w Weights) -> Loader<'w> {
        Loader { params: Params::new(0), weights, missing: Rc::default() }
    }

    /// All parameters that were made.
    ///
    /// # Errors
    /// Tensors that were missing.
    pub(crate) fn finish(self) -> Result<Params, ModelError> {
        let tensors = self.missing.take();
        if tensors.is_empty() { Ok(self.params) } else { Err(ModelError::Missing { tensors }) }
    }

    /// The parameters of a part, whose names start with its name.
    #[must_use]
    pub(crate) fn sub(&self, name: impl std::fmt::Display) -> Loader<'w> {
        Loader { params: self.params.sub(name), ..self.clone() }
    }

    /// The parameters of the body of a model. Files that were written from the body alone leave out its name.
    #[must_use]
    pub(crate) fn body(&self, name: &str) -> Loader<'w> {
        let prefix = format!("{name}.");
        if self.weights.names().any(|tensor| tensor.starts_with(&prefix)) {
            self.sub(name)
        } else {
            self.clone()
        }
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Option<HostArray>, ModelError> {
        let name = self.params.sub(name).path().to_owned();
        match self.weights.shape(&name) {
            Some(found) if found != shape => {
                Err(ModelError::Shape { name, found: found.to_vec(), expected: shape.to_vec() })
            }
            Some(_) => self.weights.read(&name),
            None => {
                self.missing.borrow_mut().push((name, shape.to_vec()));
                Ok(None)
            }
        }
    }

    /// Makes a parameter of a tensor of the shape `stored`, whose values `change` converts.
    fn changed(
        &self,
        name: &str,
        stored: &[usize],
        shape: &[usize],
        change: impl FnOnce(HostArray) -> Result<HostArray, ModelError>,
    ) -> Result<Parameter, ModelError> {
        let init = match self.values(name, stored)? {
            Some(values) => Init::Shared(Arc::new(change(values)?)),
            None => Init::ZEROS,
        };
        Ok(self.params.buffer(name, shape.iter().copied(), init)?)
    }

    pub(crate) fn parameter(&self, name: &str, shape: &[usize]) -> Result<Parameter, ModelError> {
        self.changed(name, shape, shape, Ok)
    }

    /// An array that does not come from the files.
    pub(crate) fn constant(&self, name: &str, values: HostArray) -> Result<Parameter, ModelError> {
        let shape = values.dims().to_vec();
        Ok(self.params.buffer(name, shape, Init::Shared(Arc::new(values)))?)
    }

    /// An array that runs write.
    pub(crate) fn buffer(&self, name: &str, shape: &[usize]) -> Result<Parameter, ModelError> {
        Ok(self.params.buffer(name, shape.iter().copied(), Init::ZEROS)?)
    }

    pub(crate) fn linear(
        &self,
        name: &str,
        inputs: usize,
        outputs: usize,
        bias: bool,
    ) -> Result<Linear, ModelError> {
        let loader = self.sub(name);
        let weight = loader.parameter("weight", &[outputs, inputs])?;
        let bias = if bias { Some(loader.parameter("bias", &[outputs])?) } else { None };
        Ok(Linear { weight, bias })
    }

    /// A linear map whose weight is stored as `[inputs, outputs]`.
    pub(crate) fn transposed_linear(
        &self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Linear, ModelError> {
        let loader = self.sub(name);
        let weight = loader.changed("weight", &[inputs, outputs], &[outputs, inputs], |values| {
            let stored = values.as_slice::<f32>()?;
            let mut transposed = HostArray::zeros(values.dtype(), [outputs, inputs])?;
            for (at, row) in transposed.as_mut_slice::<f32>()?.chunks_mut(inputs).enumerate() {
                row.iter_mut().zip(stored[at..].iter().step_by(outputs)).for_each(|(to, from)| *to = *from);
            }
            Ok(transposed)
        })?;
        Ok(Linear { weight, bias: Some(loader.parameter("bias", &[outputs])?) })
    }

    pub(crate) fn embedding(&self, name: &str, count: usize, size: usize) -> Result<Embedding, ModelError> {
        Ok(Embedding { weight: self.sub(name).parameter("weight", &[count, size])? })
    }

    /// Makes a table of `rows` rows of a tensor with `stored` rows; missing rows are 0.
    pub(crate) fn rows(
        &self,
        name: &str,
        stored: usize,
        size: usize,
        rows: usize,
    ) -> Result<Parameter, ModelError> {
        self.sub(name).changed("weight", &[stored, size], &[rows, size], |values| {
            let kept = stored.min(rows) * size;
            let mut table = HostArray::zeros(values.dtype(), [rows, size])?;
            table.as_mut_slice::<f32>()?[..kept].copy_from_slice(&values.as_slice::<f32>()?[..kept]);
            Ok(table)
        })
    }

    pub(crate) fn layer_norm(&self, name: &str, size: usize, eps: f64) -> Result<LayerNorm, ModelError> {
        let loader = self.sub(name);
        let weight = loader.parameter("weight", &[size])?;
        Ok(LayerNorm { weight, bias: loader.parameter("bias", &[size])?, eps })
    }

    /// A normalization whose factor is the stored weight plus `offset`.
    pub(crate) fn rms_norm(
        &self,
        name: &str,
        size: usize,
        eps: f64,
        offset: f32,
    ) -> Result<RmsNorm, ModelError> {
        let weight = self.sub(name).changed("weight", &[size], &[size], |mut values| {
            values.as_mut_slice::<f32>()?.iter_mut().for_each(|value| *value += offset);
            Ok(values)
        })?;
        Ok(RmsNorm { weight, eps: Some(eps) })
    }
}
