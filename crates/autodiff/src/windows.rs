//! The adjoints of operands that are read in windows.
//!
//! In `y[o,i] :+= x[i + p] * f[o,p]`, the adjoint of `x` is written at `i + p`, so that several points write
//! one element: `x.grad[i + p] += y.grad[o,i] * f[o,p]`. The same sum for each element `i` of `x` reads the
//! adjoint of the result at `i - p`, where it is 0 outside:
//! `x.grad[i] += pad(y.grad, 0)[o, i - p] * f[o,p]`. It is a contraction over `o`, as the channels of a
//! convolution are contracted, and microkernels compute contractions. The step of a LeNet takes about 1.6
//! times as long with the first form.
//!
//! So windows of products are read if they have step 1, cover the operand, and the result has an axis that
//! the other factor has and the operand lacks. Other windows are written: those of a larger step would need
//! a condition on the remainder of `i - p`, windows of few results would read many zeros, and sums without
//! such an axis, such as pooling, are vectorised in both forms.

use assignments::indexing::{AxisIndex, Projection, Projections, axis_iterator};
use assignments::{Accum, AccumOp, Operand, ProgramStep, Rhs};
use lowered_ir::ir::{Affine, BinaryOp, LoopId, Var};
use tnode::{Dims, Scalar, TensorNode};

use crate::Formula;
use crate::access::{Access, in_order_of_target};
use crate::backward::BackwardPass;
use crate::error::{GradientError, GradientErrorKind};
use crate::statement::{Bindings, Statement};

/// The adjoint of an operand as a sum over products for each of its elements.
pub(crate) struct ReadWindow {
    /// The extents of the product space.
    space: Dims,
    /// The indices of the operand.
    target: Access,
    /// The adjoint of the result and the other factor.
    factors: [Access; 2],
}

impl BackwardPass<'_> {
    /// The adjoint of an operand in the form that reads windows, if that form is a contraction.
    pub(crate) fn window(
        &mut self,
        statement: &Statement,
        access: &Access,
        rule: &Formula,
        bindings: &Bindings,
    ) -> Result<Option<ReadWindow>, GradientError> {
        let Formula::Binary(BinaryOp::Mul, factors) = rule else { return Ok(None) };
        let ([Formula::Adjoint, Formula::Operand(factor)], None) = (factors.as_ref(), &bindings.values)
        else {
            return Ok(None);
        };
        if access.index.iter().all(|index| index.loop_terms().len() < 2) {
            return Ok(None);
        }
        let factor = statement.operand(*factor, &mut self.tape)?;
        Ok(factor.and_then(|factor| read_window(&statement.accum, access, [&bindings.adjoint, &factor])))
    }
}

impl ReadWindow {
    /// The accumulation into an adjoint.
    pub(crate) fn sum(
        self,
        adjoint: &TensorNode,
        is_new: bool,
        statement: &Statement,
    ) -> Result<ProgramStep, GradientError> {
        let origin = &statement.accum.origin;
        let fits = |source| GradientErrorKind::Index { node: adjoint.name(), source }.of(origin);
        let [a, b] = self.factors;
        let arrays = vec![(a.dims, a.index), (b.dims, b.index)];
        let target = (self.target.dims, self.target.index);
        let projections = Projections::new(&self.space, target, arrays, "gradient").map_err(fits)?;
        Ok(ProgramStep::Accum(Box::new(Accum {
            init_neutral: is_new,
            op: AccumOp::Add,
            lhs: adjoint.clone(),
            rhs: Rhs::Binary(BinaryOp::Mul, [a.operand, b.operand]),
            computed: Vec::new(),
            projections: in_order_of_target(projections),
            origin: origin.clone(),
        })))
    }
}

