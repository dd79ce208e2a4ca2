//! CUDA graphs of kernels in which each kernel waits for the one before.

use std::{ffi::c_void, fmt, ptr, sync::Arc};

use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode};

use super::{CallError, Context, Function, Grid, Params};

/// A kernel and the arguments of its launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelLaunch<'a> {
    pub(crate) function: &'a Function,
    pub(crate) grid: Grid,
    pub(crate) params: &'a Params,
}

/// A graph. Its owner also owns the functions of its kernels and the memory that their parameters point to.
pub(crate) struct Graph {
    context: Arc<Context>,
    raw: CUgraph,
    exec: CUgraphExec,
    /// One node per kernel, in order.
    nodes: Vec<CUgraphNode>,
}

// SAFETY: the driver accepts calls from any thread, but not concurrent calls for one graph: only one value
// has the handles, and it is not shared between threads.
unsafe impl Send for Graph {}

impl Graph {
    /// An empty graph that is not instantiated.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Graph, CallError> {
        context.enter()?;
        let (context, nodes, exec) = (Arc::clone(context), Vec::new(), ptr::null_mut());
        let mut graph = Graph { context, raw: ptr::null_mut(), exec, nodes };
        // SAFETY: a valid place for the handle; 0 is the only valid value of the flags.
        unsafe { graph.context.api.cuGraphCreate(&raw mut graph.raw, 0)? };
        Ok(graph)
    }

    /// Adds a kernel that waits for the last one.
    pub(crate) fn add(&mut self, launch: KernelLaunch<'_>) -> Result<(), CallError> {
        self.context.enter()?;
        let before = self.nodes.last().map_or(ptr::null(), ptr::from_ref);
        let count = self.nodes.len().min(1);
        let mut node = ptr::null_mut();
        // SAFETY: `before` points to `count` nodes; the driver copies the parameters, whose sizes were
        // checked when the code was loaded, before it returns.
        launch.params.with_list(|list| unsafe {
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

    /// Instantiates the graph, so that it can be launched.
    pub(crate) fn finish(&mut self) -> Result<(), CallError> {
        self.context.enter()?;
        // SAFETY: a valid place for the handle, which is still null: a graph is finished once, or dropped.
        unsafe { self.context.api.cuGraphInstantiateWithFlags(&raw mut self.exec, self.raw, 0) }
    }

    /// Changes the parameters of a kernel for launches that are submitted from now on.
    pub(crate) fn set(&mut self, at: usize, launch: KernelLaunch<'_>) -> Result<(), CallError> {
        self.context.enter()?;
        let Some(&node) = self.nodes.get(at) else { return Ok(()) };
        // SAFETY: the node belongs to the graph from which `exec` was instantiated; the driver copies the
        // parameters before it returns, and pending launches keep their own.
        launch.params.with_list(|list| unsafe {
            let params = node_params(launch, list);
            self.context.api.cuGraphExecKernelNodeSetParams_v2(self.exec, node, &raw const params)
        })
    }

    pub(super) fn exec(&self) -> CUgraphExec {
        self.exec
    }
}

fn node_params(launch: KernelLaunch<'_>, list: *mut *mut c_void) -> CUDA_KERNEL_NODE_PARAMS {
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
        kernelParams: list,
        extra: ptr::null_mut(),
        kern: ptr::null_mut(),
        // Null means the current context.
        ctx: ptr::null_mut(),
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // Errors are ignored: they mean that the device is lost.
        let _ = self.context.enter();
        // SAFETY: made for this value; each submitted launch is done, since its task referred to the owner of
        // this value.
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
