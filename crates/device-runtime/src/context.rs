//! Contexts: the memory of nodes, for work on one stream.
//!
//! A context is immutable: linking or initializing gives a child, which has the nodes of its parent and more.
//! Invariant: a context and its ancestors agree on the buffer of every node that they share. Finalizing
//! releases the memory early, except for memory that children and routines still refer to.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use rpds::RedBlackTreeMapSync;
use tnode::TensorNode;

use crate::{
    driver::Location,
    error::{Failure, RunError},
    event::Event,
    frontier::Frontier,
    hazard::PendingUse,
    host::Host,
    pool::{Buffer, lock},
    stream::Stream,
};

/// Contexts of a chain share all of the map except the paths to the nodes that each adds.
type Buffers = RedBlackTreeMapSync<TensorNode, Arc<Buffer>>;

/// An immutable map from nodes to memory, for work on one stream. Cheap to clone; memory is freed with the
/// last context or routine that refers to it.
///
/// Any thread may call its methods, and each copy is whole. Two calls are two tasks, between which other
/// threads may schedule theirs: threads that copy to a node, run and copy back take turns, or have contexts
/// of their own.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>);

struct ContextInner {
    stream: Stream,
    parent: Option<Context>,
    /// The nodes of this context and of all its ancestors; empty once finalized.
    buffers: Mutex<Buffers>,
    finalized: AtomicBool,
    /// The node that the merge buffer will hold when routines of this context run, if that is known.
    merge_node: Option<TensorNode>,
    /// The host whose arrays runs keep consistent with the nodes.
    host: Option<Host>,
    /// The routines linked last.
    frontier: Frontier,
}

/// Drops a chain of ancestors one by one, so that its length does not exhaust the stack.
impl Drop for ContextInner {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(mut last) = next.and_then(|parent| Arc::into_inner(parent.0)) {
            next = last.parent.take();
        }
    }
}

impl Context {
    /// A context without nodes.
    pub fn new(stream: &Stream) -> Context {
        Context(Arc::new(ContextInner {
            stream: stream.clone(),
            parent: None,
            buffers: Mutex::new(Buffers::new_sync()),
            finalized: AtomicBool::new(false),
            merge_node: None,
            host: None,
            frontier: Frontier::default(),
        }))
    }

    /// A child that differs from this context by what `change` does.
    fn child(&self, change: impl FnOnce(&mut ContextInner)) -> Context {
        let mut child = ContextInner {
            stream: self.0.stream.clone(),
            parent: Some(self.clone()),
            buffers: Mutex::new(self.buffers()),
            finalized: AtomicBool::new(false),
            merge_node: self.0.merge_node.clone(),
            host: self.0.host.clone(),
            frontier: self.0.frontier.clone(),
        };
        change(&mut child);
        Context(Arc::new(child))
    }

    /// A child with additional buffers, of nodes that this context lacks.
    pub(crate) fn with(&self, more: impl IntoIterator<Item = (TensorNode, Arc<Buffer>)>) -> Context {
        self.linked(more, self.0.frontier.clone())
    }

    /// A child with additional buffers, in which routines were linked.
    pub(crate) fn linked(
        &self,
        more: impl IntoIterator<Item = (TensorNode, Arc<Buffer>)>,
        frontier: Frontier,
    ) -> Context {
        let mut buffers = self.buffers();
        for (node, buffer) in more {
            node.set_backend_info(format!("{} {}", self.stream().name(), buffer.range.location()));
            buffers.insert_mut(node, buffer);
        }
        self.child(|child| {
            child.buffers = Mutex::new(buffers);
            child.frontier = frontier;
        })
    }

    /// A child whose merge buffer will hold a copy of the node.
    pub(crate) fn merging(&self, node: &TensorNode) -> Context {
        self.child(|child| child.merge_node = Some(node.clone()))
    }

