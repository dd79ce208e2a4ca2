//! Product spaces of which conditions cut off a part: the loops over the points that are left.
//!
//! A condition says that an affine form of iterators and symbols is at least 0: `i - j` for `j <= i`. It
//! bounds the innermost of its iterators, since the loops around have fixed the others. An upper bound ends
//! that loop earlier. A lower bound shifts it: the loop still counts from 0, and the iterator is the lower
//! bound plus the count.

use lowered_ir::ir::{Affine, LoopId, Quotient, SymbolId, Var, VariableBounds, index_bounds};
use lowered_ir::verify::limits;

use super::axis_iterator;

/// The loops over the points of a product space that satisfy some conditions.
///
/// The variable of axis `k` in `clips` and `values` is the counter of its loop, [`axis_iterator`]`(k)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedSpace {
    extents: Vec<i64>,
    /// Per axis, expressions that the counter stays below.
    clips: Vec<Vec<Affine>>,
    /// Per axis, the value of the iterator.
    values: Vec<Affine>,
}

/// A reason why a condition cannot bound a loop.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// The condition depends on symbols alone, or on nothing.
    #[error("bounds no loop: it depends on no letter")]
    NoIterator,
    /// The innermost iterator has a factor, so the bound would be a quotient.
    #[error("bounds its innermost letter by a quotient: expected that letter without a factor")]
    Factor,
    /// The loop would start at the greater of 0 and an expression.
    #[error("may let its innermost letter start below 0: expected a lower bound that is never negative")]
    NegativeStart,
    /// The loop would start at the greater of two expressions.
    #[error("is the second lower bound of its innermost letter: expected at most one")]
    SeveralStarts,
    /// The condition has numbers that overflow.
    #[error("exceeds 64 bits")]
    Overflow,
}

/// Half of a condition on one axis, with the other terms in terms of counters.
enum LoopEnd {
    /// The iterator is less than this.
    End(Affine),
    /// The iterator is at least this.
    Start(Affine),
}

impl BoundedSpace {
    /// The loops over the points of a space with these extents, outermost first, where every condition is at
    /// least 0.
    ///
    /// # Errors
    /// The position of the first condition that cannot bound a loop, and why.
    pub fn new(extents: &[i64], conditions: &[Affine]) -> Result<BoundedSpace, (usize, ConditionError)> {
        let mut space = BoundedSpace { extents: Vec::new(), clips: Vec::new(), values: Vec::new() };
        if let Some(at) = conditions.iter().position(|condition| innermost(condition).is_none()) {
            return Err((at, ConditionError::NoIterator));
        }
        for (axis, &extent) in extents.iter().enumerate() {
            let var = axis_iterator(axis);
            space.extents.push(extent);
            space.clips.push(Vec::new());
            space.values.push(Affine::var(var));
            let own = conditions.iter().enumerate().filter(|(_, c)| innermost(c) == Some(var));
            let (mut start, mut ends) = (None, Vec::new());
            for (at, condition) in own {
                match space.loop_end(condition, var).map_err(|why| (at, why))? {
                    LoopEnd::End(end) => ends.push(end),
                    LoopEnd::Start(from) => space.start(from, &mut start).map_err(|why| (at, why))?,
                }
            }
            space.bound(axis, start, ends);
        }
        Ok(space)
    }

    /// Splits a condition into a bound of its innermost iterator.
    fn loop_end(&self, condition: &Affine, var: LoopId) -> Result<LoopEnd, ConditionError> {
        let coefficient = condition.coefficient(var);
        let mut rest = condition.clone();
        rest.add_term(var.into(), coefficient.wrapping_neg());
        let rest = self.value(&rest).ok_or(ConditionError::Overflow)?;
        match coefficient {
            -1 => Ok(LoopEnd::End(rest.plus_constant(1))),
            1 => Ok(LoopEnd::Start(rest.times(-1))),
            _ => Err(ConditionError::Factor),
        }
    }

    /// Adds a lower bound.
    fn start(&self, from: Affine, known: &mut Option<Affine>) -> Result<(), ConditionError> {
        let (least, greatest) = self.bounds(&from).ok_or(ConditionError::Overflow)?;
        match known {
            _ if greatest <= 0 => Ok(()),
            _ if least < 0 => Err(ConditionError::NegativeStart),
            Some(other) if *other != from => Err(ConditionError::SeveralStarts),
            _ => {
                *known = Some(from);
                Ok(())
            }
        }
    }

