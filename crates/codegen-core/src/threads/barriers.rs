//! Barriers that a walk over a kernel needs, for languages whose barriers name the memory they order.
//!
//! A barrier is needed after an outermost workgroup loop if its accesses conflict with any other access of
//! the kernel or with its own next execution, and before a workgroup loop that writes memory which every
//! thread has read since the last barrier. Outside of workgroup loops, control flow depends on constants,
//! symbols and the workgroup's number only, so every thread reaches every barrier.

use std::collections::BTreeSet;

use lowered_ir::ir::{Expr, LocalId, LoopKind, LoweredRoutine, NodeRef, Space, Stmt, walk};

/// Memory that threads share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedAccesses {
    nodes: BTreeSet<NodeRef>,
    shared: BTreeSet<LocalId>,
}

/// The memory that a barrier must make visible to all threads. Neither kind means that no barrier is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierScope {
    /// Elements of nodes.
    pub nodes: bool,
    /// Elements of workgroup locals.
    pub shared: bool,
}

/// Tracks the memory that all threads have read since the last barrier, during a walk over a kernel.
///
/// A code generator calls the methods in the order of the statements and writes a barrier wherever one is
/// needed.
#[derive(Debug)]
pub struct BarrierTracker<'k> {
    body: &'k [Stmt],
    /// The workgroup locals.
    shared: BTreeSet<LocalId>,
    pending: SharedAccesses,
}

impl BarrierScope {
    /// Whether a barrier is needed.
    pub fn is_needed(self) -> bool {
        self.nodes || self.shared
    }

    fn or(self, other: BarrierScope) -> BarrierScope {
        BarrierScope { nodes: self.nodes || other.nodes, shared: self.shared || other.shared }
    }
}

impl SharedAccesses {
    fn overlap(&self, other: &SharedAccesses) -> BarrierScope {
        let (nodes, shared) = (self.nodes.is_disjoint(&other.nodes), self.shared.is_disjoint(&other.shared));
        BarrierScope { nodes: !nodes, shared: !shared }
    }
}

