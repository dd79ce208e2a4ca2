//! Tests whether an assignment writes every element of its target, and whether it writes each at most once.
//!
//! Both tests are conservative: `true` is a proof, `false` may be a missed proof and costs a redundant fill.

use super::{AxisIndex, Projections, extent};
use lowered_ir::ir::{Affine, LoopId, Var, is_mixed_radix};

/// An interval of indices of one axis: `lo..=hi`, shifted by the value of `symbols`, which is constant during
/// a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisSpan {
    pub(crate) symbols: Affine,
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl AxisSpan {
    /// All indices of an axis.
    pub(crate) fn whole(dim: usize) -> AxisSpan {
        AxisSpan { symbols: Affine::constant(0), lo: 0, hi: extent(dim) - 1 }
    }

    /// The interval that holds only the value of a symbol.
    pub(crate) fn at(var: impl Into<Var>) -> AxisSpan {
        AxisSpan { symbols: Affine::var(var), lo: 0, hi: 0 }
    }

    /// The interval of all integers.
    fn anywhere() -> AxisSpan {
        AxisSpan { symbols: Affine::constant(0), lo: i64::MIN, hi: i64::MAX }
    }

    /// Whether `other` provably contains this interval, or contains all indices of an axis of size `dim`.
    pub(crate) fn is_within(&self, other: &AxisSpan, dim: usize) -> bool {
        let is_whole = other.symbols.as_constant() == Some(0) && other.lo <= 0 && extent(dim) - 1 <= other.hi;
        is_whole || (self.symbols == other.symbols && other.lo <= self.lo && self.hi <= other.hi)
    }

    /// Whether the intervals are provably disjoint.
    pub(crate) fn is_apart(&self, other: &AxisSpan) -> bool {
        self.symbols == other.symbols && (self.hi < other.lo || other.hi < self.lo)
    }
}

impl Projections {
    /// Whether every element of the left-hand side is provably written.
    ///
    /// The index of each axis must take every value of its dimension. No iterator may occur in the indices of
    /// two axes, so that all combinations of these values occur.
    pub fn is_surjective(&self) -> bool {
        let writes = !self.product_space().contains(&0) && !self.is_clipped();
        self.lhs_dims().contains(&0) || (writes && self.uncovered_axis().is_none())
    }

    /// The first axis of the left-hand side that is not provably written in full.
    pub(crate) fn uncovered_axis(&self) -> Option<usize> {
        let mut seen: Vec<LoopId> = Vec::new();
        self.project_lhs().iter().zip(self.lhs_dims()).position(|(index, &dim)| {
            let loops = index.loop_terms();
            let shared = loops.iter().any(|(id, _)| seen.contains(id));
            seen.extend(loops.iter().map(|&(id, _)| id));
            shared || !self.covers(index, extent(dim))
        })
    }

    /// The first axis of the left-hand side whose index a condition bounds.
    pub(crate) fn clipped_axis(&self) -> Option<usize> {
        let bounded = self.product_iterators().iter().zip(self.clips());
        let clipped: Vec<LoopId> =
            bounded.filter(|(_, clips)| !clips.is_empty()).map(|(&id, _)| id).collect();
        self.project_lhs()
            .iter()
            .position(|index| index.loop_terms().iter().any(|(id, _)| clipped.contains(id)))
    }

    /// Whether the index takes exactly the values `0..dim`. A computed index may take any value.
    fn covers(&self, index: &AxisIndex, dim: i64) -> bool {
        if index.computed().is_some() {
            return false;
        }
        if !is_static(index) {
            return dim == 1;
        }
        self.interval(index) == Some((0, dim - 1))
    }

    /// The least and the greatest value of `index`, if it provably takes every value between them. There is
    /// no gap if, with the terms sorted by coefficient, each coefficient is at most one more than the sum of
    /// the greatest values of the terms before it.
    fn interval(&self, index: &AxisIndex) -> Option<(i64, i64)> {
        if !is_static(index) || self.may_end_early(index) {
            return None;
        }
        let mut terms = self.sized_terms(index);
        terms.sort_unstable();
        terms.iter().try_fold(0i64, |reach, &(size, steps)| {
            if size > reach.checked_add(1)? { None } else { reach.checked_add(size.checked_mul(steps)?) }
        })?;
        self.bounds_of(index)
    }

