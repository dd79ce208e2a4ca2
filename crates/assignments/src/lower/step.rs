//! Lowers single steps.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use tnode::{DType, MemoryMode, Scalar, TensorNode};

use super::Result;
use super::bounds::{bounds_of, layout};
use super::computed::computed_axis;
use super::error::LowerErrorKind;
use super::gradients;
use super::limits;
use super::margins::{self, Margins};
use super::random;
use super::recurrence;
use super::scan::Scan;
use super::sizes::Sizes;
use super::view::Views;
use crate::indexing::bounded_space::SymbolRange;
use crate::indexing::{
    AxisIndex, Projections, are_injective, are_surjective, extent, identity_projections, reflect_projection,
};
use crate::{Accum, AccumOp, Assignments, CONSTANT_FILL_LIMIT, FetchOp, Operand, ProgramStep, Random, Rhs};
use lowered_ir::ir::{
    Affine, BinaryOp, Block, Bound, Expr, Fresh, Guard, Indices, LoopId, LoopKind, NodeDecl, NodeRef,
    Numerics, Range, Stmt, SymbolId, TernaryOp, Var,
};
use lowered_ir::random::{MAX_CELL, value};
use lowered_ir::verify::limits::STATEMENTS;

/// The state of lowering between steps.
pub(super) struct LoweringContext {
    /// The declaration of each node in the routine.
    pub(super) refs: BTreeMap<TensorNode, NodeRef>,
    /// The views.
    pub(super) views: Views,
    /// The values that the margins of padded nodes hold.
    pub(super) margins: Margins,
    /// The range of each symbol of the routine.
    pub(super) ranges: Vec<i64>,
    /// The least value of each symbol of the routine.
    pub(super) least: Vec<i64>,
    /// The sizes that a run gives to axes.
    pub(super) sizes: Sizes,
    /// For each symbol of the assignments, the symbol of the routine.
    pub(super) renumbering: Vec<SymbolId>,
    /// The source of fresh loop variables and locals.
    pub(super) fresh: Fresh,
    /// The nodes that lowering adds, with their declarations; they follow those of `refs`.
    pub(super) temporaries: Vec<(TensorNode, NodeDecl)>,
    /// The numeric class of the routine.
    pub(super) numerics: Numerics,
    /// The number of statements so far.
    pub(super) statements: u64,
}

impl LoweringContext {
    /// Adds a node that only this routine uses.
    pub(super) fn temporary(&mut self, name: String, dtype: DType, dims: &[usize]) -> Result<NodeRef> {
        let node = TensorNode::builder(name).dtype(dtype).dims(dims.iter().copied()).build()?;
        let at = self.refs.len() + self.temporaries.len();
        let decl = super::declaration(&node)?;
        self.temporaries.push((node, decl));
        Ok(NodeRef(at as u32))
    }

    /// The routine's symbol for a checked symbol of the assignments.
    pub(super) fn symbol(&self, id: SymbolId) -> SymbolId {
        self.renumbering[id.index()]
    }

    /// The routine's symbol for a symbol of the assignments that is not checked yet.
    pub(super) fn known_symbol(&self, id: SymbolId, node: &TensorNode) -> Result<SymbolId> {
        self.renumbering.get(id.index()).copied().ok_or_else(|| {
            let (node, symbols) = (node.name(), self.renumbering.len());
            LowerErrorKind::UnknownSymbol { node, symbol: id.0, symbols }.into()
        })
    }

    /// Counts statements, and fails beyond the limit of a routine.
    fn count(&mut self, block: &Block) -> Result<(), LowerErrorKind> {
        let max = STATEMENTS;
        self.statements = self.statements.saturating_add(limits::statements(block));
        if self.statements > max { Err(LowerErrorKind::TooManyStatements { max }) } else { Ok(()) }
    }

