//! Interval arithmetic over indices.

use smallvec::SmallVec;

use crate::ir::{
    Affine, Bound, Guard, IdMap, LoopId, LoweredRoutine, Quotient, Range, Symbol, SymbolId, Var,
    VariableBounds, index_bounds,
};

/// The integers from `lo` to `hi`, both included; none where `lo > hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) lo: i64,
    pub(super) hi: i64,
}

impl Interval {
    const NONE: Interval = Interval { lo: 0, hi: -1 };

    pub(super) fn is_empty(self) -> bool {
        self.lo > self.hi
    }

    fn meet(self, other: Interval) -> Interval {
        Interval { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }
}

/// The intervals of the variables that occur in indices.
#[derive(Clone, Debug)]
pub(super) struct VariableIntervals<'r> {
    routine: &'r LoweredRoutine,
    loops: IdMap<LoopId, LoopRange>,
}

/// The values of a loop variable.
#[derive(Clone, Debug)]
struct LoopRange {
    interval: Interval,
    /// The variable is less than each of these.
    clips: Vec<Affine>,
}

impl<'r> VariableIntervals<'r> {
    /// The intervals of the routine's symbols; no loops.
    pub(super) fn new(routine: &'r LoweredRoutine) -> VariableIntervals<'r> {
        VariableIntervals { routine, loops: IdMap::default() }
    }

    /// Adds the loop over `var`. The loops whose variables its bound mentions were added before.
    pub(super) fn add(&mut self, var: LoopId, lo: i64, hi: &Bound) {
        let no_guard = Guard::new();
        let ranges = self.narrowed(&no_guard);
        let clips = hi.clips().iter().filter_map(|clip| Some(ranges.bounds(clip)?.hi));
        let interval = Interval { lo, hi: clips.fold(hi.limit, i64::min).saturating_sub(1) };
        self.loops.insert(var, LoopRange { interval, clips: hi.clips().to_vec() });
    }

    /// Adds the loops of the variables of an index, and of those in their bounds.
    pub(super) fn copy(&mut self, index: &Affine, ranges: &impl VariableBounds) {
        for &(var, _) in index.terms() {
            let Var::Loop(id) = var else { continue };
            if self.loops.contains_key(&id) {
                continue;
            }
            let ((lo, hi), clips) = (ranges.interval(var), ranges.clips(id).to_vec());
            self.loops.insert(id, LoopRange { interval: Interval { lo, hi }, clips: clips.clone() });
            clips.iter().for_each(|clip| self.copy(clip, ranges));
        }
    }

    /// The interval of a variable; empty for an unknown variable, although references have been checked
    /// before.
    pub(super) fn of(&self, var: Var) -> Interval {
        match var {
            Var::Loop(var) => self.loops.get(&var).map_or(Interval::NONE, |range| range.interval),
            Var::Symbol(symbol) => {
                let found = self.routine.symbols.get(symbol.index());
                found.map(Symbol::interval).map_or(Interval::NONE, |(lo, hi)| Interval { lo, hi })
            }
        }
    }

    /// The ranges where a guard holds.
    pub(super) fn narrowed<'a>(&'a self, guard: &'a Guard) -> GuardedIntervals<'a> {
        let mut vars: SmallVec<[(Var, Interval); 2]> = SmallVec::new();
        for range in guard {
            let Some((var, within)) = of_one_variable(range) else { continue };
            match vars.iter_mut().find(|(v, _)| *v == var) {
                Some((_, interval)) => *interval = interval.meet(within),
                None => vars.push((var, self.of(var).meet(within))),
            }
        }
        let fails = guard.iter().any(|range| self.never_holds(range));
        GuardedIntervals { ranges: self, guard, vars, fails }
    }

    fn never_holds(&self, range: &Range) -> bool {
        let bounds = range.index.bounds(|var| (self.of(var).lo, self.of(var).hi));
        range.lo >= range.hi || bounds.is_some_and(|(lo, hi)| hi < range.lo || range.hi <= lo)
    }
}

/// [`VariableIntervals`] where a guard holds.
#[derive(Clone, Debug)]
pub(super) struct GuardedIntervals<'a> {
    ranges: &'a VariableIntervals<'a>,
    guard: &'a Guard,
    vars: SmallVec<[(Var, Interval); 2]>,
    /// The guard never holds.
    fails: bool,
}

