//! Graphs: the statements that operations on tensors add.

mod custom_vjp; // functions with gradients of their own
mod derivatives; // gradients, products with Jacobians and Hessians
mod scans; // bodies of scans
mod unused; // steps whose values nothing reads
mod vmap; // functions over batches

use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

use arrayjit::{Assignments, DType, HostArray, Nodes, Program, TensorNode, assign::builder};

use self::scans::Scans;
use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand},
    parameter::{Parameter, locked},
    positions::{InputParts, PositionCheck},
    shape::dims,
    size::Size,
    tensor::Tensor,
};

/// The statements that operations on tensors add, in order: one step of a model, for one set of shapes.
/// Cloning is cheap, and a clone is the same graph.
///
/// A graph begins with [inputs](Graph::input) and parameters. [`Graph::compile`](crate::Graph::compile) makes
/// it a routine. Several threads may add to one graph, in any order.
///
/// ```
/// use arrayjit_tensor::{DType, Graph};
///
/// let graph = Graph::new();
/// let x = graph.input("x", [8, 3], DType::F32)?;
/// let y = (&x * 2.0)?.sum(-1)?;
/// assert_eq!(y.shape(), [8]);
/// # Ok::<(), arrayjit_tensor::TensorError>(())
/// ```
#[derive(Clone, Default)]
pub struct Graph(Arc<Mutex<GraphState>>);

#[derive(Default)]
struct GraphState {
    program: Assignments,
    inputs: Vec<(String, TensorNode)>,
    sizes: Vec<Size>,
    /// Nodes whose values never change.
    constants: Vec<(TensorNode, Arc<HostArray>)>,
    parameters: Vec<Parameter>,
    /// The paths of the modules that are being evaluated, innermost last.
    modules: Vec<String>,
    /// How many results have each name.
    names: BTreeMap<String, usize>,
    results: Vec<ResultRecord>,
    parts: InputParts,
    scans: Scans,
    is_training: bool,
    rank: u32,
}

/// A result of an operation, for messages about its values.
#[derive(Clone)]
pub(crate) struct ResultRecord {
    /// The path of the module that was evaluated.
    pub(crate) module: String,
    pub(crate) call: Call,
    pub(crate) node: TensorNode,
    /// The tensors and parameters that the operation was given.
    pub(crate) operands: Vec<TensorNode>,
}

/// The evaluation of a module, which ends when this value is dropped. See [`Graph::enter`].
#[must_use = "the evaluation of the module ends when this value is dropped"]
pub struct ModuleScope(Graph);

impl Drop for ModuleScope {
    fn drop(&mut self) {
        self.0.state().modules.pop();
    }
}

impl Graph {
    /// A graph without statements.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A graph for a training step: dropout drops elements, and batch normalization uses the statistics of
    /// the batch. In a graph of [`Graph::new`], both do as in evaluation.
    pub fn for_training() -> Graph {
        let graph = Graph::new();
        graph.state().is_training = true;
        graph
    }

    /// A graph for a training step of a rank: its random numbers differ from those of other ranks.
    pub(crate) fn for_training_on(rank: usize) -> Graph {
        let graph = Graph::for_training();
        graph.state().rank = rank as u32;
        graph
    }

    /// A seed of random numbers on the rank of this graph; rank 0 has the seed that is given.
    pub(crate) fn seed_on_rank(&self, seed: u32) -> u32 {
        const GOLDEN_RATIO: u32 = 0x9e37_79b9; // spreads the ranks over all seeds
        seed.wrapping_add(self.state().rank.wrapping_mul(GOLDEN_RATIO))
    }

    /// Whether the graph is one for a training step.
    pub fn is_training(&self) -> bool {
        self.state().is_training
    }

    /// Adds an input, whose values each run is given.
    ///
    /// # Errors
    /// An input of that name exists already, or a size overflows.
    #[track_caller]
    pub fn input(&self, name: &str, shape: impl IntoIterator<Item = usize>, dtype: DType) -> Result<Tensor> {
        let call = Call::new("input");
        let node = TensorNode::builder(name).dims(shape).dtype(dtype).build();
        self.add_input(call, name, node)
    }

