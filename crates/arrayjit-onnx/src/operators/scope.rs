//! What a walk over a model offers to the operators of its nodes.

use std::{collections::BTreeMap, sync::Arc};

use arrayjit_tensor::{Graph, Parameter, Tensor};
use tnode::HostArray;

use crate::{
    error::Result,
    host::HostValue,
    ir::{ModelGraph, ModelNode},
    plan::HostFunction,
    value::Value,
};

/// What a walk over a model offers to the operators of its nodes.
pub(crate) trait TraceScope {
    /// The graph that is being built.
    fn current(&self) -> &Graph;

    /// Whether results must have the bits of the operations that the file names.
    fn is_strict(&self) -> bool;

    /// Whether a scan that ends early spares the steps behind its end. GPUs compute all steps.
    fn spares_steps(&self) -> bool;

    /// The tensor of the current graph that has the value.
    fn tensor(&mut self, value: &Value) -> Result<Tensor>;

    /// The values of a value on the host. Cuts the trace if the current graph computes them.
    fn host(&mut self, value: &Value) -> Result<Arc<HostValue>>;

    /// The results of a function that the host computes at each run. If an operand is not known, or the
    /// function is random, the trace is cut, and what follows depends on the shapes of the results only.
    fn host_step(
        &mut self,
        node: &ModelNode,
        operands: &[Value],
        function: HostFunction,
        is_random: bool,
    ) -> Result<Vec<Value>>;

    /// The table of a node for a key on the device, made if it is new.
    fn table(
        &mut self,
        node: usize,
        key: String,
        make: Box<dyn FnOnce() -> Result<HostArray> + '_>,
    ) -> Result<Parameter>;

    /// Walks a graph whose inputs have these values, and returns its outputs.
    fn graph(&mut self, graph: &ModelGraph, inputs: BTreeMap<String, Value>) -> Result<Vec<Value>>;

    /// Keeps values that no graph has, until `unpin` is given the result.
    fn pin(&mut self, values: Vec<Value>) -> usize;

    /// Ends what `pin` began.
    fn unpin(&mut self, mark: usize);

    /// Takes steps of the budget.
    fn step(&mut self, steps: u64) -> Result<()>;

    /// The steps that the budget has left.
    fn steps_left(&self) -> u64;

    /// Takes memory for the current node, before it is allocated.
    fn reserve(&mut self, bytes: u64) -> Result<()>;
}
