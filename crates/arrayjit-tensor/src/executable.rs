//! Compiled graphs.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrayjit::{
    Compiled, Context, Event, HostArray, PendingArray, Routine, Symbol, TensorNode, assign::Warning,
};

use tnode::{Dims, SizeValues};

use crate::{
    error::{Result, TensorError},
    graph::Graph,
    model_state::ModelState,
    parameter::{Parameter, locked},
    positions::PositionCheck,
    run_streams::TakenStream,
    session::BatchValues,
    tensor::Tensor,
};

/// A graph that is compiled and linked with the weights of a model: a routine from inputs to results, which
/// may also change parameters and buffers.
///
/// ```
/// use arrayjit_tensor::{Backend, DType, Graph, HostArray, Init, Params, ModelState};
///
/// let params = Params::new(42);
/// let w = params.parameter("w", [2, 3], Init::ONES)?;
/// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
/// let graph = Graph::new();
/// let x = graph.input("x", [4, 2], DType::F32)?;
/// let y = x.matmul(&w)?;
/// let model = graph.compile(&weights, &[&y])?;
/// let results = model.run(&[("x", &HostArray::from_slice(&[1f32; 8], [4, 2])?)])?;
/// assert_eq!(results[0].values(), [2.; 12]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Threads
/// Any thread may call [`run`](Executable::run) and [`start`](Executable::start) at any time. A call copies
/// the inputs, runs and copies the results as one transaction, so its results are those of its own inputs.
///
/// Runs that write no parameter take place side by side: the code and the weights are shared, and each of the
/// overlapping calls has memory of its own for inputs, intermediate values and results, which later calls use
/// again. [`ModelState::set_concurrent_runs`] bounds their number; further calls wait, the first one first.
/// If the device has no memory for another one, calls take turns. Runs that write parameters or buffers, such
/// as steps of training, take turns and see all writes of those before. A run reads all parameters either
/// before or after any other run or [`ModelState::load_state_dict`] writes them.
pub struct Executable {
    routine: Routine,
    compiled: Compiled,
    inputs: BTreeMap<String, TensorNode>,
    results: Vec<TensorNode>,
    positions: Vec<PositionCheck>,
    weights: ModelState,
    /// The memory that all runs share: the weights, and arrays that only this routine has.
    shared: Context,
    /// The routine for the other streams that calls have had, by number. Each has memory of its own.
    others: Mutex<BTreeMap<usize, Routine>>,
    /// Calls may have streams with numbers below.
    most_streams: AtomicUsize,
    /// Whether a run is several tasks that access shared memory.
    is_divided: bool,
}

impl Graph {
    /// Compiles the graph for the backend of the weights. The routine computes `results` and every change of
    /// parameters and buffers; other values are computed as far as these need them.
    ///
    /// A graph is compiled once: its tensors learn where their values live. Build the graph again to compile
    /// it for another backend.
    ///
    /// # Errors
    /// A graph that does not compile, a result of another graph, or an error of the device.
    pub fn compile(&self, weights: &ModelState, results: &[&Tensor]) -> Result<Executable> {
        self.compile_named("model", weights, results)
    }

    /// [`compile`](Graph::compile) with a name for the routine: an identifier that dumps and profiles show.
    ///
    /// # Errors
    /// Fails like [`compile`](Graph::compile).
    pub fn compile_named(&self, name: &str, weights: &ModelState, results: &[&Tensor]) -> Result<Executable> {
        self.check_results(results)?;
        let results: Vec<TensorNode> = results.iter().map(|tensor| tensor.node().clone()).collect();
        self.compile_with(name, weights, results, &[])
    }

