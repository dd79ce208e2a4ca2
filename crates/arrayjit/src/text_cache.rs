//! Finds the code of a text that is compiled again over the same nodes.
//!
//! Programs that compile where they compute, such as a function that is called for each request, compile the
//! same text again and again. A text over the same nodes has the same code, unless the mode of a node has
//! changed since; the nodes that the text makes are made anew for each compilation.
//!
//! # Invariants
//! * The cache keeps no node alive.
//! * A result that is found has the effects of the compilation that it replaces: the caller commits its
//!   changes to the computations of virtual nodes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use assignments::Nodes;
use lru::LruCache;
use tnode::{NodeBuilder, Outcomes, TensorNode, WeakNode};

use crate::{cache::artifact_bytes, compiled::Compiled};

/// The most texts of a cache: as many as a program compiles in turns.
const MAX_TEXTS: usize = 64;

/// Bytes of IR and descriptions for each byte of machine code, roughly.
const IR_BYTES_PER_CODE_BYTE: usize = 4;

/// The compiled texts of a backend, within the limit of its code cache.
#[derive(Debug)]
pub(crate) struct TextCache {
    /// The most bytes, roughly.
    limit: usize,
    kept: Mutex<KeptTexts>,
}

/// The compiled texts in the order of use.
#[derive(Debug)]
struct KeptTexts {
    entries: LruCache<TextKey, KeptText>,
    /// The sum of the entries' bytes.
    bytes: usize,
}

/// A text with the nodes that it may mention and the name given to its routine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TextKey {
    text: Box<str>,
    name: Option<Box<str>>,
    nodes: Box<[WeakNode]>,
}

/// A compiled text.
#[derive(Debug)]
struct KeptText {
    /// The result without nodes.
    compiled: Compiled,
    nodes: Vec<KeptNode>,
    /// The nodes that the text made, by name.
    text_nodes: Vec<(String, TextNode)>,
    /// Bytes of the text, the code and its descriptions, roughly.
    bytes: usize,
}

/// A node of a compiled text.
#[derive(Debug)]
enum KeptNode {
    /// A node of the caller, with the outcomes that were possible for its memory.
    Given(WeakNode, Outcomes),
    /// A node that each compilation makes.
    Made(Box<NodeBuilder>),
}

/// A node that the text made.
#[derive(Debug)]
enum TextNode {
    /// The position of the node among the nodes of the code.
    OfCode(usize),
    /// A node that the code does not have.
    Unused(Box<NodeBuilder>),
}

impl TextKey {
    pub(crate) fn new(text: &str, name: Option<&str>, nodes: &[TensorNode]) -> TextKey {
        let nodes = nodes.iter().map(TensorNode::downgrade).collect();
        TextKey { text: text.into(), name: name.map(Into::into), nodes }
    }
}

impl TextCache {
    pub(crate) fn new(limit: usize) -> TextCache {
        let kept = KeptTexts { entries: LruCache::unbounded(), bytes: 0 };
        TextCache { limit, kept: Mutex::new(kept) }
    }

    /// Whether the cache keeps anything.
    pub(crate) fn has_room(&self) -> bool {
        self.limit > 0
    }

    /// The result of the text's earlier compilation over nodes of its own, if it still holds.
    pub(crate) fn find(&self, key: &TextKey) -> Option<Compiled> {
        self.lock().entries.get(key)?.compiled()
    }

    /// Keeps a compiled text, if its result would be the same for other nodes of its own.
    pub(crate) fn keep(&self, key: TextKey, compiled: &Compiled) {
        let entry = KeptText::new(&key, compiled).filter(|entry| entry.bytes <= self.limit);
        // Code is freed without the lock.
        drop(entry.map(|entry| self.lock().insert(key, entry, self.limit)));
    }