    /// The memory position of an element: the declaration of the node or of the parent of a view, and the
    /// indices there.
    pub(super) fn element(&self, node: &TensorNode, index: Indices) -> (NodeRef, Indices) {
        let (home, leading) = self.views.home(node);
        let place = self.refs[&home];
        if leading.is_empty() {
            return (place, index);
        }
        let leading = leading.iter().map(|&id| Affine::var(self.symbol(id)));
        (place, leading.chain(index.iter().cloned()).collect())
    }

    /// The least and the greatest value of an index of an assignment; the extremes of `i64` if they overflow.
    pub(super) fn bounds(&self, index: &Affine, accum: &Accum) -> (i64, i64) {
        let ends = self.sizes.ends(accum).unwrap_or_default();
        bounds_of(index, &accum.projections, &ends, |id| self.range(id)).unwrap_or((i64::MIN, i64::MAX))
    }

    /// The values of a symbol of the assignments.
    fn range(&self, id: SymbolId) -> SymbolRange {
        let at = self.symbol(id).index();
        self.sizes.range(id, (self.least[at], self.ranges[at] - 1))
    }

    /// The size of an axis as a value, if a run gives it.
    pub(super) fn size_value(&self, node: &TensorNode, axis: usize) -> Option<Expr> {
        let index = Affine::var(self.symbol(self.sizes.of(node, axis)?));
        Some(Expr::Index { index, dtype: DType::I64 })
    }

    /// The end of an axis of a node: its dimension without margins, or the size that the run gives it.
    fn end(&self, node: &TensorNode, axis: usize, dim: usize) -> Bound {
        let limit = Bound::from(extent(dim));
        match self.sizes.of(node, axis) {
            Some(size) => limit.clipped(Affine::var(self.symbol(size))),
            None => limit,
        }
    }

    /// The least and the greatest value of an index of an assignment; `None` if they overflow.
    pub(super) fn exact_bounds(&self, index: &Affine, projections: &Projections) -> Option<(i64, i64)> {
        bounds_of(index, projections, &[], |id| self.range(id))
    }
}

/// Rejects the first write that leaves elements of a node uninitialized.
///
/// A plain assignment that does not cover its target keeps the other elements, so they need earlier values.
/// These come from an earlier step, or from outside the routine if the program has read the node before or
/// the node is known to be materialized.
pub(super) fn check_initialized(assignments: &Assignments, views: &Views) -> Result<()> {
    let mut valued: BTreeSet<&TensorNode> = BTreeSet::new();
    for step in crate::all_steps(&assignments.steps) {
        let accums = step.accums();
        valued.extend(accums.iter().flat_map(Accum::operands).filter_map(Operand::node));
        let mut checked = BTreeSet::new();
        for accum in accums {
            let is_open = !valued.contains(&accum.lhs) && !views.contains(&accum.lhs);
            if is_open && checked.insert(&accum.lhs) {
                check_covers(accum, accums).or_else(|error| {
                    if recurrence::covers(assignments, &accum.lhs) { Ok(()) } else { Err(error) }
                })?;
            }
        }
        valued.extend(crate::written(step));
    }
    Ok(())
}

/// Rejects the first accumulation into a target if the accumulations of its step, `all`, together leave
/// elements of the target uninitialized.
fn check_covers(accum: &Accum, all: &[Accum]) -> Result<()> {
    let plain = accum.op == AccumOp::Assign && !accum.init_neutral;
    if !plain || are_surjective(&crate::projections_into(all, &accum.lhs)) {
        return Ok(());
    }
    // No memory of a virtual node is read, and inlining rejects uses of elements that a bound cuts off. A
    // lower bound shifts the index of its letter, which then covers no axis alone.
    let is_bounded = accum.projections.is_clipped() || accum.projections.uncovered_axis().is_none();
    let cut_off = accum.lhs.mode().known_virtual() && is_bounded;
    if cut_off || MemoryMode::Materialized.outcomes().contains(accum.lhs.mode().outcomes()) {
        return Ok(());
    }
    let axis = accum.projections.uncovered_axis().or(accum.projections.clipped_axis()).unwrap_or(0);
    let size = accum.projections.lhs_dims().get(axis).copied().unwrap_or(1);
    let (node, fill) = (accum.lhs.name(), assignment_of(&accum.lhs, "0"));
    let kind = LowerErrorKind::Uninitialized { node, axis, size, fill };
    Err(kind.at(accum.origin.target_index(axis)))
}

