//! The adjoints of operands that are read in windows.
//!
//! In `y[o,i] :+= x[i + p] * f[o,p]`, the adjoint of `x` is written at `i + p`, so that several points write
//! one element: `x.grad[i + p] += y.grad[o,i] * f[o,p]`. The same sum for each element `i` of `x` reads the
//! adjoint of the result at `i - p`, where it is 0 outside:
//! `x.grad[i] += pad(y.grad, 0)[o, i - p] * f[o,p]`. It is a contraction over `o`, as the channels of a
//! convolution are contracted, and microkernels compute contractions. The step of a LeNet takes about 1.6
//! times as long with the first form.
//!
//! With a larger step, `x[2*i + p]`, the elements of `x` with the same remainder are a *phase*: only every
//! second element of the window meets them, at `p = 2*t` or `p = 2*t + 1`, so that each phase is a
//! contraction of its own: `even[i] += pad(y.grad, 0)[o, i - t] * f[o, 2*t]`. A contraction stores
//! contiguously, so each phase is summed in a node of its own and then added to `x.grad[2*i]`.
//!
//! Sizes decide between the two forms of a contraction, and a size of a run may be smaller than its bound, so
//! both forms sum each element in one order: the loops over indices of the result, such as `i`, are innermost
//! where a window is written, and the sum of a phase begins with the adjoint so far.
//!
//! Windows of products are read if the result has an axis that the other factor has and the operand lacks,
//! and if there are few phases. Indices that may be outside of the operand count as windows: a filter of one
//! column has no loop over columns, but margins. Windows of step 1 must cover the operand. Other windows are
//! written: windows of few results would read many zeros, and sums without such an axis, such as pooling, are
//! vectorized in both forms.

mod inverse;

use std::borrow::Cow;

use assignments::indexing::{
    AxisIndex, Indexed, Projection, Projections, are_surjective, axis_iterator, identity_projections,
};
use assignments::{Accum, AccumOp, Operand, ProgramStep, Rhs};
use lowered_ir::ir::{Affine, BinaryOp, LoopId, Var};
use tnode::{Dims, Scalar, TensorNode};

use crate::Formula;
use crate::access::{Access, in_order_of_target};
use crate::backward::BackwardPass;
use crate::error::{GradientErrorKind, Result};
use crate::statement::{Bindings, Statement};
use inverse::{AxisPhase, InverseWindow, result_iterator};

/// The most phases of an operand: steps of 2 on three axes, or of 3 on two axes.
const MAX_PHASES: usize = 9;

/// The form of the adjoint of an operand.
pub(crate) enum WindowForm {
    /// Sums that read windows, one for each phase.
    Read(Vec<ReadWindow>),
    /// A sum that is written at the indices of the operand, with the loops over these iterators innermost.
    Written { innermost: Vec<LoopId> },
}

/// The adjoint of an operand as a sum over products for each of its elements.
pub(crate) struct ReadWindow {
    /// The extents of the product space.
    space: Dims,
    /// The indices of the operand, or of the node for the phase.
    target: Access,
    /// The adjoint of the result and the other factor.
    factors: [Access; 2],
    /// For each axis of the operand, the elements that the sum computes; empty if it computes all.
    phase: Vec<AxisPhase>,
}

