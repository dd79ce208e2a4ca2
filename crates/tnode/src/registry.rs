//! Lookup of live nodes by id.
//!
//! A registry does not keep nodes alive: a node leaves it when its last handle is dropped. There is one
//! global registry. A program may make other registries, which have their own ids. Tests make them to get the
//! same ids in every run.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use dashmap::{DashMap, Entry};

use crate::error::{Result, TensorNodeError};
use crate::node::{Inner, NodeId, TensorNode};

/// A table of live nodes; clones are handles to the same table.
#[derive(Clone)]
pub struct Registry(Arc<Table>);

struct Table {
    serial: u64,
    next_id: AtomicU64,
    nodes: DashMap<NodeId, Weak<Inner>>,
}

static GLOBAL: LazyLock<Registry> = LazyLock::new(Registry::new);
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

impl Default for Registry {
    fn default() -> Registry {
        Registry::new()
    }
}

impl Registry {
    /// An empty registry, whose first id is 0.
    pub fn new() -> Registry {
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        Registry(Arc::new(Table { serial, next_id: AtomicU64::new(0), nodes: DashMap::new() }))
    }

    /// The registry of the process.
    pub fn global() -> &'static Registry {
        &GLOBAL
    }

    /// A number that distinguishes registries, in the order of their creation.
    pub(crate) fn serial(&self) -> u64 {
        self.0.serial
    }

    /// The live node with that id.
    pub fn find(&self, id: NodeId) -> Option<TensorNode> {
        let weak = self.0.nodes.get(&id)?.value().clone();
        weak.upgrade().map(TensorNode)
    }

    /// All live nodes, sorted by id.
    pub fn nodes(&self) -> Vec<TensorNode> {
        // Handles are dropped after the iteration: dropping a node's last handle during the iteration would
        // lock the node's shard twice.
        let mut live: Vec<TensorNode> =
            self.0.nodes.iter().filter_map(|entry| entry.value().upgrade().map(TensorNode)).collect();
        live.sort();
        live
    }

    /// The headers of the live nodes that satisfy `predicate`, one per line, sorted by id.
    pub fn headers(&self, predicate: impl Fn(&TensorNode) -> bool) -> String {
        self.nodes().iter().filter(|node| predicate(node)).map(|node| node.header() + "\n").collect()
    }

    /// Makes a node with the id `wanted` or the next free id, and enters it.
    pub(crate) fn register(
        &self,
        wanted: Option<NodeId>,
        make: impl Fn(NodeId) -> Inner,
    ) -> Result<TensorNode> {
        if let Some(id) = wanted {
            self.0.next_id.fetch_max(id.0.saturating_add(1), Ordering::Relaxed);
            let claimed = self.claim(id, make);
            return claimed.map_err(|holder| TensorNodeError::IdTaken { id: id.0, taken_by: holder.name() });
        }
        loop {
            let id = NodeId(self.0.next_id.fetch_add(1, Ordering::Relaxed));
            if let Ok(node) = self.claim(id, &make) {
                return Ok(node);
            }
        }
    }

    /// Enters a new node under `id`, or returns the live node that has it. The node is returned and not
    /// dropped here, because dropping its last handle would lock the shard that is locked here.
    fn claim(&self, id: NodeId, make: impl Fn(NodeId) -> Inner) -> Result<TensorNode, TensorNode> {
        let entry = self.0.nodes.entry(id);
        if let Entry::Occupied(taken) = &entry
            && let Some(holder) = taken.get().upgrade()
        {
            return Err(TensorNode(holder));
        }
        let node = Arc::new(make(id));
        entry.insert(Arc::downgrade(&node));
        Ok(TensorNode(node))
    }

    /// Removes the entry of a node whose last handle was dropped, unless its id is in use again.
    pub(crate) fn forget(&self, id: NodeId) {
        self.0.nodes.remove_if(&id, |_, weak| weak.strong_count() == 0);
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry({} nodes)", self.0.nodes.len())
    }
}
