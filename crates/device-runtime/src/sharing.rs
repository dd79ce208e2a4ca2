//! Inferred sharing: which streams of a device use one buffer of a node.
//!
//! The rules, for a node that a link finds absent from its context, or that the linked code writes:
//!
//! * A node that is only read is a *candidate* on the stream that made its buffer. A link on another stream
//!   that only reads it uses the candidate's buffer, and the node's sharing becomes shared.
//! * A node that is written and is not shared becomes per-stream: each stream has its own buffer, and the
//!   candidate is withdrawn.
//! * A node whose sharing was *inferred* has one owner among the streams, the first that a link permits to
//!   write it. A second one is an error that names both.
//! * A node that the user made shared, or that contexts share explicitly ([`crate::Context::on_stream`]), may
//!   be written from any stream; runs are ordered nevertheless.
//! * A node with its own copy on several streams is no candidate.
//!
//! Decisions are made per device, under its lock, and are committed to nodes only when nothing can fail any
//! more. A candidate is a weak reference: it does not keep memory alive.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use smallvec::SmallVec;
use tnode::{Hosted, MemoryMode, ModeState, Reason, Sharing, TensorNode};

use crate::{
    error::RunError,
    pool::{Buffer, lock},
    stream::{Stream, StreamId},
};

/// The reason given for inferred sharing.
const INFERRED: &str = "links on several streams of a device use it and at most one writes it";

/// The streams that use a buffer.
#[derive(Debug, Default)]
pub(crate) struct Sharers {
    /// The stream whose context made the buffer.
    pub(crate) home: Option<StreamId>,
    /// Streams whose links found it.
    pub(crate) found_by: SmallVec<[StreamId; 2]>,
    /// The only stream that may write it, if sharing was inferred.
    pub(crate) owner: Option<StreamId>,
    /// Whether the user made a context on another stream with the same memory.
    pub(crate) explicit: bool,
}

/// The nodes of a device whose buffers links on other streams would share.
#[derive(Debug, Default)]
pub(crate) struct Candidates(BTreeMap<TensorNode, Candidate>);

#[derive(Debug)]
struct Candidate {
    buffer: Weak<Buffer>,
    /// Whether several contexts were given copies of their own, so that no copy is the node's only one.
    several: bool,
}

impl Candidates {
    /// The buffer that other streams may share.
    pub(crate) fn find(&self, node: &TensorNode) -> Option<Arc<Buffer>> {
        let candidate = self.0.get(node).filter(|candidate| !candidate.several)?;
        candidate.buffer.upgrade()
    }

    /// Adds a buffer that a context was given.
    pub(crate) fn offer(&mut self, node: &TensorNode, buffer: &Arc<Buffer>) {
        self.0.retain(|_, candidate| candidate.buffer.strong_count() > 0);
        if node.mode().known_non_cross_stream() {
            return;
        }
        let offered = Candidate { buffer: Arc::downgrade(buffer), several: false };
        self.0.entry(node.clone()).and_modify(|present| present.several = true).or_insert(offered);
    }

    /// Removes a buffer that belongs to its stream alone from now on.
    pub(crate) fn withdraw(&mut self, node: &TensorNode, buffer: &Arc<Buffer>) {
        if self.0.get(node).is_some_and(|c| std::ptr::eq(c.buffer.as_ptr(), Arc::as_ptr(buffer))) {
            self.0.remove(node);
        }
    }

    /// The nodes that may be shared, in order.
    pub(crate) fn nodes(&self) -> Vec<TensorNode> {
        self.0.keys().filter(|node| self.find(node).is_some()).cloned().collect()
    }
}

/// The decision of a link about one node.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// The node's mode, if it changes.
    pub(crate) mode: Option<ModeState>,
    /// Whether the stream becomes the owner.
    pub(crate) owns: bool,
    /// Whether the buffer stops being a candidate.
    pub(crate) withdraw: bool,
    /// Whether the stream found the buffer of another one.
    pub(crate) found: bool,
}