impl GuardedIntervals<'_> {
    pub(super) fn of(&self, var: Var) -> Interval {
        let narrowed = self.vars.iter().find(|(v, _)| *v == var);
        narrowed.map_or_else(|| self.ranges.of(var), |&(_, interval)| interval)
    }

    /// Whether a variable of the index has no value, or the guard never holds, so that the index is never
    /// evaluated.
    pub(super) fn is_vacant(&self, index: &Affine) -> bool {
        self.fails || index.terms().iter().any(|&(var, _)| self.of(var).is_empty())
    }

    /// The interval of an index, or `None` if it can leave 64 bits.
    pub(super) fn bounds(&self, index: &Affine) -> Option<Interval> {
        let (lo, hi) = index_bounds(index, self)?;
        let images = self.guard.iter().filter_map(|range| self.image(range, index));
        Some(images.fold(Interval { lo, hi }, Interval::meet))
    }

    /// The bounds of `index` wherever the range condition holds. Writes `index` as `m·range.index + rest`,
    /// with the integer `m` for which `rest` does not contain the range's first variable; `None` if there is
    /// none.
    fn image(&self, range: &Range, index: &Affine) -> Option<Interval> {
        let &(first, guarded) = range.index.terms().first()?;
        let c = index.coefficient(first);
        let m = i128::from(c.checked_div(guarded).filter(|m| *m != 0 && m.checked_mul(guarded) == Some(c))?);
        // With a negative `m`, a range that never holds would become an interval that is not empty.
        if range.lo >= range.hi {
            return Some(Interval::NONE);
        }
        let k = i128::from(index.offset()) - m * i128::from(range.index.offset());
        let mut bounds = spread(k, k, m, i128::from(range.lo), i128::from(range.hi) - 1)?;
        let others = index.terms().iter().chain(range.index.terms().iter().filter(|t| !index.mentions(t.0)));
        for &(var, _) in others {
            let rest = i128::from(index.coefficient(var)) - m * i128::from(range.index.coefficient(var));
            let of = self.of(var);
            bounds = spread(bounds.0, bounds.1, rest, i128::from(of.lo), i128::from(of.hi))?;
        }
        Some(Interval { lo: saturate(bounds.0), hi: saturate(bounds.1) })
    }
}

impl VariableBounds for GuardedIntervals<'_> {
    fn interval(&self, var: Var) -> (i64, i64) {
        let Interval { lo, hi } = self.of(var);
        (lo, hi)
    }

    fn clips(&self, var: LoopId) -> &[Affine] {
        self.ranges.loops.get(&var).map_or(&[], |range| &range.clips)
    }

    fn quotient(&self, symbol: SymbolId) -> Option<Quotient> {
        Symbol::exact_quotient(&self.ranges.routine.symbols, symbol).cloned()
    }
}

/// `lo <= c·var + k < hi` as an interval of `var`.
fn of_one_variable(range: &Range) -> Option<(Var, Interval)> {
    let &[(var, c)] = range.index.terms() else { return None };
    let (c, k) = (i128::from(c), i128::from(range.index.offset()));
    let (lo, hi) = (i128::from(range.lo) - k, i128::from(range.hi) - 1 - k);
    let (lo, hi) = if c > 0 { (lo, hi) } else { (-hi, -lo) };
    let c = c.abs();
    // Rounded inwards: the least multiple of `c` from `lo` up, and the greatest one up to `hi`.
    Some((var, Interval { lo: saturate(-(-lo).div_euclid(c)), hi: saturate(hi.div_euclid(c)) }))
}

