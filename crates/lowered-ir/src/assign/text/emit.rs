//! From resolved statements to assignments.
//!
//! An operation on operands that are elements of nodes, numbers or index values is one accumulation. Every deeper
//! operation gets a node of its own, specified to be virtual, over the letters that occur in it.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{DType, Dims, MemoryMode, Reason, Scalar, TensorNode};

use super::ast::Number;
use super::error::{Located, Span, TextErrorKind};
use super::resolve::{How, Read, Resolved, Tree, TreeKind};
use super::types::{operand_type, type_of};
use crate::assign::{Accum, AccumOp, Operand, Rhs, Step, identifier};
use crate::indexing::{AxisIndex, Indexed, Projection, Projections, axis_iterator};
use crate::ir::{Affine, TernaryOp, Var};

/// Appends the steps of a statement whose letters have these ranges.
pub(super) fn emit(
    statement: &Resolved,
    ranges: &[i64],
    text: &str,
    steps: &mut Vec<Step>,
) -> Result<(), Located> {
    let mut emitter = Emitter { ranges, text, steps };
    let lhs = &statement.lhs;
    let all: Vec<usize> = (0..ranges.len()).collect();
    let target = (lhs.dims.clone(), lhs.index.iter().map(|(index, _)| index.clone()).collect());
    let writes = emitter.projections(&all, Accessed::clone(&target), Vec::new(), &lhs.span);
    check_reduction(statement, &writes)?;
    check_self_reads(statement, &writes)?;
    let (rhs, operands) = emitter.rhs(&statement.rhs, lhs.node.dtype())?;
    let projections = emitter.projections(&all, target, operands, &statement.rhs.span);
    let (init_neutral, op) = (statement.init, statement.op);
    emitter.steps.push(Step::Accum(Box::new(Accum {
        init_neutral,
        op,
        lhs: lhs.node.clone(),
        rhs,
        projections,
    })));
    Ok(())
}

/// A plain assignment stores one value per element.
fn check_reduction(statement: &Resolved, writes: &Projections) -> Result<(), Located> {
    if statement.op != AccumOp::Assign {
        return Ok(());
    }
    let node = statement.lhs.node.name();
    match statement.letters.get(statement.lhs_letters) {
        Some(letter) => {
            let letter = letter.name.clone();
            Err(TextErrorKind::NotReduced { letter, node }.at(statement.op_span.clone()))
        }
        None if !writes.is_injective() => Err(TextErrorKind::Overlap { node }.at(statement.lhs.span.clone())),
        None => Ok(()),
    }
}

/// A node may be read in a statement that writes it only at the element being written, once: else the value would
/// depend on the order of the loops.
fn check_self_reads(statement: &Resolved, writes: &Projections) -> Result<(), Located> {
    let lhs = &statement.lhs;
    let mut refused: Option<Located> = None;
    statement.rhs.each_read(&mut |read| {
        if refused.is_some() || matches!(read.how, How::Merge) || read.node != lhs.node {
            return;
        }
        let same = read.index.iter().map(|(i, _)| i).eq(lhs.index.iter().map(|(i, _)| i));
        let why = if statement.init {
            "its values are replaced by the neutral element first"
        } else if !writes.is_injective() {
            "an element may be written more than once"
        } else if !same || matches!(read.how, How::Padded(_)) {
            "the element read is not the one written"
        } else {
            return;
        };
        refused = Some(TextErrorKind::SelfRead { node: read.node.name(), why }.at(read.span.clone()));
    });
    refused.map_or(Ok(()), Err)
}

/// The dimensions and the indices, in letters of the statement, of an operand.
type Accessed = (Dims, Vec<Affine>);

struct Emitter<'a> {
    ranges: &'a [i64],
    text: &'a str,
    steps: &'a mut Vec<Step>,
}

