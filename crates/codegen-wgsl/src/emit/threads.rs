//! Workgroup loops: which threads run them, and where threads meet.
//!
//! A barrier stands after an outermost workgroup loop if what it touches conflicts with anything else in the kernel, or with its own
//! next time; and before one that writes what every thread has read since the last barrier. Outside of workgroup loops all
//! control flow depends on constants, symbols and the workgroup's number alone, so every thread reaches every barrier.

use std::collections::BTreeSet;

use lowered_ir::ir::{Expr, LocalId, Locals, LoopKind, NodeRef, Stmt, walk};

use super::index::Index;
use super::{Emitter, stmt};
use crate::builder::{Closed, Ty};
use crate::launch;
use crate::refusal::{Checked, refuse};

/// Memory that other threads may touch too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    nodes: BTreeSet<NodeRef>,
    shared: BTreeSet<LocalId>,
}

impl Touched {
    fn meets(&self, other: &Touched) -> (bool, bool) {
        (!self.nodes.is_disjoint(&other.nodes), !self.shared.is_disjoint(&other.shared))
    }

    fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.shared.is_empty()
    }

    fn add(&mut self, other: &Touched) {
        self.nodes.extend(&other.nodes);
        self.shared.extend(&other.shared);
    }
}

/// What some statements do to memory that threads share.
#[derive(Clone, Debug, Default)]
struct Accesses {
    reads: Touched,
    writes: Touched,
}

impl Accesses {
    fn of(body: &[Stmt], locals: &Locals) -> Accesses {
        let mut found = Accesses::default();
        walk::each_stmt(body, &mut |stmt| found.note(stmt, locals));
        found
    }

    fn note(&mut self, stmt: &Stmt, locals: &Locals) {
        match stmt {
            Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => {
                self.writes.nodes.insert(*node);
            }
            Stmt::SetLocal { local, .. } if stmt::is_shared(locals[local].space) => {
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
                Expr::GetLocal { local, .. } if stmt::is_shared(locals[local].space) => {
                    self.reads.shared.insert(*local);
                }
                _ => {}
            });
        }
    }

    /// Whether the two may not be done at once: for nodes, and for what the workgroup shares.
    fn conflict(&self, other: &Accesses) -> (bool, bool) {
        let pairs = [
            self.writes.meets(&other.writes),
            self.writes.meets(&other.reads),
            self.reads.meets(&other.writes),
        ];
        (pairs.iter().any(|p| p.0), pairs.iter().any(|p| p.1))
    }
}

impl<'k> Emitter<'k> {
    /// An outermost workgroup loop, and the barriers around it; `last` says that the kernel ends with it.
    pub(super) fn workgroup(&mut self, stmt: &'k Stmt, last: bool) -> Checked {
        if self.within.is_some() {
            return refuse("nested workgroup loops", "one stands in a loop inside of another");
        }
        let own = Accesses::of(std::slice::from_ref(stmt), &self.locals);
        let (nodes, shared) = self.pending_reads.meets(&own.writes);
        if nodes || shared {
            self.meet(nodes, shared);
        }
        self.nest(stmt)?;
        let (nodes, shared) = self.conflicts(stmt, &own);
        if !last && (nodes || shared) {
            self.meet(nodes, shared);
        }
        Ok(())
    }

    fn meet(&mut self, nodes: bool, shared: bool) {
        self.b.barrier(nodes, shared);
        if nodes {
            self.pending_reads.nodes.clear();
        }
        if shared {
            self.pending_reads.shared.clear();
        }
    }

    fn nest(&mut self, stmt: &'k Stmt) -> Checked {
        let nest = launch::nest(stmt)?;
        let Some(thread) = self.thread else { return Ok(()) };
        let extents: Vec<u32> = nest.axes.iter().map(|&(_, extent)| extent).collect();
        let digits = self.digits(thread, &extents);
        for (&(var, extent), digit) in nest.axes.iter().zip(digits) {
            let index = match digit {
                None => Index::Known(0),
                Some(digit) => {
                    let value = self.b.bitcast(Ty::I32, digit);
                    Index::Computed(value, (0, i64::from(extent) - 1))
                }
            };
            self.enter(var, index);
        }
        self.within = Some(thread);
        let is_guarded = Some(nest.threads) != self.threads;
        if is_guarded {
            let threads = self.b.u32(nest.threads);
            let takes_part = self.b.binary(naga::BinaryOperator::Less, thread, threads);
            self.b.open();
            self.block(nest.body, false)?;
            let accept = self.b.close();
            self.b.if_else(takes_part, accept, Closed::default());
        } else {
            self.block(nest.body, false)?;
        }
        self.within = None;
        nest.axes.iter().for_each(|_| self.leave());
        Ok(())
    }

    /// Whether a workgroup loop conflicts with any other part of the kernel, or with itself if it is in a loop.
    fn conflicts(&self, stmt: &Stmt, own: &Accesses) -> (bool, bool) {
        let mut found = (false, false);
        let mut others = Vec::new();
        parts(&self.routine.body, stmt, false, &mut others);
        for other in others {
            let accesses = match other {
                Part::Loop(body) => Accesses::of(body, &self.locals),
                Part::Statement(stmt) => {
                    let mut accesses = Accesses::default();
                    accesses.note(stmt, &self.locals);
                    accesses
                }
            };
            let (nodes, shared) = own.conflict(&accesses);
            found = (found.0 || nodes, found.1 || shared);
        }
        found
    }

    /// A node is read by every thread alike.
    pub(super) fn note_read(&mut self, node: NodeRef) {
        if self.threads.is_some() && self.within.is_none() {
            self.pending_reads.nodes.insert(node);
        }
    }

    /// As [`Emitter::note_read`], of a local that may be shared.
    pub(super) fn note_local_read(&mut self, local: LocalId) {
        if self.within.is_none() && stmt::is_shared(self.locals[&local].space) {
            self.pending_reads.shared.insert(local);
        }
    }

    /// At the end of a loop's body: threads meet if they have read what the next iteration writes.
    pub(super) fn meet_before_repeating(&mut self, body: &[Stmt]) {
        if self.within.is_some() || self.pending_reads.is_empty() {
            return;
        }
        let (nodes, shared) = self.pending_reads.meets(&Accesses::of(body, &self.locals).writes);
        if nodes || shared {
            self.meet(nodes, shared);
        }
    }

    /// What was read before a loop that may not run is still read after it.
    pub(super) fn keep_pending(&mut self, before: &Touched) {
        self.pending_reads.add(before);
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
