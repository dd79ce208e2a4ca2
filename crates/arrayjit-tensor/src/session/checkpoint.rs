//! Checkpoints: weights, the state of the optimizer and the step in one safetensors file.
//!
//! The weights have the names of the model, the arrays of the optimizer names behind `optimizer.`. The
//! metadata has the version of the format, the number of steps and the seed of the model.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::Path,
};

use arrayjit::{HostArray, safetensors as arrays_file};
use safetensors::SafeTensors;

use crate::{
    error::{Call, Result, TensorError},
    model_state::{self, CHECKPOINT_FORMAT, OPTIMIZER_PREFIX, in_file, write_atomically},
    parameter::{Parameter, locked},
    session::Session,
};

const STEP: &str = "step";
const SEED: &str = "seed";

/// An array of a checkpoint, and the rank that has it if others have not.
type FileArray = (Parameter, Option<usize>);

/// The arrays of a checkpoint by their names in the file.
type CheckpointArrays = BTreeMap<String, FileArray>;

impl Session {
    /// Writes weights, the state of the optimizer and the number of steps to a file, after all started steps.
    /// The file appears whole or not at all: it is written under another name in the same folder,
    /// and renamed. A file that a killed process has left there, half written, is removed.
    ///
    /// # Errors
    /// A file that cannot be written, an earlier step whose loss is not finite, or an error of the device.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.core.settle()?;
        let values = self.checkpoint_values(self.checkpoint_arrays()?)?;
        let metadata = [
            (CHECKPOINT_FORMAT.0, CHECKPOINT_FORMAT.1.to_owned()),
            (STEP, self.steps().to_string()),
            (SEED, self.model_state().params().seed().to_string()),
        ];
        let write = || -> Result<()> { Ok(write_atomically(path, &encoded(&values, metadata)?)?) };
        let Some(ranks) = &self.core.ranks else {
            return write().map_err(|problem| in_file(path, problem));
        };
        let outcome = self
            .core
            .on_first_rank(ranks, || write().map(|()| Vec::new()).map_err(|problem| problem.to_string()))?;
        outcome.map(drop).map_err(|text| in_file(path, TensorError::FirstRank(text)))
    }

    /// The values of a checkpoint by their names in the file; over ranks, those that rank 0 writes.
    fn checkpoint_values(&self, arrays: CheckpointArrays) -> Result<BTreeMap<String, HostArray>> {
        let Some(ranks) = &self.core.ranks else {
            let values = self.model_state().get_all(arrays.values().map(|(array, _)| array))?;
            return Ok(arrays.into_keys().zip(values).collect());
        };
        let mut values = BTreeMap::new();
        for (name, (array, owner)) in arrays {
            let values_of = match owner {
                Some(owner) => self.core.owned_values(ranks, &array, owner)?,
                None if ranks.group().rank() != 0 => continue, // rank 0 alone writes
                None => self.model_state().get(&array)?,
            };
            values.insert(name, values_of);
        }
        Ok(values)
    }

    /// The bytes of a file, which rank 0 reads for all; none if there is no such file.
    fn read_file(&self, path: &Path) -> Result<Option<Vec<u8>>> {
        let read = || match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let Some(ranks) = &self.core.ranks else {
            return read().map_err(|error| in_file(path, error.into()));
        };
        // A first byte tells a file, which may be empty, from none.
        let marked = |bytes: Option<Vec<u8>>| bytes.map_or_else(Vec::new, |bytes| [vec![1], bytes].concat());
        let bytes =
            self.core.on_first_rank(ranks, || read().map(marked).map_err(|error| error.to_string()))?;
        let bytes = bytes.map_err(|text| in_file(path, TensorError::FirstRank(text)))?;
        Ok(bytes.split_first().map(|(_, bytes)| bytes.to_vec()))
    }

    /// Continues from a file that [`save`](Session::save) wrote: the next steps have the same bits as if the
    /// session had not been interrupted. Nothing changes after an error.
    ///
    /// # Errors
    /// A file that cannot be read, is torn, is no checkpoint, or is one of another model, seed or optimizer;
    /// an error of the device.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        if self.resume(path)? {
            return Ok(());
        }
        let missing = io::Error::from(io::ErrorKind::NotFound);
        Err(in_file(path, missing.into()))
    }

    /// [`load`](Session::load) if the file exists; returns whether it does.
    ///
    /// # Errors
    /// Fails like [`load`](Session::load), but for a file that does not exist.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let Some(bytes) = self.read_file(path)? else { return Ok(false) };
        let step = self.check_metadata(&bytes).map_err(|problem| in_file(path, problem))?;
        let arrays = self.checkpoint_arrays()?;
        let values =
            arrays_file::read(&bytes).map_err(TensorError::from).and_then(|values| matched(arrays, values));
        let values = values.map_err(|problem| in_file(path, problem))?;
        let rank = self.core.ranks.as_ref().map(|ranks| ranks.group().rank());
        let own = values.iter().filter(|((_, owner), _)| owner.is_none() || *owner == rank);
        self.model_state().set_all(own.map(|((array, _), values)| (array, values)))?;
        self.core.state.clear_halt()?;
        locked(&self.core.pending).restart(step);
        Ok(true)
    }

    /// The arrays of a checkpoint by their names in the file, with the only rank that has them. A
    /// parameter that has the name of an array of the optimizer is an error.
    fn checkpoint_arrays(&self) -> Result<CheckpointArrays> {
        let parameters = self.model_state().params().by_name();
        let mut arrays: CheckpointArrays =
            parameters.into_iter().map(|(name, parameter)| (name, (parameter, None))).collect();
        for (array, owner) in self.core.optimizer_arrays()? {
            let name = format!("{OPTIMIZER_PREFIX}{}", array.name());
            if arrays.insert(name.clone(), (array, owner)).is_some() {
                let kind = TensorError::Name { what: "parameter", name };
                return Err(Call::new("checkpoint").error("optimizer", kind));
            }
        }
        Ok(arrays)
    }

    /// Checks that the file is a checkpoint of this model, and returns its number of steps.
    fn check_metadata(&self, bytes: &[u8]) -> Result<u64> {
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(format_error)?;
        let metadata = metadata.metadata().clone().unwrap_or_default();
        let entry = |key: &'static str, expected: &str| match metadata.get(key) {
            Some(value) => Ok(value.clone()),
            None => Err(TensorError::Metadata { key, found: "nothing".into(), expected: expected.into() }),
        };
        let expected_seed = self.model_state().params().seed().to_string();
        for (key, expected) in [(CHECKPOINT_FORMAT.0, CHECKPOINT_FORMAT.1), (SEED, expected_seed.as_str())] {
            let found = entry(key, expected)?;
            if found != expected {
                return Err(TensorError::Metadata { key, found, expected: expected.into() });
            }
        }
        let found = entry(STEP, "a number")?;
        let number = found.parse();
        number.map_err(|_| TensorError::Metadata { key: STEP, found, expected: "a number".into() })
    }
}

