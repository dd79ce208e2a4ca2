//! Parameters with the values of files.

use std::{cell::RefCell, collections::BTreeSet, rc::Rc, sync::Arc};

use arrayjit_tensor::{
    Backend, BlockFormat, DType, HostArray, Init, Parameter, Params, QuantizedFormat,
    nn::{LayerNorm, RmsNorm},
};

use crate::{
    encoding::Encoding,
    error::{ModelError, Result},
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
    has_loops: bool,
    repeated: Option<Repeated>,
    missing: Rc<RefCell<Vec<NamedShape>>>,
    /// The tensors that were found.
    used: Rc<RefCell<BTreeSet<String>>>,
}

/// A layer that occurs several times: its parameters have a first axis for the occurrences.
#[derive(Clone)]
struct Repeated {
    /// The path of the layers, with a point behind it.
    layers: String,
    /// The path of the parameters of all occurrences.
    path: String,
    numbers: Rc<[usize]>,
}

impl<'w> Loader<'w> {
    pub(crate) fn new(weights: &'w Weights, storage: WeightStorage, backend: &Backend) -> Loader<'w> {
        let has_loops = backend.codegen().caps().workgroups.is_none();
        let (params, missing, used) = (Params::new(0), Rc::default(), Rc::default());
        Loader { params, weights, storage, has_loops, repeated: None, missing, used }
    }

    /// All parameters that were made.
    ///
    /// # Errors
    /// Tensors that were missing, and those of a GGUF file that were not used.
    pub(crate) fn finish(self) -> Result<Params> {
        self.check()?;
        self.weights.check_used(&self.used.borrow())?;
        Ok(self.params)
    }

    /// Fails if a tensor was missing. Sizes that tensors confirm are bounded by the files.
    pub(crate) fn check(&self) -> Result<()> {
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

    /// Whether equal layers are compiled once. GPUs have the statements of each step, and limits on the sizes
    /// of arrays.
    pub(crate) fn has_loops(&self) -> bool {
        self.has_loops
    }

    /// The parameters of layers with these numbers, together.
    #[must_use]
    pub(crate) fn repeated(&self, numbers: impl Iterator<Item = usize>) -> Loader<'w> {
        let numbers: Rc<[usize]> = numbers.collect();
        let name = match *numbers {
            [first, .., last] => format!("{first}-{last}"),
            _ => numbers.iter().map(usize::to_string).collect(),
        };
        let params = self.params.sub(name);
        let layers = self.params.sub("").path().to_owned();
        let repeated = Repeated { layers, path: params.path().to_owned(), numbers };
        Loader { params, repeated: Some(repeated), ..self.clone() }
    }

    /// How the files store the tensors of this part, by the rest of their names, if that matters.
    pub(crate) fn encodings(&self) -> Vec<(&'w str, Encoding)> {
        match self.storage {
            WeightStorage::Stored => self.weights.encodings(self.params.sub("").path()),
            WeightStorage::F32 => Vec::new(),
        }
    }

    /// The names of a tensor in the files: one for each occurrence of a layer.
    fn tensors(&self, name: &str) -> Vec<String> {
        let path = self.params.sub(name).path().to_owned();
        let Some(Repeated { layers, path: of_layer, numbers }) = &self.repeated else { return vec![path] };
        let rest = path.strip_prefix(of_layer).unwrap_or(&path);
        numbers.iter().map(|number| format!("{layers}{number}{rest}")).collect()
    }

    /// The shape of a parameter whose tensors have this shape.
    fn shape(&self, of_tensor: &[usize]) -> Vec<usize> {
        let occurrences = self.repeated.iter().map(|repeated| repeated.numbers.len());
        occurrences.chain(of_tensor.iter().copied()).collect()
    }

    /// The names of a tensor in the files, which have this shape; none if one is missing.
    fn found(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<String>>> {
        let names = self.tensors(name);
        let mut is_complete = true;
        for name in &names {
            match self.weights.shape(name) {
                Some(found) if found != shape => {
                    let (name, found, expected) = (name.clone(), found.to_vec(), shape.to_vec());
                    return Err(ModelError::Shape { name, found, expected });
                }
                Some(_) => {}
                None => {
                    if let Some(found) = self.weights.other(name) {
                        let (name, found) = (name.clone(), found.clone());
                        return Err(ModelError::Encoding { name, found, expected: Encoding::FLOATS });
                    }
                    self.missing.borrow_mut().push((name.clone(), shape.to_vec()));
                    is_complete = false;
                }
            }
        }
        self.used.borrow_mut().extend(names.iter().cloned());
        Ok(is_complete.then_some(names))
    }

    /// The values of tensors in the order of the files, as floats of this type in an array of this shape.
    fn floats(&self, tensors: &[String], shape: &[usize], dtype: DType) -> Result<HostArray> {
        let mut values = HostArray::zeros(dtype, self.shape(shape))?;
        self.weights.read_floats(tensors, &mut values)?;
        Ok(values)
    }

    /// Makes a parameter of tensors of the shape `stored`, whose values `change` converts.
    fn changed(
        &self,
        name: &str,
        stored: &[usize],
        shape: &[usize],
        change: impl FnOnce(HostArray) -> Result<HostArray>,
    ) -> Result<Parameter> {
        let init = match self.found(name, stored)? {
            Some(tensors) => Init::Shared(Arc::new(change(self.floats(&tensors, stored, DType::F32)?)?)),
            None => Init::ZEROS,
        };
        Ok(self.params.buffer(name, self.shape(shape), init)?)
    }

    pub(crate) fn parameter(&self, name: &str, shape: &[usize]) -> Result<Parameter> {
        self.changed(name, shape, shape, Ok)
    }

    /// An array that does not come from the files.
    pub(crate) fn constant(&self, name: &str, values: HostArray) -> Result<Parameter> {
        let (params, shape) = (self.params.with_dtype(values.dtype()), values.dims().to_vec());
        Ok(params.buffer(name, shape, Init::Shared(Arc::new(values)))?)
    }

    /// An array that runs write.
    pub(crate) fn buffer(&self, name: &str, shape: &[usize]) -> Result<Parameter> {
        Ok(self.params.buffer(name, self.shape(shape), Init::ZEROS)?)
    }

    /// A matrix, stored as the options say.
    pub(crate) fn matrix(&self, name: &str, [outputs, inputs]: [usize; 2]) -> Result<Matrix> {
        let shape = [outputs, inputs];
        let Some(tensors) = self.found(name, &shape)? else { return self.dense(name, shape, None) };
        match (self.storage, self.weights.encoding(&tensors[0])) {
            (WeightStorage::Stored, Some(Encoding::Blocks(blocks))) => {
                self.packed(name, &tensors, blocks, shape)
            }
            (_, encoding) => {
                let values = self.floats(&tensors, &shape, self.stored_type(encoding))?;
                self.dense(name, shape, Some(values))
            }
        }
    }

    fn packed(
        &self,
        name: &str,
        tensors: &[String],
        blocks: BlockFormat,
        shape: [usize; 2],
    ) -> Result<Matrix> {
        let format = QuantizedFormat::of_blocks(blocks, shape)?;
        let zeros =
            format.arrays().into_iter().map(|array| HostArray::zeros(array.dtype, self.shape(&array.shape)));
        let mut arrays = zeros.collect::<Result<Vec<_>, _>>()?;
        self.weights.read_packed(tensors, blocks, format, &mut arrays)?;
        let loader = self.sub(name);
        let arrays = arrays.into_iter().zip(format.arrays());
        let arrays = arrays.map(|(values, array)| loader.constant(array.name, values));
        Ok(Matrix::Packed { format, arrays: arrays.collect::<Result<_, _>>()? })
    }

    /// The type of floats in memory, as the options say, for tensors that files store so.
    fn stored_type(&self, encoding: Option<Encoding>) -> DType {
        match (self.storage, encoding.and_then(Encoding::dtype)) {
            (WeightStorage::Stored, Some(dtype @ (DType::F16 | DType::Bf16))) => dtype,
            _ => DType::F32,
        }
    }

    fn dense(&self, name: &str, shape: [usize; 2], values: Option<HostArray>) -> Result<Matrix> {
        Ok(Matrix::Dense(match values {
            Some(values) => self.constant(name, values)?,
            None => self.buffer(name, &shape)?,
        }))
    }

    pub(crate) fn linear(&self, name: &str, inputs: usize, outputs: usize, bias: bool) -> Result<Projection> {
        let loader = self.sub(name);
        let matrix = loader.matrix("weight", [outputs, inputs])?;
        loader.projection(matrix, bias.then_some(outputs))
    }

    fn projection(&self, matrix: Matrix, bias: Option<usize>) -> Result<Projection> {
        let bias = bias.map(|outputs| self.parameter("bias", &[outputs])).transpose()?;
        Ok(Projection { matrix, bias, module: self.params.path().to_owned() })
    }

    /// A linear map with a bias whose weight is stored as `[inputs, outputs]`.
    pub(crate) fn transposed_linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Projection> {
        let loader = self.sub(name);
        let stored = [inputs, outputs];
        let values = loader.found("weight", &stored)?.map(|tensors| {
            let dtype = loader.stored_type(self.weights.encoding(&tensors[0]));
            let mut values = loader.floats(&tensors, &[outputs, inputs], dtype)?;
            transpose(&mut values, stored);
            Ok::<_, ModelError>(values)
        });
        let matrix = loader.dense("weight", [outputs, inputs], values.transpose()?)?;
        loader.projection(matrix, Some(outputs))
    }

    pub(crate) fn embedding(&self, name: &str, count: usize, size: usize) -> Result<Matrix> {
        self.sub(name).matrix("weight", [count, size])
    }

    /// Makes a table of `rows` rows of a tensor with `stored` rows; missing rows are 0.
    pub(crate) fn rows(&self, name: &str, stored: usize, size: usize, rows: usize) -> Result<Parameter> {
        self.sub(name).changed("weight", &[stored, size], &[rows, size], |values| {
            let kept = stored.min(rows) * size;
            let mut table = HostArray::zeros(values.dtype(), [rows, size])?;
            table.as_mut_slice::<f32>()?[..kept].copy_from_slice(&values.as_slice::<f32>()?[..kept]);
            Ok(table)
        })
    }

    pub(crate) fn layer_norm(&self, name: &str, size: usize, eps: f64) -> Result<LayerNorm> {
        let loader = self.sub(name);
        let weight = loader.parameter("weight", &[size])?;
        Ok(LayerNorm { weight, bias: loader.parameter("bias", &[size])?, eps })
    }

    /// A normalization whose factor is the stored weight plus `offset`.
    pub(crate) fn rms_norm(&self, name: &str, size: usize, eps: f64, offset: f32) -> Result<RmsNorm> {
        let weight = self.sub(name).changed("weight", &[size], &[size], |mut values| {
            values.as_mut_slice::<f32>()?.iter_mut().for_each(|value| *value += offset);
            Ok(values)
        })?;
        Ok(RmsNorm { weight, eps: Some(eps) })
    }
}

/// Transposes matrices `[rows, columns]` that stand one behind the other.
fn transpose(values: &mut HostArray, [rows, columns]: [usize; 2]) {
    let width = values.dtype().size_bytes();
    for matrix in values.bytes_mut().chunks_mut((rows * columns * width).max(1)) {
        let stored = matrix.to_vec();
        for (column, row) in matrix.chunks_mut(rows * width).enumerate() {
            for (at, element) in row.chunks_mut(width).enumerate() {
                element.copy_from_slice(&stored[(at * columns + column) * width..][..width]);
            }
        }
    }
}
