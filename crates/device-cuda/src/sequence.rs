//! Sequences: the kernels of a routine that runs again and again, launched together.
//!
//! A graph costs several times what its kernels cost to launch, once. So the first run of a sequence goes kernel by kernel, and the
//! second one makes the graph. A stream has a graph of its own, whose runs are tasks like any other; what was handed over keeps the
//! bindings that it was handed over with.
//!
//! A graph that the driver refuses is no failure. Its kernels are launched one by one, now and from then on: if something is wrong with
//! one of them the driver says so of that one, and everything in front of it is done.

use std::sync::{Arc, Mutex, Weak};

use crate::{
    api::{CallError, Graph, Launch, Queue},
    core::{Core, is_loss},
    kernel::{Bound, Params},
    stream::{Stream, lock, logs::Watcher},
};

/// So many kernels are worth a graph.
pub(crate) const LEAST_KERNELS: usize = 2;

/// Kernels that are launched together, in order.
#[derive(Debug)]
pub(crate) struct Sequence {
    kernels: Arc<[Arc<Bound>]>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    has_run: bool,
    is_refused: bool,
    replays: Vec<Arc<Replay>>,
}

impl Sequence {
    /// Of at least one kernel.
    pub(crate) fn new(kernels: Vec<Arc<Bound>>) -> Sequence {
        Sequence { kernels: kernels.into(), state: Mutex::default() }
    }

    /// The name of its first kernel.
    pub(crate) fn name(&self) -> &str {
        self.kernels.first().map_or("", |kernel| kernel.name())
    }

    /// Hands all kernels over to a stream. `false` if nothing was, since they are to be launched one by one.
    ///
    /// # Errors
    ///
    /// What means the loss of the device.
    pub(crate) fn launch(
        &self,
        stream: &Arc<Stream>,
        queue: &mut Queue<Watcher>,
        bindings: &[i64],
    ) -> Result<bool, CallError> {
        let mut state = lock(&self.state);
        if state.is_refused || !std::mem::replace(&mut state.has_run, true) {
            return Ok(false);
        }
        let launched = state
            .replay(stream, || Replay::new(stream, &self.kernels, bindings))
            .and_then(|replay| replay.launch(queue, bindings));
        match launched {
            Err(error) if !is_loss(&error) => {
                tracing::warn!(%error, first = self.name(), "graph refused; its kernels are launched one by one");
                state.is_refused = true;
                Ok(false)
            }
            launched => launched.map(|()| true),
        }
    }
}

impl State {
    /// The graph for a stream, made if there is none.
    fn replay(
        &mut self,
        stream: &Arc<Stream>,
        make: impl FnOnce() -> Result<Replay, CallError>,
    ) -> Result<Arc<Replay>, CallError> {
        let of_this = |replay: &&Arc<Replay>| std::ptr::eq(replay.stream.as_ptr(), Arc::as_ptr(stream));
        if let Some(found) = self.replays.iter().find(of_this) {
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(make()?);
        self.replays.retain(|replay| replay.stream.strong_count() > 0);
        self.replays.push(Arc::clone(&made));
        Ok(made)
    }
}

/// A sequence as a graph for one stream. A task has a share of it.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The graph, with the bindings that are in it. It goes before what its kernels use.
    graph: Mutex<(Graph, Vec<i64>)>,
    kernels: Arc<[Arc<Bound>]>,
    stream: Weak<Stream>,
}

impl Replay {
    fn new(stream: &Arc<Stream>, kernels: &Arc<[Arc<Bound>]>, bindings: &[i64]) -> Result<Replay, CallError> {
        let core: &Core = &stream.core;
        let mut graph = Graph::new(&core.context)?;
        for (kernel, own) in shares(kernels, bindings) {
            graph.add(launch(kernel, &kernel.params(own)))?;
        }
        graph.finish()?;
        let (graph, kernels) = (Mutex::new((graph, bindings.to_vec())), Arc::clone(kernels));
        Ok(Replay { graph, kernels, stream: Arc::downgrade(stream) })
    }

    /// Runs it with bindings, of which those that are others than before are put into the graph.
    fn launch(self: &Arc<Self>, queue: &mut Queue<Watcher>, bindings: &[i64]) -> Result<(), CallError> {
        let (graph, there) = &mut *lock(&self.graph);
        let own = shares(&self.kernels, bindings).zip(shares(&self.kernels, there));
        for (at, ((kernel, own), (_, before))) in own.enumerate() {
            if own != before {
                graph.set(at, launch(kernel, &kernel.params(own)))?;
            }
        }
        there.copy_from_slice(bindings);
        queue.launch_graph(graph, Arc::clone(self) as Arc<_>)
    }

    /// Its kernels, in order.
    pub(crate) fn kernels(&self) -> &[Arc<Bound>] {
        &self.kernels
    }
}

fn launch<'a>(kernel: &'a Bound, params: &'a Params) -> Launch<'a> {
    Launch { function: kernel.function(), grid: kernel.grid(), params }
}

/// Each kernel with its own values among those of all.
fn shares<'a>(
    kernels: &'a [Arc<Bound>],
    bindings: &'a [i64],
) -> impl Iterator<Item = (&'a Bound, &'a [i64])> {
    let mut rest = bindings;
    kernels.iter().map(move |kernel| {
        let (own, behind) = rest.split_at(kernel.static_indices().min(rest.len()));
        rest = behind;
        (&**kernel, own)
    })
}
