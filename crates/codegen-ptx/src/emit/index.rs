//! Index arithmetic: 32-bit sums that wrap, so that only the results have to fit.

use lowered_ir::ir::{Affine, Guard, Range, Var};
use ptx_asm::{CmpOp, PtxBinaryOp, PtxOperand, Reg, Ty};

use super::Emitter;
use crate::unsupported::{Checked, reject};

/// The value of a loop variable while its body is emitted.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoopIndex {
    Known(i64),
    /// A signed 32-bit register whose value lies in a closed interval.
    Computed(Reg, (i64, i64)),
}

/// The truth of a guard: known, or in a predicate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Known(bool),
    Computed(Reg),
}

/// An index split into the part that is computed at run time and a constant.
#[derive(Clone, Debug)]
pub(super) struct SplitIndex {
    pub(super) terms: Affine,
    pub(super) offset: i64,
}

/// Whether a number fits 32 bits.
pub(super) fn is_short(x: i64) -> bool {
    i32::try_from(x).is_ok()
}

/// The linear index of an element in its array.
pub(super) fn flat(index: &[Affine], dims: &[usize]) -> Affine {
    index.iter().zip(dims).fold(Affine::constant(0), |flat, (i, &dim)| flat.times(dim as i64).plus(i))
}

impl Emitter<'_> {
    /// Splits an index by the loop variables whose values are known.
    pub(super) fn split(&self, index: &Affine) -> SplitIndex {
        let (mut terms, mut offset) = (Affine::constant(0), index.offset());
        for &(var, factor) in index.terms() {
            match self.variable(var).1 {
                LoopIndex::Known(k) => offset = offset.wrapping_add(k.wrapping_mul(factor)),
                LoopIndex::Computed(..) => terms.add_term(var, factor),
            }
        }
        SplitIndex { terms, offset }
    }

    /// The index, if it is known.
    pub(super) fn known_index(&self, index: &Affine) -> Option<i64> {
        let SplitIndex { terms, offset } = self.split(index);
        terms.terms().is_empty().then_some(offset)
    }

    /// The run-time terms of an index. Terms of outer loops come first, so that inner loops share their sums.
    pub(super) fn terms(&self, index: &Affine) -> Vec<(Reg, i64)> {
        let mut terms: Vec<(usize, Reg, i64)> = Vec::new();
        for &(var, factor) in index.terms() {
            if let (depth, LoopIndex::Computed(reg, _)) = self.variable(var) {
                terms.push((depth, reg, factor));
            }
        }
        terms.sort_by_key(|&(depth, ..)| depth);
        terms.into_iter().map(|(_, reg, factor)| (reg, factor)).collect()
    }

    /// The low 32 bits of the sum of an index's terms; `None` without terms.
    pub(super) fn sum(&mut self, terms: &Affine) -> Option<Reg> {
        self.terms(terms).into_iter().fold(None, |sum, (reg, factor)| {
            Some(match (sum, factor as i32) {
                (None, 1) => reg,
                (None, factor) => self.b.index(PtxBinaryOp::Mul, Ty::S32, reg, factor),
                (Some(sum), 1) => self.b.index(PtxBinaryOp::Add, Ty::S32, sum, reg),
                (Some(sum), factor) => self.b.index_sum(reg, factor, sum),
            })
        })
    }

    /// The low 32 bits of an index.
    pub(super) fn index(&mut self, index: &Affine) -> PtxOperand {
        let SplitIndex { terms, offset } = self.split(index);
        match (self.sum(&terms), offset as i32) {
            (None, offset) => offset.into(),
            (Some(sum), 0) => sum.into(),
            (Some(sum), offset) => self.b.index(PtxBinaryOp::Add, Ty::S32, sum, offset).into(),
        }
    }

    /// `start + unit * index` in 64 bits, with the part that fits in 32-bit arithmetic.
    pub(super) fn wide_sum(&mut self, terms: &Affine, unit: i64, start: PtxOperand) -> PtxOperand {
        self.terms(terms).into_iter().fold(start, |sum, (reg, factor)| {
            let factor = factor.wrapping_mul(unit);
            match i32::try_from(factor) {
                Ok(factor) => self.b.index_sum_wide(reg, factor, sum).into(),
                Err(_) => {
                    let wide = self.b.index_widened(reg);
                    let term = self.b.index(PtxBinaryOp::Mul, Ty::S64, wide, factor as u64);
                    self.b.index(PtxBinaryOp::Add, Ty::S64, sum, term).into()
                }
            }
        })
    }

    fn variable(&self, var: Var) -> (usize, LoopIndex) {
        match var {
            Var::Symbol(id) => {
                let range = self.routine.symbol(id).range;
                (0, LoopIndex::Computed(self.symbols[id.index()], (0, range.saturating_sub(1))))
            }
            Var::Loop(id) => {
                let depth = self.order.iter().position(|&l| l == id).map_or(0, |at| at + 1);
                (depth, self.vars[&id])
            }
        }
    }

    /// The range of an index.
    pub(super) fn bounds(&self, index: &Affine) -> Option<(i64, i64)> {
        index.bounds(|var| match self.variable(var).1 {
            LoopIndex::Known(k) => (k, k),
            LoopIndex::Computed(_, interval) => interval,
        })
    }

    /// Whether all values of an index fit 32 bits.
    pub(super) fn fits(&self, index: &Affine) -> bool {
        self.bounds(index).is_some_and(|(least, greatest)| is_short(least) && is_short(greatest))
    }

    /// An index as a 64-bit operand.
    pub(super) fn wide_index(&mut self, index: &Affine) -> PtxOperand {
        let SplitIndex { terms, offset } = self.split(index);
        self.wide_sum(&terms, 1, PtxOperand::Const(offset as u64))
    }

    /// Emits the conjunction of a guard's ranges.
    pub(super) fn guard(&mut self, guard: &Guard) -> Checked<Condition> {
        let mut all = Condition::Known(true);
        for range in guard {
            all = match (all, self.range(range)?) {
                (Condition::Known(true), other) | (other, Condition::Known(true)) => other,
                (Condition::Known(false), _) | (_, Condition::Known(false)) => Condition::Known(false),
                (Condition::Computed(a), Condition::Computed(b)) => {
                    Condition::Computed(self.b.index(PtxBinaryOp::And, Ty::Pred, a, b))
                }
            };
        }
        Ok(all)
    }

    /// Whether a guard is true in every copy of the unrolled loops around it.
    pub(super) fn holds_throughout(&self, guard: &Guard) -> bool {
        let of = |var: Var| {
            let unrolled = self.unrolled.iter().find(|unrolled| Var::from(unrolled.var) == var);
            match (unrolled, self.variable(var).1) {
                (Some(unrolled), _) => (unrolled.lo, unrolled.lo + unrolled.extent - 1),
                (None, LoopIndex::Known(k)) => (k, k),
                (None, LoopIndex::Computed(_, interval)) => interval,
            }
        };
        let holds = |range: &Range| {
            range.index.bounds(of).is_some_and(|(least, greatest)| least >= range.lo && greatest < range.hi)
        };
        guard.iter().all(holds)
    }

    fn range(&mut self, range: &Range) -> Checked<Condition> {
        let bounds = self.bounds(&range.index).filter(|&(a, b)| is_short(a) && is_short(b));
        let Some((least, greatest)) = bounds else {
            return reject("a guard", "what it compares may exceed 32 bits, as which indices are computed");
        };
        if greatest < range.lo || least >= range.hi {
            return Ok(Condition::Known(false));
        }
        let (above, below) = (least >= range.lo, greatest < range.hi);
        let (lo, hi) = (range.lo as i32, range.hi as i32);
        Ok(Condition::Computed(match (above, below) {
            (true, true) => return Ok(Condition::Known(true)),
            (false, true) => {
                let index = self.index(&range.index);
                self.b.index_compare(CmpOp::Ge, Ty::S32, index, lo)
            }
            (true, false) => {
                let index = self.index(&range.index);
                self.b.index_compare(CmpOp::Lt, Ty::S32, index, hi)
            }
            (false, false) => {
                // One unsigned comparison: indices below the range are large unsigned numbers.
                let from_lo = self.index(&range.index.plus_constant(range.lo.wrapping_neg()));
                self.b.index_compare(CmpOp::Lt, Ty::U32, from_lo, hi.wrapping_sub(lo))
            }
        }))
    }
}
