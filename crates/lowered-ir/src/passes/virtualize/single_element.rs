//! Checks that a nest can be run for one element: that dropping the loops with solved variables does not
//! change the result.
//!
//! A local carries values from one iteration to the next of every loop around its uses but inside its scope.
//! If such a loop is dropped, the values it would have carried are missing. So a local must be declared
//! within the same dropped loops as each of its uses, and its indices must not mention the variables of these
//! loops.
//!
//! Where the value of a dropped loop depends on a loop further in, the nest must hold nothing but the one
//! store, since every other statement would see another value of the dropped variable in each iteration of
//! the inner loop, and the bounds of its loops must be constants.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{Expr, Indices, LocalId, LoopId, Stmt, walk};

use super::InlineRejection;

/// Checks a setter nest without the loops `dropped`; `inverted` is the field of
/// [`crate::passes::solve::Solution`].
pub(super) fn check(nest: &Stmt, dropped: &BTreeSet<LoopId>, inverted: bool) -> Result<(), InlineRejection> {
    if inverted && !(is_one_store(nest) && has_constant_bounds(nest)) {
        return Err(InlineRejection::InvertedNest);
    }
    NestCheck { dropped, around: Vec::new(), locals: BTreeMap::new() }.stmt(nest)
}

fn is_one_store(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { body, .. } => matches!(body.as_slice(), [one] if is_one_store(one)),
        Stmt::Set { .. } => true,
        _ => false,
    }
}

/// Whether no loop ends at a value that depends on another loop. A dropped variable could otherwise stand in
/// the end of a loop on which its value depends.
fn has_constant_bounds(nest: &Stmt) -> bool {
    walk::stmts(std::slice::from_ref(nest))
        .all(|stmt| !matches!(stmt, Stmt::For { hi, .. } if !hi.is_constant()))
}

struct NestCheck<'a> {
    dropped: &'a BTreeSet<LoopId>,
    /// The surrounding loops that will be dropped.
    around: Vec<LoopId>,
    /// For each local, the number of dropped loops around its declaration.
    locals: BTreeMap<LocalId, usize>,
}

impl NestCheck<'_> {
    fn stmt(&mut self, stmt: &Stmt) -> Result<(), InlineRejection> {
        match stmt {
            Stmt::For { var, body, .. } => {
                let depth = self.around.len();
                self.around.extend(self.dropped.contains(var).then_some(*var));
                body.iter().try_for_each(|s| self.stmt(s))?;
                self.around.truncate(depth);
                Ok(())
            }
            Stmt::SetLocal { local, index, .. } => {
                self.local(*local, index)?;
                self.values(stmt)
            }
            Stmt::Declare { local, .. } => {
                self.locals.insert(*local, self.around.len());
                Ok(())
            }
            Stmt::Set { .. }
            | Stmt::SetDynamic { .. }
            | Stmt::Zero { .. }
            | Stmt::Comment(_)
            | Stmt::Log { .. } => self.values(stmt),
        }
    }

    fn values(&self, stmt: &Stmt) -> Result<(), InlineRejection> {
        let mut result = Ok(());
        for value in stmt.values() {
            walk::parts(value).for_each(|part| {
                if let Expr::GetLocal { local, index } = part
                    && result.is_ok()
                {
                    result = self.local(*local, index);
                }
            });
        }
        result
    }

    /// Checks that the local is declared in the nest, inside the same dropped loops as this use, and not
    /// indexed by the variables of these loops.
    fn local(&self, local: LocalId, index: &Indices) -> Result<(), InlineRejection> {
        let mentions = |var: &LoopId| index.iter().any(|i| i.mentions(*var));
        match self.locals.get(&local) {
            None => Err(InlineRejection::LocalEscapes { local: local.to_string() }),
            Some(&depth) if depth != self.around.len() || self.around.iter().any(mentions) => {
                Err(InlineRejection::CarriedLocal { local: local.to_string() })
            }
            Some(_) => Ok(()),
        }
    }
}