    /// A child on another stream of the same device, with the same memory. Accesses from both streams are
    /// ordered, and both may write.
    ///
    /// # Errors
    ///
    /// [`RunError::OtherDevice`] for a stream of another device; [`RunError::Finalized`] for a finalized
    /// context.
    pub fn on_stream(&self, stream: &Stream) -> Result<Context, RunError> {
        if stream.device() != self.0.stream.device() {
            return Err(RunError::OtherDevice { expected: self.0.stream.name(), found: stream.name() });
        }
        self.alive(|| format!("a child on {}", stream.name()))?;
        let same = *stream == self.0.stream;
        if !same {
            self.buffers().values().for_each(|buffer| lock(&buffer.sharers).explicit = true);
        }
        Ok(self.child(|child| {
            child.stream = stream.clone();
            child.merge_node = child.merge_node.take().filter(|_| same);
        }))
    }

    /// A child whose runs keep the nodes consistent with their arrays on the host.
    pub(crate) fn with_host(&self, host: &Host) -> Context {
        self.child(|child| child.host = Some(host.clone()))
    }

    /// The host whose arrays runs keep consistent with the nodes, if there is one.
    pub fn host(&self) -> Option<&Host> {
        self.0.host.as_ref()
    }

    /// The stream on which routines and transfers of this context run.
    pub fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// The context that this one extends.
    pub fn parent(&self) -> Option<&Context> {
        self.0.parent.as_ref()
    }

    /// Releases the memory of this context before it is dropped, except for memory that other contexts and
    /// routines refer to. Routines of this context can no longer run. A second call has no effect.
    pub fn finalize(&self) {
        if !self.0.finalized.swap(true, Ordering::Relaxed) {
            // Dropped after the lock is released, because freeing takes time.
            let given_up = std::mem::replace(&mut *lock(&self.0.buffers), Buffers::new_sync());
            drop(given_up);
        }
    }

    /// Whether [`Context::finalize`] was called.
    pub fn is_finalized(&self) -> bool {
        self.0.finalized.load(Ordering::Relaxed)
    }

    /// Returns an error if the context was finalized; `what` names the node or routine of the failed call.
    pub(crate) fn alive(&self, what: impl FnOnce() -> String) -> Result<(), RunError> {
        if self.is_finalized() {
            return Err(RunError::Finalized { what: what(), stream: self.0.stream.name() });
        }
        Ok(())
    }

    pub(crate) fn frontier(&self) -> &Frontier {
        &self.0.frontier
    }

    fn buffers(&self) -> Buffers {
        lock(&self.0.buffers).clone()
    }

    /// Whether the node has memory in this context.
    pub fn contains(&self, node: &TensorNode) -> bool {
        self.buffers().contains_key(node)
    }

    /// The nodes with memory in this context, including ancestors', in order.
    pub fn nodes(&self) -> Vec<TensorNode> {
        self.buffers().keys().cloned().collect()
    }

    /// The location of the node's memory; the same in every run of the same program.
    pub fn location(&self, node: &TensorNode) -> Option<Location> {
        self.get(node).map(|buffer| buffer.range.location())
    }

    /// The node that the merge buffer will hold when routines linked in this context run, if a transfer made
    /// as a routine determines it.
    pub fn merge_buffer_node(&self) -> Option<&TensorNode> {
        self.0.merge_node.as_ref()
    }

    /// The scheduled uses of a node's memory that are not done, by any stream of any device. `None` also
    /// inside a task, while another use is being submitted.
    pub fn pending(&self, node: &TensorNode) -> Option<PendingUse> {
        let buffer = self.get(node)?;
        Some(buffer.table().ok()?.pending(&Event::poll))
    }

    /// The failure of the node's last writer, which leaves the node without a value. `None` while the writer
    /// is pending, and for nodes without memory in this context.
    pub fn failure(&self, node: &TensorNode) -> Option<Failure> {
        let buffer = self.get(node)?;
        buffer.table().ok()?.failure(&Event::poll)
    }

    /// Whether the node has values in this context: a task that did not fail wrote them or is scheduled to
    /// write them, or a task read the zeros that new memory counts as. `false` also inside a task, while
    /// another use is being submitted.
    pub fn is_initialized(&self, node: &TensorNode) -> bool {
        let Some(buffer) = self.get(node) else { return false };
        let Ok(mut hazards) = buffer.table() else { return false };
        !hazards.is_unwritten() && hazards.failure(&Event::poll).is_none()
    }

