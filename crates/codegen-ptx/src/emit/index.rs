//! Index arithmetic: 32-bit sums that wrap, so that only the results have to fit.

use codegen_core::emit::LoopIndex;
use codegen_core::ir::{Affine, Guard, LoopId, Range, Var};
use ptx_asm::{CmpOp, PtxBinaryOp, PtxOperand, Reg, Ty};

use super::Emitter;

impl Emitter<'_> {
    pub(super) fn enter(&mut self, var: LoopId, index: LoopIndex<Reg>) {
        self.scope.enter(var, index);
    }

    pub(super) fn leave(&mut self) {
        self.scope.leave();
    }

    /// The low 32 bits of the sum of an index's computed terms; `None` without terms.
    fn sum(&mut self, terms: &[(Reg, i64)]) -> Option<Reg> {
        terms.iter().fold(None, |sum, &(reg, factor)| {
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
        let index = self.scope.sum(index);
        match (self.sum(&index.terms), index.offset as i32) {
            (None, offset) => offset.into(),
            (Some(sum), 0) => sum.into(),
            (Some(sum), offset) => self.b.index(PtxBinaryOp::Add, Ty::S32, sum, offset).into(),
        }
    }

    /// `start + unit * terms` in 64 bits, with the part that fits in 32-bit arithmetic.
    pub(super) fn wide_sum(&mut self, terms: &[(Reg, i64)], unit: i64, start: PtxOperand) -> PtxOperand {
        terms.iter().fold(start, |sum, &(reg, factor)| {
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

    /// An index as a 64-bit operand.
    pub(super) fn wide_index(&mut self, index: &Affine) -> PtxOperand {
        let index = self.scope.sum(index);
        self.wide_sum(&index.terms, 1, PtxOperand::Const(index.offset as u64))
    }

    /// Whether a guard is true in every copy of the unrolled loops around it.
    pub(super) fn holds_throughout(&self, guard: &Guard) -> bool {
        let of = |var: Var| {
            let unrolled = self.unrolled.iter().find(|unrolled| Var::from(unrolled.var) == var);
            match (unrolled, self.scope.value(var)) {
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

    /// Compares an index with the lower end of a range, the upper end, or both.
    pub(super) fn in_range(&mut self, range: &Range, lower: bool, upper: bool) -> Reg {
        let (lo, hi) = (range.lo as i32, range.hi as i32);
        if lower && upper {
            // One unsigned comparison: indices below the range are large unsigned numbers.
            let from_lo = self.index(&range.index.plus_constant(range.lo.wrapping_neg()));
            return self.b.index_compare(CmpOp::Lt, Ty::U32, from_lo, hi.wrapping_sub(lo));
        }
        let index = self.index(&range.index);
        match lower {
            true => self.b.index_compare(CmpOp::Ge, Ty::S32, index, lo),
            false => self.b.index_compare(CmpOp::Lt, Ty::S32, index, hi),
        }
    }
}
