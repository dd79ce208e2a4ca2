//! Where threads of a workgroup have to meet, as data, and as rarely as follows from which thread touches what.
//!
//! Threads meet before a statement if it conflicts with something done since they last met: one of the two writes what the other touches,
//! and it is not plain that each thread touches only what it touched before. That is plain where the indices of both tell
//! the thread, by the same digit of the same dimension. Loops are walked until nothing changes, since what stands at their end comes before
//! what stands at their beginning.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lowered_ir::ir::{Affine, Expr, LocalId, LoopId, LoopKind, NodeRef, Routine, Space, Stmt, Var, walk};

use super::launch::has_workgroup_loops;

/// Statements of a kernel that are written as one, and locals that are not in memory because of that.
#[derive(Debug, Default)]
pub struct Fused {
    /// How many statements of its block, from this one on, are one.
    pub runs: HashMap<*const Stmt, usize>,
    /// What they hand on without memory.
    pub hidden: BTreeSet<LocalId>,
}

/// The statements before which the threads of a workgroup meet.
#[derive(Debug, Default)]
pub struct MeetingPlaces {
    before: HashSet<*const Stmt>,
}

impl MeetingPlaces {
    /// The places in a kernel with workgroup loops.
    pub fn of(kernel: &Routine, fused: &Fused) -> MeetingPlaces {
        let shared = kernel.locals().into_iter().filter(|(_, decl)| decl.space == Space::Workgroup);
        let shared = shared.map(|(local, _)| local).filter(|local| !fused.hidden.contains(local)).collect();
        let mut search = Search { shared, fused, ranges: ranges(kernel), places: MeetingPlaces::default() };
        search.block(&kernel.body, &mut State::new());
        search.places
    }

    /// Whether the threads meet before a statement of the kernel.
    pub fn is_before(&self, stmt: &Stmt) -> bool {
        self.before.contains(&std::ptr::from_ref(stmt))
    }
}

/// Memory that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Array {
    Node(NodeRef),
    Local(LocalId),
}

/// A digit of an index that is one of the thread's number: `index / unit mod extent`, where `offset` is taken from the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Digit {
    dim: usize,
    unit: i64,
    extent: i64,
    offset: i64,
}

/// Who touches an element.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    /// All threads, or some of them.
    Anyone,
    /// The thread that the element's index tells, by these digits of its number.
    One(Vec<Digit>),
}

/// What is done to an array.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    array: Array,
    writes: bool,
    by: By,
}

impl Access {
    fn conflicts(&self, other: &Access) -> bool {
        let is_same_thread = self.by != By::Anyone && self.by == other.by;
        self.array == other.array && (self.writes || other.writes) && !is_same_thread
    }
}

/// What was done since the threads last met.
type State = BTreeSet<Access>;

struct Search<'a> {
    /// Workgroup locals in memory.
    shared: BTreeSet<LocalId>,
    fused: &'a Fused,
    /// The least and the greatest value of each variable.
    ranges: BTreeMap<Var, (i64, i64)>,
    places: MeetingPlaces,
}

fn ranges(kernel: &Routine) -> BTreeMap<Var, (i64, i64)> {
    let mut ranges = BTreeMap::new();
    walk::each_stmt(&kernel.body, &mut |stmt| {
        if let Stmt::For { var, lo, hi, .. } = stmt {
            ranges.insert(Var::Loop(*var), (*lo, hi.limit.saturating_sub(1)));
        }
    });
    ranges
}

