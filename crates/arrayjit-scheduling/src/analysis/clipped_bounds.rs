//! Indices of elements by the ends of loops that symbols clip.

use std::collections::BTreeMap;

use lowered_ir::ir::{
    Affine, ArrayRef, Indices, LoopId, Quotient, Stmt, Symbol, SymbolId, Var, VariableBounds, index_bounds,
    walk,
};

use crate::analysis::names::Names;

/// Whether every element that is stored or read without a guard is in its node, by the ends of the loops of
/// this block.
pub(crate) fn is_in_bounds(block: &[Stmt], names: &Names) -> bool {
    let bounds = ClippedRanges::of(block, names);
    let is_element = |(array, index): (ArrayRef, &Indices)| {
        let Some(node) = array.node() else { return true };
        let axes = || index.iter().zip(names.dims(node));
        axes().all(|(at, &dim)| {
            index_bounds(at, &bounds).is_some_and(|(least, most)| 0 <= least && most < dim as i64)
        })
    };
    let stored = |stmt: &Stmt| stmt.store().is_none_or(|(array, index, _)| is_element((array, index)));
    walk::stmts(block).all(stored) && walk::parts_in(block).all(|e| e.element().is_none_or(is_element))
}

/// The ranges of variables with the clips of the loops of a block.
pub(crate) struct ClippedRanges<'a> {
    names: &'a Names,
    clips: BTreeMap<LoopId, &'a [Affine]>,
}

impl<'a> ClippedRanges<'a> {
    pub(crate) fn of(block: &'a [Stmt], names: &'a Names) -> ClippedRanges<'a> {
        let mut clips = BTreeMap::new();
        walk::stmts(block).for_each(|stmt| {
            if let Stmt::For { var, hi, .. } = stmt {
                clips.insert(*var, hi.clips());
            }
        });
        ClippedRanges { names, clips }
    }
}

impl VariableBounds for ClippedRanges<'_> {
    fn interval(&self, var: Var) -> (i64, i64) {
        self.names.ranges.get(var)
    }

    fn clips(&self, var: LoopId) -> &[Affine] {
        self.clips.get(&var).copied().unwrap_or_default()
    }

    fn quotient(&self, symbol: SymbolId) -> Option<Quotient> {
        Symbol::exact_quotient(&self.names.symbols, symbol).cloned()
    }
}