/// The text of a statement that fills a node with `value`.
pub(crate) fn assignment_of(node: &TensorNode, value: &str) -> String {
    let rank = node.dims_without_padding().map_or(0, |dims| dims.len());
    let letters: Vec<String> = match rank {
        0 => return format!("{} := {value}", node.name()),
        1..=18 => (b'i'..).take(rank).map(|letter| char::from(letter).to_string()).collect(),
        _ => (0..rank).map(|axis| format!("i{axis}")).collect(),
    };
    format!("{}[{}] := {value}", node.name(), letters.join(","))
}

pub(super) fn lower_steps(steps: &[ProgramStep], ctx: &mut LoweringContext) -> Result<Block> {
    let mut block = Block::new();
    for step in steps {
        let mut lowered = Block::new();
        match step {
            ProgramStep::Accum(_) | ProgramStep::Concat(_) => lower_accums(step.accums(), ctx, &mut lowered)
                .map_err(|error| error.or_at(|| step.origin().statement()))?,
            ProgramStep::Fetch { node, op, origin } => {
                lower_fetch(node, op, ctx, &mut lowered)
                    .map_err(|error| error.or_at(|| origin.operand(0)))?;
            }
            ProgramStep::Gradient { loss, origin, .. } => return Err(gradients::unexpanded(loss, origin)),
            ProgramStep::Detach(_) | ProgramStep::CustomGradient(_) => {}
            ProgramStep::Scan { symbol, steps, end } => {
                recurrence::lower((*symbol, end.as_ref()), steps, ctx, &mut block)?;
            }
            ProgramStep::Remark(text) => lowered.push(Stmt::Comment(text.clone())),
            ProgramStep::Block { name, steps } => {
                ctx.statements += 2;
                block.push(Stmt::Comment(name.clone()));
                block.extend(lower_steps(steps, ctx)?);
                block.push(Stmt::Comment("end".to_owned()));
            }
        }
        ctx.count(&lowered).map_err(|kind| kind.at(step.origin().statement()))?;
        block.extend(lowered);
    }
    Ok(block)
}

/// Lowers the accumulations of one step. All targets are initialized before the first accumulation.
fn lower_accums(accums: &[Accum], ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
    accums.iter().try_for_each(check_types)?;
    ctx.views.check_reads(accums)?;
    margins::prepare(accums, ctx, block)?;
    let mut injective: BTreeMap<&TensorNode, bool> = BTreeMap::new();
    for accum in accums {
        if injective.contains_key(&accum.lhs) {
            continue;
        }
        let parts = crate::projections_into(accums, &accum.lhs);
        let once = are_injective(&parts);
        let leaves_rest = accums.iter().any(|part| part.lhs == accum.lhs && part.leaves_rest());
        if accum.init_neutral && !(once && are_surjective(&parts) && !leaves_rest) {
            fill(&accum.lhs, accum.op.neutral(accum.lhs.dtype()), ctx, block)?;
        }
        injective.insert(&accum.lhs, once);
    }
    accums.iter().try_for_each(|accum| lower_accum(accum, injective[&accum.lhs], ctx, block))
}

