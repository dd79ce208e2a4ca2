//! Selections that differ from a product only where a factor is infinite.
//!
//! Rules select 0 where an adjoint is 0, so that an infinite factor gives no NaN: `where(g, g * f, 0)`. The
//! derivative of that by `g` is `f` also where `g` is 0, which second derivatives need; the rule of a
//! condition would give 0 there. So for a selection whose value is a multiple of its condition, the value
//! passes the derivative on wherever it is a number.

use assignments::indexing::{AxisIndex, axis_iterator};
use assignments::{Accum, AccumOp, Operand, Rhs};
use lowered_ir::ir::{Affine, BinaryOp, TernaryOp, UnaryOp, Var};
use tnode::TensorNode;

use crate::Formula;
use crate::forward_program::{ForwardProgram, formula};

/// The operations between a value and the adjoint that it is a multiple of, at most: as many as rules have.
const MAX_DEPTH: usize = 8;

/// An operand whose indices are in terms of the axes of the node that its statement writes.
#[derive(PartialEq)]
struct Element {
    operand: Operand,
    index: Vec<Affine>,
}

/// An element that a selection has as its condition, and the step before it that wrote the node last.
struct Guarding {
    element: Element,
    written: Option<usize>,
}

impl Element {
    fn new(accum: &Accum, position: usize) -> Option<Element> {
        let operand = accum.operands().nth(position)?.clone();
        let index = accum.projections.project_rhs().get(position)?;
        let index = index.iter().map(|index| at_axes(accum, index)).collect::<Option<_>>()?;
        Some(Element { operand, index })
    }

    /// Whether the statement's node has the same element at each of its indices.
    fn is_at_axes(&self) -> bool {
        let expected = (0..self.index.len()).map(|axis| AxisIndex::axis(axis).affine());
        self.index.iter().zip(expected).all(|(index, axis)| *index == axis || index.as_constant() == Some(0))
    }
}

/// An index with the axes of the written node in place of iterators.
fn at_axes(accum: &Accum, index: &AxisIndex) -> Option<Affine> {
    let written = accum.projections.project_lhs();
    let axis = |var: Var| written.iter().position(|index| index.affine().as_var() == Some(var));
    let mut affine = index.affine();
    let is_known = |&(var, _): &(Var, i64)| !matches!(var, Var::Loop(_)) || axis(var).is_some();
    if index.computed().is_some() || !affine.terms().iter().all(is_known) {
        return None;
    }
    affine.rename(|var| axis(var).map_or(var, |axis| Var::Loop(axis_iterator(axis))));
    Some(affine)
}

fn is_zero(operand: &Operand) -> bool {
    matches!(operand, Operand::Constant(value) if value.as_f64() == 0.0)
}

impl ForwardProgram {
    /// The formula of the adjoint of the operand at that position of the step at `at`; `None` if it is 0.
    pub(crate) fn rule(&self, accum: &Accum, at: usize, operand: usize) -> Option<Formula> {
        let rule = formula(accum, operand)?;
        if operand != 1 || !self.is_guard(accum, at) {
            return Some(rule);
        }
        let (condition, value) = (Formula::Operand(0), Formula::Operand(1));
        let is_zero = Formula::binary(BinaryOp::Eq, condition, Formula::Number(0.0));
        let is_nan = Formula::binary(BinaryOp::Ne, value.clone(), value);
        let is_hidden = Formula::binary(BinaryOp::And, is_zero, is_nan);
        Some(Formula::select(is_hidden, Formula::Number(0.0), Formula::Adjoint))
    }

    /// Whether an accumulation is `where(x, v, 0)` for a multiple `v` of the element `x`.
    fn is_guard(&self, accum: &Accum, at: usize) -> bool {
        let Rhs::Ternary(TernaryOp::Where, [condition, value, zero]) = &accum.rhs else { return false };
        let index = accum.projections.project_rhs();
        let guarding = condition.node().and_then(|node| self.guarding(accum, node, at));
        is_zero(zero)
            && index[0] == index[1]
            && guarding.zip(value.node()).is_some_and(|(x, v)| self.is_multiple_at(v, at, &x, MAX_DEPTH))
    }

    /// The element of a node that is the condition of the step at `at`.
    fn guarding(&self, accum: &Accum, node: &TensorNode, at: usize) -> Option<Guarding> {
        let writes = self.sources(node);
        let written = writes.iter().filter_map(|node| self.writes_before(node, at).last().copied()).max();
        Some(Guarding { element: Element::new(accum, 0)?, written })
    }

    /// The only step that writes a node, which is before the step at `at`.
    fn definition(&self, node: &TensorNode, at: usize) -> Option<(&Accum, usize)> {
        let [write] = *self.writes_before(node, at) else { return None };
        let [accum] = self.steps()[write].accums() else { return None };
        let is_new = accum.op == AccumOp::Assign || (accum.op == AccumOp::Add && accum.init_neutral);
        let is_at_points =
            accum.projections.project_lhs().len() >= accum.projections.product_iterators().len();
        (is_new && is_at_points).then_some((accum, write))
    }

    /// Whether the elements of a node are multiples of an element, computed since it was written.
    fn is_multiple_at(&self, node: &TensorNode, at: usize, of: &Guarding, depth: usize) -> bool {
        let Some((accum, at)) = self.definition(node, at).filter(|_| depth > 0) else { return false };
        let operands = accum.rhs.operands();
        let is = |position: usize| {
            let Some(element) = Element::new(accum, position) else { return false };
            let is_at_axes = element.is_at_axes();
            let node = operands[position].node().filter(|_| is_at_axes);
            (element == of.element && of.written < Some(at))
                || is_zero(&operands[position])
                || node.is_some_and(|node| self.is_multiple_at(node, at, of, depth - 1))
        };
        match accum.rhs {
            Rhs::Copy(_) | Rhs::Unary(UnaryOp::Neg, _) | Rhs::Binary(BinaryOp::Div, _) => is(0),
            Rhs::Binary(BinaryOp::Mul, _) => is(0) || is(1),
            Rhs::Binary(BinaryOp::Add | BinaryOp::Sub, _) => is(0) && is(1),
            Rhs::Binary(BinaryOp::ReluGate | BinaryOp::Satur01Gate, _) => is(1),
            Rhs::Ternary(TernaryOp::Mul3, _) => (0..3).any(is),
            Rhs::Ternary(TernaryOp::Where, _) => is(1) && is(2),
            _ => false,
        }
    }
}
