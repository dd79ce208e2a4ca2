//! Compiled graphs.

use std::{collections::BTreeMap, sync::Arc};

use arrayjit::{Compiled, Context, Event, HostArray, Routine, Symbol, TensorNode, assign::Warning};

use crate::{
    graph::Graph, parameter::Parameter, positions::PositionCheck, run_error::ModelError, tensor::Tensor,
    weights::Weights,
};

/// A graph that is compiled and linked with the weights of a model: a routine from inputs to results, which
/// may also change parameters and buffers.
///
/// ```
/// use arrayjit_tensor::{Backend, DType, Graph, HostArray, Init, Params, Weights};
///
/// let params = Params::new(42);
/// let w = params.parameter("w", [2, 3], Init::ONES)?;
/// let weights = Weights::new(&Backend::open("inline")?, &params)?;
/// let graph = Graph::new();
/// let x = graph.input("x", [4, 2], DType::F32)?;
/// let y = x.matmul(&w)?;
/// let model = graph.compile(&weights, &[&y])?;
/// let results = model.run(&[("x", &HostArray::from_slice(&[1f32; 8], [4, 2])?)])?;
/// assert_eq!(results[0].values(), [2.; 12]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Executable {
    routine: Routine,
    compiled: Compiled,
    inputs: BTreeMap<String, TensorNode>,
    results: Vec<TensorNode>,
    positions: Vec<PositionCheck>,
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
    pub fn compile(&self, weights: &Weights, results: &[&Tensor]) -> Result<Executable, ModelError> {
        self.compile_named("model", weights, results)
    }

    /// [`compile`](Graph::compile) with a name for the routine: an identifier that dumps and profiles show.
    ///
    /// # Errors
    /// Fails like [`compile`](Graph::compile).
    pub fn compile_named(
        &self,
        name: &str,
        weights: &Weights,
        results: &[&Tensor],
    ) -> Result<Executable, ModelError> {
        let results: Vec<TensorNode> = results.iter().map(|tensor| tensor.node().clone()).collect();
        self.compile_with(name, weights, results, &[])
    }

    /// [`compile_named`](Graph::compile_named) with arrays that only this routine has; they start from zero.
    pub(crate) fn compile_with(
        &self,
        name: &str,
        weights: &Weights,
        results: Vec<TensorNode>,
        own: &[Parameter],
    ) -> Result<Executable, ModelError> {
        let mut context = with_zeros(weights.context()?, own.iter().map(Parameter::node))?;
        self.check_parameters(&context)?;
        let mut program = self.program();
        program.kept.extend(results.iter().cloned());
        let compiled = weights.backend().compile_assignments(&program.named(name))?;
        let inputs = self.inputs();
        let used = inputs.iter().map(|(_, node)| node);
        let used = used.filter(|node| compiled.nodes().contains(node) || results.contains(node));
        context = with_zeros(context, used)?;
        let executable = Executable::link(compiled, &context, inputs.into_iter().collect(), results)?;
        Ok(executable.checking(self.position_checks()))
    }

    /// Checks that a context has all parameters that the statements mention.
    pub(crate) fn check_parameters(&self, context: &Context) -> Result<(), ModelError> {
        match self.parameters().iter().find(|parameter| !context.contains(parameter.node())) {
            Some(other) => Err(ModelError::OtherModel { parameter: other.name().into() }),
            None => Ok(()),
        }
    }
}

/// The context with further nodes, which are zero.
pub(crate) fn with_zeros<'n>(
    mut context: Context,
    nodes: impl IntoIterator<Item = &'n TensorNode>,
) -> Result<Context, ModelError> {
    for node in nodes {
        let zeros = HostArray::zeros(node.dtype(), node.dims()?)?;
        context = context.init_from_host_owned(node, zeros)?;
    }
    Ok(context)
}