    /// Adds an input with a new node.
    pub(crate) fn add_input(
        &self,
        call: Call,
        name: &str,
        node: Result<TensorNode, arrayjit::TensorNodeError>,
    ) -> Result<Tensor> {
        if self.state().inputs.iter().any(|(other, _)| other == name) {
            return Err(self.fail(call, TensorError::Name { what: "input", name: name.into() }));
        }
        let made = node.and_then(|node| Ok((node.clone(), Tensor::new(self.clone(), node)?)));
        let (node, tensor) = made.map_err(|error| self.fail(call, error))?;
        let mut state = self.state();
        state.parts.add_input(name, &node, tensor.shape());
        state.inputs.push((name.to_owned(), node));
        drop(state);
        Ok(tensor)
    }

    /// Enters a size; the known one of that name, if there is one.
    pub(crate) fn enter_size(&self, size: &Size) -> Option<Size> {
        let mut state = self.state();
        let known = state.sizes.iter().find(|known| known.name() == size.name()).cloned();
        if known.is_none() {
            state.sizes.push(size.clone());
        }
        known
    }

    /// Whether each run checks integers that are positions and come from an input, such as labels and rows of
    /// an embedding, and fails at one outside of its axis. On by default; it takes about a nanosecond for
    /// each position. Without the check, a position outside chooses nothing: the result has 0 there.
    pub fn check_positions(&self, checks: bool) {
        self.state().parts.is_off = !checks;
    }

