//! Linking: code and a context make a routine.
//!
//! The rule of allocation: a node that the routine writes before reading it is allocated by the link, zeroed, if the context
//! lacks it; a node that the routine reads first must be in the context, since nothing else could have given it a value.
//! "Before" is the order of the schedule's calls; a kernel that reads and writes a node reads it first.

use std::{collections::BTreeMap, sync::Arc};

use codegen_core::{Access, Code, KernelAbi, KernelCall, Param, ScheduledRoutine, Slot};
use lowered_ir::ir::{NodeDecl, NodeRef};
use tnode::TensorNode;

use crate::{
    context::Context,
    driver::{BoundHandle, Location, ModuleHandle},
    error::Error,
    hazard::writes,
    pool::{Buffer, Pool, allocate},
    routine::{Routine, RoutineInner},
    submit::{Call, Task, Use, submit},
};

/// What a routine does with one of its nodes.
#[derive(Clone, Copy)]
struct Role {
    /// What the first call that touches it does.
    first: Access,
    /// What all calls together do.
    all: Access,
}

/// The roles of the nodes that the routine's calls touch.
type Roles = BTreeMap<NodeRef, Role>;

impl Context {
    /// Links code: finds or allocates the memory of its nodes and resolves its kernels. `nodes` are the handles of the
    /// routine's nodes by position; trailing ones may be missing if no call uses them.
    ///
    /// # Errors
    ///
    /// A node that is read first and is not in this context, handles that do not fit, a merge buffer that holds nothing, code
    /// that the device does not load, and want of memory. On error nothing stays allocated.
    pub fn link(&self, code: &Arc<Code>, nodes: &[TensorNode]) -> Result<Routine, Error> {
        let schedule = &code.schedule;
        let span = tracing::debug_span!("link", routine = %schedule.name);
        let _entered = span.enter();
        let roles = roles(code)?;
        let linked = resolve(self, schedule, &roles, nodes)?;
        let context = self.with_fresh(&linked.fresh)?;
        let temps = temps(&context, schedule)?;
        let calls = bind(&context, code, &linked.handles, temps.as_deref())?;
        let uses = uses(&context, &roles, &linked.handles);
        let inputs = select(&roles, &linked.handles, |role, node| {
            matches!(role.first, Access::Read | Access::ReadWrite) && !is_constant(node)
        });
        let outputs = select(&roles, &linked.handles, |role, _| writes(role.all));
        Ok(Routine(Arc::new(RoutineInner {
            context,
            name: schedule.name.clone(),
            symbols: schedule.symbols.clone(),
            inputs,
            outputs,
            merge_buffer_input: None,
            uses,
            calls,
            _temps: temps,
        })))
    }

    /// Links several, each in the context that the one before gave, so that they share what the first of them allocates;
    /// positions without code stay without routine. The context returned sees everything.
    ///
    /// # Errors
    ///
    /// As [`Context::link`], for the first that fails; nothing of the batch stays allocated.
    pub fn link_batch(
        &self,
        batch: &[Option<(Arc<Code>, Vec<TensorNode>)>],
    ) -> Result<(Context, Vec<Option<Routine>>), Error> {
        let mut context = self.clone();
        let mut routines = Vec::with_capacity(batch.len());
        for member in batch {
            let routine = member.as_ref().map(|(code, nodes)| context.link(code, nodes)).transpose()?;
            context = routine.as_ref().map_or(context, |routine| routine.context().clone());
            routines.push(routine);
        }
        Ok((context, routines))
    }

    /// A child with zeroed memory for nodes this context lacks.
    fn with_fresh(&self, fresh: &[&TensorNode]) -> Result<Context, Error> {
        let buffers = allocate(self.stream().device(), fresh)?;
        for buffer in buffers.iter().filter(|buffer| buffer.bytes > 0) {
            let name = || format!("zeroing node `{}`", buffer.node.name());
            submit(self.stream(), &[(Arc::clone(buffer), Access::Write)], name, &Task::Zero(buffer))?;
        }
        Ok(self.with(buffers))
    }
}

fn is_constant(node: &TensorNode) -> bool {
    node.mode().known_constant()
}

/// What each node goes through, call by call.
fn roles(code: &Code) -> Result<Roles, Error> {
    let mut roles = Roles::new();
    for call in &code.schedule.calls {
        for (slot, param) in call.args.iter().zip(memory_params(abi(code, call)?)) {
            match (*slot, param) {
                (Slot::Node(node), Param::Node { access, .. }) => note(&mut roles, node, access),
                (Slot::Merge(node), _) => return Err(merge_buffer_empty(&code.schedule, node)),
                _ => {}
            }
        }
    }
    Ok(roles)
}

