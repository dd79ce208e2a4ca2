//! Random programs: routines, transfers and merges on contexts of several devices and streams, with random
//! waits of the user.

use std::sync::Arc;

use codegen_core::{
    Access, Artifact, Code, Cost, Kernel, KernelAbi, KernelCall, Launch, Param, RoutineParts,
    ScheduledRoutine, Slot, Temp, TempId,
};
use fastrand::Rng;
use lowered_ir::ir::{NodeDecl, NodeRef};
use tnode::{DType, HostArray, MemoryMode, Reason, Sharing, TensorNode};

use super::{
    device::{PeerAccess, RaceDevice},
    world::World,
};
use crate::{
    context::Context,
    copy::MergeBufferUse,
    device::Device,
    driver::Driver,
    error::RunError,
    event::Event,
    fault::{FaultDevice, FaultPlan},
    host::Host,
    routine::LinkedRoutine,
    transfer::Transfer,
};

const LEN: usize = 4;
const BYTES: usize = 8 * LEN;
const STEPS: usize = 80;

/// The random choices that are made before the program runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) seed: u64,
    pub(super) devices: usize,
    pub(super) streams: usize,
    pub(super) peers: PeerAccess,
    /// Whether tasks fail, imports fail and events complete late.
    pub(super) faults: bool,
}

/// The state of a running program.
struct Program {
    world: World,
    random: Rng,
    faults: bool,
    /// Nodes that all contexts of a device have at one location.
    common: Vec<TensorNode>,
    /// Nodes that each context has for itself, or lacks. Among the last two nodes, one is shared by the
    /// streams of a device from its first use, and the host has an array of the other.
    own: Vec<TensorNode>,
    host: Host,
    contexts: Vec<Context>,
    routines: Vec<LinkedRoutine>,
    events: Vec<Event>,
    scheduled: usize,
}

/// The result of a program.
pub(super) struct Outcome {
    pub(super) races: Vec<String>,
    /// The number of steps that submitted something.
    pub(super) scheduled: usize,
}

impl Shape {
    /// A random shape: 1 to 4 devices with 1 to 8 streams each, with or without access to each other.
    pub(super) fn random(seed: u64, faults: bool) -> Shape {
        let random = &mut Rng::with_seed(seed ^ 0x5eed);
        let peers = PeerAccess { events: random.bool(), memory: random.bool() };
        Shape { seed, devices: random.usize(1..=4), streams: random.usize(1..=8), peers, faults }
    }

    /// Runs the program.
    pub(super) fn run(self) -> Outcome {
        let mut program = Program::new(self);
        for _ in 0..STEPS {
            match program.step() {
                Ok(()) => program.scheduled += 1,
                Err(error) => program.expect(&error),
            }
            if !program.world.read_on_host().is_empty() {
                break;
            }
        }
        let (world, scheduled) = (program.world.clone(), program.scheduled);
        drop(program);
        assert_eq!(world.owners(), 1, "a device outlives the program that dropped everything");
        Outcome { races: world.read_on_host(), scheduled }
    }
}

impl Program {
    fn new(shape: Shape) -> Program {
        let world = World::new(shape.seed);
        let mut random = Rng::with_seed(shape.seed);
        let common: Vec<_> = (0..3).map(|at| node(&format!("common{at}"))).collect();
        let mut own: Vec<_> = (0..2).map(|at| node(&format!("own{at}"))).collect();
        let mut contexts = Vec::new();
        for number in 0..shape.devices {
            let device: Arc<dyn Driver> = Arc::new(RaceDevice::new(&world, number, shape.peers));
            let plan = FaultPlan::new(shape.seed + number as u64).task_failures(0.04).rejected_peers(0.1);
            let faulty = Arc::new(FaultDevice::new(Arc::clone(&device), plan.late_completions(0.2)));
            faulty.set_active(false);
            let device = Device::new(if shape.faults { Arc::clone(&faulty) as _ } else { device }, number);
            contexts.extend(contexts_of(&device, shape.streams, &common, &own, &mut random));
            faulty.set_active(true);
        }
        own.extend([shared("shared"), node("hosted")]);
        let host = Host::default();
        host.insert(&own[3], array()).unwrap();
        let contexts = contexts.iter().map(|context: &Context| host.attach(context)).collect();
        let (routines, events, faults) = (vec![], vec![], shape.faults);
        Program { world, random, faults, common, own, host, contexts, routines, events, scheduled: 0 }
    }

