//! Accumulations at the place of a statement that prints them: indices in letters of the statement.

use std::collections::BTreeMap;

use super::names::is_letter;
use assignments::Accum;
use assignments::indexing::AxisIndex;
use lowered_ir::SourceSpan;
use lowered_ir::ir::{Affine, LoopId, Var};

/// An accumulation whose iterators have values in letters of the statement.
pub(super) struct Site<'a> {
    pub(super) accum: &'a Accum,
    /// The values of the iterators. Other iterators are letters themselves.
    pub(super) values: BTreeMap<LoopId, Affine>,
}

impl Site<'_> {
    /// An index in letters of the statement.
    pub(super) fn place(&self, index: &Affine) -> Affine {
        let start = Affine::constant(index.offset());
        index.terms().iter().fold(start, |sum, &(var, coefficient)| match var {
            Var::Loop(id) => match self.values.get(&id) {
                Some(value) => sum.plus(&value.times(coefficient)),
                None => sum.plus(&Affine::term(var, coefficient)),
            },
            Var::Symbol(_) => sum.plus(&Affine::term(var, coefficient)),
        })
    }

    pub(super) fn indices(&self, at: usize) -> &[AxisIndex] {
        self.accum.projections.project_rhs().get(at).map_or(&[], |projection| projection)
    }
}

/// Enters the letter of an iterator, if the iterator is the whole index and a letter is its source.
pub(super) fn enter_letter(
    site: &Site<'_>,
    index: &AxisIndex,
    source: Option<SourceSpan>,
    into: &mut BTreeMap<LoopId, String>,
) {
    let Some(Var::Loop(iterator)) = site.place(&index.affine()).as_var() else { return };
    if let Some(letter) = source.map(|span| span.text().to_owned()).filter(|text| is_letter(text)) {
        into.entry(iterator).or_insert(letter);
    }
}

/// The accumulation of a subexpression in the place of an operand with these indices.
pub(super) fn inner_site<'a>(outer: &Site<'_>, inner: &'a Accum, indices: &[AxisIndex]) -> Site<'a> {
    let axes = inner.projections.project_lhs().iter().zip(indices);
    let value = |(axis, index): (&AxisIndex, &AxisIndex)| match axis {
        AxisIndex::Iterator(Var::Loop(iterator)) => Some((*iterator, outer.place(&index.affine()))),
        _ => None,
    };
    // An iterator that the reader fixes is 0.
    let all = inner.projections.product_iterators().iter().map(|&iterator| (iterator, Affine::constant(0)));
    let mut values: BTreeMap<LoopId, Affine> = all.collect();
    values.extend(axes.filter_map(value));
    Site { accum: inner, values }
}
