//! Finds the iterations of a nest that store an element, by solving the index of the store for its loop
//! variables.
//!
//! A store `t[e₁, …, eₙ]` inside loops reaches the element `t[w₁, …, wₙ]` in the iterations that satisfy
//! `eₖ = wₖ` for each `k`. Three rules take one equation `e = w` at a time until none applies:
//!
//! * **digit**: `c·v + rest = c·q + r` with `c > 0` gives `v = q` and `rest = r`, if `rest` takes values in a
//!   window of `c` consecutive integers and `r` lies in that window, whatever their variables are. So
//!   `2·i + j = 2·a + b` with `0 <= j, b < 2` gives `i = a` and `j = b`, and `i + 1 = w` gives `i = w - 1`.
//! * **unit**: `±v + rest = w` gives `v = ±(w - rest)`, where `rest` may mention other loop variables, which
//!   then stay loops.
//! * **test**: an equation without loop variables is a condition, `0 <= e - w < 1`.
//!
//! The solved variables must lie in the ranges of their loops; this gives further conditions. Conditions that
//! the ranges of the variables decide are dropped.
//!
//! # Order
//!
//! Remaining loops must run the iterations that reach one element in the order of the original nest. They do
//! if each solved variable depends only on variables of loops further out: among iterations that agree on
//! those, it takes one value. The order does not matter where the index is a mixed-radix number, since then
//! at most one iteration reaches an element.

use std::collections::BTreeMap;

use crate::ir::{Affine, Guard, Indices, LoopId, Range, Var, is_mixed_radix};

use super::ranges::Ranges;

/// The iterations of a nest that reach one element.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Solution {
    /// The solved variables, in terms of the variables of the element's index, of symbols, and of the loops
    /// in `kept`.
    pub(super) values: BTreeMap<LoopId, Affine>,
    /// The conditions under which these values are an iteration of the nest that reaches the element; empty
    /// for always.
    pub(super) conditions: Guard,
    /// The loops of the index that remain to be run, outermost first.
    pub(super) kept: Vec<LoopId>,
    /// Some value depends on a loop further in; at most one iteration reaches the element.
    pub(super) inverted: bool,
}

/// Why there is no solution that an affine index could express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsolvable {
    /// The dimension with an equation that no rule applies to.
    Division(usize),
    /// The dimension with loops that would run in another order.
    Order(usize),
}

/// A store's index, inside its loops.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreTarget<'a> {
    pub(super) index: &'a Indices,
    /// The loops around, outermost first. No index of an element mentions them.
    pub(super) loops: &'a [LoopId],
}

/// The iterations that reach the element at `wanted`, where `guard` holds; `None` if there are none.
///
/// # Errors
/// When the iterations cannot be expressed.
pub(super) fn solve(
    target: StoreTarget<'_>,
    wanted: &Indices,
    guard: &Guard,
    ranges: &Ranges,
) -> Result<Option<Solution>, Unsolvable> {
    let mut system = EquationSystem::new(target, wanted, guard, ranges);
    while system.digit() || system.unit() {}
    if let Some(open) = system.equations.iter().find(|e| !e.left.terms().is_empty()) {
        return if system.impossible(open) { Ok(None) } else { Err(Unsolvable::Division(open.dim)) };
    }
    system.conditions().map_or(Ok(None), |conditions| system.finish(conditions).map(Some))
}

/// `left = right`: loop variables of the nest to the left, all else to the right.
#[derive(Clone, Debug)]
struct LinearEquation {
    dim: usize,
    left: Affine,
    right: Affine,
}

struct EquationSystem<'a> {
    target: StoreTarget<'a>,
    guard: &'a Guard,
    ranges: &'a Ranges,
    equations: Vec<LinearEquation>,
    values: BTreeMap<LoopId, Affine>,
}

