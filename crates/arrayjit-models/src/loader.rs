//! Parameters with the values of files.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use arrayjit_tensor::{
    HostArray, Init, Parameter, Params, QuantizedFormat,
    nn::{LayerNorm, RmsNorm},
};

use crate::{
    encoding::Encoding,
    error::ModelError,
    language_model::WeightStorage,
    matrix::{Matrix, Projection},
    weights::Weights,
};

/// The name and the shape of a tensor.
type NamedShape = (String, Vec<usize>);

/// Makes the parameters of a module with the values of the tensors of the same names. Tensors that are
/// missing are collected, so that one error names all.
#[derive(Clone)]
pub(crate) struct Loader<'w> {
    params: Params,
    weights: &'w Weights,
    storage: WeightStorage,
    missing: Rc<RefCell<Vec<NamedShape>>>,
}

impl<'w> Loader<'w> {
    pub(crate) fn new(weights: &'w Weights, storage: WeightStorage) -> Loader<'w> {
        Loader { params: Params::new(0), weights, storage, missing: Rc::default() }
    }

    /// All parameters that were made.
    ///
    /// # Errors
    /// Tensors that were missing.
    pub(crate) fn finish(self) -> Result<Params, ModelError> {
        self.check()?;
        Ok(self.params)
    }

    /// Fails if a tensor was missing. Sizes that tensors confirm are bounded by the files.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let tensors = self.missing.take();
        if tensors.is_empty() { Ok(()) } else { Err(ModelError::Missing { tensors }) }
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

    /// The name of a tensor that has this shape; none if it is missing.
    fn found(&self, name: &str, shape: &[usize]) -> Result<Option<String>, ModelError> {
        let name = self.params.sub(name).path().to_owned();
        match self.weights.shape(&name) {
            Some(found) if found != shape => {
                Err(ModelError::Shape { name, found: found.to_vec(), expected: shape.to_vec() })
            }
            Some(_) => Ok(Some(name)),
            None => {
                self.missing.borrow_mut().push((name, shape.to_vec()));
                Ok(None)
            }
        }
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Option<HostArray>, ModelError> {
        self.found(name, shape)?.map_or(Ok(None), |name| self.weights.read(&name))
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
        let (params, shape) = (self.params.with_dtype(values.dtype()), values.dims().to_vec());
        Ok(params.buffer(name, shape, Init::Shared(Arc::new(values)))?)
    }

    /// An array that runs write.
    pub(crate) fn buffer(&self, name: &str, shape: &[usize]) -> Result<Parameter, ModelError> {
        Ok(self.params.buffer(name, shape.iter().copied(), Init::ZEROS)?)
    }

    /// A matrix, stored as the options say.
    pub(crate) fn matrix(&self, name: &str, [outputs, inputs]: [usize; 2]) -> Result<Matrix, ModelError> {
        let shape = [outputs, inputs];
        let Some(tensor) = self.found(name, &shape)? else {
            return Ok(Matrix::Dense(self.params.buffer(name, shape, Init::ZEROS)?));
        };
        let values = match (self.storage, self.weights.encoding(&tensor)) {
            (WeightStorage::Stored, Some(Encoding::Blocks(blocks))) => {
                let format = QuantizedFormat::of_blocks(blocks, shape)?;
                let packed = self.weights.read_packed(&tensor, blocks, format)?;
                let loader = self.sub(name);
                let arrays = packed.into_iter().flat_map(|packed| packed.arrays).zip(format.arrays());
                let arrays = arrays.map(|(values, array)| loader.constant(array.name, values));
                return Ok(Matrix::Packed { format, arrays: arrays.collect::<Result<_, _>>()? });
            }
            _ => self.floats(&tensor)?,
        };
        self.dense(name, shape, values)
    }

    /// The values of a tensor as floats of the type that the options say.
    fn floats(&self, tensor: &str) -> Result<Option<HostArray>, ModelError> {
        match self.storage {
            WeightStorage::Stored => self.weights.read_stored(tensor),
            WeightStorage::F32 => self.weights.read(tensor),
        }
    }

    fn dense(&self, name: &str, shape: [usize; 2], values: Option<HostArray>) -> Result<Matrix, ModelError> {
        Ok(Matrix::Dense(match values {
            Some(values) => self.constant(name, values)?,
            None => self.params.buffer(name, shape, Init::ZEROS)?,
        }))
    }

    pub(crate) fn linear(
        &self,
        name: &str,
        inputs: usize,
        outputs: usize,
        bias: bool,
    ) -> Result<Projection, ModelError> {
        let loader = self.sub(name);
        let matrix = loader.matrix("weight", [outputs, inputs])?;
        Ok(Projection { matrix, bias: if bias { Some(loader.parameter("bias", &[outputs])?) } else { None } })
    }

    /// A linear map with a bias whose weight is stored as `[inputs, outputs]`.
    pub(crate) fn transposed_linear(
        &self,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Projection, ModelError> {
        let loader = self.sub(name);
        let tensor = loader.found("weight", &[inputs, outputs])?;
        let values = tensor.map_or(Ok(None), |tensor| self.floats(&tensor))?;
        let values = values.map(|values| transposed(&values, [inputs, outputs])).transpose()?;
        let matrix = loader.dense("weight", [outputs, inputs], values)?;
        Ok(Projection { matrix, bias: Some(loader.parameter("bias", &[outputs])?) })
    }

    pub(crate) fn embedding(&self, name: &str, count: usize, size: usize) -> Result<Matrix, ModelError> {
        self.sub(name).matrix("weight", [count, size])
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

/// The transpose of a matrix `[rows, columns]`.
fn transposed(values: &HostArray, [rows, columns]: [usize; 2]) -> Result<HostArray, ModelError> {
    let (width, stored) = (values.dtype().size_bytes(), values.bytes());
    let mut transposed = HostArray::zeros(values.dtype(), [columns, rows])?;
    for (column, row) in transposed.bytes_mut().chunks_mut(rows * width).enumerate() {
        for (at, element) in row.chunks_mut(width).enumerate() {
            element.copy_from_slice(&stored[(at * columns + column) * width..][..width]);
        }
    }
    Ok(transposed)
}