impl Executable {
    /// Links compiled code with a context that has the inputs which the code reads, and all parameters.
    pub(crate) fn link(
        compiled: Compiled,
        context: &Context,
        inputs: BTreeMap<String, TensorNode>,
        results: Vec<TensorNode>,
    ) -> Result<Executable, ModelError> {
        let routine = compiled.link(context)?;
        Ok(Executable { routine, compiled, inputs, results, positions: Vec::new() })
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
    pub fn run(&self, inputs: &[(&str, &HostArray)]) -> Result<Vec<HostArray>, ModelError> {
        self.run_with(inputs, &[])
    }

    /// [`run`](Executable::run) with values of the symbols of the graph: `step`, on which random numbers
    /// depend, and symbols of texts.
    ///
    /// # Errors
    /// Fails like [`run`](Executable::run), or if a symbol has no value or one outside its range.
    pub fn run_with(
        &self,
        inputs: &[(&str, &HostArray)],
        symbols: &[(&str, i64)],
    ) -> Result<Vec<HostArray>, ModelError> {
        self.start(inputs, symbols)?;
        self.results.iter().map(|node| Ok(self.context().to_host(node)?)).collect()
    }

    /// Starts a run and returns without waiting for it: the copies of the inputs and the run are tasks of the
    /// stream. The inputs may change after the call.
    ///
    /// # Errors
    /// Fails like [`run_with`](Executable::run_with), but for errors of the run, which the event has.
    pub fn start(&self, inputs: &[(&str, &HostArray)], symbols: &[(&str, i64)]) -> Result<Event, ModelError> {
        self.check_inputs(inputs.iter().copied())?;
        let bindings = self.bindings(symbols)?;
        for (name, values) in inputs {
            if let Some(node) = self.device_input(name) {
                let _ = self.context().from_host(node, values)?;
            }
        }
        Ok(self.routine.run(&bindings)?)
    }

    /// [`start`](Executable::start) without a copy of the inputs on the host. Symbols that the graph does not
    /// have are left out.
    pub(crate) fn start_shared(
        &self,
        inputs: &[(String, Arc<HostArray>)],
        symbols: &[(&str, i64)],
    ) -> Result<Event, ModelError> {
        self.check_inputs(inputs.iter().map(|(name, values)| (name.as_str(), &**values)))?;
        let mut symbols = symbols.to_vec();
        symbols.retain(|(name, _)| self.has_symbol(name));
        let bindings = self.bindings(&symbols)?;
        for (name, values) in inputs {
            if let Some(node) = self.device_input(name) {
                let _ = self.context().from_host_shared(node, values)?;
            }
        }
        Ok(self.routine.run(&bindings)?)
    }

    /// Whether the graph has a symbol of that name.
    fn has_symbol(&self, name: &str) -> bool {
        self.routine.bindings().iter().any(|symbol| symbol.name == name)
    }

    /// The node of an input, if the routine reads it.
    fn device_input(&self, name: &str) -> Option<&TensorNode> {
        self.inputs.get(name).filter(|node| self.context().contains(node))
    }

    /// The result of the last run at position `at` of those given to [`Graph::compile`]. Waits for the run.
    ///
    /// # Errors
    /// A position beyond the results, or an error of the run.
    pub fn result(&self, at: usize) -> Result<HostArray, ModelError> {
        let names = || self.results.iter().map(TensorNode::name).collect();
        let problem = "is no position of a result";
        let node = self.results.get(at).ok_or_else(|| ModelError::Input {
            name: at.to_string(),
            problem,
            inputs: names(),
        })?;
        Ok(self.context().to_host(node)?)
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

    /// The linked routine.
    pub fn routine(&self) -> &Routine {
        &self.routine
    }

    /// The context with the weights, the inputs and the results.
    pub fn context(&self) -> &Context {
        self.routine.context()
    }

    fn check_inputs<'a>(
        &self,
        inputs: impl Iterator<Item = (&'a str, &'a HostArray)> + Clone,
    ) -> Result<(), ModelError> {
        let fail = |name: &str, problem| {
            Err(ModelError::Input {
                name: name.into(),
                problem,
                inputs: self.inputs.keys().cloned().collect(),
            })
        };
        for (name, values) in inputs.clone() {
            let Some(node) = self.inputs.get(name) else { return fail(name, "is unknown") };
            let found = (values.dtype(), values.dims().to_vec());
            let expected = (node.dtype(), node.dims()?.to_vec());
            if found != expected {
                return Err(ModelError::Values { name: name.into(), found, expected });
            }
            let mut checks = self.positions.iter().filter(|check| check.input() == name);
            checks.try_for_each(|check| check.check(values))?;
        }
        match self.inputs.keys().find(|name| inputs.clone().all(|(given, _)| given != name.as_str())) {
            Some(name) => fail(name, "has no values"),
            None => Ok(()),
        }
    }

    /// The bindings of the symbols, in the order of the routine.
    fn bindings(&self, symbols: &[(&str, i64)]) -> Result<Vec<i64>, ModelError> {
        let all: &[Symbol] = self.routine.bindings();
        let unknown = symbols.iter().find(|(name, _)| all.iter().all(|symbol| symbol.name != *name));
        if let Some((name, _)) = unknown {
            return Err(ModelError::Symbol { name: (*name).into(), problem: "is none of this graph" });
        }
        let value = |symbol: &Symbol| {
            let given = symbols.iter().find(|(name, _)| symbol.name == *name).map(|(_, value)| *value);
            given.ok_or_else(|| ModelError::Symbol { name: symbol.name.to_string(), problem: "has no value" })
        };
        all.iter().map(value).collect()
    }
}
