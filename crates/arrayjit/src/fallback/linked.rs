//! Divided routines in a context: linking, runs, failures.
//!
//! Two chains of contexts are built in parallel, one on each backend, with a routine for each part. A run
//! blocks the caller's thread until the last part on the fallback is done, since its results pass through the
//! host; parts on the backend itself are scheduled like any routine. A failure poisons all outputs of the
//! routine, like the failure of a kernel: no reader sees values of an earlier run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use codegen_core::{Access, Code, Logging};
use device_runtime::{Context, Event, Failure, LinkOrder, LinkedRoutine, RunError, RunTimes};
use lowered_ir::ir::NodeRef;
use tnode::{HostArray, MemoryMode, Sharing, TensorNode};

use super::{
    code::{DividedCode, NodeUse, PartBackend, PartCode},
    runs::FallbackRuns,
};

/// A linked routine of several parts.
#[derive(Debug)]
pub(crate) struct LinkedParts {
    name: String,
    runs: Arc<FallbackRuns>,
    /// The context on the backend itself, with all nodes of the routine.
    context: Context,
    /// The context on the fallback, on a stream of its own.
    fallback_context: Context,
    parts: Vec<LinkedPart>,
    /// Nodes, constants included, that some part reads before any part writes them.
    reads: Vec<TensorNode>,
    inputs: Vec<TensorNode>,
    outputs: Vec<TensorNode>,
    /// The routine's dependencies, and whether it has run.
    order: LinkOrder,
    /// Whether the parts log. The order of parts is observable then.
    logs: bool,
}

#[derive(Debug)]
struct LinkedPart {
    place: PartBackend,
    routine: LinkedRoutine,
    copy_in: Vec<TensorNode>,
    copy_out: Vec<TensorNode>,
}

impl DividedCode {
    /// Links into a context of the backend. `nodes` are the handles by position; `logging` is the destination
    /// of the parts' logs.
    ///
    /// # Errors
    ///
    /// The errors of [`Context::link`]; the context is unchanged then.
    pub(crate) fn link(
        &self,
        context: &Context,
        nodes: &[TensorNode],
        logging: Option<&Logging>,
    ) -> Result<LinkedParts, RunError> {
        let nodes = self.handles(nodes)?;
        let mut linked = PartLinker {
            divided: self,
            nodes,
            context: context.clone(),
            fallback_context: self.fallback.context_on(self.fallback.device())?,
        };
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            parts.push(linked.part(part, &logging_to(logging, &part.code))?);
        }
        let PartLinker { nodes, context: with_parts, fallback_context, .. } = linked;
        let own = |node: &NodeRef| !self.shared.contains_key(node);
        let reads = sorted(&nodes, self.first_reads().into_iter().filter(own));
        let inputs = reads.iter().filter(|node| !node.mode().known_constant()).cloned().collect();
        let written = self.parts.iter().flat_map(|part| &part.roles).filter(|(_, role)| role.writes);
        let outputs = sorted(&nodes, written.map(|(&node, _)| node).filter(own));
        let uses = self.uses().into_iter().filter(|(node, _)| own(node));
        let uses = uses.filter_map(|(node, access)| Some((nodes.get(node.index())?, access)));
        let (context, order) = with_parts.as_one_routine(context, &self.name, uses);
        let (name, runs, logs) = (self.name.clone(), Arc::clone(&self.runs), logging.is_some());
        Ok(LinkedParts { name, runs, context, fallback_context, parts, reads, inputs, outputs, order, logs })
    }

    /// The handles, with new ones for the local nodes that several parts touch.
    fn handles(&self, nodes: &[TensorNode]) -> Result<Vec<TensorNode>, RunError> {
        let mut handles = nodes.to_vec();
        for (&node, decl) in &self.shared {
            let fresh = TensorNode::builder(decl.name.as_str())
                .dims(decl.dims.iter().copied())
                .dtype(decl.dtype)
                .mode(MemoryMode::OnDevice(Sharing::Unset));
            let fresh = fresh.build()?;
            match handles.get_mut(node.index()) {
                Some(handle) => *handle = fresh,
                // The node with the copy of the merge buffer is the last one.
                None => handles.push(fresh),
            }
        }
        Ok(handles)
    }

    /// The nodes whose earlier values the routine reads: for each of them, the first part that touches the
    /// node reads it before it writes it.
    fn first_reads(&self) -> BTreeSet<NodeRef> {
        let (mut met, mut reads) = (BTreeSet::new(), BTreeSet::new());
        for (&node, role) in self.parts.iter().flat_map(|part| &part.roles) {
            if met.insert(node) && role.reads_first {
                reads.insert(node);
            }
        }
        reads
    }

    /// The access of all parts together to each node.
    fn uses(&self) -> BTreeMap<NodeRef, Access> {
        let mut uses = BTreeMap::new();
        for (&node, &role) in self.parts.iter().flat_map(|part| &part.roles) {
            let access = whole_use(uses.get(&node).copied(), role);
            uses.insert(node, access);
        }
        uses
    }
}

