//! Models, and sessions that run them.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZero,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use arrayjit_tensor::{Backend, ModelState, Params};
use bytes::Bytes;
use lowered_ir::stack::with_enough;
use lru::LruCache;
use prost::Message;
use tnode::HostArray;

use crate::{
    budget::{Budget, OnnxLimits, within},
    dimensions::{Dimensions, SessionOptions, is_covered},
    error::{OnnxError, Result},
    external::{self, ModelFiles},
    ir::{Dim, ModelGraph, ValueInfo},
    load,
    mapped::UnchangedFiles,
    outline::Outline,
    plan::{Event, Output, Plan, Reached, Signature},
    proto::ModelProto,
    trace::{Shared, Tracer},
};

/// A loaded model: a checked graph whose operators are all supported. Cloning is cheap.
#[derive(Clone)]
pub struct Model {
    graph: Arc<ModelGraph>,
    metadata: Arc<BTreeMap<String, String>>,
    limits: OnnxLimits,
}

impl Model {
    /// Loads a model file, and the files beside it that have its weights. The weights are in memory once,
    /// whatever the number of sessions: a CPU reads them where the model has them. Devices with memory of
    /// their own copy them.
    ///
    /// # Errors
    /// A file that cannot be read or is no model; a model that contradicts itself; external data outside of
    /// the folder of the model; a file that is no regular one; more memory or steps than the default
    /// [`OnnxLimits`] allow; all nodes that are not supported, at once.
    pub fn load(path: impl AsRef<Path>) -> Result<Model, OnnxError> {
        Model::load_within(path, OnnxLimits::default())
    }

    /// Loads a model file that may take so much, and whose runs may.
    ///
    /// # Errors
    /// Fails like [`load`](Model::load).
    pub fn load_within(path: impl AsRef<Path>, limits: OnnxLimits) -> Result<Model, OnnxError> {
        Model::load_file(path.as_ref(), limits, None)
    }

    /// Loads a model whose weights stay in their files where an array starts at a multiple of 64 bytes, of
    /// the model's own file or of one beside it: the system reads pages when a run needs them, drops them
    /// when memory is short, and has them once for all processes. Others are read when the model is loaded,
    /// as [`load`](Model::load) does with all: those that are not aligned, as most are in a model's own file,
    /// and those with elements of fewer than 8 bits.
    ///
    /// ```
    /// use arrayjit_onnx::{Model, OnnxLimits};
    ///
    /// // SAFETY: nothing writes the example's files while this program runs.
    /// let model = unsafe { Model::load_mapped("examples/layer.onnx", OnnxLimits::default()) }?;
    /// assert_eq!(model.outputs().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// Nothing, no other process either, may write or shorten the files as long as the model, one of its
    /// sessions, or an output of one lives: weights would change during a run, and reading behind the end of
    /// a file ends the process. To replace a file by renaming another one is safe. Where that is not known,
    /// [`load_within`](Model::load_within) reads everything.
    ///
    /// # Errors
    /// Fails like [`load`](Model::load).
    #[allow(unsafe_code, reason = "the caller vouches for the files")]
    pub unsafe fn load_mapped(path: impl AsRef<Path>, limits: OnnxLimits) -> Result<Model, OnnxError> {
        // SAFETY: the caller promises it.
        let unchanged = unsafe { UnchangedFiles::promised() };
        Model::load_file(path.as_ref(), limits, Some(unchanged))
    }

    fn load_file(path: &Path, limits: OnnxLimits, unchanged: Option<UnchangedFiles>) -> Result<Model> {
        let read = |source| OnnxError::Read { path: path.into(), source };
        let (file, metadata) = external::open(path).map_err(read)?;
        let size = within("bytes", metadata.len(), limits.bytes);
        let size = size.map_err(OnnxError::at(path.display().to_string()))?;
        let Outline { model, elements } = Outline::read(&file, size).map_err(read)?;
        let files = ModelFiles::of(path, file, elements, unchanged)?;
        let decoded = ModelProto::decode(Bytes::from(model)).map_err(OnnxError::from);
        let decoded = decoded.map_err(OnnxError::at(path.display().to_string()))?;
        Model::new(&decoded, Some(&files), limits)
    }

