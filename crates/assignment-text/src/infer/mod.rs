//! Infers the element types of intermediates, and of declared nodes without one.
//!
//! Types follow from values, bottom-up: a node that is written before it is read gets the type to which the
//! first written value promotes; truth values that are accumulated become `i32`. A value of numbers only
//! leaves the type open. The first statement that combines the node with typed values, or writes one to it,
//! then gives it the type that a number would have in its place; if there is none, the type is the node's
//! default, `f32` for intermediates. A later value that does not promote to the inferred type is an error.

mod computing;
mod table;

use tnode::{DType, TensorNode};

use self::table::{TypeTable, has_open_type};
use crate::ast::{ExpandedStep, Fetch, Gradient};
use crate::error::{Result, TextErrorKind, TextGradientError};
use crate::names::{Names, NamesAt, example, written};
use crate::tree::{
    AccessKind, ExprType, NodeAccess, ResolvedExpr, ResolvedExprKind, ResolvedFill, ResolvedGradient,
    ResolvedProgram, ResolvedStatement, StepKind,
};
use crate::types::{accumulated_type, either_type, operand_type, type_of};
use assignments::AccumOp;
use lowered_ir::ir::TernaryOp;
use lowered_ir::random::Distribution;
use lowered_ir::{SourceSpan, SourceText};

/// Infers the types of the nodes of a program.
pub(crate) fn infer(program: ResolvedProgram, names: &Names, text: &SourceText) -> ResolvedProgram {
    let mut types = TypeTable::default();
    let program = program.each(|at, step| {
        let mut inference = StepInference { names: names.at(at), types: &mut types, text };
        match (&mut step.kind, &step.source) {
            (StepKind::Ranged(statement, _), _) => inference.statement(statement),
            (StepKind::Fill(fill), _) => {
                inference.fill(fill);
                Ok(())
            }
            (StepKind::Gradient(resolved), ExpandedStep::Gradient(gradient)) => {
                inference.gradient(resolved, gradient)
            }
            (StepKind::Gradient(_) | StepKind::Detach(_) | StepKind::ScanStart(_) | StepKind::ScanEnd, _) => {
                Ok(())
            }
        }
    });
    types.settle_rest();
    program
}

/// Infers the types that one step determines.
struct StepInference<'a> {
    names: NamesAt<'a>,
    types: &'a mut TypeTable,
    text: &'a SourceText,
}

