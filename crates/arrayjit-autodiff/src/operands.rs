//! The adjoints of the operands of one statement.
//!
//! The adjoint of an operand grows at the indices of the operand. Indices that may be outside of the node, as
//! in `pad` and in margins, go through an array that has an element for each of them; its elements inside are
//! then added to the adjoint.

use assignments::indexing::{AxisIndex, Projections, StaticSymbol};
use assignments::{Accum, AccumOp, Origin, ProgramStep, Rhs};
use lowered_ir::ir::{Affine, SymbolId, UnaryOp, Var};
use tnode::{Dims, TensorNode};

use crate::Formula;
use crate::access::{Access, Target};
use crate::backward::BackwardPass;
use crate::error::{GradientErrorKind, Result};
use crate::forward_program::formula;
use crate::statement::{Bindings, Statement};

/// A node with an element for each index in a box that reaches out of another node.
struct OuterBox<'a> {
    node: &'a TensorNode,
    dims: &'a Dims,
    /// The indices of the first element.
    low: &'a [i64],
}

impl BackwardPass<'_> {
    /// Adds to the adjoints of a statement's operands, for the adjoint of its result.
    pub(crate) fn operands(
        &mut self,
        statement: &mut Statement,
        bindings: &Bindings,
        negated: bool,
    ) -> Result<()> {
        for (position, rule) in rules_of_accesses(&statement.accum) {
            let rule = match rule {
                rule if !negated => rule,
                Formula::Unary(UnaryOp::Neg, rule) => *rule,
                rule => Formula::unary(UnaryOp::Neg, rule),
            };
            self.operand(statement, position, &rule, bindings)?;
        }
        Ok(())
    }

    /// Adds a formula to the adjoint of one operand.
    fn operand(
        &mut self,
        statement: &mut Statement,
        position: usize,
        rule: &Formula,
        bindings: &Bindings,
    ) -> Result<()> {
        let Some(access) = Access::of_operand(&statement.accum, position) else { return Ok(()) };
        let Some(node) = access.operand.node().cloned() else { return Ok(()) };
        if !self.tape.forward.is_active_before(statement.at, &node) {
            return Ok(());
        }
        let rule = statement.guarded(rule.clone(), bindings);
        let (adjoint, is_new) = self.adjoint(&node, statement.at)?;
        adjoint.sparse |= bindings.sparse || rule.has_condition();
        let adjoint = adjoint.node.clone();
        if let Some(windows) = self.windows(statement, position, &rule, bindings)? {
            let covers = self.add_windows(windows, &adjoint, is_new, statement)?;
            self.note_sparse(&node, is_new && !covers);
            return Ok(());
        }
        let reach = self.box_outside(statement, &access, &node)?;
        let guarded = match &reach {
            None => Some(Vec::new()),
            Some((dims, low)) => guarded_axes(&access, dims, low),
        };
        if let Some(guarded) = guarded {
            let target = Target { guarded, ..Target::sum(&adjoint, is_new, &access) };
            statement.accumulate(target, &rule, bindings, &mut self.tape)?;
            self.note_sparse(&node, is_new);
            return Ok(());
        }
        let Some((dims, low)) = reach else { return Ok(()) };
        let wide = self.tape.temporary("reach", &dims, adjoint.dtype())?;
        let shifted = access.index.iter().zip(&low);
        let index: Vec<AxisIndex> =
            shifted.map(|(index, low)| index.map(|index| index.plus_constant(-low))).collect();
        let target = Target::sum(&wide, true, &Access::new(&wide, &dims, &index));
        statement.accumulate(target, &rule, bindings, &mut self.tape)?;
        self.note_sparse(&node, is_new);
        let wide = OuterBox { node: &wide, dims: &dims, low: &low };
        self.add_inside(&wide, &adjoint, &access.dims, is_new, &statement.accum.origin)?;
        self.note_sparse(&node, is_new);
        Ok(())
    }

    /// Notes that the adjoint of a node, if it is new, has elements that the last step does not write.
    fn note_sparse(&mut self, node: &TensorNode, is_new: bool) {
        let last = self.tape.backward.last().and_then(|step| step.accums().last());
        let covers = last.is_some_and(|accum| accum.projections.is_surjective());
        if let Some(adjoint) = self.adjoints.get_mut(node).filter(|_| is_new && !covers) {
            adjoint.sparse = true;
        }
    }

    /// The box of indices that an access reaches, as its dimensions and least indices, if it may reach beyond
    /// the dimensions of its node.
    fn box_outside(
        &self,
        statement: &Statement,
        access: &Access,
        node: &TensorNode,
    ) -> Result<Option<(Dims, Vec<i64>)>> {
        let is_computed = access.index.iter().any(|index| index.computed().is_some());
        if !access.may_reach_outside() || is_computed {
            return Ok(None);
        }
        let (mut dims, mut low, mut is_outside) = (Dims::new(), Vec::new(), false);
        for (index, &dim) in access.index.iter().zip(&access.dims) {
            let bounds = self.index_bounds(&statement.accum, &index.affine());
            let extent =
                bounds.and_then(|(lo, hi)| usize::try_from(hi.checked_sub(lo)?.checked_add(1)?).ok());
            let (Some((lo, hi)), Some(extent)) = (bounds, extent) else {
                return Err(GradientErrorKind::OpenSymbol { node: node.name() }.of(&statement.accum.origin));
            };
            is_outside |= lo < 0 || usize::try_from(hi).is_ok_and(|hi| hi >= dim);
            dims.push(extent);
            low.push(lo);
        }
        Ok(is_outside.then_some((dims, low)))
    }

    /// The least and the greatest value of an index, if all symbols in it have ranges.
    pub(crate) fn index_bounds(&self, accum: &Accum, index: &Affine) -> Option<(i64, i64)> {
        let range = |id: SymbolId| StaticSymbol::range_in(self.symbols, id);
        let is_open =
            index.terms().iter().any(|(var, _)| matches!(var, Var::Symbol(id) if range(*id).is_none()));
        accum.projections.index_bounds(index, &range).filter(|_| !is_open)
    }

    /// Adds the elements of `wide` to the elements of a node with the same indices.
    fn add_inside(
        &mut self,
        wide: &OuterBox<'_>,
        node: &TensorNode,
        dims: &Dims,
        is_new: bool,
        origin: &Origin,
    ) -> Result<()> {
        let (mut axes, mut to, mut from) = (Dims::new(), Vec::new(), Vec::new());
        for (axis, (&dim, (&extent, &low))) in dims.iter().zip(wide.dims.iter().zip(wide.low)).enumerate() {
            let first = low.max(0);
            let end =
                (low + i64::try_from(extent).unwrap_or(i64::MAX)).min(i64::try_from(dim).unwrap_or(i64::MAX));
            axes.push(usize::try_from(end - first).unwrap_or(0));
            to.push(AxisIndex::axis(axis).map(|index| index.plus_constant(first)));
            from.push(AxisIndex::axis(axis).map(|index| index.plus_constant(first - low)));
        }
        let lhs = (dims.clone(), to.into_iter().collect());
        let rhs = vec![(wide.dims.clone(), from.into_iter().collect())];
        let fits = |source| GradientErrorKind::Index { node: node.name(), source }.of(origin);
        let projections = Projections::new(&axes, lhs, rhs, "gradient").map_err(fits)?;
        self.tape.backward.push(ProgramStep::Accum(Box::new(Accum {
            init_neutral: is_new,
            op: AccumOp::Add,
            lhs: node.clone(),
            rhs: Rhs::Copy(wide.node.into()),
            computed: Vec::new(),
            projections,
            origin: origin.clone(),
        })));
        Ok(())
    }

    /// Adds to the adjoints of a statement's operands, where the adjoint of the value that it accumulates is
    /// a formula.
    pub(crate) fn through(
        &mut self,
        statement: &mut Statement,
        rule: &Formula,
        bindings: &Bindings,
    ) -> Result<()> {
        if matches!(statement.accum.rhs, Rhs::Copy(_)) {
            return match formula(&statement.accum, 0) {
                Some(_) => self.operand(statement, 0, rule, bindings),
                None => Ok(()),
            };
        }
        let guarded = statement.guarded(rule.clone(), bindings);
        let adjoint = statement.value(&guarded, bindings, &mut self.tape)?;
        let sparse = bindings.sparse || rule.has_condition();
        self.operands(statement, &Bindings { adjoint, sparse, values: None }, false)
    }
}

