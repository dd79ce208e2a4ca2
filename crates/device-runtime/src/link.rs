//! Linking: code and a context make a routine.
//!
//! A link allocates each node that the context lacks and that the routine writes before it reads it. The new
//! memory counts as zeros until it is written; it is filled with zeros only if its first use does not
//! overwrite it. A node that the routine reads first must be in the context or have a buffer that streams of
//! the device may share, since otherwise nothing could have computed its values. "Before" refers to the order
//! of the schedule's calls; a kernel that reads and writes a node reads it first. If several codes are linked
//! together, this rule treats them as one routine. Decisions about sharing are committed to the nodes after
//! everything that can fail, so a link that fails changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use codegen_core::{Access, Code, KernelAbi, KernelCall, Param, ScheduledRoutine, Slot, Temp};
use lowered_ir::ir::{NodeDecl, NodeRef};
use tnode::{HostArray, ModeState, TensorNode, commit_modes};

use crate::{
    checked::{BoundKernel, LoadedModule, MemoryRange},
    context::Context,
    driver::Driver,
    error::{Result, RunError},
    frontier::{Dependency, Frontier, RunFlag},
    hazard::writes,
    host::Initial,
    merge::{Merging, OpenCall},
    placement::{arrays_of_outputs, is_in_context},
    pool::{Buffer, Pool, allocate, lock, wrap},
    report::PoolItem,
    routine::{Calls, LinkedRoutine, RoutineInner},
    sharing::{Candidates, Decided, decide_read, decide_write},
    submit::{Call, Kernels, Use, in_order},
};

/// The accesses of a routine to one of its nodes.
#[derive(Clone, Copy, Debug)]
struct Role {
    /// The access of the first call that uses the node.
    first: Access,
    /// The union of the accesses of all calls.
    all: Access,
}

impl Role {
    /// Combines the role with the access of a later call.
    fn then(&mut self, access: Access) {
        if self.all != access {
            self.all = Access::ReadWrite;
        }
    }

    /// Whether the routine reads values that were computed before it.
    fn reads_first(self) -> bool {
        matches!(self.first, Access::Read | Access::ReadWrite)
    }

    /// The access of a run as a whole. If a run writes the node first, it reads only its own values.
    fn whole_run(self) -> Access {
        if self.first == Access::Write { Access::Write } else { self.all }
    }
}

/// The accesses to the nodes that the routine's calls use.
type Roles = BTreeMap<NodeRef, Role>;

/// A routine of a link: its code and its accesses to its nodes.
struct Member<'a> {
    code: &'a Arc<Code>,
    roles: Roles,
    handles: BTreeMap<NodeRef, &'a TensorNode>,
    /// The node that the code reads from the merge buffer.
    merge: Option<&'a TensorNode>,
}

impl Context {
    /// Links code: finds or allocates the memory of its nodes and resolves its kernels. `nodes` are the
    /// handles of the routine's nodes, by position. Trailing handles may be missing if no call uses those
    /// nodes.
    ///
    /// # Errors
    ///
    /// Fails if the routine reads a node first that is neither in this context nor shared, if a handle does
    /// not match the code, if another stream writes a node that the routine writes, if the merge buffer will
    /// hold another node, if the device rejects the code, and if the device is out of memory. After an error,
    /// nothing stays allocated and no node has changed.
    pub fn link(&self, code: &Arc<Code>, nodes: &[TensorNode]) -> Result<LinkedRoutine, RunError> {
        let member = member(self, code, nodes)?;
        Ok(link_all(self, &[member])?.remove(0))
    }

