//! The loop variables in scope during a walk, for targets that compute indices in 32 bits.

use lowered_ir::ir::{Affine, LoopId, LoweredRoutine, Range, SymbolId, Var};
use smallvec::SmallVec;

use super::index::{IndexSum, LinearValue};
use crate::rejection::{Checked, reject};

/// The value of a loop variable while the loop's body is emitted.
#[derive(Clone, Copy, Debug)]
pub enum LoopIndex<V> {
    /// A number that is known, as in an unrolled loop.
    Known(i64),
    /// A computed value in a closed interval.
    Computed(V, (i64, i64)),
}

/// The truth of a guard: known, or computed.
#[derive(Clone, Copy, Debug)]
pub enum FoldedCondition<V> {
    /// A truth value that is known.
    Known(bool),
    /// A truth value that the code computes.
    Computed(V),
}

impl<V> FoldedCondition<V> {
    /// The conjunction, for which `and` emits the operation on two computed truth values.
    pub fn and(self, other: FoldedCondition<V>, and: impl FnOnce(V, V) -> V) -> FoldedCondition<V> {
        match (self, other) {
            (FoldedCondition::Known(true), other) | (other, FoldedCondition::Known(true)) => other,
            (FoldedCondition::Known(false), _) | (_, FoldedCondition::Known(false)) => {
                FoldedCondition::Known(false)
            }
            (FoldedCondition::Computed(a), FoldedCondition::Computed(b)) => {
                FoldedCondition::Computed(and(a, b))
            }
        }
    }
}

/// How to find out whether an index is in a range, given the bounds of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeTest {
    /// It is known.
    Known(bool),
    /// The index must be compared with the lower end, the upper end, or both.
    Compare {
        /// Whether the index may be below the range.
        lower: bool,
        /// Whether the index may be above the range.
        upper: bool,
    },
}

impl RangeTest {
    /// The test for an index whose least and greatest value are known; `None` if they exceed 32 bits.
    pub fn new(range: &Range, (least, greatest): (i64, i64)) -> Option<RangeTest> {
        if !fits_i32(least) || !fits_i32(greatest) {
            return None;
        }
        let (lower, upper) = (least < range.lo, greatest >= range.hi);
        Some(match greatest < range.lo || least >= range.hi || range.hi <= range.lo {
            true => RangeTest::Known(false),
            false if !lower && !upper => RangeTest::Known(true),
            false => RangeTest::Compare { lower, upper },
        })
    }

    /// Whether the index must be compared with the lower end.
    pub fn compares_lower(self) -> bool {
        matches!(self, RangeTest::Compare { lower: true, .. })
    }

    /// Whether the index must be compared with the upper end.
    pub fn compares_upper(self) -> bool {
        matches!(self, RangeTest::Compare { upper: true, .. })
    }
}

/// Whether a number fits 32 bits.
pub fn fits_i32(x: i64) -> bool {
    i32::try_from(x).is_ok()
}

/// The loop variables in scope, outermost first, and the symbols of a routine, as values of type `V`.
#[derive(Clone, Debug)]
pub struct LoopScope<'k, V> {
    routine: &'k LoweredRoutine,
    symbols: Vec<V>,
    loops: Vec<(LoopId, LoopIndex<V>)>,
}

impl<'k, V: Copy + PartialEq> LoopScope<'k, V> {
    /// The scope outside of all loops. [`LoopScope::set_symbols`] must follow before indices use symbols.
    pub fn new(routine: &'k LoweredRoutine) -> Self {
        LoopScope { routine, symbols: Vec::new(), loops: Vec::new() }
    }

    /// Sets the values of the routine's symbols, in order.
    pub fn set_symbols(&mut self, symbols: Vec<V>) {
        self.symbols = symbols;
    }

    /// The value of a symbol.
    pub fn symbol(&self, symbol: SymbolId) -> V {
        self.symbols[symbol.index()]
    }

    /// Enters a loop.
    pub fn enter(&mut self, var: LoopId, index: LoopIndex<V>) {
        self.loops.push((var, index));
    }

    /// Leaves the innermost loop.
    pub fn leave(&mut self) {
        self.loops.pop();
    }

    /// The number of loops in scope.
    pub fn depth(&self) -> usize {
        self.loops.len()
    }

    /// The value of a loop variable; `None` outside of its loop.
    pub fn get(&self, var: LoopId) -> Option<LoopIndex<V>> {
        self.loops.iter().rev().find(|(id, _)| *id == var).map(|&(_, index)| index)
    }

    /// The value of a variable that is in scope.
    pub fn value(&self, var: Var) -> LoopIndex<V> {
        match var {
            Var::Symbol(id) => {
                let range = self.routine.symbol(id).range;
                LoopIndex::Computed(self.symbol(id), (0, range.saturating_sub(1)))
            }
            Var::Loop(id) => self.get(id).expect("the verifier checks that loop variables are in scope"),
        }
    }

