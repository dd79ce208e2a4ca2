//! Forward mode: the change of results in a direction, computed beside each step.
//!
//! The tangent of a node is the derivative of its elements as the parameters move in a given direction. Rules
//! are linear in the adjoint. So a rule with the tangent of an operand in place of the adjoint gives the
//! operand's share of the tangent of the result. Beside each step stand the statements that change the
//! tangent of its target in the same way; they stand before the step if they read values which it overwrites.

use std::collections::BTreeMap;

use assignments::indexing::{AxisIndex, Projection, are_injective, are_surjective};
use assignments::{Accum, AccumOp, Assignments, FetchOp, Operand, Origin, ProgramStep};
use lowered_ir::ir::{BinaryOp, SymbolId, Var};
use tnode::{Scalar, TensorNode};

use crate::Formula;
use crate::access::{Access, Operation, Target, each_element};
use crate::backward::{BackwardPass, Combination, check_own_reads, combination};
use crate::error::{GradientError, GradientErrorKind, Result};
use crate::forward_program::{ForwardProgram, filled, targets};
use crate::gradient::{expand, float, same_shape, unroll_scans};
use crate::rules::{self, Derivative};
use crate::statement::{Bindings, Statement, gradient_dtype};

/// A program with the derivatives of its results in one direction.
#[derive(Clone, Debug)]
pub struct Tangent {
    /// The steps of the program, each beside the steps that compute its tangent.
    pub program: Assignments,
    /// The tangent of each result, with the dimensions of the result and its type, but at least f32.
    pub tangents: Vec<TensorNode>,
}

/// The derivatives of `results` as each parameter moves in the direction that the node with it holds. A
/// parameter stands for the values that it has before the program.
///
/// ```
/// use assignment_text::parse;
/// use tnode::{DType, TensorNode};
///
/// let node = |name, dims: &[usize]| {
///     TensorNode::builder(name).dims(dims.iter().copied()).dtype(DType::F32).build()
/// };
/// let (x, w, y) = (node("x", &[4, 3])?, node("w", &[3])?, node("y", &[4])?);
/// let direction = node("direction", &[3])?;
/// let program = parse("y[b] :+= x[b,i] * w[i]", &[x, w.clone(), y.clone()])?;
/// let found = autodiff::tangent(&program, &[(&w, &direction)], &[&y])?;
/// let lines = found.program.to_string();
/// assert!(lines.contains("y_tangent[i0] =:+ direction[i1] * x[i0, i1];"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`GradientErrorKind`].
pub fn tangent(
    program: &Assignments,
    parameters: &[(&TensorNode, &TensorNode)],
    results: &[&TensorNode],
) -> Result<Tangent, GradientError> {
    let mut program = program.clone();
    expand(&mut program)?;
    unroll_scans(&mut program, &|_, _| false)?;
    let pairs: Vec<(TensorNode, TensorNode)> =
        parameters.iter().map(|&(parameter, direction)| (parameter.clone(), direction.clone())).collect();
    let forward = ForwardProgram::in_order(&program, &pairs)?;
    let mentioned = forward.nodes();
    for (parameter, direction) in &pairs {
        float(parameter, "a parameter")?;
        float(direction, "a direction")?;
        same_shape(direction, parameter)?;
        if !mentioned.contains(parameter) {
            let (parameter, known) = (parameter.name(), forward.float_inputs());
            return Err(GradientErrorKind::UnknownParameter { parameter, known }.into());
        }
    }
    let mut pass = TangentPass {
        pass: BackwardPass::new(forward, &program.symbols, &pairs),
        tangents: BTreeMap::new(),
        stored: BTreeMap::new(),
    };
    let mut steps = pass.directions(&pairs)?;
    steps.extend(pass.steps(&program.steps, &mut 0)?);
    let mut tangents = Vec::new();
    for &result in results {
        float(result, "a result")?;
        let tangent = match pass.tangents.get(result) {
            Some(tangent) => tangent.clone(),
            None => {
                let tangent = pass.new_tangent(result)?;
                steps.push(filled(&tangent, 0.0, Origin::unknown()));
                tangent
            }
        };
        tangents.push(tangent);
    }
    program.steps = steps;
    Ok(Tangent { program, tangents })
}

