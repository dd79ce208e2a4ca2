//! One accumulation of the program as the backward pass sees it: the values of its operands and its result,
//! and new statements over the same points.

use std::collections::BTreeMap;

use assignments::indexing::AxisIndex;
use assignments::{
    Accum, AccumOp, Operand, Origin, ProgramStep, Rhs, binary_dtype, ternary_dtype, unary_dtype,
};
use lowered_ir::ir::{Affine, BinaryOp, LoopId, SymbolId, UnaryOp};
use tnode::{DType, RunSizes, Scalar, TensorNode};

use crate::Formula;
use crate::access::{Access, Operation, Target, derived, each_element};
use crate::error::Result;
use crate::forward_program::ForwardProgram;
use crate::name_supply::numbered;
use crate::recompute::Recomputation;
use crate::scans::OpenScan;

/// The program and the steps of the backward pass so far.
pub(crate) struct Tape {
    pub(crate) forward: ForwardProgram,
    pub(crate) backward: Vec<ProgramStep>,
    /// The values of the program that the backward pass computes again.
    pub(crate) recomputation: Recomputation,
    /// The scan whose derivative the backward pass makes.
    pub(crate) scan: Option<OpenScan>,
    /// The bytes that each scan stores for every step, or every step of a segment.
    pub(crate) stored_bytes: BTreeMap<SymbolId, u64>,
}

impl Tape {
    /// A backward pass without steps.
    pub(crate) fn new(forward: ForwardProgram) -> Tape {
        let (recomputation, stored_bytes) = Default::default();
        Tape { forward, backward: Vec::new(), recomputation, scan: None, stored_bytes }
    }

    /// A new node for values that only the backward pass uses.
    pub(crate) fn temporary(&mut self, name: &str, dims: &[usize], dtype: DType) -> Result<TensorNode> {
        self.sized_temporary(name, dims, RunSizes::new(), dtype)
    }

    /// A new node with the dimensions of another one, for values that only the backward pass uses.
    pub(crate) fn temporary_like(
        &mut self,
        node: &TensorNode,
        name: &str,
        dtype: DType,
    ) -> Result<TensorNode> {
        self.sized_temporary(name, &node.dims_without_padding()?, node.run_sizes().into(), dtype)
    }

    fn sized_temporary(
        &mut self,
        name: &str,
        dims: &[usize],
        sizes: RunSizes,
        dtype: DType,
    ) -> Result<TensorNode> {
        let name = self.forward.names.unused(|number| numbered(name, number));
        Ok(TensorNode::builder(name).dims(dims.iter().copied()).run_sizes(sizes).dtype(dtype).build()?)
    }

    /// A new node for the adjoint of a node.
    pub(crate) fn adjoint_of(&mut self, node: &TensorNode) -> Result<TensorNode> {
        let name = plain_name(node);
        let name = self.forward.names.unused(|number| format!("{}.grad", numbered(&name, number)));
        gradient_named(name.trim_end_matches(".grad"), node)
    }

    /// Appends a step that copies a node.
    pub(crate) fn copy(&mut self, from: &TensorNode, to: &TensorNode, origin: &Origin) -> Result<()> {
        let points = each_element(to, &to.dims_without_padding()?, origin);
        let statement = Statement::new(&points, self.forward.steps().len(), true, self)?;
        statement.push(statement.assigned(to), Operation::Copy, &[statement.at_target(from)], self)
    }
}

/// The name of a node as one part of a label.
pub(crate) fn plain_name(node: &TensorNode) -> String {
    node.name().replace('.', "_")
}

/// A node for the gradient by a node, with the name of that node and `.grad` behind it.
pub(crate) fn gradient_node(node: &TensorNode) -> Result<TensorNode> {
    gradient_named(&plain_name(node), node)
}

fn gradient_named(name: &str, node: &TensorNode) -> Result<TensorNode> {
    let gradient = TensorNode::builder(["grad", name]).dims(node.dims_without_padding()?);
    Ok(gradient.run_sizes(node.run_sizes().into()).dtype(gradient_dtype(node.dtype())).build()?)
}

