//! Parameters and buffers: arrays with names that outlive a run.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use arrayjit::{DType, HostArray, MemoryMode, Reason, TensorNode};

use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::number,
};

/// An array that outlives a run: a trainable parameter, or a buffer such as a running mean. Cloning is cheap.
///
/// [`Params`] makes parameters and names them; [`ModelState`](crate::ModelState) has their values on a device.
/// Operations take `&Parameter` wherever they take a tensor.
#[derive(Clone)]
pub struct Parameter(Arc<ParameterParts>);

struct ParameterParts {
    name: String,
    node: TensorNode,
    shape: Vec<usize>,
    dtype: DType,
    trainable: bool,
    is_frozen: AtomicBool,
    init: Init,
}

/// The initial values of a parameter. Random values depend on the seed of [`Params`] and on the position of
/// the parameter only, so they are the same on every machine and backend.
#[derive(Clone, Debug)]
pub enum Init {
    /// One number for all elements.
    Constant(f64),
    /// Uniform random numbers.
    Uniform {
        /// The lowest value.
        low: f64,
        /// The end of the range, which no value reaches.
        high: f64,
    },
    /// Normal random numbers.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// The values of an array of the parameter's shape and type.
    Values(Arc<HostArray>),
    /// The same for a parameter that never gets other values. A device that reads host memory reads the array
    /// in place.
    Shared(Arc<HostArray>),
}

impl Init {
    /// Zeros.
    pub const ZEROS: Init = Init::Constant(0.0);
    /// Ones.
    pub const ONES: Init = Init::Constant(1.0);

    /// Uniform in ±`gain`·√(3 / `fan_in`), which keeps the variance of activations from layer to layer. The
    /// layers of torch use it with a gain of √(1/3), so in ±1/√`fan_in`.
    ///
    /// Source: He, Zhang, Ren and Sun, Delving deep into rectifiers, 2015.
    pub fn kaiming_uniform(fan_in: usize, gain: f64) -> Init {
        let bound = gain * (3.0 / fan_in.max(1) as f64).sqrt();
        Init::Uniform { low: -bound, high: bound }
    }

    /// Uniform in ±√(6 / (`fan_in` + `fan_out`)).
    ///
    /// ```
    /// use arrayjit_tensor::Init;
    ///
    /// assert!(matches!(Init::xavier_uniform(2, 4), Init::Uniform { low: -1.0, high: 1.0 }));
    /// ```
    ///
    /// Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks,
    /// 2010.
    pub fn xavier_uniform(fan_in: usize, fan_out: usize) -> Init {
        let bound = (6.0 / fan_in.saturating_add(fan_out).max(1) as f64).sqrt();
        Init::Uniform { low: -bound, high: bound }
    }

    /// The statements that fill node `p` of rank `rank`, as assignment text; none for values of an array.
    /// `seed` and `position` are the key of random numbers.
    pub(crate) fn text(&self, rank: usize, seed: u32, position: usize) -> Option<String> {
        let p = crate::shape::whole("p", rank);
        let scaled = |fill: &str, scale: f64, offset: f64| {
            let (scale, offset) = (number(scale), number(offset));
            format!("p := {fill}({seed}, {position})\n{p} := {p} * {scale} + {offset}")
        };
        match self {
            Init::Constant(value) => Some(format!("{p} := {}", number(*value))),
            Init::Uniform { low, high } => Some(scaled("uniform", high - low, *low)),
            Init::Normal { mean, std } => Some(scaled("normal", *std, *mean)),
            Init::Values(_) | Init::Shared(_) => None,
        }
    }
}

impl Parameter {
    /// The name with the path of its module, such as `encoder.0.weight`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The path of its module, such as `encoder.0`; empty for a parameter at the root.
    pub fn module(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(module, _)| module)
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The type in which the values are stored.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Whether optimizers update it; false for buffers and for [frozen](Params::freeze) parameters.
    pub fn is_trainable(&self) -> bool {
        self.0.trainable && !self.0.is_frozen.load(Ordering::Relaxed)
    }