/// Combines the access of the earlier parts to a node with the access of another part.
fn whole_use(before: Option<Access>, role: NodeUse) -> Access {
    match before {
        None if role.writes && role.overwrites => Access::Write,
        None | Some(Access::Read) if !role.writes => Access::Read,
        Some(Access::Write) => Access::Write,
        _ => Access::ReadWrite,
    }
}

/// The code with its log directed to `logging`, or unchanged if there is none.
pub(crate) fn logging_to(logging: Option<&Logging>, code: &Arc<Code>) -> Arc<Code> {
    let Some(logging) = logging else { return Arc::clone(code) };
    Arc::new((**code).clone().logging_to(logging.clone()))
}

/// The handles of nodes, sorted and without duplicates.
fn sorted(handles: &[TensorNode], nodes: impl IntoIterator<Item = NodeRef>) -> Vec<TensorNode> {
    let nodes: BTreeSet<TensorNode> =
        nodes.into_iter().filter_map(|node| handles.get(node.index()).cloned()).collect();
    nodes.into_iter().collect()
}

/// The contexts on both backends while parts are being linked.
struct PartLinker<'c> {
    divided: &'c DividedCode,
    nodes: Vec<TensorNode>,
    context: Context,
    fallback_context: Context,
}

impl PartLinker<'_> {
    fn part(&mut self, part: &PartCode, code: &Arc<Code>) -> Result<LinkedPart, RunError> {
        let routine = match part.place {
            PartBackend::Own => self.context.link(code, &self.nodes)?,
            PartBackend::Fallback => {
                for (&node, role) in &part.roles {
                    self.allocate(part, node, *role)?;
                }
                self.fallback_context.link(code, &self.nodes)?
            }
        };
        match part.place {
            PartBackend::Own => self.context = routine.context().clone(),
            PartBackend::Fallback => self.fallback_context = routine.context().clone(),
        }
        let [copy_in, copy_out] =
            [&part.copy_in, &part.copy_out].map(|nodes| sorted(&self.nodes, nodes.iter().copied()));
        Ok(LinkedPart { place: part.place, routine, copy_in, copy_out })
    }

    /// Prepares a node that a part on the fallback touches: each of the two contexts that lacks the node gets
    /// it, filled with zeros. A node whose earlier values the part reads must already be in the context,
    /// unless another part writes it first.
    fn allocate(&mut self, part: &PartCode, node: NodeRef, role: NodeUse) -> Result<(), RunError> {
        let Some(handle) = self.nodes.get(node.index()) else { return Ok(()) };
        let copied = part.copy_in.contains(&node) || part.copy_out.contains(&node);
        if copied && !self.context.contains(handle) {
            if role.reads_first && !self.divided.shared.contains_key(&node) {
                let (routine, stream) = (self.divided.name.clone(), self.context.stream().name());
                return Err(RunError::ContextLacksNode { routine, stream, node: handle.name() });
            }
            self.context = with_zeros(&self.context, handle)?;
        }
        if !self.fallback_context.contains(handle) {
            self.fallback_context = with_zeros(&self.fallback_context, handle)?;
        }
        Ok(())
    }
}

fn with_zeros(context: &Context, node: &TensorNode) -> Result<Context, RunError> {
    let zeros = HostArray::zeros(node.dtype(), node.dims()?)?;
    context.init_from_host(node, zeros)
}

impl LinkedParts {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The non-constant nodes whose earlier values a run reads.
    pub(crate) fn inputs(&self) -> &[TensorNode] {
        &self.inputs
    }

    /// The nodes that a run writes.
    pub(crate) fn outputs(&self) -> &[TensorNode] {
        &self.outputs
    }

    /// The node that a run reads from the merge buffer, if any.
    pub(crate) fn merge_buffer_input(&self) -> Option<&TensorNode> {
        self.parts.iter().find_map(|part| part.routine.merge_buffer_input())
    }

    /// The nodes, constants included, whose earlier values a run reads.
    pub(crate) fn reads(&self) -> &[TensorNode] {
        &self.reads
    }

    /// The values that a run would read from the merge buffer; `None` if it reads none.
    pub(crate) fn merge_buffer_values(&self) -> Result<Option<HostArray>, RunError> {
        let merging = self.parts.iter().find(|part| part.routine.merge_buffer_input().is_some());
        merging.map_or(Ok(None), |part| part.routine.merge_buffer_values())
    }

    /// Any part, for facts that are the same for all parts: the symbols and the check of their bindings.
    pub(crate) fn any_part(&self) -> Option<&LinkedRoutine> {
        self.parts.first().map(|part| &part.routine)
    }

