//! Access analysis: every read and write of each node with its loops, and facts that follow from them.
//!
//! The analysis uses exact affine reasoning over the ranges of loops and does not run iterations. It finds
//! whether a read can see an element that this routine did not write ([`NodeFacts::read_before_write`]), and
//! the maximum number of reads of an element ([`NodeFacts::visits`]). Where the exact answer is out of reach
//! the analysis errs towards *read before written* and *visited more often*, which cost memory and never
//! correctness.
//!
//! An element was written before a read if it lies in a box that earlier statements have filled
//! (`cover`), or if a store has reached it in an iteration that precedes the read, such as the
//! previous iteration of the loop around both.

use std::ops::Range;

use smallvec::SmallVec;

use crate::ir::{
    Affine, Block, Bound, Expr, Guard, IdSet, Indices, LoopId, LoopKind, LoweredRoutine, NodeRef, Stmt,
    is_mixed_radix, walk,
};

use super::carried::CarriedStores;
use super::cover::{Cuboid, UnwrittenBoxes, WrittenPatches};
use super::ranges::{LoopInfo, Ranges, alias, aliased};
use super::solve::{Solution, StoreTarget, solve};

/// One read or write of a node in the text of a routine.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeAccess {
    /// The statement's position when statements are counted in the order of the text.
    pub position: usize,
    /// The outermost statement it belongs to, as a position in the body.
    pub top: usize,
    /// The loops around it, outermost first.
    pub loops: Vec<LoopId>,
    /// The index of the element; `None` if the access is to all elements (a `zero` statement) or to an
    /// unknown one (a read at a computed index).
    pub index: Option<Indices>,
    /// Whether the access may touch no memory, because it has a guard or because its computed index may be
    /// outside of the node.
    pub guarded: bool,
    /// For a read, whether the statement stores to the very element it reads: an accumulation.
    pub accumulates: bool,
    /// For a read, the node that its statement stores to.
    pub into: Option<NodeRef>,
    /// For a read, the maximum number of times that it reads one element.
    pub visits: u64,
}

/// The accesses to one node and the facts that follow from them.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Every read, in order.
    pub reads: Vec<NodeAccess>,
    /// Every write, in order.
    pub writes: Vec<NodeAccess>,
    /// Some read may see an element that this routine has not written before.
    pub read_before_write: bool,
    /// Every element has been written when the routine ends.
    pub covered: bool,
    /// Some `zero` statement names it.
    pub zeroed: bool,
    /// The only setter stores the same constant expression everywhere, before any read.
    pub scalar_constexpr: bool,
    /// The maximum number of reads of one element; accumulations do not count.
    pub visits: u64,
    /// The routine reads the copy of this node in the merge buffer.
    pub merged: bool,
}

impl NodeFacts {
    /// Whether it is stored to or zeroed.
    pub fn is_written(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Whether its own memory is read.
    pub fn is_read(&self) -> bool {
        !self.reads.is_empty()
    }

    /// Whether it is read and never written.
    pub fn read_only(&self) -> bool {
        self.is_read() && !self.is_written()
    }

    /// The reads that are not part of an accumulation into the node itself.
    pub fn uses(&self) -> impl Iterator<Item = &NodeAccess> {
        self.reads.iter().filter(|r| !r.accumulates)
    }
}

/// The facts of every node of a routine.
#[derive(Clone, Debug)]
pub struct Facts {
    nodes: Vec<NodeFacts>,
    /// The loops and symbols of the routine.
    pub ranges: Ranges,
}

impl std::ops::Index<NodeRef> for Facts {
    type Output = NodeFacts;

    fn index(&self, node: NodeRef) -> &NodeFacts {
        &self.nodes[node.index()]
    }
}

impl Facts {
    /// Leaves a node out: it counts as not accessed.
    pub(crate) fn forget(&mut self, node: NodeRef) {
        self.nodes[node.index()] = NodeFacts::default();
    }
}

/// Analyzes a verified routine.
pub fn analyze(routine: &LoweredRoutine) -> Facts {
    analyze_from(routine, NodeRef(0))
}

/// Analyzes the accesses of a verified routine to `first` and the nodes behind it in the table. Nodes before
/// `first` count as not accessed.
pub fn analyze_from(routine: &LoweredRoutine, first: NodeRef) -> Facts {
    let ranges = Ranges::of(routine);
    let mut walker = AccessWalker::new(routine, &ranges, first.index()..routine.nodes.len());
    routine.body.iter().for_each(|stmt| walker.top_stmt(stmt));
    let mut nodes = vec![NodeFacts::default(); first.index()];
    nodes.extend(walker.finish());
    Facts { nodes, ranges }
}

/// The facts of one node after a sequence of top-level statements.
pub(super) struct NodeTracker<'a> {
    walker: AccessWalker<'a>,
    node: NodeRef,
    /// The elements of the node that have not been written.
    left: UnwrittenBoxes,
}

