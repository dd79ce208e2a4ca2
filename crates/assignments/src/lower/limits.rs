//! Rejects nodes, ranges, indices and programs beyond the verifier's [limits], with errors that name the
//! user's objects.

use tnode::TensorNode;

use super::bounds::layout;
use super::error::LowerErrorKind;
use super::{Result, step::LoweringContext};
use crate::indexing::{AxisIndex, StaticSymbol, extent};
use crate::{Accum, Assignments, FetchOp, Operand, ProgramStep, Random};
use lowered_ir::SourceSpan;
use lowered_ir::ir::{Affine, Block, LoopKind, NodeDecl, Stmt, Var};
use lowered_ir::text::is_identifier;
use lowered_ir::verify::{MAX_OFFSET_BYTES, limits};

/// The maximum number of parts of a key, which are numbers and symbols, after its seed. Each part nests the
/// expression of the key one level deeper.
pub(super) const MAX_KEY: usize = 64;

/// Rejects a node with too many bytes. The number of axes is limited by `tnode`.
pub(super) fn check_node(decl: &NodeDecl) -> Result<(), LowerErrorKind> {
    let (node, node_bytes) = (decl.name.clone(), limits::NODE_BYTES);
    // An axis of size 0 counts as 1, so that it does not hide other axes that are too large.
    let sized = |all: u128, &dim: &usize| all.saturating_mul((dim as u128).max(1));
    let bytes = decl.dims.iter().fold(decl.dtype.size_bytes() as u128, sized);
    if bytes > u128::from(node_bytes) {
        return Err(LowerErrorKind::TooLarge { node, dims: decl.dims.to_vec(), bytes, max: node_bytes });
    }
    Ok(())
}

/// Rejects a symbol whose name or range is invalid in the loop IR.
pub(super) fn check_symbol(symbol: &StaticSymbol) -> Result<(), LowerErrorKind> {
    let (name, max) = (symbol.name.clone(), limits::EXTENT);
    match symbol.range {
        _ if symbol.letter().is_none() && !is_identifier(&name) => Err(LowerErrorKind::SymbolName { name }),
        Some(range) if range > max => Err(LowerErrorKind::SymbolRange { name, range, max }),
        _ => Ok(()),
    }
}

/// Rejects the first step whose loops, indices or keys are too large. The ranges of symbols are known.
pub(super) fn check_steps(assignments: &Assignments, ctx: &LoweringContext) -> Result<()> {
    crate::all_steps(&assignments.steps).try_for_each(|step| check_step(step, assignments, ctx))
}

fn check_step(step: &ProgramStep, assignments: &Assignments, ctx: &LoweringContext) -> Result<()> {
    if let ProgramStep::Fetch { node, op: FetchOp::Random(random), origin } = step {
        check_key(node, random).map_err(|kind| kind.at(origin.operand(0)))?;
    }
    step.accums().iter().try_for_each(|accum| AccumLimits { accum, assignments, ctx }.check())
}

fn check_key(node: &TensorNode, random: &Random) -> Result<(), LowerErrorKind> {
    let found = random.key.len();
    if found <= MAX_KEY {
        return Ok(());
    }
    Err(LowerErrorKind::RandomKey { node: node.name(), found, max: MAX_KEY })
}

/// Checks one accumulation against the limits.
struct AccumLimits<'a> {
    accum: &'a Accum,
    assignments: &'a Assignments,
    ctx: &'a LoweringContext,
}

