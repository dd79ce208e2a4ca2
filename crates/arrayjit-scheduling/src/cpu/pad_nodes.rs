//! Margins of local nodes: elements outside of a node that convolutions read as a constant are stored.
//!
//! ```text
//! for j { x[j] := f(j) }; for i, p { acc += x[i + p - 1] if 0 <= i + p - 1 < n else 0 · w[p] }
//! =
//! x[0] := 0; x[n + 1] := 0; for j { x[j + 1] := f(j) }; for i, p { acc += x[i + p] · w[p] }
//! ```
//!
//! Only the routine sees a local node, so its size is free. A window without bounds needs no test for each
//! tap, and a matrix kernel can read it in place. The margins are stored once for each run, in front of the
//! first statement that writes the node. That pays if they are fewer than the elements and the tests that
//! they save. The values and their order stay the same, so no bit changes.
//!
//! Where a read exists below a size of the run, the margin lies behind that size, in elements that no
//! statement writes: `x[@n + 1] := 0`.

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, Block, Bound, Expr, Indices, LoopId, LoopKind, LoweredRoutine, NodeRef, Range, Stmt, Var,
    index_bounds, walk,
};

use crate::analysis::access::Effects;
use crate::analysis::clipped_bounds::ClippedRanges;
use crate::analysis::names::Names;
use crate::analysis::nodes::is_local;
use codegen_core::dependence;

/// The least number of guarded reads for each element of a margin.
const MIN_READS: f64 = 2.0;

/// Stores the margins of local nodes, where that pays.
pub(crate) fn pad_nodes(routine: &mut LoweredRoutine) {
    if dependence::logs(&routine.body) {
        return;
    }
    let names = Names::of(routine);
    let margins = margins(routine, &names);
    let mut starts: Vec<Block> = Vec::new();
    let mut fresh = Names::of(routine);
    for (&node, margin) in &margins {
        let is_writer = |stmt: &Stmt| Effects::of(std::slice::from_ref(stmt)).written.contains(&node);
        let Some(first) = routine.body.iter().position(is_writer) else { continue };
        starts.resize(routine.body.len(), Block::new());
        starts[first].extend(margin.stores(node, &mut fresh));
    }
    if margins.is_empty() {
        return;
    }
    for (&node, margin) in &margins {
        routine.nodes[node.index()].dims = margin.padded().into_iter().collect();
    }
    shift(&mut routine.body, &margins);
    let body = std::mem::take(&mut routine.body);
    starts.resize(body.len(), Block::new());
    routine.body =
        starts.into_iter().zip(body).flat_map(|(start, stmt)| start.into_iter().chain([stmt])).collect();
}

/// Where the elements of each axis end: at a sum of symbols, or at its dimension.
type Ends = Vec<Option<Affine>>;

/// The margins of a node.
struct Margin {
    dims: Vec<usize>,
    /// The elements in front of each axis and behind it.
    sides: Vec<(usize, usize)>,
    ends: Ends,
    /// What is read outside; all reads agree.
    outside: Expr,
    /// The guarded reads of a run.
    reads: f64,
}

impl Margin {
    fn padded(&self) -> Vec<usize> {
        self.dims.iter().zip(&self.sides).map(|(dim, (before, after))| before + dim + after).collect()
    }

    fn pays(&self) -> bool {
        let elements = |dims: &[usize]| dims.iter().map(|&dim| dim as f64).product::<f64>();
        let margin = elements(&self.padded()) - elements(&self.dims);
        margin > 0.0 && margin <= elements(&self.dims) && margin * MIN_READS <= self.reads
    }

    /// The index behind the elements of an axis, `more` elements further.
    fn end(&self, axis: usize, more: usize) -> Affine {
        let end = self.ends[axis].clone().unwrap_or_else(|| (self.dims[axis] as i64).into());
        end.plus_constant(more as i64)
    }

