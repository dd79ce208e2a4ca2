//! Contiguous reductions along a loop that ends at symbols.
//!
//! They have partial results as along a constant loop, and strips with the ends of those that
//! `strip_dynamic` makes, so that both fuse. The elements behind the strips are
//! reduced in sequence, and their result is combined last.

use lowered_ir::ir::{Affine, Block, Bound, Expr, LoopId, LoopKind, Space, Stmt, walk};

use super::{
    Accumulation, LANES, Level, NumericsRewriter, OpenLoop, array, element_of, is_contiguous, levels_of,
    nest, set_element,
};
use crate::analysis::clipped_bounds::is_in_bounds;
use crate::analysis::names::Names;
use crate::analysis::nest::Loop;
use crate::analysis::reduction::{combined, nonzero_neutral};

/// The partial results of strips that are shorter than [`LANES`].
const FEW_LANES: i64 = 8;

impl NumericsRewriter<'_> {
    /// A reduction with free loops that end at symbols, if it is faster than one in sequence.
    pub(super) fn dynamic_reduction(&mut self, found: &Accumulation) -> Option<Block> {
        if let Some(reduced) = self.reduction_of_rows(found) {
            return Some(reduced);
        }
        let mut names = self.names.take()?;
        let reduced = self.reduction_in_strips(found, &mut names);
        self.names = Some(names);
        reduced
    }

    /// Reduces the constant loops for each iteration of the others, and accumulates the results in sequence.
    /// `None` if no constant loop is contiguous.
    fn reduction_of_rows(&mut self, found: &Accumulation) -> Option<Block> {
        let is_constant = |l: &OpenLoop| l.hi.is_constant() && l.lo == 0;
        let (rows, others): (Vec<_>, Vec<_>) = found.free.iter().cloned().partition(is_constant);
        let is_clipped = |l: &OpenLoop| l.lo == 0 && l.hi.is_of_symbols();
        let levels = levels_of(&rows, &found.element, self.routine);
        let contiguous = levels.iter().any(|level| matches!(level, Level::Contiguous(..)));
        if !contiguous || !others.iter().all(is_clipped) {
            return None;
        }
        let (dtype, sum) = (self.dtype(found.target), self.fresh.local_id());
        let mut block = vec![Stmt::scalar(sum, dtype)];
        if let Some(start) = nonzero_neutral(found.op, dtype) {
            block.push(Stmt::set_scalar(sum, start));
        }
        let (mut body, value) = self.reduce(&levels, found.op, dtype, &found.element);
        body.push(Stmt::set_scalar(sum, combined(found.op, Expr::local(sum), value)));
        block.extend(nest(&others, body));
        let old = found.target.read(found.index.clone());
        block.push(found.target.store(found.index.clone(), combined(found.op, old, Expr::local(sum))));
        Some(block)
    }

    /// Reduces the only free loop, which ends at symbols, and combines the result with the initial value.
    /// `None` if the loop is short or not contiguous, and if the verifier could not prove that indices are in
    /// bounds.
    fn reduction_in_strips(&mut self, found: &Accumulation, names: &mut Names) -> Option<Block> {
        let [free] = found.free.as_slice() else { return None };
        let free = Loop { var: free.var, lo: free.lo, hi: free.hi.clone() };
        let end = free.dynamic_end().filter(|end| names.may_divide(end))?;
        let (_, greatest) = names.range(end)?;
        let limit = greatest.min(free.hi.limit);
        if limit < LANES || !is_contiguous(&found.element, free.var, self.routine) {
            return None;
        }
        let dtype = self.dtype(found.target);
        let (partials, rest) = (self.fresh.local_id(), self.fresh.local_id());
        let mut block = vec![array(partials, dtype, LANES, Space::Register), Stmt::scalar(rest, dtype)];
        if let Some(start) = nonzero_neutral(found.op, dtype) {
            block.push(self.lanes(LANES, |lane| set_element(partials, lane, start.clone())));
            block.push(Stmt::set_scalar(rest, start));
        }
        let at = |index: &Affine| {
            walk::map_expr_indices(found.element.clone(), &mut |i| i.substitute(free.var, index))
        };
        let known = names.symbols.len();
        let [many, few] =
            [LANES, FEW_LANES].map(|width| Affine::var(names.quotient(end, width, limit / width)));
        let ratio = LANES / FEW_LANES;
        let strips = [
            (LANES, Bound::from(limit / LANES).clipped(many.clone()), Affine::constant(0)),
            (FEW_LANES, Bound::from(ratio - 1).clipped(few.plus(&many.times(-ratio))), many.times(LANES)),
        ];
        for (width, hi, first) in strips {
            let strip = self.fresh.loop_id();
            let body = self.lanes(width, |lane| {
                let x = at(&first.plus(&Affine::term(strip, width)).plus(&lane));
                set_element(partials, lane.clone(), combined(found.op, element_of(partials, lane), x))
            });
            block.push(serial(strip, hi, vec![body]));
        }
        let done = few.times(FEW_LANES);
        let left = |end: Affine| end.plus(&done.times(-1));
        let mut hi = Bound::from(FEW_LANES - 1).clipped(left(end.clone()));
        if greatest > limit {
            hi = hi.clipped(left(limit.into()));
        }
        let single = self.fresh.loop_id();
        let step = combined(found.op, Expr::local(rest), at(&done.plus(&Affine::var(single))));
        block.push(serial(single, hi, vec![Stmt::set_scalar(rest, step)]));
        names.note(&block);
        if !is_in_bounds(&block, names) {
            names.forget_symbols(known);
            return None;
        }
        let value = self.fold_lanes(partials, found.op, dtype, &mut block);
        let old = found.target.read(found.index.clone());
        let value = combined(found.op, value, Expr::local(rest));
        block.push(found.target.store(found.index.clone(), combined(found.op, old, value)));
        Some(block)
    }
}

fn serial(var: LoopId, hi: Bound, body: Block) -> Stmt {
    Stmt::For { var, lo: 0, hi, kind: LoopKind::Serial, body }
}
