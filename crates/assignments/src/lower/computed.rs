//! Lowers accesses with computed indices: gathers and scatters.
//!
//! At run time the loop IR checks a computed index against the whole dimension, and knows no margins. So an
//! index into a dimension with margins is first checked against the dimension without margins, then shifted:
//! `at' = 0 <= at < inner ? at + left : -1`, computed in `i64`; -1 is outside every dimension. So is an index
//! into a dimension whose size a run gives.

use tnode::{DType, Scalar, TensorNode};

use super::Result;
use super::bounds::layout;
use super::error::LowerErrorKind;
use super::step::AccumPoint;
use crate::indexing::{AxisIndex, extent};
use crate::{Operand, Rhs};
use lowered_ir::ir::{BinaryOp, Expr, Indices, NodeRef, Stmt};

/// An element of a node with a computed index in one dimension.
struct ComputedElement {
    node: NodeRef,
    index: Indices,
    axis: usize,
    at: Expr,
    /// The integer type of `at`.
    at_type: DType,
}

/// The axis with a computed index, and the position of the operand that computes it.
pub(super) fn computed_axis(projection: &[AxisIndex]) -> Option<(usize, usize)> {
    projection.iter().enumerate().find_map(|(axis, index)| Some((axis, index.computed()?)))
}

impl AccumPoint<'_> {
    /// Reads an operand whose index on `axis` is the value of operand `by`.
    pub(super) fn gather(&self, operand: usize, axis: usize, by: usize) -> Result<Expr> {
        let node = match self.accum.operands().nth(operand) {
            Some(Operand::Node(node) | Operand::Padded { node, .. }) => node,
            Some(Operand::MergeBuffer(_)) => return self.reject("a merge buffer"),
            Some(Operand::Constant(_) | Operand::Index(_) | Operand::Random { .. }) | None => {
                return self.reject("a number");
            }
        };
        let projection = &self.accum.projections.project_rhs()[operand];
        let ComputedElement { node, index, axis, at, .. } = self.computed(node, projection, axis, by)?;
        let otherwise = Box::new(Expr::Const(self.accum.outside(operand)));
        Ok(Expr::GetDynamic { node, index, axis, at: Box::new(at), otherwise })
    }

    /// The gathered value, if the accumulation copies a gather into a target of another type; `None`
    /// otherwise. Where the index is outside the dimension, the value must be the neutral element of the
    /// target's type. Converting the neutral element of the node's type would not always give that: the least
    /// `i64`, for instance, wraps to 0.
    pub(super) fn gathered_alone(&self) -> Result<Option<Expr>> {
        let Rhs::Copy(Operand::Node(source)) = &self.accum.rhs else { return Ok(None) };
        let projection = &self.accum.projections.project_rhs()[0];
        let Some((axis, by)) = computed_axis(projection) else { return Ok(None) };
        let (from, to) = (source.dtype(), self.accum.lhs.dtype());
        let neutral = self.accum.op.neutral(to);
        if self.accum.outside(0).convert(to) == neutral {
            return Ok(None);
        }
        let size = match self.ctx.size_value(source, axis) {
            Some(size) => size,
            None => number(extent(layout(source)?.padded[axis])),
        };
        let ComputedElement { node, index, axis, at, at_type } =
            self.computed(source, projection, axis, by)?;
        let inside = is_inside(in_i64(at.clone(), at_type), size);
        let read = |outside| {
            let otherwise = Box::new(Expr::Const(outside));
            Expr::convert(to, Expr::GetDynamic { node, index, axis, at: Box::new(at), otherwise })
        };
        let candidate = neutral.convert(from);
        if candidate.convert(to) == neutral {
            return Ok(Some(read(candidate)));
        }
        Ok(Some(Expr::select(inside, read(Scalar::zero(from)), Expr::Const(neutral))))
    }

    /// Stores into the target, whose index on `axis` is the value of operand `by`. With `op`, the store
    /// accumulates.
    pub(super) fn scatter(
        &self,
        (axis, by): (usize, usize),
        op: Option<BinaryOp>,
        value: Expr,
    ) -> Result<Stmt> {
        let accum = self.accum;
        let ComputedElement { node, index, axis, at, .. } =
            self.computed(&accum.lhs, accum.projections.project_lhs(), axis, by)?;
        Ok(Stmt::SetDynamic { node, index, axis, at: Box::new(at), op, value })
    }

    fn reject(&self, what: &'static str) -> Result<Expr> {
        Err(LowerErrorKind::NothingToCompute { node: self.accum.lhs.name(), what }.into())
    }

    fn computed(
        &self,
        node: &TensorNode,
        projection: &[AxisIndex],
        axis: usize,
        by: usize,
    ) -> Result<ComputedElement> {
        let dtype = self.accum.operands().nth(by).map_or(DType::Bool, Operand::dtype);
        if !dtype.is_integer() {
            return Err(LowerErrorKind::IndexType { node: node.name(), axis, dtype }.into());
        }
        let layout = layout(node)?;
        let (left, inner, padded) = (layout.left[axis], layout.inner[axis], layout.padded[axis]);
        let at = self.operand(by, dtype)?;
        let (at, at_type) = match self.ctx.size_value(node, axis) {
            Some(size) => (shifted(at, dtype, left, size), DType::I64),
            None if inner == padded => (at, dtype),
            None => (shifted(at, dtype, left, number(extent(inner))), DType::I64),
        };
        let (home, mut index) = self.element(node, projection)?;
        let axis = index.len() - projection.len() + axis;
        index[axis] = AxisIndex::Fixed(0).affine();
        Ok(ComputedElement { node: home, index, axis, at, at_type })
    }
}

/// `0 <= at < inner ? at + left : -1`
fn shifted(at: Expr, dtype: DType, left: i64, inner: Expr) -> Expr {
    let at = in_i64(at, dtype);
    let shifted = Expr::binary(BinaryOp::Add, at.clone(), number(left));
    Expr::select(is_inside(at, inner), shifted, number(-1))
}

/// Converts an index to `i64`. A `u64` beyond the range of `i64` becomes negative, and is outside in both
/// types.
fn in_i64(at: Expr, dtype: DType) -> Expr {
    if dtype == DType::I64 { at } else { Expr::convert(DType::I64, at) }
}

/// `0 <= at < size`, for an index in `i64`.
fn is_inside(at: Expr, size: Expr) -> Expr {
    let below = Expr::binary(BinaryOp::Lt, at.clone(), size);
    Expr::binary(BinaryOp::And, Expr::binary(BinaryOp::Le, number(0), at), below)
}

fn number(value: i64) -> Expr {
    Expr::Const(Scalar::from_i64(DType::I64, value))
}
