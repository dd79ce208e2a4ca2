//! Prefix and suffix sums: accumulations over a triangle that take one loop.
//!
//! `y[i] :+= x[k] where k <= i` adds up a prefix of `x` for each `i`. Each prefix is the one before it and
//! one more element, so a loop with a carried sum replaces the triangle. The same holds of `k < i`, of the
//! suffixes `k >= i` and `k > i`, of every operation that combines in any grouping, and of the gradients of
//! such statements, where the roles of the two letters are exchanged.
//!
//! **Order.** A prefix is accumulated from its first element, so it has the bits of the triangle in the
//! order written. A suffix is accumulated from its last element. A statement that starts from the old
//! elements combines each of them with the whole sum.
//!
//! **Blocks.** One loop is one thread. A long sum of few rows is therefore computed in blocks: the sum of
//! each block, the prefix over the sums of the blocks, and the prefix in each block from there. The size of
//! the blocks follows from the shape alone. Class `strict` has blocks only where grouping cannot change a
//! bit.

use std::collections::BTreeMap;

use tnode::DType;

use super::Result;
use super::step::{AccumPoint, LoopNest, LoweringContext, fresh_loops, nest};
use crate::indexing::{AxisIndex, Projections, extent};
use crate::{Accum, AccumOp, Operand};
use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopId, NodeRef, Numerics, Stmt, Var, walk};

/// The least number of steps that is divided into blocks.
const LONG: i64 = 2048;
/// The number of rows from which on blocks would not add useful threads.
const MANY_ROWS: i64 = 64;
/// The least and the greatest size of a block.
const BLOCK: (i64, i64) = (64, 4096);

/// The iterators of a triangle, each with its value at step `t`: `first + slope · t`. The steps visit the
/// points that add an element to a sum.
type Diagonal = [(LoopId, i64, i64); 2];

/// The steps of a triangle, from the first element that is accumulated.
struct DiagonalWalk {
    count: i64,
    diagonal: Diagonal,
    is_prefix: bool,
}

/// A triangle whose rows are prefixes or suffixes of each other.
pub(super) struct Scan {
    diagonal: Diagonal,
    steps: i64,
    /// The axes of the product space around the scan, and of reductions within each step.
    outer: Vec<usize>,
    inner: Vec<usize>,
    op: AccumOp,
    starts_neutral: bool,
}

/// The indices of a triangle's arrays, and its iterators: `b` ends where `a` says.
struct Triangle<'a> {
    written: Vec<Affine>,
    read: Vec<Affine>,
    projections: &'a Projections,
    a: LoopId,
    b: LoopId,
}

impl Triangle<'_> {
    /// The steps, if the rows are prefixes or suffixes of each other.
    fn steps(&self) -> Option<DiagonalWalk> {
        let (a, b) = (self.a, self.b);
        let extent_of = |iterator| extent(self.projections.extent_of(iterator));
        let (rows, columns) = (extent_of(a), extent_of(b));
        let at = self.projections.product_iterators().iter().position(|&iterator| iterator == b)?;
        let [clip] = self.projections.clips()[at].as_slice() else { return None };
        let &[(Var::Loop(_), slope)] = clip.terms() else { return None };
        let free = |of: &[Affine], var: LoopId| of.iter().all(|index| !index.mentions(var));
        let joint = |of: &[Affine]| of.iter().all(|index| index.coefficient(a) == index.coefficient(b));
        let (written, read) = (self.written.as_slice(), self.read.as_slice());
        let (steps, diagonal, is_prefix) = if slope == 1 {
            // Column `b` is in the rows from `b + gap` on.
            let gap = 1 - clip.offset();
            let steps = rows.checked_sub(gap)?;
            let fits = gap >= 0 && steps <= columns;
            if fits && free(written, b) && free(read, a) {
                (steps, [(a, gap, 1), (b, 0, 1)], true)
            } else if fits && free(written, a) && free(read, b) {
                (steps, [(a, rows - 1, -1), (b, steps - 1, -1)], false)
            } else {
                return None;
            }
        } else {
            // The rows are indexed by `a + b`, which is at least `a` and less than the offset.
            let steps = clip.offset();
            let fits = slope == -1 && steps <= rows && steps <= columns;
            if fits && free(written, b) && joint(read) {
                (steps, [(a, steps - 1, -1), (b, 0, 0)], false)
            } else if fits && joint(written) && free(read, b) {
                (steps, [(a, 0, 1), (b, 0, 0)], true)
            } else {
                return None;
            }
        };
        (steps >= 1).then_some(DiagonalWalk { count: steps, diagonal, is_prefix })
    }

    /// Whether the steps write different elements, as do the iterations of the loops around them: each has an
    /// axis of the target for itself.
    fn is_injective(&self, outer: &[LoopId]) -> bool {
        let has_axis = |vars: &[LoopId]| {
            self.written.iter().any(|index| {
                let mut terms = index.terms().iter();
                terms.len() > 0 && terms.all(|(var, _)| vars.iter().any(|&v| *var == Var::Loop(v)))
            })
        };
        has_axis(&[self.a, self.b]) && outer.iter().all(|&var| has_axis(&[var]))
    }
}

