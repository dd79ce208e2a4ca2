//! The ends of loops, and the ranges of indices that follow from them.

use super::{Affine, LoopId, NodeRef, Quotient, SymbolId, Var};

/// The end of a loop: the least of a constant and of any number of affine expressions, the *clips*, over
/// symbols and the variables of enclosing loops. A loop with a *condition*, a node of one element, also ends
/// before the first iteration that finds it 0.
///
/// Kept normal: the clips are sorted, none occurs twice, and none is constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound {
    /// The constant. The loop variable stays below it, whatever the clips are.
    pub limit: i64,
    clips: Vec<Affine>,
    condition: Option<NodeRef>,
}

impl From<i64> for Bound {
    fn from(limit: i64) -> Self {
        Bound { limit, clips: Vec::new(), condition: None }
    }
}

impl Bound {
    /// The lesser of this bound and `clip`.
    pub fn clipped(mut self, clip: Affine) -> Bound {
        match (clip.as_constant(), self.clips.binary_search(&clip)) {
            (Some(constant), _) => self.limit = self.limit.min(constant),
            (None, Ok(_)) => {}
            (None, Err(at)) => self.clips.insert(at, clip),
        }
        self
    }

    /// The clips, sorted; none for a constant bound.
    pub fn clips(&self) -> &[Affine] {
        &self.clips
    }

    /// The node whose value 0 ends the loop.
    pub fn condition(&self) -> Option<NodeRef> {
        self.condition
    }

    /// The bound of a loop that the node ends too.
    #[must_use]
    pub fn while_node(self, node: NodeRef) -> Bound {
        Bound { condition: Some(node), ..self }
    }

    /// The bound without its condition.
    #[must_use]
    pub fn without_condition(&self) -> Bound {
        Bound { condition: None, ..self.clone() }
    }

    /// Replaces the node of the condition.
    pub fn map_condition(&mut self, f: impl FnOnce(NodeRef) -> NodeRef) {
        self.condition = self.condition.map(f);
    }

    /// The bound, if it is constant.
    pub fn constant(&self) -> Option<i64> {
        self.is_constant().then_some(self.limit)
    }

    /// Whether the bound has the same value in every run and in every iteration of the loops around.
    pub fn is_constant(&self) -> bool {
        self.clips.is_empty() && self.condition.is_none()
    }

    /// Whether the bound has the same value in every iteration of the loops around.
    pub fn is_of_symbols(&self) -> bool {
        let is_symbol = |&(var, _): &(Var, i64)| matches!(var, Var::Symbol(_));
        self.condition.is_none() && self.clips.iter().all(|clip| clip.terms().iter().all(is_symbol))
    }

    /// Whether a clip mentions the variable.
    pub fn mentions(&self, var: impl Into<Var>) -> bool {
        let var = var.into();
        self.clips.iter().any(|clip| clip.mentions(var))
    }

    /// The bound with every clip replaced by its image.
    pub fn map(&self, f: impl FnMut(&Affine) -> Affine) -> Bound {
        let bound = Bound { condition: self.condition, ..self.limit.into() };
        self.clips.iter().map(f).fold(bound, Bound::clipped)
    }

    /// The value under an assignment of the variables, whatever the condition is.
    pub fn eval(&self, mut value: impl FnMut(Var) -> i64) -> i64 {
        self.clips.iter().fold(self.limit, |least, clip| least.min(clip.eval(&mut value)))
    }
}

/// The ranges of the variables in scope at some statement.
pub trait VariableBounds {
    /// The least and the greatest value of a variable.
    fn interval(&self, var: Var) -> (i64, i64);

    /// The clips of the loop over a variable: the variable is less than each of them.
    fn clips(&self, var: LoopId) -> &[Affine];

    /// How a symbol follows from others, if that is its value in every run; none for a parameter, and for a
    /// quotient that may be the nearest value in its range instead.
    fn quotient(&self, symbol: SymbolId) -> Option<Quotient>;
}

/// The number of replacements that [`index_bounds`] tries for each end of an index.
const MAX_SUBSTITUTIONS: usize = 32;

