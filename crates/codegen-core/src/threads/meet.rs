//! Where threads of a workgroup meet.
//!
//! They meet after an outermost workgroup loop if what it touches conflicts with anything else in the kernel, or with its own
//! next time; and before one that writes what every thread has read since they last met. Outside of workgroup loops all
//! control flow depends on constants, symbols and the workgroup's number alone, so every thread reaches every such place.

use std::collections::BTreeSet;

use lowered_ir::ir::{Expr, LocalId, LoopKind, NodeRef, Routine, Space, Stmt, walk};

/// Memory that other threads may touch too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    nodes: BTreeSet<NodeRef>,
    shared: BTreeSet<LocalId>,
}

/// What has to be seen by all threads when they meet; nothing if they need not meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meet {
    /// Elements of nodes.
    pub nodes: bool,
    /// Elements of workgroup locals.
    pub shared: bool,
}

/// The state of a walk over a kernel: what all threads have read since they last met.
///
/// Whoever writes code calls the methods in the order of the statements, and makes the threads meet where they say so.
#[derive(Debug)]
pub struct Meetings<'k> {
    body: &'k [Stmt],
    /// The workgroup locals.
    shared: BTreeSet<LocalId>,
    pending: Touched,
}

impl Meet {
    /// Whether threads meet at all.
    pub fn is_needed(self) -> bool {
        self.nodes || self.shared
    }

    fn or(self, other: Meet) -> Meet {
        Meet { nodes: self.nodes || other.nodes, shared: self.shared || other.shared }
    }
}

impl Touched {
    fn meets(&self, other: &Touched) -> Meet {
        let (nodes, shared) = (self.nodes.is_disjoint(&other.nodes), self.shared.is_disjoint(&other.shared));
        Meet { nodes: !nodes, shared: !shared }
    }
}

impl<'k> Meetings<'k> {
    /// At the beginning of a kernel.
    pub fn of(kernel: &'k Routine) -> Meetings<'k> {
        let locals = kernel.locals();
        let shared = locals.iter().filter(|(_, decl)| decl.space == Space::Workgroup).map(|(id, _)| *id);
        Meetings { body: &kernel.body, shared: shared.collect(), pending: Touched::default() }
    }

    /// Every thread reads the node, outside of workgroup loops.
    pub fn note_read(&mut self, node: NodeRef) {
        self.pending.nodes.insert(node);
    }

    /// As [`note_read`](Meetings::note_read), of a local that may be shared.
    pub fn note_local_read(&mut self, local: LocalId) {
        if self.shared.contains(&local) {
            self.pending.shared.insert(local);
        }
    }

    /// Before an outermost workgroup loop.
    pub fn before(&mut self, stmt: &Stmt) -> Meet {
        let meet = self.pending.meets(&self.accesses(std::slice::from_ref(stmt)).writes);
        self.met(meet)
    }

    /// Behind an outermost workgroup loop of the kernel's body that is not the last thing in it.
    pub fn after(&mut self, stmt: &Stmt) -> Meet {
        let own = self.accesses(std::slice::from_ref(stmt));
        let mut others = Vec::new();
        parts(self.body, stmt, false, &mut others);
        let conflicts = others.into_iter().map(|other| own.conflict(&self.accesses_of(&other)));
        let meet = conflicts.fold(Meet::default(), Meet::or);
        self.met(meet)
    }

    /// At the end of the body of a loop around workgroup loops: threads meet if they have read what the next iteration writes.
    pub fn before_repeating(&mut self, body: &[Stmt]) -> Meet {
        if self.pending == Touched::default() {
            return Meet::default();
        }
        let meet = self.pending.meets(&self.accesses(body).writes);
        self.met(meet)
    }

    /// What has been read since the last meeting; before a loop that may not run, to be [kept](Meetings::keep) behind it.
    pub fn pending(&self) -> Touched {
        self.pending.clone()
    }

    /// What was read before a loop that may not run is still read after it.
    pub fn keep(&mut self, before: &Touched) {
        self.pending.nodes.extend(&before.nodes);
        self.pending.shared.extend(&before.shared);
    }

    fn met(&mut self, meet: Meet) -> Meet {
        if meet.nodes {
            self.pending.nodes.clear();
        }
        if meet.shared {
            self.pending.shared.clear();
        }
        meet
    }

    fn accesses(&self, block: &[Stmt]) -> Accesses {
        let mut found = Accesses::default();
        walk::each_stmt(block, &mut |stmt| found.note(stmt, &self.shared));
        found
    }

    fn accesses_of(&self, part: &Part<'_>) -> Accesses {
        match part {
            Part::Loop(block) => self.accesses(block),
            Part::Statement(stmt) => {
                let mut accesses = Accesses::default();
                accesses.note(stmt, &self.shared);
                accesses
            }
        }
    }
}

/// What some statements do to memory that threads share.
#[derive(Clone, Debug, Default)]
struct Accesses {
    reads: Touched,
    writes: Touched,
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
            walk::each_expr(value, &mut |e| match e {
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

    /// Of what the two may not be done at once.
    fn conflict(&self, other: &Accesses) -> Meet {
        let pairs = [
            self.writes.meets(&other.writes),
            self.writes.meets(&other.reads),
            self.reads.meets(&other.writes),
        ];
        pairs.into_iter().fold(Meet::default(), Meet::or)
    }
}

/// A part of a kernel between two meetings.
enum Part<'k> {
    Loop(&'k [Stmt]),
    Statement(&'k Stmt),
}

/// The parts of a kernel but for one workgroup loop, which counts if it repeats.
fn parts<'k>(block: &'k [Stmt], but: &Stmt, repeats: bool, found: &mut Vec<Part<'k>>) {
    for stmt in block {
        match stmt {
            Stmt::For { kind: LoopKind::Workgroup, .. } if std::ptr::eq(stmt, but) && !repeats => {}
            Stmt::For { kind: LoopKind::Workgroup, .. } => {
                found.push(Part::Loop(std::slice::from_ref(stmt)));
            }
            // Iterations of a parallel loop of the grid belong to different workgroups.
            Stmt::For { kind: LoopKind::Parallel, body, .. } if !repeats => parts(body, but, false, found),
            Stmt::For { body, .. } => parts(body, but, true, found),
            stmt => found.push(Part::Statement(stmt)),
        }
    }
}
