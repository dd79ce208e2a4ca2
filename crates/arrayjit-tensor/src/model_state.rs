//! The values of parameters on a device.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    num::NonZero,
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use ::safetensors::SafeTensors;
use arrayjit::{Assignments, Backend, Context, HostArray, Nodes, PendingArray, Program, safetensors, torch};
use tnode::PartialFile;

use crate::{
    error::{Result, TensorError},
    parameter::{Init, Parameter, Params, locked},
    run_streams::RunStreams,
};

/// The metadata key of the format of checkpoints, and the version that this crate writes.
pub(crate) const CHECKPOINT_FORMAT: (&str, &str) = ("arrayjit_checkpoint", "1");

/// What the names of the optimizer's arrays begin with in a checkpoint.
pub(crate) const OPTIMIZER_PREFIX: &str = "optimizer.";

/// The values of the parameters and buffers of a model on a device of a backend. Cloning is cheap, and a
/// clone has the same values.
///
/// ```
/// use arrayjit_tensor::{Backend, Init, Params, ModelState};
///
/// let params = Params::new(42);
/// let weight = params.parameter("weight", [2, 3], Init::Constant(0.5))?;
/// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
/// assert_eq!(weights.get(&weight)?.values(), [0.5; 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Threads
/// Any thread may read and change values at any time. [`state_dict`](ModelState::state_dict) and
/// [`load_state_dict`](ModelState::load_state_dict) are transactions: no run of an
/// [`Executable`](crate::Executable) of these weights, and no other change, comes between two parameters.
#[derive(Clone)]
pub struct ModelState(Arc<WeightsParts>);

struct WeightsParts {
    backend: Backend,
    params: Params,
    /// Arrays beside the parameters, such as the state of optimizers.
    states: Mutex<Vec<Params>>,
    /// Has every parameter. It grows when routines need parameters that were made later.
    context: Mutex<Context>,
    run_streams: RunStreams,
    /// Held while tasks that change or read several parameters are scheduled, and shared while others are:
    /// the order in which tasks are scheduled decides which values they see.
    order: RwLock<()>,
}

/// Keeps other tasks from being scheduled between those of the holder: all of them, or those that read or
/// change several parameters.
pub(crate) type TaskOrder<'a> = (Option<RwLockReadGuard<'a, ()>>, Option<RwLockWriteGuard<'a, ()>>);

impl ModelState {
    /// Gives the parameters that were made so far their initial values.
    ///
    /// # Errors
    /// Initial values that do not compile, or an error of the device.
    pub fn new(backend: &Backend, params: &Params) -> Result<ModelState> {
        let context = Mutex::new(backend.context()?);
        let (backend, params, states) = (backend.clone(), params.clone(), Mutex::default());
        let (run_streams, order) = (RunStreams::default(), RwLock::default());
        let parts = WeightsParts { backend, params, states, context, run_streams, order };
        let weights = ModelState(Arc::new(parts));
        weights.context()?;
        Ok(weights)
    }

    /// Keeps arrays on the device beside the parameters; [`state_dict`](ModelState::state_dict) leaves them
    /// out.
    pub(crate) fn add_state(&self, state: &Params) {
        locked(&self.0.states).push(state.clone());
    }

    /// Changes how many runs of executables of these weights may overlap, each with memory of its own for
    /// inputs, intermediate values and results: as many as there are processors by default. One run at a time
    /// takes the least memory.
    pub fn set_concurrent_runs(&self, most: NonZero<usize>) {
        self.0.run_streams.set_most(most);
    }

    pub(crate) fn run_streams(&self) -> &RunStreams {
        &self.0.run_streams
    }

