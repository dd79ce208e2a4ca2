//! Records, as boxes, the elements of a node that have surely been written.
//!
//! A *span* is the contiguous indices `base, base + 1, …, base + len - 1`, where `base` may depend on
//! variables in scope, repeated at *strides* as long as these leave gaps; a *patch* is one span per
//! dimension. A store writes a patch of single elements. At the end of a loop, the patches stored in it are
//! widened by the loop's variable, exactly, or dropped. Loops may fill gaps in any order: `4*k + m` leaves
//! gaps at the end of a loop over `k`, which a loop over `m` around it fills. At the end of outermost loops,
//! patches whose gaps fit together are joined, such as `2*i` and `2*i + 1`. So every recorded element has
//! been written, while an unrecorded element may have been written too: the analysis errs on one side only.

use smallvec::SmallVec;

use crate::ir::{Affine, Guard, Indices, LoopId};

use super::ranges::{LoopInfo, Ranges};

/// `len` consecutive indices from `base` on, repeated at strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexSpan {
    /// The first index.
    base: Affine,
    /// How many indices; at least 1.
    len: i64,
    /// The strides, shortest first. Each is longer than `len`, and is taken at least once.
    strides: Vec<IndexStride>,
    /// Sums of symbols: an index that is not below each of them is not meant. A span with clips has no
    /// strides.
    clips: Vec<Affine>,
}

/// The distances `0, step, …, step * (count - 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexStride {
    /// The distance of neighbors.
    step: i64,
    /// How many distances; at least 2.
    count: i64,
}

impl IndexSpan {
    fn solid(base: Affine, len: i64) -> IndexSpan {
        IndexSpan { base, len, strides: Vec::new(), clips: Vec::new() }
    }

    /// The span repeated at a stride, if the numbers are small enough.
    fn repeated(mut self, step: i64, count: i64) -> Option<IndexSpan> {
        if count > 1 {
            self.strides.push(IndexStride { step, count });
            self.strides.sort_unstable();
        }
        while let Some(&IndexStride { step, count }) = self.strides.first().filter(|s| s.step <= self.len) {
            self.len = self.len.checked_add(step.checked_mul(count - 1)?)?;
            self.strides.remove(0);
        }
        Some(self)
    }

    /// One index as the variable of a loop that ends at symbols. The loop may have no iterations.
    fn ending(mut self, var: LoopId, info: &LoopInfo) -> Option<IndexSpan> {
        let is_one = self.len == 1 && self.strides.is_empty() && self.clips.is_empty();
        if !is_one || self.base.coefficient(var) != 1 || !info.hi.is_of_symbols() {
            return None;
        }
        let above = self.base.substitute(var, &Affine::constant(0));
        self.clips = info.hi.clips().iter().map(|clip| clip.plus(&above)).collect();
        self.len = info.extent() as i64;
        self.base = above.plus_constant(info.lo);
        Some(self)
    }

    /// The step and the number of repetitions, if the span has at most one stride and no clips.
    fn repetitions(&self) -> Option<(Option<i64>, i64)> {
        match self.strides.as_slice() {
            _ if !self.clips.is_empty() => None,
            [] => Some((None, 1)),
            [stride] => Some((Some(stride.step), stride.count)),
            _ => None,
        }
    }

    /// Two spans with gaps that fit together as one, followed by the repetitions of the longer one that are
    /// left over.
    fn joined(&self, other: &IndexSpan) -> Option<SmallVec<[IndexSpan; 2]>> {
        let distance = other.base.plus(&self.base.times(-1)).as_constant()?;
        if distance < 0 {
            return other.joined(self);
        }
        let ((step, count), (other_step, other_count)) = (self.repetitions()?, other.repetitions()?);
        let step = step.or(other_step)?;
        if distance != self.len || other_step.is_some_and(|other| other != step) {
            return None;
        }
        let both = count.min(other_count);
        let whole = IndexSpan::solid(self.base.clone(), self.len.checked_add(other.len)?);
        let mut spans = SmallVec::from_iter([whole.repeated(step, both)?]);
        let (longer, count) = if count > both { (self, count) } else { (other, other_count) };
        if count > both {
            let base = longer.base.plus_constant(step.checked_mul(both)?);
            spans.push(IndexSpan::solid(base, longer.len).repeated(step, count - both)?);
        }
        Some(spans)
    }
}

