//! Margins: the elements around the values of a padded node, and the values that reads need them to hold.
//!
//! A read that may reach into margins *needs* them to hold the neutral element, in the node's type, of the
//! operation that accumulates: 0 for sums, the lowest value for `max`, the highest for `min`, 1 for products.
//! The need does not depend on the expression around the element: `y[i] :+= x[i + k] * w[k]` needs 0, and so
//! does `y[i] :+= exp(x[i + k])`. A plain assignment needs the neutral value that the padding declares, or 0.
//! The node of a subexpression, which is virtual, has the needs of the statement that reads it.
//!
//! Margins with other or unknown values are set by loops over the margins alone before the step that reads
//! them; consecutive steps with the same need set them once. When a routine begins, the margins of a node
//! hold:
//! * the neutral value, where the padding declares one. A routine that sets other values restores it at its
//!   end. A routine that fills the node may be the first to use its memory, so it cannot rely on the margins:
//!   it sets them before it reads them, and at its end if the value is not the 0 of fresh memory;
//! * any values, where the padding declares no neutral value;
//! * 0, where the node has no values and the routine writes it, because the routine then zeroes it first
//!   ([`super::empty`]).
//!
//! An element with a computed index is never in the margins, but the loop IR cannot express that. In a
//! routine that fills the node they are therefore set before such an access, so that no value from before the
//! routine is needed.
//!
//! Merge buffers have the margins of the array they are a copy of.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{Scalar, TensorNode};

use super::Result;
use super::bounds::{NodeLayout, layout};
use super::computed::computed_axis;
use super::step::{LoopNest, LoweringContext, nest};
use crate::indexing::{AxisIndex, extent};
use crate::{Accum, AccumOp, Assignments, Operand, ProgramStep};
use lowered_ir::ir::{Affine, Block, Expr, Stmt, Var};

/// The known values of the margins of each padded node, updated step by step.
#[derive(Debug, Default)]
pub(super) struct Margins {
    /// The value that the margins hold now; `None` if unknown.
    held: BTreeMap<TensorNode, Option<Scalar>>,
    /// The operation that accumulates the values of each virtual node.
    readers: BTreeMap<TensorNode, AccumOp>,
    /// The nodes of which the routine sets all values.
    filled: BTreeSet<TensorNode>,
    /// The nodes whose margins the routine sets.
    set: BTreeSet<TensorNode>,
}

impl Margins {
    /// The values known before the first step; `zeroed` are the nodes that the routine zeroes first.
    pub(super) fn new(assignments: &Assignments, zeroed: &BTreeSet<TensorNode>) -> Margins {
        let padded: Vec<TensorNode> =
            assignments.nodes().into_iter().filter(|node| node.padding().is_some()).collect();
        if padded.is_empty() {
            return Margins::default();
        }
        let filled: BTreeSet<TensorNode> = assignments.embedded_nodes().into_iter().collect();
        let held = |node: TensorNode| {
            let known = match () {
                () if zeroed.contains(&node) => Some(Scalar::zero(node.dtype())),
                () if filled.contains(&node) => None,
                () => declared(&node),
            };
            (node, known)
        };
        let held = padded.into_iter().map(held).collect();
        Margins { held, readers: readers(assignments), filled, set: BTreeSet::new() }
    }

    /// Whether the routine sets the margins of a node.
    pub(super) fn are_set(&self, node: &TensorNode) -> bool {
        self.set.contains(node)
    }

    /// The operation whose neutral element the margins must hold when an accumulation reads its operands.
    fn reader(&self, accum: &Accum) -> AccumOp {
        match accum.op {
            AccumOp::Assign => self.readers.get(&accum.lhs).copied().unwrap_or(AccumOp::Assign),
            op => op,
        }
    }
}

/// The value that the margins of a node hold between routines, if it declares one.
fn declared(node: &TensorNode) -> Option<Scalar> {
    Some(Scalar::from_f64(node.dtype(), node.padding()?.neutral?))
}

/// For each virtual node, the operation of its first reader, or of the first reader of that node if it is
/// virtual too.
fn readers(assignments: &Assignments) -> BTreeMap<TensorNode, AccumOp> {
    let accums: Vec<&Accum> = crate::all_steps(&assignments.steps).flat_map(|step| step.accums()).collect();
    let mut margins = Margins::default();
    for accum in accums.into_iter().rev() {
        let op = margins.reader(accum);
        let read = accum.operands().filter_map(Operand::node);
        let read: Vec<TensorNode> = read.filter(|node| node.mode().known_virtual()).cloned().collect();
        margins.readers.extend(read.into_iter().map(|node| (node, op)));
    }
    margins.readers
}