    /// Waits for its turn to schedule tasks: `is_exclusive` for several tasks that belong together.
    pub(crate) fn order(&self, is_exclusive: bool) -> TaskOrder<'_> {
        let order = &self.0.order;
        match is_exclusive {
            true => (None, Some(order.write().unwrap_or_else(PoisonError::into_inner))),
            false => (Some(order.read().unwrap_or_else(PoisonError::into_inner)), None),
        }
    }

    /// The backend that holds the values.
    pub fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// The parameters whose values these are.
    pub fn params(&self) -> &Params {
        &self.0.params
    }

    /// A context with the values of all parameters, including parameters made since the last call.
    ///
    /// # Errors
    /// Initial values that do not compile, or an error of the device.
    pub fn context(&self) -> Result<Context> {
        let mut context = locked(&self.0.context);
        let states = locked(&self.0.states).clone();
        for params in [&self.0.params].into_iter().chain(&states) {
            let mut missing = params.all();
            missing.retain(|parameter| !context.contains(parameter.node()));
            if !missing.is_empty() {
                *context = initialized(&self.0.backend, params, &context, &missing)?;
            }
        }
        Ok(context.clone())
    }

    /// The values of a parameter after all runs so far.
    ///
    /// # Errors
    /// A parameter of another model, or an error of the device.
    pub fn get(&self, parameter: &Parameter) -> Result<HostArray> {
        Ok(self.context()?.to_host(parameter.node())?)
    }

    /// Changes the values of a parameter, to an array or to a shared one, without a copy on the host. If the
    /// parameter has no values yet and the device uses host memory, the memory of an array that is not
    /// shared becomes the parameter's.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use arrayjit_tensor::{Backend, HostArray, Init, Params, ModelState};
    ///
    /// let params = Params::new(0);
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let table = params.parameter("table", [2], Init::ZEROS)?;
    /// weights.set(&table, HostArray::from_slice(&[1f32, 2.0], [2])?)?;
    /// assert_eq!(weights.get(&table)?.values(), [1.0, 2.0]);
    /// let shared = Arc::new(HostArray::from_slice(&[3f32, 4.0], [2])?);
    /// weights.set(&table, shared.clone())?;
    /// assert_eq!(weights.get(&table)?.values(), shared.values());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Values of another shape or type, a parameter of another model, or an error of the device.
    pub fn set(&self, parameter: &Parameter, values: impl Into<Arc<HostArray>>) -> Result<()> {
        let values = values.into();
        check(parameter, &values)?;
        let mut context = locked(&self.0.context);
        if context.contains(parameter.node()) {
            drop(context);
            let _order = self.order(false);
            let _ = self.context()?.from_host(parameter.node(), values)?;
            return Ok(());
        }
        let states = locked(&self.0.states).clone();
        if ![&self.0.params].into_iter().chain(&states).any(|params| params.has(parameter)) {
            return Err(TensorError::OtherModel { parameter: parameter.name().into() });
        }
        *context = context.init_from_host(parameter.node(), values)?;
        Ok(())
    }

    fn change(&self, parameter: &Parameter, values: &HostArray) -> Result<()> {
        let _ = self.context()?.from_host(parameter.node(), values)?;
        Ok(())
    }

    /// The values of arrays at one point in the order of all tasks.
    pub(crate) fn get_all<'p>(
        &self,
        parameters: impl IntoIterator<Item = &'p Parameter>,
    ) -> Result<Vec<HostArray>> {
        let (order, context) = (self.order(true), self.context()?);
        let copies = parameters.into_iter().map(|parameter| context.start_to_host(parameter.node()));
        let copies = copies.collect::<Result<Vec<PendingArray>, _>>()?;
        drop(order);
        copies.into_iter().map(|copy| Ok(copy.into_array()?)).collect()
    }

    /// Changes arrays, whose types and shapes were checked, at one point in the order of all tasks.
    pub(crate) fn set_all<'p>(
        &self,
        values: impl IntoIterator<Item = (&'p Parameter, &'p HostArray)>,
    ) -> Result<()> {
        let _order = self.order(true);
        values.into_iter().try_for_each(|(parameter, values)| self.change(parameter, values))
    }

    /// The values of all parameters and buffers by name, after all runs so far.
    ///
    /// # Errors
    /// An error of the device.
    pub fn state_dict(&self) -> Result<BTreeMap<String, HostArray>> {
        let parameters = self.0.params.by_name();
        let values = self.get_all(parameters.values())?;
        Ok(parameters.into_keys().zip(values).collect())
    }

    /// Gives all parameters and buffers the values of these names. Nothing changes after an error. Floats
    /// of another type are rounded, and integers of another type are converted if they fit.
    ///
    /// # Errors
    /// All parameters without values and all values without parameters, at once; a value of another shape,
    /// or an integer that the type of the parameter does not hold; an error of the device.
    pub fn load_state_dict(&self, values: &BTreeMap<String, HostArray>) -> Result<()> {
        self.load_into(&self.0.params.by_name(), values)
    }

    /// [`load_state_dict`](ModelState::load_state_dict) of some parameters.
    fn load_into(
        &self,
        parameters: &BTreeMap<String, Parameter>,
        values: &BTreeMap<String, HostArray>,
    ) -> Result<()> {
        check_names(parameters, values)?;
        let pairs = parameters.values().zip(values.values());
        let converted: Vec<(&Parameter, HostArray)> = pairs
            .map(|(parameter, values)| Ok((parameter, fitting(parameter, values)?)))
            .collect::<Result<_>>()?;
        self.set_all(converted.iter().map(|(parameter, values)| (*parameter, values)))
    }

    /// The values of all parameters as a safetensors file.
    ///
    /// # Errors
    /// An error of the device.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        let values = self.state_dict()?;
        Ok(safetensors::write(values.iter().map(|(name, values)| (name.as_str(), values)))?)
    }

    /// [`load_state_dict`](ModelState::load_state_dict) of a safetensors file, which torch may have written.
    /// Of a checkpoint of a [`Session`](crate::session::Session), the weights are loaded, without the state
    /// of the optimizer.
    ///
    /// # Errors
    /// A file that is no safetensors file, and the errors of
    /// [`load_state_dict`](ModelState::load_state_dict).
    pub fn load_safetensors(&self, bytes: &[u8]) -> Result<()> {
        let mut values = safetensors::read(bytes)?;
        if is_checkpoint(bytes) {
            let parameters = self.0.params.by_name();
            values.retain(|name, _| parameters.contains_key(name) || !name.starts_with(OPTIMIZER_PREFIX));
        }
        self.load_state_dict(&values)
    }

    /// [`load_state_dict`](ModelState::load_state_dict) of a file of `torch.save`, such as `model.pt`. The
    /// pickle in it is read without being executed: see [`arrayjit::torch`].
    ///
    /// # Errors
    /// A file that is none of torch, or whose pickle mentions more than tensors and containers of them, and
    /// the errors of [`load_state_dict`](ModelState::load_state_dict).
    pub fn load_torch(&self, bytes: &[u8]) -> Result<()> {
        self.load_state_dict(&torch::read(bytes)?)
    }

    /// Writes [`to_safetensors`](ModelState::to_safetensors) to a file, whole or not at all.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, Init, Params, ModelState};
    ///
    /// let params = Params::new(1);
    /// let bias = params.parameter("bias", [2], Init::Constant(0.5))?;
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let path = std::env::temp_dir().join(format!("bias_{}.safetensors", std::process::id()));
    /// weights.save(&path)?;
    /// weights.load(&path)?;
    /// assert_eq!(weights.get(&bias)?.values(), [0.5, 0.5]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An error of the device, or a file that cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_renamed(path, |name| Some(name.to_owned()))
    }

    /// [`save`](ModelState::save) of some parameters, under other names: `rename` gives the name in the file
    /// for the name of each parameter, or none for one that is left out, such as the frozen ones of a model
    /// with adapters.
    ///
    /// # Errors
    /// Two parameters of one name, an error of the device, or a file that cannot be written.
    pub fn save_renamed(
        &self,
        path: impl AsRef<Path>,
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<()> {
        let path = path.as_ref();
        let save = || {
            let mut parameters = BTreeMap::new();
            for (name, parameter) in self.0.params.by_name() {
                let Some(name) = rename(&name) else { continue };
                if parameters.insert(name.clone(), parameter).is_some() {
                    return Err(TensorError::Name { what: "array", name });
                }
            }
            let values = self.get_all(parameters.values())?;
            let arrays = parameters.keys().map(String::as_str).zip(&values);
            Ok(write_atomically(path, &safetensors::write(arrays)?)?)
        };
        save().map_err(|problem| in_file(path, problem))
    }

    /// [`load_safetensors`](ModelState::load_safetensors) or [`load_torch`](ModelState::load_torch) from a
    /// file, by its first bytes.
    ///
    /// # Errors
    /// A file that cannot be read, and the errors of both functions, with the path.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let load = || {
            let bytes = fs::read(path)?;
            if is_archive(&bytes) { self.load_torch(&bytes) } else { self.load_safetensors(&bytes) }
        };
        load().map_err(|problem| in_file(path, problem))
    }

    /// Loads a file in part and under other names: `rename` gives the name of a parameter for each name of
    /// the file, or none for an array that is left out. Parameters without an array keep their values;
    /// returns their names. Files and conversions are those of [`load`](ModelState::load), and nothing
    /// changes after an error.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, ModelState, Params, nn::Linear};
    ///
    /// let path = std::env::temp_dir().join(format!("encoder_{}.safetensors", std::process::id()));
    /// let params = Params::new(1);
    /// Linear::new(&params.sub("model").sub("encoder"), 3, 4)?;
    /// Linear::new(&params.sub("model").sub("head"), 4, 10)?;
    /// ModelState::new(&Backend::open("inline")?, &params)?.save(&path)?;
    ///
    /// // The same encoder, with another head.
    /// let params = Params::new(2);
    /// Linear::new(&params.sub("encoder"), 3, 4)?;
    /// Linear::new(&params.sub("head"), 4, 2)?;
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let kept = weights.load_renamed(&path, |name| {
    ///     let name = name.strip_prefix("model.")?;
    ///     name.starts_with("encoder.").then(|| name.to_owned())
    /// })?;
    /// assert_eq!(kept, ["head.bias", "head.weight"]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read; two arrays of one name; a name that no parameter has; the errors of
    /// [`load_state_dict`](ModelState::load_state_dict). All have the path.
    pub fn load_renamed(
        &self,
        path: impl AsRef<Path>,
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>> {
        let path = path.as_ref();
        let load = || {
            let mut values = BTreeMap::new();
            for (name, array) in read_arrays(&fs::read(path)?)? {
                let Some(name) = rename(&name) else { continue };
                if values.insert(name.clone(), array).is_some() {
                    return Err(TensorError::Name { what: "array", name });
                }
            }
            let (loaded, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
                self.0.params.by_name().into_iter().partition(|(name, _)| values.contains_key(name));
            self.load_into(&loaded, &values)?;
            Ok(kept.into_keys().collect())
        };
        load().map_err(|problem| in_file(path, problem))
    }
}

/// The arrays of a safetensors file or of a file of torch.
fn read_arrays(bytes: &[u8]) -> Result<BTreeMap<String, HostArray>> {
    Ok(if is_archive(bytes) { torch::read(bytes)? } else { safetensors::read(bytes)? })
}

/// Whether a file is a zip archive, as those of torch are, and no safetensors file.
fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

pub(crate) fn in_file(path: &Path, problem: TensorError) -> TensorError {
    TensorError::File { path: path.to_owned(), problem: Box::new(problem) }
}

/// Writes a file under another name, and renames it once it is on disk.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = PartialFile::create(path)?;
    file.file().write_all(bytes)?;
    file.finish()
}

/// Whether a session wrote the file.
fn is_checkpoint(bytes: &[u8]) -> bool {
    let metadata =
        SafeTensors::read_metadata(bytes).ok().and_then(|(_, metadata)| metadata.metadata().clone());
    metadata.is_some_and(|entries| entries.contains_key(CHECKPOINT_FORMAT.0))
}

/// The context with initial values of more parameters.
fn initialized(
    backend: &Backend,
    params: &Params,
    context: &Context,
    missing: &[Parameter],
) -> Result<Context> {
    let mut program = Assignments::default();
    let mut filled = Vec::new();
    let mut context = context.clone();
    let all = params.all();
    for parameter in missing {
        let position = all.iter().position(|other| other == parameter).unwrap_or_default();
        let init = parameter.init();
        if let Init::Values(values) = &init {
            context = context.init_from_host(parameter.node(), Arc::clone(values))?;
        } else if let Init::Shared(values) = &init {
            context = context.init_shared(parameter.node(), Arc::clone(values))?;
        } else if let Some(text) = init.text(parameter.shape().len(), params.seed(), position) {
            let mut nodes = Nodes::default();
            nodes.insert("p", parameter.node().clone());
            program = program.then(Program::parse(&text)?.resolve(&nodes)?);
            filled.push(parameter.node().clone());
        }
    }
    if filled.is_empty() {
        return Ok(context);
    }
    program.kept.extend(filled);
    let routine = backend.compile_assignments(&program.named("initial_values"))?.link(&context)?;
    routine.run(&[])?;
    Ok(routine.context().clone())
}

/// Checks that there are values for each parameter and no others.
pub(crate) fn check_names<P, V>(
    parameters: &BTreeMap<String, P>,
    values: &BTreeMap<String, V>,
) -> Result<()> {
    let missing: Vec<String> =
        parameters.keys().filter(|name| !values.contains_key(*name)).cloned().collect();
    let unexpected: Vec<String> =
        values.keys().filter(|name| !parameters.contains_key(*name)).cloned().collect();
    match missing.is_empty() && unexpected.is_empty() {
        true => Ok(()),
        false => Err(TensorError::Names { missing, unexpected }),
    }
}

/// Checks that values have the shape and type of a parameter.
pub(crate) fn check(parameter: &Parameter, values: &HostArray) -> Result<()> {
    let found = (values.dtype(), values.dims().to_vec());
    let expected = (parameter.dtype(), parameter.shape().to_vec());
    if found == expected {
        Ok(())
    } else {
        Err(TensorError::Values { name: parameter.name().into(), found, expected })
    }
}

/// The values in the type of a parameter, if they have its shape, and are floats for floats or integers for
/// integers.
pub(crate) fn fitting(parameter: &Parameter, values: &HostArray) -> Result<HostArray> {
    let (from, to) = (values.dtype(), parameter.dtype());
    let is_convertible = from.is_float() && to.is_float() || from.is_integer() && to.is_integer();
    if from == to || !is_convertible || values.dims().as_slice() != parameter.shape() {
        check(parameter, values)?;
        return Ok(values.try_clone()?);
    }
    let converted = values.to_dtype(to)?;
    if to.is_integer() && converted.values() != values.values() {
        return Err(TensorError::Overflow { name: parameter.name().into(), from, to });
    }
    Ok(converted)
}