impl<'a> NodeTracker<'a> {
    /// The state before the first statement. Uses the tables of the routine, not its body; `ranges` are the
    /// ranges of all its loops.
    pub(super) fn new(routine: &'a LoweredRoutine, ranges: &'a Ranges, node: NodeRef) -> NodeTracker<'a> {
        let left = UnwrittenBoxes::of(whole(routine, node));
        NodeTracker { walker: AccessWalker::new(routine, ranges, node.index()..node.index() + 1), node, left }
    }

    /// Adds the accesses of the next statement.
    pub(super) fn follow(&mut self, stmt: &Stmt) {
        self.walker.top_stmt(stmt);
        self.left.shrink(&self.walker.known(self.node).written);
    }

    /// Every read so far.
    pub(super) fn reads(&self) -> &[NodeAccess] {
        &self.walker.facts(self.node).reads
    }

    /// Whether some read so far may see an element that these statements have not written before.
    pub(super) fn reads_before_write(&self) -> bool {
        self.walker.facts(self.node).read_before_write
    }

    /// Whether every element has been written by now.
    pub(super) fn is_covered(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether the analysis can no longer prove that every element has been written.
    pub(super) fn is_never_covered(&self) -> bool {
        !self.left.is_empty() && self.left.is_final()
    }
}

/// A store that happens in every iteration of its loops.
#[derive(Clone, Debug)]
struct CertainStore {
    index: Indices,
    /// The loops around it, outermost first. A loop that may have no iterations occurs in the index.
    loops: Vec<LoopId>,
}

/// The maximum number of certain stores recorded per node.
const MAX_STORES: usize = 64;

struct AccessWalker<'a> {
    routine: &'a LoweredRoutine,
    ranges: &'a Ranges,
    /// The positions of the nodes to analyze, whose states are `nodes`.
    analyzed: Range<usize>,
    nodes: Vec<NodeState>,
    /// The nodes written inside the open loops, each with the number of its patches before the write.
    recorded: Vec<(NodeRef, usize)>,
    loops: Vec<LoopId>,
    /// The scans around the statement, outermost first.
    scans: Vec<CarriedStores>,
    position: usize,
    top: usize,
}

/// The state of the analysis for one node.
#[derive(Clone, Debug, Default)]
struct NodeState {
    facts: NodeFacts,
    written: WrittenPatches,
    stored: Vec<CertainStore>,
    /// The only setter so far stores a constant expression.
    constexpr: bool,
}

