//! What a scan carries: elements that an earlier step has surely stored when a step reads them, such as
//! `h[t]` after `h[t + 1]`.

use crate::ir::{Affine, Block, Guard, Indices, LoopId, NodeRef, Range, Stmt};

use super::ranges::{LoopInfo, Ranges, alias};
use super::solve::{StoreTarget, solve};

/// The greatest number of steps between the store and the read of an element.
const MAX_DISTANCE: i64 = 4;

/// The stores of the body of a scan that happen in every step.
pub(super) struct CarriedStores {
    /// The variable of the scan.
    pub(super) var: LoopId,
    /// Its first value, and one past its last.
    pub(super) first: i64,
    end: i64,
    stores: Vec<CarriedStore>,
}

struct CarriedStore {
    node: NodeRef,
    /// The index, over aliases of the loop variables.
    index: Indices,
    /// The loops around it, outermost first.
    loops: Vec<LoopId>,
}

impl CarriedStores {
    /// The stores of a scan inside the loops `around`.
    pub(super) fn of(var: LoopId, around: &[LoopId], body: &Block, ranges: &Ranges) -> CarriedStores {
        let (first, end) = ranges.get(var).map_or((0, 0), |info| (info.lo, info.hi.limit));
        let mut carried = CarriedStores { var, first, end, stores: Vec::new() };
        let mut loops = around.to_vec();
        loops.push(var);
        carried.enter(body, &mut loops, around.len() + 1, ranges);
        carried
    }

    fn enter(&mut self, body: &Block, loops: &mut Vec<LoopId>, own: usize, ranges: &Ranges) {
        for stmt in body {
            match stmt {
                Stmt::For { var, body, .. } => {
                    loops.push(*var);
                    self.enter(body, loops, own, ranges);
                    loops.pop();
                }
                Stmt::Set { node, index, .. } => {
                    let runs = |var: &LoopId| ranges.get(*var).is_some_and(|info| info.runs);
                    let ends = |var: &LoopId| ranges.get(*var).is_some_and(LoopInfo::may_end_early);
                    let in_index = |var: &LoopId| index.iter().any(|i| i.mentions(*var));
                    if loops[own..].iter().all(|var| runs(var) || in_index(var) && !ends(var)) {
                        let aliased = |index: &Affine| {
                            let alias =
                                |sum: Affine, var: &LoopId| sum.substitute(*var, &Affine::var(alias(*var)));
                            loops.iter().fold(index.clone(), alias)
                        };
                        let index = index.iter().map(aliased).collect();
                        self.stores.push(CarriedStore { node: *node, index, loops: loops.clone() });
                    }
                }
                _ => {}
            }
        }
    }

    /// The number of first steps behind which an earlier step has surely stored the element that a step
    /// reads; `None` if it is unknown. `around` are the loops around the read.
    pub(super) fn distance(
        &self,
        node: NodeRef,
        index: &Indices,
        guard: Option<&Guard>,
        around: &[LoopId],
        ranges: &Ranges,
    ) -> Option<i64> {
        let steps = self.end - self.first;
        (1..=MAX_DISTANCE.min(steps)).find(|&distance| {
            let mut guard = guard.cloned().unwrap_or_default();
            guard.push(Range { index: Affine::var(self.var), lo: self.first + distance, hi: self.end });
            distance == steps
                || self
                    .stores
                    .iter()
                    .any(|store| store.node == node && self.is_earlier(store, index, &guard, around, ranges))
        })
    }

    /// Whether an earlier step stores the element, in the same iterations of the loops around the scan.
    fn is_earlier(
        &self,
        store: &CarriedStore,
        index: &Indices,
        guard: &Guard,
        around: &[LoopId],
        ranges: &Ranges,
    ) -> bool {
        let loops: Vec<LoopId> = store.loops.iter().copied().map(alias).collect();
        let target = StoreTarget { index: &store.index, loops: &loops };
        let Ok(Some(solution)) = solve(target, index, guard, ranges) else { return false };
        let behind = |var: LoopId| {
            let value = solution.values.get(&alias(var))?;
            value.plus(&Affine::term(var, -1)).as_constant()
        };
        let mut outer = around.iter().take_while(|&&var| var != self.var);
        solution.conditions.is_empty()
            && solution.kept.is_empty()
            && behind(self.var).is_some_and(|behind| behind < 0)
            && outer.all(|&var| !solution.values.contains_key(&alias(var)) || behind(var) == Some(0))
    }
}