    /// Links several codes in order as if they were one routine, so that later codes use the nodes that
    /// earlier ones allocate. Returns one context with all nodes, which is the context of all routines, and
    /// one routine per position that has code.
    ///
    /// # Errors
    ///
    /// Fails like [`Context::link`]. Nothing that the batch allocated stays allocated.
    pub fn link_batch(
        &self,
        batch: &[Option<(Arc<Code>, Vec<TensorNode>)>],
    ) -> Result<(Context, Vec<Option<LinkedRoutine>>), RunError> {
        let present = batch.iter().flatten();
        let members =
            present.map(|(code, nodes)| member(self, code, nodes)).collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() {
            self.alive(|| "an empty batch".to_owned())?;
            return Ok((self.clone(), batch.iter().map(|_| None).collect()));
        }
        let mut linked = link_all(self, &members)?.into_iter();
        let routines: Vec<_> = batch.iter().map(|code| code.as_ref().and_then(|_| linked.next())).collect();
        let context = routines.iter().flatten().next().map_or_else(|| self.clone(), |r| r.context().clone());
        Ok((context, routines))
    }
}

/// Checks code against its handles and the context's merge buffer.
fn member<'a>(
    context: &Context,
    code: &'a Arc<Code>,
    nodes: &'a [TensorNode],
) -> Result<Member<'a>, RunError> {
    let (roles, merges) = roles(code);
    let schedule = code.schedule();
    let find = |node: &NodeRef| Ok((*node, handle(schedule, *node, nodes)?));
    let handles = roles.keys().map(find).collect::<Result<_, RunError>>()?;
    let merges = merges.iter().map(|node| handle(schedule, *node, nodes)).collect::<Result<Vec<_>, _>>()?;
    let merge = merges.first().copied();
    if let Some(other) = merges.iter().copied().find(|other| Some(*other) != merge) {
        let first = merge.map(TensorNode::name).unwrap_or_default();
        let problem =
            format!("it merges both `{first}` and `{}`, and there is one merge buffer", other.name());
        return Err(RunError::InvalidCode { routine: schedule.name().to_owned(), problem });
    }
    if let (Some(expected), Some(found)) = (merge, context.merge_buffer_node())
        && expected != found
    {
        return Err(RunError::MergeBuffer {
            routine: schedule.name().to_owned(),
            stream: context.stream().name(),
            expected: expected.name(),
            found: format!("node `{}`", found.name()),
        });
    }
    Ok(Member { code, roles, handles, merge })
}

/// Links members in order: either all of them or none.
fn link_all(context: &Context, members: &[Member<'_>]) -> Result<Vec<LinkedRoutine>, RunError> {
    let names: Vec<_> = members.iter().map(|member| member.code.schedule().name()).collect();
    context.alive(|| format!("routine `{}`", names.join(", ")))?;
    let _span = tracing::debug_span!("link", routine = %names.join(", "), stream = %context.stream().name())
        .entered();
    // The lock is held until the end, so that decisions are still valid when they are committed.
    let mut candidates = context.stream().device().candidates()?;
    let plan = plan(context, members, &candidates)?;
    let allocated = with_fresh(context, &plan)?;
    let seen = plan.adopted.into_iter().chain(allocated.iter().cloned());
    let mut frontier = context.frontier().clone();
    let places: Vec<_> = members.iter().map(|member| enter(&mut frontier, member)).collect();
    let context = context.linked(seen, frontier);
    let routines = members.iter().zip(places).map(|(member, place)| resolve(&context, member, place));
    let routines = routines.collect::<Result<Vec<_>, _>>()?;
    let arrays = arrays_of_outputs(&context, &plan.written)?;
    let event = (!arrays.is_empty()).then(|| context.stream().all_work()).transpose()?;
    commit_modes(&modes(&plan.decided, plan.settled))?;
    if let Some(event) = event {
        arrays.into_iter().try_for_each(|(node, array)| context.keep_on_host(&node, array, &event))?;
    }
    for (node, buffer) in &allocated {
        lock(&buffer.sharers).home = Some(context.stream().stream_id());
        candidates.offer(node, buffer);
    }
    plan.initial.iter().for_each(|(node, initial)| context.note_initial(node, initial.version()));
    for (node, decided) in &plan.decided {
        if let Some(buffer) = context.get(node) {
            decided.enter(&mut candidates, node, &buffer, context.stream());
        }
    }
    Ok(routines)
}

fn modes(
    decided: &[(TensorNode, Decided)],
    settled: Vec<(TensorNode, ModeState)>,
) -> Vec<(TensorNode, ModeState)> {
    let shared = decided.iter().filter_map(|(node, decided)| Some((node.clone(), decided.mode.clone()?)));
    settled.into_iter().chain(shared).collect()
}

/// The decisions of a link about the nodes of its members.
#[derive(Default)]
struct Plan {
    /// Nodes that use memory of other streams.
    adopted: Vec<(TensorNode, Arc<Buffer>)>,
    /// Nodes to allocate that count as zeros.
    fresh: Vec<TensorNode>,
    /// Nodes to allocate with the values of their host arrays.
    initial: Vec<(TensorNode, Initial)>,
    /// Decisions about sharing, which are committed at the end.
    decided: Vec<(TensorNode, Decided)>,
    /// Modes that were open, committed at the end.
    settled: Vec<(TensorNode, ModeState)>,
    /// The nodes that the routines write.
    written: Vec<TensorNode>,
}

/// The accesses of all members to one node. `first` and `writer` name the first members that use and write
/// it.
struct Joint<'m> {
    role: Role,
    first: &'m str,
    writer: &'m str,
}