impl AccumLimits<'_> {
    fn check(&self) -> Result<()> {
        let accum = self.accum;
        let (node, space) = (|| accum.lhs.name(), accum.projections.product_space());
        if space.len() > limits::NESTING {
            let (found, max) = (space.len(), limits::NESTING);
            let kind = LowerErrorKind::TooManyLoops { node: node(), found, max };
            return Err(kind.at(accum.origin.statement()));
        }
        if let Some(&found) = space.iter().find(|&&dim| extent(dim) > limits::EXTENT) {
            let kind = LowerErrorKind::LoopRange { node: node(), found, max: limits::EXTENT };
            return Err(kind.at(accum.origin.statement()));
        }
        if space.contains(&0) {
            return Ok(());
        }
        let place = |axis| accum.origin.target_index(axis);
        self.array(&accum.lhs, accum.projections.project_lhs(), place)?;
        for (at, (operand, projection)) in accum.operands().zip(accum.projections.project_rhs()).enumerate() {
            let place = |axis| accum.origin.operand_index(at, axis);
            match operand {
                Operand::Node(node) | Operand::MergeBuffer(node) | Operand::Padded { node, .. } => {
                    self.array(node, projection, place)?;
                }
                Operand::Constant(_) => {}
                Operand::Index(dtype) => {
                    projection.iter().take(1).try_for_each(|index| self.value(index, *dtype, place(0)))?;
                }
                Operand::Random { random, .. } => {
                    check_key(&accum.lhs, random).map_err(|kind| kind.at(accum.origin.operand(at)))?;
                    for (axis, index) in projection.iter().enumerate() {
                        self.bounds(&index.affine(), &accum.lhs, axis, place(axis))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that no index overflows, nor the byte offset of the element.
    fn array(
        &self,
        node: &TensorNode,
        projection: &[AxisIndex],
        place: impl Fn(usize) -> Option<SourceSpan>,
    ) -> Result<()> {
        let layout = layout(node)?;
        let mut stride = node.dtype().size_bytes() as u128;
        for (axis, index) in projection.iter().enumerate().rev() {
            let index = index.affine().plus_constant(layout.left[axis]);
            self.bounds(&index, node, axis, place(axis))?;
            let is_steep =
                |factor: &i64| stride.saturating_mul(factor.unsigned_abs().into()) > MAX_OFFSET_BYTES;
            let mut factors = index.terms().iter().map(|term| term.1).chain([index.offset()]);
            if let Some(factor) = factors.find(is_steep) {
                let (node, index) = (node.name(), self.text(&index));
                return Err(LowerErrorKind::TooSteep { node, axis, index, factor }.at(place(axis)));
            }
            stride = stride.saturating_mul((layout.padded[axis] as u128).max(1));
        }
        Ok(())
    }

    /// Checks that an index used as a value fits its type.
    fn value(&self, index: &AxisIndex, dtype: tnode::DType, place: Option<SourceSpan>) -> Result<()> {
        let index = index.affine();
        let (lo, hi) = self.bounds(&index, &self.accum.lhs, 0, place.clone())?;
        let narrow = dtype == tnode::DType::I32 && (i32::try_from(lo).is_err() || i32::try_from(hi).is_err());
        match narrow {
            true => Err(LowerErrorKind::IndexValue { index: self.text(&index), lo, hi, dtype }.at(place)),
            false => Ok(()),
        }
    }

    /// The least and the greatest value of an index. Fails if they overflow.
    fn bounds(
        &self,
        index: &Affine,
        node: &TensorNode,
        axis: usize,
        place: Option<SourceSpan>,
    ) -> Result<(i64, i64)> {
        self.ctx.exact_bounds(index, &self.accum.projections).ok_or_else(|| {
            let (node, index) = (node.name(), self.text(index));
            LowerErrorKind::Overflow { node, axis, index }.at(place)
        })
    }

    fn text(&self, index: &Affine) -> String {
        crate::affine_text(index, |var| match var {
            Var::Loop(id) => id.to_string(),
            Var::Symbol(id) => self.assignments.symbols[id.index()].to_string(),
        })
    }
}

/// The number of statements of a block. A statement in an unrolled loop counts once per iteration.
pub(super) fn statements(block: &Block) -> u64 {
    let each = |stmt: &Stmt| match stmt {
        Stmt::For { lo, hi, kind, body, .. } => {
            let repeats = match kind {
                LoopKind::Unrolled => hi.limit.saturating_sub(*lo).max(0).unsigned_abs(),
                _ => 1,
            };
            1 + repeats.saturating_mul(statements(body))
        }
        _ => 1,
    };
    block.iter().map(each).fold(0, u64::saturating_add)
}