impl<'a> AccessWalker<'a> {
    fn new(routine: &'a LoweredRoutine, ranges: &'a Ranges, analyzed: Range<usize>) -> AccessWalker<'a> {
        let nodes = vec![NodeState::default(); analyzed.len()];
        AccessWalker {
            routine,
            ranges,
            analyzed,
            nodes,
            recorded: Vec::new(),
            loops: Vec::new(),
            scans: Vec::new(),
            position: 0,
            top: 0,
        }
    }

    fn top_stmt(&mut self, stmt: &Stmt) {
        self.stmt(stmt);
        self.top += 1;
    }

    /// Whether the node is analyzed.
    fn follows(&self, node: NodeRef) -> bool {
        self.analyzed.contains(&node.index())
    }

    fn at(&self, node: NodeRef) -> usize {
        node.index() - self.analyzed.start
    }

    fn known(&self, node: NodeRef) -> &NodeState {
        &self.nodes[self.at(node)]
    }

    fn known_mut(&mut self, node: NodeRef) -> &mut NodeState {
        let at = self.at(node);
        &mut self.nodes[at]
    }

    fn facts(&self, node: NodeRef) -> &NodeFacts {
        &self.known(node).facts
    }

    fn facts_mut(&mut self, node: NodeRef) -> &mut NodeFacts {
        &mut self.known_mut(node).facts
    }

    fn block(&mut self, block: &Block) {
        for stmt in block {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        self.position += 1;
        match stmt {
            Stmt::For { var, hi, kind: LoopKind::Scan, body, .. } => {
                self.condition(hi);
                self.scans.push(CarriedStores::of(*var, &self.loops, body, self.ranges));
                self.looped(*var, body);
                self.scans.pop();
            }
            Stmt::For { var, hi, body, .. } => {
                self.condition(hi);
                self.looped(*var, body);
            }
            Stmt::Set { node, index, value } => {
                self.value(value, Some((*node, index)));
                self.store(*node, index, value);
            }
            Stmt::SetDynamic { node, index, axis, at, op, value } => {
                self.value(at, None);
                self.value(value, None);
                self.scatter(*node, index, *axis, op.is_some());
            }
            Stmt::SetLocal { .. } | Stmt::Log { .. } => {
                stmt.values().for_each(|value| self.value(value, None));
            }
            Stmt::Zero { node } => self.zero(*node),
            Stmt::Declare { .. } | Stmt::Comment(_) => {}
        }
    }

    /// A read of the node that ends a loop.
    fn condition(&mut self, hi: &Bound) {
        if let Some(node) = hi.condition() {
            let index = self.routine.node(node).dims.iter().map(|_| Affine::constant(0)).collect();
            self.value(&Expr::Get { node, index }, None);
        }
    }

    fn looped(&mut self, var: LoopId, body: &Block) {
        let start = self.recorded.len();
        self.loops.push(var);
        self.block(body);
        self.loops.pop();
        let info = self.ranges.get(var);
        // The first record of each node has the number of patches before the loop.
        let mut first = self.recorded.split_off(start);
        first.sort_by_key(|&(node, _)| node);
        first.dedup_by_key(|&mut (node, _)| node);
        for &(node, mark) in &first {
            self.known_mut(node).written.leave(mark, var, info);
        }
        if !self.loops.is_empty() {
            self.recorded.extend(first);
            return;
        }
        for (node, mark) in first {
            self.known_mut(node).written.join(mark);
        }
    }

    fn store(&mut self, node: NodeRef, index: &Indices, value: &Expr) {
        if !self.follows(node) {
            return;
        }
        let first = !self.facts(node).is_written();
        self.known_mut(node).constexpr = first && self.is_constexpr(value);
        // The only index of a dimension of one element is 0, whatever the variables are.
        let side =
            |(index, &dim): (&Affine, &usize)| if dim == 1 { Affine::constant(0) } else { index.clone() };
        let reached: Indices = index.iter().zip(&self.routine.node(node).dims).map(side).collect();
        self.write(node, |written| written.store(&reached));
        self.remember_store(node, index);
        let access = self.access(Some(index.clone()), false, false);
        self.facts_mut(node).writes.push(access);
    }

    /// Records elements that are surely written.
    fn write(&mut self, node: NodeRef, record: impl FnOnce(&mut WrittenPatches)) {
        let mark = self.known(node).written.mark();
        self.recorded.push((node, mark));
        record(&mut self.known_mut(node).written);
    }

    /// Records a store at a computed index. No element is certainly written, and an accumulation reads its
    /// target.
    fn scatter(&mut self, node: NodeRef, index: &Indices, axis: usize, accumulates: bool) {
        if !self.follows(node) {
            return;
        }
        self.known_mut(node).constexpr = false;
        if accumulates {
            self.read_computed(node, index, axis, Some((node, index)));
        }
        let access = self.access(Some(index.clone()), true, false);
        self.facts_mut(node).writes.push(access);
    }

    /// A read at a computed index: of any element along the dimension `axis`, as often as the loops run.
    fn read_computed(
        &mut self,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        target: Option<(NodeRef, &Indices)>,
    ) {
        if !self.follows(node) {
            return;
        }
        let mut clip = self.clip(node, index, None);
        if let (Some(side), Some(&dim)) = (clip.get_mut(axis), self.routine.node(node).dims.get(axis)) {
            *side = (0, dim as i64);
        }
        if !self.known(node).written.covers_box(&clip) {
            self.facts_mut(node).read_before_write = true;
        }
        let accumulates = target.is_some_and(|(into, _)| into == node);
        let mut access = self.access(None, true, accumulates);
        access.into = target.map(|(node, _)| node);
        access.visits = access.loops.iter().fold(1, |all, &var| all.saturating_mul(extent(var, self.ranges)));
        let facts = self.facts_mut(node);
        if !accumulates {
            facts.visits = facts.visits.saturating_add(access.visits);
        }
        facts.reads.push(access);
    }

    fn remember_store(&mut self, node: NodeRef, index: &Indices) {
        let runs = |var: &&LoopId| self.ranges.get(**var).is_some_and(|info| info.runs);
        let in_index = |var: &LoopId| index.iter().any(|i| i.mentions(*var));
        let ends = |var: &LoopId| self.ranges.get(*var).is_some_and(LoopInfo::may_end_early);
        let certain = self.loops.iter().filter(|var| !runs(var)).all(|var| in_index(var) && !ends(var));
        if self.known(node).stored.len() == MAX_STORES || !certain {
            return;
        }
        let (index, loops) = (index.clone(), self.loops.clone());
        self.known_mut(node).stored.push(CertainStore { index, loops });
    }

    /// Whether one of the stores met so far has surely reached the element.
    fn is_stored(&self, node: NodeRef, index: &Indices, guard: Option<&Guard>) -> bool {
        let always = Guard::new();
        self.known(node).stored.iter().any(|store| {
            // The read may be inside the same loops, in another iteration.
            let aliased: Indices = store.index.iter().map(aliased).collect();
            let loops: Vec<LoopId> = store.loops.iter().copied().map(alias).collect();
            let target = StoreTarget { index: &aliased, loops: &loops };
            let solution = solve(target, index, guard.unwrap_or(&always), self.ranges);
            matches!(solution, Ok(Some(s)) if s.conditions.is_empty() && s.kept.is_empty() && self.is_done(store, &s))
        })
    }

    /// Whether an earlier step of a scan around the read has surely stored the element, or, in the first
    /// steps, a statement before.
    fn is_carried(&self, node: NodeRef, index: &Indices, guard: Option<&Guard>) -> bool {
        self.scans.iter().any(|scan| {
            let distance = scan.distance(node, index, guard, &self.loops, self.ranges);
            distance.is_some_and(|distance| {
                (scan.first..scan.first + distance).all(|step| {
                    let at = |index: &Affine| index.substitute(scan.var, &Affine::constant(step));
                    let index: Indices = index.iter().map(at).collect();
                    let clip = self.clip(node, &index, guard);
                    self.known(node).written.covers(&index, &Guard::new(), &clip, self.ranges)
                })
            })
        })
    }

    /// Whether the store has surely run when the present statement reads the element. Of the loops that
    /// surround both statements and occur in the index of the store, the outermost one in which their
    /// iterations differ decides. If they differ in none, the store has run, because it stands earlier in the
    /// text.
    fn is_done(&self, store: &CertainStore, solution: &Solution) -> bool {
        let shared = store.loops.iter().zip(&self.loops).take_while(|(a, b)| a == b);
        for (&var, _) in shared.filter(|(var, _)| store.index.iter().any(|i| i.mentions(**var))) {
            let value = solution.values.get(&alias(var));
            match value.and_then(|value| value.plus(&Affine::term(var, -1)).as_constant()) {
                Some(0) => {}
                behind => return behind.is_some_and(|behind| behind < 0),
            }
        }
        true
    }

    fn zero(&mut self, node: NodeRef) {
        if !self.follows(node) {
            return;
        }
        let dims = &self.routine.node(node).dims;
        // A node without elements does not count as a constant, which would make it virtual: later routines
        // may rely on this write.
        self.known_mut(node).constexpr = !self.facts(node).is_written() && !dims.contains(&0);
        self.write(node, |written| written.store_all(dims));
        let access = self.access(None, false, false);
        let facts = self.facts_mut(node);
        facts.writes.push(access);
        facts.zeroed = true;
    }

    /// Whether the value is made of constants and of nodes that hold such values.
    fn is_constexpr(&self, value: &Expr) -> bool {
        walk::parts(value).all(|part| match part {
            Expr::Get { node, .. } => {
                self.follows(*node) && self.known(*node).constexpr && self.settled(*node)
            }
            Expr::Index { index, .. } => index.as_constant().is_some(),
            Expr::GetGuarded { .. }
            | Expr::GetDynamic { .. }
            | Expr::GetMerge { .. }
            | Expr::GetLocal { .. } => false,
            _ => true,
        })
    }

    fn settled(&self, node: NodeRef) -> bool {
        self.known(node).written.covers_box(&whole(self.routine, node))
    }

    fn value(&mut self, value: &Expr, target: Option<(NodeRef, &Indices)>) {
        walk::parts(value).for_each(|part| match part {
            Expr::Get { node, index } => self.read(*node, index, None, target),
            Expr::GetGuarded { guard, node, index, .. } => self.read(*node, index, Some(guard), target),
            Expr::GetDynamic { node, index, axis, .. } => self.read_computed(*node, index, *axis, None),
            Expr::GetMerge { node, .. } if self.follows(*node) => self.facts_mut(*node).merged = true,
            _ => {}
        });
    }

    fn read(
        &mut self,
        node: NodeRef,
        index: &Indices,
        guard: Option<&Guard>,
        target: Option<(NodeRef, &Indices)>,
    ) {
        if !self.follows(node) {
            return;
        }
        let clip = self.clip(node, index, guard);
        let always = Guard::new();
        let is_written = self.known(node).written.covers(index, guard.unwrap_or(&always), &clip, self.ranges)
            || self.is_stored(node, index, guard)
            || self.is_carried(node, index, guard);
        if !is_written {
            self.facts_mut(node).read_before_write = true;
        }
        let accumulates = target == Some((node, index));
        let mut access = self.access(Some(index.clone()), guard.is_some(), accumulates);
        access.into = target.map(|(node, _)| node);
        access.visits = visits_of(index, &access.loops, self.ranges);
        let facts = self.facts_mut(node);
        if !accumulates {
            facts.visits = facts.visits.saturating_add(access.visits);
        }
        facts.reads.push(access);
    }

    /// A box that contains all elements of a read: the bounds of the index within those of the node.
    fn clip(&self, node: NodeRef, index: &Indices, guard: Option<&Guard>) -> Cuboid {
        let empty = Guard::new();
        let dims = &self.routine.node(node).dims;
        let sides = index.iter().zip(dims).map(|(index, &dim)| {
            let bounds = self.ranges.bounds_under(index, guard.unwrap_or(&empty));
            bounds.map_or((0, dim as i64), |(lo, hi)| (lo.max(0), hi.saturating_add(1).min(dim as i64)))
        });
        sides.collect()
    }

    fn access(&self, index: Option<Indices>, guarded: bool, accumulates: bool) -> NodeAccess {
        let (position, top, loops) = (self.position, self.top, self.loops.clone());
        NodeAccess { position, top, loops, index, guarded, accumulates, into: None, visits: 0 }
    }

    fn finish(self) -> Vec<NodeFacts> {
        let routine = self.routine;
        let finish = |(at, known): (usize, NodeState)| {
            let NodeState { mut facts, written, constexpr, .. } = known;
            facts.covered = written.covers_box(&whole(routine, NodeRef(at as u32)));
            facts.scalar_constexpr = constexpr && facts.covered && !facts.read_before_write && !facts.merged;
            facts
        };
        self.analyzed.zip(self.nodes).map(finish).collect()
    }
}

