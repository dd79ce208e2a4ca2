//! Accesses to arrays, and accumulations derived from the accumulations of a program.

use assignments::indexing::{AxisIndex, Indexed, Projection, Projections, identity_projections};
use assignments::{Accum, AccumOp, Operand, Origin, Rhs};
use lowered_ir::ir::{Affine, BinaryOp, LoopId, TernaryOp, UnaryOp};
use tnode::{DType, Dims, Scalar, TensorNode};

use crate::error::{GradientErrorKind, Result};

/// An operand with its indices. Computed indices have the numbers of the operands of the accumulation from
/// which the access derives.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) operand: Operand,
    pub(crate) dims: Dims,
    pub(crate) index: Projection,
}

impl Access {
    pub(crate) fn new(operand: impl Into<Operand>, dims: &[usize], index: &[AxisIndex]) -> Access {
        Access { operand: operand.into(), dims: Dims::from_slice(dims), index: index.into() }
    }

    /// A number.
    pub(crate) fn number(value: f64, dtype: DType) -> Access {
        Access::new(Scalar::from_f64(dtype, value), &[], &[])
    }

    /// A node with one index per product axis of an accumulation.
    pub(crate) fn at_point(node: &TensorNode, accum: &Accum) -> Access {
        let index: Projection =
            accum.projections.product_iterators().iter().map(|&id| AxisIndex::Iterator(id.into())).collect();
        Access::new(node, accum.projections.product_space(), &index)
    }

    /// Another node at the indices of the node that an accumulation writes.
    pub(crate) fn at_target(node: &TensorNode, accum: &Accum) -> Access {
        Access::new(node, accum.projections.lhs_dims(), accum.projections.project_lhs())
    }

    /// The operand of an accumulation at that position.
    pub(crate) fn of_operand(accum: &Accum, at: usize) -> Option<Access> {
        let (dims, index) = (accum.projections.rhs_dims().get(at)?, accum.projections.project_rhs().get(at)?);
        Some(Access { operand: accum.operands().nth(at)?.clone(), dims: dims.clone(), index: index.clone() })
    }

    /// Whether the indices may be outside of the node: it is read with `pad`, or has margins.
    pub(crate) fn may_reach_outside(&self) -> bool {
        let has_margins = self.operand.node().is_some_and(|node| node.padding().is_some());
        matches!(self.operand, Operand::Padded { .. }) || has_margins
    }

    fn indexed(&self, renumber: impl Fn(usize) -> usize) -> Indexed {
        let index = |index: &AxisIndex| match index.computed() {
            Some(operand) => AxisIndex::Computed(renumber(operand)),
            None => index.clone(),
        };
        (self.dims.clone(), self.index.iter().map(index).collect())
    }
}

/// The operation of a derived accumulation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Copy,
    Unary(UnaryOp),
    Binary(BinaryOp),
    Ternary(TernaryOp),
}

impl Operation {
    fn rhs(self, operands: &[Access]) -> Option<Rhs> {
        let operand = |access: &Access| access.operand.clone();
        Some(match (self, operands) {
            (Operation::Copy, [a]) => Rhs::Copy(operand(a)),
            (Operation::Unary(op), [a]) => Rhs::Unary(op, operand(a)),
            (Operation::Binary(op), [a, b]) => Rhs::Binary(op, [operand(a), operand(b)]),
            (Operation::Ternary(op), [a, b, c]) => Rhs::Ternary(op, [operand(a), operand(b), operand(c)]),
            _ => return None,
        })
    }
}

/// The target of a derived accumulation: a node, how its values start, and its indices.
pub(crate) struct Target {
    pub(crate) node: TensorNode,
    pub(crate) init_neutral: bool,
    pub(crate) op: AccumOp,
    pub(crate) dims: Dims,
    pub(crate) index: Projection,
    /// The axes whose index, which has no iterators, may be negative: there is nothing to accumulate then.
    pub(crate) guarded: Vec<usize>,
    /// The iterators whose loops are innermost, if the order matters.
    pub(crate) innermost: Vec<LoopId>,
}

impl Target {
    /// The accumulation `op` into a node at the indices of an access.
    pub(crate) fn new(node: &TensorNode, init_neutral: bool, op: AccumOp, access: Access) -> Target {
        let Access { dims, index, .. } = access;
        Target {
            node: node.clone(),
            init_neutral,
            op,
            dims,
            index,
            guarded: Vec::new(),
            innermost: Vec::new(),
        }
    }

    /// A new array with one element per point of an accumulation's product space. Points that conditions cut
    /// off hold 0.
    pub(crate) fn at_point(node: &TensorNode, accum: &Accum) -> Target {
        let is_clipped = accum.projections.is_clipped();
        let op = if is_clipped { AccumOp::Add } else { AccumOp::Assign };
        Target::new(node, is_clipped, op, Access::at_point(node, accum))
    }