fn plan(context: &Context, members: &[Member<'_>], candidates: &Candidates) -> Result<Plan, RunError> {
    let mut plan = Plan::default();
    for (node, joint) in joint(members) {
        let decided = match writes(joint.role.all) {
            true => plan.written(context, node, &joint, candidates)?,
            false => plan.read(context, node, &joint, candidates)?,
        };
        plan.decided.push((node.clone(), decided));
        if writes(joint.role.all) {
            plan.written.push(node.clone());
        }
    }
    Ok(plan)
}

/// Combines the accesses of all members, by node.
fn joint<'m>(members: &'m [Member<'_>]) -> BTreeMap<&'m TensorNode, Joint<'m>> {
    let mut all: BTreeMap<&TensorNode, Joint<'_>> = BTreeMap::new();
    for member in members {
        let name = member.code.schedule().name();
        for (node, role) in &member.roles {
            let Some(handle) = member.handles.get(node) else { continue };
            let known = all.contains_key(handle);
            let joint = all.entry(handle).or_insert(Joint { role: *role, first: name, writer: name });
            if known {
                if writes(role.all) && !writes(joint.role.all) {
                    joint.writer = name;
                }
                joint.role.then(role.whole_run());
            }
        }
    }
    all
}

impl Plan {
    fn written(
        &mut self,
        context: &Context,
        node: &TensorNode,
        joint: &Joint<'_>,
        candidates: &Candidates,
    ) -> Result<Decided, RunError> {
        let present = context.get(node);
        if present.as_ref().is_some_and(|buffer| !buffer.range.is_writable()) {
            return Err(RunError::ReadOnly { node: node.name(), device: context.stream().device().name() });
        }
        let shared = node.mode().known_shared_cross_streams();
        let offered = shared.then(|| candidates.find(node)).flatten();
        let buffer = present.as_ref().or(offered.as_ref());
        let decided = decide_write(node, buffer.map(|b| &**b), context.stream(), joint.writer)?;
        match (present, offered) {
            (Some(_), _) => {}
            (None, Some(offered)) => self.adopted.push((node.clone(), offered)),
            (None, None) => self.make(context, node, joint, false)?,
        }
        Ok(decided)
    }

    fn read(
        &mut self,
        context: &Context,
        node: &TensorNode,
        joint: &Joint<'_>,
        candidates: &Candidates,
    ) -> Result<Decided, RunError> {
        if context.contains(node) {
            return Ok(Decided::default());
        }
        let offered = candidates.find(node).filter(|_| !node.mode().known_non_cross_stream());
        let Some(offered) = offered else {
            self.make(context, node, joint, true)?;
            return Ok(Decided::default());
        };
        let decided = decide_read(node, &offered, context.stream())?;
        self.adopted.push((node.clone(), offered));
        Ok(decided)
    }

    /// Plans an allocation for a node that has no memory on the device. The memory gets the values of the
    /// node's host array if there is one and the routine reads them; otherwise it counts as zeros.
    fn make(
        &mut self,
        context: &Context,
        node: &TensorNode,
        joint: &Joint<'_>,
        is_only_read: bool,
    ) -> Result<(), RunError> {
        let (is_kept, settled) = is_in_context(context, node)?;
        self.settled.extend(settled.map(|mode| (node.clone(), mode)));
        let matters = joint.role.first != Access::Write;
        match matters.then(|| context.initial(node)).transpose()?.flatten() {
            Some(mut initial) => {
                // If the host may change the array, as with volatile nodes, the device must read a copy and
                // not the array in place.
                initial.in_place = is_only_read && !is_kept && node.mode().known_constant();
                self.initial.push((node.clone(), initial));
            }
            None if joint.role.reads_first() => return Err(lacks(context, node, joint.first)),
            None => self.fresh.push(node.clone()),
        }
        Ok(())
    }
}

fn lacks(context: &Context, node: &TensorNode, routine: &str) -> RunError {
    let (routine, stream, node) = (routine.to_owned(), context.stream().name(), node.name());
    RunError::ContextLacksNode { routine, stream, node }
}

/// Allocates memory for the new nodes of a link, and schedules the uploads of their initial values.
fn with_fresh(context: &Context, plan: &Plan) -> Result<Vec<(TensorNode, Arc<Buffer>)>, RunError> {
    let device = context.stream().device();
    let mut made = Vec::new();
    let mut copied: Vec<(&TensorNode, &Arc<HostArray>)> = Vec::new();
    for (node, Initial { array, in_place, .. }) in &plan.initial {
        match in_place.then(|| wrap(device, node, array)).flatten() {
            Some(buffer) => made.push((node.clone(), buffer)),
            None => copied.push((node, array)),
        }
    }
    let nodes: Vec<&TensorNode> = plan.fresh.iter().chain(copied.iter().map(|(node, _)| *node)).collect();
    let buffers = allocate(context.stream(), &nodes)?;
    let (unwritten, filled) = buffers.split_at(plan.fresh.len());
    unwritten.iter().for_each(|buffer| lock(&buffer.hazards).mark_unwritten());
    for (buffer, (_, array)) in filled.iter().zip(&copied).filter(|(buffer, _)| buffer.bytes() > 0) {
        context.copy_in(buffer, array)?;
    }
    made.extend(nodes.into_iter().cloned().zip(buffers.iter().cloned()));
    Ok(made)
}

/// A member's run flag, and its dependencies on the routines linked so far.
struct LinkedMember {
    ran: Arc<RunFlag>,
    dependencies: Vec<Dependency>,
}

fn enter(frontier: &mut Frontier, member: &Member<'_>) -> LinkedMember {
    let ran = RunFlag::new(member.code.schedule().name());
    let mut dependencies = Vec::new();
    for (node, role) in &member.roles {
        if let Some(handle) = member.handles.get(node) {
            dependencies.extend(frontier.enter(handle, role.whole_run(), &ran));
        }
    }
    LinkedMember { ran, dependencies }
}

/// Makes the routine of a member. All nodes of the member are in the context.
fn resolve(context: &Context, member: &Member<'_>, linked: LinkedMember) -> Result<LinkedRoutine, RunError> {
    let schedule = &member.code.schedule();
    let temps = temps(context, schedule)?;
    let calls = calls(context, member, temps.as_deref())?;
    let uses = uses(context, member);
    let reads = select(member, |role, _| role.reads_first());
    let inputs = select(member, |role, node| role.reads_first() && !node.mode().known_constant());
    let outputs = select(member, |role, _| writes(role.all));
    Ok(LinkedRoutine(Arc::new(RoutineInner {
        context: context.clone(),
        name: schedule.name().to_owned(),
        symbols: schedule.symbols().to_vec(),
        inputs,
        outputs,
        reads,
        ran: linked.ran,
        dependencies: linked.dependencies,
        uses,
        calls,
        _temps: temps,
    })))
}

/// Returns the accesses to each node, and the nodes that are read from the merge buffer.
fn roles(code: &Code) -> (Roles, BTreeSet<NodeRef>) {
    let (mut roles, mut merges) = (Roles::new(), BTreeSet::new());
    for call in code.schedule().calls() {
        for (slot, param) in call.args.iter().zip(memory_params(abi(code, call))) {
            match (*slot, param) {
                (Slot::Node(node), Param::Node { access, .. }) => {
                    roles.entry(node).or_insert(Role { first: access, all: access }).then(access);
                }
                (Slot::Merge(node), _) => {
                    merges.insert(node);
                }
                _ => {}
            }
        }
    }
    // Some nodes are overwritten only by several calls together. Nodes without elements are overwritten
    // although no call writes them.
    for node in code.schedule().overwritten() {
        let role = roles.entry(*node).or_insert(Role { first: Access::Write, all: Access::Write });
        role.first = Access::Write;
    }
    (roles, merges)
}

/// Returns the ABI of a call's kernel. [`Code::new`] has checked the index of the kernel and the arguments.
fn abi<'a>(code: &'a Code, call: &KernelCall) -> &'a KernelAbi {
    code.schedule().kernels()[call.kernel].abi()
}

