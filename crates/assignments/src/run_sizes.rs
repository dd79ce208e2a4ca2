//! The sizes that a run gives to the iterators of an accumulation.

use tnode::{RunSize, RunSizes};

use crate::indexing::AxisIndex;
use crate::{Accum, Operand};
use lowered_ir::ir::{LoopId, Var};

impl Accum {
    /// The iterators that stay below sizes that a run gives: those of the projections, and those that index
    /// axes with such sizes alone. Padded reads are left out, since they may go outside.
    pub(crate) fn sized_iterators(&self) -> impl Iterator<Item = (LoopId, &RunSize)> {
        let p = &self.projections;
        let is_computed =
            |projection: &[AxisIndex]| projection.iter().any(|index| index.computed().is_some());
        let read =
            self.operands().zip(p.project_rhs()).filter_map(move |(operand, projection)| match operand {
                Operand::Node(node) | Operand::MergeBuffer(node) => Some((node, projection.as_slice())),
                Operand::Padded { node, .. } if is_computed(projection) => {
                    Some((node, projection.as_slice()))
                }
                _ => None,
            });
        let accessed = std::iter::once((&self.lhs, p.project_lhs())).chain(read);
        let of_arrays = accessed.flat_map(|(node, projection)| {
            projection.iter().enumerate().filter_map(move |(axis, index)| match *index {
                AxisIndex::Iterator(Var::Loop(iterator)) => Some((iterator, node.run_size(axis)?)),
                _ => None,
            })
        });
        p.run_sizes().chain(of_arrays)
    }

    /// Whether an iterator stays below such a size and indexes an axis of the node written whose dimension is
    /// constant, so that a part of the node is not written.
    pub(crate) fn leaves_rest(&self) -> bool {
        let mut axes = self.projections.project_lhs().iter().enumerate();
        axes.any(|(axis, index)| {
            let terms = index.loop_terms();
            let is_sized =
                |(iterator, _): &(LoopId, i64)| self.sized_iterators().any(|(id, _)| id == *iterator);
            self.lhs.run_size(axis).is_none() && terms.iter().any(is_sized)
        })
    }

    /// The size that a run gives to each axis of the product space, for a node over these axes.
    pub fn run_sizes(&self) -> RunSizes {
        let size = |iterator: LoopId| self.sized_iterators().find(|&(sized, _)| sized == iterator);
        let iterators = self.projections.product_iterators().iter();
        iterators.map(|&iterator| Some(size(iterator)?.1.clone())).collect()
    }
}