    /// The most bytes in which [`Graph::gradients`] stores values of the steps of one loop, be it one of
    /// [`Graph::scan`] or of a recurrent layer; 0 for no limit, which is the default. A loop that needs more
    /// gets the checkpoints that need least, as with [`Scan::checkpoint`](crate::Scan::checkpoint). The graph
    /// of a [`Session`](crate::Session) starts with the setting `scan_gradient_bytes` of its backend.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let graph = Graph::new();
    /// graph.limit_scan_gradients(1 << 20);
    /// let x = graph.input("x", [400, 64, 64], DType::F32)?;
    /// let start = graph.zeros(&[64, 64], DType::F32)?;
    /// let ([last], []) =
    ///     graph.scan(400).run([&start], |step, [h]| Ok(([(h + step.slice(&x, 0)?)?.tanh()?], [])))?;
    /// let gradients = graph.gradients(&last.sum(..)?, &[&x])?; // 20 checkpoints, 20 steps apart
    /// assert_eq!(gradients[0].shape(), [400, 64, 64]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    pub fn limit_scan_gradients(&self, bytes: u64) {
        self.state().program.scan_gradient_bytes = Some(bytes).filter(|&bytes| bytes > 0);
    }

    /// Whether [`Graph::gradients`] round where the graph rounds to f16 or bf16; off by default. The gradient
    /// by a value that an operation rounded is then rounded to the same type, once, from a sum in f32: it
    /// takes half the memory, and on a GPU with tensor cores, products with it run on them. Gradients by
    /// inputs and parameters stay in f32. In f16, gradients below 6e-8 become 0, so scale the loss
    /// ([`LossScale`](crate::optim::LossScale)). The graph of a [`Session`](crate::Session) starts with the
    /// setting `narrow_gradients` of its backend.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, Init, Params};
    ///
    /// let params = Params::new(1).with_dtype(DType::Bf16);
    /// let w = params.parameter("w", [16, 16], Init::ONES)?;
    /// let graph = Graph::for_training();
    /// graph.narrow_gradients(true);
    /// let x = graph.input("x", [8, 16], DType::Bf16)?;
    /// let h = x.matmul(&w)?; // in bf16, and so is the gradient by it
    /// let loss = h.to_dtype(DType::F32)?.square()?.mean(..)?;
    /// assert_eq!(graph.gradients(&loss, &[&w])?[0].dtype(), DType::F32);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    pub fn narrow_gradients(&self, narrow: bool) {
        self.state().program.narrow_gradients = narrow;
    }

    /// Adds assignment text, which computes anything that the language can say. The text mentions the given
    /// tensors, parameters and numbers by the names next to them. Integers are sizes, which ranges, indices
    /// and values may have. Returns the node that the text writes last.
    ///
    /// The text may write parameters and buffers. It may call the functions of the prelude and define its
    /// own.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let graph = Graph::new();
    /// let x = graph.input("x", [8, 100], DType::F32)?;
    /// let moving_mean = graph.apply("y[b,i] :+= x[b, i + k] / n where k < n", &[("x", &x), ("n", &5)])?;
    /// assert_eq!(moving_mean.shape(), [8, 96]);
    ///
    /// let error = graph.apply("repeat l in 0..2 { z[l][b] := 0 * b }", &[]).unwrap_err().to_string();
    /// assert!(error.contains("without a statement outside of functions and repetitions"), "{error}");
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// An error of the text, with its line; a tensor that the text writes, or one of another graph.
    #[track_caller]
    pub fn apply(&self, text: &str, inputs: &[(&str, &dyn TensorOperand)]) -> Result<Tensor> {
        let call = Call::new("apply");
        let program = self.user_program(call, text)?;
        let result = program.last_written().ok_or_else(|| self.fail(call, nothing_written()))?.to_owned();
        let tensors = self.emit_program(call, program, &arguments(inputs), &[&result])?;
        tensors.into_iter().next().ok_or_else(|| self.fail(call, no_result()))
    }

    /// [`apply`](Graph::apply) with several results, by their names in the text.
    ///
    /// # Errors
    /// Fails like [`apply`](Graph::apply), or if the text does not write one of `results`.
    #[track_caller]
    pub fn apply_all<const N: usize>(
        &self,
        text: &str,
        inputs: &[(&str, &dyn TensorOperand)],
        results: [&str; N],
    ) -> Result<[Tensor; N]> {
        let call = Call::new("apply");
        let program = self.user_program(call, text)?;
        let tensors = self.emit_program(call, program, &arguments(inputs), &results)?;
        <[Tensor; N]>::try_from(tensors).map_err(|_| self.fail(call, no_result()))
    }

    /// A text of the user. The labels of the nodes that it makes have the path of the module.
    fn user_program(&self, call: Call, text: &str) -> Result<Program> {
        let program = Program::parse(text).map_err(|error| self.fail(call, error))?;
        Ok(program.within(&self.module()))
    }

    /// Begins the evaluation of the module with this path: names of results and messages have the path until
    /// the returned value is dropped.
    pub fn enter(&self, module: &str) -> ModuleScope {
        self.state().modules.push(module.to_owned());
        ModuleScope(self.clone())
    }

    /// The path of the module that is being evaluated; empty outside of modules.
    pub fn module(&self) -> String {
        self.state().modules.last().cloned().unwrap_or_default()
    }

    /// A parameter as a tensor of this graph.
    ///
    /// # Errors
    /// None for a parameter whose size does not overflow, as that of every parameter.
    #[doc(hidden)]
    #[track_caller]
    pub fn tensor_of(&self, parameter: &Parameter) -> Result<Tensor> {
        self.state().mention(parameter);
        Tensor::new(self.clone(), parameter.node().clone())
            .map_err(|error| self.fail(Call::new("parameter"), error))
    }

    /// The inputs by name, in the order in which they were added.
    pub fn inputs(&self) -> Vec<(String, TensorNode)> {
        self.state().inputs.clone()
    }

    /// The parameters and buffers that the statements mention, in order of mention.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.state().parameters.clone()
    }

    /// A copy of the statements that operations have added so far.
    pub fn program(&self) -> Assignments {
        self.state().program.clone()
    }

    /// Notes that an operation uses the integers of a tensor as positions on an axis of `count` elements;
    /// `ignored` is none.
    pub(crate) fn expect_positions(&self, call: Call, at: &Tensor, count: usize, ignored: Option<i64>) {
        self.state().parts.add_check(call, at.node(), count, ignored);
    }

    /// Notes that a tensor is a slice of another one: every `step`-th element of `range` on an axis.
    pub(crate) fn note_slice(&self, of: &Tensor, slice: &Tensor, axis: usize, part: (&Range<usize>, usize)) {
        self.state().parts.add_slice(of.node(), slice.node(), axis, part);
    }

    /// The [constants](Graph::constant) with their values, which the nodes have before
    /// [`program`](Graph::program) runs.
    pub fn constants(&self) -> Vec<(TensorNode, Arc<HostArray>)> {
        self.state().constants.clone()
    }

    /// Adds an array whose values never change.
    pub(crate) fn add_constant(&self, call: Call, values: Arc<HostArray>) -> Result<Tensor> {
        let label: Vec<String> = self.new_name(call.op).split('.').map(str::to_owned).collect();
        let dims = values.dims_without_padding();
        let node = TensorNode::builder(label).dims(dims).dtype(values.dtype()).build();
        let made = node.and_then(|node| Tensor::new(self.clone(), node));
        let tensor = made.map_err(|error| self.fail(call, error))?;
        self.state().constants.push((tensor.node().clone(), values));
        Ok(tensor)
    }

    /// The checks of positions that each run makes of its inputs.
    pub(crate) fn position_checks(&self) -> Vec<PositionCheck> {
        self.state().parts.checks()
    }

    /// The call of the operation that computes a tensor.
    pub(crate) fn call_of(&self, tensor: &Tensor) -> Option<Call> {
        let state = self.state();
        state.results.iter().find(|result| result.node == *tensor.node()).map(|result| result.call)
    }

    /// The results of all operations, in the order of the calls.
    pub(crate) fn results(&self) -> Vec<ResultRecord> {
        self.state().results.clone()
    }

    /// Adds statements and returns the nodes that `results` names. The text mentions `inputs` by their names.
    pub(crate) fn emit(
        &self,
        call: Call,
        text: &str,
        inputs: &[(&str, Argument<'_>)],
        results: &[&str],
    ) -> Result<Vec<Tensor>> {
        // The text is parsed alone, so that the columns of its errors are the caller's.
        let program = Program::parse(text).map_err(|error| self.fail(call, error))?;
        self.emit_program(call, program, inputs, results)
    }

    /// [`emit`](Graph::emit) of a text that is parsed already.
    fn emit_program(
        &self,
        call: Call,
        program: Program,
        inputs: &[(&str, Argument<'_>)],
        results: &[&str],
    ) -> Result<Vec<Tensor>> {
        let mut read = self.read_text(call, program, inputs, results)?;
        check_written(&read.assignments, inputs).map_err(|error| self.fail(call, error))?;
        self.state().scans.number(&mut read.assignments);
        self.add(call, read, inputs)
    }

    /// The statements of a text with these arguments.
    fn read_text(
        &self,
        call: Call,
        program: Program,
        inputs: &[(&str, Argument<'_>)],
        results: &[&str],
    ) -> Result<ReadText> {
        self.check_graph(call, inputs.iter().map(|(_, argument)| *argument))?;
        self.check_sizes(call, inputs)?;
        read(program.with_bounds_as_sizes(), inputs, results).map_err(|error| self.fail(call, error))
    }

    /// Adds the statements of a text, and returns its results.
    fn add(&self, call: Call, read: ReadText, inputs: &[(&str, Argument<'_>)]) -> Result<Vec<Tensor>> {
        let mut state = self.state();
        state.scans.check_thread().map_err(|error| fail_in(&state, call, error))?;
        for (_, argument) in inputs {
            if let Argument::Parameter(parameter) = argument {
                state.mention(parameter);
            }
        }
        state.program = std::mem::take(&mut state.program).then(read.assignments);
        state.record(call, inputs, &read.results);
        drop(state);
        let tensor = |node| Tensor::new(self.clone(), node).map_err(|error| self.fail(call, error));
        read.results.into_iter().map(tensor).collect()
    }

    /// Adds the statements that compute one result. `text` is given the name of the result, which has the
    /// path of the module and the name of the operation.
    pub(crate) fn result(
        &self,
        call: Call,
        inputs: &[(&str, Argument<'_>)],
        text: impl FnOnce(&str) -> String,
    ) -> Result<Tensor> {
        let name = self.new_name(call.op);
        let tensors = self.emit(call, &text(&name), inputs, &[&name])?;
        tensors.into_iter().next().ok_or_else(|| self.fail(call, no_result()))
    }

    /// A result without elements. Statements over ranges of letters cannot say it, because a range has at
    /// least one value.
    pub(crate) fn empty(&self, call: Call, shape: &[usize], dtype: DType) -> Result<Tensor> {
        self.result(call, &[], |y| format!("node {y} {dtype}[{}]\n{y} := offsets()", dims(shape)))
    }

    /// The error of a call within the module that is being evaluated.
    pub(crate) fn fail(&self, call: Call, problem: impl Into<TensorError>) -> TensorError {
        fail_in(&self.state(), call, problem)
    }

    fn check_graph<'a>(&self, call: Call, arguments: impl Iterator<Item = Argument<'a>>) -> Result<()> {
        let tensors = arguments.filter(|argument| argument.graph().is_some());
        for tensor in tensors {
            if tensor.graph() != Some(self) {
                return Err(self.fail(call, TensorError::OtherGraph { tensor: tensor.name() }));
            }
            if tensor.node().is_some_and(|node| self.state().scans.has_ended(node)) {
                return Err(self.fail(call, TensorError::EndedStep { tensor: tensor.name() }));
            }
        }
        Ok(())
    }

    /// A name for a result that texts can mention, such as `encoder.0.relu_1`.
    pub(crate) fn new_name(&self, op: &str) -> String {
        let mut state = self.state();
        let words = state.modules.last().filter(|path| !path.is_empty());
        let words = words.map_or_else(Vec::new, |path| path.split('.').map(word).collect());
        let mut name = words.into_iter().chain([op.to_owned()]).collect::<Vec<_>>().join(".");
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        let count = state.names.entry(name.clone()).or_default();
        *count += 1;
        format!("{name}_{count}")
    }

    fn state(&self) -> MutexGuard<'_, GraphState> {
        locked(&self.0)
    }
}

impl GraphState {
    fn mention(&mut self, parameter: &Parameter) {
        if !self.parameters.contains(parameter) {
            self.parameters.push(parameter.clone());
        }
    }

    fn record(&mut self, call: Call, inputs: &[(&str, Argument<'_>)], results: &[TensorNode]) {
        let operands: Vec<TensorNode> =
            inputs.iter().filter_map(|(_, argument)| argument.node().cloned()).collect();
        if let ([operand], [result]) = (&operands[..], results) {
            self.parts.add_result(call, operand, result);
        }
        let module = self.modules.last().cloned().unwrap_or_default();
        self.results.extend(results.iter().map(|node| {
            let (module, node, operands) = (module.clone(), node.clone(), operands.clone());
            ResultRecord { module, call, node, operands }
        }));
    }
}

impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The statements, in index notation.
impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.state().program, f)
    }
}

/// The statements of a text, and the nodes of its results.
struct ReadText {
    assignments: Assignments,
    results: Vec<TensorNode>,
}

fn read(mut program: Program, inputs: &[(&str, Argument<'_>)], results: &[&str]) -> Result<ReadText> {
    let mut numbers = Assignments::default();
    let mut nodes = Nodes::default();
    let is_wide = inputs.iter().any(|(_, argument)| argument.dtype() == Some(DType::F64));
    for (name, argument) in inputs {
        match argument {
            Argument::Integer(value) => program = program.define(name, *value),
            Argument::Float(value) => {
                let dtype = if is_wide { DType::F64 } else { DType::F32 };
                let node = TensorNode::builder(*name).dims([]).dtype(dtype).build()?;
                numbers = numbers.then(builder::constant(&node, *value));
                nodes.insert(*name, node);
            }
            _ => nodes.extend(argument.node().map(|node| ((*name).to_owned(), node.clone()))),
        }
    }
    let program = results
        .iter()
        .filter(|name| nodes.get(name).is_none())
        .fold(program, |program, name| program.keep(*name));
    let assignments = program.resolve(&nodes)?;
    if assignments.initial.is_some() {
        return Err(TensorError::Declared);
    }
    let find = |name: &&str| nodes.get(name).or_else(|| assignments.text_nodes.get(name)).cloned();
    let results = results.iter().filter_map(find).collect();
    let mut assignments = numbers.then(assignments);
    assignments.kept.clear();
    assignments.text_nodes = Nodes::default();
    Ok(ReadText { assignments, results })
}

/// Checks that the statements write no tensor: other operations may have read it before, and would be
/// evaluated with the new values after a change of order.
fn check_written(assignments: &Assignments, inputs: &[(&str, Argument<'_>)]) -> Result<()> {
    let written = assignments.written_nodes();
    let is_written = |argument: &Argument<'_>| match argument {
        Argument::Tensor(tensor) => written.contains(tensor.node()),
        _ => false,
    };
    match inputs.iter().find(|(_, argument)| is_written(argument)) {
        Some((name, _)) => Err(TensorError::Written { name: (*name).to_owned() }),
        None => Ok(()),
    }
}

fn arguments<'a>(inputs: &[(&'a str, &'a dyn TensorOperand)]) -> Vec<(&'a str, Argument<'a>)> {
    inputs.iter().map(|(name, operand)| (*name, operand.argument())).collect()
}

/// A part of a path as a word of a name.
fn word(part: &str) -> String {
    if part.is_empty() {
        return "_".into();
    }
    let is_plain = |c: char| c.is_alphanumeric() || c == '_';
    let word: String = part.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number && word.starts_with(|c: char| c.is_ascii_digit()) { format!("_{word}") } else { word }
}

fn fail_in(state: &GraphState, call: Call, problem: impl Into<TensorError>) -> TensorError {
    call.error(state.modules.last().cloned().unwrap_or_default(), problem)
}

fn nothing_written() -> TensorError {
    misfit(
        "the text",
        "without a statement outside of functions and repetitions",
        "one that writes the result; `apply_all` takes the names of results, or none",
    )
}

fn no_result() -> TensorError {
    misfit("the text", "a text that writes none of the results", "statements that write them")
}