    /// The routine's dependencies, and whether it has run.
    pub(crate) fn order(&self) -> &LinkOrder {
        &self.order
    }

    /// Checks the number and the ranges of bindings, as [`LinkedParts::run`] does.
    pub(crate) fn check_bindings(&self, bindings: &[i64]) -> Result<(), RunError> {
        self.any_part().map_or(Ok(()), |part| part.check_bindings(bindings))
    }

    /// Runs the parts in order; on return the parts on the fallback are done.
    ///
    /// # Errors
    ///
    /// The errors of [`LinkedRoutine::run`]; also the failure of a part on the fallback, or of a node that it
    /// reads. The outputs are poisoned then.
    pub(crate) fn run(&self, bindings: &[i64]) -> Result<Event, RunError> {
        self.run_with(bindings, None)
    }

    /// [`LinkedParts::run`] with the times of the kernel calls of each part.
    ///
    /// # Errors
    ///
    /// Fails like [`LinkedParts::run`].
    pub(crate) fn run_timed(&self, bindings: &[i64]) -> Result<(Event, Vec<Arc<RunTimes>>), RunError> {
        let mut times = Vec::with_capacity(self.parts.len());
        Ok((self.run_with(bindings, Some(&mut times))?, times))
    }

    fn run_with(&self, bindings: &[i64], times: Option<&mut Vec<Arc<RunTimes>>>) -> Result<Event, RunError> {
        self.check_bindings(bindings)?;
        let _turn = self.runs.begin_run();
        for node in &self.reads {
            if let Some(failure) = self.context.failure(node) {
                return Err(RunError::Poisoned { node: node.name(), failure });
            }
        }
        let mut begun = false;
        let event = self.run_parts(bindings, times, &mut begun).inspect_err(|error| {
            if begun {
                self.fail(error);
            }
        })?;
        self.order.set_ran();
        Ok(event)
    }

    /// Runs the parts; sets `begun` once a part may have run.
    fn run_parts(
        &self,
        bindings: &[i64],
        mut times: Option<&mut Vec<Arc<RunTimes>>>,
        begun: &mut bool,
    ) -> Result<Event, RunError> {
        let mut last = None;
        for part in &self.parts {
            let run = || part.run(bindings, times.as_deref_mut());
            last = match part.place {
                PartBackend::Own => Some(self.run_own(part, run, begun)?),
                PartBackend::Fallback => {
                    self.run_on_fallback(part, run, begun)?;
                    None
                }
            };
        }
        last.map_or_else(|| self.context.stream().all_work(), Ok)
    }

    fn run_own(
        &self,
        part: &LinkedPart,
        run: impl FnOnce() -> Result<Event, RunError>,
        begun: &mut bool,
    ) -> Result<Event, RunError> {
        let run = run();
        // A run that was submitted in part has poisoned its outputs.
        let is_lost = |node: &TensorNode| self.context.failure(node).is_some();
        *begun |= run.is_ok() || part.routine.outputs().iter().any(is_lost);
        let event = run?;
        if self.logs {
            event.sync()?;
        }
        Ok(event)
    }

    fn run_on_fallback(
        &self,
        part: &LinkedPart,
        run: impl FnOnce() -> Result<Event, RunError>,
        begun: &mut bool,
    ) -> Result<(), RunError> {
        for node in &part.copy_in {
            copy(node, &self.context, &self.fallback_context)?;
        }
        let event = run()?;
        *begun = true;
        event.sync()?;
        part.copy_out.iter().try_for_each(|node| copy(node, &self.fallback_context, &self.context))
    }

    /// Poisons the outputs, and resets the fallback's stream for the next run.
    fn fail(&self, error: &RunError) {
        let failed = || Failure::new(self.context.stream().name(), self.name.as_str(), error.to_string());
        let failure = error.failure().cloned().unwrap_or_else(failed);
        for node in &self.outputs {
            // All outputs are in the context since linking, so this cannot fail.
            let _ = self.context.poison(node, &failure);
        }
        // If this fails, the next run reports it.
        let _ = self.fallback_context.stream().reset();
    }
}

impl LinkedPart {
    /// Runs the part; adds the times of its kernel calls to `times`.
    fn run(&self, bindings: &[i64], times: Option<&mut Vec<Arc<RunTimes>>>) -> Result<Event, RunError> {
        let Some(times) = times else { return self.routine.run(bindings) };
        let (event, part) = self.routine.run_timed(bindings)?;
        times.push(part);
        Ok(event)
    }
}

/// Copies a node's values through the host.
fn copy(node: &TensorNode, from: &Context, to: &Context) -> Result<(), RunError> {
    let array = from.to_host(node)?;
    to.from_host(node, array).map(drop)
}