impl BackwardPass<'_> {
    /// The form of the adjoint of an operand.
    pub(crate) fn windows(
        &mut self,
        statement: &Statement,
        position: usize,
        rule: &Formula,
        bindings: &Bindings,
    ) -> Result<WindowForm> {
        let written = Ok(WindowForm::Written { innermost: Vec::new() });
        let Formula::Binary(BinaryOp::Mul, factors) = rule else { return written };
        let ([Formula::Adjoint, Formula::Operand(factor)], None) = (factors.as_ref(), &bindings.values)
        else {
            return written;
        };
        let points = with_unit_axes(&statement.accum);
        let access = Access::of_operand(&points, position);
        let Some(access) = access.filter(|access| access.index.iter().any(is_window)) else {
            return written;
        };
        let Some(value) = statement.operand(*factor, &mut self.tape)? else { return written };
        let value = Access { index: points.projections.project_rhs()[*factor].clone(), ..value };
        let adjoint = &bindings.adjoint;
        let is_at_target = adjoint.index.as_slice() == statement.accum.projections.project_lhs();
        let target = if is_at_target { points.projections.project_lhs() } else { &adjoint.index };
        let adjoint = Access { index: target.into(), ..adjoint.clone() };
        if !is_contraction(&points, &access, [&adjoint, &value]) {
            return written;
        }
        let windows = self.windows_of(&points, &access);
        Ok(match read_windows(&points, &access, [&adjoint, &value], &windows) {
            Some(windows) => WindowForm::Read(windows),
            None => WindowForm::Written { innermost: result_iterators([&access, &adjoint, &value]) },
        })
    }

    /// The axes of an operand whose indices are windows, or may be outside of the operand.
    fn windows_of(&self, points: &Accum, access: &Access) -> Vec<usize> {
        let may_reach_outside = access.may_reach_outside();
        let is_inside = |index: &AxisIndex, dim: usize| {
            let bounds = self.index_bounds(points, &index.affine());
            bounds.is_some_and(|(low, high)| 0 <= low && usize::try_from(high).is_ok_and(|high| high < dim))
        };
        let axes = access.index.iter().zip(&access.dims).enumerate();
        let found = axes
            .filter(|(_, (index, dim))| is_window(index) || may_reach_outside && !is_inside(index, **dim));
        found.map(|(axis, _)| axis).collect()
    }

    /// Adds the sums of all phases to an adjoint. Returns whether they write all of its elements.
    pub(crate) fn add_windows(
        &mut self,
        windows: Vec<ReadWindow>,
        adjoint: &TensorNode,
        is_new: bool,
        statement: &Statement,
    ) -> Result<bool> {
        let mut parts = Vec::new();
        for window in windows {
            if window.phase.is_empty() {
                let sum = window.sum(adjoint, is_new, statement)?;
                let covers = sum.accums().iter().all(|accum| accum.projections.is_surjective());
                self.tape.backward.push(sum);
                return Ok(covers);
            }
            let dims = window.target.dims.clone();
            let node = self.tape.temporary("phase", &dims, adjoint.dtype())?;
            let [whole, own] = window.elements();
            if !is_new {
                let (to, from) = ((&node, own.clone()), (adjoint, whole.clone()));
                let earlier = copy(&dims, AccumOp::Assign, to, from, statement)?;
                self.tape.backward.push(ProgramStep::Accum(Box::new(earlier)));
            }
            let op = if is_new { AccumOp::Add } else { AccumOp::Assign };
            parts.push(copy(&dims, op, (adjoint, whole), (&node, own), statement)?);
            self.tape.backward.push(window.sum(&node, is_new, statement)?);
        }
        let covers = are_surjective(&parts.iter().map(|part| &part.projections).collect::<Vec<_>>());
        self.tape.backward.push(ProgramStep::Concat(parts));
        Ok(covers)
    }
}

impl ReadWindow {
    /// The accumulation of the products into a node.
    fn sum(self, node: &TensorNode, is_new: bool, statement: &Statement) -> Result<ProgramStep> {
        let arrays = self.factors.iter().map(|factor| (factor.dims.clone(), factor.index.clone())).collect();
        let projections =
            projections(&self.space, (self.target.dims, self.target.index), arrays, node, statement)?;
        let [a, b] = self.factors;
        Ok(ProgramStep::Accum(Box::new(Accum {
            init_neutral: is_new,
            op: AccumOp::Add,
            lhs: node.clone(),
            rhs: Rhs::Binary(BinaryOp::Mul, [a.operand, b.operand]),
            computed: Vec::new(),
            projections: in_order_of_target(projections),
            origin: statement.accum.origin.clone(),
        })))
    }

    /// The elements of a phase, as indices of the adjoint and of the node for the phase.
    fn elements(&self) -> [Indexed; 2] {
        let dims = &self.target.dims;
        let index = |(axis, phase): (usize, &AxisPhase)| {
            AxisIndex::new(
                Affine::term(Var::Loop(axis_iterator(axis)), phase.step).plus_constant(phase.first),
            )
        };
        let whole = self.phase.iter().map(|phase| phase.dim).collect();
        let of_whole = self.phase.iter().enumerate().map(index).collect();
        [(whole, of_whole), (dims.clone(), identity_projections(dims))]
    }
}

/// Copies elements of one node to those of another. With `AccumOp::Add` the target starts from 0.
fn copy(
    space: &[usize],
    op: AccumOp,
    (to, target): (&TensorNode, Indexed),
    (from, source): (&TensorNode, Indexed),
    statement: &Statement,
) -> Result<Accum> {
    Ok(Accum {
        init_neutral: op == AccumOp::Add,
        op,
        lhs: to.clone(),
        rhs: Rhs::Copy(from.into()),
        computed: Vec::new(),
        projections: projections(space, target, vec![source], to, statement)?,
        origin: statement.accum.origin.clone(),
    })
}

fn projections(
    space: &[usize],
    target: Indexed,
    arrays: Vec<Indexed>,
    node: &TensorNode,
    statement: &Statement,
) -> Result<Projections> {
    let fits = |source| GradientErrorKind::Index { node: node.name(), source }.of(&statement.accum.origin);
    Projections::new(space, target, arrays, "gradient").map_err(fits)
}

