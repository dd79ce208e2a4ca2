//! A case, linked on one of our backends.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use arrayjit::{Backend, Context, HostArray, Routine, TensorNode, profile::Profile};

use crate::{
    case::{Case, Name},
    peers::Contestant,
};

/// A case whose inputs are on the device.
pub(crate) struct LoadedCase<'b, 'a> {
    backend: &'b Backend,
    case: &'a Case,
    nodes: Vec<TensorNode>,
    context: Context,
}

/// A linked case.
pub(crate) struct LinkedCase<'a> {
    case: &'a Case,
    routine: Routine,
    outputs: Vec<TensorNode>,
    /// The time from the text to the end of linking, with inputs already on the device.
    compiling: Duration,
}

impl<'b, 'a> LoadedCase<'b, 'a> {
    /// Uploads inputs.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub(crate) fn new(
        backend: &'b Backend,
        case: &'a Case,
        inputs: &[Option<HostArray>],
    ) -> Result<LoadedCase<'b, 'a>> {
        let nodes: Vec<TensorNode> = case.nodes.iter().map(|node| node.build()).collect::<Result<_>>()?;
        let mut context = backend.context()?;
        for (node, array) in nodes.iter().zip(inputs) {
            if let Some(array) = array {
                context = context.init_from_host(node, array)?;
            }
        }
        // Copies are only scheduled so far, and would count as part of the first run.
        context.stream().sync()?;
        Ok(LoadedCase { backend, case, nodes, context })
    }

    /// Compiles and links.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub(crate) fn link(self) -> Result<LinkedCase<'a>> {
        let LoadedCase { backend, case, nodes, context } = self;
        let output = |name: &Name| {
            let named = case.nodes.iter().zip(&nodes).find(|(node, _)| node.name == *name);
            named
                .map(|(_, built)| built.clone())
                .with_context(|| format!("case `{}` has no node `{name}`", case.name))
        };
        let outputs = case.outputs.iter().map(output).collect::<Result<_>>()?;
        let start = Instant::now();
        let routine = backend.compile(&case.text, &nodes)?.link(&context)?;
        Ok(LinkedCase { case, routine, outputs, compiling: start.elapsed() })
    }
}

impl<'a> LinkedCase<'a> {
    /// Uploads inputs, compiles and links.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub(crate) fn prepare(
        backend: &Backend,
        case: &'a Case,
        inputs: &[Option<HostArray>],
    ) -> Result<LinkedCase<'a>> {
        LoadedCase::new(backend, case, inputs)?.link()
    }

    /// Runs to the end and returns the time of compilation and run together.
    ///
    /// # Errors
    ///
    /// The error of the routine.
    pub(crate) fn run_once(&self) -> Result<Duration> {
        Ok(self.compiling + self.run_again()?)
    }

    /// Runs again to the end and returns the time of the run.
    ///
    /// # Errors
    ///
    /// The error of the routine.
    pub(crate) fn run_again(&self) -> Result<Duration> {
        let start = Instant::now();
        self.routine.run(&self.case.bindings)?.sync()?;
        Ok(start.elapsed())
    }

    /// The context of the routine.
    pub(crate) fn context(&self) -> &Context {
        self.routine.context()
    }

    /// The profile of the runs so far; `None` unless the backend profiles.
    pub(crate) fn profile(&self) -> Option<Profile> {
        self.routine.profile()
    }

    /// The values of the output nodes.
    ///
    /// # Errors
    ///
    /// The error of a transfer.
    pub(crate) fn outputs(&self) -> Result<Vec<HostArray>> {
        let context = self.routine.context();
        self.outputs.iter().map(|node| Ok(context.to_host(node)?)).collect()
    }
}

impl Contestant for LinkedCase<'_> {
    fn run(&mut self, count: usize) -> Result<f64> {
        let bindings = &self.case.bindings;
        self.routine.run(bindings)?.sync()?;
        let start = Instant::now();
        for _ in 1..count {
            self.routine.run(bindings)?;
        }
        self.routine.run(bindings)?.sync()?;
        Ok(start.elapsed().as_secs_f64())
    }
}
