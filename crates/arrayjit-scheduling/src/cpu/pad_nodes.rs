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

use std::collections::BTreeMap;

use lowered_ir::ir::{Affine, Block, Expr, Indices, LoopId, LoweredRoutine, NodeRef, Range, Stmt, walk};

use crate::analysis::access::Effects;
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

/// The margins of a node.
struct Margin {
    dims: Vec<usize>,
    /// The elements in front of each axis and behind it.
    sides: Vec<(usize, usize)>,
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

    /// Nests that store the margins. Those of an axis have the whole extent of the axes before it, margins
    /// included, and the inner extent of the axes behind it, so that each element is stored once.
    fn stores(&self, node: NodeRef, names: &mut Names) -> Block {
        let mut block = Block::new();
        let padded = self.padded();
        for (axis, &(before, after)) in self.sides.iter().enumerate() {
            for (start, count) in [(0, before), (before + self.dims[axis], after)] {
                if count == 0 {
                    continue;
                }
                let loops: Vec<LoopId> = self.dims.iter().map(|_| names.loop_id()).collect();
                let extent = |at: usize| match at.cmp(&axis) {
                    std::cmp::Ordering::Less => self.dims[at],
                    std::cmp::Ordering::Equal => count,
                    std::cmp::Ordering::Greater => padded[at],
                };
                let first = |at: usize| match at.cmp(&axis) {
                    std::cmp::Ordering::Less => self.sides[at].0,
                    std::cmp::Ordering::Equal => start,
                    std::cmp::Ordering::Greater => 0,
                };
                let index: Indices = (loops.iter().enumerate())
                    .map(|(at, &var)| Affine::var(var).plus_constant(first(at) as i64))
                    .collect();
                let store = Stmt::Set { node, index, value: self.outside.clone() };
                let nest = loops.iter().enumerate().rev();
                block.push(
                    nest.fold(store, |body, (at, &var)| Stmt::serial(var, extent(at) as i64, vec![body])),
                );
            }
        }
        block
    }
}

/// The local nodes whose reads outside of their bounds can be stored, where that pays.
fn margins(routine: &LoweredRoutine, names: &Names) -> BTreeMap<NodeRef, Margin> {
    let mut reads = Reads { routine, names, found: BTreeMap::new(), rejected: Vec::new() };
    reads.block(&routine.body, 1.0);
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
                    .then(|| sides(&dims, index, guard, self.names))
                    .flatten();
                let Some(sides) = sides else {
                    self.rejected.push(*node);
                    return;
                };
                let new = Margin {
                    sides: vec![(0, 0); dims.len()],
                    dims,
                    outside: (**otherwise).clone(),
                    reads: 0.0,
                };
                let margin = self.found.entry(*node).or_insert(new);
                if margin.outside != **otherwise {
                    self.rejected.push(*node);
                }
                margin.reads += times;
                for (all, own) in margin.sides.iter_mut().zip(sides) {
                    *all = (all.0.max(own.0), all.1.max(own.1));
                }
            }
            _ => {}
        }
    }
}

/// How far a read leaves each axis, if its bounds are those of the node.
fn sides(dims: &[usize], index: &[Affine], guard: &[Range], names: &Names) -> Option<Vec<(usize, usize)>> {
    let mut sides = vec![(0, 0); dims.len()];
    let mut is_bounded = vec![false; dims.len()];
    for range in guard {
        let axis = (0..dims.len()).find(|&axis| {
            !is_bounded[axis]
                && index[axis] == range.index
                && range.lo == 0
                && usize::try_from(range.hi) == Ok(dims[axis])
        })?;
        is_bounded[axis] = true;
        let (least, greatest) = range.index.bounds(|var| names.ranges.get(var))?;
        let before = usize::try_from(least.checked_neg()?.max(0)).ok()?;
        let after = usize::try_from(greatest.checked_sub(range.hi - 1)?.max(0)).ok()?;
        sides[axis] = (before, after);
    }
    Some(sides)
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
