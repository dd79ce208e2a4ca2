//! Barrier placement from data flow: as few barriers as the known distribution of accesses over threads
//! allows.
//!
//! A statement needs a barrier before it if it conflicts with an access since the last barrier: both access
//! the same array, one of them writes, and it is not proved that each thread accesses only elements that it
//! accessed before. The proof is that both indices determine the thread by the same digit of the same
//! dimension. The bodies of loops are analyzed until nothing changes, because the end of an iteration
//! precedes the start of the next.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lowered_ir::ir::{
    Affine, ArrayRef, Expr, LocalId, LoopId, LoopKind, LoweredRoutine, Space, Stmt, Var, walk,
};

use super::launch::has_workgroup_loops;

/// Groups of statements that a code generator writes as one, and the locals that need no memory because of
/// that.
#[derive(Debug, Default)]
pub struct FusedStatements {
    /// The number of statements in the group that starts with this one.
    pub runs: HashMap<*const Stmt, usize>,
    /// Locals through which a group passes values in registers.
    pub hidden: BTreeSet<LocalId>,
}

/// The statements of a kernel that need a barrier before them.
#[derive(Debug, Default)]
pub struct BarrierPlacement {
    before: HashSet<*const Stmt>,
}

impl BarrierPlacement {
    /// Places the barriers of a kernel with workgroup loops.
    pub fn of(kernel: &LoweredRoutine, fused: &FusedStatements) -> BarrierPlacement {
        let shared = kernel.locals().into_iter().filter(|(_, decl)| decl.space == Space::Workgroup);
        let shared = shared.map(|(local, _)| local).filter(|local| !fused.hidden.contains(local)).collect();
        let mut search =
            PlacementSearch { shared, fused, ranges: ranges(kernel), places: BarrierPlacement::default() };
        search.block(&kernel.body, &mut PendingAccesses::new());
        search.places
    }

    /// Whether a barrier is needed before a statement of the kernel.
    pub fn is_before(&self, stmt: &Stmt) -> bool {
        self.before.contains(&std::ptr::from_ref(stmt))
    }
}

/// A digit of an index that is one of the thread's number: `(index - offset) / unit mod extent`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Digit {
    dim: usize,
    unit: i64,
    extent: i64,
    offset: i64,
}

/// The threads that access an element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Accessor {
    /// All threads, or some of them.
    Anyone,
    /// The thread whose number has these digits.
    One(Vec<Digit>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArrayAccess {
    array: ArrayRef,
    writes: bool,
    by: Accessor,
}

impl ArrayAccess {
    fn conflicts(&self, other: &ArrayAccess) -> bool {
        let is_same_thread = self.by != Accessor::Anyone && self.by == other.by;
        self.array == other.array && (self.writes || other.writes) && !is_same_thread
    }
}

/// The accesses since the last barrier.
type PendingAccesses = BTreeSet<ArrayAccess>;

struct PlacementSearch<'a> {
    /// Workgroup locals that are in memory.
    shared: BTreeSet<LocalId>,
    fused: &'a FusedStatements,
    /// The least and the greatest value of each variable.
    ranges: BTreeMap<Var, (i64, i64)>,
    places: BarrierPlacement,
}

fn ranges(kernel: &LoweredRoutine) -> BTreeMap<Var, (i64, i64)> {
    let mut ranges = BTreeMap::new();
    walk::stmts(&kernel.body).for_each(|stmt| {
        if let Stmt::For { var, lo, hi, .. } = stmt {
            ranges.insert(Var::Loop(*var), (*lo, hi.limit.saturating_sub(1)));
        }
    });
    ranges
}