    /// Loads a model from the bytes of a file. Its weights must be in it.
    ///
    /// ```
    /// use arrayjit_onnx::Model;
    ///
    /// let model = Model::from_bytes(std::fs::read("examples/layer.onnx")?)?;
    /// assert_eq!(model.outputs().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`load`](Model::load).
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Model, OnnxError> {
        Model::from_bytes_within(bytes, OnnxLimits::default())
    }

    /// Loads a model from the bytes of a file; it may take so much, and its runs may.
    ///
    /// # Errors
    /// Fails like [`load`](Model::load).
    pub fn from_bytes_within(bytes: impl Into<Bytes>, limits: OnnxLimits) -> Result<Model, OnnxError> {
        Model::from_proto_within(&ModelProto::decode(bytes.into())?, limits)
    }

    /// Loads a model from its messages. Its weights must be in them.
    ///
    /// # Errors
    /// Fails like [`load`](Model::load).
    pub fn from_proto(model: &ModelProto) -> Result<Model, OnnxError> {
        Model::from_proto_within(model, OnnxLimits::default())
    }

    /// Loads a model from its messages; it may take so much, and its runs may.
    ///
    /// # Errors
    /// Fails like [`load`](Model::load).
    pub fn from_proto_within(model: &ModelProto, limits: OnnxLimits) -> Result<Model, OnnxError> {
        Model::new(model, None, limits)
    }

    fn new(model: &ModelProto, files: Option<&ModelFiles>, limits: OnnxLimits) -> Result<Model> {
        let entries = model.metadata_props.iter().map(|entry| (entry.key.clone(), entry.value.clone()));
        let graph = Arc::new(load::graph(model, files, Budget::new(limits))?);
        Ok(Model { graph, metadata: Arc::new(entries.collect()), limits })
    }

    pub(crate) fn graph(&self) -> &ModelGraph {
        &self.graph
    }

    /// What a load and each run may take.
    pub fn limits(&self) -> OnnxLimits {
        self.limits
    }

    /// What the file says about the model, by name: `metadata_props`.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The inputs that a run must be given, in order. Inputs with a default value are not listed.
    pub fn inputs(&self) -> Vec<ValueInfo> {
        let inputs = self.graph.inputs.iter();
        inputs.filter(|input| !self.graph.initializers.contains_key(&input.name)).cloned().collect()
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> Vec<ValueInfo> {
        self.graph.outputs.clone()
    }

    /// The labels of an output of a model of `ai.onnx.ml`: the texts that its integers number, where the file
    /// has texts as results, or the names of its columns, where the file has a map for each row.
    pub fn labels(&self, output: &str) -> Option<&[String]> {
        self.graph.labels.get(output).map(Vec::as_slice)
    }

    /// How often the model has each operator, subgraphs left out.
    pub fn operators(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for node in &self.graph.nodes {
            *counts.entry(node.operator.name).or_default() += 1;
        }
        counts
    }

    /// A session that runs the model on a backend.
    ///
    /// # Errors
    /// An error of the device.
    pub fn session(&self, backend: &Backend) -> Result<InferenceSession, OnnxError> {
        self.session_with(backend, SessionOptions::new())
    }

    /// A session that compiles the model as the options say.
    ///
    /// # Errors
    /// A bound of a dimension that the model does not have, a bound of 0, or an error of the device.
    pub fn session_with(
        &self,
        backend: &Backend,
        options: SessionOptions,
    ) -> Result<InferenceSession, OnnxError> {
        let dimensions = Dimensions::new(&self.inputs(), &options)?;
        let shared = Shared::new(ModelState::new(backend, &Params::new(0))?, self.limits);
        let plans = Mutex::new(LruCache::new(options.plans));
        Ok(InferenceSession { model: self.clone(), shared, dimensions, plans })
    }
}

/// Runs a model on a backend. For each set of input shapes, the first run compiles the model; later ones use
/// the compiled routines. With [`SessionOptions`], one compilation serves all values of named dimensions.
///
/// Any thread may run at any time, and each run has the outputs of its own inputs. Runs share the weights and
/// the code, and take place side by side; [`set_concurrent_runs`](InferenceSession::set_concurrent_runs) bounds
/// how many. Calls with a new set of shapes compile it once, and no others wait for that.
pub struct InferenceSession {
    model: Model,
    shared: Shared,
    dimensions: Dimensions,
    plans: Mutex<LruCache<Signature, Plan>>,
}

impl InferenceSession {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Runs the model and returns its outputs in order.
    ///
    /// # Errors
    /// An input that is missing, unknown, or of another type or shape; a node that cannot be evaluated with
    /// these inputs; an error of the device.
    pub fn run(&self, inputs: &[(&str, &HostArray)]) -> Result<Vec<HostArray>, OnnxError> {
        let (infos, given) = self.checked(inputs)?;
        let arrays: Vec<_> = infos.iter().copied().zip(given.iter().map(|array| &**array)).collect();
        loop {
            let signature = self.dimensions.signature(&arrays)?;
            let (plan, mut slots, mut events) = (self.plan(&signature), given.clone(), Vec::new());
            let outputs = match plan.run(&mut slots, &mut events)? {
                Reached::Outputs(outputs) => Ok(outputs),
                Reached::Unknown(place) => self.traced(&place, (&infos, &signature), &mut slots, &mut events),
            };
            match outputs {
                Ok(outputs) => return outputs.into_iter().map(|output| taken(output, &slots)).collect(),
                // The walk may need numbers in place of sizes: the next one has fewer sizes.
                Err(error) if has_sizes(&signature) => self.dimensions.force(&signature, &error),
                Err(error) => return Err(self.dimensions.with_odd_sizes(&arrays, error)),
            }
        }
    }