impl<'k> BarrierTracker<'k> {
    /// The state at the start of a kernel.
    pub fn of(kernel: &'k LoweredRoutine) -> BarrierTracker<'k> {
        let locals = kernel.locals();
        let shared = locals.iter().filter(|(_, decl)| decl.space == Space::Workgroup).map(|(id, _)| *id);
        BarrierTracker { body: &kernel.body, shared: shared.collect(), pending: SharedAccesses::default() }
    }

    /// Records that every thread reads the node, outside of workgroup loops.
    pub fn note_read(&mut self, node: NodeRef) {
        self.pending.nodes.insert(node);
    }

    /// Records that every thread reads the local, which counts if it is shared.
    pub fn note_local_read(&mut self, local: LocalId) {
        if self.shared.contains(&local) {
            self.pending.shared.insert(local);
        }
    }

    /// The barrier before an outermost workgroup loop.
    pub fn before(&mut self, stmt: &Stmt) -> BarrierScope {
        let scope = self.pending.overlap(&self.accesses(std::slice::from_ref(stmt)).writes);
        self.record(scope)
    }

    /// The barrier after an outermost workgroup loop. Not needed if the loop is the last statement of the
    /// kernel.
    pub fn after(&mut self, stmt: &Stmt) -> BarrierScope {
        let own = self.accesses(std::slice::from_ref(stmt));
        let mut others = Vec::new();
        parts(self.body, stmt, false, &mut others);
        let conflicts = others.into_iter().map(|other| own.conflict(&self.accesses_of(&other)));
        let scope = conflicts.fold(BarrierScope::default(), BarrierScope::or);
        self.record(scope)
    }

    /// The barrier at the end of a loop around workgroup loops: needed if threads have read memory that the
    /// next iteration writes.
    pub fn before_repeating(&mut self, body: &[Stmt]) -> BarrierScope {
        if self.pending == SharedAccesses::default() {
            return BarrierScope::default();
        }
        let scope = self.pending.overlap(&self.accesses(body).writes);
        self.record(scope)
    }

    /// The reads since the last barrier. A code generator saves them before a loop that may not run, and
    /// passes them to [`keep`](BarrierTracker::keep) after it.
    pub fn pending(&self) -> SharedAccesses {
        self.pending.clone()
    }

    /// Adds reads from before a loop that may not run.
    pub fn keep(&mut self, before: &SharedAccesses) {
        self.pending.nodes.extend(&before.nodes);
        self.pending.shared.extend(&before.shared);
    }

    fn record(&mut self, scope: BarrierScope) -> BarrierScope {
        if scope.nodes {
            self.pending.nodes.clear();
        }
        if scope.shared {
            self.pending.shared.clear();
        }
        scope
    }

    fn accesses(&self, block: &[Stmt]) -> Accesses {
        let mut found = Accesses::default();
        walk::stmts(block).for_each(|stmt| found.note(stmt, &self.shared));
        found
    }

    fn accesses_of(&self, part: &KernelPart<'_>) -> Accesses {
        match part {
            KernelPart::Loop(block) => self.accesses(block),
            KernelPart::Statement(stmt) => {
                let mut accesses = Accesses::default();
                accesses.note(stmt, &self.shared);
                accesses
            }
        }
    }
}

/// The accesses of some statements to shared memory.
#[derive(Clone, Debug, Default)]
struct Accesses {
    reads: SharedAccesses,
    writes: SharedAccesses,
}

impl Accesses {
    fn note(&mut self, stmt: &Stmt, shared: &BTreeSet<LocalId>) {
        match stmt {
            Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => {
                self.writes.nodes.insert(*node);
            }
            Stmt::SetLocal { local, .. } if shared.contains(local) => {
                self.writes.shared.insert(*local);
            }
            Stmt::SetLocal { .. }
            | Stmt::For { .. }
            | Stmt::Declare { .. }
            | Stmt::Comment(_)
            | Stmt::Log { .. } => {}
        }
        for value in stmt.values() {
            walk::parts(value).for_each(|e| match e {
                Expr::Get { node, .. }
                | Expr::GetGuarded { node, .. }
                | Expr::GetDynamic { node, .. }
                | Expr::GetMerge { node, .. } => {
                    self.reads.nodes.insert(*node);
                }
                Expr::GetLocal { local, .. } if shared.contains(local) => {
                    self.reads.shared.insert(*local);
                }
                _ => {}
            });
        }
    }

    /// The memory in which two sets of accesses conflict.
    fn conflict(&self, other: &Accesses) -> BarrierScope {
        let pairs = [
            self.writes.overlap(&other.writes),
            self.writes.overlap(&other.reads),
            self.reads.overlap(&other.writes),
        ];
        pairs.into_iter().fold(BarrierScope::default(), BarrierScope::or)
    }
}

/// A workgroup loop or a single statement of a kernel.
enum KernelPart<'k> {
    Loop(&'k [Stmt]),
    Statement(&'k Stmt),
}

/// The parts of a kernel. The workgroup loop `but` is left out, unless an enclosing loop repeats it.
fn parts<'k>(block: &'k [Stmt], but: &Stmt, repeats: bool, found: &mut Vec<KernelPart<'k>>) {
    for stmt in block {
        match stmt {
            Stmt::For { kind: LoopKind::Workgroup, .. } if std::ptr::eq(stmt, but) && !repeats => {}
            Stmt::For { kind: LoopKind::Workgroup, .. } => {
                found.push(KernelPart::Loop(std::slice::from_ref(stmt)));
            }
            // Iterations of a parallel loop of the grid belong to different workgroups.
            Stmt::For { kind: LoopKind::Parallel, body, .. } if !repeats => parts(body, but, false, found),
            Stmt::For { body, .. } => parts(body, but, true, found),
            stmt => found.push(KernelPart::Statement(stmt)),
        }
    }
}