fn whole(routine: &LoweredRoutine, node: NodeRef) -> Cuboid {
    routine.node(node).dims.iter().map(|&d| (0, d as i64)).collect()
}

/// The maximum number of iterations of `loops` that access one element at `index`.
///
/// A dimension whose index is a mixed-radix number of the variables not determined yet determines all of
/// them, so in `[j + i, j]` the second dimension determines `j`, and the first then `i`. If there is no such
/// dimension, the first one left determines one of its variables once the others are chosen. Variables that
/// no dimension determines repeat the read.
pub(crate) fn visits_of(index: &Indices, loops: &[LoopId], ranges: &Ranges) -> u64 {
    let mut open: IdSet<LoopId> = loops.iter().copied().collect();
    let mut repeats: u64 = 1;
    let mut dims: SmallVec<[&Affine; 4]> = index.iter().collect();
    while !dims.is_empty() {
        let at = dims.iter().position(|dim| is_mixed_radix(&mut digits(dim, &open, ranges)));
        let dim = dims.remove(at.unwrap_or(0));
        if at.is_none() {
            let extents = digits(dim, &open, ranges).into_iter().map(|(_, extent)| extent);
            let largest = extents.clone().max().unwrap_or(1).max(1);
            repeats = repeats.saturating_mul(extents.fold(1, u64::saturating_mul) / largest);
        }
        open.retain(|&var| !dim.mentions(var));
    }
    open.into_iter().fold(repeats, |all, var| all.saturating_mul(extent(var, ranges)))
}

/// The coefficient and the extent of each variable of an index that is not determined yet.
fn digits(dim: &Affine, open: &IdSet<LoopId>, ranges: &Ranges) -> SmallVec<[(u64, u64); 4]> {
    let found = open.iter().filter(|&&var| dim.mentions(var));
    found.map(|&var| (dim.coefficient(var).unsigned_abs(), extent(var, ranges))).collect()
}

fn extent(var: LoopId, ranges: &Ranges) -> u64 {
    ranges.get(var).map_or(u64::MAX, |l| l.extent())
}
