//! Divided routines in a context: linking, running, failing.
//!
//! Two chains of contexts grow side by side, one on each backend, as if each had a routine for each of its parts. A run keeps the
//! caller's thread until the last part on the fallback is done, since its results pass through the host; parts of the backend
//! itself are scheduled as any routine is. When something fails on the way, all outputs of the routine are poisoned, as those of a
//! routine whose kernel failed are: no reader sees values of an earlier run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use codegen_core::{Access, Code, Logging};
use device_runtime::{Context, Error, Event, Failure, LinkOrder, Routine};
use lowered_ir::ir::NodeRef;
use tnode::{HostArray, MemoryMode, Sharing, TensorNode};

use super::{
    divide::Place,
    parts::{DividedCode, PartCode, Role},
};
use crate::{backend::Backend, log::logging_to};

/// A linked routine of several parts.
#[derive(Debug)]
pub(crate) struct LinkedParts {
    name: String,
    backend: Backend,
    /// What sees everything on the backend itself.
    context: Context,
    /// The same on the fallback, on a stream of its own.
    side: Context,
    parts: Vec<LinkedPart>,
    /// Nodes, constants included, that some part reads before any has written them.
    reads: Vec<TensorNode>,
    inputs: Vec<TensorNode>,
    outputs: Vec<TensorNode>,
    /// Its dependencies, and whether it has run.
    order: LinkOrder,
    /// Whether lines are logged, so that the order of parts can be observed.
    logs: bool,
}

#[derive(Debug)]
struct LinkedPart {
    place: Place,
    routine: Routine,
    bring: Vec<TensorNode>,
    give: Vec<TensorNode>,
}

impl DividedCode {
    /// Links into a context of the backend; `nodes` are the handles by position, `logging` where parts log to.
    ///
    /// # Errors
    ///
    /// As [`Context::link`]; the context is as before then.
    pub(crate) fn link(
        &self,
        context: &Context,
        nodes: &[TensorNode],
        logging: Option<&Logging>,
    ) -> Result<LinkedParts, Error> {
        let nodes = self.handles(nodes)?;
        let mut linked =
            Linking { divided: self, nodes, context: context.clone(), side: self.fallback.context()? };
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            parts.push(linked.part(part, &logging_to(logging, &part.code))?);
        }
        let Linking { nodes, context: with_parts, side, .. } = linked;
        let own = |node: &NodeRef| !self.shared.contains_key(node);
        let reads = sorted(&nodes, self.first_reads().into_iter().filter(own));
        let inputs = reads.iter().filter(|node| !node.mode().known_constant()).cloned().collect();
        let written = self.parts.iter().flat_map(|part| &part.roles).filter(|(_, role)| role.writes);
        let outputs = sorted(&nodes, written.map(|(&node, _)| node).filter(own));
        let uses = self.uses().into_iter().filter(|(node, _)| own(node));
        let uses = uses.filter_map(|(node, access)| Some((nodes.get(node.index())?, access)));
        let (context, order) = with_parts.as_one_routine(context, &self.name, uses);
        let (name, backend, logs) = (self.name.clone(), self.own.clone(), logging.is_some());
        Ok(LinkedParts { name, backend, context, side, parts, reads, inputs, outputs, order, logs })
    }

    /// The handles, with fresh ones for the local nodes that parts share.
    fn handles(&self, nodes: &[TensorNode]) -> Result<Vec<TensorNode>, Error> {
        let mut handles = nodes.to_vec();
        for (&node, decl) in &self.shared {
            let fresh = TensorNode::builder(decl.name.as_str())
                .dims(decl.dims.iter().copied())
                .dtype(decl.dtype)
                .mode(MemoryMode::OnDevice(Sharing::Unset));
            let fresh = fresh.build()?;
            match handles.get_mut(node.index()) {
                Some(handle) => *handle = fresh,
                // The node that lands what was merged is behind all others.
                None => handles.push(fresh),
            }
        }
        Ok(handles)
    }

    /// The nodes that the first part which touches them reads first.
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

/// The access of the parts so far to a node, with a further part's.
fn whole_use(before: Option<Access>, role: Role) -> Access {
    match before {
        None if role.writes && role.overwrites => Access::Write,
        None | Some(Access::Read) if !role.writes => Access::Read,
        Some(Access::Write) => Access::Write,
        _ => Access::ReadWrite,
    }
}

/// The handles of nodes in order, each once.
fn sorted(handles: &[TensorNode], nodes: impl IntoIterator<Item = NodeRef>) -> Vec<TensorNode> {
    let nodes: BTreeSet<TensorNode> =
        nodes.into_iter().filter_map(|node| handles.get(node.index()).cloned()).collect();
    nodes.into_iter().collect()
}

/// The contexts so far.
struct Linking<'c> {
    divided: &'c DividedCode,
    nodes: Vec<TensorNode>,
    context: Context,
    side: Context,
}

