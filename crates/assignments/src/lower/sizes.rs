//! Sizes that a run gives to axes.
//!
//! Up to lowering, a program with such sizes is one over the bounds: the dimensions of its nodes, and the
//! extents of its product spaces. Loops make the difference: an iterator that indexes such an axis alone ends
//! at the size. So every analysis of assignments holds for the part of a node that has values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tnode::{MemoryMode, RunSize, TensorNode};

use super::error::LowerErrorKind;
use super::step::LoweringContext;
use super::{Result, recurrence};
use crate::indexing::StaticSymbol;
use crate::indexing::bounded_space::SymbolRange;
use crate::{Accum, Assignments};
use lowered_ir::ir::{Affine, Block, LoopId, LoweredRoutine, NodeRef, Quotient, Stmt, SymbolId};
use lowered_ir::passes::access::analyze;

/// The symbols of the sizes that the nodes of a program have.
#[derive(Default)]
pub(super) struct Sizes {
    symbols: BTreeMap<RunSize, SymbolId>,
    /// How the symbols of derived sizes follow from others.
    quotients: BTreeMap<SymbolId, Quotient>,
}

impl Sizes {
    /// Enters the sizes of these nodes, and those from which they follow, into the symbols of the
    /// assignments.
    pub(super) fn enter(assignments: &mut Cow<'_, Assignments>, nodes: &[TensorNode]) -> Sizes {
        let mut sizes = Sizes::default();
        let of_symbols: Vec<RunSize> =
            assignments.symbols.iter().filter_map(|symbol| symbol.size.clone()).collect();
        let of_nodes = nodes.iter().flat_map(|node| node.run_sizes().iter().flatten().cloned());
        for size in of_symbols.into_iter().chain(of_nodes) {
            size.each_source(&mut |size| {
                let id = assignments.to_mut().symbol(&StaticSymbol::size(size));
                sizes.symbols.insert(size.clone(), id);
            });
        }
        for (size, &id) in &sizes.symbols {
            let quotient = StaticSymbol::quotient_in(&assignments.symbols, size);
            sizes.quotients.extend(quotient.map(|quotient| (id, quotient)));
        }
        sizes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The symbol of the assignments that is the size of an axis; none if its dimension is constant.
    pub(super) fn of(&self, node: &TensorNode, axis: usize) -> Option<SymbolId> {
        self.symbols.get(node.run_size(axis)?).copied()
    }

    /// The values of a symbol of the assignments within an interval.
    pub(super) fn range(&self, id: SymbolId, interval: (i64, i64)) -> SymbolRange {
        SymbolRange { interval, quotient: self.quotients.get(&id).cloned() }
    }

    /// The iterators that index axes with such sizes alone, each with the symbols at which it ends: one,
    /// unless a condition of the statement says that it stays below one of them.
    pub(super) fn ends(&self, accum: &Accum) -> Result<Vec<(LoopId, Affine)>> {
        let mut ends: Vec<(LoopId, Affine)> = Vec::new();
        if self.is_empty() {
            return Ok(ends);
        }
        for (iterator, size) in accum.sized_iterators() {
            let Some(end) = self.symbols.get(size).copied().map(Affine::var) else { continue };
            let known = || ends.iter().filter(|(known, _)| *known == iterator).map(|(_, end)| end);
            if known().any(|known| *known == end) {
                continue;
            }
            if known().next().is_some() && !known().chain([&end]).any(|end| is_stated(accum, iterator, end)) {
                let (node, size) = (accum.lhs.name(), size.to_string());
                return Err(LowerErrorKind::SizesDiffer { node, size }.into());
            }
            ends.push((iterator, end));
        }
        Ok(ends)
    }
}

/// Whether a condition of the accumulation says that the iterator stays below that end.
fn is_stated(accum: &Accum, iterator: LoopId, end: &Affine) -> bool {
    let p = &accum.projections;
    let mut clips = p.product_iterators().iter().zip(p.clips());
    clips.any(|(id, clips)| *id == iterator && clips.contains(end))
}

/// The place of a symbol among others: parameters, sizes behind those from which they follow, letters of
/// scans.
pub(super) fn order(symbol: &StaticSymbol) -> (bool, usize) {
    (symbol.letter().is_some(), symbol.size.as_ref().map_or(0, RunSize::depth))
}

/// The routine with `zero` at its start of each node that it writes first and of which it may then read an
/// element without a value, as far as the analysis of loops knows. Such reads are of a gather, whose index
/// is computed, or of a value that nothing uses. A node of bounds that a loop to a size writes is one of them
/// too.
pub(super) fn with_zeros(
    mut routine: LoweredRoutine,
    assignments: &Assignments,
    ctx: &LoweringContext,
) -> LoweredRoutine {
    let facts = analyze(&routine);
    let unclear = |node: &NodeRef| facts[*node].read_before_write;
    // Statements whose loops end at sizes write all of these, if the sizes are their bounds.
    let lasts = |node: &TensorNode| MemoryMode::Materialized.outcomes().contains(node.mode().outcomes());
    let patched = assignments.patched_nodes().into_iter();
    let patched = patched.filter(|node| !lasts(node) && recurrence::covers(assignments, node));
    let written = assignments.embedded_nodes().into_iter().chain(patched);
    let zeros = written.filter_map(|node| ctx.refs.get(&node).copied()).filter(unclear);
    let zeros: Block = zeros.map(|node| Stmt::Zero { node }).collect();
    routine.body.splice(0..0, zeros);
    routine
}
