//! The backward pass: the steps in reverse, each of which adds to the adjoints of its operands.
//!
//! An adjoint is the gradient of the loss by one version of a node. The first contribution to an adjoint
//! starts from 0, and later contributions add. A step that overwrites elements ends their version, so the
//! adjoint of the older version has 0 there. A statement `c[m,n] :+= a[m,k] * b[k,n]` becomes
//! `a.grad[m,k] += c.grad[m,n] * b[k,n]` and `b.grad[k,n] += c.grad[m,n] * a[m,k]` over the same points, so
//! no equation is solved: windows and computed indices of operands are indices of the nodes written.

use std::collections::{BTreeMap, BTreeSet};

use assignments::indexing::{AxisIndex, Projection, StaticSymbol, are_injective, are_surjective};
use assignments::{Accum, AccumOp, FetchOp, Operand, Origin, ProgramStep};
use lowered_ir::ir::{BinaryOp, SymbolId, UnaryOp, Var};
use tnode::{DType, TensorNode};

use crate::Formula;
use crate::access::{Access, Operation, Target, each_element};
use crate::error::{GradientError, GradientErrorKind, Result};
use crate::forward_program::{ForwardProgram, formula};
use crate::rules::{self, Derivative};
use crate::statement::{Bindings, Statement, Tape, plain_name};

/// The gradient of the loss by one version of a node.
#[derive(Clone, Debug)]
pub(crate) struct Adjoint {
    pub(crate) node: TensorNode,
    /// Whether some elements may be 0 because the loss does not depend on them; the values of the node may be
    /// infinite there.
    pub(crate) sparse: bool,
    /// Whether the node belongs to the caller, so that its values must stay.
    pub(crate) given: bool,
}

/// The backward pass so far.
pub(crate) struct BackwardPass<'a> {
    pub(crate) tape: Tape,
    pub(crate) symbols: &'a [StaticSymbol],
    pub(crate) adjoints: BTreeMap<TensorNode, Adjoint>,
    /// The gradient node of each parameter.
    gradients: BTreeMap<TensorNode, TensorNode>,
    /// The parameters that the loss depends on.
    pub(crate) reached: BTreeSet<TensorNode>,
    /// Whether the gradient by a value that was rounded to 16 bits is rounded to the same type.
    pub(crate) narrow: bool,
}

/// The statements of a step that write one node, and the adjoint of what they leave in it.
struct NodeWrites<'a> {
    first: &'a Accum,
    adjoint: &'a Adjoint,
    statements: Vec<Statement>,
    /// Whether each element has at most one value.
    once: bool,
    /// Whether all elements have one.
    covers: bool,
    /// Whether the elements have older values that the loss depends on.
    keeps_old: bool,
    /// Whether a statement reads the node.
    is_read: bool,
    /// Whether the node of the adjoint must keep its values.
    is_shared: bool,
}

/// How an accumulation combines values with the elements of its target.
pub(crate) enum Combination {
    /// It stores the values.
    Store,
    /// It adds the values.
    Add,
    /// It subtracts the values.
    Subtract,
    /// It combines each element with one value.
    Elementwise(BinaryOp),
    /// It stores a function of the values.
    Function(UnaryOp),
    /// It multiplies each element by several values.
    Product,
    /// It keeps the greatest or least of several values.
    Extreme,
    /// Its result has derivative 0.
    Constant,
}