    /// [`compile_named`](Graph::compile_named) with arrays that only this routine has; they start from zero.
    pub(crate) fn compile_with(
        &self,
        name: &str,
        weights: &ModelState,
        results: Vec<TensorNode>,
        own: &[Parameter],
    ) -> Result<Executable> {
        let context = with_zeros(weights.context()?, own.iter().map(Parameter::node))?;
        let context = self.bound(context)?;
        let mut program = self.program();
        program.kept.extend(results.iter().cloned());
        let compiled = weights.backend().compile_assignments(&program.named(name))?;
        let inputs = self.inputs().into_iter().collect();
        let executable = Executable::link(weights, compiled, &context, inputs, results)?;
        Ok(executable.checking(self.position_checks()))
    }

    /// The context, which must have all parameters that the statements mention, with the constants.
    pub(crate) fn bound(&self, mut context: Context) -> Result<Context> {
        if let Some(other) = self.parameters().iter().find(|parameter| !context.contains(parameter.node())) {
            return Err(TensorError::OtherModel { parameter: other.name().into() });
        }
        for (node, values) in self.constants() {
            context = context.init_from_host(&node, values)?;
        }
        Ok(context)
    }
}

/// The context with further nodes, which are zero.
pub(crate) fn with_zeros<'n>(
    mut context: Context,
    nodes: impl IntoIterator<Item = &'n TensorNode>,
) -> Result<Context> {
    for node in nodes {
        let zeros = HostArray::zeros(node.dtype(), node.dims()?)?;
        context = context.init_from_host(node, zeros)?;
    }
    Ok(context)
}

/// The inputs of a run that the routine reads, with their nodes.
type CopiedInputs<'a> = Vec<(&'a TensorNode, Arc<HostArray>)>;

/// The dimensions of the leading elements of a node among which a part of these dimensions is: the first axis
/// of more than one element ends where the part does, and those behind it are whole.
fn leading(node: &TensorNode, part: &[usize]) -> Result<Dims> {
    let mut dims = node.dims()?;
    let cut = part.iter().position(|&size| size != 1).unwrap_or(part.len());
    dims.iter_mut().zip(part).take(cut + 1).for_each(|(dim, size)| *dim = *size);
    Ok(dims)
}

/// An array among the leading elements of a node, whose dimensions are bounds.
fn widened(node: &TensorNode, values: &HostArray) -> Result<HostArray> {
    Ok(values.resized(leading(node, values.dims())?)?)
}

/// The dimensions of the part of a node that has values; none if no size limits it.
fn dims_of(node: &TensorNode, sizes: &SizeValues) -> Result<Option<Dims>> {
    if node.run_sizes().is_empty() {
        return Ok(None);
    }
    let mut dims = node.dims()?;
    for (axis, dim) in dims.iter_mut().enumerate() {
        *dim = node.run_size(axis).and_then(|size| sizes.get(size)).unwrap_or(*dim);
    }
    Ok(Some(dims))
}

/// Checks the sizes that an array gives to axes of an input.
fn check_range(input: &str, node: &TensorNode, dims: &[usize]) -> Result<()> {
    let bounds = node.dims()?;
    for (axis, (&value, &bound)) in dims.iter().zip(&bounds).enumerate() {
        if let Some(size) = node.run_size(axis).filter(|_| !(1..=bound).contains(&value)) {
            let (size, input) = (size.to_string(), input.to_owned());
            return Err(TensorError::SizeRange { size, bound, value, input, axis });
        }
    }
    Ok(())
}

impl Executable {
    /// Links compiled code with a context that has all parameters, and adds the inputs that the code reads.
    pub(crate) fn link(
        weights: &ModelState,
        compiled: Compiled,
        shared: &Context,
        inputs: BTreeMap<String, TensorNode>,
        results: Vec<TensorNode>,
    ) -> Result<Executable> {
        let used = |node: &&TensorNode| compiled.nodes().contains(node) || results.contains(node);
        let new = inputs.values().filter(used).filter(|node| !shared.contains(node));
        let routine = compiled.link(&with_zeros(shared.clone(), new)?)?;
        let shares_input = inputs.values().any(|node| shared.contains(node));
        let shares_result = results.iter().any(|node| shared.contains(node));
        let falls_back = !compiled.fallbacks().is_empty();
        let writes = routine.outputs().iter().any(|node| shared.contains(node));
        let is_profiled = weights.backend().settings().debugging.profile;
        let takes_turns = writes || shares_input || falls_back || is_profiled;
        Ok(Executable {
            routine,
            compiled,
            inputs,
            results,
            positions: Vec::new(),
            weights: weights.clone(),
            shared: shared.clone(),
            others: Mutex::default(),
            most_streams: AtomicUsize::new(if takes_turns { 1 } else { usize::MAX }),
            is_divided: falls_back || shares_result,
        })
    }