impl StepInference<'_> {
    fn statement(&mut self, statement: &mut ResolvedStatement) -> Result<()> {
        for letter in &mut statement.letters {
            letter.node = letter.node.take().filter(is_integer_number);
        }
        let types = &*self.types;
        statement.each_source_mut(&mut |read| read.literals = types.numbers(&read.node));
        statement.lhs.iter_mut().for_each(|target| target.literals = types.numbers(&target.node));
        self.check_accesses(statement)?;
        computing::convert(statement, self.names, self.types);
        self.types(statement)
    }

    /// Checks the types of computed indices, and that padding is a number of the type of the node.
    fn check_accesses(&self, statement: &ResolvedStatement) -> Result<()> {
        let mut result = Ok(());
        statement.each_access(&mut |access| {
            if result.is_ok() {
                result = self.check_access(access);
            }
        });
        result
    }

    fn check_access(&self, access: &NodeAccess) -> Result<()> {
        if let Some(computed) = &access.computed {
            let dtype = type_of(&computed.value).or(DType::I32);
            if !dtype.is_integer() {
                let (node, axis) = (access.node.name(), computed.axis);
                return Err(TextErrorKind::IndexType { node, axis, dtype }.at(&computed.value.span));
            }
        }
        match &access.how {
            AccessKind::Padded(outside, span) => {
                outside.checked(access.node.dtype(), self.text, span).map(|_| ())
            }
            AccessKind::Lhs | AccessKind::Plain | AccessKind::Merge => Ok(()),
        }
    }

    /// Infers the types of the targets, and of the nodes of numbers that the statement reads.
    fn types(&mut self, statement: &ResolvedStatement) -> Result<()> {
        // The earlier values of a node that is read come from elsewhere, so the statements do not give its
        // type.
        statement.each_source(&mut |read| {
            if read.literals.is_none() {
                read.node.dtype();
            }
        });
        let starts = statement.init || statement.op == AccumOp::Assign;
        for target in &statement.lhs {
            if !starts && target.literals.is_none() {
                target.node.dtype();
            }
        }
        let open = |target: &&NodeAccess| has_open_type(&target.node);
        let settled = statement.lhs.iter().find(|target| !open(target)).map(|target| target.node.dtype());
        let mut contexts = Vec::new();
        for value in &statement.rhs {
            let wanted = settled.unwrap_or_else(|| type_of(value).or(DType::F32));
            literal_contexts(value, wanted, wanted, &mut contexts);
        }
        for computed in statement.lhs.iter().filter_map(|target| target.computed.as_ref()) {
            literal_contexts(&computed.value, DType::I32, DType::I32, &mut contexts);
        }
        let is_fraction = |value: &ResolvedExpr| type_of(value) == ExprType::Fraction;
        let stays_open = settled.is_none() && statement.rhs.iter().all(is_fraction);
        for (node, dtype) in contexts {
            match statement.lhs.first() {
                Some(target) if stays_open && self.types.numbers(&node) == Some(ExprType::Fraction) => {
                    self.types.add_part(&target.node, node);
                }
                _ => self.types.settle(&node, dtype, statement.span.start),
            }
        }
        let value = statement.rhs.iter().map(|value| accumulated_type(statement.op, type_of(value)));
        let Some(value) = value.reduce(either_type) else { return Ok(()) };
        let value = if computing::is_open(statement, value) { ExprType::Fraction } else { value };
        for target in &statement.lhs {
            match has_open_type(&target.node) {
                true => self.types.write(&target.node, value, statement.span.start),
                false => self.check_type(&target.node, value, statement)?,
            }
        }
        Ok(())
    }

    /// Rejects a value that does not promote to the type which an earlier statement gave its target.
    fn check_type(&self, node: &TensorNode, value: ExprType, statement: &ResolvedStatement) -> Result<()> {
        let (Some(typed_at), present) = (self.types.typed_at(node), node.dtype()) else { return Ok(()) };
        let found = match value {
            ExprType::Known(found) => found,
            ExprType::Widened if !present.is_float() => DType::F32,
            _ => return Ok(()),
        };
        if present.promote(found) == present {
            return Ok(());
        }
        let name = node.name();
        let dims = node.dims_without_padding().unwrap_or_default();
        let known: Vec<Option<usize>> = dims.iter().copied().map(Some).collect();
        let example = example(&written(node), present.promote(found), &known);
        let line = SourceSpan::new(self.text.clone(), typed_at..typed_at).line();
        let span = statement.rhs.first().map_or(statement.span.clone(), |value| value.span.clone());
        Err(TextErrorKind::TypeConflict { node: name, present, line, found, example }.at(&span))
    }

    /// Infers the type of a node that a function fills.
    fn fill(&mut self, fill: &ResolvedFill) {
        let dtype = fill.of.as_ref().map(TensorNode::dtype);
        let Some(fetch) = &fill.statement.fetch else { return };
        let value = match fetch {
            Fetch::Offsets | Fetch::SelfId => ExprType::Integer,
            Fetch::Values(numbers) => match numbers.iter().all(|(number, _)| number.int.is_some()) {
                true => ExprType::Integer,
                false => ExprType::Fraction,
            },
            Fetch::Random(call) if call.distribution != Distribution::Bits => ExprType::Fraction,
            Fetch::SampleValues { .. } => ExprType::Fraction,
            Fetch::Order { .. } => ExprType::Known(DType::I32),
            Fetch::Slice { .. } => ExprType::Known(dtype.unwrap_or(DType::F32)),
            // The bits mean nothing without a type.
            Fetch::Bits(..) | Fetch::Random(_) => ExprType::Known(fill.node.dtype()),
        };
        if has_open_type(&fill.node) {
            self.types.write(&fill.node, value, fill.statement.span.start);
        }
    }

    /// Infers the types of the nodes that receive derivatives: floats, as the loss and the parameters are.
    fn gradient(&mut self, resolved: &ResolvedGradient, source: &Gradient) -> Result<()> {
        self.types.settle_numbers(&resolved.loss, DType::F32, source.span.start);
        let dtype = resolved.loss.dtype();
        if !dtype.is_float() {
            let (name, dims) = (source.loss.name.clone(), Vec::new());
            let kind = TextErrorKind::from(TextGradientError::Loss { name, dtype, dims });
            return Err(kind.at(&source.loss.span));
        }
        for parameter in &resolved.parameters {
            let span = &source.parameters[parameter.access].span;
            let float = |node: &TensorNode, name: &String| match node.dtype() {
                dtype if dtype.is_float() => Ok(dtype),
                dtype => {
                    let kind = TextGradientError::Integer { name: name.clone(), dtype };
                    Err(TextErrorKind::from(kind).at(span))
                }
            };
            let dtype = float(&parameter.node, &parameter.name)?.promote(DType::F32);
            let receiver = &parameter.receiver;
            match parameter.is_new {
                true => receiver.update_dtype(dtype).map_err(|error| TextErrorKind::from(error).at(span))?,
                false => self.types.settle_open(receiver, dtype, span.start),
            }
            float(receiver, &parameter.receiver_name)?;
        }
        Ok(())
    }
}

/// Whether the node is an integer without axes.
fn is_integer_number(node: &TensorNode) -> bool {
    node.dtype().is_integer() && node.dims_without_padding().is_ok_and(|dims| dims.is_empty())
}

/// The nodes of numbers in an expression, each with the type of its place. `wanted` is the type of the
/// expression's place and `written` that of the node written.
fn literal_contexts(tree: &ResolvedExpr, wanted: DType, written: DType, into: &mut Vec<(TensorNode, DType)>) {
    let children = match &tree.kind {
        ResolvedExprKind::NodeAccess(read) => {
            if let Some(literals) = read.literals {
                into.push((read.node.clone(), literals.or(wanted)));
            }
            if let Some(computed) = &read.computed {
                literal_contexts(&computed.value, DType::I32, DType::I32, into);
            }
            return;
        }
        ResolvedExprKind::Cast(to, a) => return literal_contexts(a, *to, *to, into),
        ResolvedExprKind::Ternary(TernaryOp::Where, args) => {
            literal_contexts(&args[0], DType::Bool, written, into);
            &args[1..]
        }
        _ => tree.children(),
    };
    let common = operand_type(tree, wanted, written);
    children.iter().for_each(|child| literal_contexts(child, common, written, into));
}