fn format_error(error: safetensors::SafeTensorError) -> TensorError {
    TensorError::Format(error.to_string())
}

fn encoded<const N: usize>(
    values: &BTreeMap<String, HostArray>,
    metadata: [(&str, String); N],
) -> Result<Vec<u8>> {
    let plain = arrays_file::write(values.iter().map(|(name, values)| (name.as_str(), values)))?;
    let (_, header) = SafeTensors::read_metadata(&plain).map_err(format_error)?;
    let mut all: HashMap<String, String> = header.metadata().clone().unwrap_or_default();
    all.extend(metadata.map(|(key, value)| (key.to_owned(), value)));
    let file = SafeTensors::deserialize(&plain).map_err(format_error)?;
    safetensors::serialize(file.tensors(), Some(all)).map_err(format_error)
}

/// Each array with its values, if there is one of its type and shape for each.
fn matched(
    arrays: CheckpointArrays,
    mut values: BTreeMap<String, HostArray>,
) -> Result<Vec<(FileArray, HostArray)>> {
    model_state::check_names(&arrays, &values)?;
    let mut pairs = Vec::new();
    for (name, array) in arrays {
        if let Some(values) = values.remove(&name) {
            model_state::check(&array.0, &values)?;
            pairs.push((array, values));
        }
    }
    Ok(pairs)
}