    /// Each run checks these positions.
    pub(crate) fn checking(self, positions: Vec<PositionCheck>) -> Executable {
        Executable { positions, ..self }
    }

    /// Copies the inputs to the device, runs, and waits for the results, in the order given to
    /// [`Graph::compile`].
    ///
    /// # Errors
    /// An input that is missing, unknown, or of another shape or type; an integer that is no position, see
    /// [`Graph::check_positions`](crate::Graph::check_positions); symbols of the graph, which
    /// [`run_with`](Executable::run_with) binds; an error of the device.
    pub fn run(&self, inputs: &[(&str, &HostArray)]) -> Result<Vec<HostArray>> {
        self.run_with(inputs, &[])
    }

    /// [`run`](Executable::run) with values of the symbols of the graph: `step`, on which random numbers
    /// depend, and symbols of texts.
    ///
    /// # Errors
    /// Fails like [`run`](Executable::run), or if a symbol has no value or one outside its range.
    pub fn run_with(&self, inputs: &[(&str, &HostArray)], symbols: &[(&str, i64)]) -> Result<Vec<HostArray>> {
        let sizes = self.sizes_of(inputs.iter().copied())?;
        let (_taken, run) = self.started(self.copied(inputs)?, symbols, &sizes)?;
        run.results()
    }

    /// [`run`](Executable::run) without a copy of the inputs on the host.
    ///
    /// # Errors
    /// Fails like [`run`](Executable::run).
    pub fn run_shared(&self, inputs: &[(&str, Arc<HostArray>)]) -> Result<Vec<HostArray>> {
        let sizes = self.sizes_of(inputs.iter().map(|(name, values)| (*name, &**values)))?;
        let (_taken, run) = self.started(self.checked(inputs)?, &[], &sizes)?;
        run.results()
    }

