//! Contexts: which nodes have memory, for work on one stream.
//!
//! A context is immutable: linking or initialising gives a child that sees everything its parent sees and more. Invariant:
//! a context and its ancestors agree on the buffer of every node they share.

use std::{collections::BTreeMap, fmt, sync::Arc};

use tnode::TensorNode;

use crate::{
    driver::Location,
    error::{Error, Failure},
    hazard::PendingUse,
    pool::{Buffer, lock},
    stream::Stream,
};

/// An immutable map from nodes to memory, for work on one stream. Cheap to clone; memory is freed with the last context or
/// routine that sees it.
#[derive(Clone)]
pub struct Context(Arc<ContextInner>);

struct ContextInner {
    stream: Stream,
    parent: Option<Context>,
    /// Own entries and all ancestors'.
    buffers: BTreeMap<TensorNode, Arc<Buffer>>,
}

impl Context {
    /// A context without nodes.
    pub fn new(stream: &Stream) -> Context {
        Context(Arc::new(ContextInner { stream: stream.clone(), parent: None, buffers: BTreeMap::new() }))
    }

    /// A child that sees also `fresh` buffers, which are of nodes this context lacks.
    pub(crate) fn with(&self, fresh: impl IntoIterator<Item = Arc<Buffer>>) -> Context {
        let mut buffers = self.0.buffers.clone();
        buffers.extend(fresh.into_iter().map(|buffer| (buffer.node.clone(), buffer)));
        Context(Arc::new(ContextInner { stream: self.0.stream.clone(), parent: Some(self.clone()), buffers }))
    }

    /// A child on another stream of the same device, which sees the same memory. Accesses from both are ordered.
    ///
    /// # Errors
    ///
    /// For a stream of another device.
    pub fn on_stream(&self, stream: &Stream) -> Result<Context, Error> {
        if stream.device() != self.0.stream.device() {
            return Err(Error::OtherDevice { expected: self.0.stream.name(), found: stream.name() });
        }
        let buffers = self.0.buffers.clone();
        Ok(Context(Arc::new(ContextInner { stream: stream.clone(), parent: Some(self.clone()), buffers })))
    }

    /// The stream that routines and transfers of this context run on.
    pub fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// The context this one extends.
    pub fn parent(&self) -> Option<&Context> {
        self.0.parent.as_ref()
    }

    /// Whether the node has memory here.
    pub fn contains(&self, node: &TensorNode) -> bool {
        self.0.buffers.contains_key(node)
    }

    /// The nodes that have memory here, ancestors' included, in order.
    pub fn nodes(&self) -> impl Iterator<Item = &TensorNode> {
        self.0.buffers.keys()
    }

    /// Where the node's memory is; the same in every run of the same program.
    pub fn location(&self, node: &TensorNode) -> Option<Location> {
        self.0.buffers.get(node).map(|buffer| buffer.location)
    }

    /// The scheduled uses of a node's memory that are not done, by any stream.
    pub fn pending(&self, node: &TensorNode) -> Option<PendingUse> {
        let buffer = self.0.buffers.get(node)?;
        let driver = self.0.stream.device().driver();
        Some(lock(&buffer.hazards).pending(&|event| driver.is_done(event)))
    }

    /// Why the node has no value, as far as that is known by now: its last writer failed. `None` also for nodes without memory here.
    pub fn failure(&self, node: &TensorNode) -> Option<Failure> {
        let buffer = self.0.buffers.get(node)?;
        let driver = self.0.stream.device().driver();
        lock(&buffer.hazards).failure(&|event| driver.is_done(event))
    }

    /// Takes a node's value away, for a cause outside of the device: whoever reads the node gets the failure, until it is written
    /// anew. Tasks scheduled before still read what they were to read.
    ///
    /// # Errors
    ///
    /// A node that is not in the context.
    pub fn poison(&self, node: &TensorNode, failure: &Failure) -> Result<(), Error> {
        let buffer = self.buffer(node, "poison")?;
        lock(&buffer.hazards).poison(self.0.stream.stream_id(), failure);
        Ok(())
    }

    pub(crate) fn get(&self, node: &TensorNode) -> Option<&Arc<Buffer>> {
        self.0.buffers.get(node)
    }

    /// The node's memory, or why it has none.
    pub(crate) fn buffer(&self, node: &TensorNode, access: &'static str) -> Result<&Arc<Buffer>, Error> {
        self.get(node).ok_or_else(|| {
            if node.mode().known_virtual() {
                return without_memory(node, access);
            }
            let hint = if node.mode().known_not_materialized() {
                "it lives inside one routine and has no memory of its own"
            } else {
                "initialise it (`init_from_host`) or link a routine that writes it, and use the context that gives"
            };
            Error::NotInContext { node: node.name(), stream: self.0.stream.name(), hint }
        })
    }
}

/// The error for a virtual node, which may be a view.
pub(crate) fn without_memory(node: &TensorNode, access: &'static str) -> Error {
    match node.view() {
        Some(view) => Error::View { node: node.name(), view: view.to_string(), access },
        None => Error::Virtual { node: node.name(), access },
    }
}

/// By node names, in order.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.nodes().map(TensorNode::name).collect();
        f.debug_struct("Context").field("stream", &self.0.stream).field("nodes", &nodes).finish()
    }
}