    /// Checks that an error is one that such a program may meet.
    fn expect(&self, error: &RunError) {
        let fair = match error {
            RunError::MergeBuffer { .. } | RunError::ContextLacksNode { .. } | RunError::NoSource { .. } => {
                true
            }
            RunError::NotInContext { .. } | RunError::SecondWriter { .. } => true,
            other => self.faults && other.failure().is_some(),
        };
        assert!(fair, "{error}");
    }

    fn context(&mut self) -> Context {
        self.contexts[self.random.usize(..self.contexts.len())].clone()
    }

    fn node(&mut self) -> TensorNode {
        let nodes = if self.random.u32(..3) == 0 { &self.own } else { &self.common };
        nodes[self.random.usize(..nodes.len())].clone()
    }

    fn step(&mut self) -> Result<(), RunError> {
        let (context, node) = (self.context(), self.node());
        match self.random.u32(..26) {
            0..=2 => self.note(context.from_host(&node, array())?),
            3 | 4 => drop(context.to_host(&node)?),
            5 | 6 => {
                let source = self.context();
                self.note(context.device_to_device(&node, MergeBufferUse::No, &source)?);
            }
            7 | 8 => {
                let source = self.context();
                self.note(context.device_to_device(&node, MergeBufferUse::Copy, &source)?);
            }
            9 | 10 => self.stream_a_merge(&context, &node)?,
            11 => self.merge(&context, &node)?,
            12..=15 => self.link(&context)?,
            16..=19 => self.run_again()?,
            20 => self.use_an_event(&context)?,
            21 => drop(context.pending(&node)),
            22 => context.stream().sync()?,
            23 => drop(self.host.get(&self.own[3])?),
            24 => self.host.set_value(&self.own[3], &[0], 1.0)?,
            _ => self.forget(&context)?,
        }
        Ok(())
    }

    fn note(&mut self, transfer: Transfer) {
        if let Transfer::Scheduled(event) = transfer {
            self.events.push(event);
        }
    }

    fn link(&mut self, context: &Context) -> Result<(), RunError> {
        let uses = self.uses();
        let code = code(&uses, None, &mut self.random);
        let nodes: Vec<_> = uses.into_iter().map(|(node, _)| node).collect();
        let routine = context.link(&code, &nodes)?;
        self.events.push(routine.run(&[])?);
        self.routines.push(routine);
        Ok(())
    }

    /// A few nodes, each once, with a random access to each.
    fn uses(&mut self) -> Vec<(TensorNode, Access)> {
        let all: Vec<_> = self.common.iter().chain(&self.own).cloned().collect();
        let count = self.random.usize(1..4);
        let chosen = self.random.choose_multiple(all, count);
        let accesses = [Access::Read, Access::Read, Access::Write, Access::WritePart, Access::ReadWrite];
        chosen.into_iter().map(|node| (node, accesses[self.random.usize(..accesses.len())])).collect()
    }

    fn merging(&mut self, context: &Context, node: &TensorNode) -> Result<LinkedRoutine, RunError> {
        let uses = self.uses();
        let code = code(&uses, Some(node), &mut self.random);
        let mut nodes: Vec<_> = uses.into_iter().map(|(node, _)| node).collect();
        nodes.push(node.clone());
        context.link(&code, &nodes)
    }

    fn stream_a_merge(&mut self, context: &Context, node: &TensorNode) -> Result<(), RunError> {
        let (routine, source) = (self.merging(context, node)?, self.context());
        let mode = MergeBufferUse::StreamingFor(&routine, &[]);
        self.note(context.device_to_device(node, mode, &source)?);
        self.routines.push(routine);
        Ok(())
    }

    /// Merges the node that the merge buffer holds or will hold.
    fn merge(&mut self, context: &Context, node: &TensorNode) -> Result<(), RunError> {
        let node = context.stream().merge_buffer_node().unwrap_or_else(|| node.clone());
        let routine = self.merging(context, &node)?;
        self.routines.push(routine.clone());
        self.events.push(routine.run(&[])?);
        Ok(())
    }

    fn run_again(&mut self) -> Result<(), RunError> {
        if self.routines.is_empty() {
            return Ok(());
        }
        let routine = self.routines[self.random.usize(..self.routines.len())].clone();
        self.events.push(routine.run(&[])?);
        Ok(())
    }

