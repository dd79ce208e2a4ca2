//! What a statement reads and writes, as sets: enough to tell whether two statements may change places.

use std::collections::BTreeSet;

use crate::ir::{Affine, Expr, LocalId, NodeRef, Stmt, Var, walk};

/// The nodes and locals that some statements touch.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Nodes read.
    pub reads: BTreeSet<NodeRef>,
    /// Nodes stored to or zeroed.
    pub writes: BTreeSet<NodeRef>,
    /// Locals read.
    pub local_reads: BTreeSet<LocalId>,
    /// Locals stored to.
    pub local_writes: BTreeSet<LocalId>,
    /// Locals declared.
    pub declares: BTreeSet<LocalId>,
    /// Variables that stand in some index.
    pub vars: BTreeSet<Var>,
}

impl Effects {
    /// The effects of the statements together.
    pub fn of(block: &[Stmt]) -> Effects {
        let mut effects = Effects::default();
        walk::each_stmt(block, &mut |stmt| match stmt {
            Stmt::Set { node, index, value } => {
                effects.writes.insert(*node);
                effects.mention(index);
                effects.read(value);
            }
            Stmt::SetLocal { local, index, value } => {
                effects.local_writes.insert(*local);
                effects.mention(index);
                effects.read(value);
            }
            Stmt::Zero { node } => drop(effects.writes.insert(*node)),
            Stmt::Declare { local, .. } => drop(effects.declares.insert(*local)),
            Stmt::For { .. } | Stmt::Comment(_) => {}
        });
        effects
    }

    /// Adds what evaluating the expression reads.
    pub fn read(&mut self, value: &Expr) {
        walk::each_expr(value, &mut |part| match part {
            Expr::Get { node, index } => {
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
        self.vars.extend(indices.into_iter().flat_map(|i| i.terms().iter().map(|&(var, _)| var)));
    }
}