fn memory_params(abi: &KernelAbi) -> impl Iterator<Item = Param> {
    abi.params.iter().copied().filter(|param| !matches!(param, Param::StaticIndex { .. }))
}

/// Returns the handle of a node after checking its shape and element type against the code.
fn handle<'a>(
    schedule: &ScheduledRoutine,
    node: NodeRef,
    nodes: &'a [TensorNode],
) -> Result<&'a TensorNode, RunError> {
    let routine = || schedule.name().to_owned();
    let decl = &schedule.nodes()[node.index()];
    let handle = nodes.get(node.index()).ok_or_else(|| RunError::NoHandle {
        routine: routine(),
        node: decl.name.clone(),
        position: node.index(),
        handles: nodes.len(),
    })?;
    check(schedule, decl, handle)?;
    Ok(handle)
}

fn check(schedule: &ScheduledRoutine, decl: &NodeDecl, handle: &TensorNode) -> Result<(), RunError> {
    let what = || format!("node `{}` of routine `{}`", decl.name, schedule.name());
    let (node, expected) = (handle.name(), handle.dims()?);
    if expected != decl.dims {
        let (expected, found) = (expected.to_vec(), decl.dims.to_vec());
        return Err(RunError::Shape { node, what: what(), expected, found });
    }
    if handle.dtype() != decl.dtype {
        return Err(RunError::ElementType {
            node,
            what: what(),
            expected: handle.dtype(),
            found: decl.dtype,
        });
    }
    Ok(())
}