    /// Polls an event, waits for it, or makes a stream wait for it.
    fn use_an_event(&mut self, context: &Context) -> Result<(), RunError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let event = self.events.swap_remove(self.random.usize(..self.events.len()));
        match self.random.u32(..3) {
            0 => event.sync(),
            1 => context.stream().will_wait_for(&event),
            _ => {
                event.is_done();
                Ok(())
            }
        }
    }

    /// Drops routines, and resets the stream if it has failed.
    fn forget(&mut self, context: &Context) -> Result<(), RunError> {
        if self.routines.len() > 8 {
            self.routines.truncate(4);
        }
        context.stream().reset()
    }
}

/// Contexts on `streams` streams of a device.
fn contexts_of(
    device: &Device,
    streams: usize,
    common: &[TensorNode],
    own: &[TensorNode],
    random: &mut Rng,
) -> Vec<Context> {
    let give = |context: Context, node: &TensorNode| context.init_from_host(node, array()).unwrap();
    let root = common.iter().fold(Context::new(&device.new_stream().unwrap()), give);
    let on_stream = |_| {
        let context = root.on_stream(&device.new_stream().unwrap()).unwrap();
        own.iter().filter(|_| random.u32(..4) > 0).fold(context, give)
    };
    (1..streams).map(on_stream).chain([root.clone()]).collect()
}

fn node(name: &str) -> TensorNode {
    TensorNode::builder(name).dims([LEN]).dtype(DType::I64).build().unwrap()
}

fn shared(name: &str) -> TensorNode {
    let (node, mode) = (node(name), MemoryMode::OnDevice(Sharing::Shared));
    node.update_memory_mode(mode, Reason::new("several streams write it")).unwrap();
    node
}

fn array() -> HostArray {
    HostArray::zeros(DType::I64, [LEN]).unwrap()
}

/// A routine of one to three kernels that divide the uses between them, each passing a temporary to the next.
/// If there is a node to merge, the first kernel reads it from the merge buffer, and it is the last node of
/// the routine.
fn code(uses: &[(TensorNode, Access)], merge: Option<&TensorNode>, random: &mut Rng) -> Arc<Code> {
    let count = random.usize(1..4);
    let (mut kernels, mut calls) = (Vec::new(), Vec::new());
    for number in 0..count {
        let mut args = Vec::new();
        if number > 0 {
            args.push((Slot::Temp(TempId(number as u32 - 1)), memory(Access::Read)));
        }
        if number + 1 < count {
            args.push((Slot::Temp(TempId(number as u32)), memory(Access::Write)));
        }
        if let (0, Some(_)) = (number, merge) {
            args.push((Slot::Merge(NodeRef(uses.len() as u32)), Param::MergeBuffer { bytes: BYTES }));
        }
        for (at, (_, access)) in uses.iter().enumerate().filter(|(at, _)| number == 0 || at % count == number)
        {
            args.push((Slot::Node(NodeRef(at as u32)), memory(*access)));
        }
        kernels.push(abi(&format!("kernel{number}"), args.iter().map(|(_, param)| *param).collect()));
        let args = args.into_iter().map(|(slot, _)| slot).collect();
        calls.push(KernelCall { kernel: number, args, bindings: vec![] });
    }
    let temp =
        |number| Temp { node: NodeRef(0), bytes: BYTES, offset: 64 * number, live: (number, number + 1) };
    let parts = RoutineParts {
        name: "random".to_owned(),
        symbols: vec![],
        nodes: uses.iter().map(|(node, _)| node).chain(merge).map(decl).collect(),
        kernels: kernels.iter().cloned().map(|abi| Kernel::opaque(abi).unwrap()).collect(),
        calls,
        temps: (0..count - 1).map(temp).collect(),
        overwritten: vec![],
    };
    let schedule = ScheduledRoutine::new(parts).unwrap();
    Arc::new(Code::new(schedule, Artifact::other(Arc::new(()), kernels)).unwrap())
}

fn memory(access: Access) -> Param {
    Param::Node { access, bytes: BYTES }
}

fn decl(node: &TensorNode) -> NodeDecl {
    NodeDecl { name: node.name(), dtype: node.dtype(), dims: node.dims().unwrap(), mode: node.mode() }
}

fn abi(name: &str, params: Vec<Param>) -> KernelAbi {
    let launch = Launch { extent: 1, grain: 1, threads: 1, end: None };
    let (name, log, cost) = (name.to_owned(), [].into(), Cost::default());
    KernelAbi { name, params, launch, scratch_bytes: 0, log, cost }
}