/// The least and the greatest value of an index at a statement that runs; `None` where they do not fit an
/// `i64`.
///
/// A variable lies within its interval and below the clips of its loop. So `j - i` with `0 <= i < 8` and
/// `j < min(8, i + 1)` is at most 0, although intervals alone allow 7. A quotient lies within what its
/// dividend allows: with `h = (n + 1) / 2` and `i < h`, the index `n - 1 - 2*i` is at least 0.
pub fn index_bounds(index: &Affine, ranges: &impl VariableBounds) -> Option<(i64, i64)> {
    let (least, greatest) = index.bounds(|var| ranges.interval(var))?;
    let is_related = |&(var, _): &(Var, i64)| match var {
        Var::Loop(id) => !ranges.clips(id).is_empty(),
        Var::Symbol(id) => ranges.quotient(id).is_some(),
    };
    if !index.terms().iter().any(is_related) {
        return Some((least, greatest));
    }
    let mut left = MAX_SUBSTITUTIONS;
    let above = greatest_of_related(index, ranges, &mut left);
    left = MAX_SUBSTITUTIONS;
    let below = index.checked_times(-1).and_then(|negated| greatest_of_related(&negated, ranges, &mut left));
    let below = below.and_then(i64::checked_neg);
    Some((below.map_or(least, |b| b.max(least)), above.map_or(greatest, |a| a.min(greatest))))
}

/// The least upper end of the index that replacing variables by their greatest values gives. The greatest
/// value of a variable is the end of its interval, one less than a clip, or what the dividend of a quotient
/// allows.
fn greatest_of_related(index: &Affine, ranges: &impl VariableBounds, left: &mut usize) -> Option<i64> {
    let mut best = index.bounds(|var| ranges.interval(var)).map(|(_, greatest)| greatest);
    let mut replace = |replaced: Option<Affine>, divisor: i64| {
        let Some(rest) = left.checked_sub(1) else { return };
        *left = rest;
        let end = replaced.and_then(|index| greatest_of_related(&index, ranges, left));
        let end = end.map(|end| end.div_euclid(divisor));
        best = match (best, end) {
            (Some(best), Some(end)) => Some(best.min(end)),
            (best, end) => best.or(end),
        };
    };
    for &(var, coefficient) in index.terms() {
        match var {
            Var::Loop(id) if coefficient > 0 => ranges.clips(id).iter().for_each(|clip| {
                let last = clip.checked_plus(&Affine::constant(-1));
                replace(last.and_then(|last| index.checked_substitute(var, &last)), 1);
            }),
            Var::Loop(_) => {}
            Var::Symbol(id) => {
                if let Some(quotient) = ranges.quotient(id) {
                    replace(without_quotient(index, var, &quotient), quotient.divisor);
                }
            }
        }
    }
    best
}

/// The index times the divisor of a quotient, where the greatest product of quotient and coefficient that the
/// dividend allows takes the place of the product; `None` on overflow.
fn without_quotient(index: &Affine, var: Var, quotient: &Quotient) -> Option<Affine> {
    let coefficient = index.coefficient(var);
    let others = index.checked_substitute(var, &Affine::constant(0))?;
    // dividend - (divisor - 1) <= quotient * divisor <= dividend
    let rounded = if coefficient > 0 { 0 } else { 1i64.checked_sub(quotient.divisor)? };
    let product = quotient.dividend.checked_plus(&Affine::constant(rounded))?.checked_times(coefficient)?;
    others.checked_times(quotient.divisor)?.checked_plus(&product)
}

#[cfg(test)]
mod tests {
    use super::*;

    const I: LoopId = LoopId(0);
    const J: LoopId = LoopId(1);

    fn sum(terms: &[(LoopId, i64)], offset: i64) -> Affine {
        let mut index = Affine::constant(offset);
        terms.iter().for_each(|&(var, c)| index.add_term(var.into(), c));
        index
    }

    /// `0 <= i < 8`, and `0 <= j < 8` below the clips.
    struct Triangle(Vec<Affine>);

    impl VariableBounds for Triangle {
        fn interval(&self, _: Var) -> (i64, i64) {
            (0, 7)
        }

        fn clips(&self, var: LoopId) -> &[Affine] {
            if var == J { &self.0 } else { &[] }
        }

        fn quotient(&self, _: SymbolId) -> Option<Quotient> {
            None
        }
    }

    const N: Var = Var::Symbol(SymbolId(0));
    const Q: Var = Var::Symbol(SymbolId(1));

    /// `1 <= n < 10`, `q = floor(dividend / divisor)`, and `0 <= i < min(40, q)`.
    struct Halves(Quotient, [Affine; 1]);

    impl Halves {
        fn of(factor: i64, offset: i64, divisor: i64) -> Halves {
            let dividend = Affine::term(N, factor).plus_constant(offset);
            Halves(Quotient { dividend, divisor }, [Affine::var(Q)])
        }
    }

    impl VariableBounds for Halves {
        fn interval(&self, var: Var) -> (i64, i64) {
            match var {
                N => (1, 9),
                Q => (-40, 40),
                _ => (0, 39),
            }
        }

