//! The product spaces of accumulations, and the projections to their operands.

use std::collections::BTreeMap;

use tnode::{Dims, RunSize};

use crate::error::{Result, bad_bound};
use crate::tree::NodeAccess;
use assignments::indexing::{AxisIndex, IndexError, Indexed, Projection, Projections, axis_iterator};
use assignments::{AccessSpan, ByteRange};
use lowered_ir::SourceText;
use lowered_ir::ir::{Affine, LoopId, SymbolId, Var};

/// The access of an operand to its node.
#[derive(Default)]
pub(super) struct OperandAccess {
    pub(super) dims: Dims,
    /// One index per axis, in letters of the statement.
    pub(super) index: Vec<Affine>,
    /// The axis with a computed index, and the position of the operand that computes it.
    pub(super) computed: Option<(usize, usize)>,
    pub(super) place: AccessSpan,
}

impl OperandAccess {
    /// The access to a node. Operand `by` computes the index, if one is computed.
    pub(super) fn of(access: &NodeAccess, by: usize) -> OperandAccess {
        let (index, indices) = access.index.iter().cloned().unzip();
        let place = AccessSpan { whole: access.span.clone(), indices };
        let computed = access.computed.as_ref().map(|computed| (computed.axis, by));
        OperandAccess { dims: access.dims.clone(), index, computed, place }
    }

    /// The access of an operand without a node.
    pub(super) fn scalar(span: &ByteRange) -> OperandAccess {
        OperandAccess {
            place: AccessSpan { whole: span.clone(), indices: Vec::new() },
            ..OperandAccess::default()
        }
    }
}

/// The space of the letters of a statement.
#[derive(Clone, Copy)]
pub(super) struct LetterSpace<'a> {
    /// The range of each letter of the statement.
    pub(super) ranges: &'a [i64],
    /// The size that a run gives to the range of each letter, with its symbol.
    pub(super) sizes: &'a [Option<(RunSize, SymbolId)>],
    /// Whether each letter stays below its size without a condition that says so.
    pub(super) ended: &'a [bool],
    /// The conditions of the statement.
    pub(super) conditions: &'a [(Affine, ByteRange)],
    pub(super) text: &'a SourceText,
}

impl LetterSpace<'_> {
    /// The number of values of a letter.
    pub(super) fn size(&self, letter: usize) -> usize {
        usize::try_from(self.ranges[letter]).unwrap_or(0)
    }

    /// The name of the size that a run gives to the range of a letter.
    pub(super) fn run_size(&self, letter: usize) -> Option<RunSize> {
        self.sizes[letter].as_ref().map(|(name, _)| name.clone())
    }

    /// Projections over the space of some letters, outermost first. The indices mention no other letters, and
    /// the conditions with other letters do not apply.
    pub(super) fn projections(
        &self,
        letters: &[usize],
        lhs: OperandAccess,
        rhs: Vec<OperandAccess>,
        source: &str,
    ) -> Result<Projections> {
        let axes: Vec<usize> = letters.iter().map(|&letter| self.size(letter)).collect();
        let axis: BTreeMap<usize, usize> = letters.iter().enumerate().map(|(axis, &k)| (k, axis)).collect();
        let in_axes = |index: &Affine| {
            let start = Affine::constant(index.offset());
            index.terms().iter().try_fold(start, |sum, &(var, coefficient)| {
                let var = match var {
                    Var::Loop(id) => Var::Loop(axis_iterator(*axis.get(&id.index())?)),
                    Var::Symbol(_) => var,
                };
                Some(sum.plus(&Affine::term(var, coefficient)))
            })
        };
        let renamed =
            |index: &Affine| AxisIndex::new(in_axes(index).expect("letters were collected from the indices"));
        let (applying, spans): (Vec<Affine>, Vec<&ByteRange>) =
            self.conditions.iter().filter_map(|(condition, span)| Some((in_axes(condition)?, span))).unzip();
        let indexed = |accessed: OperandAccess| -> Indexed {
            let mut projection: Projection = accessed.index.iter().map(renamed).collect();
            if let Some((axis, by)) = accessed.computed {
                projection[axis] = AxisIndex::Computed(by);
            }
            (accessed.dims, projection)
        };
        match Projections::within(
            &axes,
            &applying,
            indexed(lhs),
            rhs.into_iter().map(indexed).collect(),
            source,
        ) {
            Err(IndexError::Condition { condition, why }) => {
                Err(bad_bound(spans[condition], &why, self.text))
            }
            found => {
                let found = found.expect("ranks and computed indices were checked when names were resolved");
                let letter = |iterator: LoopId| letters.get(iterator.index()).copied();
                let ended = |iterator| letter(iterator).filter(|&letter| self.ended[letter]);
                Ok(found.with_run_sizes(|iterator| self.run_size(ended(iterator)?)))
            }
        }
    }
}
