//! Indices: sums in wrapping 32-bit arithmetic, so that only the final results have to fit.

use codegen_core::emit::LoopIndex;
use codegen_core::ir::{Affine, LoopId, Range};
use naga::BinaryOperator as Op;

use super::Emitter;
use crate::builder::{Ty, Value};

impl Emitter<'_> {
    pub(super) fn enter(&mut self, var: LoopId, index: LoopIndex<Value>) {
        self.scope.enter(var, index);
    }

    pub(super) fn leave(&mut self) {
        self.scope.leave();
    }

    /// The value of an index, as `i32`.
    pub(super) fn index(&mut self, index: &Affine) -> Value {
        let sum = self.scope.sum(index);
        let computed = sum.terms.into_iter().fold(None, |sum, (value, factor)| {
            let term = self.scaled(value, factor);
            Some(match sum {
                None => term,
                Some(sum) => self.b.binary(Op::Add, sum, term),
            })
        });
        match computed {
            None => self.b.i32(sum.offset as i32),
            Some(value) => self.plus(value, sum.offset as i32),
        }
    }

    /// The value of an index, as `i64`.
    pub(super) fn long_index(&mut self, index: &Affine) -> Value {
        let mut sum = self.b.bits(Ty::I64, index.offset() as u64);
        for &(var, factor) in index.terms() {
            let value = match self.scope.value(var) {
                LoopIndex::Known(k) => self.b.bits(Ty::I64, k as u64),
                LoopIndex::Computed(value, _) => self.b.convert(Ty::I64, value),
            };
            let factor = self.b.bits(Ty::I64, factor as u64);
            let term = self.b.binary(Op::Multiply, value, factor);
            sum = self.b.binary(Op::Add, sum, term);
        }
        sum
    }

    fn scaled(&mut self, value: Value, factor: i64) -> Value {
        if factor == 1 {
            return value;
        }
        let factor = self.b.i32(factor as i32);
        self.b.binary(Op::Multiply, value, factor)
    }

    fn plus(&mut self, value: Value, offset: i32) -> Value {
        if offset == 0 {
            return value;
        }
        let offset = self.b.i32(offset);
        self.b.binary(Op::Add, value, offset)
    }

    /// Compares an index with the lower end of a range, the upper end, or both.
    pub(super) fn in_range(&mut self, range: &Range, lower: bool, upper: bool) -> Value {
        let index = self.index(&range.index);
        let mut above = None;
        if lower {
            let lo = self.b.i32(range.lo as i32);
            above = Some(self.b.binary(Op::GreaterEqual, index, lo));
        }
        if !upper && let Some(above) = above {
            return above;
        }
        let hi = self.b.i32(range.hi as i32);
        let below = self.b.binary(Op::Less, index, hi);
        above.map_or(below, |above| self.b.binary(Op::And, above, below))
    }
}
