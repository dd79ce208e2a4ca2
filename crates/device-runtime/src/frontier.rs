//! Dependencies between routines of a context: a routine finds the values for which it was linked only after
//! its dependencies have run.
//!
//! A context remembers for each node the routine linked last that writes it, and the routines linked since
//! then that read it. A routine depends on these routines where its access to the node conflicts with theirs.
//! A dependency only states that the other routine must have run at some time before. It prevents no run: the
//! caller chooses the order of runs, and the runtime orders their accesses by hazards.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use codegen_core::Access;
use rpds::{ListSync, RedBlackTreeMapSync};
use tnode::TensorNode;

use crate::{
    context::Context,
    hazard::{Hazard, reads, writes},
};

/// Whether a routine has run.
#[derive(Debug)]
pub(crate) struct RunFlag {
    routine: String,
    ran: AtomicBool,
}

impl RunFlag {
    pub(crate) fn new(routine: &str) -> Arc<RunFlag> {
        Arc::new(RunFlag { routine: routine.to_owned(), ran: AtomicBool::new(false) })
    }

    /// Notes a run. Relaxed, since no other memory access depends on it.
    pub(crate) fn set(&self) {
        self.ran.store(true, Ordering::Relaxed);
    }
}

/// A dependency of one routine on another.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The node that both use.
    pub node: TensorNode,
    /// The conflict between the two uses.
    pub hazard: Hazard,
    on: Arc<RunFlag>,
}

impl Dependency {
    /// The name of the routine that comes first.
    pub fn routine(&self) -> &str {
        &self.on.routine
    }

    /// Whether that routine has run since it was linked.
    pub fn is_met(&self) -> bool {
        self.on.ran.load(Ordering::Relaxed)
    }
}

/// The routines linked last, by node. Cheap to clone: clones share their common entries.
#[derive(Clone, Debug)]
pub(crate) struct Frontier(RedBlackTreeMapSync<TensorNode, LastUses>);

/// A node's last writer, and the readers since then, the latest first.
#[derive(Clone, Debug)]
struct LastUses {
    writer: Option<Arc<RunFlag>>,
    readers: ListSync<Arc<RunFlag>>,
}

impl Default for Frontier {
    fn default() -> Frontier {
        Frontier(RedBlackTreeMapSync::new_sync())
    }
}

impl Frontier {
    /// Records a routine's use of a node; returns the dependencies of that use.
    pub(crate) fn enter(&mut self, node: &TensorNode, access: Access, ran: &Arc<RunFlag>) -> Vec<Dependency> {
        let nobody = || LastUses { writer: None, readers: ListSync::new_sync() };
        let last = self.0.get(node).cloned().unwrap_or_else(nobody);
        let on = |hazard, on: &Arc<RunFlag>| Dependency { node: node.clone(), hazard, on: Arc::clone(on) };
        let write = if reads(access) { Hazard::ReadAfterWrite } else { Hazard::WriteAfterWrite };
        let mut dependencies: Vec<_> = last.writer.iter().map(|writer| on(write, writer)).collect();
        let now = if writes(access) {
            let first = dependencies.len();
            dependencies.extend(last.readers.iter().map(|reader| on(Hazard::WriteAfterRead, reader)));
            dependencies[first..].reverse();
            LastUses { writer: Some(Arc::clone(ran)), readers: ListSync::new_sync() }
        } else {
            LastUses { readers: last.readers.push_front(Arc::clone(ran)), ..last }
        };
        self.0.insert_mut(node.clone(), now);
        dependencies
    }
}

/// The dependencies of several linked routines that count as one routine, and whether that routine has run.
#[derive(Clone, Debug)]
pub struct LinkOrder {
    ran: Arc<RunFlag>,
    dependencies: Vec<Dependency>,
}

impl LinkOrder {
    /// The dependencies of the combined routine; see
    /// [`LinkedRoutine::dependencies`](crate::LinkedRoutine::dependencies).
    pub fn dependencies(&self) -> &[Dependency] {
        &self.dependencies
    }

    /// Whether all dependencies of the combined routine have run; see
    /// [`LinkedRoutine::can_run`](crate::LinkedRoutine::can_run).
    pub fn can_run(&self) -> bool {
        self.dependencies.iter().all(Dependency::is_met)
    }

    /// Notes that the combined routine has run.
    pub fn set_ran(&self) {
        self.ran.set();
    }
}

impl Context {
    /// A child in which one routine represents all routines that were linked since `before`: later routines
    /// depend on it, and not on the routines that it combines. `uses` has the access of the combined routine
    /// to each node, including nodes of routines on other devices.
    pub fn as_one_routine<'n>(
        &self,
        before: &Context,
        name: &str,
        uses: impl IntoIterator<Item = (&'n TensorNode, Access)>,
    ) -> (Context, LinkOrder) {
        let ran = RunFlag::new(name);
        let mut frontier = before.frontier().clone();
        let mut dependencies = Vec::new();
        for (node, access) in uses {
            dependencies.extend(frontier.enter(node, access, &ran));
        }
        (self.linked([], frontier), LinkOrder { ran, dependencies })
    }
}