/// Whether an index has several iterators, or one with a step.
fn is_window(index: &AxisIndex) -> bool {
    let terms = index.loop_terms();
    terms.len() > 1 || terms.iter().any(|&(_, step)| step > 1)
}

/// The accumulation with the product axes of extent 1 that windows have. Its windows have the form of those
/// over more elements, so that a size of a run may be 1 without another order of the sums.
fn with_unit_axes(accum: &Accum) -> Cow<'_, Accum> {
    match accum.projections.with_unit_axes() {
        Some(projections) => Cow::Owned(Accum { projections: projections.clone(), ..accum.clone() }),
        None => Cow::Borrowed(accum),
    }
}

/// Whether the sum over products for each element of an operand contracts an axis that the adjoint and the
/// other factor have, and the operand lacks. Sizes do not matter.
fn is_contraction(points: &Accum, access: &Access, [adjoint, factor]: [&Access; 2]) -> bool {
    let projections = &points.projections;
    let mut indices = access.index.iter().chain(&adjoint.index).chain(&factor.index);
    let is_contracted = |&id: &LoopId| {
        mentions(&adjoint.index, id) == 1
            && mentions(&factor.index, id) > 0
            && mentions(&access.index, id) == 0
    };
    !projections.is_clipped()
        && indices.all(|index| index.computed().is_none())
        && projections.product_iterators().iter().any(is_contracted)
}

/// The iterators over the result that windows of an operand have.
fn result_iterators(accesses: [&Access; 3]) -> Vec<LoopId> {
    let windows = accesses[0].index.iter().filter(|index| index.loop_terms().len() > 1);
    windows.filter_map(|index| Some(result_iterator(&index.affine(), accesses)?.0)).collect()
}

fn read_windows(
    points: &Accum,
    access: &Access,
    [adjoint, factor]: [&Access; 2],
    windows_of: &[usize],
) -> Option<Vec<ReadWindow>> {
    let projections = &points.projections;
    let Operand::Node(result) = &adjoint.operand else { return None };
    let iterators = projections.product_iterators();
    let mut windows = vec![WindowProduct::new(points, access, [adjoint, factor])];
    for &axis in windows_of {
        let index = access.index[axis].affine();
        let inverse = InverseWindow::of(axis, &index, points, [access, adjoint, factor])?;
        windows = windows.iter().flat_map(|window| inverse.phases(window)).collect();
        if windows.is_empty() || windows.len() > MAX_PHASES {
            return None;
        }
    }
    if windows[0].phase.iter().any(|phase| phase.step > 1) && !covers_other_axes(points, access, windows_of) {
        return None;
    }
    let renamed = |projection: &Projection| -> Projection {
        projection.iter().map(|index| index.map(|index| in_axes(&index, iterators))).collect()
    };
    let padded = Operand::Padded { node: result.clone(), outside: Scalar::zero(result.dtype()) };
    let read_window = |window: WindowProduct| {
        let dims = window.phase.iter().map(|phase| phase.count).collect();
        let is_whole = window.phase.iter().all(|phase| phase.step == 1);
        ReadWindow {
            target: Access { dims, index: renamed(&window.target), ..access.clone() },
            factors: [
                Access { operand: padded.clone(), dims: adjoint.dims.clone(), index: renamed(&window.read) },
                Access { index: renamed(&window.factor), ..factor.clone() },
            ],
            space: window.space,
            phase: if is_whole { Vec::new() } else { window.phase },
        }
    };
    Some(windows.into_iter().map(read_window).collect())
}

/// The product space and the indices while the windows of one axis after the other are inverted.
#[derive(Clone)]
struct WindowProduct {
    space: Dims,
    target: Projection,
    /// The indices of the adjoint of the result.
    read: Projection,
    factor: Projection,
    /// For each axis of the operand, the elements that are computed.
    phase: Vec<AxisPhase>,
}

impl WindowProduct {
    fn new(points: &Accum, access: &Access, [adjoint, factor]: [&Access; 2]) -> WindowProduct {
        WindowProduct {
            space: points.projections.product_space().into(),
            target: access.index.clone(),
            read: adjoint.index.clone(),
            factor: factor.index.clone(),
            phase: access.dims.iter().map(|&dim| AxisPhase::whole(dim)).collect(),
        }
    }
}

/// Whether the indices that are no windows take all values of their axes, so that the node for a phase has no
/// element more than the phase.
fn covers_other_axes(points: &Accum, access: &Access, windows_of: &[usize]) -> bool {
    let axes = access.index.iter().zip(&access.dims).enumerate();
    let mut others = axes.filter(|(axis, _)| !windows_of.contains(axis));
    others.all(|(_, (index, &dim))| match index {
        AxisIndex::Iterator(Var::Loop(id)) => points.projections.extent_of(*id) == dim,
        _ => dim == 1,
    })
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