fn note(roles: &mut Roles, node: NodeRef, access: Access) {
    let role = roles.entry(node).or_insert(Role { first: access, all: access });
    if role.all != access {
        role.all = Access::ReadWrite;
    }
}

fn merge_buffer_empty(schedule: &ScheduledRoutine, node: NodeRef) -> Error {
    let name = schedule.nodes.get(node.index()).map_or_else(|| format!("{node}"), |decl| decl.name.clone());
    Error::MergeBufferEmpty { routine: schedule.name.clone(), node: name }
}

/// How a call's kernel is called, checked against the call.
fn abi<'a>(code: &'a Code, call: &KernelCall) -> Result<&'a KernelAbi, Error> {
    let invalid = |problem: String| Error::InvalidCode { routine: code.schedule.name.clone(), problem };
    let abi = code
        .artifact
        .kernels
        .get(call.kernel)
        .ok_or_else(|| invalid(format!("a call of kernel {}, which the artifact lacks", call.kernel)))?;
    let (slots, indices) = (memory_params(abi).count(), abi.params.len() - memory_params(abi).count());
    if (slots, indices) != (call.args.len(), call.bindings.len()) {
        let (args, bindings) = (call.args.len(), call.bindings.len());
        let found = format!("{args} slots and {bindings} bindings");
        return Err(invalid(format!(
            "kernel `{}` takes {slots} slots and {indices} bindings, its call has {found}",
            abi.name
        )));
    }
    if let Some(symbol) = call.bindings.iter().find(|symbol| symbol.index() >= code.schedule.symbols.len()) {
        return Err(invalid(format!(
            "kernel `{}` is called with unknown symbol {}",
            abi.name,
            symbol.index()
        )));
    }
    Ok(abi)
}

fn memory_params(abi: &KernelAbi) -> impl Iterator<Item = Param> {
    abi.params.iter().copied().filter(|param| !matches!(param, Param::StaticIndex { .. }))
}

/// The handles of the nodes in use, and which of them need memory.
struct Resolved<'a> {
    handles: BTreeMap<NodeRef, &'a TensorNode>,
    fresh: Vec<&'a TensorNode>,
}

fn resolve<'a>(
    context: &Context,
    schedule: &ScheduledRoutine,
    roles: &Roles,
    nodes: &'a [TensorNode],
) -> Result<Resolved<'a>, Error> {
    let mut resolved = Resolved { handles: BTreeMap::new(), fresh: Vec::new() };
    for (&node, role) in roles {
        let handle = handle(schedule, node, nodes)?;
        if !context.contains(handle) && !resolved.fresh.contains(&handle) {
            if matches!(role.first, Access::Read | Access::ReadWrite) {
                let (routine, node) = (schedule.name.clone(), handle.name());
                return Err(Error::ContextLacksNode { routine, node });
            }
            resolved.fresh.push(handle);
        }
        resolved.handles.insert(node, handle);
    }
    Ok(resolved)
}

/// The handle of a node, checked against what the code was compiled for.
fn handle<'a>(
    schedule: &ScheduledRoutine,
    node: NodeRef,
    nodes: &'a [TensorNode],
) -> Result<&'a TensorNode, Error> {
    let routine = || schedule.name.clone();
    let decl = schedule.nodes.get(node.index()).ok_or_else(|| Error::InvalidCode {
        routine: routine(),
        problem: format!("a call uses {node}, which the schedule does not declare"),
    })?;
    let handle = nodes.get(node.index()).ok_or_else(|| Error::NoHandle {
        routine: routine(),
        node: decl.name.clone(),
        position: node.index(),
        handles: nodes.len(),
    })?;
    check(schedule, decl, handle)?;
    Ok(handle)
}

fn check(schedule: &ScheduledRoutine, decl: &NodeDecl, handle: &TensorNode) -> Result<(), Error> {
    let what = || format!("node `{}` of routine `{}`", decl.name, schedule.name);
    let (node, expected) = (handle.name(), handle.dims()?);
    if expected != decl.dims {
        let (expected, found) = (expected.to_vec(), decl.dims.to_vec());
        return Err(Error::Shape { node, what: what(), expected, found });
    }
    if handle.dtype() != decl.dtype {
        return Err(Error::ElementType { node, what: what(), expected: handle.dtype(), found: decl.dtype });
    }
    Ok(())
}