/// An accumulation of the program.
pub(crate) struct Statement {
    pub(crate) accum: Accum,
    /// The position of its step.
    pub(crate) at: usize,
    /// Whether the step writes each element of the target at most once.
    pub(crate) once: bool,
    /// The operands that compute indices.
    computing: BTreeMap<usize, Access>,
    /// The result of the operation, if a formula has needed it.
    result: Option<Access>,
}

/// The values of the names in a formula.
#[derive(Clone)]
pub(crate) struct Bindings {
    /// The adjoint of the result.
    pub(crate) adjoint: Access,
    /// Whether parts of the adjoint may be 0 because the loss does not depend on them, while the operands
    /// are infinite.
    pub(crate) sparse: bool,
    /// The result and the operands of the operation, if they are not the statement's own.
    pub(crate) values: Option<(Access, [Access; 2])>,
}

/// The type in which gradients of a node of type `dtype` are computed: at least f32.
pub(crate) fn gradient_dtype(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

impl Statement {
    pub(crate) fn new(accum: &Accum, at: usize, once: bool, tape: &mut Tape) -> Result<Statement> {
        let mut statement =
            Statement { accum: accum.clone(), at, once, computing: BTreeMap::new(), result: None };
        let indices = accum.projections.project_rhs().iter().flatten().chain(accum.projections.project_lhs());
        let positions: Vec<usize> = indices.filter_map(AxisIndex::computed).collect();
        for position in positions {
            let access = statement.operand(position, tape)?;
            statement.computing.extend(access.map(|access| (position, access)));
        }
        Ok(statement)
    }

    /// Another node at the indices of the node that the statement writes.
    pub(crate) fn at_target(&self, node: &TensorNode) -> Access {
        Access::at_target(node, &self.accum)
    }

    /// A node with one element per point.
    pub(crate) fn at_point(&self, node: &TensorNode) -> Access {
        Access::at_point(node, &self.accum)
    }

    /// A sum into another node at the indices of the node that the statement writes.
    pub(crate) fn sum(&self, node: &TensorNode, init_neutral: bool) -> Target {
        Target::sum(node, init_neutral, &self.at_target(node))
    }

    /// An assignment to another node at the indices of the node that the statement writes.
    pub(crate) fn assigned(&self, node: &TensorNode) -> Target {
        Target { op: AccumOp::Assign, ..self.sum(node, false) }
    }

    /// The value that an operand had when the statement ran.
    pub(crate) fn operand(&self, position: usize, tape: &mut Tape) -> Result<Option<Access>> {
        let Some(mut access) = Access::of_operand(&self.accum, position) else { return Ok(None) };
        let is_computed = access.index.iter().any(|index| index.computed().is_some());
        access.operand = match access.operand {
            Operand::Node(node) => {
                let value = tape.value_before(&node, self.at)?;
                match node.padding() {
                    // The values outside do not depend on the statement that reads them.
                    Some(_) if !is_computed => {
                        Operand::Padded { outside: self.margin(&node, &tape.forward), node: value }
                    }
                    _ if is_computed => {
                        Operand::Padded { node: value, outside: self.accum.outside(position) }
                    }
                    _ => Operand::Node(value),
                }
            }
            Operand::Padded { node, outside } => {
                Operand::Padded { node: tape.value_before(&node, self.at)?, outside }
            }
            operand => operand,
        };
        Ok(Some(access))
    }

    /// The value that this statement reads in the margins of a node.
    fn margin(&self, node: &TensorNode, program: &ForwardProgram) -> Scalar {
        match (program.reader(&self.accum), node.padding().and_then(|padding| padding.neutral)) {
            (AccumOp::Assign, Some(neutral)) => Scalar::from_f64(node.dtype(), neutral),
            (AccumOp::Assign, None) => Scalar::zero(node.dtype()),
            (op, _) => op.neutral(node.dtype()),
        }
    }

    /// The result of the operation at each point: the element that the statement stores, if it stores the
    /// result itself, else a new array.
    pub(crate) fn result(&mut self, tape: &mut Tape) -> Result<Access> {
        if let Some(result) = &self.result {
            return Ok(result.clone());
        }
        let accum = &self.accum;
        let is_stored = !tape.forward.is_in_order()
            && self.once
            && (accum.op == AccumOp::Assign || (accum.init_neutral && accum.op == AccumOp::Add))
            && accum.lhs.dtype() == accum.rhs.dtype()
            && accum.projections.project_lhs().iter().all(|index| index.computed().is_none());
        let result = match is_stored {
            true => Access::at_target(&tape.value_before(&accum.lhs, self.at + 1)?, accum),
            false => self.value_at_points(accum.rhs.dtype(), tape)?,
        };
        self.result = Some(result.clone());
        Ok(result)
    }

    /// The value that the statement accumulates at each point, in the type of the node written: the operand
    /// itself, or a new array.
    pub(crate) fn accumulated(&mut self, tape: &mut Tape) -> Result<Access> {
        let dtype = self.accum.lhs.dtype();
        if matches!(self.accum.rhs, Rhs::Copy(_))
            && self.accum.rhs.dtype() == dtype
            && let Some(operand) = self.operand(0, tape)?
        {
            return Ok(operand);
        }
        self.value_at_points(dtype, tape)
    }

    /// A new array with the result of the operation at each point.
    fn value_at_points(&self, dtype: DType, tape: &mut Tape) -> Result<Access> {
        let node = self.temporary("value", dtype, tape)?;
        self.store_values(Target::at_point(&node, &self.accum), tape)?;
        Ok(self.at_point(&node))
    }

    /// Appends an accumulation of the values that the statement accumulates.
    pub(crate) fn store_values(&self, target: Target, tape: &mut Tape) -> Result<()> {
        let accum = self.stored_values(target, tape)?;
        tape.backward.push(ProgramStep::Accum(Box::new(accum)));
        Ok(())
    }

    /// An accumulation of the values that the statement accumulates.
    pub(crate) fn stored_values(&self, target: Target, tape: &mut Tape) -> Result<Accum> {
        let operation = match &self.accum.rhs {
            Rhs::Copy(_) => Operation::Copy,
            Rhs::Unary(op, _) => Operation::Unary(*op),
            Rhs::Binary(op, _) => Operation::Binary(*op),
            Rhs::Ternary(op, _) => Operation::Ternary(*op),
        };
        let mut operands = Vec::new();
        for position in 0..self.accum.rhs.operands().len() {
            operands.extend(self.operand(position, tape)?);
        }
        self.derived(target, operation, &operands)
    }

    /// A new node with one element per point.
    pub(crate) fn temporary(&self, name: &str, dtype: DType, tape: &mut Tape) -> Result<TensorNode> {
        tape.sized_temporary(name, self.accum.projections.product_space(), self.accum.run_sizes(), dtype)
    }

    /// Appends an accumulation over the points of this statement.
    pub(crate) fn push(
        &self,
        target: Target,
        operation: Operation,
        operands: &[Access],
        tape: &mut Tape,
    ) -> Result<()> {
        let accum = self.derived(target, operation, operands)?;
        tape.backward.push(ProgramStep::Accum(Box::new(accum)));
        Ok(())
    }

    /// An accumulation over the points of this statement.
    fn derived(&self, target: Target, operation: Operation, operands: &[Access]) -> Result<Accum> {
        let values = |position| self.computing.get(&position).cloned();
        derived(&self.accum, values, target, operation, operands)
    }

    /// Appends the accumulation of a formula. Operations in it become new arrays, which the optimizer may
    /// inline.
    pub(crate) fn accumulate(
        &mut self,
        mut target: Target,
        formula: &Formula,
        bindings: &Bindings,
        tape: &mut Tape,
    ) -> Result<()> {
        let (operation, operands) = match formula {
            Formula::Unary(UnaryOp::Neg, of) if target.op == AccumOp::Add => {
                target.op = AccumOp::Sub;
                return self.accumulate(target, of, bindings, tape);
            }
            Formula::Adjoint | Formula::Result | Formula::Operand(_) | Formula::Number(_) => {
                (Operation::Copy, std::slice::from_ref(formula))
            }
            Formula::Unary(op, of) => (Operation::Unary(*op), std::slice::from_ref(of.as_ref())),
            Formula::Binary(op, of) => (Operation::Binary(*op), &of[..]),
            Formula::Ternary(op, of) => (Operation::Ternary(*op), &of[..]),
        };
        let mut accesses = Vec::new();
        for operand in operands {
            accesses.push(self.value(operand, bindings, tape)?);
        }
        self.push(target, operation, &accesses, tape)
    }

    /// The value of a formula at each point.
    pub(crate) fn value(
        &mut self,
        formula: &Formula,
        bindings: &Bindings,
        tape: &mut Tape,
    ) -> Result<Access> {
        Ok(match (formula, &bindings.values) {
            (Formula::Adjoint, _) => bindings.adjoint.clone(),
            (Formula::Result, Some((result, _))) => result.clone(),
            (Formula::Result, None) => self.result(tape)?,
            (Formula::Operand(at), Some((_, operands))) => operands[*at].clone(),
            (Formula::Operand(at), None) => match self.operand(*at, tape)? {
                Some(access) => access,
                None => Access::number(0.0, bindings.adjoint.operand.dtype()),
            },
            (Formula::Number(value), _) => Access::number(*value, bindings.adjoint.operand.dtype()),
            (Formula::Unary(..) | Formula::Binary(..) | Formula::Ternary(..), _) => {
                let dtype = self.dtype(formula, bindings);
                let node = self.temporary("factor", dtype, tape)?;
                let target = Target::at_point(&node, &self.accum);
                self.accumulate(target, formula, bindings, tape)?;
                self.at_point(&node)
            }
        })
    }

    /// The type of a formula: that of its operation, at least f32 for floats.
    fn dtype(&self, formula: &Formula, bindings: &Bindings) -> DType {
        let of = |formula: &Formula| self.dtype(formula, bindings);
        let dtype = match (formula, &bindings.values) {
            (Formula::Adjoint | Formula::Number(_), _) => bindings.adjoint.operand.dtype(),
            (Formula::Result, Some((result, _))) => result.operand.dtype(),
            (Formula::Result, None) => self.accum.rhs.dtype(),
            (Formula::Operand(at), Some((_, operands))) => operands[*at].operand.dtype(),
            (Formula::Operand(at), None) => {
                self.accum.rhs.operands().get(*at).map_or(DType::F32, Operand::dtype)
            }
            (Formula::Unary(op, a), _) => unary_dtype(*op, of(a)),
            (Formula::Binary(op, operands), _) => {
                let [a, b] = operands.as_ref();
                op.result(binary_dtype(*op, of(a), of(b)))
            }
            (Formula::Ternary(op, operands), _) => {
                let [a, b, c] = operands.as_ref();
                ternary_dtype(*op, of(a), of(b), of(c))
            }
        };
        if dtype.is_float() { gradient_dtype(dtype) } else { dtype }
    }

    /// The formula, guarded where its adjoint may be 0 while a factor is infinite. Sums of plain products are
    /// left as they are.
    pub(crate) fn guarded(&self, formula: Formula, bindings: &Bindings) -> Formula {
        let mentions = |&id: &LoopId| bindings.adjoint.index.iter().any(|index| index.affine().mentions(id));
        let is_sum = !self.accum.projections.product_iterators().iter().all(mentions);
        let is_kept = formula.selects() || (is_sum && formula.is_plain_product());
        if bindings.sparse && !is_kept { formula.guarded() } else { formula }
    }

    /// The position of each point in the order in which the statement visits the points.
    pub(crate) fn point_number(&self) -> Access {
        let projections = &self.accum.projections;
        let axes = projections.product_iterators().iter().zip(projections.product_space());
        let number = axes.fold(Affine::constant(0), |number, (&iterator, &extent)| {
            number.times(i64::try_from(extent).unwrap_or(i64::MAX)).plus(&Affine::var(iterator))
        });
        Access::new(Operand::Index(DType::I64), &[1], &[AxisIndex::new(number)])
    }

    /// The condition that two values are equal.
    pub(crate) fn equal(a: Formula, b: Formula) -> Formula {
        Formula::binary(BinaryOp::Eq, a, b)
    }
}