    /// Whether the index has an iterator below a size that a run gives, and is not this iterator alone: the
    /// size of the axis is another one then.
    fn may_end_early(&self, index: &AxisIndex) -> bool {
        let is_sized = |(id, _): (LoopId, i64)| self.run_sizes().any(|(sized, _)| sized == id);
        !matches!(index, AxisIndex::Iterator(_)) && index.loop_terms().into_iter().any(is_sized)
    }

    /// The bounding box of the elements written, as the first and last index per axis, if every element of it
    /// is provably written.
    fn written_box(&self) -> Option<Vec<(i64, i64)>> {
        if self.is_clipped() {
            return None;
        }
        let mut seen: Vec<LoopId> = Vec::new();
        let axis = |index: &AxisIndex| {
            let loops = index.loop_terms();
            let shared = loops.iter().any(|(id, _)| seen.contains(id));
            seen.extend(loops.iter().map(|&(id, _)| id));
            if shared { None } else { self.interval(index) }
        };
        self.project_lhs().iter().map(axis).collect()
    }

    /// A box that contains all elements that `indices` reach, one interval per axis.
    pub(crate) fn outer_box(&self, indices: &[AxisIndex]) -> Vec<AxisSpan> {
        let axis = |index: &AxisIndex| match index.computed() {
            Some(_) => AxisSpan::anywhere(),
            None => {
                let (symbols, loops) = split_symbols(&index.affine());
                let bounds = self.bounds_of(&AxisIndex::new(loops));
                bounds.map_or_else(AxisSpan::anywhere, |(lo, hi)| AxisSpan { symbols, lo, hi })
            }
        };
        indices.iter().map(axis).collect()
    }

    /// The bounding box of the elements written, with symbols, if every element of it is provably written.
    pub(crate) fn inner_box(&self) -> Option<Vec<AxisSpan>> {
        let mut seen: Vec<LoopId> = Vec::new();
        let axis = |index: &AxisIndex| {
            if index.computed().is_some() {
                return None;
            }
            let loops = index.loop_terms();
            let shared = loops.iter().any(|(id, _)| seen.contains(id));
            seen.extend(loops.iter().map(|&(id, _)| id));
            let (symbols, loops) = split_symbols(&index.affine());
            let (lo, hi) = if shared { None } else { self.interval(&AxisIndex::new(loops)) }?;
            Some(AxisSpan { symbols, lo, hi })
        };
        let writes = !self.product_space().contains(&0) && !self.is_clipped();
        self.project_lhs().iter().map(axis).collect::<Option<_>>().filter(|_| writes)
    }

    /// Whether both provably write the same elements: their indices and the extents of their iterators are
    /// equal.
    pub(crate) fn writes_as(&self, other: &Projections) -> bool {
        let known = |index: &AxisIndex| index.computed().is_none();
        let same_extents = |index: &AxisIndex| {
            index.loop_terms().iter().all(|&(id, _)| self.extent_of(id) == other.extent_of(id))
        };
        let (ours, theirs) = (self.project_lhs(), other.project_lhs());
        ours == theirs
            && self.clips() == other.clips()
            && ours.iter().all(|index| known(index) && same_extents(index))
    }

    /// Whether no element is written by both: on some axis the ranges of their indices are disjoint, or their
    /// remainders differ.
    fn is_disjoint(&self, other: &Projections) -> bool {
        let never_writes = |p: &Projections| p.product_space().contains(&0);
        let mut axes = self.project_lhs().iter().zip(other.project_lhs());
        let apart = |a: &AxisIndex, b: &AxisIndex| {
            if !is_static(a) || !is_static(b) {
                return false;
            }
            let bounds = self.bounds_of(a).zip(other.bounds_of(b));
            bounds.is_some_and(|(a, b)| a.1 < b.0 || b.1 < a.0) || have_other_remainders(a, b)
        };
        never_writes(self) || never_writes(other) || axes.any(|(a, b)| apart(a, b))
    }