    /// Nests that store the margins. Those of an axis have the whole extent of the axes before it, margins
    /// included, and the inner extent of the axes behind it, so that each element is stored once.
    fn stores(&self, node: NodeRef, names: &mut Names) -> Block {
        let mut block = Block::new();
        let padded = self.padded();
        for (axis, &(before, after)) in self.sides.iter().enumerate() {
            for (start, count) in [(0i64.into(), before), (self.end(axis, before), after)] {
                if count == 0 {
                    continue;
                }
                let loops: Vec<LoopId> = self.dims.iter().map(|_| names.loop_id()).collect();
                let extent = |at: usize| -> Bound {
                    let sum = |more: usize| self.ends[at].as_ref().map(|end| end.plus_constant(more as i64));
                    let (dim, end) = match at.cmp(&axis) {
                        std::cmp::Ordering::Less => (self.dims[at], sum(0)),
                        std::cmp::Ordering::Equal => (count, None),
                        std::cmp::Ordering::Greater => (padded[at], sum(self.sides[at].0 + self.sides[at].1)),
                    };
                    let dim = Bound::from(dim as i64);
                    end.map_or(dim.clone(), |end| dim.clipped(end))
                };
                let first = |at: usize| match at.cmp(&axis) {
                    std::cmp::Ordering::Less => (self.sides[at].0 as i64).into(),
                    std::cmp::Ordering::Equal => start.clone(),
                    std::cmp::Ordering::Greater => Affine::default(),
                };
                let index: Indices =
                    loops.iter().enumerate().map(|(at, &var)| first(at).plus(&var.into())).collect();
                let store = Stmt::Set { node, index, value: self.outside.clone() };
                let nest = loops.iter().enumerate().rev();
                block.push(nest.fold(store, |body, (at, &var)| Stmt::For {
                    var,
                    lo: 0,
                    hi: extent(at),
                    kind: LoopKind::Serial,
                    body: vec![body],
                }));
            }
        }
        block
    }
}

/// The local nodes whose reads outside of their bounds can be stored, where that pays.
fn margins(routine: &LoweredRoutine, names: &Names) -> BTreeMap<NodeRef, Margin> {
    let ranges = ClippedRanges::of(&routine.body, names);
    let mut reads = Reads { routine, ranges, names, found: BTreeMap::new(), rejected: Vec::new() };
    reads.block(&routine.body, 1.0);
    reads.reject_writers_behind_ends();
    for touch in dependence::touches(&routine.body) {
        if touch.computed.is_some() || touch.index.is_none() {
            reads.rejected.push(touch.node);
        }
    }
    let Reads { mut found, rejected, .. } = reads;
    found.retain(|node, margin| !rejected.contains(node) && margin.pays());
    found
}

struct Reads<'a> {
    routine: &'a LoweredRoutine,
    names: &'a Names,
    ranges: ClippedRanges<'a>,
    found: BTreeMap<NodeRef, Margin>,
    rejected: Vec<NodeRef>,
}

impl Reads<'_> {
    /// Notes the guarded reads of a block that runs as often as `times`.
    fn block(&mut self, block: &[Stmt], times: f64) {
        for stmt in block {
            if let Stmt::For { lo, hi, body, .. } = stmt {
                self.block(body, times * (hi.limit - lo).max(0) as f64);
            }
            for value in stmt.values() {
                walk::parts(value).for_each(|e| self.read(e, times));
            }
        }
    }

    /// Rejects nodes with elements behind an end that a statement writes.
    fn reject_writers_behind_ends(&mut self) {
        for touch in dependence::touches(&self.routine.body).iter().filter(|touch| touch.write) {
            let Some(margin) = self.found.get(&touch.node) else { continue };
            let is_before = |(at, end): (&Affine, &Option<Affine>)| match end {
                None => true,
                Some(end) => index_bounds(&at.plus(&end.times(-1)), &self.ranges)
                    .is_some_and(|(_, greatest)| greatest < 0),
            };
            let is_inside = touch.index.is_some_and(|index| index.iter().zip(&margin.ends).all(is_before));
            if !is_inside {
                self.rejected.push(touch.node);
            }
        }
    }

    fn read(&mut self, e: &Expr, times: f64) {
        match e {
            Expr::GetMerge { node, .. } => self.rejected.push(*node),
            Expr::GetGuarded { guard, node, index, otherwise } => {
                let decl = self.routine.node(*node);
                if !is_local(decl) {
                    return;
                }
                let dims: Vec<usize> = decl.dims.to_vec();
                let sides = matches!(&**otherwise, Expr::Const(_))
                    .then(|| sides(&dims, index, guard, (self.names, &self.ranges)))
                    .flatten();
                let Some((sides, ends)) = sides else {
                    self.rejected.push(*node);
                    return;
                };
                let new = Margin {
                    sides: vec![(0, 0); dims.len()],
                    ends: vec![None; dims.len()],
                    dims,
                    outside: (**otherwise).clone(),
                    reads: 0.0,
                };
                let margin = self.found.entry(*node).or_insert(new);
                let differs = |(all, own): (&Option<Affine>, &Option<Affine>)| {
                    all.as_ref().zip(own.as_ref()).is_some_and(|(all, own)| all != own)
                };
                if margin.outside != **otherwise || margin.ends.iter().zip(&ends).any(differs) {
                    self.rejected.push(*node);
                }
                margin.reads += times;
                for (all, own) in margin.ends.iter_mut().zip(ends) {
                    *all = own.or(all.take());
                }
                for (all, own) in margin.sides.iter_mut().zip(sides) {
                    *all = (all.0.max(own.0), all.1.max(own.1));
                }
            }
            _ => {}
        }
    }
}

