//! The adjoints of the operands of one statement.
//!
//! The adjoint of an operand grows at the indices of the operand. Indices that may be outside of the node, as
//! in `pad` and in margins, go through an array that has an element for each of them. It begins with the
//! adjoint so far, and its elements inside then become the adjoint.

use assignments::indexing::{AxisIndex, Indexed, Projections, StaticSymbol};
use assignments::{Accum, AccumOp, Origin, ProgramStep, Rhs};
use lowered_ir::ir::{Affine, LoopId, SymbolId, UnaryOp, Var};
use tnode::{Dims, RunSize, TensorNode};

use crate::Formula;
use crate::access::{Access, Target};
use crate::backward::BackwardPass;
use crate::error::{GradientErrorKind, Result};
use crate::forward_program::{ForwardProgram, formula};
use crate::statement::{Bindings, Statement};
use crate::windows::WindowForm;

/// The indices of a node that has an element for each of them, also for those outside of another node.
struct OuterBox<'a> {
    dims: &'a Dims,
    /// The least index of each axis.
    low: &'a [i64],
}

/// A box of elements of a node of these dimensions.
struct NodePart {
    dims: Dims,
    /// The indices of the first element of the box.
    first: Vec<i64>,
    extents: Dims,
}

impl OuterBox<'_> {
    /// The elements whose indices are inside of a node of these dimensions: as a part of the box, and as a
    /// part of the node.
    fn inside(&self, dims: &Dims) -> [NodePart; 2] {
        let (mut extents, mut in_box, mut in_node) = (Dims::new(), Vec::new(), Vec::new());
        for (&dim, (&extent, &low)) in dims.iter().zip(self.dims.iter().zip(self.low)) {
            let first = low.max(0);
            let end =
                (low + i64::try_from(extent).unwrap_or(i64::MAX)).min(i64::try_from(dim).unwrap_or(i64::MAX));
            extents.push(usize::try_from(end - first).unwrap_or(0));
            in_box.push(first - low);
            in_node.push(first);
        }
        [(self.dims, in_box), (dims, in_node)].map(|(dims, first)| NodePart {
            dims: dims.clone(),
            first,
            extents: extents.clone(),
        })
    }
}

impl NodePart {
    /// The indices of the elements in terms of the axes of the box.
    fn indexed(&self) -> Indexed {
        let at =
            |(axis, &first): (usize, &i64)| AxisIndex::axis(axis).map(|index| index.plus_constant(first));
        (self.dims.clone(), self.first.iter().enumerate().map(at).collect())
    }
}