impl Search<'_> {
    fn block(&mut self, block: &[Stmt], state: &mut State) {
        let mut rest = block;
        while let Some(stmt) = rest.first() {
            let len = self.fused.runs.get(&std::ptr::from_ref(stmt)).copied().unwrap_or(1).max(1);
            let (these, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            match stmt {
                // Its iterations are those of different workgroups.
                Stmt::For { kind: LoopKind::Parallel, body, .. } => self.block(body, state),
                // Without workgroup loops in it all threads run it alike, and have met before.
                Stmt::For { hi, kind, body, .. }
                    if *kind != LoopKind::Workgroup && has_workgroup_loops(body) =>
                {
                    let may_be_skipped = hi.symbol.is_some();
                    self.repeated(body, state, may_be_skipped);
                }
                stmt => {
                    let mut own = State::new();
                    these.iter().for_each(|stmt| self.accesses(stmt, &mut Vec::new(), &mut own));
                    if these.len() > 1 {
                        // Which thread does what of them is its business who writes them as one.
                        own = own.into_iter().map(|access| Access { by: By::Anyone, ..access }).collect();
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

    /// The body of a loop, from every state that its iterations may begin in.
    fn repeated(&mut self, body: &[Stmt], state: &mut State, may_be_skipped: bool) {
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

    /// What a statement does, in workgroup loops of these variables.
    fn accesses(&self, stmt: &Stmt, threads: &mut Vec<LoopId>, found: &mut State) {
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
                self.note(Array::Node(*node), true, index, None, threads, found);
            }
            Stmt::SetDynamic { node, index, axis, .. } => {
                self.note(Array::Node(*node), true, index, Some(*axis), threads, found);
            }
            Stmt::Zero { node } => self.note(Array::Node(*node), true, &[], None, &[], found),
            Stmt::SetLocal { local, index, .. } if self.shared.contains(local) => {
                self.note(Array::Local(*local), true, index, None, threads, found);
            }
            Stmt::SetLocal { .. } | Stmt::Declare { .. } | Stmt::Comment(_) | Stmt::Log { .. } => {}
        }
        for value in stmt.values() {
            walk::each_expr(value, &mut |e| match e {
                Expr::Get { node, index }
                | Expr::GetGuarded { node, index, .. }
                | Expr::GetMerge { node, index } => {
                    self.note(Array::Node(*node), false, index, None, threads, found);
                }
                Expr::GetDynamic { node, index, axis, .. } => {
                    self.note(Array::Node(*node), false, index, Some(*axis), threads, found);
                }
                Expr::GetLocal { local, index } if self.shared.contains(local) => {
                    self.note(Array::Local(*local), false, index, None, threads, found);
                }
                _ => {}
            });
        }
    }

    fn note(
        &self,
        array: Array,
        writes: bool,
        index: &[Affine],
        computed: Option<usize>,
        threads: &[LoopId],
        found: &mut State,
    ) {
        let by = self.thread_of(index, computed, threads).map_or(By::Anyone, By::One);
        found.insert(Access { array, writes, by });
    }

    /// The digits by which an index tells the number of the thread; none outside of workgroup loops.
    fn thread_of(&self, index: &[Affine], computed: Option<usize>, threads: &[LoopId]) -> Option<Vec<Digit>> {
        if threads.is_empty() {
            return None;
        }
        let dims = || index.iter().enumerate().filter(|(dim, _)| Some(*dim) != computed);
        // Loops of one iteration say nothing: it is the first thread that does it.
        let several = threads.iter().filter(|thread| self.ranges.get(&Var::Loop(**thread)) != Some(&(0, 0)));
        several.map(|&thread| dims().find_map(|(dim, index)| self.digit(dim, index, thread))).collect()
    }

    /// The digit of an index that is a thread's variable: what else the index is made of is either below the digit or above it.
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
    fn threads_meet_once_for_a_loop_that_all_run() {
        let body = "declare l2 f32[] register
                    for i1 in 0..64 workgroup { l0[i1] := %0[i1] }
                    for i2 in 0..4 unrolled { l2 := l2 + l0[i2] }";
        let text = routine(body);
        let mut loops = Vec::new();
        walk::each_stmt(&text.body, &mut |stmt| {
            loops.extend(matches!(stmt, Stmt::For { .. } | Stmt::SetLocal { .. }).then_some(stmt))
        });
        let places = MeetingPlaces::of(&text, &Fused::default());
        let met: Vec<bool> = loops.into_iter().map(|stmt| places.is_before(stmt)).collect();
        // The grid, the workgroup's loop and its store, the loop that all run and its step.
        assert_eq!(met, [false, false, false, true, false]);
    }

    /// Before which workgroup loops, counted in order, threads meet.
    fn places(body: &str) -> Vec<usize> {
        let routine = routine(body);
        let places = MeetingPlaces::of(&routine, &Fused::default());
        let (mut found, mut nth) = (Vec::new(), 0);
        walk::each_stmt(&routine.body, &mut |stmt| {
            if let Stmt::For { kind: LoopKind::Workgroup, .. } = stmt {
                if places.is_before(stmt) {
                    found.push(nth);
                }
                nth += 1;
            }
        });
        found
    }

    /// The kernel with this body.
    fn routine(body: &str) -> Routine {
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
    fn threads_meet_between_a_write_and_a_read_of_others() {
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
