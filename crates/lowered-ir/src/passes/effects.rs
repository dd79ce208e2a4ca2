//! The nodes and locals that a statement reads and writes, as sets: enough to decide whether two statements
//! may be swapped.

use crate::ir::{Affine, Expr, IdSet, LocalId, NodeRef, Stmt, Var, walk};

/// The nodes and locals that some statements touch.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Nodes read.
    pub reads: IdSet<NodeRef>,
    /// Nodes stored to or zeroed.
    pub writes: IdSet<NodeRef>,
    /// Locals read.
    pub local_reads: IdSet<LocalId>,
    /// Locals stored to.
    pub local_writes: IdSet<LocalId>,
    /// Locals declared.
    pub declares: IdSet<LocalId>,
    /// Whether a line is logged, so that the order of statements can be observed.
    pub logs: bool,
    /// Variables that stand in some index or in the end of a loop.
    pub vars: IdSet<Var>,
}

impl Effects {
    /// The effects of the statements together.
    pub fn of(block: &[Stmt]) -> Effects {
        let mut effects = Effects::default();
        walk::stmts(block).for_each(|stmt| {
            stmt.values().for_each(|value| effects.read(value));
            effects.own(stmt);
        });
        effects
    }

    /// The effects of both together.
    pub fn add(&mut self, other: &Effects) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
        self.local_reads.extend(&other.local_reads);
        self.local_writes.extend(&other.local_writes);
        self.declares.extend(&other.declares);
        self.logs |= other.logs;
        self.vars.extend(&other.vars);
    }

    /// Adds the effects of the statement itself, without the reads of its values.
    fn own(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Set { node, index, .. } => {
                self.writes.insert(*node);
                self.mention(index);
            }
            Stmt::SetDynamic { node, index, op, .. } => {
                self.writes.insert(*node);
                self.reads.extend(op.map(|_| *node));
                self.mention(index);
            }
            Stmt::SetLocal { local, index, .. } => {
                self.local_writes.insert(*local);
                self.mention(index);
            }
            Stmt::Log { .. } => self.logs = true,
            Stmt::Zero { node } => drop(self.writes.insert(*node)),
            Stmt::Declare { local, .. } => drop(self.declares.insert(*local)),
            Stmt::For { hi, .. } => {
                self.reads.extend(hi.condition());
                self.mention(hi.clips());
            }
            Stmt::Comment(_) => {}
        }
    }

    /// Adds the reads of an evaluation of the expression.
    pub fn read(&mut self, value: &Expr) {
        walk::parts(value).for_each(|part| match part {
            Expr::Get { node, index } | Expr::GetDynamic { node, index, .. } => {
                self.reads.insert(*node);
                self.mention(index);
            }
            Expr::GetGuarded { guard, node, index, .. } => {
                self.reads.insert(*node);
                self.mention(index);
                self.mention(guard.iter().map(|range| &range.index));
            }
            Expr::GetLocal { local, index } => {
                self.local_reads.insert(*local);
                self.mention(index);
            }
            Expr::GetMerge { index, .. } => self.mention(index),
            Expr::Index { index, .. } => self.mention([index]),
            _ => {}
        });
    }

    fn mention<'a>(&mut self, indices: impl IntoIterator<Item = &'a Affine>) {
        for index in indices {
            for &(var, _) in index.terms() {
                self.vars.insert(var);
            }
        }
    }
}