impl Scan {
    /// The scan that computes an accumulation, if one does.
    pub(super) fn of(accum: &Accum, ctx: &LoweringContext) -> Option<Scan> {
        let projections = &accum.projections;
        let iterators = projections.product_iterators();
        let home = |operand: &Operand| operand.node().map(|node| ctx.views.home(node).0);
        let own = ctx.views.home(&accum.lhs).0;
        let reads_itself = accum.operands().any(|operand| home(operand).as_ref() == Some(&own));
        let is_computed = projections.project_lhs().iter().any(|index| index.computed().is_some());
        if accum.op == AccumOp::Assign || reads_itself || is_computed || accum.lhs.mode().known_virtual() {
            return None;
        }
        let written: Vec<Affine> = projections.project_lhs().iter().map(AxisIndex::affine).collect();
        let read: Vec<Affine> = projections.project_rhs().iter().flatten().map(AxisIndex::affine).collect();
        let (a, b) = projections.clips().iter().zip(iterators).find_map(|(clips, &b)| {
            let [clip] = clips.as_slice() else { return None };
            let &[(Var::Loop(a), _)] = clip.terms() else { return None };
            Some((a, b))
        })?;
        let is_written = |var: LoopId| written.iter().any(|index| index.mentions(var));
        let others = (0..iterators.len()).filter(|&at| iterators[at] != a && iterators[at] != b);
        let (outer, inner): (Vec<usize>, Vec<usize>) = others.partition(|&at| is_written(iterators[at]));
        let clips_mention = |axes: &[usize], vars: &[LoopId]| {
            let clips = axes.iter().flat_map(|&at| &projections.clips()[at]);
            clips.into_iter().any(|clip| vars.iter().any(|&var| clip.mentions(var)))
        };
        let vars = |axes: &[usize]| axes.iter().map(|&at| iterators[at]).collect::<Vec<_>>();
        let at_a = iterators.iter().position(|&iterator| iterator == a)?;
        if !projections.clips()[at_a].is_empty()
            || clips_mention(&outer, &[vec![a, b], vars(&inner)].concat())
            || clips_mention(&inner, &[a, b])
        {
            return None;
        }
        let outer_vars = vars(&outer);
        let triangle = Triangle { written, read, projections, a, b };
        let DiagonalWalk { count: steps, diagonal, is_prefix } = triangle.steps()?;
        let is_ordered = is_prefix && inner.is_empty() && accum.init_neutral;
        let is_legal = triangle.is_injective(&outer_vars) && (is_ordered || is_associative(accum.op));
        let (op, starts_neutral) = (accum.op, accum.init_neutral);
        is_legal.then_some(Scan { diagonal, steps, outer, inner, op, starts_neutral })
    }