/// Lowers one accumulation. `injective` says that the step writes each element of the target at most once.
fn lower_accum(accum: &Accum, injective: bool, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
    let dtype = accum.lhs.dtype();
    let space = accum.projections.product_space();
    if space.contains(&0) {
        return Ok(());
    }
    // A prefix sum over the whole triangle of the bounds would read elements without values.
    let scan = if ctx.sizes.ends(accum)?.is_empty() { Scan::of(accum, ctx) } else { None };
    if let Some(scan) = scan {
        return scan.lower(accum, ctx, block);
    }
    let (loops, vars) = fresh_loops(accum, ctx)?;
    let place = AccumPoint { accum, vars: &vars, ctx };
    let new = place.new_value()?;
    if let Some(computed) = computed_axis(accum.projections.project_lhs()) {
        let (op, value) = match (accum.init_neutral, injective) {
            (true, true) => (None, accum.op.apply_to_neutral(dtype, new)),
            _ => (accum.op.binary(), new),
        };
        block.extend(nest(&loops, vec![place.scatter(computed, op, value)?]));
        return Ok(());
    }
    let (node, index) = place.element(&accum.lhs, accum.projections.project_lhs())?;
    let value = match (accum.init_neutral, injective) {
        (true, true) => accum.op.apply_to_neutral(dtype, new),
        _ => accum.op.apply(Expr::Get { node, index: index.clone() }, new),
    };
    block.extend(nest(&loops, vec![Stmt::Set { node, index, value }]));
    Ok(())
}

/// Rejects operations that are not defined for their type.
fn check_types(accum: &Accum) -> Result<()> {
    let reject = |op, dtype| Err(LowerErrorKind::Type { node: accum.lhs.name(), op, dtype }.into());
    let dtype = accum.rhs.operation_dtype();
    let random = |operand: &Operand| operand.dtype() == DType::U32x4;
    let (lhs, moved) = (accum.lhs.dtype(), accum.rhs.operands().iter().any(random));
    match &accum.rhs {
        Rhs::Binary(op, _) if op.is_random() && lhs != DType::U32x4 => return reject(op.token(), lhs),
        Rhs::Binary(op, _) if op.is_random() => {}
        Rhs::Copy(_) if moved && lhs != DType::U32x4 => return reject("conversion", DType::U32x4),
        Rhs::Copy(_) => {}
        Rhs::Unary(op, _) if moved => return reject(op.token(), DType::U32x4),
        Rhs::Binary(op, _) if moved => return reject(op.token(), DType::U32x4),
        Rhs::Ternary(op, _) if moved => return reject(op.token(), DType::U32x4),
        Rhs::Binary(op, _) if op.is_bitwise() && dtype.is_float() => return reject(op.token(), dtype),
        Rhs::Unary(..) | Rhs::Binary(..) | Rhs::Ternary(..) => {}
    }
    match (accum.op, accum.lhs.dtype()) {
        (AccumOp::Assign, _) => Ok(()),
        (op, dtype @ DType::U32x4) => reject(op.token(), dtype),
        _ => Ok(()),
    }
}

/// The variables and extents of nested loops, outermost first.
pub(super) type LoopNest = SmallVec<[(LoopId, Bound); 4]>;

/// Makes a loop with a fresh variable for each iterator of a product space.
pub(super) fn fresh_loops(
    accum: &Accum,
    ctx: &mut LoweringContext,
) -> Result<(LoopNest, BTreeMap<LoopId, LoopId>)> {
    let (projections, ends) = (&accum.projections, ctx.sizes.ends(accum)?);
    let fresh = |&iterator: &LoopId| (iterator, ctx.fresh.loop_id());
    let vars: BTreeMap<LoopId, LoopId> = projections.product_iterators().iter().map(fresh).collect();
    let bound = |(at, iterator): (usize, &LoopId)| {
        let ends = ends.iter().filter(|(ended, _)| ended == iterator).map(|(_, end)| end);
        let clips = projections.clips()[at].iter().chain(ends).map(|clip| in_routine(clip, &vars, ctx));
        let limit = Bound::from(extent(projections.product_space()[at]));
        (vars[iterator], clips.fold(limit, Bound::clipped))
    };
    Ok((projections.product_iterators().iter().enumerate().map(bound).collect(), vars))
}

/// Converts an index of an assignment to an index of the routine. All variables are replaced at once, since
/// fresh variables may have the same numbers as iterators.
fn in_routine(index: &Affine, vars: &BTreeMap<LoopId, LoopId>, ctx: &LoweringContext) -> Affine {
    index.terms().iter().fold(Affine::constant(index.offset()), |sum, &(var, coefficient)| {
        let var = match var {
            Var::Loop(id) => Var::Loop(vars[&id]),
            Var::Symbol(id) => Var::Symbol(ctx.symbol(id)),
        };
        sum.plus(&Affine::term(var, coefficient))
    })
}