/// Decides about a node that is only read and was found as a candidate.
pub(crate) fn decide_read(
    node: &TensorNode,
    buffer: &Buffer,
    stream: &Stream,
) -> Result<Decided, tnode::TensorNodeError> {
    if lock(&buffer.sharers).home == Some(stream.stream_id()) {
        return Ok(Decided::default());
    }
    Ok(Decided { mode: refined(node, Sharing::Shared, INFERRED)?, found: true, ..Decided::default() })
}

/// Decides about a node that the linked code writes. `buffer` is the node's buffer in the context, or else
/// the buffer that the context would share.
pub(crate) fn decide_write(
    node: &TensorNode,
    buffer: Option<&Buffer>,
    stream: &Stream,
    routine: &str,
) -> Result<Decided, RunError> {
    let state = node.mode();
    if let Some(MemoryMode::Hosted(Hosted::Constant | Hosted::Volatile)) = state.mode() {
        let (node, routine, stream) = (node.name(), routine.to_owned(), stream.name());
        return Err(RunError::HostedWrite {
            node,
            routine,
            stream,
            mode: state.mode().map(|m| m.to_string()).unwrap_or_default(),
        });
    }
    if buffer.is_some_and(|buffer| lock(&buffer.sharers).explicit) {
        return Ok(Decided::default());
    }
    if !state.known_shared_cross_streams() {
        let mode = refined(node, Sharing::PerStream, "a routine linked on its stream writes it")?;
        return Ok(Decided { mode, withdraw: true, ..Decided::default() });
    }
    let inferred = state.chain().iter().any(|decision| decision.reason.text() == INFERRED);
    if !inferred {
        return Ok(Decided { found: true, ..Decided::default() });
    }
    match buffer.and_then(|buffer| lock(&buffer.sharers).owner) {
        Some(owner) if owner != stream.stream_id() => Err(RunError::SecondWriter {
            node: node.name(),
            device: stream.device().name(),
            owner: format!("{}:{}", stream.device().name(), owner.0),
            stream: stream.name(),
        }),
        _ => Ok(Decided { owns: true, found: true, ..Decided::default() }),
    }
}

/// The node's mode with its sharing decided, if that changes it. A mode that was never decided stays
/// undecided, since no routine that uses the node was compiled.
fn refined(
    node: &TensorNode,
    sharing: Sharing,
    reason: &'static str,
) -> Result<Option<ModeState>, tnode::TensorNodeError> {
    let before = node.mode();
    if before.mode().is_none() || before.known_non_cross_stream() || before.known_shared_cross_streams() {
        return Ok(None);
    }
    let mut state = before.clone();
    let rejected =
        |source| tnode::TensorNodeError::Mode { node: format!("{} {}", node.id(), node.name()), source };
    state.refine_sharing(sharing, Reason::new(reason)).map_err(rejected)?;
    Ok((state != before).then_some(state))
}

impl Decided {
    /// Records the decision, once the link can no longer fail.
    pub(crate) fn enter(
        &self,
        candidates: &mut Candidates,
        node: &TensorNode,
        buffer: &Arc<Buffer>,
        stream: &Stream,
    ) {
        if self.withdraw {
            candidates.withdraw(node, buffer);
        }
        let mut sharers = lock(&buffer.sharers);
        let id = stream.stream_id();
        if self.found {
            sharers.find_by(id);
        }
        if self.owns {
            sharers.owner = Some(id);
        }
    }
}

impl Sharers {
    /// Records a stream that also uses the buffer.
    pub(crate) fn find_by(&mut self, stream: StreamId) {
        if self.home != Some(stream) && !self.found_by.contains(&stream) {
            self.found_by.push(stream);
        }
    }

    /// Describes the sharing of a node by streams of the named device, for people.
    pub(crate) fn explain(&self, device: &str) -> String {
        let mut text = String::new();
        if let Some(home) = self.home {
            text += &format!("made on {device}:{}\n", home.0);
        }
        if !self.found_by.is_empty() {
            let streams: Vec<_> =
                self.found_by.iter().map(|stream| format!("{device}:{}", stream.0)).collect();
            text += &format!("shared with links on {}\n", streams.join(", "));
        }
        if let Some(owner) = self.owner {
            text += &format!("only {device}:{} may write it\n", owner.0);
        }
        if self.explicit {
            text += "contexts on several streams see it, and any may write it\n";
        }
        text
    }
}