impl<'a> BackwardPass<'a> {
    pub(crate) fn new(
        forward: ForwardProgram,
        symbols: &'a [StaticSymbol],
        parameters: &[(TensorNode, TensorNode)],
    ) -> BackwardPass<'a> {
        BackwardPass {
            tape: Tape::new(forward),
            symbols,
            adjoints: BTreeMap::new(),
            gradients: parameters.iter().cloned().collect(),
            reached: BTreeSet::new(),
            narrow: false,
        }
    }

    /// The node for the adjoint of the version of a node that the step at position `at` reads. The flag says
    /// that it is new.
    pub(crate) fn adjoint(&mut self, node: &TensorNode, at: usize) -> Result<(&mut Adjoint, bool)> {
        let is_new = !self.adjoints.contains_key(node);
        if is_new {
            let adjoint = self.new_adjoint(node, at)?;
            self.adjoints.insert(node.clone(), adjoint);
        }
        let adjoint = self.adjoints.get_mut(node).expect("it was inserted above");
        Ok((adjoint, is_new))
    }

    fn new_adjoint(&mut self, node: &TensorNode, at: usize) -> Result<Adjoint> {
        if let Some(gradient) = self.gradients.get(node)
            && self.tape.forward.is_last_version(node, at)
        {
            self.reached.insert(node.clone());
            return Ok(Adjoint { node: gradient.clone(), sparse: false, given: true });
        }
        Ok(Adjoint { node: self.tape.adjoint_of(node)?, sparse: false, given: false })
    }

    /// Sets the adjoint of the loss: to 1, or to the values of a seed.
    pub(crate) fn start(
        &mut self,
        loss: &TensorNode,
        seed: Option<&TensorNode>,
        origin: &Origin,
    ) -> Result<()> {
        let at = self.tape.forward.steps().len();
        let (adjoint, _) = self.adjoint(loss, at)?;
        let node = adjoint.node.clone();
        match seed {
            None => self.tape.backward.push(crate::forward_program::filled(&node, 1.0, origin)),
            Some(seed) => self.tape.copy(seed, &node, origin)?,
        }
        Ok(())
    }

    /// Differentiates the steps, the last one first.
    pub(crate) fn run(&mut self) -> Result<()> {
        let mut at = self.tape.forward.steps().len();
        while at > 0 {
            if let Some(scan) = self.tape.forward.scan_before(at).cloned() {
                self.scan(&scan)?;
                at = scan.range.start;
            } else {
                at -= 1;
                self.step_at(at)?;
            }
        }
        Ok(())
    }

    /// Differentiates the step at a position.
    pub(crate) fn step_at(&mut self, at: usize) -> Result<()> {
        let step = self.tape.forward.steps()[at].clone();
        let statement = step.origin().statement();
        self.step(&step, at).map_err(|error| error.or_at(statement))
    }

    fn step(&mut self, step: &ProgramStep, at: usize) -> Result<()> {
        match step {
            ProgramStep::Detach(node) => drop(self.adjoints.remove(node)),
            ProgramStep::CustomGradient(custom) => return self.custom_gradient(custom, at),
            _ => {}
        }
        let targets = crate::forward_program::targets(step);
        let accums: Vec<&Accum> =
            step.accums().iter().filter(|accum| !accum.projections.product_space().contains(&0)).collect();
        for node in &targets {
            if !self.tape.forward.is_active_after(at, node) {
                self.adjoints.remove(node);
                continue;
            }
            let Some(adjoint) = self.adjoints.remove(node) else { continue };
            match step {
                ProgramStep::Fetch { op: FetchOp::Slice { of, index }, origin, .. } => {
                    self.slice(&adjoint, node, of, *index, at, origin)?;
                }
                ProgramStep::Fetch { .. } => {}
                _ => {
                    let all: Vec<_> = step.accums().iter().filter(|accum| accum.lhs == *node).collect();
                    let parts: Vec<&Accum> =
                        accums.iter().copied().filter(|accum| accum.lhs == *node).collect();
                    check_own_reads(&parts, &all, &targets)?;
                    self.target(&adjoint, &parts, &all, at)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the adjoint of a slice to that part of its parent's adjoint.
    fn slice(
        &mut self,
        adjoint: &Adjoint,
        node: &TensorNode,
        of: &TensorNode,
        symbol: SymbolId,
        at: usize,
        origin: &Origin,
    ) -> Result<()> {
        if !self.tape.forward.is_active_before(at, of) {
            return Ok(());
        }
        let dims = node.dims_without_padding()?;
        let points = each_element(node, &dims, origin);
        let read = Access::new(&adjoint.node, &dims, points.projections.project_lhs());
        let index: Projection = std::iter::once(AxisIndex::Iterator(Var::Symbol(symbol)))
            .chain(points.projections.project_lhs().iter().cloned())
            .collect();
        let parent = Access::new(of, &of.dims_without_padding()?, &index);
        let (target, is_new) = self.adjoint(of, at)?;
        target.sparse = true;
        let target = Target::sum(&target.node, is_new, &parent);
        let statement = Statement::new(&points, at, true, &mut self.tape)?;
        statement.push(target, Operation::Copy, &[read], &mut self.tape)
    }

    /// Differentiates the accumulations of a step into one node. `all` are these accumulations, and `parts`
    /// the ones whose product spaces have points.
    fn target(&mut self, adjoint: &Adjoint, parts: &[&Accum], all: &[&Accum], at: usize) -> Result<()> {
        let Some(first) = all.first() else { return Ok(()) };
        let projections: Vec<_> = all.iter().map(|accum| &accum.projections).collect();
        let (once, covers) = (are_injective(&projections), are_surjective(&projections));
        let combination = combination(first, once)?;
        let keeps_old = !first.init_neutral && self.tape.forward.is_active_before(at, &first.lhs);
        let rounded = if keeps_old { None } else { self.rounded(adjoint, parts)? };
        let adjoint = rounded.as_ref().unwrap_or(adjoint);
        let mut statements = Vec::new();
        for accum in parts {
            statements.push(Statement::new(accum, at, once, &mut self.tape)?);
        }
        let is_read = parts.iter().any(|accum| own_reads(accum).next().is_some());
        let is_shared =
            adjoint.given || parts.iter().any(|accum| own_reads(accum).any(|read| !is_apart(accum, read)));
        let mut writes =
            NodeWrites { first, adjoint, statements, once, covers, keeps_old, is_read, is_shared };
        if parts.is_empty() {
            return self.older_of_sum(&writes);
        }
        match combination {
            Combination::Constant if keeps_old && !covers => self.carry_rest(&writes),
            Combination::Constant => Ok(()),
            Combination::Store => self.store(&mut writes),
            Combination::Add => self.add(&mut writes, false),
            Combination::Subtract => self.add(&mut writes, true),
            Combination::Function(op) => self.function(&mut writes, op),
            Combination::Elementwise(op) => self.elementwise(&mut writes, op),
            Combination::Extreme => self.extreme(adjoint, &mut writes.statements, keeps_old, at),
            Combination::Product => self.product(adjoint, &mut writes.statements, keeps_old, at),
        }
    }

    /// The adjoint of values that accumulations round to 16 bits, rounded to the same type if the program
    /// asks for it. Conversions of inputs are left out: nothing reads their gradients but the caller.
    fn rounded(&mut self, adjoint: &Adjoint, accums: &[&Accum]) -> Result<Option<Adjoint>> {
        let Some(first) = accums.first() else { return Ok(None) };
        let (node, forward) = (&first.lhs, &self.tape.forward);
        let is_computed = |operand: &Operand| operand.node().is_some_and(|node| forward.writes(node));
        let rounds = |accum: &&Accum| {
            let dtype = accum.rhs.dtype();
            dtype.is_float() && dtype.size_bytes() > 2 && accum.operands().any(is_computed)
        };
        let is_narrow = matches!(node.dtype(), DType::F16 | DType::Bf16);
        if !(self.narrow && is_narrow && accums.iter().any(rounds)) {
            return Ok(None);
        }
        let rounded = self.tape.temporary_like(node, &format!("{}.grad", plain_name(node)), node.dtype())?;
        self.tape.copy(&adjoint.node, &rounded, &first.origin)?;
        Ok(Some(Adjoint { node: rounded, sparse: adjoint.sparse, given: false }))
    }

    /// The older version of a node has the adjoint of the newer one, in a node of its own if this one is
    /// shared.
    fn older_of_sum(&mut self, writes: &NodeWrites<'_>) -> Result<()> {
        let NodeWrites { first, adjoint, .. } = *writes;
        if writes.keeps_old && writes.is_shared {
            self.carry(adjoint, first)?;
        } else if writes.keeps_old {
            self.adjoints.insert(first.lhs.clone(), adjoint.clone());
        }
        Ok(())
    }

    /// Differentiates statements that store values.
    fn store(&mut self, writes: &mut NodeWrites<'_>) -> Result<()> {
        let NodeWrites { first, adjoint, .. } = *writes;
        if writes.statements.len() > 1 && !writes.once {
            return Err(reduction(first, "write the parts to nodes of their own"));
        }
        let keeps_rest = writes.keeps_old && !writes.covers;
        // Lowering rejects elements that are set to 0 twice without a read in between.
        let has_copy =
            writes.is_shared || !writes.statements.iter().all(|statement| self.reads_adjoint(statement));
        if keeps_rest && has_copy {
            self.carry_rest(writes)?;
        }
        let rest = Adjoint { sparse: true, ..adjoint.clone() };
        if keeps_rest && !has_copy && writes.is_read {
            self.adjoints.insert(first.lhs.clone(), rest.clone());
        }
        for statement in &mut writes.statements {
            let bindings = self.last_writer(adjoint, statement)?;
            self.operands(statement, &bindings, false)?;
        }
        if keeps_rest && !has_copy {
            self.clear(&adjoint.node, &writes.statements)?;
            self.adjoints.insert(first.lhs.clone(), rest);
        }
        Ok(())
    }

    /// Differentiates statements that add or subtract values.
    fn add(&mut self, writes: &mut NodeWrites<'_>, negated: bool) -> Result<()> {
        self.older_of_sum(writes)?;
        for statement in &mut writes.statements {
            let bindings = at_target(writes.adjoint, &statement.accum);
            self.operands(statement, &bindings, negated)?;
        }
        Ok(())
    }

    /// Differentiates statements that store a function of their values.
    fn function(&mut self, writes: &mut NodeWrites<'_>, op: UnaryOp) -> Result<()> {
        let Derivative::Formula(formula) = rules::unary(op) else { return Ok(()) };
        for statement in &mut writes.statements {
            let value = statement.accumulated(&mut self.tape)?;
            let result = self.result_at_target(statement)?;
            let mut bindings = at_target(writes.adjoint, &statement.accum);
            bindings.values = Some((result, [value.clone(), value]));
            self.through(statement, &formula, &bindings)?;
        }
        Ok(())
    }

    /// Differentiates statements that combine each element with one value.
    fn elementwise(&mut self, writes: &mut NodeWrites<'_>, op: BinaryOp) -> Result<()> {
        let NodeWrites { first, adjoint, covers, .. } = *writes;
        let older = match writes.keeps_old {
            true if covers => Some(self.older(adjoint, &first.lhs)?),
            true => Some(self.carry(adjoint, first)?),
            false => None,
        };
        for (position, statement) in writes.statements.iter_mut().enumerate() {
            let starts = covers && position == 0;
            self.element(statement, op, adjoint, older.as_ref().map(|node| (node, covers, starts)))?;
        }
        Ok(())
    }

    /// The adjoint of a statement that stores values: where several points store in one element, the adjoint
    /// belongs to the last of them.
    fn last_writer(&mut self, adjoint: &Adjoint, statement: &mut Statement) -> Result<Bindings> {
        let mut bindings = at_target(adjoint, &statement.accum);
        if statement.once {
            return Ok(bindings);
        }
        let number = statement.point_number();
        let last = self.tape.temporary_like(&statement.accum.lhs, "last", tnode::DType::I64)?;
        let target = Target { op: AccumOp::Max, ..statement.sum(&last, true) };
        statement.push(target, Operation::Copy, std::slice::from_ref(&number), &mut self.tape)?;
        let is_last = Statement::equal(Formula::Operand(0), Formula::Operand(1));
        let chosen = Formula::select(is_last, Formula::Adjoint, Formula::Number(0.0));
        bindings.values = Some((number.clone(), [statement.at_target(&last), number]));
        bindings.adjoint = statement.value(&chosen, &bindings, &mut self.tape)?;
        Ok(Bindings { sparse: true, values: None, ..bindings })
    }

    /// Differentiates a statement that combines each element with one value, as a binary operation does.
    /// `older` is the adjoint of the older version, whether statements write all of it, and whether this is
    /// the first of them.
    fn element(
        &mut self,
        statement: &mut Statement,
        op: BinaryOp,
        adjoint: &Adjoint,
        older: Option<(&TensorNode, bool, bool)>,
    ) -> Result<()> {
        let value = statement.accumulated(&mut self.tape)?;
        let before = self.tape.value_before(&statement.accum.lhs, statement.at)?;
        let before = statement.at_target(&before);
        let result = self.result_at_target(statement)?;
        let (operands, old_operand) =
            if op.takes_new_first() { ([value, before], 1) } else { ([before, value], 0) };
        let bindings = Bindings { values: Some((result, operands)), ..at_target(adjoint, &statement.accum) };
        if let Some((older, covers, starts)) = older {
            let rule = match rules::binary(op, old_operand) {
                Derivative::Formula(rule) => statement.guarded(rule, &bindings),
                Derivative::Zero => Formula::Number(0.0),
            };
            let mut target = statement.sum(older, starts);
            if !covers {
                target.op = AccumOp::Assign;
            }
            statement.accumulate(target, &rule, &bindings, &mut self.tape)?;
        }
        if let Derivative::Formula(rule) = rules::binary(op, 1 - old_operand) {
            self.through(statement, &rule, &bindings)?;
        }
        Ok(())
    }

    /// The values that a statement leaves in its target, at its points.
    fn result_at_target(&mut self, statement: &Statement) -> Result<Access> {
        let result = self.tape.value_before(&statement.accum.lhs, statement.at + 1)?;
        Ok(statement.at_target(&result))
    }

    /// A new adjoint for the older version of a node, with the values of the newer one.
    fn carry(&mut self, adjoint: &Adjoint, accum: &Accum) -> Result<TensorNode> {
        let older = self.older(adjoint, &accum.lhs)?;
        self.tape.copy(&adjoint.node, &older, &accum.origin)?;
        Ok(older)
    }

    /// A new adjoint for the older version of a node, without values.
    pub(crate) fn older(&mut self, adjoint: &Adjoint, node: &TensorNode) -> Result<TensorNode> {
        let older = self.tape.adjoint_of(node)?;
        let adjoint = Adjoint { node: older.clone(), sparse: adjoint.sparse, given: false };
        self.adjoints.insert(node.clone(), adjoint);
        Ok(older)
    }

    /// Like [`carry`](Self::carry), with 0 for the elements that statements overwrite.
    fn carry_rest(&mut self, writes: &NodeWrites<'_>) -> Result<()> {
        let older = self.carry(&Adjoint { sparse: true, ..writes.adjoint.clone() }, writes.first)?;
        self.clear(&older, &writes.statements)
    }

    /// Whether the adjoint of some operand grows by the adjoint of the statement's result.
    fn reads_adjoint(&self, statement: &Statement) -> bool {
        let operands = statement.accum.rhs.operands().iter().enumerate();
        let mut active = operands.filter(|(_, operand)| {
            operand.node().is_some_and(|node| self.tape.forward.is_active_before(statement.at, node))
        });
        active.any(|(position, _)| formula(&statement.accum, position).is_some())
    }

    /// Sets the elements of an adjoint to 0 that statements overwrite.
    fn clear(&mut self, adjoint: &TensorNode, statements: &[Statement]) -> Result<()> {
        for statement in statements {
            let target = statement.assigned(adjoint);
            let zero = Access::number(0.0, adjoint.dtype());
            statement.push(target, Operation::Copy, &[zero], &mut self.tape)?;
        }
        Ok(())
    }
}

/// The adjoint of the element that each point writes. A point whose computed index is outside has 0.
fn at_target(adjoint: &Adjoint, accum: &Accum) -> Bindings {
    let is_computed = accum.projections.project_lhs().iter().any(|index| index.computed().is_some());
    let sparse = adjoint.sparse || is_computed;
    Bindings { adjoint: Access::at_target(&adjoint.node, accum), sparse, values: None }
}

/// How a step combines values with the elements of its target; `once` says that there is at most one value
/// per element.
pub(crate) fn combination(accum: &Accum, once: bool) -> Result<Combination> {
    let one_value = accum.init_neutral && once;
    Ok(match accum.op {
        AccumOp::Assign => Combination::Store,
        AccumOp::Add => Combination::Add,
        AccumOp::Sub => Combination::Subtract,
        AccumOp::Or | AccumOp::And => Combination::Constant,
        AccumOp::Mul | AccumOp::Max | AccumOp::Min | AccumOp::ReluGate | AccumOp::Satur01Gate
            if one_value =>
        {
            Combination::Store
        }
        AccumOp::Div if one_value => Combination::Function(UnaryOp::Recip),
        AccumOp::Pow if one_value => Combination::Constant,
        AccumOp::Mul if !once => Combination::Product,
        AccumOp::Max | AccumOp::Min if !once => Combination::Extreme,
        op => match op.binary() {
            Some(op) if once => Combination::Elementwise(op),
            _ => return Err(reduction(accum, instead_of(op))),
        },
    })
}

fn instead_of(op: AccumOp) -> &'static str {
    match op {
        AccumOp::Div => "accumulate the divisors with `*=`, then divide",
        AccumOp::Pow => "accumulate the exponents with `*=`, then use `pow`",
        _ => "use `where` with the condition, then accumulate",
    }
}

pub(crate) fn reduction(accum: &Accum, instead: &'static str) -> GradientError {
    let (node, op) = (accum.lhs.name(), accum.op.to_string());
    GradientErrorKind::Reduction { node, op, instead }.of(&accum.origin)
}

/// Rejects a step that reads elements of its targets which other iterations write.
pub(crate) fn check_own_reads(parts: &[&Accum], all: &[&Accum], targets: &[TensorNode]) -> Result<()> {
    let projections: Vec<_> = all.iter().map(|accum| &accum.projections).collect();
    let once = are_injective(&projections);
    for accum in parts {
        let is_old = once && (!accum.init_neutral || are_surjective(&projections));
        for (position, operand) in accum.operands().enumerate() {
            let Some(node) = operand.node().filter(|node| targets.contains(node)) else { continue };
            let same =
                accum.projections.project_rhs()[position].as_slice() == accum.projections.project_lhs();
            let plain = accum.projections.project_lhs().iter().all(|index| index.computed().is_none());
            let is_own = *node == accum.lhs && same && plain && matches!(operand, Operand::Node(_));
            let is_apart = all.len() == 1 && *node == accum.lhs && is_apart(accum, position);
            if !(is_apart || is_own && is_old) {
                let kind = GradientErrorKind::ReadsWhatItWrites { node: node.name() };
                return Err(kind.at(accum.origin.operand(position)));
            }
        }
    }
    Ok(())
}

/// The positions of the operands that read the node which an accumulation writes.
fn own_reads(accum: &Accum) -> impl Iterator<Item = usize> {
    let operands = accum.operands().enumerate();
    operands.filter(|(_, operand)| operand.node() == Some(&accum.lhs)).map(|(position, _)| position)
}

/// Whether an operand is on another side of an axis than all elements written: the indices differ by a number
/// and have no iterators, as in `h[t + 1, i] := h[t, i]`.
fn is_apart(accum: &Accum, operand: usize) -> bool {
    let read = &accum.projections.project_rhs()[operand];
    let differ = |(read, written): (&AxisIndex, &AxisIndex)| {
        let distance = read.affine().plus(&written.affine().times(-1)).as_constant();
        let is_plain = |index: &AxisIndex| index.computed().is_none() && index.loop_terms().is_empty();
        is_plain(read) && is_plain(written) && distance.is_some_and(|distance| distance != 0)
    };
    !accum.init_neutral && read.iter().zip(accum.projections.project_lhs()).any(differ)
}