/// `lo..=hi` plus `c` times `from..=to`.
fn spread(lo: i128, hi: i128, c: i128, from: i128, to: i128) -> Option<(i128, i128)> {
    let (a, b) = (c.checked_mul(from)?, c.checked_mul(to)?);
    Some((lo.checked_add(a.min(b))?, hi.checked_add(a.max(b))?))
}

fn saturate(x: i128) -> i64 {
    x.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const I: Var = Var::Loop(LoopId(0));
    const J: Var = Var::Loop(LoopId(1));

    fn sum(terms: &[(Var, i64)], offset: i64) -> Affine {
        let mut index = Affine::constant(offset);
        terms.iter().for_each(|&(var, c)| index.add_term(var, c));
        index
    }

    #[test]
    fn ranges_of_one_variable_round_inwards() {
        let of = |c, k, lo, hi| of_one_variable(&Range { index: sum(&[(I, c)], k), lo, hi }).unwrap().1;
        assert_eq!(of(1, -1, 0, 8), Interval { lo: 1, hi: 8 });
        assert_eq!(of(2, 0, 1, 8), Interval { lo: 1, hi: 3 });
        assert_eq!(of(-1, 7, 0, 8), Interval { lo: 0, hi: 7 });
        assert_eq!(of(-3, 0, -7, 2), Interval { lo: 0, hi: 2 });
        assert_eq!(of(3, i64::MIN, i64::MAX, i64::MIN), Interval { lo: 6148914691236517205, hi: -1 });
    }

    #[test]
    fn narrowing_is_exact_on_every_small_case() {
        for c in [-3, -2, -1, 1, 2, 3] {
            for (k, lo, hi) in [(0, 0, 5), (-2, 1, 9), (3, -4, 2)] {
                let narrowed = of_one_variable(&Range { index: sum(&[(I, c)], k), lo, hi }).unwrap().1;
                for i in -20..20 {
                    let holds = (lo..hi).contains(&(c * i + k));
                    assert_eq!(
                        holds,
                        (narrowed.lo..=narrowed.hi).contains(&i),
                        "{lo} <= {c}*{i} + {k} < {hi}"
                    );
                }
            }
        }
    }

    #[test]
    fn indices_made_of_a_range_lie_in_its_image() {
        let nodes = Vec::new();
        let routine = LoweredRoutine {
            name: "t".into(),
            numerics: crate::ir::Numerics::Strict,
            symbols: Vec::new(),
            nodes,
            body: Vec::new(),
        };
        let mut ranges = VariableIntervals::new(&routine);
        ranges.add(LoopId(0), 0, &100.into());
        ranges.add(LoopId(1), 0, &3.into());
        let guard: Guard = [Range { index: sum(&[(I, 1), (J, 2)], -1), lo: 0, hi: 8 }].into_iter().collect();
        let at = |index: Affine| ranges.narrowed(&guard).image(&guard[0], &index).map(|i| (i.lo, i.hi));
        assert_eq!(at(sum(&[(I, 1), (J, 2)], -1)), Some((0, 7)));
        assert_eq!(at(sum(&[(I, 1), (J, 2)], 4)), Some((5, 12)));
        assert_eq!(at(sum(&[(I, -1), (J, -2)], 8)), Some((0, 7)));
        assert_eq!(at(sum(&[(I, 3), (J, 6)], 0)), Some((3, 24)));
        assert_eq!(at(sum(&[(I, 1), (J, 3)], -1)), Some((0, 9)));
        assert_eq!(at(sum(&[(I, 2), (J, 4)], -2)), Some((0, 14)));
        assert_eq!(at(sum(&[(I, 1)], 0)), Some((-3, 8)));
        assert_eq!(at(sum(&[(J, 1)], 0)), None);
        assert_eq!(at(Affine::constant(0)), None);
    }
}