/// How far a read leaves each axis, and where the axis ends if symbols decide it, if its bounds are those of
/// the node.
fn sides(
    dims: &[usize],
    index: &[Affine],
    guard: &[Range],
    (names, ranges): (&Names, &ClippedRanges<'_>),
) -> Option<(Vec<(usize, usize)>, Ends)> {
    let (mut sides, mut ends) = (vec![(0, 0); dims.len()], vec![None; dims.len()]);
    let mut is_bounded = vec![false; dims.len()];
    for range in guard {
        let (least, greatest) = range.index.bounds(|var| names.ranges.get(var))?;
        let is_axis = |axis: &usize| {
            !is_bounded[*axis]
                && index[*axis] == range.index
                && range.lo == 0
                && usize::try_from(range.hi) == Ok(dims[*axis])
        };
        if let Some(axis) = (0..dims.len()).find(is_axis) {
            is_bounded[axis] = true;
            let before = usize::try_from(least.checked_neg()?.max(0)).ok()?;
            let after = usize::try_from(greatest.checked_sub(range.hi - 1)?.max(0)).ok()?;
            sides[axis] = (before, after);
            continue;
        }
        // `index - @n < 0` is the end of an axis at a symbol, if no element is less than its other end.
        let end = |axis: usize| index[axis].plus(&range.index.times(-1)).plus_constant(range.hi);
        let is_of_symbols = |end: &Affine| {
            !end.terms().is_empty() && end.terms().iter().all(|(var, _)| matches!(var, Var::Symbol(_)))
        };
        let axis = (0..dims.len()).find(|&axis| ends[axis].is_none() && is_of_symbols(&end(axis)))?;
        let end = end(axis);
        // Indices below 0 are outside by the axis's own range.
        let least = match is_bounded[axis] {
            true => least.max(range.hi.checked_sub(end.bounds(|var| names.ranges.get(var))?.1)?),
            false => least,
        };
        if least < range.lo {
            return None;
        }
        ends[axis] = Some(end);
    }
    for (axis, end) in ends.iter().enumerate() {
        let Some(end) = end else { continue };
        let (_, greatest) = index_bounds(&index[axis].plus(&end.times(-1)), ranges)?;
        sides[axis].1 = usize::try_from(greatest.checked_add(1)?.max(0)).ok()?;
    }
    Some((sides, ends))
}

/// Moves the indices of the nodes by their margins, and removes the bounds of their reads.
fn shift(block: &mut [Stmt], margins: &BTreeMap<NodeRef, Margin>) {
    let moved = |node: NodeRef, index: Indices| -> Indices {
        match margins.get(&node) {
            Some(margin) => {
                index.iter().zip(&margin.sides).map(|(at, side)| at.plus_constant(side.0 as i64)).collect()
            }
            None => index,
        }
    };
    for stmt in block {
        match stmt {
            Stmt::For { body, .. } => shift(body, margins),
            Stmt::Set { node, index, .. } => *index = moved(*node, std::mem::take(index)),
            _ => {}
        }
        walk::map_own_parts(stmt, &mut |e| match e {
            Expr::Get { node, index } => Expr::Get { node, index: moved(node, index) },
            Expr::GetGuarded { node, index, .. } if margins.contains_key(&node) => {
                Expr::Get { node, index: moved(node, index) }
            }
            other => other,
        });
    }
}
