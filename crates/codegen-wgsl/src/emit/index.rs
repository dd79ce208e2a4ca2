//! Indices: sums in wrapping 32-bit arithmetic, so that only the final results have to fit.

use lowered_ir::ir::{Affine, Guard, Indices, Range, Var};
use naga::BinaryOperator as Op;

use super::Emitter;
use crate::builder::{Ty, Value};
use crate::errors::{Checked, reject};

/// The current value of a loop variable.
#[derive(Clone, Copy, Debug)]
pub(super) enum LoopValue {
    Known(i64),
    /// A value of type `i32` in a closed interval.
    Computed(Value, (i64, i64)),
}

/// A sum: its computed part, if it has one, and its constant part.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexSum {
    pub(super) computed: Option<Value>,
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    Known(bool),
    Computed(Value),
}

impl Emitter<'_> {
    /// Splits an index into its computed part as an `i32` and its constant part. Terms of outer loops are
    /// added first, so that inner loops share their sums.
    pub(super) fn sum(&mut self, index: &Affine) -> IndexSum {
        let mut offset = index.offset();
        let mut terms: Vec<(usize, Value, i64)> = Vec::new();
        for &(var, factor) in index.terms() {
            let (depth, at) = self.variable(var);
            match at {
                LoopValue::Known(k) => offset = offset.wrapping_add(k.wrapping_mul(factor)),
                LoopValue::Computed(value, _) => terms.push((depth, value, factor)),
            }
        }
        terms.sort_by_key(|&(depth, ..)| depth);
        let computed = terms.into_iter().fold(None, |sum, (_, value, factor)| {
            let term = self.scaled(value, factor);
            Some(match sum {
                None => term,
                Some(sum) => self.b.binary(Op::Add, sum, term),
            })
        });
        IndexSum { computed, offset }
    }

    /// The value of an index, as `i32`.
    pub(super) fn index(&mut self, index: &Affine) -> Value {
        let sum = self.sum(index);
        match sum.computed {
            None => self.b.i32(sum.offset as i32),
            Some(value) => self.plus(value, sum.offset as i32),
        }
    }

    /// The index, if it is known at compile time.
    pub(super) fn known_index(&self, index: &Affine) -> Option<i64> {
        index.terms().iter().try_fold(index.offset(), |sum, &(var, factor)| match var {
            Var::Loop(id) => match self.vars[&id] {
                LoopValue::Known(k) => Some(sum.wrapping_add(k.wrapping_mul(factor))),
                LoopValue::Computed(..) => None,
            },
            Var::Symbol(_) => None,
        })
    }

    /// The terms whose variables are computed, and the sum of all other terms.
    pub(super) fn computed_terms(&self, index: &Affine) -> (Affine, i64) {
        let (mut terms, mut offset) = (Affine::constant(0), index.offset());
        for &(var, factor) in index.terms() {
            match self.variable(var).1 {
                LoopValue::Known(k) => offset = offset.wrapping_add(k.wrapping_mul(factor)),
                LoopValue::Computed(..) => terms.add_term(var, factor),
            }
        }
        (terms, offset)
    }

    fn variable(&self, var: Var) -> (usize, LoopValue) {
        match var {
            Var::Symbol(id) => {
                let range = self.routine.symbol(id).range;
                (0, LoopValue::Computed(self.symbols[id.index()], (0, range.saturating_sub(1))))
            }
            Var::Loop(id) => {
                let depth = self.order.iter().position(|&l| l == id).map_or(0, |at| at + 1);
                (depth, self.vars[&id])
            }
        }
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

    /// The minimum and the maximum of an index.
    pub(super) fn bounds(&self, index: &Affine) -> Option<(i64, i64)> {
        index.bounds(|var| match self.variable(var).1 {
            LoopValue::Known(k) => (k, k),
            LoopValue::Computed(_, interval) => interval,
        })
    }

    /// The number of the element at an index in an array of dimensions `dims`.
    pub(super) fn flat(index: &Indices, dims: &[usize]) -> Affine {
        let mut flat = Affine::constant(0);
        for (i, &dim) in index.iter().zip(dims) {
            flat = flat.times(dim as i64).plus(i);
        }
        flat
    }

    /// The conjunction of the guard's ranges.
    pub(super) fn guard(&mut self, guard: &Guard) -> Checked<Condition> {
        let mut all = Condition::Known(true);
        for range in guard {
            all = match (all, self.range(range)?) {
                (Condition::Known(true), other) | (other, Condition::Known(true)) => other,
                (Condition::Known(false), _) | (_, Condition::Known(false)) => Condition::Known(false),
                (Condition::Computed(a), Condition::Computed(b)) => {
                    Condition::Computed(self.b.binary(Op::And, a, b))
                }
            };
        }
        Ok(all)
    }

    fn range(&mut self, range: &Range) -> Checked<Condition> {
        let fits = |x: &i64| i32::try_from(*x).is_ok();
        let Some((least, greatest)) = self.bounds(&range.index).filter(|(a, b)| fits(a) && fits(b)) else {
            return reject("a guard", "what it compares may exceed 32 bits, as which indices are computed");
        };
        if greatest < range.lo || least >= range.hi {
            return Ok(Condition::Known(false));
        }
        let (above, below) = (least >= range.lo, greatest < range.hi);
        let index = self.index(&range.index);
        let mut sides = Vec::new();
        if !above {
            let lo = self.b.i32(range.lo as i32);
            sides.push(self.b.binary(Op::GreaterEqual, index, lo));
        }
        if !below {
            let hi = self.b.i32(range.hi as i32);
            sides.push(self.b.binary(Op::Less, index, hi));
        }
        let both = sides.into_iter().reduce(|a, b| self.b.binary(Op::And, a, b));
        Ok(both.map_or(Condition::Known(true), Condition::Computed))
    }

    /// An index as a number in an expression, of type `i32` or `i64`.
    pub(super) fn embedded(&mut self, index: &Affine, ty: Ty) -> Value {
        if ty == Ty::I32 {
            return self.index(index);
        }
        let mut sum = self.b.bits(Ty::I64, index.offset() as u64);
        for &(var, factor) in index.terms() {
            let value = match self.variable(var).1 {
                LoopValue::Known(k) => self.b.bits(Ty::I64, k as u64),
                LoopValue::Computed(value, _) => self.b.convert(Ty::I64, value),
            };
            let factor = self.b.bits(Ty::I64, factor as u64);
            let term = self.b.binary(Op::Multiply, value, factor);
            sum = self.b.binary(Op::Add, sum, term);
        }
        sum
    }
}