    /// The dimensions that the model leaves open and that need a compilation for each value, by name, each
    /// with the node and the problem. Walks the model without a run; a dimension that is missing here may
    /// still need it behind a node whose values the host reads.
    ///
    /// # Errors
    /// An input of the model without a type or a number of axes.
    pub fn exact_dimensions(&self) -> Result<BTreeMap<String, String>, OnnxError> {
        let graph = &self.model.graph;
        let inputs = self.model.inputs();
        let names: Vec<String> = inputs.iter().map(|info| info.name.clone()).collect();
        loop {
            let open = || OnnxError::invalid("inputs", "one has no type or no number of axes");
            let signature = self.dimensions.example(&inputs).ok_or_else(open)?;
            if !has_sizes(&signature) {
                return Ok(self.dimensions.exact());
            }
            let (mut slots, mut events) = (Vec::new(), Vec::new());
            let mut tracer = Tracer::new(&self.shared, &mut slots, &mut events);
            match with_enough(|| tracer.walk_without_run(graph, &names, &signature)) {
                Ok(()) => return Ok(self.dimensions.exact()),
                Err(error) => self.dimensions.force(&signature, &error),
            }
        }
    }

    /// The dimensions of which one compilation serves the multiples of a number, by name, with the number, as
    /// far as runs and [`exact_dimensions`](InferenceSession::exact_dimensions) found out: the layers of many
    /// models of images fit each other for multiples of 32 only. Other values are compiled each.
    pub fn dimension_steps(&self) -> BTreeMap<String, usize> {
        self.dimensions.steps()
    }

    /// The dimensions that the model leaves open: their names, and `x[0]` for axis 0 of input `x` without a
    /// name.
    pub fn dimensions(&self) -> Vec<String> {
        self.dimensions.names().map(str::to_owned).collect()
    }

    /// Changes how many runs may take place at the same time, each with memory of its own for intermediate
    /// values: as many as there are processors by default. Further calls wait, the first one first.
    pub fn set_concurrent_runs(&self, most: NonZero<usize>) {
        self.shared.weights.set_concurrent_runs(most);
    }

    /// The plan of a signature. A new one takes the place of those for lesser bounds.
    fn plan(&self, signature: &Signature) -> Plan {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(signature) {
            return plan.clone();
        }
        let covered = plans.iter().map(|(other, _)| other).filter(|other| is_covered(other, signature));
        for other in covered.cloned().collect::<Vec<_>>() {
            plans.pop(&other);
        }
        plans.get_or_insert(signature.clone(), Plan::default).clone()
    }