    /// Starts a run and returns without waiting for it: the copies of the inputs, the run and the copies of
    /// the results are tasks of a stream. The inputs may change after the call. Runs that write parameters
    /// take place in the order of their starts. The results are those of this run, whatever runs later.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, Params, ModelState};
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &Params::new(0))?;
    /// let graph = Graph::new();
    /// let y = (graph.input("x", [1], DType::F32)? * 2.0)?;
    /// let model = graph.compile(&weights, &[&y])?;
    /// let x = |value: f32| HostArray::from_slice(&[value], [1]);
    /// let (first, second) = (model.start(&[("x", &x(1.0)?)], &[])?, model.start(&[("x", &x(5.0)?)], &[])?);
    /// assert_eq!(second.result(0)?.values(), [10.0]);
    /// assert_eq!(first.result(0)?.values(), [2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`run_with`](Executable::run_with), but for errors of the run that are found later, which
    /// the results and the event have.
    pub fn start(&self, inputs: &[(&str, &HostArray)], symbols: &[(&str, i64)]) -> Result<StartedRun> {
        let sizes = self.sizes_of(inputs.iter().copied())?;
        Ok(self.started(self.copied(inputs)?, symbols, &sizes)?.1)
    }

    /// [`start`](Executable::start) without a copy of the inputs on the host. Symbols that the graph does not
    /// have are left out.
    pub(crate) fn start_shared(&self, inputs: &BatchValues, symbols: &[(&str, i64)]) -> Result<StartedRun> {
        let sizes = self.sizes_in(inputs)?;
        Ok(self.started(self.shared_batch(inputs)?, &self.known_symbols(symbols), &sizes)?.1)
    }

    /// [`start_shared`](Executable::start_shared) on the stream of the weights, without copies of the results:
    /// they are in [`context`](Executable::context).
    pub(crate) fn start_first(&self, inputs: &BatchValues, symbols: &[(&str, i64)]) -> Result<()> {
        let _taken = self.weights.run_streams().take(1);
        let _order = self.weights.order(self.is_divided);
        self.start_in_order(Some(inputs), symbols)
    }

    /// [`start_first`](Executable::start_first) for a caller that takes care that nothing comes between.
    pub(crate) fn start_in_order(&self, inputs: Option<&BatchValues>, symbols: &[(&str, i64)]) -> Result<()> {
        let sizes = inputs.map_or(Ok(SizeValues::default()), |inputs| self.sizes_in(inputs))?;
        let inputs = inputs.map_or(Ok(Vec::new()), |inputs| self.shared_batch(inputs))?;
        let bindings = self.bindings(&self.known_symbols(symbols), &sizes)?;
        copy_in(&self.routine, inputs)?;
        self.routine.run(&bindings)?;
        Ok(())
    }

    /// Starts a run on a stream, which the caller has until it drops it.
    fn started(
        &self,
        inputs: CopiedInputs<'_>,
        symbols: &[(&str, i64)],
        sizes: &SizeValues,
    ) -> Result<(TakenStream<'_>, StartedRun)> {
        let bindings = self.bindings(symbols, sizes)?;
        let (taken, routine) = self.instance();
        copy_in(&routine, inputs)?;
        let _order = self.weights.order(self.is_divided);
        let event = routine.run(&bindings)?;
        let result = |node: &TensorNode| {
            let dims = dims_of(node, sizes)?;
            let pending = match &dims {
                Some(dims) if node.padding().is_none() => {
                    routine.context().start_first_to_host(node, leading(node, dims)?)?
                }
                _ => routine.context().start_to_host(node)?,
            };
            let pending = Mutex::new(Some(pending));
            Ok(RunResult { name: node.name(), pending, dims, array: OnceLock::new() })
        };
        let results = self.results.iter().map(result).collect::<Result<Vec<_>>>()?;
        Ok((taken, StartedRun { event, results }))
    }

    /// A free stream, and the routine with memory of its own for that stream.
    fn instance(&self) -> (TakenStream<'_>, Routine) {
        let streams = self.weights.run_streams();
        let taken = streams.take(self.most_streams.load(Ordering::Relaxed));
        if let Ok(routine) = self.routine_on(&taken) {
            return (taken, routine);
        }
        // The code was linked before, so the device has no memory for it once more, or no other stream.
        self.most_streams.fetch_min(taken.number, Ordering::Relaxed);
        drop(taken);
        (streams.take(1), self.routine.clone())
    }

    fn routine_on(&self, taken: &TakenStream<'_>) -> Result<Routine> {
        if taken.number == 0 {
            return Ok(self.routine.clone());
        }
        if let Some(routine) = locked(&self.others).get(&taken.number) {
            return Ok(routine.clone());
        }
        let inputs = self.inputs.values().filter(|node| self.context().contains(node));
        let routine = self.compiled.link(&with_zeros(taken.context(&self.shared)?, inputs)?)?;
        locked(&self.others).insert(taken.number, routine.clone());
        Ok(routine)
    }

    /// The symbols that the graph has.
    fn known_symbols<'s>(&self, symbols: &[(&'s str, i64)]) -> Vec<(&'s str, i64)> {
        let is_known = |name: &str| self.routine.bindings().iter().any(|symbol| symbol.name == name);
        symbols.iter().copied().filter(|(name, _)| is_known(name)).collect()
    }

    /// The compiler's warnings about legal graphs that are often mistakes, such as a gradient by a parameter
    /// that the loss does not depend on.
    pub fn warnings(&self) -> &[Warning] {
        self.compiled.warnings()
    }

    /// The compiled code: its warnings, and where its nodes live.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The routine as it is linked for calls that do not overlap with others.
    pub fn routine(&self) -> &Routine {
        &self.routine
    }

    /// The context of [`routine`](Executable::routine), with the weights, the inputs and the results. Calls
    /// of other threads may run in it at any time, so results are better read from [`StartedRun`].
    pub fn context(&self) -> &Context {
        self.routine.context()
    }

    /// The inputs that the routine reads, after a check of all. They are copied.
    fn copied(&self, inputs: &[(&str, &HostArray)]) -> Result<CopiedInputs<'_>> {
        self.check_inputs(inputs.iter().copied())?;
        let read = inputs.iter().filter_map(|(name, values)| Some((self.device_input(name)?, values)));
        read.map(|(node, values)| {
            let values =
                if node.run_sizes().is_empty() { values.try_clone()? } else { widened(node, values)? };
            Ok((node, Arc::new(values)))
        })
        .collect()
    }

    /// The inputs that the routine reads, after a check of all.
    fn checked(&self, inputs: &[(&str, Arc<HostArray>)]) -> Result<CopiedInputs<'_>> {
        self.check_inputs(inputs.iter().map(|(name, values)| (*name, &**values)))?;
        let read = inputs.iter().filter_map(|(name, values)| Some((self.device_input(name)?, values)));
        let is_leading = |node: &TensorNode, values: &HostArray| -> Result<bool> {
            Ok(node.run_sizes().is_empty() || leading(node, values.dims())? == *values.dims())
        };
        read.map(|(node, values)| match is_leading(node, values)? {
            true => Ok((node, values.clone())),
            false => Ok((node, Arc::new(widened(node, values)?))),
        })
        .collect()
    }

    fn sizes_in(&self, inputs: &BatchValues) -> Result<SizeValues> {
        self.sizes_of(inputs.arrays().iter().map(|(name, values)| (name.as_str(), &**values)))
    }

    fn shared_batch(&self, inputs: &BatchValues) -> Result<CopiedInputs<'_>> {
        let inputs = inputs.arrays().iter().map(|(name, values)| (name.as_str(), values.clone()));
        self.checked(&inputs.collect::<Vec<_>>())
    }

    /// Checks the inputs of a batch, as a run does.
    pub(crate) fn check_batch(&self, inputs: &BatchValues) -> Result<()> {
        self.check_inputs(inputs.arrays().iter().map(|(name, values)| (name.as_str(), &**values)))
    }

    /// The node of an input, if the routine reads it.
    fn device_input(&self, name: &str) -> Option<&TensorNode> {
        self.inputs.get(name).filter(|node| self.context().contains(node))
    }

    fn check_inputs<'a>(&self, inputs: impl Iterator<Item = (&'a str, &'a HostArray)> + Clone) -> Result<()> {
        let fail = |name: &str, problem| {
            Err(TensorError::Input {
                name: name.into(),
                problem,
                inputs: self.inputs.keys().cloned().collect(),
            })
        };
        for (name, values) in inputs.clone() {
            let Some(node) = self.inputs.get(name) else { return fail(name, "is unknown") };
            let found = (values.dtype(), values.dims().to_vec());
            let expected = (node.dtype(), node.dims()?.to_vec());
            let fits = |(axis, (found, expected)): (usize, (&usize, &usize))| {
                found == expected || node.run_size(axis).is_some()
            };
            let is_same = found.0 == expected.0 && found.1.len() == expected.1.len();
            if !is_same || !found.1.iter().zip(&expected.1).enumerate().all(fits) {
                return Err(TensorError::Values { name: name.into(), found, expected });
            }
            check_range(name, node, &found.1)?;
            let mut checks = self.positions.iter().filter(|check| check.input() == name);
            checks.try_for_each(|check| check.check(values))?;
        }
        self.sizes_of(inputs.clone())?;
        match self.inputs.keys().find(|name| inputs.clone().all(|(given, _)| given != name.as_str())) {
            Some(name) => fail(name, "has no values"),
            None => Ok(()),
        }
    }

    /// The sizes that the inputs give.
    fn sizes_of<'a>(&self, inputs: impl Iterator<Item = (&'a str, &'a HostArray)>) -> Result<SizeValues> {
        let mut sizes = SizeValues::default();
        for (name, values) in inputs {
            let Some(node) = self.inputs.get(name) else { continue };
            sizes.enter(node, values.dims(), &format!("input {name}"))?;
        }
        sizes.check(self.inputs.values().chain(&self.results))?;
        Ok(sizes)
    }

    /// The bindings of the symbols, in the order of the routine.
    fn bindings(&self, symbols: &[(&str, i64)], sizes: &SizeValues) -> Result<Vec<i64>> {
        let all: &[Symbol] = self.routine.bindings();
        let unknown = symbols.iter().find(|(name, _)| all.iter().all(|symbol| symbol.name != *name));
        if let Some((name, _)) = unknown {
            return Err(TensorError::Symbol { name: (*name).into(), problem: "is none of this graph" });
        }
        let value = |symbol: &Symbol| {
            let given = symbols.iter().find(|(name, _)| symbol.name == *name).map(|(_, value)| *value);
            let size = || sizes.given(&symbol.name).and_then(|value| i64::try_from(value).ok());
            given
                .or_else(size)
                .ok_or_else(|| TensorError::Symbol { name: symbol.name.to_string(), problem: "has no value" })
        };
        all.iter().map(value).collect()
    }
}

