//! The arrays of a batch, by the names of inputs.

use std::sync::Arc;

use arrayjit::{DType, HostArray};

use crate::error::{Result, TensorError};

/// The arrays of a batch by name. Cloning is cheap.
#[derive(Clone)]
pub struct BatchValues(Vec<(String, Arc<HostArray>)>);

/// The names, types and shapes of the inputs of a batch, in order of the names.
pub(super) type BatchSignature = Vec<(String, DType, Vec<usize>)>;

/// A batch, or the reason why there is none: an array of names and arrays, or a `Result` of one.
pub trait IntoBatch {
    /// The arrays of the batch.
    ///
    /// # Errors
    /// The reason why there is no batch; an array without elements; a name that is given twice.
    fn into_batch(self) -> Result<BatchValues>;
}

impl BatchValues {
    /// Arrays by name.
    ///
    /// # Errors
    /// An array without elements; a name that is given twice.
    pub fn new(values: impl IntoIterator<Item = (String, Arc<HostArray>)>) -> Result<BatchValues> {
        let values: Vec<_> = values.into_iter().collect();
        for (at, (name, array)) in values.iter().enumerate() {
            if array.num_values() == 0 {
                let (what, found) = (format!("input `{name}`"), array.dims().to_vec());
                return Err(TensorError::Shape { what, found, expected: "at least one element".into() });
            }
            if values[..at].iter().any(|(other, _)| other == name) {
                let inputs = values.iter().map(|(name, _)| name.clone()).collect();
                return Err(TensorError::Input { name: name.clone(), problem: "is given twice", inputs });
            }
        }
        Ok(BatchValues(values))
    }

    pub(super) fn copied(inputs: &[(&str, &HostArray)]) -> Result<BatchValues> {
        let copy =
            |(name, array): &(&str, &HostArray)| Ok(((*name).to_owned(), Arc::new(array.try_clone()?)));
        BatchValues::new(inputs.iter().map(copy).collect::<Result<Vec<_>>>()?)
    }

    pub(crate) fn arrays(&self) -> &[(String, Arc<HostArray>)] {
        &self.0
    }

    /// The array of that name.
    pub fn get(&self, name: &str) -> Option<&HostArray> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, array)| &**array)
    }

    pub(super) fn signature(&self) -> BatchSignature {
        let mut signature: BatchSignature = (self.0.iter())
            .map(|(name, array)| (name.clone(), array.dtype(), array.dims().to_vec()))
            .collect();
        signature.sort();
        signature
    }

    /// The batch in `count` micro-batches of equal numbers of rows. Inputs of rank 0 belong to all of them.
    pub(super) fn micro_batches(&self, count: usize) -> Result<Vec<BatchValues>> {
        if count == 1 {
            return Ok(vec![self.clone()]);
        }
        let rows = self.0.iter().find_map(|(_, array)| array.dims().first().copied()).unwrap_or(count);
        for (name, array) in &self.0 {
            let found = array.dims().to_vec();
            let expected = match found.first() {
                Some(&size) if size != rows => format!("{rows} rows, as all inputs have"),
                Some(&size) if size % count != 0 => format!("rows for {count} equal micro-batches"),
                _ => continue,
            };
            return Err(TensorError::Shape { what: format!("input `{name}`"), found, expected });
        }
        let size = rows / count;
        let part = |array: &Arc<HostArray>, at: usize| -> Result<Arc<HostArray>> {
            match array.dims().is_empty() {
                true => Ok(array.clone()),
                false => Ok(Arc::new(array.slice(0, at * size..(at + 1) * size)?)),
            }
        };
        let batch = |at| {
            let parts = self.0.iter().map(|(name, array)| Ok((name.clone(), part(array, at)?)));
            Ok(BatchValues(parts.collect::<Result<_>>()?))
        };
        (0..count).map(batch).collect()
    }

    /// The size of the first axis of the first input; 1 without one.
    pub(super) fn rows(&self) -> usize {
        self.0.first().and_then(|(_, array)| array.dims().first().copied()).unwrap_or(1)
    }
}

impl IntoBatch for BatchValues {
    fn into_batch(self) -> Result<BatchValues> {
        Ok(self)
    }
}

impl<const N: usize> IntoBatch for [(&str, HostArray); N] {
    fn into_batch(self) -> Result<BatchValues> {
        BatchValues::new(self.map(|(name, array)| (name.to_owned(), Arc::new(array))))
    }
}

impl IntoBatch for Vec<(&str, HostArray)> {
    fn into_batch(self) -> Result<BatchValues> {
        BatchValues::new(self.into_iter().map(|(name, array)| (name.to_owned(), Arc::new(array))))
    }
}

impl<B: IntoBatch, E: Into<Box<dyn std::error::Error + Send + Sync>>> IntoBatch for Result<B, E> {
    fn into_batch(self) -> Result<BatchValues> {
        self.map_err(|error| TensorError::Data(error.into()))?.into_batch()
    }
}