    /// The number of loops around the definition of a variable, and that of its own; 0 for symbols.
    fn depth_of(&self, var: Var) -> usize {
        self.loops.iter().rposition(|&(id, _)| Var::from(id) == var).map_or(0, |at| at + 1)
    }

    /// The computed terms of an index, as an index without a constant part, and the sum of everything else.
    pub fn split(&self, index: &Affine) -> (Affine, i64) {
        let (mut terms, mut offset) = (Affine::constant(0), index.offset());
        for &(var, factor) in index.terms() {
            match self.value(var) {
                LoopIndex::Known(k) => offset = offset.wrapping_add(k.wrapping_mul(factor)),
                LoopIndex::Computed(..) => terms.add_term(var, factor),
            }
        }
        (terms, offset)
    }

    /// The index as a sum. Terms of outer loops come first, so that inner loops share their sums.
    pub fn sum(&self, index: &Affine) -> IndexSum<V> {
        let mut vars: SmallVec<[(Var, i64); 4]> = index.terms().into();
        vars.sort_by_key(|&(var, _)| self.depth_of(var));
        IndexSum::of_terms(&vars, index.offset(), |var| match self.value(var) {
            LoopIndex::Known(k) => LinearValue::known(k),
            LoopIndex::Computed(value, _) => LinearValue::computed(value),
        })
    }

    /// The index, if it is known.
    pub fn known(&self, index: &Affine) -> Option<i64> {
        self.sum(index).as_constant()
    }

    /// The least and the greatest value of an index; `None` on overflow.
    pub fn bounds(&self, index: &Affine) -> Option<(i64, i64)> {
        index.bounds(|var| match self.value(var) {
            LoopIndex::Known(k) => (k, k),
            LoopIndex::Computed(_, interval) => interval,
        })
    }

    /// Whether all values of an index fit 32 bits.
    pub fn fits(&self, index: &Affine) -> bool {
        self.bounds(index).is_some_and(|(least, greatest)| fits_i32(least) && fits_i32(greatest))
    }

    /// Which comparisons decide whether an index is in a range.
    ///
    /// # Errors
    ///
    /// A rejection if values of the index exceed 32 bits.
    pub fn test(&self, range: &Range) -> Checked<RangeTest> {
        match self.bounds(&range.index).and_then(|bounds| RangeTest::new(range, bounds)) {
            Some(test) => Ok(test),
            None => reject("a guard", "its index may exceed 32 bits, in which indices are computed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use lowered_ir::ir::{Affine, LoopId, Range};

    use super::{LoopIndex, LoopScope, RangeTest};

    #[test]
    fn a_range_is_compared_where_the_index_may_leave_it() {
        let routine = lowered_ir::text::parse("routine @r strict { node %0 \"x\" f32[4] on_device }")
            .expect("the text is valid");
        let mut scope = LoopScope::new(&routine);
        scope.enter(LoopId(0), LoopIndex::Computed("i0", (0, 9)));
        scope.enter(LoopId(1), LoopIndex::Known(3));
        // i0 + 2·i1 - 4 is in 2..12.
        let index = Affine::var(LoopId(0)).plus(&Affine::term(LoopId(1), 2)).plus_constant(-4);
        assert_eq!(scope.bounds(&index), Some((2, 11)));
        let test = |lo, hi| scope.test(&Range { index: index.clone(), lo, hi });
        assert_eq!(test(2, 12), Ok(RangeTest::Known(true)));
        assert_eq!(test(12, 20), Ok(RangeTest::Known(false)));
        assert_eq!(test(3, 12), Ok(RangeTest::Compare { lower: true, upper: false }));
        assert_eq!(test(0, 11), Ok(RangeTest::Compare { lower: false, upper: true }));
        assert_eq!(test(3, 4), Ok(RangeTest::Compare { lower: true, upper: true }));
        let wide = Range { index: index.times(1 << 40), lo: 0, hi: 5 };
        assert!(scope.test(&wide).is_err());
        scope.leave();
        assert!(scope.get(LoopId(1)).is_none() && scope.depth() == 1);
    }

    #[test]
    fn terms_of_outer_loops_come_first() {
        let routine = lowered_ir::text::parse("routine @r strict { node %0 \"x\" f32[4] on_device }")
            .expect("the text is valid");
        let mut scope = LoopScope::new(&routine);
        scope.enter(LoopId(1), LoopIndex::Computed("outer", (0, 9)));
        scope.enter(LoopId(0), LoopIndex::Computed("inner", (0, 9)));
        let index = Affine::var(LoopId(0)).plus(&Affine::term(LoopId(1), 2));
        let sum = scope.sum(&index);
        assert_eq!((sum.terms.as_slice(), sum.offset), (&[("outer", 2), ("inner", 1)][..], 0));
    }
}