impl PlacementSearch<'_> {
    fn block(&mut self, block: &[Stmt], state: &mut PendingAccesses) {
        let mut rest = block;
        while let Some(stmt) = rest.first() {
            let len = self.fused.runs.get(&std::ptr::from_ref(stmt)).copied().unwrap_or(1).max(1);
            let (these, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            match stmt {
                // The iterations belong to different workgroups, so no barrier orders one after another.
                Stmt::For { kind: LoopKind::Parallel, body, .. } => self.block(body, state),
                // Other loops run alike in all threads, after the barrier before them.
                Stmt::For { hi, kind, body, .. }
                    if *kind != LoopKind::Workgroup && has_workgroup_loops(body) =>
                {
                    let may_be_skipped = !hi.is_constant();
                    self.repeated(body, state, may_be_skipped);
                }
                stmt => {
                    let mut own = PendingAccesses::new();
                    these.iter().for_each(|stmt| self.accesses(stmt, &mut Vec::new(), &mut own));
                    if these.len() > 1 {
                        // The code generator decides which thread runs which statement of a group.
                        own = own
                            .into_iter()
                            .map(|access| ArrayAccess { by: Accessor::Anyone, ..access })
                            .collect();
                    }
                    if state.iter().any(|before| own.iter().any(|now| now.conflicts(before))) {
                        self.places.before.insert(stmt);
                        state.clear();
                    }
                    state.append(&mut own);
                }
            }
        }
    }

    /// Analyzes the body of a loop for every state in which an iteration may start.
    fn repeated(&mut self, body: &[Stmt], state: &mut PendingAccesses, may_be_skipped: bool) {
        let mut entry = state.clone();
        let end = loop {
            let mut end = entry.clone();
            self.block(body, &mut end);
            if end.is_subset(&entry) {
                break end;
            }
            entry.extend(end);
        };
        if !may_be_skipped {
            state.clear();
        }
        state.extend(end);
    }

    /// The accesses of a statement within workgroup loops of these variables.
    fn accesses(&self, stmt: &Stmt, threads: &mut Vec<LoopId>, found: &mut PendingAccesses) {
        match stmt {
            Stmt::For { var, kind, body, .. } => {
                let is_thread = *kind == LoopKind::Workgroup;
                if is_thread {
                    threads.push(*var);
                }
                body.iter().for_each(|stmt| self.accesses(stmt, threads, found));
                if is_thread {
                    threads.pop();
                }
            }
            Stmt::Set { node, index, .. } => {
                self.note(ArrayRef::Node(*node), true, index, None, threads, found);
            }
            Stmt::SetDynamic { node, index, axis, .. } => {
                self.note(ArrayRef::Node(*node), true, index, Some(*axis), threads, found);
            }
            Stmt::Zero { node } => self.note(ArrayRef::Node(*node), true, &[], None, &[], found),
            Stmt::SetLocal { local, index, .. } if self.shared.contains(local) => {
                self.note(ArrayRef::Local(*local), true, index, None, threads, found);
            }
            Stmt::SetLocal { .. } | Stmt::Declare { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
        }
        for value in stmt.values() {
            walk::parts(value).for_each(|e| match e {
                Expr::Get { node, index }
                | Expr::GetGuarded { node, index, .. }
                | Expr::GetMerge { node, index } => {
                    self.note(ArrayRef::Node(*node), false, index, None, threads, found);
                }
                Expr::GetDynamic { node, index, axis, .. } => {
                    self.note(ArrayRef::Node(*node), false, index, Some(*axis), threads, found);
                }
                Expr::GetLocal { local, index } if self.shared.contains(local) => {
                    self.note(ArrayRef::Local(*local), false, index, None, threads, found);
                }
                _ => {}
            });
        }
    }

    fn note(
        &self,
        array: ArrayRef,
        writes: bool,
        index: &[Affine],
        computed: Option<usize>,
        threads: &[LoopId],
        found: &mut PendingAccesses,
    ) {
        let by = self.thread_of(index, computed, threads).map_or(Accessor::Anyone, Accessor::One);
        found.insert(ArrayAccess { array, writes, by });
    }

    /// The digits by which an index determines the thread's number; none outside of workgroup loops.
    fn thread_of(&self, index: &[Affine], computed: Option<usize>, threads: &[LoopId]) -> Option<Vec<Digit>> {
        if threads.is_empty() {
            return None;
        }
        let dims = || index.iter().enumerate().filter(|(dim, _)| Some(*dim) != computed);
        // A loop of one iteration contributes no digit, because only the first thread runs it.
        let several = threads.iter().filter(|thread| self.ranges.get(&Var::Loop(**thread)) != Some(&(0, 0)));
        several.map(|&thread| dims().find_map(|(dim, index)| self.digit(dim, index, thread))).collect()
    }

    /// The digit of an index that is a thread's variable. All other terms must be below the digit or above
    /// it.
    fn digit(&self, dim: usize, index: &Affine, thread: LoopId) -> Option<Digit> {
        let (_, greatest) = self.ranges.get(&Var::Loop(thread))?;
        let (unit, extent) = (index.coefficient(thread), greatest + 1);
        let above = unit.checked_mul(extent).filter(|_| unit > 0)?;
        let mut below = 0i64;
        for &(var, factor) in index.terms() {
            if var == Var::Loop(thread) || factor % above == 0 {
                continue;
            }
            let &(least, greatest) = self.ranges.get(&var)?;
            if factor < 0 || least != 0 {
                return None;
            }
            below = below.checked_add(factor.checked_mul(greatest)?)?;
        }
        (below < unit).then_some(Digit { dim, unit, extent, offset: index.offset().rem_euclid(above) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn a_loop_that_all_threads_run_has_one_barrier() {
        let body = "declare l2 f32[] register
                    for i1 in 0..64 workgroup { l0[i1] := %0[i1] }
                    for i2 in 0..4 unrolled { l2 := l2 + l0[i2] }";
        let text = routine(body);
        let mut loops = Vec::new();
        walk::stmts(&text.body).for_each(|stmt| {
            loops.extend(matches!(stmt, Stmt::For { .. } | Stmt::SetLocal { .. }).then_some(stmt));
        });
        let places = BarrierPlacement::of(&text, &FusedStatements::default());
        let met: Vec<bool> = loops.into_iter().map(|stmt| places.is_before(stmt)).collect();
        // In order: the grid, the workgroup loop and its store, the loop of all threads and its store.
        assert_eq!(met, [false, false, false, true, false]);
    }

    /// The workgroup loops, counted in order, that need a barrier before them.
    fn places(body: &str) -> Vec<usize> {
        let routine = routine(body);
        let places = BarrierPlacement::of(&routine, &FusedStatements::default());
        let (mut found, mut nth) = (Vec::new(), 0);
        walk::stmts(&routine.body).for_each(|stmt| {
            if let Stmt::For { kind: LoopKind::Workgroup, .. } = stmt {
                if places.is_before(stmt) {
                    found.push(nth);
                }
                nth += 1;
            }
        });
        found
    }

    fn routine(body: &str) -> LoweredRoutine {
        let text = format!(
            "routine @k fast {{
               node %0 \"x\" f32[64] on_device
               node %1 \"y\" f32[64] on_device
               for i0 in 0..1 parallel {{ declare l0 f32[64] workgroup declare l1 f32[64] workgroup {body} }}
             }}"
        );
        let routine = lowered_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        lowered_ir::verify::verify(&routine).unwrap_or_else(|e| panic!("{e}"));
        routine
    }

    #[test]
    fn a_barrier_separates_a_write_from_a_read_of_other_threads() {
        let body = "for i1 in 0..64 workgroup { l0[i1] := %0[i1] }
                    for i2 in 0..64 workgroup { l1[i2] := %0[i2] }
                    for i3 in 0..64 workgroup { %1[i3] := l0[63 - i3] + l1[i3] }";
        assert_eq!(places(body), [2]);
    }

    #[test]
    fn threads_do_not_wait_for_themselves() {
        let body = "for i1 in 0..16 workgroup { for i2 in 0..4 { l0[i1 + 16*i2] := %0[i1] } }
                    for i3 in 0..16 workgroup { for i4 in 0..2 { %1[i3 + 16*i4] := l0[i3 + 16*i4] } }";
        assert_eq!(places(body), [0usize; 0]);
        let shifted = body.replace("l0[i3 + 16*i4]", "l0[i3 + 16*i4 + 1]");
        assert_eq!(places(&shifted), [1]);
        let fewer = body.replace("i3 in 0..16", "i3 in 0..8");
        assert_eq!(places(&fewer), [1]);
        let one = "for i1 in 0..1 workgroup { l0[5] := %0[i1] } for i2 in 0..1 workgroup { %1[i2] := l0[5] }";
        assert_eq!(places(one), [0usize; 0]);
    }

    #[test]
    fn the_next_iteration_waits_for_the_one_before() {
        let body = "for i5 in 0..4 {
                      for i1 in 0..64 workgroup { l0[i1] := %0[i1] }
                      for i2 in 0..64 workgroup { l1[i2] := %0[i2] }
                      for i3 in 0..64 workgroup { %1[i3] := %1[i3] + l0[63 - i3] + l1[63 - i3] }
                    }";
        assert_eq!(places(body), [0, 2]);
    }
}