/// The product of one span per dimension.
pub(super) type Patch = Vec<IndexSpan>;

/// A patch without variables: per dimension the first index and one past the last.
pub(super) type Cuboid = SmallVec<[(i64, i64); 4]>;

/// The maximum number of patches that are recorded per node; the elements of further patches count as not
/// written.
const MAX_PATCHES: usize = 64;

/// The patches of one node that have surely been written.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenPatches {
    patches: Vec<Patch>,
}

impl WrittenPatches {
    /// Records the element at `index`.
    pub(super) fn store(&mut self, index: &Indices) {
        self.push(index.iter().map(|base| IndexSpan::solid(base.clone(), 1)).collect());
    }

    /// Records every element.
    pub(super) fn store_all(&mut self, dims: &[usize]) {
        self.push(dims.iter().map(|&d| IndexSpan::solid(Affine::constant(0), d as i64)).collect());
    }

    fn push(&mut self, patch: Patch) {
        if self.patches.len() < MAX_PATCHES && !self.patches.contains(&patch) {
            // Most nodes have one patch.
            self.patches.reserve_exact(usize::from(self.patches.is_empty()));
            self.patches.push(patch);
        }
    }

    /// The number of patches recorded so far, for [`leave`](Self::leave).
    pub(super) fn mark(&self) -> usize {
        self.patches.len()
    }

    /// Leaves the loop over `var`, inside which everything after `mark` was recorded.
    pub(super) fn leave(&mut self, mark: usize, var: LoopId, info: Option<&LoopInfo>) {
        let inside = self.patches.split_off(mark);
        let Some(info) = info.filter(|info| info.extent() > 0) else { return };
        for patch in inside {
            if let Some(widened) = widen(patch, var, info) {
                self.push(widened);
            }
        }
    }

    /// Joins the patches recorded after `mark` with each other and with earlier ones. Call it outside of
    /// loops only.
    pub(super) fn join(&mut self, mark: usize) {
        let mut at = mark;
        while at < self.patches.len() {
            let earlier = self.patches[..at].iter();
            let parts: Vec<Patch> =
                earlier.filter_map(|other| joined(other, &self.patches[at])).flatten().collect();
            parts.into_iter().for_each(|part| self.push(part));
            at += 1;
        }
    }

    /// Whether the element at `index`, known to lie within `clip` per dimension where the guard holds, was
    /// surely written.
    pub(super) fn covers(&self, index: &Indices, guard: &Guard, clip: &Cuboid, ranges: &Ranges) -> bool {
        self.patches.iter().any(|p| contains(p, index, guard, ranges)) || self.covers_box(clip)
    }

    /// Whether every element of the box was surely written.
    pub(super) fn covers_box(&self, target: &Cuboid) -> bool {
        let mut left = UnwrittenBoxes::of(target.clone());
        left.shrink(self);
        left.is_empty()
    }
}

/// The elements of a box that are not known to have been written.
#[derive(Clone, Debug)]
pub(super) struct UnwrittenBoxes {
    /// Disjoint boxes; `None` if there were too many.
    pieces: Option<Vec<Cuboid>>,
    /// The number of patches that have been subtracted.
    seen: usize,
}

impl UnwrittenBoxes {
    /// Starts with the complete box.
    pub(super) fn of(target: Cuboid) -> UnwrittenBoxes {
        UnwrittenBoxes { pieces: Some(vec![target]), seen: 0 }
    }

    /// Subtracts the patches written since the last call. Call it outside of loops only, since the end of a
    /// loop replaces patches.
    pub(super) fn shrink(&mut self, written: &WrittenPatches) {
        for patch in written.patches.iter().skip(self.seen) {
            let (Some(pieces), Some(solid)) = (&mut self.pieces, cuboid(patch)) else { continue };
            *pieces = pieces.iter().flat_map(|piece| subtract(piece, &solid)).collect();
            if pieces.len() > 4 * MAX_PATCHES {
                self.pieces = None;
            }
        }
        self.seen = written.patches.len();
    }

    /// Whether every element is known to have been written.
    pub(super) fn is_empty(&self) -> bool {
        let vacant = |piece: &Cuboid| piece.iter().any(|&(lo, hi)| lo >= hi);
        self.pieces.as_ref().is_some_and(|pieces| pieces.iter().all(vacant))
    }