fn copy_in(routine: &Routine, inputs: CopiedInputs<'_>) -> Result<()> {
    for (node, values) in inputs {
        let context = routine.context();
        let _ = match node.run_sizes().is_empty() {
            true => context.from_host(node, values)?,
            false => context.from_host_first(node, &values)?,
        };
    }
    Ok(())
}

/// A run that was started, with results of its own: later runs do not change them. Any thread may wait for
/// it. A run takes place whether this value is kept or not.
pub struct StartedRun {
    event: Event,
    results: Vec<RunResult>,
}

/// A result that is copied to the host, and read when it is asked for.
struct RunResult {
    name: String,
    pending: Mutex<Option<PendingArray>>,
    /// The dimensions of the part that has values, if a size of the run limits it.
    dims: Option<Dims>,
    array: OnceLock<HostArray>,
}

impl StartedRun {
    /// The event after the run, before the copies of its results.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The result at position `at` of those given to [`Graph::compile`]. Waits for it.
    ///
    /// # Errors
    /// A position beyond the results, or an error of the run.
    pub fn result(&self, at: usize) -> Result<&HostArray> {
        self.results.get(at).ok_or_else(|| self.no_result(at))?.read()
    }

    /// All results, in the order given to [`Graph::compile`]. Waits for them.
    ///
    /// # Errors
    /// An error of the run.
    pub fn results(self) -> Result<Vec<HostArray>> {
        self.results.iter().try_for_each(|result| result.read().map(drop))?;
        Ok(self.results.into_iter().filter_map(|result| result.array.into_inner()).collect())
    }

    fn no_result(&self, at: usize) -> TensorError {
        let inputs = self.results.iter().map(|result| result.name.clone()).collect();
        TensorError::Input { name: at.to_string(), problem: "is no position of a result", inputs }
    }
}

impl RunResult {
    fn read(&self) -> Result<&HostArray> {
        let mut pending = locked(&self.pending);
        if let Some(copy) = &*pending {
            copy.sync()?;
        }
        if let Some(copy) = pending.take() {
            let array = copy.into_array()?;
            let array = match &self.dims {
                Some(dims) if array.dims() != dims => array.resized(dims.iter().copied())?,
                _ => array,
            };
            return Ok(self.array.get_or_init(|| array));
        }
        let lost = || TensorError::Input { name: self.name.clone(), problem: "was lost", inputs: Vec::new() };
        self.array.get().ok_or_else(lost)
    }
}