    /// Sets the bounds of the last axis.
    fn bound(&mut self, axis: usize, start: Option<Affine>, ends: Vec<Affine>) {
        let (var, extent) = (axis_iterator(axis), self.extents[axis]);
        let last = start.is_some().then_some(Affine::constant(extent));
        let start = start.unwrap_or_default();
        let ends = ends.into_iter().chain(last).map(|end| end.plus(&start.times(-1)));
        let cuts = |end: &Affine| self.bounds(end).is_none_or(|(least, _)| least < extent);
        self.clips[axis] = ends.filter(cuts).collect();
        self.values[axis] = start.plus(&Affine::var(var));
    }

    /// An index over iterators as an index over counters; `None` on overflow.
    pub fn value(&self, index: &Affine) -> Option<Affine> {
        index.terms().iter().try_fold(Affine::constant(index.offset()), |sum, &(var, coefficient)| {
            let term = match var {
                Var::Loop(id) => self.values.get(id.index())?.checked_times(coefficient)?,
                Var::Symbol(_) => Affine::term(var, coefficient),
            };
            sum.checked_plus(&term)
        })
    }

    /// The clips of each axis.
    pub fn clips(&self) -> &[Vec<Affine>] {
        &self.clips
    }

    /// The bounds of an index over counters, whatever the symbols are.
    fn bounds(&self, index: &Affine) -> Option<(i64, i64)> {
        let interval = (0, limits::EXTENT - 1);
        let any = |_| Some(SymbolRange { interval, quotient: None });
        index_bounds(index, &PointRanges::new(&self.extents, &self.clips, &any))
    }
}

/// The innermost iterator of a condition.
fn innermost(condition: &Affine) -> Option<LoopId> {
    condition.terms().iter().filter_map(|&(var, _)| loop_of(var)).max()
}

fn loop_of(var: Var) -> Option<LoopId> {
    match var {
        Var::Loop(id) => Some(id),
        Var::Symbol(_) => None,
    }
}

/// The ranges of the counters of a bounded space, for [`index_bounds`].
pub struct PointRanges<'a> {
    extents: &'a [i64],
    /// Per axis, the clips whose symbols all have ranges.
    clips: Vec<Vec<Affine>>,
    symbols: &'a dyn Fn(SymbolId) -> Option<SymbolRange>,
}

/// The values of a symbol.
#[derive(Clone, Debug)]
pub struct SymbolRange {
    /// The least and the greatest value.
    pub interval: (i64, i64),
    /// How the symbol follows from others.
    pub quotient: Option<Quotient>,
}

impl<'a> PointRanges<'a> {
    /// A symbol of which `symbols` gives no range counts as 0, and its clips are ignored.
    pub fn new(
        extents: &'a [i64],
        clips: &[Vec<Affine>],
        symbols: &'a dyn Fn(SymbolId) -> Option<SymbolRange>,
    ) -> PointRanges<'a> {
        let is_known = |&(var, _): &(Var, i64)| match var {
            Var::Loop(_) => true,
            Var::Symbol(id) => symbols(id).is_some(),
        };
        let known = |clips: &Vec<Affine>| -> Vec<Affine> {
            clips.iter().filter(|clip| clip.terms().iter().all(is_known)).cloned().collect()
        };
        PointRanges { extents, clips: clips.iter().map(known).collect(), symbols }
    }
}