/// The axes whose index is outside of the node for some values of symbols, and then negative, such as
/// `n - 1 - t` in a scan; none if an index is outside for some points.
fn guarded_axes(access: &Access, extents: &Dims, low: &[i64]) -> Option<Vec<usize>> {
    let mut guarded = Vec::new();
    for (axis, index) in access.index.iter().enumerate() {
        let end = low[axis].checked_add(i64::try_from(extents[axis]).ok()?)?;
        let is_below = end <= i64::try_from(access.dims[axis]).ok()?;
        match is_below && low[axis] >= 0 {
            true => {}
            false if is_below && index.loop_terms().is_empty() => guarded.push(axis),
            false => return None,
        }
    }
    Some(guarded)
}

/// The rule of each access, with the position of the operand. Several operands that are one access have one
/// rule.
pub(crate) fn rules_of_accesses(accum: &Accum) -> Vec<(usize, Formula)> {
    let count = accum.rhs.operands().len();
    let is_first = |position: &usize| (0..*position).all(|other| !same_access(accum, *position, other));
    let rule = |position: usize| {
        let same = (position..count).filter(|&other| same_access(accum, position, other));
        let rules = same.filter_map(|position| formula(accum, position)).collect();
        Some((position, Formula::sum(rules)?))
    };
    (0..count).filter(is_first).filter_map(rule).collect()
}

/// Whether two operands are the same element at every point.
fn same_access(accum: &Accum, a: usize, b: usize) -> bool {
    let (operands, projections) = (accum.rhs.operands(), accum.projections.project_rhs());
    a == b || (operands[a].node().is_some() && operands[a] == operands[b] && projections[a] == projections[b])
}