impl Linking<'_> {
    fn part(&mut self, part: &PartCode, code: &Arc<Code>) -> Result<LinkedPart, Error> {
        let routine = match part.place {
            Place::Own => self.context.link(code, &self.nodes)?,
            Place::Fallback => {
                for (&node, role) in &part.roles {
                    self.allocate(part, node, *role)?;
                }
                self.side.link(code, &self.nodes)?
            }
        };
        match part.place {
            Place::Own => self.context = routine.context().clone(),
            Place::Fallback => self.side = routine.context().clone(),
        }
        let [bring, give] = [&part.bring, &part.give].map(|nodes| sorted(&self.nodes, nodes.iter().copied()));
        Ok(LinkedPart { place: part.place, routine, bring, give })
    }

    /// Zeros on both sides for a node that a part on the fallback touches, where there is none; but what it reads before it writes
    /// must be there, unless a run puts it there.
    fn allocate(&mut self, part: &PartCode, node: NodeRef, role: Role) -> Result<(), Error> {
        let Some(handle) = self.nodes.get(node.index()) else { return Ok(()) };
        let copied = part.bring.contains(&node) || part.give.contains(&node);
        if copied && !self.context.contains(handle) {
            if role.reads_first && !self.divided.shared.contains_key(&node) {
                let (routine, stream) = (self.divided.name.clone(), self.context.stream().name());
                return Err(Error::ContextLacksNode { routine, stream, node: handle.name() });
            }
            self.context = with_zeros(&self.context, handle)?;
        }
        if !self.side.contains(handle) {
            self.side = with_zeros(&self.side, handle)?;
        }
        Ok(())
    }
}

fn with_zeros(context: &Context, node: &TensorNode) -> Result<Context, Error> {
    let zeros = HostArray::zeros(node.dtype(), node.dims()?)?;
    context.init_from_host_shared(node, &Arc::new(zeros))
}

impl LinkedParts {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The nodes, other than constants, whose values from before a run it reads.
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

    /// A part, for what is the same of all: the symbols and their bindings.
    pub(crate) fn any_part(&self) -> Option<&Routine> {
        self.parts.first().map(|part| &part.routine)
    }

    /// Its dependencies, and whether it has run.
    pub(crate) fn order(&self) -> &LinkOrder {
        &self.order
    }

    /// What [`LinkedParts::run`] asks of its bindings.
    pub(crate) fn check_bindings(&self, bindings: &[i64]) -> Result<(), Error> {
        self.any_part().map_or(Ok(()), |part| part.check_bindings(bindings))
    }

    /// Runs the parts in order; on return those on the fallback are done.
    ///
    /// # Errors
    ///
    /// As [`Routine::run`], and the failure of a part on the fallback or of one that it depends on; the outputs have no value then.
    pub(crate) fn run(&self, bindings: &[i64]) -> Result<Event, Error> {
        self.check_bindings(bindings)?;
        let _turn = self.backend.refuge().begin_run();
        for node in &self.reads {
            if let Some(failure) = self.context.failure(node) {
                return Err(Error::Poisoned { node: node.name(), failure });
            }
        }
        let mut begun = false;
        let event = self.run_parts(bindings, &mut begun).inspect_err(|error| {
            if begun {
                self.fail(error);
            }
        })?;
        self.order.set_ran();
        Ok(event)
    }

    /// `begun` tells whether some part may have run.
    fn run_parts(&self, bindings: &[i64], begun: &mut bool) -> Result<Event, Error> {
        let mut last = None;
        for part in &self.parts {
            last = match part.place {
                Place::Own => Some(self.run_own(part, bindings, begun)?),
                Place::Fallback => {
                    self.run_on_fallback(part, bindings, begun)?;
                    None
                }
            };
        }
        last.map_or_else(|| self.context.stream().all_work(), Ok)
    }

    fn run_own(&self, part: &LinkedPart, bindings: &[i64], begun: &mut bool) -> Result<Event, Error> {
        let run = part.routine.run(bindings);
        // What was handed over in part has taken its outputs' values.
        let is_lost = |node: &TensorNode| self.context.failure(node).is_some();
        *begun |= run.is_ok() || part.routine.outputs().iter().any(is_lost);
        let event = run?;
        if self.logs {
            event.sync()?;
        }
        Ok(event)
    }

    fn run_on_fallback(&self, part: &LinkedPart, bindings: &[i64], begun: &mut bool) -> Result<(), Error> {
        for node in &part.bring {
            copy(node, &self.context, &self.side)?;
        }
        let event = part.routine.run(bindings)?;
        *begun = true;
        event.sync()?;
        part.give.iter().try_for_each(|node| copy(node, &self.side, &self.context))
    }

    /// Leaves the outputs without value, and the fallback's stream ready for the next run.
    fn fail(&self, error: &Error) {
        let failed = || Failure::new(self.context.stream().name(), self.name.as_str(), error.to_string());
        let failure = error.failure().cloned().unwrap_or_else(failed);
        for node in &self.outputs {
            // The context sees all outputs since it was linked.
            let _ = self.context.poison(node, &failure);
        }
        // If that fails, so will the next run.
        let _ = self.side.stream().reset();
    }
}

/// Copies a node's values through the host.
fn copy(node: &TensorNode, from: &Context, to: &Context) -> Result<(), Error> {
    let array = from.to_host(node)?;
    to.from_host_shared(node, &Arc::new(array)).map(drop)
}