impl Emitter<'_> {
    /// The expression as one operation; `wanted` is the type of what has none, such as numbers.
    fn rhs(&mut self, tree: &Tree, wanted: DType) -> Result<(Rhs, Vec<Accessed>), Located> {
        let common = operand_type(tree, wanted);
        match &tree.kind {
            TreeKind::Number(_) | TreeKind::Index(_) | TreeKind::Read(_) => {
                let (operand, accessed) = self.operand(tree, wanted)?;
                Ok((Rhs::Copy(operand), vec![accessed]))
            }
            TreeKind::Cast(to, a) if *to == wanted => self.rhs(a, wanted),
            TreeKind::Cast(..) => {
                let (operand, accessed) = self.operand(tree, wanted)?;
                Ok((Rhs::Copy(operand), vec![accessed]))
            }
            TreeKind::Unary(op, a) => {
                let (operand, accessed) = self.operand(a, common)?;
                Ok((Rhs::Unary(*op, operand), vec![accessed]))
            }
            TreeKind::Binary(op, args) => {
                let (a, at_a) = self.operand(&args[0], common)?;
                let (b, at_b) = self.operand(&args[1], common)?;
                Ok((Rhs::Binary(*op, [a, b]), vec![at_a, at_b]))
            }
            TreeKind::Ternary(op, args) => {
                let first = if *op == TernaryOp::Where { DType::Bool } else { common };
                let (a, at_a) = self.operand(&args[0], first)?;
                let (b, at_b) = self.operand(&args[1], common)?;
                let (c, at_c) = self.operand(&args[2], common)?;
                Ok((Rhs::Ternary(*op, [a, b, c]), vec![at_a, at_b, at_c]))
            }
        }
    }

    /// The expression as an operand; operations become virtual nodes.
    fn operand(&mut self, tree: &Tree, wanted: DType) -> Result<(Operand, Accessed), Located> {
        match &tree.kind {
            TreeKind::Number(number) => {
                let value = self.number(*number, type_of(tree).or(wanted), &tree.span)?;
                Ok((Operand::Constant(value), Default::default()))
            }
            TreeKind::Index(index) => {
                let dtype = self.index_type(index, wanted, &tree.span)?;
                Ok((Operand::Index(dtype), (Dims::from_slice(&[1]), vec![index.clone()])))
            }
            TreeKind::Read(read) => self.read(read),
            TreeKind::Cast(to, a) => self.virtual_node(tree, a, *to),
            TreeKind::Unary(..) | TreeKind::Binary(..) | TreeKind::Ternary(..) => {
                self.virtual_node(tree, tree, type_of(tree).or(wanted))
            }
        }
    }

    fn read(&self, read: &Read) -> Result<(Operand, Accessed), Located> {
        let node = read.node.clone();
        let operand = match read.how {
            How::Lhs | How::Plain => Operand::Node(node),
            How::Merge => Operand::MergeBuffer(node),
            How::Padded(outside) => {
                let outside = self.number(outside, read.node.dtype(), &read.span)?;
                Operand::Padded { node, outside }
            }
        };
        Ok((operand, (read.dims.clone(), read.index.iter().map(|(index, _)| index.clone()).collect())))
    }

    /// A number in a type that has it.
    fn number(&self, number: Number, dtype: DType, span: &Span) -> Result<Scalar, Located> {
        let scalar = match number.int {
            Some(int) => Scalar::from_i64(dtype, int),
            None => Scalar::from_f64(dtype, number.value),
        };
        let fits = match (dtype.is_float(), number.int) {
            (true, _) => scalar.as_f64().is_finite() || !number.value.is_finite(),
            (false, Some(int)) => scalar.as_i64() == int || dtype == DType::Bool,
            (false, None) => false,
        };
        let value = || self.text.get(span.clone()).unwrap_or_default().to_owned();
        if fits { Ok(scalar) } else { Err(TextErrorKind::Literal { value: value(), dtype }.at(span.clone())) }
    }

    /// `i32`, which must have all values of the index, unless `i64` is wanted.
    fn index_type(&self, index: &Affine, wanted: DType, span: &Span) -> Result<DType, Located> {
        let bounds = index.bounds(|var| match var {
            Var::Loop(id) => (0, self.ranges[id.index()].max(1) - 1),
            Var::Symbol(_) => (0, 0),
        });
        let fits = |v: i64| i32::try_from(v).is_ok();
        match bounds {
            _ if wanted == DType::I64 => Ok(DType::I64),
            Some((lo, hi)) if fits(lo) && fits(hi) => Ok(DType::I32),
            _ => {
                let value = self.text.get(span.clone()).unwrap_or_default().to_owned();
                Err(TextErrorKind::Literal { value, dtype: DType::I32 }.at(span.clone()))
            }
        }
    }

    /// A virtual node of type `dtype` that holds the values of `value` for all letters in it; `whole` is the
    /// subexpression it stands for.
    fn virtual_node(
        &mut self,
        whole: &Tree,
        value: &Tree,
        dtype: DType,
    ) -> Result<(Operand, Accessed), Located> {
        let mut letters = BTreeSet::new();
        value.letters(&mut letters);
        let letters: Vec<usize> = letters.into_iter().collect();
        let (rhs, operands) = self.rhs(value, dtype)?;
        let dims: Dims = letters.iter().map(|&k| usize::try_from(self.ranges[k]).unwrap_or(0)).collect();
        let node = self.make_node(whole, &dims, dtype)?;
        let index: Vec<Affine> = letters.iter().map(|&k| Affine::var(axis_iterator(k))).collect();
        let projections = self.projections(&letters, (dims.clone(), index.clone()), operands, &whole.span);
        let lhs = node.clone();
        self.steps.push(Step::Accum(Box::new(Accum {
            init_neutral: false,
            op: AccumOp::Assign,
            lhs,
            rhs,
            projections,
        })));
        Ok((Operand::Node(node), (dims, index)))
    }

    fn make_node(&self, whole: &Tree, dims: &Dims, dtype: DType) -> Result<TensorNode, Located> {
        let source = self.text.get(whole.span.clone()).unwrap_or_default();
        let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
        let reason = Reason::new(format!("it is the value of the subexpression `{source}`"));
        let node = TensorNode::builder(identifier(&source)).dims(dims.iter().copied()).dtype(dtype);
        let node = node.mode_because(MemoryMode::Virtual, reason).build();
        node.map_err(|error| TextErrorKind::from(error).at(whole.span.clone()))
    }

    /// Projections over the product of some letters, in order; all indices mention those alone.
    fn projections(&self, letters: &[usize], lhs: Accessed, rhs: Vec<Accessed>, span: &Span) -> Projections {
        let axes: Vec<usize> =
            letters.iter().map(|&k| usize::try_from(self.ranges[k]).unwrap_or(0)).collect();
        let axis: BTreeMap<usize, usize> = letters.iter().enumerate().map(|(axis, &k)| (k, axis)).collect();
        let renamed = |index: &Affine| {
            let start = Affine::constant(index.offset());
            AxisIndex::new(index.terms().iter().fold(start, |sum, &(var, coefficient)| {
                let var = match var {
                    Var::Loop(id) => Var::Loop(axis_iterator(axis[&id.index()])),
                    Var::Symbol(_) => var,
                };
                sum.plus(&Affine::term(var, coefficient))
            }))
        };
        let indexed = |(dims, index): Accessed| -> Indexed {
            (dims, index.iter().map(renamed).collect::<Projection>())
        };
        let source = self.text.get(span.clone()).unwrap_or_default();
        Projections::new(&axes, indexed(lhs), rhs.into_iter().map(indexed).collect(), source).expect(
            "ranks were checked when names were resolved, and letters were collected from these indices",
        )
    }
}