pub(super) fn nest(loops: &[(LoopId, Bound)], body: Block) -> Block {
    let around = |body, (var, hi): &(LoopId, Bound)| {
        vec![Stmt::For { var: *var, lo: 0, hi: hi.clone(), kind: LoopKind::Serial, body }]
    };
    loops.iter().rev().fold(body, around)
}

/// An accumulation at one point of its product space, in terms of the routine's loop variables.
pub(super) struct AccumPoint<'a> {
    pub(super) accum: &'a Accum,
    /// The loop variable of each product iterator.
    pub(super) vars: &'a BTreeMap<LoopId, LoopId>,
    pub(super) ctx: &'a LoweringContext,
}

impl AccumPoint<'_> {
    /// The value that is accumulated, of the type of the target.
    pub(super) fn new_value(&self) -> Result<Expr> {
        match self.gathered_alone()? {
            Some(gathered) => Ok(gathered),
            None => Ok(convert(self.result()?, self.accum.rhs.dtype(), self.accum.lhs.dtype())),
        }
    }

    /// Converts an index of the assignment to an index of the routine.
    fn index(&self, index: &AxisIndex) -> Affine {
        in_routine(&index.affine(), self.vars, self.ctx)
    }

    /// The indices into a node's memory, shifted by the left margins.
    fn indices(&self, node: &TensorNode, projection: &[AxisIndex]) -> Result<Indices> {
        let left = layout(node)?.left;
        Ok(projection.iter().zip(left).map(|(index, left)| self.index(index).plus_constant(left)).collect())
    }

    /// The memory position of an element of a node.
    pub(super) fn element(&self, node: &TensorNode, projection: &[AxisIndex]) -> Result<(NodeRef, Indices)> {
        Ok(self.ctx.element(node, self.indices(node, projection)?))
    }

    /// The result of the operation, of type [`Rhs::dtype`].
    fn result(&self) -> Result<Expr> {
        let rhs = &self.accum.rhs;
        let dtype = rhs.operation_dtype();
        Ok(match rhs {
            Rhs::Copy(_) => self.operand(0, dtype)?,
            Rhs::Unary(op, _) => Expr::unary(*op, self.operand(0, dtype)?),
            Rhs::Binary(op, _) => Expr::binary(*op, self.operand(0, dtype)?, self.operand(1, dtype)?),
            Rhs::Ternary(TernaryOp::Where, [condition, ..]) if condition.dtype().is_float() => {
                // A comparison is a mask at once; a conversion to `bool` is a value first.
                let (condition, zero) =
                    (self.operand(0, condition.dtype())?, Scalar::zero(condition.dtype()));
                let is_zero = Expr::binary(BinaryOp::Eq, condition, Expr::Const(zero));
                Expr::ternary(TernaryOp::Where, is_zero, self.operand(2, dtype)?, self.operand(1, dtype)?)
            }
            Rhs::Ternary(op, _) => {
                let first = if *op == TernaryOp::Where { DType::Bool } else { dtype };
                let (a, b, c) = (self.operand(0, first)?, self.operand(1, dtype)?, self.operand(2, dtype)?);
                Expr::ternary(*op, a, b, c)
            }
        })
    }

    /// The value of an operand, converted to `dtype`.
    pub(super) fn operand(&self, at: usize, dtype: DType) -> Result<Expr> {
        let Some(operand) = self.accum.operands().nth(at) else {
            return Ok(Expr::Const(Scalar::zero(dtype)));
        };
        let projection = &self.accum.projections.project_rhs()[at];
        if let Some((axis, by)) = computed_axis(projection) {
            return Ok(convert(self.gather(at, axis, by)?, operand.dtype(), dtype));
        }
        let value = match operand {
            Operand::Node(node) => {
                let (node, index) = self.element(node, projection)?;
                Expr::Get { node, index }
            }
            Operand::MergeBuffer(node) => {
                let (node, index) = self.element(node, projection)?;
                Expr::GetMerge { node, index }
            }
            Operand::Padded { node, outside } => self.guarded(node, *outside, projection)?,
            Operand::Constant(value) => Expr::Const(*value),
            Operand::Index(to) => self.index_value(projection, *to),
            Operand::Random { random, dtype } => self.random(random, *dtype, projection)?,
        };
        Ok(convert(value, operand.dtype(), dtype))
    }

    /// A read that accesses memory only if every index is within its dimension. Indices that are always
    /// inside need no guard; an index that is always outside makes the value constant.
    fn guarded(&self, node: &TensorNode, outside: Scalar, projection: &[AxisIndex]) -> Result<Expr> {
        let layout = layout(node)?;
        let index = self.indices(node, projection)?;
        let otherwise = Expr::Const(crate::literal(outside, node.dtype()));
        let mut guard = Guard::new();
        for (axis, inner) in layout.inner.iter().map(|&dim| extent(dim)).enumerate() {
            let (lo, hi) = self.bounds(&projection[axis].affine());
            if hi < 0 || lo >= inner {
                return Ok(otherwise);
            }
            if lo < 0 || hi >= inner {
                let left = layout.left[axis];
                guard.push(Range { index: index[axis].clone(), lo: left, hi: left + inner });
            }
            if let Some(size) = self.ctx.sizes.of(node, axis) {
                let beyond = projection[axis].affine().plus(&Affine::term(size, -1));
                if self.bounds(&beyond).1 >= 0 {
                    let index = self.index(&AxisIndex::new(beyond));
                    guard.push(Range { index, lo: -inner - 1, hi: 0 });
                }
            }
        }
        let (node, index) = self.ctx.element(node, index);
        if guard.is_empty() {
            return Ok(Expr::Get { node, index });
        }
        Ok(Expr::GetGuarded { guard, node, index, otherwise: Box::new(otherwise) })
    }

    fn bounds(&self, index: &Affine) -> (i64, i64) {
        self.ctx.bounds(index, self.accum)
    }

    /// The random number for one combination of indices.
    fn random(&self, random: &Random, dtype: DType, projection: &[AxisIndex]) -> Result<Expr> {
        let node = &self.accum.lhs;
        if !random.distribution.has(dtype) {
            return Err(
                LowerErrorKind::Type { node: node.name(), op: random.distribution.token(), dtype }.into()
            );
        }
        if projection.len() > MAX_CELL {
            let (node, found) = (node.name(), projection.len());
            return Err(LowerErrorKind::RandomIndices { node, found, limit: MAX_CELL }.into());
        }
        let word = |index: &AxisIndex| match self.index_value(std::slice::from_ref(index), DType::I32) {
            Expr::Const(value) => Expr::Const(Scalar::new(DType::U32, value.bits())),
            value => Expr::bitcast(DType::U32, value),
        };
        let cell: Vec<Expr> = projection.iter().map(word).collect();
        let sample = random.scheme.cell_sample(random::key(random, node, self.ctx)?, &cell);
        Ok(value(random.scheme, random.distribution, dtype, &sample, 0))
    }

    fn index_value(&self, projection: &[AxisIndex], to: DType) -> Expr {
        let index = projection.first().map_or_else(|| Affine::constant(0), |index| index.affine());
        let bounds = self.bounds(&index);
        embed(self.index(&AxisIndex::new(index)), bounds, to)
    }
}