    /// Whether no further patch will be subtracted, because the limit on patches is reached.
    pub(super) fn is_final(&self) -> bool {
        self.pieces.is_none() || self.seen >= MAX_PATCHES
    }
}

/// The elements that a patch covers while `var` runs through its loop, if these elements form a patch.
fn widen(mut patch: Patch, var: LoopId, info: &LoopInfo) -> Option<Patch> {
    let mut found = false;
    for span in &mut patch {
        let step = span.base.coefficient(var);
        if step == 0 {
            continue;
        }
        if found {
            return None;
        }
        found = true;
        if info.may_end_early() {
            return None;
        }
        if !info.is_constant() {
            *span = span.clone().ending(var, info)?;
            continue;
        }
        if !span.clips.is_empty() {
            return None;
        }
        let first = if step > 0 { info.lo } else { info.hi.limit - 1 };
        span.base = span.base.substitute(var, &Affine::constant(first));
        *span = span.clone().repeated(step.checked_abs()?, info.extent() as i64)?;
    }
    // A store in a loop that mentions its variable nowhere happens if the loop has an iteration.
    (found || info.runs).then_some(patch)
}

/// Two patches that differ in one dimension, with spans there whose gaps fit together, as patches.
fn joined(a: &Patch, b: &Patch) -> Option<Vec<Patch>> {
    let mut differing = (0..a.len()).filter(|&axis| a[axis] != b[axis]);
    let (Some(axis), None) = (differing.next(), differing.next()) else { return None };
    let with = |span: IndexSpan| {
        let mut patch = a.clone();
        patch[axis] = span;
        patch
    };
    Some(a[axis].joined(&b[axis])?.into_iter().map(with).collect())
}

/// Whether the element lies in the patch for all values of the variables.
fn contains(patch: &Patch, index: &Indices, guard: &Guard, ranges: &Ranges) -> bool {
    let distance = |from: &Affine, to: &Affine| ranges.bounds_under(&to.plus(&from.times(-1)), guard);
    patch.iter().zip(index).all(|(span, index)| {
        let is_below = |clip| distance(clip, index).is_some_and(|(_, hi)| hi < 0);
        distance(&span.base, index).is_some_and(|(lo, hi)| 0 <= lo && hi < span.len)
            && span.clips.iter().all(is_below)
    })
}

/// The patch as a box, if it has neither variables nor gaps.
fn cuboid(patch: &Patch) -> Option<Cuboid> {
    let solid = |s: &&IndexSpan| s.strides.is_empty() && s.clips.is_empty();
    let side = |s: &IndexSpan| s.base.as_constant().map(|base| (base, base.saturating_add(s.len)));
    patch.iter().map(|s| Some(s).filter(solid).and_then(side)).collect()
}