    /// Appends the loops of the scan.
    pub(super) fn lower(&self, accum: &Accum, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
        let (loops, vars) = fresh_loops(accum, ctx)?;
        let place = AccumPoint { accum, vars: &vars, ctx };
        let value = place.new_value()?;
        let (node, index) = place.element(&accum.lhs, accum.projections.project_lhs())?;
        let step = ScanStep { scan: self, dtype: accum.lhs.dtype(), loops, vars, value, node, index };
        match self.block_size(&step, ctx.numerics) {
            Some(size) => step.in_blocks(size, accum.lhs.name(), ctx, block),
            None => {
                let row = step.run(ctx, step.neutral(), self.steps, |t| t);
                block.extend(nest(&step.axes(&self.outer), row));
                Ok(())
            }
        }
    }

    /// The size of the blocks of a long scan.
    fn block_size(&self, step: &ScanStep<'_>, numerics: Numerics) -> Option<i64> {
        let rows = step.axes(&self.outer).iter().map(|(_, end)| end.limit).fold(1, i64::saturating_mul);
        let is_exact = !step.dtype.is_float() || !matches!(self.op, AccumOp::Add | AccumOp::Mul);
        let may_group = is_associative(self.op) && (is_exact || numerics == Numerics::Fast);
        let root = 1i64 << self.steps.ilog2().div_ceil(2);
        let is_long = self.steps >= LONG && rows < MANY_ROWS;
        (may_group && is_long).then(|| root.clamp(BLOCK.0, BLOCK.1))
    }
}

/// Whether grouping and order of the values are free, up to rounding.
fn is_associative(op: AccumOp) -> bool {
    use AccumOp::{Add, And, Max, Min, Mul, Or};
    matches!(op, Add | Mul | Max | Min | Or | And)
}

/// The statements of a scan, in terms of the routine's loop variables.
struct ScanStep<'a> {
    scan: &'a Scan,
    dtype: DType,
    /// The loop of each axis of the product space.
    loops: LoopNest,
    vars: BTreeMap<LoopId, LoopId>,
    /// The accumulated value, and the element written.
    value: Expr,
    node: NodeRef,
    index: Indices,
}

