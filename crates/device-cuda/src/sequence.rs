//! Sequences: the kernels of a routine that runs repeatedly, launched together as a CUDA graph.
//!
//! Making a graph costs several times as much as launching its kernels once. So the first run of a sequence
//! launches its kernels one by one, and the second run makes the graph. Each stream has a graph of its own,
//! whose launches are tasks like any other; a submitted launch keeps its bindings.
//!
//! If the driver rejects a graph, the run does not fail: from then on, the kernels are launched one by one.
//! If one of them is at fault, the driver reports that kernel, and all tasks before it are executed.

use std::sync::{Arc, Mutex, Weak};

use crate::{
    api::{CallError, Graph, KernelLaunch, Params, TaskQueue},
    kernel::BoundFunction,
    shared_state::{SharedState, is_device_lost},
    stream::{Stream, lock, logs::Completion},
};

/// Minimum number of kernels for a graph.
pub(crate) const MIN_KERNELS: usize = 2;

/// Kernels that are launched together, in order.
#[derive(Debug)]
pub(crate) struct Sequence {
    kernels: Arc<[Arc<BoundFunction>]>,
    state: Mutex<SequenceState>,
}

#[derive(Debug, Default)]
struct SequenceState {
    has_run: bool,
    is_rejected: bool,
    graphs: Vec<Arc<SequenceGraph>>,
}

impl Sequence {
    /// A sequence of at least one kernel.
    pub(crate) fn new(kernels: Vec<Arc<BoundFunction>>) -> Sequence {
        Sequence { kernels: kernels.into(), state: Mutex::default() }
    }

    /// The name of the first kernel.
    pub(crate) fn name(&self) -> &str {
        self.kernels.first().map_or("", |kernel| kernel.name())
    }

    /// Submits all kernels to a stream. Returns false, and submits none, if they must be launched one by one.
    ///
    /// # Errors
    ///
    /// An error that means that the device is lost.
    pub(crate) fn launch(
        &self,
        stream: &Arc<Stream>,
        queue: &mut TaskQueue<Completion>,
        bindings: &[i64],
    ) -> Result<bool, CallError> {
        let mut state = lock(&self.state);
        if state.is_rejected || !std::mem::replace(&mut state.has_run, true) {
            return Ok(false);
        }
        let launched = state
            .graph_for(stream, || SequenceGraph::new(stream, &self.kernels, bindings))
            .and_then(|graph| graph.launch(queue, bindings));
        match launched {
            Err(error) if !is_device_lost(&error) => {
                tracing::warn!(%error, first = self.name(), "graph rejected; its kernels are launched one by one");
                state.is_rejected = true;
                Ok(false)
            }
            launched => launched.map(|()| true),
        }
    }
}

impl SequenceState {
    /// The graph for a stream, made by `make` if there is none.
    fn graph_for(
        &mut self,
        stream: &Arc<Stream>,
        make: impl FnOnce() -> Result<SequenceGraph, CallError>,
    ) -> Result<Arc<SequenceGraph>, CallError> {
        let of_this = |graph: &&Arc<SequenceGraph>| std::ptr::eq(graph.stream.as_ptr(), Arc::as_ptr(stream));
        if let Some(found) = self.graphs.iter().find(of_this) {
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(make()?);
        self.graphs.retain(|graph| graph.stream.strong_count() > 0);
        self.graphs.push(Arc::clone(&made));
        Ok(made)
    }
}

/// A sequence as a graph for one stream. Pending tasks hold references to it.
#[derive(Debug)]
pub(crate) struct SequenceGraph {
    /// The graph and its current bindings. Declared first, so that it is dropped before the kernels that it
    /// uses.
    graph: Mutex<(Graph, Vec<i64>)>,
    kernels: Arc<[Arc<BoundFunction>]>,
    stream: Weak<Stream>,
}

impl SequenceGraph {
    fn new(
        stream: &Arc<Stream>,
        kernels: &Arc<[Arc<BoundFunction>]>,
        bindings: &[i64],
    ) -> Result<SequenceGraph, CallError> {
        let shared: &SharedState = &stream.shared;
        let mut graph = Graph::new(&shared.context)?;
        for (kernel, own) in split_bindings(kernels, bindings) {
            graph.add(launch(kernel, &kernel.params(own)))?;
        }
        graph.finish()?;
        let (graph, kernels) = (Mutex::new((graph, bindings.to_vec())), Arc::clone(kernels));
        Ok(SequenceGraph { graph, kernels, stream: Arc::downgrade(stream) })
    }

    /// Launches the graph. Updates the parameters of kernels whose bindings have changed.
    fn launch(
        self: &Arc<Self>,
        queue: &mut TaskQueue<Completion>,
        bindings: &[i64],
    ) -> Result<(), CallError> {
        let (graph, there) = &mut *lock(&self.graph);
        let own = split_bindings(&self.kernels, bindings).zip(split_bindings(&self.kernels, there));
        for (at, ((kernel, own), (_, before))) in own.enumerate() {
            if own != before {
                graph.set(at, launch(kernel, &kernel.params(own)))?;
            }
        }
        there.copy_from_slice(bindings);
        queue.launch_graph(graph, Arc::clone(self) as Arc<_>)
    }

    pub(crate) fn kernels(&self) -> &[Arc<BoundFunction>] {
        &self.kernels
    }
}

fn launch<'a>(kernel: &'a BoundFunction, params: &'a Params) -> KernelLaunch<'a> {
    KernelLaunch { function: kernel.function(), grid: kernel.grid(), params }
}

/// Yields each kernel with its own part of the bindings.
fn split_bindings<'a>(
    kernels: &'a [Arc<BoundFunction>],
    bindings: &'a [i64],
) -> impl Iterator<Item = (&'a BoundFunction, &'a [i64])> {
    let mut rest = bindings;
    kernels.iter().map(move |kernel| {
        let (own, behind) = rest.split_at(kernel.static_indices().min(rest.len()));
        rest = behind;
        (&**kernel, own)
    })
}
