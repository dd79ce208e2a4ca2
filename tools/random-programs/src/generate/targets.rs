//! The targets of assignments.

use tnode::DType;

use super::ProgramMaker;
use crate::program::{Accumulation, NodeMode, ProgramAccess, ProgramAffine, ProgramAxis, ProgramVar};
use crate::weights::TargetKind;

impl ProgramMaker<'_, '_> {
    pub(super) fn target(
        &mut self,
        outer: &[usize],
        op: Accumulation,
        starts: &mut bool,
        is_last: bool,
    ) -> ProgramAccess {
        let mut order = outer.to_vec();
        if self.choices.chance(1, 3) {
            order.reverse();
        }
        let plain = |letter: &usize| {
            ProgramAxis::Affine(ProgramAffine { terms: vec![(1, ProgramVar::Letter(*letter))], offset: 0 })
        };
        let kind = *self.choices.pick(self.weights.targets);
        let accumulates = op != Accumulation::Store;
        if kind == TargetKind::Rewrite
            && !is_last
            && let Some(node) = self.rewritable()
        {
            let axes = self.index_into(node, outer, 0);
            if accumulates && self.program.nodes[node].mode == NodeMode::Virtual {
                *starts = false;
            }
            return ProgramAccess { node, axes, pad: None };
        }
        let dtype = self.dtype();
        if kind == TargetKind::Scatter && !outer.is_empty() && !is_last {
            return self.scatter(dtype, outer, *starts);
        }
        if kind == TargetKind::Partial {
            let (dims, axes) = self.shape(&order);
            let node = self.result(dtype, dims, is_last);
            if !*starts {
                self.needs_values(node);
            }
            return ProgramAccess { node, axes, pad: None };
        }
        let dims = order.iter().map(|&letter| self.letters[letter].extent).collect();
        let node = self.result(dtype, dims, is_last);
        if accumulates && !*starts {
            self.needs_values(node);
        }
        ProgramAccess { node, axes: order.iter().map(plain).collect(), pad: None }
    }

    /// Gives a node initial values from the host if it has none.
    pub(super) fn needs_values(&mut self, node: usize) {
        self.program.nodes[node].mode = NodeMode::Materialized;
        if self.program.nodes[node].data.is_none() {
            self.give_values(node);
        }
        self.valued.insert(node);
    }

    /// Chooses a node with values that may be written again.
    pub(super) fn rewritable(&mut self) -> Option<usize> {
        let all: Vec<usize> = self.valued.difference(&self.fixed).copied().collect();
        if all.is_empty() {
            return None;
        }
        let node = *self.choices.pick(&all);
        if self.program.nodes[node].data.is_some() {
            self.program.nodes[node].mode = NodeMode::Materialized;
        }
        Some(node)
    }

    /// A target with a computed index on one axis, and with letters of the statement on its other axes.
    pub(super) fn scatter(&mut self, dtype: DType, outer: &[usize], starts: bool) -> ProgramAccess {
        let size = *self.choices.pick(&[4, 1, 7, 16, 3]);
        let index = self.computed_index(outer, size);
        let mut dims = vec![size];
        let mut axes = vec![ProgramAxis::Computed(Box::new(index))];
        let whole = self.choices.chance(1, 2);
        for &letter in if whole { outer } else { &outer[1..] } {
            dims.push(self.letters[letter].extent);
            axes.push(ProgramAxis::Affine(ProgramAffine {
                terms: vec![(1, ProgramVar::Letter(letter))],
                offset: 0,
            }));
        }
        if dims.iter().product::<usize>() > 4 * self.weights.points {
            dims[0] = dims[0].min(4);
        }
        if self.choices.chance(1, 3) {
            dims.rotate_left(1);
            axes.rotate_left(1);
        }
        let node = self.result(dtype, dims, false);
        if !starts {
            self.needs_values(node);
        }
        ProgramAccess { node, axes, pad: None }
    }
}