    /// The node that holds the values.
    pub fn node(&self) -> &TensorNode {
        &self.0.node
    }

    /// The initial values.
    pub fn init(&self) -> Init {
        self.0.init.clone()
    }
}

impl PartialEq for Parameter {
    fn eq(&self, other: &Parameter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{:?}", self.name(), self.dtype(), self.shape())
    }
}

/// Makes the parameters of modules, each under the path of its module. Clones and [`sub`](Params::sub) make
/// parameters of the same model, also at the same time.
///
/// ```
/// use arrayjit_tensor::{Init, Params};
///
/// let params = Params::new(42);
/// let weight = params.sub("encoder").sub(0).parameter("weight", [16, 8], Init::kaiming_uniform(8, 1.0))?;
/// assert_eq!(weight.name(), "encoder.0.weight");
/// assert_eq!(params.all().len(), 1);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
#[derive(Clone)]
pub struct Params {
    path: String,
    dtype: DType,
    shared: Arc<SharedParams>,
}

struct SharedParams {
    seed: u32,
    /// The number of changes of the set of frozen parameters.
    freezes: AtomicU64,
    made: Mutex<Vec<Parameter>>,
}

impl Params {
    /// No parameters yet; random initial values have this seed. Parameters are stored in f32.
    pub fn new(seed: u32) -> Params {
        let shared = Arc::new(SharedParams { seed, freezes: AtomicU64::new(0), made: Mutex::default() });
        Params { path: String::new(), dtype: DType::F32, shared }
    }

