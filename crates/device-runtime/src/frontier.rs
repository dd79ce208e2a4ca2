//! Which routines of a context must have run before another one finds the values it was linked for.
//!
//! A context remembers, for each node, the routine linked last that writes it and those linked since that
//! read it. A routine's dependencies are those of its nodes' entries that it conflicts with. They are about
//! having run at all: the order of the runs themselves is kept by hazards, for whatever order the caller
//! chose, so nothing here stops a run.

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

/// That a routine has run.
#[derive(Debug)]
pub(crate) struct Ran {
    routine: String,
    ran: AtomicBool,
}

impl Ran {
    pub(crate) fn new(routine: &str) -> Arc<Ran> {
        Arc::new(Ran { routine: routine.to_owned(), ran: AtomicBool::new(false) })
    }

    /// Notes a run. It orders nothing, so that no ordering of memory is needed.
    pub(crate) fn set(&self) {
        self.ran.store(true, Ordering::Relaxed);
    }
}

/// Why one routine comes after another.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The node that both use.
    pub node: TensorNode,
    /// How the two uses conflict.
    pub hazard: Hazard,
    on: Arc<Ran>,
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

/// The routines linked last, by node. Cheap to clone: what clones have in common they share.
#[derive(Clone, Debug)]
pub(crate) struct Frontier(RedBlackTreeMapSync<TensorNode, Last>);

/// A node's last writer, and those that read it since, the last first.
#[derive(Clone, Debug)]
struct Last {
    writer: Option<Arc<Ran>>,
    readers: ListSync<Arc<Ran>>,
}

impl Default for Frontier {
    fn default() -> Frontier {
        Frontier(RedBlackTreeMapSync::new_sync())
    }
}

impl Frontier {
    /// Enters a routine's use of a node; answers what it comes after.
    pub(crate) fn enter(&mut self, node: &TensorNode, access: Access, ran: &Arc<Ran>) -> Vec<Dependency> {
        let nobody = || Last { writer: None, readers: ListSync::new_sync() };
        let last = self.0.get(node).cloned().unwrap_or_else(nobody);
        let on = |hazard, on: &Arc<Ran>| Dependency { node: node.clone(), hazard, on: Arc::clone(on) };
        let write = if reads(access) { Hazard::ReadAfterWrite } else { Hazard::WriteAfterWrite };
        let mut dependencies: Vec<_> = last.writer.iter().map(|writer| on(write, writer)).collect();
        let now = if writes(access) {
            let first = dependencies.len();
            dependencies.extend(last.readers.iter().map(|reader| on(Hazard::WriteAfterRead, reader)));
            dependencies[first..].reverse();
            Last { writer: Some(Arc::clone(ran)), readers: ListSync::new_sync() }
        } else {
            Last { readers: last.readers.push_front(Arc::clone(ran)), ..last }
        };
        self.0.insert_mut(node.clone(), now);
        dependencies
    }
}

/// The dependencies of a routine of several linked parts, taken as one, and whether it has run.
#[derive(Clone, Debug)]
pub struct LinkOrder {
    ran: Arc<Ran>,
    dependencies: Vec<Dependency>,
}

impl LinkOrder {
    /// As [`Routine::dependencies`](crate::Routine::dependencies), of the whole.
    pub fn dependencies(&self) -> &[Dependency] {
        &self.dependencies
    }

    /// As [`Routine::can_run`](crate::Routine::can_run), of the whole.
    pub fn can_run(&self) -> bool {
        self.dependencies.iter().all(Dependency::is_met)
    }

    /// Notes that the whole has run.
    pub fn set_ran(&self) {
        self.ran.set();
    }
}

impl Context {
    /// A child in which one routine stands for all that were linked since `before`: later routines depend on
    /// it and not on its parts. `uses` has the access of the whole to each node, so also to nodes of parts on
    /// other devices.
    pub fn as_one_routine<'n>(
        &self,
        before: &Context,
        name: &str,
        uses: impl IntoIterator<Item = (&'n TensorNode, Access)>,
    ) -> (Context, LinkOrder) {
        let ran = Ran::new(name);
        let mut frontier = before.frontier().clone();
        let mut dependencies = Vec::new();
        for (node, access) in uses {
            dependencies.extend(frontier.enter(node, access, &ran));
        }
        (self.linked([], frontier), LinkOrder { ran, dependencies })
    }
}