fn read_window(points: &Accum, access: &Access, [adjoint, factor]: [&Access; 2]) -> Option<ReadWindow> {
    let projections = &points.projections;
    let indices = || access.index.iter().chain(&adjoint.index).chain(&factor.index);
    let Operand::Node(result) = &adjoint.operand else { return None };
    if projections.is_clipped() || indices().any(|index| index.computed().is_some()) {
        return None;
    }
    let iterators = projections.product_iterators();
    let is_contracted = |id: LoopId| {
        mentions(&adjoint.index, id) == 1
            && mentions(&factor.index, id) > 0
            && mentions(&access.index, id) == 0
    };
    if !iterators.iter().any(|&id| is_contracted(id)) {
        return None;
    }
    let mut window = Window {
        space: projections.product_space().into(),
        target: access.index.clone(),
        read: adjoint.index.clone(),
    };
    for (axis, index) in access.index.iter().enumerate().filter(|(_, index)| index.loop_terms().len() > 1) {
        window.invert(axis, &index.affine(), points, [access, adjoint, factor])?;
    }
    let renamed = |projection: &Projection| -> Projection {
        projection.iter().map(|index| index.map(|index| in_axes(&index, iterators))).collect()
    };
    let read = Operand::Padded { node: result.clone(), outside: Scalar::zero(result.dtype()) };
    Some(ReadWindow {
        target: Access { index: renamed(&window.target), ..access.clone() },
        factors: [
            Access { operand: read, dims: adjoint.dims.clone(), index: renamed(&window.read) },
            Access { index: renamed(&factor.index), ..factor.clone() },
        ],
        space: window.space,
    })
}

/// The product space and the indices while the windows of one axis after the other are inverted.
struct Window {
    space: Dims,
    target: Projection,
    read: Projection,
}

impl Window {
    /// Replaces the iterator `i` of an axis, whose index is `i + rest`, by `i - rest`, so that `i` becomes
    /// the index of the axis. `None` if no iterator has step 1, occurs nowhere else, and is the index of an
    /// axis of the result of as many elements; or if the statement does not read every element of the axis,
    /// or the sum would have more than twice as many points.
    fn invert(
        &mut self,
        axis: usize,
        index: &Affine,
        points: &Accum,
        [access, adjoint, factor]: [&Access; 3],
    ) -> Option<()> {
        let projections = &points.projections;
        let extent = |id: LoopId| {
            let at = projections.product_iterators().iter().position(|&known| known == id)?;
            Some((at, projections.product_space()[at]))
        };
        let axis_of_result = |id: LoopId| {
            let is_it = |found: &AxisIndex| *found == AxisIndex::Iterator(Var::Loop(id));
            let at = adjoint.index.iter().position(is_it)?;
            let (_, extent) = extent(id)?;
            (adjoint.dims[at] == extent && mentions(&adjoint.index, id) == 1).then_some(at)
        };
        let steps =
            |id: LoopId| index.terms().iter().find(|(var, _)| *var == Var::Loop(id)).map(|term| term.1);
        let is_own = |id: LoopId| {
            steps(id) == Some(1) && mentions(&access.index, id) == 1 && mentions(&factor.index, id) == 0
        };
        let mut found = projections.product_iterators().iter().filter(|&&id| is_own(id));
        let (id, read) = found.find_map(|&id| Some((id, axis_of_result(id)?)))?;
        let (at, count) = extent(id)?;
        let rest = index.plus(&Affine::term(Var::Loop(id), -1));
        let dim = access.dims[axis];
        let last = i64::try_from(dim).ok()? - 1;
        let is_open = rest.terms().iter().any(|(var, _)| matches!(var, Var::Symbol(_)));
        let has_gaps = rest.terms().iter().any(|(_, step)| step.unsigned_abs() > count as u64);
        let bounds = projections.index_bounds(index, &|_| None);
        let (low, high) = bounds?;
        if is_open || has_gaps || low > 0 || high < last || dim > 2 * count {
            return None;
        }
        self.space[at] = dim;
        self.target[axis] = AxisIndex::Iterator(Var::Loop(id));
        self.read[read] = AxisIndex::new(Affine::var(id).plus(&rest.times(-1)));
        Some(())
    }
}

/// The number of indices that mention an iterator.
fn mentions(projection: &Projection, id: LoopId) -> usize {
    projection.iter().filter(|index| index.affine().mentions(id)).count()
}

/// An index with the iterators of a product space numbered from 0.
fn in_axes(index: &Affine, iterators: &[LoopId]) -> Affine {
    index.terms().iter().fold(Affine::constant(index.offset()), |sum, &(var, step)| {
        let axis = iterators.iter().position(|&id| Var::Loop(id) == var);
        sum.plus(&Affine::term(axis.map_or(var, |axis| Var::Loop(axis_iterator(axis))), step))
    })
}
