//! Windows of one axis, solved for the index of the result.

use assignments::Accum;
use assignments::indexing::AxisIndex;
use lowered_ir::ir::{Affine, LoopId, Var};

use super::{WindowProduct, mentions};
use crate::access::Access;

/// The elements `first + step * i` of an axis, for `i` below `count`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisPhase {
    pub(super) first: i64,
    pub(super) step: i64,
    pub(super) count: usize,
    /// The elements of the axis.
    pub(super) dim: usize,
}

impl AxisPhase {
    /// All elements of an axis.
    pub(super) fn whole(dim: usize) -> AxisPhase {
        AxisPhase { first: 0, step: 1, count: dim, dim }
    }
}

/// The index `step * i + rest` of an axis of the operand, where `i` is the index of an axis of the result and
/// occurs nowhere else.
pub(super) struct InverseWindow {
    axis: usize,
    /// The axis of the result.
    read: usize,
    /// The iterator `i`.
    id: LoopId,
    /// The position of `i` in the product space.
    at: usize,
    step: i64,
    rest: Affine,
    /// The iterator of `rest`, if the step is greater than 1 and there is one.
    tap: Option<Tap>,
    /// The elements of the axis of the operand.
    dim: usize,
}

/// The position in a window: an iterator that otherwise only the other factor has.
struct Tap {
    id: LoopId,
    /// The position in the product space.
    at: usize,
    extent: i64,
    /// The distance of neighboring elements of the window.
    step: i64,
}

impl InverseWindow {
    /// `None` if no iterator has a positive step, occurs nowhere else, and is the index of an axis of the
    /// result of as many elements; or if the sums would have more than twice as many points. If the step is
    /// 1, the statement must read every element of the axis; otherwise the window must have at most one
    /// iterator, which only the other factor has too.
    pub(super) fn of(
        axis: usize,
        index: &Affine,
        points: &Accum,
        accesses: [&Access; 3],
    ) -> Option<InverseWindow> {
        let [access, adjoint, _] = accesses;
        let projections = &points.projections;
        let extent = |id: LoopId| {
            let at = projections.product_iterators().iter().position(|&known| known == id)?;
            Some((at, projections.product_space()[at]))
        };
        let (id, step, read) = result_iterator(index, accesses)?;
        let (at, count) = extent(id)?;
        if adjoint.dims[read] != count {
            return None;
        }
        let rest = index.plus(&Affine::term(Var::Loop(id), -step));
        let dim = access.dims[axis];
        let reach = step.checked_mul(i64::try_from(count).ok()?)?;
        let is_open = rest.terms().iter().any(|(var, _)| matches!(var, Var::Symbol(_)));
        let has_gaps = rest.terms().iter().any(|(_, step)| step.unsigned_abs() > reach.unsigned_abs());
        if is_open || has_gaps || i64::try_from(dim).ok()? > reach.checked_mul(2)? {
            return None;
        }
        let mut tap = None;
        if step == 1 {
            let (low, high) = projections.index_bounds(index, &|_| None)?;
            if low > 0 || high < i64::try_from(dim).ok()? - 1 {
                return None;
            }
        } else if let Some((id, step)) = loop_terms(&rest).next() {
            let (at, extent) = extent(id)?;
            let is_other = mentions(&access.index, id) == 1 && mentions(&adjoint.index, id) == 0;
            if rest.terms().len() > 1 || !is_other {
                return None;
            }
            tap = Some(Tap { id, at, extent: i64::try_from(extent).ok()?, step });
        }
        Some(InverseWindow { axis, read, id, at, step, rest, tap, dim })
    }

    /// The products of each phase of the axis that the window meets.
    pub(super) fn phases(&self, products: &WindowProduct) -> Vec<WindowProduct> {
        if self.step == 1 {
            return vec![self.inverted(products, AxisPhase::whole(self.dim), &self.rest.times(-1))];
        }
        (0..self.step).filter_map(|first| self.phase(products, first)).collect()
    }

    /// The products of the elements `first + step * i`. With `rest = c + d * p`, they are at the elements `p`
    /// with `c + d * p = first` up to a multiple of the step. These are `p = start + every * t`.
    fn phase(&self, products: &WindowProduct, first: i64) -> Option<WindowProduct> {
        let dim = self.dim as i64;
        if first >= dim {
            return None;
        }
        let count = ((dim - first - 1) / self.step + 1) as usize;
        let phase = AxisPhase { first, step: self.step, count, dim: self.dim };
        let ahead = first - self.rest.offset();
        let Some(tap) = &self.tap else {
            let is_met = ahead % self.step == 0;
            return is_met.then(|| self.inverted(products, phase, &Affine::constant(ahead / self.step)));
        };
        let start = (0..tap.extent.min(self.step)).find(|p| (ahead - tap.step * p) % self.step == 0)?;
        let every = self.step / gcd(tap.step, self.step);
        let taken = Affine::term(Var::Loop(tap.id), every).plus_constant(start);
        let shift = Affine::term(Var::Loop(tap.id), -tap.step * every / self.step)
            .plus_constant((ahead - tap.step * start) / self.step);
        let mut products = self.inverted(products, phase, &shift);
        products.space[tap.at] = ((tap.extent - start - 1) / every + 1) as usize;
        let factor = products.factor.iter();
        products.factor = factor.map(|index| index.map(|index| index.substitute(tap.id, &taken))).collect();
        Some(products)
    }

    /// The products with `i` as the index of the phase, which reads the result at `i + shift`.
    fn inverted(&self, products: &WindowProduct, phase: AxisPhase, shift: &Affine) -> WindowProduct {
        let mut products = products.clone();
        products.space[self.at] = phase.count;
        products.target[self.axis] = AxisIndex::Iterator(Var::Loop(self.id));
        products.read[self.read] = AxisIndex::new(Affine::var(self.id).plus(shift));
        products.phase[self.axis] = phase;
        products
    }
}

/// The iterator with the least step in an index of the operand that occurs nowhere else but as the index of
/// an axis of the result, with its step and that axis. The choice does not depend on sizes.
pub(super) fn result_iterator(
    index: &Affine,
    [access, adjoint, factor]: [&Access; 3],
) -> Option<(LoopId, i64, usize)> {
    let is_own = |id: LoopId| {
        [access, adjoint].iter().all(|array| mentions(&array.index, id) == 1)
            && mentions(&factor.index, id) == 0
    };
    let axis_of_result =
        |id: LoopId| adjoint.index.iter().position(|found| *found == AxisIndex::Iterator(Var::Loop(id)));
    let own = loop_terms(index).filter(|&(id, step)| step > 0 && is_own(id));
    own.filter_map(|(id, step)| Some((id, step, axis_of_result(id)?))).min_by_key(|&(_, step, _)| step)
}

/// The loops of an index with their coefficients.
fn loop_terms(index: &Affine) -> impl Iterator<Item = (LoopId, i64)> {
    index.terms().iter().filter_map(|&(var, step)| match var {
        Var::Loop(id) => Some((id, step)),
        Var::Symbol(_) => None,
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}
