//! Models, and sessions that run them.

use std::{
    collections::{BTreeMap, HashMap},
    io::Read,
    num::{NonZero, NonZeroUsize},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use arrayjit_tensor::{Backend, ModelState, Params};
use bytes::Bytes;
use lowered_ir::stack::with_enough;
use lru::LruCache;
use prost::Message;
use tnode::{DType, HostArray};

use crate::{
    budget::{Budget, OnnxLimits, within},
    error::{OnnxError, Result},
    external::{self, Folder},
    ir::{Dim, ModelGraph, ValueInfo},
    load,
    plan::{Event, Output, Plan, Reached},
    proto::ModelProto,
    trace::{Shared, Tracer},
};

/// How many sets of input shapes a session keeps compiled.
const MOST_PLANS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(31);

/// A loaded model: a checked graph whose operators are all supported. Cloning is cheap.
#[derive(Clone)]
pub struct Model {
    graph: Arc<ModelGraph>,
    metadata: Arc<BTreeMap<String, String>>,
    limits: OnnxLimits,
}

impl Model {
    /// Loads a model file, and the files beside it that have its weights.
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
        let path = path.as_ref();
        let read = |source| OnnxError::Read { path: path.into(), source };
        let (file, metadata) = external::open(path).map_err(read)?;
        let size = within("bytes", metadata.len(), limits.bytes);
        let size = size.map_err(OnnxError::at(path.display().to_string()))?;
        let mut bytes = Vec::new();
        file.take(size).read_to_end(&mut bytes).map_err(read)?;
        let folder = Folder::of(path)?;
        Model::new(&ModelProto::decode(Bytes::from(bytes))?, Some(&folder), limits)
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

    fn new(model: &ModelProto, folder: Option<&Folder>, limits: OnnxLimits) -> Result<Model> {
        let entries = model.metadata_props.iter().map(|entry| (entry.key.clone(), entry.value.clone()));
        let graph = Arc::new(load::graph(model, folder, Budget::new(limits))?);
        Ok(Model { graph, metadata: Arc::new(entries.collect()), limits })
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
        let shared = Shared::new(ModelState::new(backend, &Params::new(0))?, self.limits);
        let plans = Mutex::new(LruCache::new(MOST_PLANS));
        Ok(InferenceSession { model: self.clone(), shared, plans })
    }
}

/// Runs a model on a backend. For each set of input shapes, the first run compiles the model; later ones use
/// the compiled routines.
///
/// Any thread may run at any time, and each run has the outputs of its own inputs. Runs share the weights and
/// the code, and take place side by side; [`set_concurrent_runs`](InferenceSession::set_concurrent_runs) bounds
/// how many. Calls with a new set of shapes compile it once, and no others wait for that.
pub struct InferenceSession {
    model: Model,
    shared: Shared,
    plans: Mutex<LruCache<Signature, Plan>>,
}

/// The type and shape of each input of a run.
type Signature = Vec<(DType, Vec<usize>)>;

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
        let (names, mut slots) = self.checked(inputs)?;
        let signature: Signature = slots.iter().map(|array| (array.dtype(), array.dims().to_vec())).collect();
        let plan = self.plan(signature);
        let mut events = Vec::new();
        let outputs = match plan.run(&mut slots, &mut events)? {
            Reached::Outputs(outputs) => outputs,
            Reached::Unknown(place) => self.traced(&place, &names, &mut slots, &mut events)?,
        };
        outputs.into_iter().map(|output| taken(output, &slots)).collect()
    }

    /// Changes how many runs may take place at the same time, each with memory of its own for intermediate
    /// values: as many as there are processors by default. Further calls wait, the first one first.
    pub fn set_concurrent_runs(&self, most: NonZero<usize>) {
        self.shared.weights.set_concurrent_runs(most);
    }

    fn plan(&self, signature: Signature) -> Plan {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.get_or_insert(signature, Plan::default).clone()
    }

    /// Goes on from a place of a plan where no run came before. Of several calls, one finds out what comes,
    /// and the others wait for it.
    fn traced(
        &self,
        place: &Plan,
        names: &[String],
        slots: &mut Vec<Arc<HostArray>>,
        events: &mut Vec<Event>,
    ) -> Result<Vec<Output>> {
        let tracing = place.tracing();
        match place.run(slots, events)? {
            Reached::Outputs(outputs) => return Ok(outputs),
            Reached::Unknown(next) if !next.is(place) => {
                drop(tracing);
                return self.traced(&next, names, slots, events);
            }
            Reached::Unknown(_) => {}
        }
        let known = events.len();
        if known == 0 {
            warn_of_names(&self.model.graph.inputs, names, slots);
        }
        let mut tracer = Tracer::new(&self.shared, slots, events);
        // Without one large stack, each operator would map a stack of its own.
        let outputs = with_enough(|| tracer.model(&self.model.graph, names))?;
        place.add(&events[known..], outputs.clone());
        Ok(outputs)
    }

    /// The arrays of the inputs in the order of the model, copied, with defaults that are given instead.
    fn checked(&self, inputs: &[(&str, &HostArray)]) -> Result<(Vec<String>, Vec<Arc<HostArray>>)> {
        let fail = |name: &str, problem: String| OnnxError::Input { name: name.into(), problem };
        let graph = &self.model.graph;
        let all = || graph.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ");
        if let Some((name, _)) =
            inputs.iter().find(|(name, _)| graph.inputs.iter().all(|input| input.name != *name))
        {
            return Err(fail(name, format!("is unknown; the inputs are {}", all())));
        }
        let (mut names, mut arrays) = (Vec::new(), Vec::new());
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
            names.push(info.name.clone());
            arrays.push(Arc::new(array.try_clone()?));
        }
        Ok((names, arrays))
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
fn warn_of_names(infos: &[ValueInfo], names: &[String], arrays: &[Arc<HostArray>]) {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for (name, array) in names.iter().zip(arrays) {
        let Some(info) = infos.iter().find(|info| info.name == *name) else { continue };
        for (at, (dim, size)) in info.dims.iter().flatten().zip(array.dims().iter().copied()).enumerate() {
            let Dim::Named(dim) = dim else { continue };
            let first = *sizes.entry(dim).or_insert(size);
            if first != size {
                tracing::warn!("input `{name}` has size {size} on axis {at}, but `{dim}` is {first}");
            }
        }
    }
}

fn taken(output: Output, slots: &[Arc<HostArray>]) -> Result<HostArray> {
    let missing = || OnnxError::invalid("outputs", "a slot has no values");
    let array = match output {
        Output::Known(array) => array,
        Output::Slot(slot) => slots.get(slot).cloned().ok_or_else(missing)?,
    };
    Ok(array.try_clone()?)
}