/// The tangents of the nodes so far. The inner pass holds the program and makes statements.
pub(crate) struct TangentPass<'a> {
    pub(crate) pass: BackwardPass<'a>,
    tangents: BTreeMap<TensorNode, TensorNode>,
    /// For each tangent, the boxes of elements that were stored since it was made.
    stored: BTreeMap<TensorNode, Vec<ElementBox>>,
}

/// The least and the greatest index on each axis; `None` if they are unknown.
type ElementBox = Option<Vec<(i64, i64)>>;

impl TangentPass<'_> {
    /// The tangents of the parameters: the directions, or copies of them if the program writes the parameter.
    fn directions(&mut self, pairs: &[(TensorNode, TensorNode)]) -> Result<Vec<ProgramStep>> {
        for (parameter, direction) in pairs {
            let tangent = match self.pass.tape.forward.writes(parameter) {
                true => {
                    let copy = self.new_tangent(parameter)?;
                    self.pass.tape.copy(direction, &copy, Origin::unknown())?;
                    copy
                }
                false => direction.clone(),
            };
            self.tangents.insert(parameter.clone(), tangent);
        }
        Ok(std::mem::take(&mut self.pass.tape.backward))
    }

    fn new_tangent(&mut self, node: &TensorNode) -> Result<TensorNode> {
        let name = format!("{}_tangent", node.name().replace('.', "_"));
        self.pass.tape.temporary_like(node, &name, gradient_dtype(node.dtype()))
    }

    /// The steps, each with the steps of its tangent. `at` counts the steps that are no blocks.
    fn steps(&mut self, steps: &[ProgramStep], at: &mut usize) -> Result<Vec<ProgramStep>> {
        let mut all = Vec::new();
        for step in steps {
            if let ProgramStep::Block { name, steps } = step {
                all.push(ProgramStep::Block { name: name.clone(), steps: self.steps(steps, at)? });
                continue;
            }
            self.step(step, *at).map_err(|error| error.or_at(step.origin().statement()))?;
            // The first statement that reads a virtual node decides what the node reads in margins, so the
            // step comes first unless it overwrites values that its tangent needs.
            let needs_old = self.reads_its_targets(step);
            all.extend((!needs_old).then(|| step.clone()));
            all.append(&mut self.pass.tape.backward);
            all.extend(needs_old.then(|| step.clone()));
            *at += 1;
        }
        Ok(all)
    }

    fn step(&mut self, step: &ProgramStep, at: usize) -> Result<()> {
        match step {
            ProgramStep::Detach(node) => drop(self.tangents.remove(node)),
            ProgramStep::CustomGradient(custom) => {
                let is_active = |node: &&TensorNode| self.tangents.contains_key(node);
                if let Some(input) = custom.inputs.iter().find(is_active) {
                    return Err(GradientErrorKind::CustomGradient { input: input.name() }.into());
                }
            }
            _ => {}
        }
        let written = targets(step);
        for node in &written {
            if !self.pass.tape.forward.is_active_after(at, node) {
                self.tangents.remove(node);
                continue;
            }
            if let ProgramStep::Fetch { op: FetchOp::Slice { of, index }, origin, .. } = step {
                self.slice(node, of, *index, origin)?;
                continue;
            }
            let all: Vec<&Accum> = step.accums().iter().filter(|accum| accum.lhs == *node).collect();
            let has_points = |accum: &&Accum| !accum.projections.product_space().contains(&0);
            let parts: Vec<&Accum> = all.iter().copied().filter(has_points).collect();
            check_own_reads(&parts, &all, &written)?;
            self.target(&parts, &all, at)?;
        }
        Ok(())
    }

    /// Whether the tangent of a step needs values that the step overwrites.
    fn reads_its_targets(&self, step: &ProgramStep) -> bool {
        let (program, written) = (&self.pass.tape.forward, targets(step));
        step.accums().iter().any(|accum| {
            let is_linear = matches!(accum.op, AccumOp::Assign | AccumOp::Add | AccumOp::Sub);
            let reads = accum
                .operands()
                .filter_map(Operand::node)
                .any(|node| written.iter().any(|target| program.is_changed_by(node, target)));
            reads || !(accum.init_neutral || is_linear)
        })
    }

    fn slice(&mut self, node: &TensorNode, of: &TensorNode, symbol: SymbolId, origin: &Origin) -> Result<()> {
        let Some(parent) = self.tangents.get(of).cloned() else { return Ok(()) };
        let points = each_element(node, &node.dims_without_padding()?, origin);
        let index: Projection = std::iter::once(AxisIndex::Iterator(Var::Symbol(symbol)))
            .chain(points.projections.project_lhs().iter().cloned())
            .collect();
        let read = Access::new(&parent, &of.dims_without_padding()?, &index);
        let tangent = self.new_tangent(node)?;
        let statement = Statement::new(&points, 0, true, &mut self.pass.tape)?;
        statement.push(statement.assigned(&tangent), Operation::Copy, &[read], &mut self.pass.tape)?;
        self.tangents.insert(node.clone(), tangent);
        Ok(())
    }

    /// A new tangent for a node of which a step writes all elements.
    pub(crate) fn fresh(&mut self, node: &TensorNode) -> Result<TensorNode> {
        let tangent = self.new_tangent(node)?;
        self.tangents.insert(node.clone(), tangent.clone());
        Ok(tangent)
    }

    /// The tangent of a node of which a step changes some elements; a new one is 0 elsewhere.
    fn present(&mut self, node: &TensorNode, origin: &Origin) -> Result<TensorNode> {
        if let Some(tangent) = self.tangents.get(node) {
            return Ok(tangent.clone());
        }
        let tangent = self.fresh(node)?;
        self.pass.tape.backward.push(filled(&tangent, 0.0, origin));
        Ok(tangent)
    }

    /// The tangent of a node of which a step stores some elements.
    ///
    /// Lowering rejects values that are overwritten before they are read. Elements may be read whose tangents
    /// are not, so a tangent is copied if the step stores elements that an earlier step has stored.
    fn overwritten(&mut self, node: &TensorNode, statements: &[Statement]) -> Result<TensorNode> {
        let Some(first) = statements.first() else { return self.present(node, Origin::unknown()) };
        let boxes: Vec<ElementBox> =
            statements.iter().map(|statement| element_box(&statement.accum)).collect();
        let mut tangent = self.present(node, &first.accum.origin)?;
        let known = self.stored.get(&tangent).map_or(&[][..], Vec::as_slice);
        if known.iter().any(|known| boxes.iter().any(|stored| !are_apart(known, stored))) {
            let older = tangent;
            tangent = self.fresh(node)?;
            self.pass.tape.copy(&older, &tangent, &first.accum.origin)?;
        }
        self.stored.entry(tangent.clone()).or_default().extend(boxes);
        Ok(tangent)
    }

    /// Adds the tangents of `all` accumulations of a step into one node. `parts` are the accumulations that
    /// have points.
    fn target(&mut self, parts: &[&Accum], all: &[&Accum], at: usize) -> Result<()> {
        let Some(first) = all.first() else { return Ok(()) };
        let projections: Vec<_> = all.iter().map(|accum| &accum.projections).collect();
        let (once, covers) = (are_injective(&projections), are_surjective(&projections));
        let combination = combination(first, once)?;
        let (init, node, origin) = (first.init_neutral, &first.lhs, &first.origin);
        let is_old_active = self.pass.tape.forward.is_active_before(at, node);
        let old = self.tangents.get(node).filter(|_| !init && is_old_active).cloned();
        let mut statements = Vec::new();
        for accum in parts {
            statements.push(Statement::new(accum, at, once, &mut self.pass.tape)?);
        }
        match combination {
            _ if statements.is_empty() && !init => {
                self.present(node, origin)?;
            }
            Combination::Constant if init => self.zero(node, origin)?,
            _ if statements.is_empty() => self.zero(node, origin)?,
            Combination::Constant => {
                let tangent = self.overwritten(node, &statements)?;
                let zero = Access::number(0.0, tangent.dtype());
                let values = vec![zero; statements.len()];
                self.store(&statements, values, &tangent, AccumOp::Assign)?;
            }
            Combination::Store => {
                let values = self.values(&mut statements)?;
                let is_whole = init || covers;
                let tangent = if is_whole { self.fresh(node)? } else { self.overwritten(node, &statements)? };
                self.store(&statements, values, &tangent, AccumOp::Assign)?;
            }
            Combination::Add | Combination::Subtract => {
                let reads = |statement: &Statement| {
                    statement.accum.operands().any(|operand| operand.node() == Some(node))
                };
                if statements.len() == 1 && !reads(&statements[0]) {
                    let tangent = if init { self.fresh(node)? } else { self.present(node, origin)? };
                    self.sums(&mut statements[0], &tangent)?;
                } else {
                    let values = self.values(&mut statements)?;
                    let tangent = if init { self.fresh(node)? } else { self.present(node, origin)? };
                    self.store(&statements, values, &tangent, first.op)?;
                }
            }
            Combination::Function(op) => {
                let mut values = Vec::new();
                for statement in &mut statements {
                    let change = self.value(statement)?;
                    let value = statement.accumulated(&mut self.pass.tape)?;
                    let result = self.point(statement, Operation::Unary(op), std::slice::from_ref(&value))?;
                    let known = Some((result, [value.clone(), value]));
                    values.push(self.term(statement, rules::unary(op), change, known)?);
                }
                let tangent = self.fresh(node)?;
                self.store(&statements, values, &tangent, AccumOp::Assign)?;
            }
            Combination::Elementwise(op) => {
                let mut values = Vec::new();
                for statement in &mut statements {
                    values.push(self.elementwise(statement, op, old.as_ref())?);
                }
                let is_whole = covers && old.is_none();
                let tangent = if is_whole { self.fresh(node)? } else { self.present(node, origin)? };
                self.store(&statements, values, &tangent, AccumOp::Assign)?;
            }
            Combination::Extreme => self.extreme(&mut statements, old.as_ref())?,
            Combination::Product => self.product(&mut statements, old.as_ref(), at)?,
        }
        Ok(())
    }

    fn zero(&mut self, node: &TensorNode, origin: &Origin) -> Result<()> {
        let tangent = self.fresh(node)?;
        self.pass.tape.backward.push(filled(&tangent, 0.0, origin));
        Ok(())
    }

    /// Stores or accumulates values in a tangent, as one step.
    fn store(
        &mut self,
        statements: &[Statement],
        values: Vec<Access>,
        tangent: &TensorNode,
        op: AccumOp,
    ) -> Result<()> {
        let mut parts = Vec::new();
        for (statement, value) in statements.iter().zip(values) {
            let target = Target { op, ..statement.sum(tangent, statement.accum.init_neutral) };
            statement.push(target, Operation::Copy, &[value], &mut self.pass.tape)?;
            let step = self.pass.tape.backward.pop();
            parts.extend(step.iter().flat_map(|step| step.accums()).cloned());
        }
        self.pass.tape.backward.push(match <[Accum; 1]>::try_from(parts) {
            Ok([accum]) => ProgramStep::Accum(Box::new(accum)),
            Err(parts) => ProgramStep::Concat(parts),
        });
        Ok(())
    }

    /// The tangents of the values that statements accumulate, before any of them is stored.
    pub(crate) fn values(&mut self, statements: &mut [Statement]) -> Result<Vec<Access>> {
        statements.iter_mut().map(|statement| self.value(statement)).collect()
    }

    /// Adds the tangents of all operands to the tangent of the target, with a statement for each: those of a
    /// matrix product are matrix products.
    fn sums(&mut self, statement: &mut Statement, tangent: &TensorNode) -> Result<()> {
        let mut init = statement.accum.init_neutral;
        for (position, rule) in statement.rules_of_accesses(&self.pass.tape.forward) {
            let Some(adjoint) = self.operand(statement, position) else { continue };
            let bindings = Bindings { adjoint, sparse: false, values: None };
            let target = Target { op: statement.accum.op, ..statement.sum(tangent, init) };
            statement.accumulate(target, &guarded(rule), &bindings, &mut self.pass.tape)?;
            init = false;
        }
        if init {
            self.pass.tape.backward.push(filled(tangent, 0.0, &statement.accum.origin));
        }
        Ok(())
    }

    /// The tangent of the value that a statement accumulates, at each point.
    fn value(&mut self, statement: &mut Statement) -> Result<Access> {
        let mut terms = Vec::new();
        for (position, rule) in statement.rules_of_accesses(&self.pass.tape.forward) {
            let Some(change) = self.operand(statement, position) else { continue };
            terms.push(self.term(statement, rule.into(), change, None)?);
        }
        self.sum(statement, terms)
    }

    /// The tangent of an operand; `None` if it does not depend on the parameters.
    fn operand(&self, statement: &Statement, position: usize) -> Option<Access> {
        let access = Access::of_operand(&statement.accum, position)?;
        let node = access.operand.node()?;
        let tangent = self.tangents.get(node)?.clone();
        let is_computed = access.index.iter().any(|index| index.computed().is_some());
        let is_plain = matches!(access.operand, Operand::Node(_)) && node.padding().is_none() && !is_computed;
        let operand = match is_plain {
            true => Operand::Node(tangent),
            false => Operand::Padded { outside: Scalar::zero(tangent.dtype()), node: tangent },
        };
        Some(Access { operand, ..access })
    }

    /// A formula with a tangent in place of the adjoint.
    fn term(
        &mut self,
        statement: &mut Statement,
        rule: Derivative,
        change: Access,
        values: Option<(Access, [Access; 2])>,
    ) -> Result<Access> {
        let bindings = Bindings { adjoint: change, sparse: false, values };
        match rule {
            Derivative::Formula(rule) => statement.value(&guarded(rule), &bindings, &mut self.pass.tape),
            Derivative::Zero => Ok(Access::number(0.0, bindings.adjoint.operand.dtype())),
        }
    }

    fn sum(&mut self, statement: &Statement, terms: Vec<Access>) -> Result<Access> {
        let mut terms = terms.into_iter();
        let dtype = gradient_dtype(statement.accum.lhs.dtype());
        let Some(mut sum) = terms.next() else { return Ok(Access::number(0.0, dtype)) };
        for term in terms {
            sum = self.point(statement, Operation::Binary(BinaryOp::Add), &[sum, term])?;
        }
        Ok(sum)
    }

    /// A new array with the result of an operation at each point.
    fn point(&mut self, statement: &Statement, operation: Operation, operands: &[Access]) -> Result<Access> {
        let dtype = gradient_dtype(statement.accum.lhs.dtype());
        let node = statement.temporary("change", dtype, &mut self.pass.tape)?;
        statement.push(
            Target::at_point(&node, &statement.accum),
            operation,
            operands,
            &mut self.pass.tape,
        )?;
        Ok(statement.at_point(&node))
    }

    /// The tangent after an update of each element by one value.
    fn elementwise(
        &mut self,
        statement: &mut Statement,
        op: BinaryOp,
        older: Option<&TensorNode>,
    ) -> Result<Access> {
        let change = self.value(statement)?;
        let value = statement.accumulated(&mut self.pass.tape)?;
        let before = statement.at_target(&statement.accum.lhs);
        let (operands, old_operand) =
            if op.takes_new_first() { ([value, before], 1) } else { ([before, value], 0) };
        let result = self.point(statement, Operation::Binary(op), &operands)?;
        let values = Some((result, operands));
        let mut terms =
            vec![self.term(statement, rules::binary(op, 1 - old_operand), change, values.clone())?];
        if let Some(older) = older {
            let change = statement.at_target(older);
            terms.push(self.term(statement, rules::binary(op, old_operand), change, values)?);
        }
        self.sum(statement, terms)
    }
}

/// The formula, but 0 where the tangent is 0 and a factor may be infinite, as in `sqrt` at 0. Products are
/// left as they are.
fn guarded(rule: Formula) -> Formula {
    if rule.selects() || rule.is_plain_product() { rule } else { rule.guarded() }
}

/// A box that contains the elements that an accumulation writes.
fn element_box(accum: &Accum) -> ElementBox {
    let axis = |index: &AxisIndex| {
        let affine = index.affine();
        let is_known = index.computed().is_none() && index.loop_terms().len() == affine.terms().len();
        accum.projections.index_bounds(&affine, &|_| None).filter(|_| is_known)
    };
    accum.projections.project_lhs().iter().map(axis).collect()
}

fn are_apart(a: &ElementBox, b: &ElementBox) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.iter().zip(b).any(|(a, b)| a.1 < b.0 || b.1 < a.0),
        _ => false,
    }
}