/// `from` without `cut`, as disjoint boxes: at most two per dimension.
fn subtract(from: &Cuboid, cut: &Cuboid) -> Vec<Cuboid> {
    let mut rest = from.clone();
    let mut pieces = Vec::new();
    for axis in 0..from.len() {
        let (lo, hi) = rest[axis];
        let (cut_lo, cut_hi) = (cut[axis].0.clamp(lo, hi.max(lo)), cut[axis].1.clamp(lo, hi.max(lo)));
        for side in [(lo, cut_lo), (cut_hi.max(cut_lo), hi)] {
            if side.0 < side.1 {
                let mut piece = rest.clone();
                piece[axis] = side;
                pieces.push(piece);
            }
        }
        rest[axis] = (cut_lo, cut_hi);
        if cut_lo >= cut_hi {
            return pieces;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::LoopKind;

    fn looped(extent: i64) -> LoopInfo {
        LoopInfo::new(0, &extent.into(), LoopKind::Serial, &[])
    }

    fn solid(sides: &[(i64, i64)]) -> Cuboid {
        sides.iter().copied().collect()
    }

    #[test]
    fn two_halves_cover_the_whole_and_one_does_not() {
        let mut written = WrittenPatches::default();
        for half in [0, 4] {
            let mark = written.mark();
            written.store(&[Affine::var(LoopId(0)).plus_constant(half)].into_iter().collect());
            written.leave(mark, LoopId(0), Some(&looped(4)));
            assert_eq!(written.covers_box(&solid(&[(0, 8)])), half == 4);
        }
    }

    #[test]
    fn mixed_radix_indices_are_dense_and_strided_ones_are_not() {
        for (stride, dense) in [(3, true), (4, false)] {
            let mut written = WrittenPatches::default();
            written.store(
                &[Affine::term(LoopId(0), stride).plus(&Affine::var(LoopId(1)))].into_iter().collect(),
            );
            written.leave(0, LoopId(1), Some(&looped(3)));
            written.leave(0, LoopId(0), Some(&looped(2)));
            assert_eq!(written.covers_box(&solid(&[(0, 6)])), dense);
        }
    }

    /// Stores at an index, the sum of terms and an offset in each dimension, in loops of these extents, the
    /// innermost first.
    fn store(written: &mut WrittenPatches, index: &[(i64, &[(u32, i64)])], extents: &[(u32, i64)]) {
        let side = |&(offset, terms): &(i64, &[(u32, i64)])| {
            let term = |sum: Affine, &(var, step): &(u32, i64)| sum.plus(&Affine::term(LoopId(var), step));
            terms.iter().fold(Affine::constant(offset), term)
        };
        let mark = written.mark();
        written.store(&index.iter().map(side).collect());
        for &(var, extent) in extents {
            written.leave(mark, LoopId(var), Some(&looped(extent)));
        }
        written.join(mark);
    }

    #[test]
    fn loops_fill_gaps_in_any_order() {
        let digits = [(0, 2), (1, 3), (2, 4)];
        let index: &[(u32, i64)] = &[(0, 12), (1, 4), (2, 1)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut written = WrittenPatches::default();
            store(&mut written, &[(0, index)], &order.map(|at: usize| digits[at]));
            assert!(written.covers_box(&solid(&[(0, 24)])), "{order:?}");
            assert!(!written.covers_box(&solid(&[(0, 25)])), "{order:?}");
        }
        let mut written = WrittenPatches::default();
        store(&mut written, &[(0, &[(0, 12), (2, 1)])], &[(0, 2), (2, 4)]);
        assert!(!written.covers_box(&solid(&[(0, 13)])));
    }

    #[test]
    fn phases_of_a_step_are_joined() {
        let count = |dim: i64, step: i64, phase: i64| (dim - phase - 1) / step + 1;
        for dim in 3..12 {
            for (step, phases) in [(2, vec![0, 1]), (3, vec![2, 0, 1])] {
                let mut written = WrittenPatches::default();
                for phase in phases {
                    assert!(!written.covers_box(&solid(&[(0, dim)])), "{dim} {step}");
                    store(&mut written, &[(phase, &[(0, step)])], &[(0, count(dim, step, phase))]);
                }
                assert!(written.covers_box(&solid(&[(0, dim)])), "{dim} {step}");
                assert!(!written.covers_box(&solid(&[(0, dim + 1)])), "{dim} {step}");
            }
            let mut written = WrittenPatches::default();
            let plane = solid(&[(0, dim), (0, dim)]);
            for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                assert!(!written.covers_box(&plane), "{dim}");
                let extents = [(1, count(dim, 2, b)), (0, count(dim, 2, a))];
                store(&mut written, &[(a, &[(0, 2)]), (b, &[(1, 2)])], &extents);
            }
            assert!(written.covers_box(&plane), "{dim}");
        }
    }

    #[test]
    fn a_diagonal_is_no_box() {
        let mut written = WrittenPatches::default();
        written.store(&[Affine::var(LoopId(0)), Affine::var(LoopId(0))].into_iter().collect());
        written.leave(0, LoopId(0), Some(&looped(2)));
        assert!(!written.covers_box(&solid(&[(0, 1), (0, 1)])));
    }

    #[test]
    fn subtraction_keeps_what_lies_outside() {
        assert_eq!(subtract(&solid(&[(0, 4)]), &solid(&[(1, 2)])), [solid(&[(0, 1)]), solid(&[(2, 4)])]);
        assert_eq!(subtract(&solid(&[(0, 4)]), &solid(&[(6, 8)])), [solid(&[(0, 4)])]);
        assert!(subtract(&solid(&[(0, 4), (1, 2)]), &solid(&[(0, 4), (0, 3)])).is_empty());
    }
}
