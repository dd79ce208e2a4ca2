//! Checks that every access is in bounds, and derives the ranges of symbols that have none.

use tnode::{Dims, TensorNode};

use super::computed::computed_axis;
use super::error::LowerErrorKind;
use super::sizes::Sizes;
use super::view::Views;
use super::{Result, mentions};
use crate::indexing::bounded_space::SymbolRange;
use crate::indexing::{AxisIndex, Projections, StaticSymbol, extent};
use crate::{Accum, Assignments, FetchOp, Operand, Origin, ProgramStep};
use lowered_ir::SourceSpan;
use lowered_ir::ir::{Affine, LoopId, SymbolId, Var};

/// An index into one axis of a node, in coordinates without padding, and the values that it may take.
pub(super) struct AxisPosition<'a> {
    node: &'a TensorNode,
    /// The position of the operand; `None` for the node written.
    operand: Option<usize>,
    axis: usize,
    index: Affine,
    min: i64,
    max: i64,
}

/// The left margin of each axis, and the dimensions without and with margins.
pub(super) struct NodeLayout {
    pub(super) left: Vec<i64>,
    pub(super) inner: Dims,
    pub(super) padded: Dims,
}

pub(super) fn layout(node: &TensorNode) -> Result<NodeLayout> {
    let (inner, padded) = (node.dims_without_padding()?, node.dims()?);
    let left = match node.padding() {
        Some(padding) => padding.axes.iter().map(|axis| extent(axis.left)).collect(),
        None => vec![0; inner.len()],
    };
    Ok(NodeLayout { left, inner, padded })
}

/// The range of every symbol in `table`: the declared range, else the largest that keeps all accesses in
/// bounds.
///
/// Also checks every access.
pub(super) fn symbol_ranges(
    assignments: &Assignments,
    views: &Views,
    sizes: &Sizes,
    table: &[StaticSymbol],
    renumbering: &[SymbolId],
) -> Result<Vec<i64>> {
    let mut solver = RangeSolver { sizes, table, renumbering, limits: vec![None; table.len()] };
    let unlocated = Origin::unknown();
    views.indexed().try_for_each(|(parent, symbol)| solver.slice(parent, *symbol, unlocated))?;
    for step in crate::all_steps(&assignments.steps) {
        if let ProgramStep::Fetch { op: FetchOp::Slice { index, of }, origin, .. } = step {
            solver.slice(of, *index, origin)?;
        }
        for accum in step.accums() {
            solver.accum(accum).map_err(|error| error.or_at(|| accum.origin.statement()))?;
        }
    }
    let ranged = |(symbol, limit): (&StaticSymbol, Option<i64>)| {
        let name = symbol.name.clone();
        let kind = match symbol.range.or(limit) {
            Some(range) if range < 1 => LowerErrorKind::SymbolEmpty { name, range },
            Some(range) => return Ok(range),
            None => LowerErrorKind::SymbolUnranged { name },
        };
        Err(kind.at(mentions::of_symbol(assignments, &symbol.name)))
    };
    table.iter().zip(solver.limits).map(ranged).collect()
}

/// Checks accesses, and records the upper limits of symbols without a range.
struct RangeSolver<'a> {
    sizes: &'a Sizes,
    table: &'a [StaticSymbol],
    renumbering: &'a [SymbolId],
    /// For each symbol of the table without a range, the largest range that the accesses so far allow.
    limits: Vec<Option<i64>>,
}