    /// The number of elements written, if it is provably known.
    fn num_written(&self) -> Option<i64> {
        if self.product_space().contains(&0) {
            return Some(0);
        }
        if let Some(sides) = self.written_box() {
            return sides.iter().try_fold(1i64, |volume, (lo, hi)| volume.checked_mul(hi - lo + 1));
        }
        let is_inside = |(index, &dim): (&AxisIndex, &usize)| {
            is_static(index) && self.bounds_of(index).is_some_and(|(lo, hi)| lo >= 0 && hi < extent(dim))
        };
        let counts = !self.is_clipped() && self.run_sizes().next().is_none() && self.is_injective();
        if !counts || !self.project_lhs().iter().zip(self.lhs_dims()).all(is_inside) {
            return None;
        }
        self.product_space().iter().try_fold(1i64, |points, &dim| points.checked_mul(extent(dim)))
    }

    /// For each product iterator in `index`, the pair `(|coefficient|, extent - 1)`.
    fn sized_terms(&self, index: &AxisIndex) -> Vec<(i64, i64)> {
        let sized = |(id, c): (LoopId, i64)| (c.saturating_abs(), extent(self.extent_of(id).max(1)) - 1);
        index.loop_terms().into_iter().map(sized).collect()
    }

    /// The least and the greatest value of an index if all symbols are 0.
    fn bounds_of(&self, index: &AxisIndex) -> Option<(i64, i64)> {
        self.index_bounds(&index.affine(), &|_| None)
    }

    /// Whether each element of the left-hand side is provably written at most once.
    ///
    /// The value of an index determines its iterators if they are the digits of a mixed-radix number.
    /// Iterators that the index of one axis determines count as constants in the other indices; for instance,
    /// `(a, a + b)` determines both.
    pub fn is_injective(&self) -> bool {
        let mut pinned: Vec<LoopId> = Vec::new();
        loop {
            let before = pinned.len();
            for index in self.project_lhs() {
                self.pin(index, &mut pinned);
            }
            if pinned.len() == before {
                return self.product_iterators().iter().all(|id| pinned.contains(id));
            }
        }
    }

    /// Adds to `pinned` the iterators that the value of `index` determines once the iterators in `pinned` are
    /// known.
    fn pin(&self, index: &AxisIndex, pinned: &mut Vec<LoopId>) {
        let open = index.loop_terms().into_iter().filter(|(id, _)| !pinned.contains(id));
        let (ids, mut digits): (Vec<LoopId>, Vec<(u64, u64)>) =
            open.map(|(id, c)| (id, (c.unsigned_abs(), self.extent_of(id) as u64))).unzip();
        if is_mixed_radix(&mut digits) {
            pinned.extend(ids);
        }
    }
}

/// Splits an index into its terms with symbols and the rest.
fn split_symbols(index: &Affine) -> (Affine, Affine) {
    let (mut symbols, mut loops) = (Affine::constant(0), Affine::constant(index.offset()));
    for &(var, coefficient) in index.terms() {
        match var {
            Var::Symbol(_) => symbols.add_term(var, coefficient),
            Var::Loop(_) => loops.add_term(var, coefficient),
        }
    }
    (symbols, loops)
}

/// Whether the index is neither computed nor depends on a symbol.
fn is_static(index: &AxisIndex) -> bool {
    index.computed().is_none() && index.loop_terms().len() == index.affine().terms().len()
}

