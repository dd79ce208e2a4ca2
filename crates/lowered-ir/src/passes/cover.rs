//! Records, as boxes, the elements of a node that have surely been written.
//!
//! A *span* is the contiguous indices `base, base + 1, …, base + len - 1`, where `base` may depend on
//! variables in scope; a *patch* is one span per dimension. A store writes a patch of single elements. At the
//! end of a loop, the patches stored in it are widened by the loop's variable, exactly, or dropped. So every
//! recorded element has been written, while an unrecorded element may have been written too: the analysis
//! errs on one side only.

use smallvec::SmallVec;

use crate::ir::{Affine, Indices, LoopId};

use super::ranges::{LoopInfo, Ranges};

/// `len` consecutive indices from `base` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSpan {
    /// The first index.
    pub base: Affine,
    /// How many indices; at least 1.
    pub len: i64,
}

/// The product of one span per dimension.
pub type Patch = SmallVec<[IndexSpan; 4]>;

/// A patch without variables: per dimension the first index and one past the last.
pub type Cuboid = SmallVec<[(i64, i64); 4]>;

/// The maximum number of patches that are recorded per node; the elements of further patches count as not
/// written.
const MAX_PATCHES: usize = 64;

/// The patches of one node that have surely been written.
#[derive(Clone, Debug, Default)]
pub struct WrittenPatches {
    patches: Vec<Patch>,
}

impl WrittenPatches {
    /// Records the element at `index`.
    pub fn store(&mut self, index: &Indices) {
        self.push(index.iter().map(|base| IndexSpan { base: base.clone(), len: 1 }).collect());
    }

    /// Records every element.
    pub fn store_all(&mut self, dims: &[usize]) {
        let whole = dims.iter().map(|&d| IndexSpan { base: Affine::constant(0), len: d as i64 }).collect();
        self.push(whole);
    }

    fn push(&mut self, patch: Patch) {
        if self.patches.len() < MAX_PATCHES && !self.patches.contains(&patch) {
            self.patches.push(patch);
        }
    }

    /// The number of patches recorded so far, for [`leave`](Self::leave).
    pub fn mark(&self) -> usize {
        self.patches.len()
    }

    /// Leaves the loop over `var`, inside which everything after `mark` was recorded.
    pub fn leave(&mut self, mark: usize, var: LoopId, info: Option<&LoopInfo>) {
        let inside = self.patches.split_off(mark);
        let Some(info) = info.filter(|l| l.surely_runs()) else { return };
        for patch in inside {
            if let Some(widened) = widen(patch, var, info) {
                self.push(widened);
            }
        }
    }

    /// Whether the element at `index`, known to lie within `clip` per dimension, was surely written.
    pub fn covers(&self, index: &Indices, clip: &Cuboid, ranges: &Ranges) -> bool {
        self.patches.iter().any(|p| contains(p, index, ranges)) || self.covers_box(clip)
    }

    /// Whether every element of the box was surely written.
    pub fn covers_box(&self, target: &Cuboid) -> bool {
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
        if found || step.unsigned_abs() > span.len as u64 {
            return None;
        }
        found = true;
        let reach = step.checked_mul(info.extent() as i64 - 1)?;
        let first = if step > 0 { info.lo } else { info.hi.limit - 1 };
        *span = IndexSpan {
            base: span.base.substitute(var, &Affine::constant(first)),
            len: span.len.checked_add(reach.checked_abs()?)?,
        };
    }
    Some(patch)
}

/// Whether the element lies in the patch for all values of the variables.
fn contains(patch: &Patch, index: &Indices, ranges: &Ranges) -> bool {
    patch.iter().zip(index).all(|(span, index)| {
        let offset = index.plus(&span.base.times(-1));
        ranges.bounds(&offset).is_some_and(|(lo, hi)| 0 <= lo && hi < span.len)
    })
}

fn cuboid(patch: &Patch) -> Option<Cuboid> {
    patch.iter().map(|s| s.base.as_constant().map(|base| (base, base.saturating_add(s.len)))).collect()
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
        LoopInfo { lo: 0, hi: extent.into(), kind: LoopKind::Serial }
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