/// Allocates the pool for the routine's temporaries.
fn temps(context: &Context, schedule: &ScheduledRoutine) -> Result<Option<Arc<Pool>>, RunError> {
    if schedule.temps().is_empty() {
        return Ok(None);
    }
    // Temporaries of zero bytes also need a location.
    let bytes = schedule.temp_bytes().max(1);
    let device = context.stream().device();
    let during = || format!("allocating temporaries of `{}` on {}", schedule.name(), device.name());
    let routine: Arc<str> = schedule.name().into();
    let mut items: Vec<PoolItem> =
        schedule.temps().iter().map(|temp| item(schedule, &routine, temp)).collect();
    items.sort_by_key(|item| item.offset);
    Pool::new(device, bytes, items).map(Some).map_err(RunError::driver(during))
}

fn item(schedule: &ScheduledRoutine, routine: &Arc<str>, temp: &Temp) -> PoolItem {
    let name = schedule.nodes().get(temp.node.index()).map_or_else(String::new, |decl| decl.name.to_string());
    let calls = Some((routine.clone(), temp.live));
    PoolItem { calls, ..PoolItem::new(name, temp.offset, temp.bytes) }
}

/// Resolves the kernel and the memory of every call, except for the location of the merge buffer.
fn calls(context: &Context, member: &Member<'_>, temps: Option<&Pool>) -> Result<Calls, RunError> {
    let code = member.code;
    let driver = context.stream().device().driver();
    let during = || format!("loading `{}` on {}", code.schedule().name(), context.stream().device().name());
    let module = LoadedModule::load(driver, code.artifact()).map_err(RunError::driver(during))?;
    let linking = || format!("linking `{}`", code.schedule().name());
    let mut open = Vec::with_capacity(code.schedule().calls().len());
    for call in code.schedule().calls() {
        let args = call.args.iter().map(|slot| locate(context, member, temps, slot));
        open.push(OpenCall {
            kernel: module.kernel(call.kernel).map_err(RunError::driver(linking))?,
            args: args.collect::<Result<_, _>>()?,
            bindings: call.bindings.clone(),
        });
    }
    match member.merge {
        Some(node) => Ok(Calls::Merging(Merging::new(node.clone(), open))),
        None => {
            let mut bound = BTreeMap::new();
            let named = code.schedule().calls().iter().zip(&open);
            let calls = named.map(|(call, open)| fixed(driver, call, open, &mut bound));
            let calls = calls.collect::<Result<_, _>>().map_err(RunError::driver(linking))?;
            Kernels::new(driver, calls).map(Calls::Fixed).map_err(RunError::driver(during))
        }
    }
}

