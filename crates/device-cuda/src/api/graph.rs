//! Kernels that are launched together: a graph of the driver's in which each waits for the one before.

use std::{fmt, ptr, sync::Arc};

use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode};

use super::{
    CallError, Context, Function, Grid,
    code::{List, listed},
};

/// A kernel with what it is launched with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) function: &'a Function,
    pub(crate) grid: Grid,
    /// The bytes of its parameters.
    pub(crate) params: &'a [u64],
}

/// A graph, ready to run. Who has it has the functions of its kernels as well, and the memory that their parameters point to.
pub(crate) struct Graph {
    context: Arc<Context>,
    raw: CUgraph,
    exec: CUgraphExec,
    /// One for each kernel, in order.
    nodes: Vec<CUgraphNode>,
}

// SAFETY: the driver takes calls from any thread, as long as those for one graph do not come at once: only one value has the
// handles, and it is not shared between threads.
unsafe impl Send for Graph {}

impl Graph {
    /// A graph without kernels, which is not ready.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Graph, CallError> {
        context.enter()?;
        let (context, nodes, exec) = (Arc::clone(context), Vec::new(), ptr::null_mut());
        let mut graph = Graph { context, raw: ptr::null_mut(), exec, nodes };
        // SAFETY: a place for the handle; 0 is the only value of the flags.
        unsafe { graph.context.api.cuGraphCreate(&raw mut graph.raw, 0)? };
        Ok(graph)
    }

    /// Adds a kernel behind the last one.
    pub(crate) fn add(&mut self, launch: Launch<'_>) -> Result<(), CallError> {
        self.context.enter()?;
        let before = self.nodes.last().map_or(ptr::null(), ptr::from_ref);
        let count = self.nodes.len().min(1);
        let mut node = ptr::null_mut();
        // SAFETY: as many nodes to wait for as it is told; the driver copies the parameters before it returns.
        listed(launch.params, |list| unsafe {
            let params = node_params(launch, list);
            self.context.api.cuGraphAddKernelNode_v2(
                &raw mut node,
                self.raw,
                before,
                count,
                &raw const params,
            )
        })?;
        self.nodes.push(node);
        Ok(())
    }

    /// Makes it ready.
    pub(crate) fn finish(&mut self) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: a place for the handle, which nothing is in yet or the graph is given up.
        unsafe { self.context.api.cuGraphInstantiateWithFlags(&raw mut self.exec, self.raw, 0) }
    }

    /// Gives a kernel other parameters, for runs that are handed over from now on.
    pub(crate) fn set(&mut self, at: usize, launch: Launch<'_>) -> Result<(), CallError> {
        self.context.enter()?;
        let Some(&node) = self.nodes.get(at) else { return Ok(()) };
        // SAFETY: the node is of the graph that the other was made of; the driver copies the parameters before it returns, and what
        // is on its way keeps its own.
        listed(launch.params, |list| unsafe {
            let params = node_params(launch, list);
            self.context.api.cuGraphExecKernelNodeSetParams_v2(self.exec, node, &raw const params)
        })
    }

    pub(super) fn exec(&self) -> CUgraphExec {
        self.exec
    }
}

fn node_params(launch: Launch<'_>, list: List) -> CUDA_KERNEL_NODE_PARAMS {
    let Grid { blocks, threads, shared_bytes } = launch.grid;
    CUDA_KERNEL_NODE_PARAMS {
        func: launch.function.raw(),
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared_bytes,
        kernelParams: ptr::null_mut(),
        extra: list,
        kern: ptr::null_mut(),
        // The current one.
        ctx: ptr::null_mut(),
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // What fails here fails because the device is lost.
        let _ = self.context.enter();
        // SAFETY: made for this value; each run that was handed over is done, since it had a share of who has this value.
        unsafe {
            if !self.exec.is_null() {
                let _ = self.context.api.cuGraphExecDestroy(self.exec);
            }
            if !self.raw.is_null() {
                let _ = self.context.api.cuGraphDestroy(self.raw);
            }
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a graph of {} kernels", self.nodes.len())
    }
}