    fn lock(&self) -> MutexGuard<'_, KeptTexts> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptTexts {
    /// Adds an entry and returns the evicted ones.
    fn insert(&mut self, key: TextKey, entry: KeptText, limit: usize) -> Vec<KeptText> {
        self.bytes += entry.bytes;
        let mut removed: Vec<KeptText> = self.entries.put(key, entry).into_iter().collect();
        self.bytes -= removed.iter().map(|replaced| replaced.bytes).sum::<usize>();
        while self.entries.len() > MAX_TEXTS || self.bytes > limit {
            let Some((_, evicted)) = self.entries.pop_lru() else { break };
            self.bytes -= evicted.bytes;
            removed.push(evicted);
        }
        removed
    }
}

impl KeptText {
    /// `None` for a result that depends on more than the text and the modes of the caller's nodes: initial
    /// values are assignments to the very nodes that the text made, and the computations of other routines'
    /// virtual nodes may change.
    fn new(key: &TextKey, compiled: &Compiled) -> Option<KeptText> {
        let is_alone = !compiled.has_initial_values() && !compiled.has_imports();
        if !is_alone || !compiled.fallbacks().is_empty() {
            return None;
        }
        let kept = |node: &TensorNode| {
            let weak = node.downgrade();
            Some(match key.nodes.contains(&weak) {
                true => KeptNode::Given(weak, node.mode().outcomes()),
                false => KeptNode::Made(Box::new(builder(node)?)),
            })
        };
        let nodes: Vec<KeptNode> = compiled.nodes().iter().map(kept).collect::<Option<_>>()?;
        let positions: HashMap<&TensorNode, usize> =
            compiled.nodes().iter().enumerate().map(|(at, node)| (node, at)).collect();
        let text_node = |(name, node): (&str, &TensorNode)| {
            let node = match positions.get(node) {
                Some(&at) => TextNode::OfCode(at),
                None => TextNode::Unused(Box::new(builder(node)?)),
            };
            Some((name.to_owned(), node))
        };
        let text_nodes = compiled.text_nodes().by_name().map(text_node).collect::<Option<_>>()?;
        let code = compiled.codes().map(|code| artifact_bytes(code.artifact(), key.text.len()));
        let bytes = key.text.len() + code.sum::<usize>() * (1 + IR_BYTES_PER_CODE_BYTE);
        Some(KeptText { compiled: compiled.over(Vec::new(), Nodes::default()), nodes, text_nodes, bytes })
    }

    /// The result with its nodes, if the caller's nodes are as they were.
    fn compiled(&self) -> Option<Compiled> {
        let node = |kept: &KeptNode| match kept {
            KeptNode::Given(node, before) => {
                node.upgrade().filter(|node| has_same_code(*before, node.mode().outcomes()))
            }
            KeptNode::Made(builder) => NodeBuilder::clone(builder).build().ok(),
        };
        let nodes: Vec<TensorNode> = self.nodes.iter().map(node).collect::<Option<_>>()?;
        let mut text_nodes = Nodes::default();
        for (name, node) in &self.text_nodes {
            let node = match node {
                TextNode::OfCode(at) => nodes[*at].clone(),
                TextNode::Unused(builder) => NodeBuilder::clone(builder).build().ok()?,
            };
            text_nodes.insert(name.as_str(), node);
        }
        Some(self.compiled.over(nodes, text_nodes))
    }
}

/// Whether code for a node with the outcomes `before` is right for the outcomes `now`. Code is the same for
/// all kinds of memory that routines may write, among which linking decides.
fn has_same_code(before: Outcomes, now: Outcomes) -> bool {
    let written = [
        Outcomes::ON_DEVICE_PER_STREAM,
        Outcomes::ON_DEVICE_SHARED,
        Outcomes::HOSTED_CHANGED_PER_STREAM,
        Outcomes::HOSTED_CHANGED_SHARED,
    ];
    let may_be_written = |outcomes: Outcomes| written.into_iter().any(|kind| outcomes.contains(kind));
    before == now || (may_be_written(before) && may_be_written(now) && before.contains(now))
}

/// A builder of nodes like this one; `None` for a view, which stands for a part of another node.
fn builder(node: &TensorNode) -> Option<NodeBuilder> {
    if node.view().is_some() { None } else { node.to_builder().ok() }
}