/// Whether two indices always differ, because their values have different remainders when divided by the
/// greatest common divisor of all coefficients: `2 * i` and `2 * j + 1`.
fn have_other_remainders(a: &AxisIndex, b: &AxisIndex) -> bool {
    let (a, b) = (a.affine(), b.affine());
    let terms = a.terms().iter().chain(b.terms());
    let divisor = terms.fold(0, |divisor, (_, c)| greatest_common_divisor(divisor, c.unsigned_abs()));
    divisor > 1 && !a.offset().abs_diff(b.offset()).is_multiple_of(divisor)
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Whether assignments to one array together provably write every element of it.
///
/// Either one of them writes every element, or they write disjoint sets of elements that together have as
/// many elements as the array.
pub fn are_surjective(parts: &[&Projections]) -> bool {
    if parts.iter().any(|part| part.is_surjective()) {
        return true;
    }
    let written = parts.iter().try_fold(0i64, |sum, part| sum.checked_add(part.num_written()?));
    let dims = parts.first().map_or(&[][..], |part| part.lhs_dims());
    let all = dims.iter().try_fold(1i64, |volume, &dim| volume.checked_mul(extent(dim)));
    written.is_some() && written == all && are_disjoint(parts)
}

/// Whether assignments to one array together provably write each element at most once.
pub fn are_injective(parts: &[&Projections]) -> bool {
    parts.iter().all(|part| part.is_injective()) && are_disjoint(parts)
}

fn are_disjoint(parts: &[&Projections]) -> bool {
    if (0..parts.first().map_or(0, |part| part.project_lhs().len())).any(|axis| are_apart(parts, axis)) {
        return true;
    }
    parts.iter().enumerate().all(|(at, part)| parts[..at].iter().all(|other| part.is_disjoint(other)))
}

/// Whether the ranges of the indices of one axis are pairwise disjoint.
fn are_apart(parts: &[&Projections], axis: usize) -> bool {
    let values = |part: &&Projections| {
        let index = part.project_lhs().get(axis).filter(|index| is_static(index))?;
        part.bounds_of(index)
    };
    let Some(mut values) = parts.iter().map(values).collect::<Option<Vec<_>>>() else { return false };
    values.sort_unstable();
    values.windows(2).all(|pair| pair[0].1 < pair[1].0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use tnode::Dims;

    use super::*;
    use crate::indexing::{Projection, axis_iterator};
    use lowered_ir::ir::{Affine, SymbolId};

    /// Name, extents, dimensions of the left-hand side, positions, surjective, injective.
    type Case<'a> = (&'a str, &'a [usize], &'a [usize], &'a [Position<'a>], bool, bool);

    /// One position as `(axis, coefficient)` terms and an offset.
    type Position<'a> = (&'a [(usize, i64)], i64);

    fn projections(axes: &[usize], dims: &[usize], positions: &[Position]) -> Projections {
        let index = |&(terms, offset): &Position| {
            let sum = terms.iter().fold(Affine::constant(offset), |sum, &(axis, c)| {
                sum.plus(&Affine::term(axis_iterator(axis), c))
            });
            AxisIndex::new(sum)
        };
        let lhs = (Dims::from_slice(dims), positions.iter().map(index).collect::<Projection>());
        Projections::new(axes, lhs, vec![], "test").unwrap()
    }

    #[test]
    fn table_of_cases() {
        let i: Position = (&[(0, 1)], 0);
        let j: Position = (&[(1, 1)], 0);
        let cases: &[Case] = &[
            ("identity", &[3, 4], &[3, 4], &[i, j], true, true),
            ("transpose", &[3, 4], &[4, 3], &[j, i], true, true),
            ("reduction", &[3, 4], &[3], &[i], true, false),
            ("diagonal", &[3], &[3, 3], &[i, i], false, true),
            ("scalar reduction", &[3], &[], &[], true, false),
            ("fixed in a longer axis", &[3], &[3, 2], &[i, (&[], 1)], false, true),
            ("fixed in an axis of 1", &[3], &[3, 1], &[i, (&[], 0)], true, true),
            ("strided", &[3], &[6], &[(&[(0, 2)], 0)], false, true),
            ("strided and kernel", &[3, 2], &[6], &[(&[(0, 2), (1, 1)], 0)], true, true),
            ("overlapping windows", &[3, 3], &[7], &[(&[(0, 2), (1, 1)], 0)], true, false),
            ("gaps between windows", &[3, 2], &[8], &[(&[(0, 3), (1, 1)], 0)], false, true),
            ("reversed", &[4], &[4], &[(&[(0, -1)], 3)], true, true),
            ("shifted", &[3], &[4], &[(&[(0, 1)], 1)], false, true),
            ("triangular", &[3, 4], &[3, 6], &[i, (&[(0, 1), (1, 1)], 0)], false, true),
            ("3a + 4b over (3, 2)", &[3, 2], &[11], &[(&[(0, 3), (1, 4)], 0)], false, false),
            ("three digits", &[2, 3, 4], &[24], &[(&[(0, 12), (1, 4), (2, 1)], 0)], true, true),
            ("pinned across positions", &[3, 3], &[5, 3], &[(&[(0, 1), (1, 1)], 0), j], false, true),
            ("empty product space", &[0], &[0], &[i], true, true),
            (
                "a triangle of three",
                &[2, 3, 2],
                &[2, 4, 5],
                &[i, (&[(0, 1), (1, 1)], 0), (&[(0, 1), (1, 1), (2, 1)], 0)],
                false,
                true,
            ),
            (
                "a cycle pins nothing",
                &[2, 2, 2],
                &[3, 3, 3],
                &[(&[(0, 1), (1, 1)], 0), (&[(1, 1), (2, 1)], 0), (&[(0, 1), (2, 1)], 0)],
                false,
                false,
            ),
            (
                "pinned in two steps",
                &[3, 2, 4],
                &[4, 2, 4],
                &[(&[(0, 1), (1, 1)], 0), j, (&[(2, 1)], 0)],
                false,
                true,
            ),
            ("digits of either sign", &[4, 2], &[8], &[(&[(0, -2), (1, -1)], 7)], true, true),
            ("digits in any order", &[2, 3, 4], &[24], &[(&[(2, 6), (0, 3), (1, 1)], 0)], true, true),
            ("a digit too wide", &[4, 3], &[10], &[(&[(0, 2), (1, 1)], 0)], false, false),
            ("as wide as the gap", &[4, 2], &[8], &[(&[(0, 2), (1, 1)], 0)], true, true),
            (
                "digits and a pinned one",
                &[3, 2, 2],
                &[3, 7],
                &[i, (&[(0, 1), (1, 2), (2, 1)], 0)],
                false,
                true,
            ),
            ("an iterator that writes nothing new", &[3, 1], &[3], &[i], true, true),
            ("scalar without axes", &[], &[], &[], true, true),
            ("fixed alone", &[], &[2], &[(&[], 1)], false, true),
            ("windows that tile", &[4, 3], &[12], &[(&[(0, 3), (1, 1)], 0)], true, true),
            ("windows that begin late", &[4, 3], &[13], &[(&[(0, 3), (1, 1)], 1)], false, true),
            (
                "two axes from one letter and two",
                &[2, 3],
                &[2, 3],
                &[i, (&[(0, 1), (1, 1)], -1)],
                false,
                true,
            ),
        ];
        for &(name, axes, dims, positions, surjective, injective) in cases {
            let p = projections(axes, dims, positions);
            assert_eq!((p.is_surjective(), p.is_injective()), (surjective, injective), "{name}");
        }
    }

    #[test]
    fn parts_together() {
        let part = |extent: usize, offset: i64| {
            projections(&[extent, 2], &[7, 2], &[(&[(0, 1)], offset), (&[(1, 1)], 0)])
        };
        let answers = |parts: &[&Projections]| (are_surjective(parts), are_injective(parts));
        assert_eq!(answers(&[&part(3, 0), &part(4, 3)]), (true, true));
        assert_eq!(answers(&[&part(4, 3), &part(2, 0), &part(1, 2)]), (true, true));
        assert_eq!(answers(&[&part(3, 0), &part(3, 4)]), (false, true), "a gap");
        assert_eq!(answers(&[&part(4, 0), &part(4, 3)]), (false, false), "an overlap");
        assert_eq!(answers(&[&part(7, 0), &part(1, 0)]), (true, false), "one alone writes all");
        assert_eq!(answers(&[&part(0, 0), &part(7, 0)]), (true, true), "an empty part");
    }

    #[test]
    fn interleaved_parts_together() {
        let part = |extent: usize, first: i64| projections(&[extent], &[7], &[(&[(0, 2)], first)]);
        let answers = |parts: &[&Projections]| (are_surjective(parts), are_injective(parts));
        assert_eq!(answers(&[&part(4, 0), &part(3, 1)]), (true, true));
        assert_eq!(answers(&[&part(3, 0), &part(3, 1)]), (false, true), "a gap");
        assert_eq!(answers(&[&part(4, 0), &part(3, 2)]), (false, false), "an overlap");
        assert_eq!(answers(&[&part(4, 0), &part(4, 1)]), (false, true), "beyond the end");
        let single = projections(&[], &[7], &[(&[], 3)]);
        assert_eq!(answers(&[&part(4, 0), &single]), (false, true));
        let thirds = |extent: usize, first: i64| projections(&[extent], &[7], &[(&[(0, 3)], first)]);
        assert_eq!(answers(&[&part(4, 0), &thirds(2, 1)]), (false, false), "4 is in both");
        assert_eq!(answers(&[&thirds(3, 0), &thirds(2, 1), &thirds(2, 2)]), (true, true));
        let pairs = projections(&[2, 2], &[8], &[(&[(0, 4), (1, 1)], 0)]);
        let other_pairs = projections(&[2, 2], &[8], &[(&[(0, 4), (1, 1)], 2)]);
        assert!(!are_injective(&[&pairs, &other_pairs]), "not decided");
    }

    #[test]
    fn a_symbol_reaches_one_element_per_run() {
        let symbol = |dim| {
            let lhs =
                (Dims::from_slice(&[dim]), Projection::from_iter([AxisIndex::new(Affine::var(SymbolId(0)))]));
            Projections::new(&[], lhs, vec![], "test").unwrap()
        };
        assert!(!symbol(3).is_surjective() && symbol(3).is_injective());
        assert!(symbol(1).is_surjective());
    }

    #[test]
    fn a_computed_index_covers_and_tells_nothing() {
        let part = |first: AxisIndex| {
            let operand = (Dims::from_slice(&[3]), Projection::from_iter([AxisIndex::axis(0)]));
            let index = Projection::from_iter([first, AxisIndex::axis(1)]);
            Projections::new(&[3, 4], (Dims::from_slice(&[1, 4]), index), vec![operand], "test").unwrap()
        };
        let scatter = part(AxisIndex::Computed(0));
        assert!(!scatter.is_surjective() && !scatter.is_injective());
        assert!(!are_injective(&[&scatter, &part(AxisIndex::Fixed(0))]));
        let one_hot = Projection::from_iter([AxisIndex::axis(0), AxisIndex::Computed(0)]);
        let operand = (Dims::from_slice(&[3]), Projection::from_iter([AxisIndex::axis(0)]));
        let dims = Dims::from_slice(&[3, 4]);
        let one_hot = Projections::new(&[3], (dims, one_hot), vec![operand], "test").unwrap();
        assert!(!one_hot.is_surjective() && one_hot.is_injective());
    }

    /// All index tuples of a small product space.
    fn images(p: &Projections) -> Vec<Vec<i64>> {
        let mut points: Vec<Vec<i64>> = vec![vec![]];
        for &d in p.product_space() {
            points = points.iter().flat_map(|pt| (0..d as i64).map(|x| [&pt[..], &[x]].concat())).collect();
        }
        let value = |pt: &[i64], var| {
            p.product_iterators()
                .iter()
                .position(|&i| var == lowered_ir::ir::Var::Loop(i))
                .map_or(0, |at| pt[at])
        };
        points
            .iter()
            .map(|pt| p.project_lhs().iter().map(|i| i.affine().eval(|v| value(pt, v))).collect())
            .collect()
    }

    proptest! {
        #[test]
        fn both_answers_are_sound(
            axes in prop::collection::vec(1usize..4, 1..4),
            coefficients in prop::collection::vec((-4i64..5, -4i64..5, -4i64..5, 0i64..4), 1..3),
            dims in prop::collection::vec(1usize..12, 2),
        ) {
            let terms: Vec<Vec<(usize, i64)>> =
                coefficients.iter().map(|&(a, b, c, _)| [a, b, c].into_iter().enumerate().take(axes.len()).collect()).collect();
            let positions: Vec<Position> = terms.iter().zip(&coefficients).map(|(t, c)| (&t[..], c.3)).collect();
            let p = projections(&axes, &dims[..positions.len()], &positions);
            let images = images(&p);
            let distinct: BTreeSet<_> = images.iter().collect();
            if p.is_injective() {
                prop_assert_eq!(distinct.len(), images.len());
            }
            if p.is_surjective() {
                let all: usize = p.lhs_dims().iter().product();
                let inside = |t: &&&Vec<i64>| t.iter().zip(p.lhs_dims()).all(|(&x, &d)| 0 <= x && x < d as i64);
                prop_assert_eq!(distinct.iter().filter(inside).count(), all);
            }
        }
    }
}
