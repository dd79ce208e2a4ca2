//! Tangents of the greatest or least of several values, and of their product.

use lowered_ir::ir::BinaryOp;
use tnode::TensorNode;

use crate::Formula;
use crate::access::{Access, Operation, Target};
use crate::error::Result;
use crate::forward_program::filled;
use crate::reductions::only_product;
use crate::statement::{Bindings, Statement};
use crate::tangent::TangentPass;

impl TangentPass<'_> {
    /// The tangent of the greatest or least of several values: the mean tangent of the values equal to it.
    pub(crate) fn extreme(&mut self, statements: &mut [Statement], older: Option<&TensorNode>) -> Result<()> {
        let changes = self.values(statements)?;
        let first = &statements[0].accum;
        let (node, origin, init, op) =
            (first.lhs.clone(), first.origin.clone(), first.init_neutral, first.op);
        let mut whole = self.pass.whole(&node, &origin)?;
        let (count, sum) = (self.pass.like(&node, "ties")?, self.pass.like(&node, "total")?);
        let result = self.pass.tape.temporary_like(&node, "extreme", node.dtype())?;
        if !init {
            self.pass.tape.copy(&node, &result, &origin)?;
        }
        for (position, statement) in statements.iter().enumerate() {
            let target = Target { op, ..statement.sum(&result, init && position == 0) };
            statement.store_values(target, &mut self.pass.tape)?;
        }
        let is_result = Statement::equal(Formula::Operand(0), Formula::Result);
        let counted = Formula::select(is_result.clone(), Formula::Number(1.0), Formula::Number(0.0));
        let added = Formula::select(is_result, Formula::Adjoint, Formula::Number(0.0));
        if !init {
            let old = whole.at_target(&node);
            let zero = Access::number(0.0, sum.dtype());
            let change = older.map_or(zero, |older| whole.at_target(older));
            let values = Some((whole.at_target(&result), [old.clone(), old]));
            let bindings = Bindings { adjoint: change, sparse: false, values };
            for (to, rule) in [(&count, &counted), (&sum, &added)] {
                let target = whole.assigned(to);
                whole.accumulate(target, rule, &bindings, &mut self.pass.tape)?;
            }
        }
        for (position, (statement, change)) in statements.iter_mut().zip(changes).enumerate() {
            let value = statement.accumulated(&mut self.pass.tape)?;
            let read = statement.at_target(&result);
            let bindings =
                Bindings { adjoint: change, sparse: false, values: Some((read, [value.clone(), value])) };
            for (to, rule) in [(&count, &counted), (&sum, &added)] {
                let target = statement.sum(to, init && position == 0);
                statement.accumulate(target, rule, &bindings, &mut self.pass.tape)?;
            }
        }
        // No value is equal to a NaN.
        let at_element = |node: &TensorNode| whole.at_target(node);
        let values = Some((at_element(&result), [at_element(&count), at_element(&count)]));
        let bindings = Bindings { adjoint: at_element(&sum), sparse: false, values };
        let is_none = Statement::equal(Formula::Operand(0), Formula::Number(0.0));
        let mean = Formula::binary(BinaryOp::Div, Formula::Adjoint, Formula::Operand(0));
        let rule = Formula::select(is_none, Formula::Number(0.0), mean);
        let tangent = self.fresh(&node)?;
        let target = whole.assigned(&tangent);
        whole.accumulate(target, &rule, &bindings, &mut self.pass.tape)
    }

    /// The tangent of a product: each factor's tangent times the other factors.
    pub(crate) fn product(
        &mut self,
        statements: &mut [Statement],
        older: Option<&TensorNode>,
        at: usize,
    ) -> Result<()> {
        let changes = self.values(statements)?;
        let statement = only_product(statements)?;
        let (accum, node) = (statement.accum.clone(), statement.accum.lhs.clone());
        let factors = self.pass.factors(statement)?;
        let one = self.pass.like(&node, "one")?;
        self.pass.tape.backward.push(filled(&one, 1.0, &accum.origin));
        let others = self.pass.adjoints_of_factors(&one, false, statement, factors.clone(), at)?;
        let tangent = self.fresh(&node)?;
        if let Some(older) = older {
            self.pass.old_factor(&tangent, older, false, statement, &factors)?;
        }
        let target = Target::sum(&tangent, older.is_none(), &Access::at_target(&tangent, &accum));
        let operands = [changes[0].clone(), Access::at_point(&others, &accum)];
        statement.push(target, Operation::Binary(BinaryOp::Mul), &operands, &mut self.pass.tape)
    }
}
