//! Launches, one by one and as graphs. Independent nodes of a graph run in the least expected order: the last
//! one first.

use std::ffi::{c_uint, c_void};

use crate::{
    Answer, Handle, answer, current, get, host_bytes,
    ptx::Param,
    put,
    world::{Function, INVALID_HANDLE, INVALID_VALUE, Task, World, log, setting, world},
};

const TOO_MANY_RESOURCES: u32 = 701;
const NOT_SUPPORTED: u32 = 801;
const INVALID_CLUSTER_SIZE: u32 = 912;

/// Maximum number of blocks per cluster that every GPU supports.
const MAX_CLUSTER: u32 = 8;

/// A kernel and the arguments of its launch.
#[derive(Clone)]
pub(crate) struct Launch {
    function: Handle,
    blocks: u32,
    threads: u32,
    shared: u32,
    params: Vec<u64>,
}

/// A graph: its nodes, each with its dependencies.
pub(crate) struct Graph {
    pub(crate) device: u64,
    nodes: Vec<(Handle, Vec<Handle>, Launch)>,
}

/// An instantiated graph: its nodes in the order in which they run.
pub(crate) struct Exec {
    pub(crate) device: u64,
    nodes: Vec<(Handle, Launch)>,
}

/// The driver's description of a node, version 2.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NodeParams {
    function: Handle,
    blocks: [c_uint; 3],
    threads: [c_uint; 3],
    shared: c_uint,
    params: *const usize,
    extra: *const c_void,
    kernel: Handle,
    context: Handle,
}

/// The launch of a node, if its description is valid.
fn launch(world: &World, device: u64, node: &NodeParams) -> Result<Launch, u32> {
    let NodeParams { function, blocks, threads, shared, params, extra, .. } = *node;
    let Function { device: owner, entry, max_dynamic, .. } =
        world.functions.get(&function).ok_or(INVALID_HANDLE)?;
    let flat = [blocks[1], blocks[2], threads[1], threads[2]] == [1; 4];
    let listed = !params.is_null() && extra.is_null();
    let ([blocks, ..], [threads, ..]) = (blocks, threads);
    if *owner != device || !flat || !listed || blocks == 0 || threads == 0 || shared > *max_dynamic {
        return Err(INVALID_VALUE);
    }
    let params = param_words(&entry.params, params);
    let is_map = |param: &&Param| param.bytes == crate::maps::BYTES;
    if entry.params.iter().filter(is_map).any(|param| !crate::maps::is_map(&params[param.offset / 8..])) {
        return Err(INVALID_VALUE);
    }
    if entry.cluster > MAX_CLUSTER || blocks % entry.cluster.max(1) != 0 {
        return Err(INVALID_CLUSTER_SIZE);
    }
    Ok(Launch { function, blocks, threads, shared, params })
}

/// The words of all parameters, each at its offset, from a list of their addresses.
fn param_words(declared: &[Param], addresses: *const usize) -> Vec<u64> {
    let mut words = Vec::new();
    for (at, param) in declared.iter().enumerate() {
        // SAFETY: the caller lists an address for each parameter, as the driver requires.
        let address = get(unsafe { addresses.add(at) });
        words.resize(param.offset / 8, 0);
        let bytes = host_bytes(address, param.bytes).chunks_exact(8);
        words.extend(bytes.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())));
    }
    words
}

/// Appends a kernel to a stream.
fn push(world: &mut World, stream: Handle, launch: Launch) -> Result<(), u32> {
    let Launch { function, blocks, threads, shared, params } = launch;
    let Function { entry, module, .. } = world.functions.get(&function).ok_or(INVALID_HANDLE)?.clone();
    log(&format!("launch {} {blocks} {threads} {shared}", entry.name));
    world.push(stream, Task::Launch { module, entry, blocks, threads, params })
}

/// Whether the kernel is one that the driver rejects.
fn is_rejected(world: &World, launch: &Launch) -> bool {
    world.functions.get(&launch.function).is_none_or(|function| function.entry.name.contains("rejected"))
}