/// The value of an index within `bounds` as a number of type `to`.
fn embed(index: Affine, bounds: (i64, i64), to: DType) -> Expr {
    if let Some(value) = index.as_constant() {
        return Expr::Const(Scalar::from_i64(to, value));
    }
    let fits = |v: i64| i32::try_from(v).is_ok();
    let dtype = match to {
        DType::I64 => DType::I64,
        _ if fits(bounds.0) && fits(bounds.1) => DType::I32,
        _ => DType::I64,
    };
    convert(Expr::Index { index, dtype }, dtype, to)
}

fn convert(value: Expr, from: DType, to: DType) -> Expr {
    match value {
        value if from == to => value,
        Expr::Const(value) => Expr::Const(crate::literal(value, to)),
        value if to == DType::U32x4 => random::bits_in_lanes(value, from),
        value => Expr::convert(to, value),
    }
}

/// Fills a node with one value. Margins keep their values.
pub(super) fn fill(
    node: &TensorNode,
    value: Scalar,
    ctx: &mut LoweringContext,
    block: &mut Block,
) -> Result<()> {
    let is_array = node.num_elems()? > 1;
    if value == Scalar::zero(node.dtype())
        && is_array
        && node.padding().is_none()
        && node.run_sizes().is_empty()
        && !ctx.views.contains(node)
    {
        block.push(Stmt::Zero { node: ctx.refs[node] });
        return Ok(());
    }
    fill_with(node, ctx, block, |_, _, _| Expr::Const(value))
}

