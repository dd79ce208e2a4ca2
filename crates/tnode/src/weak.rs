//! Handles that do not keep nodes alive, for tables about nodes.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use crate::node::{Inner, NodeId, TensorNode};

/// A handle to a tensor node that may have been dropped. Handles compare, order and hash by registry and id,
/// also after the node is dropped; a later node with the same id compares equal.
#[derive(Clone)]
pub struct WeakNode {
    registry: u64,
    id: NodeId,
    node: Weak<Inner>,
}

impl TensorNode {
    /// A handle that does not keep the node alive.
    pub fn downgrade(&self) -> WeakNode {
        WeakNode { registry: self.0.registry.serial(), id: self.id(), node: Arc::downgrade(&self.0) }
    }
}

impl WeakNode {
    /// The node, if it is still alive.
    pub fn upgrade(&self) -> Option<TensorNode> {
        self.node.upgrade().map(TensorNode)
    }

    fn key(&self) -> (u64, NodeId) {
        (self.registry, self.id)
    }
}

impl PartialEq for WeakNode {
    fn eq(&self, other: &WeakNode) -> bool {
        self.key() == other.key()
    }
}

impl Eq for WeakNode {}

impl PartialOrd for WeakNode {
    fn partial_cmp(&self, other: &WeakNode) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WeakNode {
    fn cmp(&self, other: &WeakNode) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for WeakNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for WeakNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeakNode({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weak_handle_finds_a_live_node_and_keeps_none() {
        let node = TensorNode::builder("w").dims([2]).build().unwrap();
        let weak = node.downgrade();
        assert_eq!(weak.upgrade().as_ref(), Some(&node));
        assert_eq!(weak, node.downgrade());
        drop(node);
        assert_eq!(weak.upgrade(), None);
    }
}
