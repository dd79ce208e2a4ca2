//! Counts visits by running a few iterations of each loop: a compatibility mode.
//!
//! The project's predecessor decided which nodes to inline after an abstract run that stopped each loop after
//! some iterations, with static symbols of 0.
//! [`OptimizeSettings::max_tracing_dim`](super::OptimizeSettings::max_tracing_dim) selects that count in
//! place of the exact one. It misses accesses of later iterations, so it may inline nodes that the exact
//! count would keep. The analysis of whether inlining is correct stays exact.

use std::collections::HashMap;

use crate::ir::{Affine, Expr, Indices, LoweredRoutine, NodeRef, Stmt, Var, walk};

/// The maximum number of reads to run; beyond it the exact count is used.
const MAX_READS: u64 = 1 << 20;

/// For each node, the maximum number of reads of one element when every loop runs at most `limit + 1`
/// iterations; accumulations do not count. A symbol in the end of a loop counts as large.
/// `None` where that takes too long.
pub(super) fn visits(routine: &LoweredRoutine, limit: u32) -> Option<Vec<u64>> {
    let mut trace = AccessSampler {
        limit: i64::from(limit),
        values: HashMap::new(),
        counts: HashMap::new(),
        left: MAX_READS,
    };
    trace.block(&routine.body)?;
    let mut most = vec![0; routine.nodes.len()];
    for ((node, _), count) in trace.counts {
        most[node.index()] = most[node.index()].max(count);
    }
    Some(most)
}

struct AccessSampler {
    limit: i64,
    values: HashMap<Var, i64>,
    counts: HashMap<(NodeRef, Vec<i64>), u64>,
    /// Steps that may still be made.
    left: u64,
}

impl AccessSampler {
    fn block(&mut self, block: &[Stmt]) -> Option<()> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        match stmt {
            Stmt::For { var, lo, hi, body, .. } => {
                let sampled = lo.saturating_add(self.limit).saturating_add(1);
                let clips =
                    hi.clips().iter().filter(|clip| !mentions_symbols(clip)).map(|clip| self.at(clip));
                let end = clips.fold(hi.limit.min(sampled), i64::min);
                for value in *lo..end {
                    self.values.insert((*var).into(), value);
                    self.block(body)?;
                }
                self.values.remove(&(*var).into());
                Some(())
            }
            Stmt::Set { node, index, value } => self.reads(value, Some((*node, index))),
            Stmt::SetDynamic { .. }
            | Stmt::SetLocal { .. }
            | Stmt::Zero { .. }
            | Stmt::Declare { .. }
            | Stmt::Comment(_)
            | Stmt::Log { .. } => stmt.values().try_for_each(|value| self.reads(value, None)),
        }
    }

    fn reads(&mut self, value: &Expr, target: Option<(NodeRef, &Indices)>) -> Option<()> {
        let mut found = Vec::new();
        walk::parts(value).for_each(|part| match part {
            Expr::Get { node, index } | Expr::GetDynamic { node, index, .. } => found.push((*node, index)),
            Expr::GetGuarded { guard, node, index, .. }
                if guard.iter().all(|r| (r.lo..r.hi).contains(&self.at(&r.index))) =>
            {
                found.push((*node, index));
            }
            _ => {}
        });
        self.left = self.left.checked_sub(found.len() as u64)?;
        for (node, index) in found.into_iter().filter(|&(node, index)| target != Some((node, index))) {
            let element = index.iter().map(|i| self.at(i)).collect();
            *self.counts.entry((node, element)).or_insert(0) += 1;
        }
        Some(())
    }

    fn at(&self, index: &Affine) -> i64 {
        index.eval(|var| self.values.get(&var).copied().unwrap_or(0))
    }
}

fn mentions_symbols(index: &Affine) -> bool {
    index.terms().iter().any(|(var, _)| matches!(var, Var::Symbol(_)))
}