/// Fills a node. `value` takes the index of an element, its row-major offset and the greatest offset.
fn fill_with(
    node: &TensorNode,
    ctx: &mut LoweringContext,
    block: &mut Block,
    value: impl FnOnce(&[AxisIndex], Affine, i64) -> Expr,
) -> Result<()> {
    let layout = layout(node)?;
    let mut loops = LoopNest::new();
    let mut point: SmallVec<[AxisIndex; 4]> = identity_projections(&layout.inner);
    for (axis, index) in point.iter_mut().enumerate().filter(|(axis, _)| layout.inner[*axis] != 1) {
        let var = ctx.fresh.loop_id();
        loops.push((var, ctx.end(node, axis, layout.inner[axis])));
        *index = AxisIndex::Iterator(Var::Loop(var));
    }
    let offset = reflect_projection(&layout.inner, &point);
    let elems: i64 = layout.inner.iter().map(|&dim| extent(dim)).product();
    let index =
        point.iter().zip(&layout.left).map(|(index, left)| index.affine().plus_constant(*left)).collect();
    let (node, index) = ctx.element(node, index);
    let set = Stmt::Set { node, index, value: value(&point, offset, (elems - 1).max(0)) };
    block.extend(nest(&loops, vec![set]));
    Ok(())
}

fn lower_fetch(node: &TensorNode, op: &FetchOp, ctx: &mut LoweringContext, block: &mut Block) -> Result<()> {
    let dtype = node.dtype();
    check_numbered(node, op)?;
    match op {
        FetchOp::Constant(value) => fill(node, Scalar::from_f64(dtype, *value), ctx, block),
        FetchOp::ConstantBits(bits) => fill(node, Scalar::new(dtype, *bits), ctx, block),
        FetchOp::ConstantFill(values) => constant_fill(node, values, ctx, block),
        FetchOp::RangeOverOffsets => {
            fill_with(node, ctx, block, |_, offset, last| embed(offset, (0, last), dtype))
        }
        FetchOp::EmbedSymbol(id) => {
            let symbol = ctx.known_symbol(*id, node)?;
            let last = ctx.ranges[symbol.index()] - 1;
            fill_with(node, ctx, block, |_, _, _| embed(Affine::var(symbol), (0, last), dtype))
        }
        FetchOp::EmbedSelfId => {
            let id = i64::try_from(node.id().get()).unwrap_or(i64::MAX);
            fill(node, Scalar::from_i64(dtype, id), ctx, block)
        }
        FetchOp::EmbedDim { of, axis } => {
            let dims = of.dims_without_padding()?;
            let Some(&size) = dims.get(*axis) else {
                return Err(
                    LowerErrorKind::NoSuchAxis { node: of.name(), dims: dims.to_vec(), axis: *axis }.into()
                );
            };
            match ctx.sizes.of(of, *axis).map(|size| ctx.symbol(size)) {
                Some(symbol) => fill_with(node, ctx, block, |_, _, _| {
                    embed(Affine::var(symbol), (1, extent(size)), dtype)
                }),
                None => fill(node, Scalar::from_i64(dtype, extent(size)), ctx, block),
            }
        }
        FetchOp::Random(random) => random::fill(node, random, ctx, block),
        FetchOp::SampleValues(samples) => random::fill_from_samples(node, samples, ctx, block),
        FetchOp::Order { of, axis, is_descending } => {
            super::order::lower(node, of, *axis, *is_descending, ctx, block)
        }
        FetchOp::Slice { .. } if ctx.views.contains(node) => Ok(()),
        FetchOp::Slice { index, of } => copy_slice(node, of, *index, ctx, block),
    }
}