    /// A sum into a node at the indices of an access.
    pub(crate) fn sum(node: &TensorNode, init_neutral: bool, access: &Access) -> Target {
        Target::new(node, init_neutral, AccumOp::Add, access.clone())
    }
}

/// An accumulation at the points of `points`, whose operands compute the computed indices. `values` are those
/// operands as the derived accumulation reads them.
pub(crate) fn derived(
    points: &Accum,
    values: impl Fn(usize) -> Option<Access>,
    target: Target,
    operation: Operation,
    operands: &[Access],
) -> Result<Accum> {
    let mut computing: Vec<(usize, Access)> = Vec::new();
    let indices = operands.iter().flat_map(|access| &access.index).chain(&target.index);
    let mut wanted: Vec<usize> = indices.filter_map(AxisIndex::computed).collect();
    while let Some(position) = wanted.pop() {
        if computing.iter().all(|(known, _)| *known != position)
            && let Some(access) = values(position)
        {
            wanted.extend(access.index.iter().filter_map(AxisIndex::computed));
            computing.push((position, access));
        }
    }
    // An operand that computes an index comes after the operand that it indexes.
    computing.sort_by_key(|(position, _)| *position);
    let renumber = |position: usize| {
        let rank = computing.iter().position(|(known, _)| *known == position);
        operands.len() + rank.unwrap_or(computing.len())
    };
    let mut lhs = Access { operand: (&target.node).into(), dims: target.dims, index: target.index };
    let mut space = points.projections.clone();
    if !target.guarded.is_empty() {
        let indices: Vec<Affine> = target.guarded.iter().map(|&axis| lhs.index[axis].affine()).collect();
        let (within, guard) = space.with_guard(&indices);
        for (axis, index) in target.guarded.into_iter().zip(indices) {
            lhs.index[axis] = AxisIndex::new(index.plus(&Affine::term(guard, -1)));
        }
        space = within;
    }
    let arrays = operands.iter().chain(computing.iter().map(|(_, access)| access));
    let arrays = arrays.map(|access| access.indexed(renumber)).collect();
    let fits = |source| GradientErrorKind::Index { node: points.lhs.name(), source }.of(&points.origin);
    let projections = space.with_arrays(lhs.indexed(renumber), arrays, "gradient").map_err(fits)?;
    let projections = match target.innermost.is_empty() {
        true => in_order_of_target(projections),
        false => with_innermost(projections, &target.innermost),
    };
    let rhs = operation.rhs(operands).ok_or_else(|| {
        let (node, projections) = (points.lhs.name(), operands.len());
        GradientErrorKind::Operands { node, operands: points.rhs.operands().len(), projections }
            .of(&points.origin)
    })?;
    Ok(Accum {
        init_neutral: target.init_neutral,
        op: target.op,
        lhs: target.node,
        rhs,
        computed: computing.iter().map(|(_, access)| access.operand.clone()).collect(),
        projections,
        origin: points.origin.clone(),
    })
}

/// The projections with the loops over the target's axes outermost, in the order of these axes, as a
/// statement written by hand has them. A statement that updates a parameter by the target has the same loops
/// then, so that the two can be fused. Each element keeps the order of its values, because its indices
/// determine the iterators of these loops. Other targets keep the order of all loops.
pub(crate) fn in_order_of_target(projections: Projections) -> Projections {
    let indices = projections.project_lhs();
    let is_plain = |index: &AxisIndex| index.computed().is_none() && index.loop_terms().len() <= 1;
    if !indices.iter().all(is_plain) {
        return projections;
    }
    let iterators = projections.product_iterators();
    let of_target = indices.iter().flat_map(|index| index.loop_terms().to_vec());
    let of_target = of_target.filter_map(|(id, _)| iterators.iter().position(|&known| known == id));
    let mut axes: Vec<usize> = Vec::new();
    for axis in of_target.chain(0..iterators.len()) {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    projections.reordered(&axes).unwrap_or(projections)
}

/// The projections with the loops over some iterators innermost, and the others in their order.
fn with_innermost(projections: Projections, innermost: &[LoopId]) -> Projections {
    let iterators = projections.product_iterators();
    let mut axes: Vec<usize> = (0..iterators.len()).collect();
    axes.sort_by_key(|&axis| innermost.contains(&iterators[axis]));
    projections.reordered(&axes).unwrap_or(projections)
}

/// A step that visits every element of a node of these dimensions once, from which steps on whole nodes
/// derive.
pub(crate) fn each_element(node: &TensorNode, dims: &[usize], origin: &Origin) -> Accum {
    let identity = identity_projections(dims);
    let projections = Projections::pointwise(dims, 0);
    let lhs = Access { operand: node.into(), dims: Dims::from_slice(dims), index: identity };
    Accum {
        init_neutral: false,
        op: AccumOp::Assign,
        lhs: node.clone(),
        rhs: Rhs::Copy(lhs.operand.clone()),
        computed: Vec::new(),
        projections,
        origin: origin.clone(),
    }
}