impl<'a> EquationSystem<'a> {
    fn new(
        target: StoreTarget<'a>,
        wanted: &Indices,
        guard: &'a Guard,
        ranges: &'a Ranges,
    ) -> EquationSystem<'a> {
        let equations = target.index.iter().zip(wanted).enumerate().map(|(dim, (index, wanted))| {
            let left = part(index, |var| is_among(var, target.loops));
            let right = wanted.plus(&index.plus(&left.times(-1)).times(-1));
            LinearEquation { dim, left, right }
        });
        EquationSystem { target, guard, ranges, equations: equations.collect(), values: BTreeMap::new() }
    }

    /// Applies the digit rule once.
    fn digit(&mut self) -> bool {
        let found = self.equations.iter().enumerate().find_map(|(at, e)| Some((at, self.split(e)?)));
        let Some((at, (var, value, rest))) = found else { return false };
        self.equations[at] = rest;
        self.settle(var, &value);
        true
    }

    /// The equation's highest digit, its value, and the equation of the rest.
    fn split(&self, equation: &LinearEquation) -> Option<(LoopId, Affine, LinearEquation)> {
        let &(var, c) = equation.left.terms().iter().max_by_key(|(_, c)| c.unsigned_abs())?;
        let Var::Loop(id) = var else { return None };
        let sign = c.signum();
        let (left, right, c) = (equation.left.times(sign), equation.right.times(sign), c.checked_abs()?);
        let rest = left.plus(&Affine::term(var, -c));
        let (least, most) = rest.bounds(|v| self.ranges.of_var(v))?;
        if most.checked_sub(least)? >= c {
            return None;
        }
        let (value, low) = self.divide(&right, c, least)?;
        Some((id, value, LinearEquation { dim: equation.dim, left: rest, right: low }))
    }

    /// `(q, r)` with `index = c·q + r`, where `r` surely lies in `least..least + c`.
    fn divide(&self, index: &Affine, c: i64, least: i64) -> Option<(Affine, Affine)> {
        let mut quotient = Affine::default();
        let mut rest = Affine::default();
        for &(var, coefficient) in index.terms() {
            if coefficient % c == 0 {
                quotient.add_term(var, coefficient / c);
            } else {
                rest.add_term(var, coefficient);
            }
        }
        let (lo, _) = self.bounds(&rest)?;
        // The least offset of the remainder that is congruent to the offset of the index modulo `c` and with
        // which the remainder is at least `least`.
        let start = least.checked_sub(lo)?;
        let offset = start.checked_add(index.offset().checked_sub(start)?.rem_euclid(c))?;
        let rest = rest.plus_constant(offset);
        let (lo, hi) = self.bounds(&rest)?;
        let fits = lo >= least && hi < least.checked_add(c)?;
        fits.then(|| (quotient.plus_constant(index.offset().wrapping_sub(offset) / c), rest))
    }

    /// Applies the unit rule once, to the equation with the fewest loop variables that it fits: solves this
    /// equation for its innermost variable with coefficient ±1.
    fn unit(&mut self) -> bool {
        let found =
            self.equations.iter().enumerate().filter_map(|(at, e)| Some((at, self.innermost_unit(e)?)));
        let Some((at, var)) = found.min_by_key(|&(at, _)| self.equations[at].left.terms().len()) else {
            return false;
        };
        let LinearEquation { left, right, dim } = self.equations[at].clone();
        let sign = left.coefficient(var);
        let rest = left.plus(&Affine::term(var, -sign));
        let value = right.plus(&rest.times(-1)).times(sign);
        self.equations[at] = LinearEquation { dim, left: Affine::default(), right: Affine::default() };
        self.settle(var, &value);
        true
    }

    fn innermost_unit(&self, equation: &LinearEquation) -> Option<LoopId> {
        let unit = |var: &&LoopId| equation.left.coefficient(**var).unsigned_abs() == 1;
        self.target.loops.iter().rev().find(unit).copied()
    }

    /// Records the solution `var = value`.
    fn settle(&mut self, var: LoopId, value: &Affine) {
        for known in self.values.values_mut() {
            *known = known.substitute(var, value);
        }
        self.values.insert(var, value.clone());
        for equation in &mut self.equations {
            if equation.left.mentions(var) {
                let whole = equation.left.plus(&equation.right.times(-1)).substitute(var, value);
                equation.left = part(&whole, |v| is_among(v, self.target.loops));
                equation.right = equation.left.plus(&whole.times(-1));
            }
        }
    }

    /// Whether no values of the variables satisfy the equation.
    fn impossible(&self, equation: &LinearEquation) -> bool {
        let difference = equation.left.plus(&equation.right.times(-1));
        self.decide(&Range { index: difference, lo: 0, hi: 1 }) == Some(false)
    }

    /// The remaining conditions; `None` if they never hold.
    fn conditions(&self) -> Option<Guard> {
        let tests = self.equations.iter().map(|e| Range { index: e.right.clone(), lo: 0, hi: 1 });
        let inside = self.values.iter().flat_map(|(&var, value)| self.within_loop(var, value));
        let mut open = Guard::new();
        for range in tests.chain(inside) {
            match self.decide(&range) {
                Some(true) => {}
                Some(false) => return None,
                None if open.contains(&range) => {}
                None => open.push(range),
            }
        }
        Some(open)
    }

    /// The conditions under which `value` is one of the values of the loop variable.
    fn within_loop(&self, var: LoopId, value: &Affine) -> Vec<Range> {
        let Some(info) = self.ranges.get(var) else { return Vec::new() };
        let mut within = vec![Range { index: value.clone(), lo: info.lo, hi: info.hi.limit }];
        for clip in self.ranges.clips_of(var) {
            // The condition `value < clip`. A range needs a lower end too; this one follows from the range
            // above.
            let most = self.ranges.bounds(&clip).map_or(i64::MAX, |(_, most)| most);
            let lo = info.lo.saturating_sub(most).saturating_sub(1);
            let clip = self.values.iter().fold(clip, |clip, (&var, value)| clip.substitute(var, value));
            within.push(Range { index: value.plus(&clip.times(-1)), lo, hi: 0 });
        }
        within
    }

    /// Whether the range always or never holds, if the ranges of the variables or divisibility decide it.
    fn decide(&self, range: &Range) -> Option<bool> {
        let (lo, hi) = self.bounds(&range.index)?;
        if range.lo <= lo && hi < range.hi {
            return Some(true);
        }
        if hi < range.lo || range.hi <= lo {
            return Some(false);
        }
        let g = range.index.terms().iter().fold(0, |g, &(_, c)| gcd(g, c.unsigned_abs()));
        let step = i64::try_from(g).ok().filter(|&g| g > 1)?;
        let first = range.lo.checked_add(range.index.offset().checked_sub(range.lo)?.rem_euclid(step))?;
        (first >= range.hi).then_some(false)
    }

    /// The bounds of an index where the guard of the wanted element holds.
    fn bounds(&self, index: &Affine) -> Option<(i64, i64)> {
        self.ranges.bounds_under(index, self.guard)
    }

    fn finish(self, conditions: Guard) -> Result<Solution, Unsolvable> {
        let mentioned = |var: &&LoopId| self.target.index.iter().any(|i| i.mentions(**var));
        let open = |var: &&LoopId| !self.values.contains_key(*var);
        let kept: Vec<LoopId> = self.target.loops.iter().filter(mentioned).filter(open).copied().collect();
        let place = |var: LoopId| self.target.loops.iter().position(|&l| l == var);
        let inverts = |(&var, value): (&LoopId, &Affine)| {
            kept.iter().any(|&other| value.mentions(other) && place(other) > place(var))
        };
        let inverted = self.values.iter().any(inverts);
        match self.target.index.iter().position(|index| inverted && !self.tells_digits(index)) {
            Some(dim) => Err(Unsolvable::Order(dim)),
            None => Ok(Solution { values: self.values, conditions, kept, inverted }),
        }
    }

    /// Whether the value of the index determines all of its loop variables.
    fn tells_digits(&self, index: &Affine) -> bool {
        let own = index.terms().iter().filter(|(var, _)| is_among(*var, self.target.loops));
        let extent = |var: Var| match var {
            Var::Loop(id) => self.ranges.get(id).map_or(u64::MAX, |l| l.extent()),
            Var::Symbol(_) => u64::MAX,
        };
        let mut digits: Vec<(u64, u64)> = own.map(|&(var, c)| (c.unsigned_abs(), extent(var))).collect();
        is_mixed_radix(&mut digits)
    }
}

fn is_among(var: Var, loops: &[LoopId]) -> bool {
    matches!(var, Var::Loop(id) if loops.contains(&id))
}

/// The terms of the index whose variables are chosen, without the constant.
fn part(index: &Affine, chosen: impl Fn(Var) -> bool) -> Affine {
    let mut part = Affine::default();
    for &(var, c) in index.terms().iter().filter(|(var, _)| chosen(*var)) {
        part.add_term(var, c);
    }
    part
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