impl BackwardPass<'_> {
    /// Adds to the adjoints of a statement's operands, for the adjoint of its result.
    pub(crate) fn operands(
        &mut self,
        statement: &mut Statement,
        bindings: &Bindings,
        negated: bool,
    ) -> Result<()> {
        for (position, rule) in statement.rules_of_accesses(&self.tape.forward) {
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
        let innermost = match self.windows(statement, position, &rule, bindings)? {
            WindowForm::Read(windows) => {
                let covers = self.add_windows(windows, &adjoint, is_new, statement)?;
                self.note_sparse(&node, is_new && !covers);
                return Ok(());
            }
            WindowForm::Written { innermost } => innermost,
        };
        let reach = self.box_outside(statement, &access, &node)?;
        let guarded = match &reach {
            None => Some(Vec::new()),
            Some((dims, low)) => guarded_axes(&access, dims, low),
        };
        if let Some(guarded) = guarded {
            let target = Target { guarded, innermost, ..Target::sum(&adjoint, is_new, &access) };
            statement.accumulate(target, &rule, bindings, &mut self.tape)?;
            self.note_sparse(&node, is_new);
            return Ok(());
        }
        let Some((dims, low)) = reach else { return Ok(()) };
        let wide = self.tape.temporary("reach", &dims, adjoint.dtype())?;
        let shifted = access.index.iter().zip(&low);
        let index: Vec<AxisIndex> =
            shifted.map(|(index, low)| index.map(|index| index.plus_constant(-low))).collect();
        let outer = OuterBox { dims: &dims, low: &low };
        let [inside, of_adjoint] = outer.inside(&access.dims);
        let (inside, of_adjoint) = ((&wide, inside), (&adjoint, of_adjoint));
        // The box begins with the sums so far, so that it adds in the order of a sum without a box. Whether
        // there is a box may depend on sizes, and the bits do not.
        if !is_new {
            self.copy(&statement.accum.origin, AccumOp::Add, &inside, &of_adjoint)?;
        }
        let target = Target { innermost, ..Target::sum(&wide, is_new, &Access::new(&wide, &dims, &index)) };
        statement.accumulate(target, &rule, bindings, &mut self.tape)?;
        self.note_sparse(&node, is_new);
        let op = if is_new { AccumOp::Add } else { AccumOp::Assign };
        self.copy(&statement.accum.origin, op, &of_adjoint, &inside)?;
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
        let (iterators, ends) =
            (statement.accum.projections.product_iterators(), statement.accum.run_sizes());
        for (axis, (index, &dim)) in access.index.iter().zip(&access.dims).enumerate() {
            let bounds = self.index_bounds(&statement.accum, &index.affine());
            let extent =
                bounds.and_then(|(lo, hi)| usize::try_from(hi.checked_sub(lo)?.checked_add(1)?).ok());
            let (Some((lo, hi)), Some(extent)) = (bounds, extent) else {
                return Err(GradientErrorKind::OpenSymbol { node: node.name() }.of(&statement.accum.origin));
            };
            is_outside |= lo < 0 || usize::try_from(hi).is_ok_and(|hi| hi >= dim);
            // The loop over the results may end at another size of a run than the axis.
            let end = iterators.iter().position(|&id| *index == AxisIndex::Iterator(Var::Loop(id)));
            let end = end.and_then(|axis| ends.get(axis)?.as_ref());
            is_outside |= end.zip(node.run_size(axis)).is_some_and(|(end, own)| end != own);
            dims.push(extent);
            low.push(lo);
        }
        Ok(is_outside.then_some((dims, low)))
    }

    /// The least and the greatest value of an index, if all symbols in it have ranges. Iterators stay below
    /// the sizes of a run, so that `m - 1 - j` is at least 0, as it is where `m` is a constant.
    pub(crate) fn index_bounds(&self, accum: &Accum, index: &Affine) -> Option<(i64, i64)> {
        let range = |id: SymbolId| StaticSymbol::range_in(self.symbols, id);
        let place =
            |size: &RunSize| self.symbols.iter().position(|symbol| symbol.size.as_ref() == Some(size));
        let sizes = accum.projections.run_sizes();
        let ends: Vec<(LoopId, Affine)> = sizes
            .filter_map(|(iterator, size)| Some((iterator, Affine::var(SymbolId(place(size)? as u32)))))
            .collect();
        let is_open =
            index.terms().iter().any(|(var, _)| matches!(var, Var::Symbol(id) if range(*id).is_none()));
        accum.projections.index_bounds_within(index, &ends, &range).filter(|_| !is_open)
    }

    /// Copies a part of one node to a part of another, of the same extents. With `AccumOp::Add` the rest of
    /// the target becomes 0.
    fn copy(
        &mut self,
        origin: &Origin,
        op: AccumOp,
        (to, to_part): &(&TensorNode, NodePart),
        (from, from_part): &(&TensorNode, NodePart),
    ) -> Result<()> {
        let fits = |source| GradientErrorKind::Index { node: to.name(), source }.of(origin);
        let projections =
            Projections::new(&to_part.extents, to_part.indexed(), vec![from_part.indexed()], "gradient");
        self.tape.backward.push(ProgramStep::Accum(Box::new(Accum {
            init_neutral: op == AccumOp::Add,
            op,
            lhs: (*to).clone(),
            rhs: Rhs::Copy((*from).into()),
            computed: Vec::new(),
            projections: projections.map_err(fits)?,
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
/// `n - 1 - t` in a scan; none if an index is outside for some points, or if a loop ends elsewhere.
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
    (!guarded.is_empty()).then_some(guarded)
}

impl Statement {
    /// The rule of each access, with the position of the operand. Several operands that are one access have
    /// one rule.
    pub(crate) fn rules_of_accesses(&self, program: &ForwardProgram) -> Vec<(usize, Formula)> {
        let accum = &self.accum;
        let count = accum.rhs.operands().len();
        let is_first = |position: &usize| (0..*position).all(|other| !same_access(accum, *position, other));
        let rule = |position: usize| {
            let same = (position..count).filter(|&other| same_access(accum, position, other));
            let rules = same.filter_map(|position| program.rule(accum, self.at, position)).collect();
            Some((position, Formula::sum(rules)?))
        };
        (0..count).filter(is_first).filter_map(rule).collect()
    }
}

/// Whether two operands are the same element at every point, whatever the extents are. A gradient over sizes
/// of a run has the bits of the gradient for these sizes, 1 included.
fn same_access(accum: &Accum, a: usize, b: usize) -> bool {
    let (operands, projections) = (accum.rhs.operands(), accum.projections.project_rhs());
    let is_same = || operands[a] == operands[b] && projections[a] == projections[b];
    a == b || (operands[a].node().is_some() && is_same() && accum.projections.are_alike(a, b))
}
