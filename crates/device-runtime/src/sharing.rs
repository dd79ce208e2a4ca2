//! Inferred sharing: which streams of a device use one buffer of a node.
//!
//! The rules, for a node that a link finds absent from its context, or that the linked code writes:
//!
//! * A node that is only read is a *candidate* where its buffer was made. A link on another stream that only
//!   reads it takes the candidate's buffer, and the node's sharing becomes shared.
//! * A node that is written and is not shared becomes per-stream: each stream has its own, and the candidate
//!   is withdrawn.
//! * A node whose sharing was *inferred* has one owner among the streams, the first that a link lets write
//!   it. A second one is an error that names both.
//! * A node that the user made shared, or that contexts share explicitly ([`crate::Context::on_stream`]), may
//!   be written from any stream; runs are ordered all the same.
//! * A node of which streams were given copies of their own is no candidate.
//!
//! Decisions are made for each device, under its lock, and reach nodes only when nothing can fail any more. A
//! candidate is a weak reference: it does not keep memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use smallvec::SmallVec;
use tnode::{Hosted, MemoryMode, ModeState, Reason, Sharing, TensorNode};

use crate::{
    error::Error,
    pool::{Buffer, lock},
    stream::{Stream, StreamId},
};

/// What the decision to share says when it is not the user's.
const INFERRED: &str = "links on several streams of a device use it and at most one writes it";

/// Who else uses a buffer.
#[derive(Debug, Default)]
pub(crate) struct Sharers {
    /// The stream whose context made it.
    pub(crate) home: Option<StreamId>,
    /// Streams whose links found it.
    pub(crate) found_by: SmallVec<[StreamId; 2]>,
    /// The only stream that may write it, where sharing was inferred.
    pub(crate) owner: Option<StreamId>,
    /// A context on another stream was asked to see it.
    pub(crate) explicit: bool,
}

/// The candidates of a device.
#[derive(Debug, Default)]
pub(crate) struct Candidates(BTreeMap<TensorNode, Candidate>);

#[derive(Debug)]
struct Candidate {
    buffer: Weak<Buffer>,
    /// Contexts were given copies of their own, so that no one copy is the node's.
    several: bool,
}

impl Candidates {
    /// The buffer that other streams may share.
    pub(crate) fn find(&self, node: &TensorNode) -> Option<Arc<Buffer>> {
        let candidate = self.0.get(node).filter(|candidate| !candidate.several)?;
        candidate.buffer.upgrade()
    }

    /// Offers a buffer that a context was given.
    pub(crate) fn offer(&mut self, node: &TensorNode, buffer: &Arc<Buffer>) {
        self.0.retain(|_, candidate| candidate.buffer.strong_count() > 0);
        if node.mode().known_non_cross_stream() {
            return;
        }
        let offered = Candidate { buffer: Arc::downgrade(buffer), several: false };
        self.0.entry(node.clone()).and_modify(|present| present.several = true).or_insert(offered);
    }

    /// Takes a buffer out that is its stream's own from now on.
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

/// What a link decides about one node.
#[derive(Debug, Default)]
pub(crate) struct Decided {
    /// The node's mode, if it changes.
    pub(crate) mode: Option<ModeState>,
    /// The stream becomes the owner.
    pub(crate) owns: bool,
    /// The buffer is no candidate any more.
    pub(crate) withdraw: bool,
    /// The stream found it with another one.
    pub(crate) found: bool,
}

/// Decides about a node that is only read and was found as a candidate.
pub(crate) fn decide_read(
    node: &TensorNode,
    buffer: &Buffer,
    stream: &Stream,
) -> Result<Decided, tnode::Error> {
    if lock(&buffer.sharers).home == Some(stream.stream_id()) {
        return Ok(Decided::default());
    }
    Ok(Decided { mode: refined(node, Sharing::Shared, INFERRED)?, found: true, ..Decided::default() })
}

/// Decides about a node that the linked code writes; `buffer` is what the context has, or what it would
/// share.
pub(crate) fn decide_write(
    node: &TensorNode,
    buffer: Option<&Buffer>,
    stream: &Stream,
    routine: &str,
) -> Result<Decided, Error> {
    let state = node.mode();
    if let Some(MemoryMode::Hosted(Hosted::Constant | Hosted::Volatile)) = state.mode() {
        let (node, routine, stream) = (node.name(), routine.to_owned(), stream.name());
        return Err(Error::HostedWrite {
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
        Some(owner) if owner != stream.stream_id() => Err(Error::SecondWriter {
            node: node.name(),
            device: stream.device().name(),
            owner: format!("{}:{}", stream.device().name(), owner.0),
            stream: stream.name(),
        }),
        _ => Ok(Decided { owns: true, found: true, ..Decided::default() }),
    }
}

/// The node's mode with its sharing decided, if that changes it. A mode that was never decided is left alone:
/// nobody has compiled the node yet.
fn refined(
    node: &TensorNode,
    sharing: Sharing,
    reason: &'static str,
) -> Result<Option<ModeState>, tnode::Error> {
    let before = node.mode();
    if before.mode().is_none() || before.known_non_cross_stream() || before.known_shared_cross_streams() {
        return Ok(None);
    }
    let mut state = before.clone();
    let refused = |source| tnode::Error::Mode { node: format!("{} {}", node.id(), node.name()), source };
    state.refine_sharing(sharing, Reason::new(reason)).map_err(refused)?;
    Ok((state != before).then_some(state))
}

impl Decided {
    /// Enters what was decided, once the link can fail no more.
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
    /// Enters a stream that uses the buffer too.
    pub(crate) fn find_by(&mut self, stream: StreamId) {
        if self.home != Some(stream) && !self.found_by.contains(&stream) {
            self.found_by.push(stream);
        }
    }

    /// In words, for streams of a device.
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