impl VariableBounds for PointRanges<'_> {
    fn interval(&self, var: Var) -> (i64, i64) {
        match var {
            Var::Loop(id) => (0, self.extents.get(id.index()).map_or(0, |&extent| extent.max(1) - 1)),
            Var::Symbol(id) => (self.symbols)(id).map_or((0, 0), |range| range.interval),
        }
    }

    fn clips(&self, var: LoopId) -> &[Affine] {
        self.clips.get(var.index()).map_or(&[], Vec::as_slice)
    }

    fn quotient(&self, symbol: SymbolId) -> Option<Quotient> {
        (self.symbols)(symbol)?.quotient
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: Var = Var::Symbol(SymbolId(0));

    fn sum(terms: &[(usize, i64)], offset: i64) -> Affine {
        terms
            .iter()
            .fold(Affine::constant(offset), |sum, &(axis, c)| sum.plus(&Affine::term(axis_iterator(axis), c)))
    }

    /// The points that the loops of a space visit, in order, with `@n` = `n`.
    fn visited(space: &BoundedSpace, n: i64) -> Vec<Vec<i64>> {
        let mut points = Vec::new();
        visit(space, n, &mut Vec::new(), &mut points);
        points
    }

    fn visit(space: &BoundedSpace, n: i64, counters: &mut Vec<i64>, points: &mut Vec<Vec<i64>>) {
        let value = |counters: &[i64], index: &Affine| {
            index.eval(|var| loop_of(var).map_or(n, |id| counters[id.index()]))
        };
        let axis = counters.len();
        let Some(&extent) = space.extents.get(axis) else {
            return points.push(space.values.iter().map(|index| value(counters, index)).collect());
        };
        let end = space.clips[axis].iter().map(|clip| value(counters, clip)).fold(extent, i64::min);
        for counter in 0..end {
            counters.push(counter);
            visit(space, n, counters, points);
            counters.pop();
        }
    }

    #[test]
    fn the_loops_visit_the_points_that_satisfy_all_conditions_in_order() {
        let n = |c| Affine::term(N, c);
        let cases: &[(&str, &[Affine])] = &[
            ("j <= i", &[sum(&[(0, 1), (1, -1)], 0)]),
            ("j >= i", &[sum(&[(0, -1), (1, 1)], 0)]),
            ("j < i", &[sum(&[(0, 1), (1, -1)], -1)]),
            ("i <= j, j <= n", &[sum(&[(0, -1), (1, 1)], 0), sum(&[(1, -1)], 0).plus(&n(1))]),
            ("j <= i, k >= j", &[sum(&[(0, 1), (1, -1)], 0), sum(&[(1, -1), (2, 1)], 0)]),
            ("i + j + k < 5", &[sum(&[(0, -1), (1, -1), (2, -1)], 4)]),
            ("j >= i, k >= i + j", &[sum(&[(0, -1), (1, 1)], 0), sum(&[(0, -1), (1, -1), (2, 1)], 0)]),
            ("i >= 1, j <= 2*i - 1", &[sum(&[(0, 1)], -1), sum(&[(0, 2), (1, -1)], -1)]),
            ("i >= n", &[sum(&[(0, 1)], 0).plus(&n(-1))]),
            ("j <= i, i <= j", &[sum(&[(0, 1), (1, -1)], 0), sum(&[(0, -1), (1, 1)], 0)]),
        ];
        for (name, conditions) in cases {
            let extents = [4, 5, 3];
            let space = BoundedSpace::new(&extents, conditions).unwrap();
            for n in 0..7 {
                let mut expected = Vec::new();
                for point in (0..60).map(|at| vec![at / 15, at / 3 % 5, at % 3]) {
                    let value = |c: &Affine| c.eval(|var| loop_of(var).map_or(n, |id| point[id.index()]));
                    if conditions.iter().all(|c| value(c) >= 0) {
                        expected.push(point);
                    }
                }
                assert_eq!(visited(&space, n), expected, "{name} with n = {n}");
            }
        }
    }

    #[test]
    fn conditions_that_cannot_bound_a_loop_are_named() {
        let error = |conditions: &[Affine]| BoundedSpace::new(&[4, 4], conditions).unwrap_err();
        let fine = sum(&[(0, 1), (1, -1)], 0);
        assert_eq!(error(&[Affine::var(N)]), (0, ConditionError::NoIterator));
        assert_eq!(error(&[fine, sum(&[(0, 1), (1, -2)], 0)]), (1, ConditionError::Factor));
        assert_eq!(error(&[sum(&[(0, -1), (1, 1)], 2)]), (0, ConditionError::NegativeStart));
        let (a, b) = (sum(&[(0, -1), (1, 1)], 0), sum(&[(1, 1)], 0).plus(&Affine::term(N, -1)));
        assert_eq!(error(&[a, b]), (1, ConditionError::SeveralStarts));
    }

    #[test]
    fn bounds_that_cut_nothing_off_are_dropped() {
        let space = BoundedSpace::new(&[4, 4], &[sum(&[(0, 1), (1, -1)], 9), sum(&[(1, 1), (0, 1)], 0)]);
        assert!(space.unwrap().clips().iter().all(Vec::is_empty));
    }
}