/// The pool of the routine's temporaries.
fn temps(context: &Context, schedule: &ScheduledRoutine) -> Result<Option<Arc<Pool>>, Error> {
    let bytes = schedule.temp_bytes();
    if bytes == 0 {
        return Ok(None);
    }
    let device = context.stream().device();
    let during = || format!("allocating temporaries of `{}` on {}", schedule.name, device.name());
    Pool::new(device, bytes).map(Some).map_err(Error::driver(during))
}

/// Every call with its kernel resolved and its memory fixed.
fn bind(
    context: &Context,
    code: &Code,
    handles: &BTreeMap<NodeRef, &TensorNode>,
    temps: Option<&Pool>,
) -> Result<Vec<Call>, Error> {
    let during = || format!("loading `{}` on {}", code.schedule.name, context.stream().device().name());
    let module = context.stream().device().driver().load(&code.artifact).map_err(Error::driver(during))?;
    let place = |slot: &Slot| locate(context, code, handles, temps, slot);
    let calls = code.schedule.calls.iter();
    calls
        .map(|call| {
            let args = call.args.iter().map(place).collect::<Result<Vec<_>, _>>()?;
            let kernel = bind_call(context, code, &module, call, &args)?;
            Ok(Call { kernel, bindings: call.bindings.iter().map(|symbol| symbol.index()).collect() })
        })
        .collect()
}

fn bind_call(
    context: &Context,
    code: &Code,
    module: &ModuleHandle,
    call: &KernelCall,
    args: &[Location],
) -> Result<BoundHandle, Error> {
    let driver = context.stream().device().driver();
    driver
        .kernel(module, call.kernel)
        .and_then(|kernel| driver.bind(&kernel, args))
        .map_err(Error::driver(|| format!("linking `{}`", code.schedule.name)))
}

/// Where a slot's memory is.
fn locate(
    context: &Context,
    code: &Code,
    handles: &BTreeMap<NodeRef, &TensorNode>,
    temps: Option<&Pool>,
    slot: &Slot,
) -> Result<Location, Error> {
    let invalid = || Error::InvalidCode {
        routine: code.schedule.name.clone(),
        problem: format!("a call uses {slot:?}, which the schedule does not declare"),
    };
    match slot {
        Slot::Node(node) => {
            let buffer = handles.get(node).and_then(|handle| context.get(handle));
            buffer.map(|buffer| buffer.location).ok_or_else(invalid)
        }
        Slot::Temp(temp) => {
            let temp = code.schedule.temps.get(temp.0 as usize).ok_or_else(invalid)?;
            temps.map(|pool| pool.at(temp.offset)).ok_or_else(invalid)
        }
        Slot::Merge(node) => Err(merge_buffer_empty(&code.schedule, *node)),
    }
}

/// The memory of all nodes in use with what is done to it, by location, each once even if two positions are one node.
fn uses(context: &Context, roles: &Roles, handles: &BTreeMap<NodeRef, &TensorNode>) -> Vec<Use> {
    let mut uses: BTreeMap<Location, (&Arc<Buffer>, Access)> = BTreeMap::new();
    for (node, handle) in handles {
        let (Some(role), Some(buffer)) = (roles.get(node), context.get(handle)) else { continue };
        let access = whole_run(*role);
        let entry = uses.entry(buffer.location).or_insert((buffer, access));
        if entry.1 != access {
            entry.1 = Access::ReadWrite;
        }
    }
    uses.into_values()
        .filter(|(buffer, _)| buffer.bytes > 0)
        .map(|(b, access)| (Arc::clone(b), access))
        .collect()
}

/// What a run as a whole does: what it writes first it does not read from before.
fn whole_run(role: Role) -> Access {
    if role.first == Access::Write { Access::Write } else { role.all }
}

/// The handles of the nodes that satisfy a condition on their role, in node order, each once.
fn select(
    roles: &Roles,
    handles: &BTreeMap<NodeRef, &TensorNode>,
    condition: impl Fn(&Role, &TensorNode) -> bool,
) -> Vec<TensorNode> {
    let chosen = roles.iter().filter_map(|(node, role)| Some((role, *handles.get(node)?)));
    let mut nodes: Vec<_> =
        chosen.filter(|(role, node)| condition(role, node)).map(|(_, node)| node.clone()).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}