        fn clips(&self, _: LoopId) -> &[Affine] {
            &self.1
        }

        fn quotient(&self, symbol: SymbolId) -> Option<Quotient> {
            (Q == Var::Symbol(symbol)).then(|| self.0.clone())
        }
    }

    #[test]
    fn dividends_bound_quotients_from_both_sides() {
        let index = |n: i64, q: i64, i: i64, offset| {
            Affine::term(N, n).plus(&Affine::term(Q, q)).plus(&Affine::term(I, i)).plus_constant(offset)
        };
        let halves = Halves::of(1, 1, 2);
        assert_eq!(index_bounds(&index(1, 0, -2, -1), &halves).unwrap().0, 0, "n - 1 - 2*i");
        assert_eq!(index_bounds(&index(-1, 0, 2, 0), &halves).unwrap().1, -1, "2*i - n");
        assert_eq!(index_bounds(&index(1, -2, 0, 0), &halves).unwrap(), (-1, 0), "n - 2*q");
    }

    #[test]
    fn bounds_of_quotients_hold_on_every_small_case() {
        for (factor, offset, divisor) in [(1, 1, 2), (1, 0, 3), (2, -1, 3), (-1, 9, 2), (3, 2, 1)] {
            let ranges = Halves::of(factor, offset, divisor);
            for (n, q, i) in (0..125).map(|at| (at / 25 - 2, at / 5 % 5 - 2, at % 5 - 2)) {
                let index = Affine::term(N, n).plus(&Affine::term(Q, q)).plus(&Affine::term(I, i));
                let (least, greatest) = index_bounds(&index, &ranges).unwrap();
                for size in 1..10 {
                    let quotient = (factor * size + offset).div_euclid(divisor);
                    for at in 0..quotient {
                        let value = n * size + q * quotient + i * at;
                        assert!((least..=greatest).contains(&value), "{value} of {index:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_are_normal() {
        let clip = |c| sum(&[(I, 1)], c);
        let a = Bound::from(8).clipped(clip(2)).clipped(clip(1)).clipped(clip(2));
        assert_eq!(a, Bound::from(8).clipped(clip(1)).clipped(clip(2)));
        assert_eq!(Bound::from(8).clipped(5.into()), 5.into());
        assert_eq!(a.map(|clip| clip.substitute(I, &3.into())), 4.into());
        assert_eq!(a.eval(|_| 1), 2);
        assert!(a.mentions(I) && !a.mentions(J) && a.constant().is_none());
    }

    #[test]
    fn clips_bound_sums_and_differences() {
        let below_diagonal = Triangle(vec![sum(&[(I, 1)], 1)]);
        assert_eq!(index_bounds(&sum(&[(J, 1), (I, -1)], 0), &below_diagonal), Some((-7, 0)));
        assert_eq!(index_bounds(&sum(&[(I, 2), (J, -2)], 0), &below_diagonal), Some((0, 14)));
        assert_eq!(index_bounds(&sum(&[(I, 1), (J, 1)], 0), &below_diagonal), Some((0, 14)));
        let from_diagonal = Triangle(vec![sum(&[(I, -1)], 8)]);
        assert_eq!(index_bounds(&sum(&[(I, 1), (J, 1)], 0), &from_diagonal), Some((0, 7)));
    }

    #[test]
    fn bounds_hold_on_every_small_case() {
        for (slope, offset) in [(1, 1), (-1, 8), (2, -3), (-2, 9), (1, 0)] {
            let clip = sum(&[(I, slope)], offset);
            let ranges = Triangle(vec![clip.clone()]);
            for (a, b) in [(1, 1), (1, -1), (-1, 1), (-2, 3), (3, 2), (0, 1), (0, -1)] {
                let index = sum(&[(I, a), (J, b)], 0);
                let (least, greatest) = index_bounds(&index, &ranges).unwrap();
                for i in 0..8 {
                    for j in 0..8.min(slope * i + offset) {
                        let value = a * i + b * j;
                        assert!((least..=greatest).contains(&value), "{value} of {index:?} below {clip:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn steep_clips_do_not_overflow() {
        let ranges = Triangle(vec![sum(&[(I, i64::MAX)], i64::MAX)]);
        assert_eq!(index_bounds(&sum(&[(I, i64::MAX), (J, 3)], 0), &ranges), None);
        assert_eq!(index_bounds(&sum(&[(I, 1), (J, 3)], 0), &ranges), Some((0, 28)));
    }
}