impl ScanStep<'_> {
    fn neutral(&self) -> Expr {
        Expr::Const(self.scan.op.neutral(self.dtype))
    }

    fn axes(&self, axes: &[usize]) -> LoopNest {
        axes.iter().map(|&at| self.loops[at].clone()).collect()
    }

    /// The block at step `t`.
    fn at_step(&self, mut block: Block, t: &Affine) -> Block {
        for &(iterator, first, slope) in &self.scan.diagonal {
            walk::substitute(&mut block, self.vars[&iterator], &t.times(slope).plus_constant(first));
        }
        block
    }

    /// Combines a scalar with the values of step `t`.
    fn combine(&self, sum: LocalId, t: &Affine, ctx: &mut LoweringContext) -> Block {
        let value = self.scan.op.apply(Expr::local(sum), self.value.clone());
        let block = self.at_step(nest(&self.axes(&self.scan.inner), vec![Stmt::set_scalar(sum, value)]), t);
        // Two copies of the loops of a reduction must not share variables.
        renamed(block, ctx)
    }

    /// Runs `count` steps from the sum `start`, and stores the sums. `place` gives the step of an iteration.
    fn run(
        &self,
        ctx: &mut LoweringContext,
        start: Expr,
        count: i64,
        place: impl Fn(Affine) -> Affine,
    ) -> Block {
        let (sum, var) = (ctx.fresh.local_id(), ctx.fresh.loop_id());
        let t = place(Affine::var(var));
        let value = match self.scan.starts_neutral {
            true => Expr::local(sum),
            false => {
                let old = Expr::Get { node: self.node, index: self.index.clone() };
                self.scan.op.apply(old, Expr::local(sum))
            }
        };
        let store = vec![Stmt::Set { node: self.node, index: self.index.clone(), value }];
        let mut body = self.combine(sum, &t, ctx);
        body.extend(self.at_step(store, &t));
        vec![Stmt::scalar(sum, self.dtype), Stmt::set_scalar(sum, start), Stmt::serial(var, count, body)]
    }

    /// Scans blocks of `size` steps. Element `j + 1` of a row of `sums` is the sum of block `j`, then that of
    /// all blocks up to it; element 0 is neutral.
    fn in_blocks(&self, size: i64, name: String, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
        let (full, rest) = (self.scan.steps / size, self.scan.steps % size);
        let summed = if rest == 0 { full - 1 } else { full };
        let outer = self.axes(&self.scan.outer);
        let lengths = outer.iter().map(|(_, end)| end.limit).chain([summed + 1]);
        let dims: Vec<usize> = lengths.map(|length| usize::try_from(length).unwrap_or(0)).collect();
        let sums = ctx.temporary(format!("{name}.sums"), self.dtype, &dims)?;
        let rows: Vec<Affine> = outer.iter().map(|&(var, _)| Affine::var(var)).collect();
        let at = |index: Affine| -> Indices { rows.iter().cloned().chain([index]).collect() };
        let store = |index: Affine, value: Expr| Stmt::Set { node: sums, index: at(index), value };
        let load = |index: Affine| Expr::Get { node: sums, index: at(index) };
        let around = |body: Block, ctx: &mut LoweringContext| renamed(nest(&outer, body), ctx);

        let (var, sum) = (ctx.fresh.loop_id(), ctx.fresh.local_id());
        let step = Affine::term(var, size);
        let inner = ctx.fresh.loop_id();
        let t = step.plus(&Affine::var(inner));
        let partial = vec![
            Stmt::scalar(sum, self.dtype),
            Stmt::set_scalar(sum, self.neutral()),
            Stmt::serial(inner, size, self.combine(sum, &t, ctx)),
            store(Affine::var(var).plus_constant(1), Expr::local(sum)),
        ];
        block.extend(around(vec![Stmt::serial(var, summed, partial)], ctx));

        let (var, sum) = (ctx.fresh.loop_id(), ctx.fresh.local_id());
        let here = Affine::var(var).plus_constant(1);
        let total = self.scan.op.apply(Expr::local(sum), load(here.clone()));
        let prefix = vec![Stmt::set_scalar(sum, total), store(here, Expr::local(sum))];
        let row = vec![
            store(0.into(), self.neutral()),
            Stmt::scalar(sum, self.dtype),
            Stmt::set_scalar(sum, self.neutral()),
            Stmt::serial(var, summed, prefix),
        ];
        block.extend(around(row, ctx));

        let var = ctx.fresh.loop_id();
        let start = load(Affine::var(var));
        let body = self.run(ctx, start, size, |t| t.plus(&Affine::term(var, size)));
        block.extend(around(vec![Stmt::serial(var, full, body)], ctx));
        if rest > 0 {
            let start = load(full.into());
            let body = self.run(ctx, start, rest, |t| t.plus_constant(full * size));
            block.extend(around(body, ctx));
        }
        Ok(())
    }
}

/// A copy of a block with fresh loop variables.
pub(super) fn renamed(mut block: Block, ctx: &mut LoweringContext) -> Block {
    for var in walk::loops_in(&block) {
        let fresh = ctx.fresh.loop_id();
        walk::substitute(&mut block, var, &Affine::var(fresh));
        rebind(&mut block, var, fresh);
    }
    block
}

/// Gives the loop over `from` the variable `to`.
fn rebind(block: &mut [Stmt], from: LoopId, to: LoopId) {
    for stmt in block {
        if let Stmt::For { var, body, .. } = stmt {
            if *var == from {
                *var = to;
            }
            rebind(body, from, to);
        }
    }
}