/// Sets the margins that a step reads and that do not hold the value that it needs.
pub(super) fn prepare(accums: &[Accum], ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
    for accum in accums.iter().filter(|accum| !accum.projections.product_space().contains(&0)) {
        for (at, (operand, projection)) in accum.operands().zip(accum.projections.project_rhs()).enumerate() {
            let Operand::Node(node) = operand else { continue };
            if node.padding().is_none() || !reaches_margins(accum, projection, &layout(node)?, ctx) {
                continue;
            }
            // Operands of a computed index are not accumulated.
            let is_index = at >= accum.rhs.operands().len();
            let needed = match if is_index { AccumOp::Assign } else { ctx.margins.reader(accum) } {
                AccumOp::Assign => declared(node).unwrap_or(Scalar::zero(node.dtype())),
                op => op.neutral(node.dtype()),
            };
            set(node, needed, ctx, block)?;
        }
    }
    for accum in accums {
        for node in with_computed_index(accum) {
            let is_unknown = ctx.margins.held.get(node) == Some(&None);
            if is_unknown && ctx.margins.filled.contains(node) {
                set(node, declared(node).unwrap_or(Scalar::zero(node.dtype())), ctx, block)?;
            }
        }
    }
    Ok(())
}

/// The nodes that are read or written at a computed index.
fn with_computed_index(accum: &Accum) -> impl Iterator<Item = &TensorNode> {
    let is_computed = |projection: &[AxisIndex]| computed_axis(projection).is_some();
    let target = is_computed(accum.projections.project_lhs()).then_some(&accum.lhs);
    let operands = accum.operands().zip(accum.projections.project_rhs());
    let read = operands.filter(move |(_, projection)| is_computed(projection)).filter_map(|(operand, _)| {
        match operand {
            Operand::Node(node) | Operand::Padded { node, .. } => Some(node),
            Operand::MergeBuffer(_) | Operand::Constant(_) | Operand::Index(_) | Operand::Random { .. } => {
                None
            }
        }
    });
    target.into_iter().chain(read)
}

/// Forgets the values of the margins that a step of a scan reads: the step before may leave others.
pub(super) fn enter_scan(steps: &[ProgramStep], ctx: &mut LoweringContext) {
    let accums = crate::all_steps(steps).flat_map(ProgramStep::accums);
    for node in accums.flat_map(Accum::operands).filter_map(Operand::node) {
        if let Some(held) = ctx.margins.held.get_mut(node) {
            *held = None;
        }
    }
}

/// Restores the values that margins hold between routines.
pub(super) fn restore(ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
    let held: Vec<_> = ctx.margins.held.iter().map(|(node, held)| (node.clone(), *held)).collect();
    for (node, held) in held {
        let Some(value) = declared(&node).filter(|_| !node.mode().known_virtual()) else { continue };
        // Memory that no step has set yet is 0.
        let fresh = held.is_none() && !ctx.margins.are_set(&node) && value == Scalar::zero(node.dtype());
        if !fresh {
            set(&node, value, ctx, block)?;
        }
    }
    Ok(())
}

/// Whether some index may be outside of the values.
fn reaches_margins(
    accum: &Accum,
    projection: &[AxisIndex],
    layout: &NodeLayout,
    ctx: &LoweringContext,
) -> bool {
    projection.iter().zip(&layout.inner).any(|(index, &inner)| {
        let (lo, hi) = ctx.bounds(&index.affine(), accum);
        lo < 0 || hi >= extent(inner)
    })
}

/// Sets the margins of a node, unless they hold the value already.
fn set(node: &TensorNode, value: Scalar, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
    if ctx.margins.held.insert(node.clone(), Some(value)) == Some(Some(value)) {
        return Ok(());
    }
    ctx.margins.set.insert(node.clone());
    let NodeLayout { left, inner, padded } = layout(node)?;
    let values = |axis: usize| (left[axis], left[axis] + extent(inner[axis]));
    let whole = |axis: usize| (0, extent(padded[axis]));
    for axis in 0..padded.len() {
        let (first, last) = (values(axis).0, values(axis).1);
        for strip in [(0, first), (last, whole(axis).1)] {
            // Axes before this one had their margins set already, corners included.
            let side = |other: usize| match other.cmp(&axis) {
                std::cmp::Ordering::Less => values(other),
                std::cmp::Ordering::Equal => strip,
                std::cmp::Ordering::Greater => whole(other),
            };
            fill_box(node, (0..padded.len()).map(side), value, ctx, block);
        }
    }
    Ok(())
}

/// Sets the elements of a box, given per axis as the first index and one past the last.
fn fill_box(
    node: &TensorNode,
    sides: impl Iterator<Item = (i64, i64)>,
    value: Scalar,
    ctx: &mut LoweringContext,
    block: &mut Block,
) {
    let sides: Vec<(i64, i64)> = sides.collect();
    if sides.iter().any(|(lo, hi)| lo >= hi) {
        return;
    }
    let mut loops = LoopNest::new();
    let mut position = |&(lo, hi): &(i64, i64)| {
        if hi - lo == 1 {
            return Affine::constant(lo);
        }
        let var = ctx.fresh.loop_id();
        loops.push((var, (hi - lo).into()));
        Affine::var(Var::Loop(var)).plus_constant(lo)
    };
    let index = sides.iter().map(&mut position).collect();
    let (node, index) = ctx.element(node, index);
    block.extend(nest(&loops, vec![Stmt::Set { node, index, value: Expr::Const(value) }]));
}