/// Rejects a fill whose values depend on a dimension that a run gives.
fn check_numbered(node: &TensorNode, op: &FetchOp) -> Result<()> {
    let inner = 1..node.run_sizes().len();
    let (fill, of, mut axes) = match op {
        FetchOp::RangeOverOffsets => ("offsets()", node, inner),
        FetchOp::Random(random) => (random.distribution.token(), node, inner),
        FetchOp::SampleValues(samples) => (samples.distribution.token(), node, inner),
        FetchOp::Order { of, axis, .. } => ("ascending", of, *axis..axis.saturating_add(1)),
        _ => return Ok(()),
    };
    match axes.find_map(|axis| Some((axis, of.run_size(axis)?))) {
        None => Ok(()),
        Some((axis, size)) => {
            let (node, size) = (node.name(), size.to_string());
            Err(LowerErrorKind::SizedFill { node, fill, axis, size }.into())
        }
    }
}

/// Fills a node from a list, with one statement per element.
fn constant_fill(node: &TensorNode, values: &[f64], ctx: &LoweringContext, block: &mut Block) -> Result<()> {
    if values.len() > CONSTANT_FILL_LIMIT {
        let (found, limit) = (values.len(), CONSTANT_FILL_LIMIT);
        return Err(LowerErrorKind::FillTooLong { node: node.name(), found, limit }.into());
    }
    let layout = layout(node)?;
    let expected: usize = layout.inner.iter().product();
    if values.len() != expected {
        return Err(LowerErrorKind::FillLength { node: node.name(), expected, found: values.len() }.into());
    }
    for (offset, &value) in values.iter().enumerate() {
        let index = point_at(offset, &layout.inner, &layout.left);
        let value = Expr::Const(Scalar::from_f64(node.dtype(), value));
        let (node, index) = ctx.element(node, index);
        block.push(Stmt::Set { node, index, value });
    }
    Ok(())
}

/// Copies a slice in a loop.
fn copy_slice(
    node: &TensorNode,
    of: &TensorNode,
    index: SymbolId,
    ctx: &mut LoweringContext,
    block: &mut Block,
) -> Result<()> {
    let (from, to) = (of.dtype(), node.dtype());
    if from == DType::U32x4 && to != DType::U32x4 {
        return Err(LowerErrorKind::Type { node: node.name(), op: "conversion", dtype: DType::U32x4 }.into());
    }
    let left = layout(of)?.left;
    let symbol = ctx.symbol(index);
    let (parent, leading) = ctx.element(of, Indices::new());
    fill_with(node, ctx, block, |point, _, _| {
        let inner = std::iter::once(Affine::var(symbol)).chain(point.iter().map(AxisIndex::affine));
        let inner = inner.zip(left).map(|(index, left)| index.plus_constant(left));
        convert(Expr::Get { node: parent, index: leading.iter().cloned().chain(inner).collect() }, from, to)
    })
}

/// The constant indices of the element at a row-major offset.
fn point_at(offset: usize, dims: &[usize], left: &[i64]) -> Indices {
    let mut rest = offset;
    let mut point: Indices = dims
        .iter()
        .zip(left)
        .rev()
        .map(|(&dim, &left)| {
            let at = rest % dim;
            rest /= dim;
            Affine::constant(extent(at) + left)
        })
        .collect();
    point.reverse();
    point
}