    /// Invalidates a node's value, for a reason outside of the device: readers of the node get the failure
    /// until it is written again. Tasks that were scheduled before still read the value.
    ///
    /// # Errors
    ///
    /// [`RunError::NotInContext`]; [`crate::DriverError::SelfWait`] inside a task, while a use of the node is
    /// being submitted.
    pub fn poison(&self, node: &TensorNode, failure: &Failure) -> Result<(), RunError> {
        let buffer = self.buffer(node, "poison")?;
        let mut table =
            buffer.table().map_err(RunError::driver(|| format!("poisoning `{}`", node.name())))?;
        table.poison(failure);
        Ok(())
    }

    /// Describes the node's memory: the decisions about its mode, its location, the streams that share it,
    /// and pending uses.
    pub fn explain(&self, node: &TensorNode) -> String {
        let mut text = node.explain();
        let stream = self.0.stream.name();
        let Some(buffer) = self.get(node) else {
            return text + &format!("not in this context of {stream}\n");
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let made = if buffer.range.is_writable() { "" } else { ", the host's array itself" };
        text += &format!("{} of {}{made}\n", buffer.range, buffer.device.name());
        text += &lock(&buffer.sharers).explain(&buffer.device.name());
        let Ok(mut hazards) = buffer.table() else {
            return text + "a task that uses it is being submitted\n";
        };
        if let Some(failure) = hazards.failure(&Event::poll) {
            text += &format!("without value: {failure}\n");
        }
        if hazards.is_unwritten() {
            text += "never written: it counts as zeros\n";
        }
        let PendingUse { writer, readers } = hazards.pending(&Event::poll);
        writer.into_iter().for_each(|writer| text += &format!("{writer} is to write it\n"));
        readers.into_iter().for_each(|reader| text += &format!("{reader} is to read it\n"));
        text
    }

    pub(crate) fn get(&self, node: &TensorNode) -> Option<Arc<Buffer>> {
        lock(&self.0.buffers).get(node).cloned()
    }

    /// The node's memory, or an error that says why it has none.
    pub(crate) fn buffer(&self, node: &TensorNode, access: &'static str) -> Result<Arc<Buffer>, RunError> {
        self.get(node).ok_or_else(|| self.lacks(node, access))
    }

    /// The node's memory, for a task that writes it.
    pub(crate) fn writable(&self, node: &TensorNode) -> Result<Arc<Buffer>, RunError> {
        let buffer = self.buffer(node, "write")?;
        if !buffer.range.is_writable() {
            return Err(RunError::ReadOnly { node: node.name(), device: buffer.device.name() });
        }
        Ok(buffer)
    }

    fn lacks(&self, node: &TensorNode, access: &'static str) -> RunError {
        if let Err(finalized) = self.alive(|| shown(node)) {
            return finalized;
        }
        if node.mode().known_virtual() {
            return without_memory(node, access);
        }
        let hint = if node.mode().known_not_materialized() {
            "it lives inside one routine and has no memory of its own; specify `MemoryMode::Materialized` for it before the \
             routine is compiled"
        } else {
            "initialize it (`init_from_host`) or link a routine that writes it, and use the context that gives"
        };
        RunError::NotInContext { node: node.name(), stream: self.0.stream.name(), hint }
    }
}

/// A node's name in messages.
pub(crate) fn shown(node: &TensorNode) -> String {
    format!("node `{}`", node.name())
}

/// The error for a virtual node, which may be a view.
pub(crate) fn without_memory(node: &TensorNode, access: &'static str) -> RunError {
    match node.view() {
        Some(view) => RunError::View { node: node.name(), view: view.to_string(), access },
        None => RunError::Virtual { node: node.name(), access },
    }
}

/// Shows the names of the nodes, in order.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.nodes().iter().map(TensorNode::name).collect();
        f.debug_struct("Context").field("stream", &self.0.stream).field("nodes", &nodes).finish()
    }
}