impl RangeSolver<'_> {
    fn accum(&mut self, accum: &Accum) -> Result<()> {
        self.check_symbols(accum)?;
        let positions = positions(accum)?;
        // A product space without points accesses nothing.
        if accum.projections.product_space().contains(&0) {
            return Ok(());
        }
        let ends = self.sizes.ends(accum)?;
        positions
            .iter()
            .try_for_each(|position| self.position(position, &accum.projections, &ends, &accum.origin))?;
        self.clips(&accum.projections);
        Ok(())
    }

    /// Limits each symbol without a range that ends a loop: a greater value would not let the loop run
    /// longer.
    fn clips(&mut self, projections: &Projections) {
        let space = projections.product_space().iter().map(|&dim| extent(dim));
        for (extent, clip) in
            space.zip(projections.clips()).flat_map(|(n, clips)| clips.iter().map(move |c| (n, c)))
        {
            let open = |&&(var, _): &&(Var, i64)| matches!(var, Var::Symbol(id) if self.table[self.at(id)].range.is_none());
            let mut symbols = clip.terms().iter().filter(open);
            let (Some(&(Var::Symbol(id), coefficient)), None) = (symbols.next(), symbols.next()) else {
                continue;
            };
            let Some((least, greatest)) = projections.index_bounds(clip, &|id| self.range(id)) else {
                continue;
            };
            let room = if coefficient > 0 { extent - least } else { greatest };
            let range = (room.max(0) / coefficient.saturating_abs()).saturating_add(1);
            let at = self.at(id);
            self.limits[at] = Some(self.limits[at].map_or(range, |known| known.min(range)));
        }
    }

    /// Checks a symbol as the index into the first axis of a slice's parent.
    fn slice(&mut self, parent: &TensorNode, symbol: SymbolId, origin: &Origin) -> Result<()> {
        let max = extent(parent.dims_without_padding()?.first().copied().unwrap_or(0));
        let index = Affine::var(symbol);
        let position = AxisPosition { node: parent, operand: Some(0), axis: 0, index, min: 0, max };
        self.position(&position, &Projections::pointwise(&[], 0), &[], origin)
    }

    fn check_symbols(&self, accum: &Accum) -> Result<()> {
        let p = &accum.projections;
        let symbols = self.renumbering.len();
        let indices = p.project_lhs().iter().chain(p.project_rhs().iter().flatten());
        let clips = p.clips().iter().flatten().cloned();
        for index in indices.map(AxisIndex::affine).chain(clips) {
            for (var, _) in index.terms() {
                match var {
                    Var::Symbol(id) if id.index() >= symbols => {
                        return Err(LowerErrorKind::UnknownSymbol {
                            node: accum.lhs.name(),
                            symbol: id.0,
                            symbols,
                        }
                        .into());
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The position in the table of a symbol of the assignments.
    fn at(&self, id: SymbolId) -> usize {
        self.renumbering[id.index()].index()
    }

    /// The values of a symbol of the assignments, if its range is known.
    fn range(&self, id: SymbolId) -> Option<SymbolRange> {
        Some(self.sizes.range(id, self.table[self.at(id)].interval()?))
    }

    fn position(
        &mut self,
        position: &AxisPosition,
        projections: &Projections,
        ends: &[(LoopId, Affine)],
        origin: &Origin,
    ) -> Result<()> {
        let mut open: Vec<SymbolId> = Vec::new();
        let known = |id| self.range(id);
        open.extend(position.index.terms().iter().filter_map(|&(var, _)| match var {
            Var::Symbol(id) => Some(id).filter(|&id| known(id).is_none()),
            Var::Loop(_) => None,
        }));
        let bounds = projections.index_bounds_within(&position.index, ends, &known);
        let (lo, hi) = bounds.ok_or_else(|| self.overflow(position).at(position.place(origin)))?;
        if lo < position.min || hi >= position.max {
            return Err(self.out_of_bounds(position, lo, hi).at(position.place(origin)));
        }
        match open.as_slice() {
            [] => {}
            [id] => {
                let range = position.largest_range(position.index.coefficient(*id), lo, hi);
                let at = self.at(*id);
                self.limits[at] = Some(self.limits[at].map_or(range, |known| known.min(range)));
            }
            [id, ..] => {
                let name = self.table[self.at(*id)].name.clone();
                return Err(LowerErrorKind::SymbolUnranged { name }.at(position.place(origin)));
            }
        }
        Ok(())
    }

    fn text(&self, position: &AxisPosition) -> String {
        crate::affine_text(&position.index, |var| match var {
            Var::Loop(id) => id.to_string(),
            Var::Symbol(id) => self.table[self.at(id)].to_string(),
        })
    }

    fn overflow(&self, position: &AxisPosition) -> LowerErrorKind {
        let (node, index) = (position.node.name(), self.text(position));
        LowerErrorKind::Overflow { node, axis: position.axis, index }
    }

    fn out_of_bounds(&self, position: &AxisPosition, lo: i64, hi: i64) -> LowerErrorKind {
        let (node, index) = (position.node.name(), self.text(position));
        let AxisPosition { axis, min, max, .. } = *position;
        LowerErrorKind::OutOfBounds { node, axis, index, lo, hi, min, max }
    }
}

impl AxisPosition<'_> {
    /// The source span of the index.
    fn place(&self, origin: &Origin) -> Option<SourceSpan> {
        match self.operand {
            None => origin.target_index(self.axis),
            Some(at) => origin.operand_index(at, self.axis),
        }
    }

    /// The largest range of a symbol with this coefficient, if the rest of the index takes values `lo..=hi`.
    fn largest_range(&self, coefficient: i64, lo: i64, hi: i64) -> i64 {
        let room = if coefficient > 0 { self.max - 1 - hi } else { lo - self.min };
        room / coefficient.saturating_abs().max(1) + 1
    }
}

/// All indices that must be in bounds. Guarded reads have none, unless one of their indices is computed.
fn positions(accum: &Accum) -> Result<Vec<AxisPosition<'_>>> {
    let p = &accum.projections;
    let operands = accum.rhs.operands().len() + accum.computed.len();
    if operands != p.project_rhs().len() {
        let node = accum.lhs.name();
        return Err(LowerErrorKind::Operands { node, operands, projections: p.project_rhs().len() }.into());
    }
    let mut all = Vec::new();
    push_positions(&mut all, None, &accum.lhs, p.lhs_dims(), p.project_lhs())?;
    let operands = accum.operands().zip(p.rhs_dims()).zip(p.project_rhs()).enumerate();
    for (at, ((operand, dims), projection)) in operands {
        match operand {
            Operand::Node(node) | Operand::MergeBuffer(node) => {
                push_positions(&mut all, Some(at), node, dims, projection)?;
            }
            Operand::Padded { node, .. } if computed_axis(projection).is_some() => {
                push_positions(&mut all, Some(at), node, dims, projection)?;
            }
            Operand::Padded { node, .. } => check_dims(node, dims)?,
            Operand::Constant(_) | Operand::Index(_) | Operand::Random { .. } => {}
        }
    }
    Ok(all)
}

fn check_dims(node: &TensorNode, expected: &[usize]) -> Result<()> {
    let found = node.dims_without_padding()?;
    if found.as_slice() == expected {
        return Ok(());
    }
    Err(LowerErrorKind::Dims { node: node.name(), found: found.to_vec(), expected: expected.to_vec() }.into())
}

fn push_positions<'a>(
    all: &mut Vec<AxisPosition<'a>>,
    operand: Option<usize>,
    node: &'a TensorNode,
    dims: &[usize],
    projection: &[AxisIndex],
) -> Result<()> {
    check_dims(node, dims)?;
    let layout = layout(node)?;
    for (axis, index) in projection.iter().enumerate().filter(|(_, index)| index.computed().is_none()) {
        let (left, inner) = (layout.left[axis], extent(layout.inner[axis]));
        // Only reads may reach into margins. A write would destroy the values that readers expect there.
        let (min, max) = match operand {
            Some(_) => (-left, extent(layout.padded[axis]) - left),
            None => (0, inner),
        };
        all.push(AxisPosition { node, operand, axis, index: index.affine(), min, max });
    }
    Ok(())
}

/// The least and the greatest value of an index; `None` if they overflow.
pub(super) fn bounds_of(
    index: &Affine,
    projections: &Projections,
    ends: &[(LoopId, Affine)],
    range: impl Fn(SymbolId) -> SymbolRange,
) -> Option<(i64, i64)> {
    projections.index_bounds_within(index, ends, &|id| Some(range(id)))
}