    /// Stores the parameters that are made with the result in `dtype`. Operations sum products of narrow
    /// floats in f32.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Params {
        Params { dtype, ..self.clone() }
    }

    /// Makes the parameters of a module: their names start with the path of this one and `name`.
    #[must_use]
    pub fn sub(&self, name: impl fmt::Display) -> Params {
        let path = match self.path.is_empty() {
            true => name.to_string(),
            false => format!("{}.{name}", self.path),
        };
        Params { path, ..self.clone() }
    }

    /// The path of the module; empty at the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The type in which parameters are stored.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Makes a trainable parameter.
    ///
    /// # Errors
    /// A name that exists already, the name `__metadata__`, or a size that overflows.
    #[track_caller]
    pub fn parameter(
        &self,
        name: &str,
        shape: impl IntoIterator<Item = usize>,
        init: Init,
    ) -> Result<Parameter> {
        self.make(Call::new("parameter"), name, shape, (init, true))
    }

    /// Makes a buffer: an array that modules read and write, and optimizers leave alone.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Init, Params};
    ///
    /// let params = Params::new(42);
    /// let count = params.with_dtype(DType::I32).buffer("count", [], Init::ZEROS)?;
    /// assert!(!count.is_trainable());
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A name that exists already, the name `__metadata__`, or a size that overflows.
    #[track_caller]
    pub fn buffer(
        &self,
        name: &str,
        shape: impl IntoIterator<Item = usize>,
        init: Init,
    ) -> Result<Parameter> {
        self.make(Call::new("buffer"), name, shape, (init, false))
    }

    /// All parameters and buffers of the model, in the order in which they were made.
    pub fn all(&self) -> Vec<Parameter> {
        locked(&self.shared.made).clone()
    }

    /// The trainable parameters of the model.
    pub fn trainable(&self) -> Vec<Parameter> {
        self.all().into_iter().filter(Parameter::is_trainable).collect()
    }

    /// Keeps optimizers from changing parameters of this module whose names `contains` selects: they have no
    /// gradient, no update and no decay until [`unfreeze`](Params::unfreeze). Returns how many are selected.
    /// The next step of a session compiles its graph again. A checkpoint has the state of an optimizer for
    /// trainable parameters only, so it loads where the same parameters are frozen.
    ///
    /// ```
    /// use arrayjit_tensor::{Init, Params};
    ///
    /// let params = Params::new(42);
    /// params.sub("encoder").parameter("weight", [2], Init::ZEROS)?;
    /// params.sub("head").parameter("weight", [2], Init::ZEROS)?;
    /// assert_eq!(params.sub("encoder").freeze(|_| true), 1);
    /// assert_eq!(params.freeze(|name| name.ends_with("bias")), 0);
    /// assert_eq!(params.trainable()[0].name(), "head.weight");
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    pub fn freeze(&self, contains: impl Fn(&str) -> bool) -> usize {
        self.set_frozen(contains, true)
    }

    /// Lets optimizers change parameters of this module again that were [frozen](Params::freeze). Returns how
    /// many are selected.
    pub fn unfreeze(&self, contains: impl Fn(&str) -> bool) -> usize {
        self.set_frozen(contains, false)
    }

    fn set_frozen(&self, contains: impl Fn(&str) -> bool, is_frozen: bool) -> usize {
        let is_within = |name: &str| {
            self.path.is_empty() || name.strip_prefix(&self.path).is_some_and(|rest| rest.starts_with('.'))
        };
        let mut selected = self.all();
        selected.retain(|parameter| {
            parameter.0.trainable && is_within(parameter.name()) && contains(parameter.name())
        });
        selected.iter().for_each(|parameter| parameter.0.is_frozen.store(is_frozen, Ordering::Relaxed));
        self.shared.freezes.fetch_add(1, Ordering::Relaxed);
        selected.len()
    }

    /// The number of changes of the set of frozen parameters so far.
    pub(crate) fn freezes(&self) -> u64 {
        self.shared.freezes.load(Ordering::Relaxed)
    }

    /// The parameter or buffer of that name.
    pub fn get(&self, name: &str) -> Option<Parameter> {
        locked(&self.shared.made).iter().find(|parameter| parameter.name() == name).cloned()
    }

    /// Whether the model has the parameter; quick for one that was just made.
    pub(crate) fn has(&self, parameter: &Parameter) -> bool {
        locked(&self.shared.made).iter().rev().any(|other| other == parameter)
    }

    pub(crate) fn seed(&self) -> u32 {
        self.shared.seed
    }

    /// Parameters by name.
    pub(crate) fn by_name(&self) -> BTreeMap<String, Parameter> {
        self.all().into_iter().map(|parameter| (parameter.name().to_owned(), parameter)).collect()
    }

    fn make(
        &self,
        call: Call,
        name: &str,
        shape: impl IntoIterator<Item = usize>,
        (init, trainable): (Init, bool),
    ) -> Result<Parameter> {
        let fail = |kind: TensorError| call.error(self.path.as_str(), kind);
        let what = if trainable { "parameter" } else { "buffer" };
        let (name, dtype) = (self.sub(name).path, self.dtype);
        let shape: Vec<usize> = shape.into_iter().collect();
        if name == RESERVED_NAME {
            let expected = "another name, since safetensors files use it";
            return Err(fail(misfit("name", format!("`{name}`"), expected)));
        }
        let mut made = locked(&self.shared.made);
        if made.iter().any(|other| other.name() == name) {
            return Err(fail(TensorError::Name { what, name }));
        }
        let label: Vec<String> = name.split('.').map(str::to_owned).collect();
        let node = TensorNode::builder(label)
            .dims(shape.iter().copied())
            .dtype(dtype)
            .mode_because(MemoryMode::Materialized, Reason::new(what))
            .build()
            .map_err(|error| fail(error.into()))?;
        let parameter = Parameter(Arc::new(ParameterParts {
            name,
            node,
            shape,
            dtype,
            trainable,
            is_frozen: AtomicBool::new(false),
            init,
        }));
        made.push(parameter.clone());
        Ok(parameter)
    }
}

/// The name that safetensors files have for their metadata.
const RESERVED_NAME: &str = "__metadata__";

/// Locks. A panic elsewhere leaves no half-made value, since every change is one assignment or one push.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