#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: Handle,
    blocks: c_uint,
    blocks_y: c_uint,
    blocks_z: c_uint,
    threads: c_uint,
    threads_y: c_uint,
    threads_z: c_uint,
    shared: c_uint,
    stream: Handle,
    params: *const usize,
    extra: *const c_void,
) -> Answer {
    let (blocks, threads) = ([blocks, blocks_y, blocks_z], [threads, threads_y, threads_z]);
    let node = NodeParams { function, blocks, threads, shared, params, extra, kernel: 0, context: 0 };
    let run = || {
        let device = current()?;
        let mut world = world();
        let launch = launch(&world, device, &node)?;
        if is_rejected(&world, &launch) {
            return Err(TOO_MANY_RESOURCES);
        }
        push(&mut world, stream, launch)
    };
    answer(run())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphCreate(graph: *mut Handle, flags: c_uint) -> Answer {
    let create = || {
        let device = current()?;
        let mut world = world();
        let made = world.handle();
        world.graphs.insert(made, Graph { device, nodes: Vec::new() });
        log("graph");
        if flags == 0 { put(graph, made) } else { Err(INVALID_VALUE) }
    };
    answer(create())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> Answer {
    world().graphs.remove(&graph).map_or(INVALID_HANDLE, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphAddKernelNode_v2(
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    params: *const NodeParams,
) -> Answer {
    let add = || {
        let device = current()?;
        let mut world = world();
        // SAFETY: the caller passes this many nodes, as the driver requires.
        let before: Vec<Handle> = (0..count).map(|at| get(unsafe { before.add(at) })).collect();
        let params = get(params);
        if (params.kernel, params.context) != (0, 0) {
            return Err(INVALID_VALUE);
        }
        let launch = launch(&world, device, &params)?;
        let made = world.handle();
        let graph = world.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
        if before.iter().any(|before| graph.nodes.iter().all(|(node, ..)| node != before)) {
            return Err(INVALID_VALUE);
        }
        graph.nodes.push((made, before, launch));
        put(node, made)
    };
    answer(add())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64) -> Answer {
    let instantiate = || {
        let device = current()?;
        let mut world = world();
        let Graph { device: owner, nodes } = world.graphs.get(&graph).ok_or(INVALID_HANDLE)?;
        if *owner != device || flags != 0 {
            return Err(INVALID_VALUE);
        }
        if setting("graphs").as_deref() == Some("rejected") {
            return Err(NOT_SUPPORTED);
        }
        if nodes.iter().any(|(.., launch)| is_rejected(&world, launch)) {
            return Err(TOO_MANY_RESOURCES);
        }
        let (mut left, mut ordered) = (nodes.clone(), Vec::new());
        while !left.is_empty() {
            let waits = |before: &[Handle], left: &[(Handle, Vec<Handle>, Launch)]| {
                left.iter().any(|(node, ..)| before.contains(node))
            };
            let last = left.iter().rposition(|(_, before, _)| !waits(before, &left)).ok_or(INVALID_VALUE)?;
            let (node, _, launch) = left.remove(last);
            ordered.push((node, launch));
        }
        log(&format!("instantiate {}", ordered.len()));
        let made = world.handle();
        world.execs.insert(made, Exec { device, nodes: ordered });
        put(exec, made)
    };
    answer(instantiate())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(exec: Handle) -> Answer {
    log("destroy");
    world().execs.remove(&exec).map_or(INVALID_HANDLE, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    exec: Handle,
    node: Handle,
    params: *const NodeParams,
) -> Answer {
    let set = || {
        let device = current()?;
        let mut world = world();
        if setting("graphs").as_deref() == Some("fixed") {
            return Err(NOT_SUPPORTED);
        }
        let launch = launch(&world, device, &get(params))?;
        let nodes = &mut world.execs.get_mut(&exec).ok_or(INVALID_HANDLE)?.nodes;
        let (_, found) = nodes.iter_mut().find(|(found, _)| *found == node).ok_or(INVALID_VALUE)?;
        *found = launch;
        log("set");
        Ok(())
    };
    answer(set())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(exec: Handle, stream: Handle) -> Answer {
    let run = || {
        let device = current()?;
        let mut world = world();
        let Exec { device: owner, nodes } = world.execs.get(&exec).ok_or(INVALID_HANDLE)?;
        if *owner != device {
            return Err(INVALID_VALUE);
        }
        if setting("graphs").as_deref() == Some("unlaunched") {
            return Err(TOO_MANY_RESOURCES);
        }
        let nodes = nodes.clone();
        log(&format!("replay {}", nodes.len()));
        nodes.into_iter().try_for_each(|(_, launch)| push(&mut world, stream, launch))
    };
    answer(run())
}