    /// Goes on from a place of a plan where no run came before. Of several calls, one finds out what comes,
    /// and the others wait for it.
    fn traced(
        &self,
        place: &Plan,
        (infos, signature): (&[&ValueInfo], &Signature),
        slots: &mut Vec<Arc<HostArray>>,
        events: &mut Vec<Event>,
    ) -> Result<Vec<Output>> {
        let tracing = place.tracing();
        match place.run(slots, events)? {
            Reached::Outputs(outputs) => return Ok(outputs),
            Reached::Unknown(next) if !next.is(place) => {
                drop(tracing);
                return self.traced(&next, (infos, signature), slots, events);
            }
            Reached::Unknown(_) => {}
        }
        let known = events.len();
        if known == 0 {
            warn_of_names(infos, slots);
        }
        let mut tracer = Tracer::new(&self.shared, slots, events);
        // Without one large stack, each operator would map a stack of its own.
        let names: Vec<String> = infos.iter().map(|info| info.name.clone()).collect();
        let outputs = with_enough(|| tracer.model(&self.model.graph, &names, signature))?;
        place.add(&events[known..], outputs.clone());
        Ok(outputs)
    }

    /// The arrays of the inputs in the order of the model, copied, with defaults that are given instead.
    fn checked(&self, inputs: &[(&str, &HostArray)]) -> Result<(Vec<&ValueInfo>, Vec<Arc<HostArray>>)> {
        let fail = |name: &str, problem: String| OnnxError::Input { name: name.into(), problem };
        let graph = &self.model.graph;
        let all = || graph.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ");
        if let Some((name, _)) =
            inputs.iter().find(|(name, _)| graph.inputs.iter().all(|input| input.name != *name))
        {
            return Err(fail(name, format!("is unknown; the inputs are {}", all())));
        }
        let (mut infos, mut arrays) = (Vec::new(), Vec::new());
        for info in &graph.inputs {
            let Some((_, array)) = inputs.iter().find(|(name, _)| *name == info.name) else {
                if graph.initializers.contains_key(&info.name) {
                    continue;
                }
                return Err(fail(&info.name, format!("has no values; the inputs are {}", all())));
            };
            if let Some(expected) = info.dtype.filter(|&dtype| dtype != array.dtype()) {
                return Err(fail(&info.name, format!("is given {}, expected {expected}", array.dtype())));
            }
            if let Some(problem) = shape_problem(info, array.dims()) {
                return Err(fail(&info.name, problem));
            }
            infos.push(info);
            arrays.push(Arc::new(array.try_clone()?));
        }
        Ok((infos, arrays))
    }
}

/// The problem of a shape with the axes that the model says.
fn shape_problem(info: &ValueInfo, shape: &[usize]) -> Option<String> {
    let dims = info.dims.as_ref()?;
    if dims.len() != shape.len() {
        return Some(format!("has {} axes, expected {}", shape.len(), dims.len()));
    }
    let mut axes = dims.iter().zip(shape).enumerate();
    axes.find_map(|(at, (dim, &size))| match dim {
        Dim::Known(expected) if *expected != size => {
            Some(format!("has size {size} on axis {at}, expected {expected}"))
        }
        _ => None,
    })
}

/// Warns of axes with the same name and different sizes. Exporters give such names to axes that have the same
/// size only in the example that they traced, and the operators check the sizes that they need.
fn warn_of_names(infos: &[&ValueInfo], arrays: &[Arc<HostArray>]) {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for (info, array) in infos.iter().zip(arrays) {
        for (at, (dim, size)) in info.dims.iter().flatten().zip(array.dims().iter().copied()).enumerate() {
            let Dim::Named(dim) = dim else { continue };
            let first = *sizes.entry(dim).or_insert(size);
            if first != size {
                tracing::warn!("input `{}` has size {size} on axis {at}, but `{dim}` is {first}", info.name);
            }
        }
    }
}

fn has_sizes(signature: &Signature) -> bool {
    signature.iter().any(|(_, extents)| extents.has_sizes())
}

fn taken(output: Output, slots: &[Arc<HostArray>]) -> Result<HostArray> {
    let missing = || OnnxError::invalid("outputs", "a slot has no values");
    let array = match output {
        Output::Known(array) => array,
        Output::Slot(slot) => slots.get(slot).cloned().ok_or_else(missing)?,
    };
    Ok(array.try_clone()?)
}