/// Binds a call that does not read the merge buffer. Calls of one kernel with the same memory, such as those
/// of the steps of a scan, share it in `bound`.
fn fixed<'a>(
    driver: &dyn Driver,
    call: &'a KernelCall,
    open: &OpenCall,
    bound: &mut BTreeMap<(usize, &'a [Slot]), BoundKernel>,
) -> Result<Call> {
    let key = (call.kernel, &call.args[..]);
    let kernel = match bound.get(&key) {
        Some(kernel) => kernel.clone(),
        None => {
            let args: Vec<MemoryRange> = open.args.iter().flatten().cloned().collect();
            let kernel = open.kernel.bind(driver, &args)?;
            bound.insert(key, kernel.clone());
            kernel
        }
    };
    Ok(Call { kernel, bindings: open.bindings.clone() })
}

/// Returns the memory of a slot, or `None` for the merge buffer.
fn locate(
    context: &Context,
    member: &Member<'_>,
    temps: Option<&Pool>,
    slot: &Slot,
) -> Result<Option<MemoryRange>, RunError> {
    let schedule = member.code.schedule();
    let invalid = || RunError::InvalidCode {
        routine: schedule.name().to_owned(),
        problem: format!("a call uses {slot:?}, for which there is no memory"),
    };
    match slot {
        Slot::Node(node) => {
            let buffer = member.handles.get(node).and_then(|handle| context.get(handle));
            buffer.map(|buffer| Some(buffer.range.clone())).ok_or_else(invalid)
        }
        Slot::Temp(temp) => {
            let temp = &schedule.temps()[temp.0 as usize];
            let range = temps.ok_or_else(invalid)?.range(temp.offset, temp.bytes);
            range.map(Some).map_err(RunError::driver(|| format!("linking `{}`", schedule.name())))
        }
        Slot::Merge(_) => Ok(None),
    }
}

/// Returns the uses of all nodes that have elements. A node occurs once, even if several positions refer to
/// it.
fn uses(context: &Context, member: &Member<'_>) -> Vec<Use> {
    let mut uses: Vec<Use> = Vec::new();
    for (node, role) in &member.roles {
        let buffer = member.handles.get(node).and_then(|handle| context.get(handle));
        let Some(buffer) = buffer.filter(|buffer| buffer.bytes() > 0) else { continue };
        let access = role.whole_run();
        match uses.iter_mut().find(|used| Arc::ptr_eq(&used.buffer, &buffer)) {
            Some(used) if used.access != access => used.access = Access::ReadWrite,
            Some(_) => {}
            None => uses.push(Use::new(&buffer, access)),
        }
    }
    in_order(uses)
}

/// Returns the nodes whose role satisfies a condition, in node order and without duplicates.
fn select(member: &Member<'_>, condition: impl Fn(&Role, &TensorNode) -> bool) -> Vec<TensorNode> {
    let chosen = member.roles.iter().filter_map(|(node, role)| Some((role, *member.handles.get(node)?)));
    let chosen = chosen.filter(|(role, node)| condition(role, node)).map(|(_, node)| node.clone());
    chosen.collect::<BTreeSet<_>>().into_iter().collect()
}
