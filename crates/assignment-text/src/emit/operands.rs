//! Expressions as operands.
//!
//! An operation whose operands are elements of nodes, numbers or index values becomes one accumulation. Each
//! subexpression with a further operation is assigned to a new virtual node, over the letters that occur in
//! it, unless its operands are numbers.

use tnode::{DType, Dims, MemoryMode, Reason, RunSizes, Scalar, TensorNode};

use super::component::{StatementComponent, collected};
use super::projections::{LetterSpace, OperandAccess};
use crate::error::{Result, TextErrorKind};
use crate::source::{excerpt, on_one_line};
use crate::tree::{AccessKind, NodeAccess, ResolvedExpr, ResolvedExprKind, ResolvedStatement};
use crate::types::{is_widened, operand_type, type_of};
use assignments::indexing::axis_iterator;
use assignments::{Accum, AccumOp, ByteRange, Operand, Origin, ProgramStep, Rhs, identifier};
use lowered_ir::SourceSpan;
use lowered_ir::ir::{Affine, TernaryOp, Var};
use lowered_ir::passes::decide_modes::SUBEXPRESSION_REASON;

/// The operands of an accumulation: first the operands of the operation, then the operands that compute
/// indices.
#[derive(Default)]
struct OperandList {
    own: Vec<OperandAccess>,
    /// The number of operands of the operation.
    arity: usize,
    /// The operands that compute indices. An entry is `None` until the operand's own index is converted,
    /// because an operand that computes this index is appended behind the entry.
    computing: Vec<Option<(Operand, OperandAccess)>>,
}

impl OperandList {
    /// The operands that compute indices, and the accesses of all operands in order.
    fn finish(self) -> (Vec<Operand>, Vec<OperandAccess>) {
        let (computed, accessed): (Vec<Operand>, Vec<OperandAccess>) =
            self.computing.into_iter().flatten().unzip();
        (computed, self.own.into_iter().chain(accessed).collect())
    }
}
/// Makes the accumulations of a statement.
pub(super) struct Emitter<'a> {
    pub(super) space: LetterSpace<'a>,
    /// The statement, within the calls and repetitions that it comes from.
    pub(super) statement: &'a SourceSpan,
    /// The type of the node that the current component writes.
    pub(super) written: DType,
    pub(super) steps: &'a mut Vec<ProgramStep>,
}

impl Emitter<'_> {
    /// The accumulation of one component. The steps of its subexpressions are appended first.
    pub(super) fn accum(
        &mut self,
        statement: &ResolvedStatement,
        part: &StatementComponent,
    ) -> Result<Accum> {
        let lhs = part.target.node.clone();
        self.written = lhs.dtype();
        let mut operands = OperandList::default();
        let rhs = self.rhs(&part.value, lhs.dtype(), &mut operands)?;
        let written = self.accessed(&part.target, &mut operands)?;
        let (computed, operands) = operands.finish();
        let origin = self.origin(&written, &operands);
        let projections = self.space.projections(
            &part.letters,
            written,
            operands,
            excerpt(self.space.text, &part.value.span),
        )?;
        Ok(Accum { init_neutral: statement.init, op: statement.op, lhs, rhs, computed, projections, origin })
    }

    /// The source spans of an accumulation.
    fn origin(&self, written: &OperandAccess, operands: &[OperandAccess]) -> Origin {
        let places = operands.iter().map(|operand| operand.place.clone()).collect();
        Origin::new(self.space.text, self.statement.clone(), written.place.clone(), places)
    }

    /// The expression as one operation. Numbers, which have no type of their own, take the type `wanted`.
    fn rhs(&mut self, tree: &ResolvedExpr, wanted: DType, operands: &mut OperandList) -> Result<Rhs> {
        let common = operand_type(tree, wanted, self.written);
        operands.arity = tree.children().len().max(1);
        match &tree.kind {
            ResolvedExprKind::Number(_)
            | ResolvedExprKind::Index(_)
            | ResolvedExprKind::Size(_)
            | ResolvedExprKind::NodeAccess(_)
            | ResolvedExprKind::Random(..) => Ok(Rhs::Copy(self.own_operand(tree, wanted, operands)?)),
            ResolvedExprKind::Cast(to, a) if *to == wanted => self.rhs(a, wanted, operands),
            ResolvedExprKind::Cast(..) => Ok(Rhs::Copy(self.own_operand(tree, wanted, operands)?)),
            ResolvedExprKind::Unary(op, a) if is_widened(*op, a) && common != DType::F32 => {
                let (kind, span) = (ResolvedExprKind::Cast(common, a.clone()), a.span.clone());
                Ok(Rhs::Unary(*op, self.own_operand(&ResolvedExpr { kind, span }, common, operands)?))
            }
            ResolvedExprKind::Unary(op, a) => Ok(Rhs::Unary(*op, self.own_operand(a, common, operands)?)),
            ResolvedExprKind::Binary(op, args) => {
                let a = self.own_operand(&args[0], common, operands)?;
                let b = self.own_operand(&args[1], common, operands)?;
                Ok(Rhs::Binary(*op, [a, b]))
            }
            ResolvedExprKind::Ternary(op, args) => {
                let first = if *op == TernaryOp::Where { DType::Bool } else { common };
                let a = self.own_operand(&args[0], first, operands)?;
                let b = self.own_operand(&args[1], common, operands)?;
                let c = self.own_operand(&args[2], common, operands)?;
                Ok(Rhs::Ternary(*op, [a, b, c]))
            }
        }
    }

    /// Adds an operand of the operation.
    fn own_operand(
        &mut self,
        tree: &ResolvedExpr,
        wanted: DType,
        operands: &mut OperandList,
    ) -> Result<Operand> {
        let (operand, accessed) = self.operand(tree, wanted, operands)?;
        operands.own.push(accessed);
        Ok(operand)
    }

    /// The expression as an operand. An operation becomes a virtual node.
    fn operand(
        &mut self,
        tree: &ResolvedExpr,
        wanted: DType,
        operands: &mut OperandList,
    ) -> Result<(Operand, OperandAccess)> {
        match &tree.kind {
            ResolvedExprKind::Number(number) => {
                let value = number.checked(type_of(tree).or(wanted), self.space.text, &tree.span)?;
                Ok((Operand::Constant(value), OperandAccess::scalar(&tree.span)))
            }
            ResolvedExprKind::Index(index) => {
                let dtype = self.index_type(index, wanted, &tree.span)?;
                let accessed = OperandAccess {
                    dims: Dims::from_slice(&[1]),
                    index: vec![index.clone()],
                    ..OperandAccess::scalar(&tree.span)
                };
                Ok((Operand::Index(dtype), accessed))
            }
            ResolvedExprKind::Size(letter) if let Some((_, size)) = &self.space.sizes[*letter] => {
                let index = ResolvedExprKind::Index(Affine::var(*size));
                let size = ResolvedExpr { kind: index, span: tree.span.clone() };
                self.operand(&size, wanted, operands)
            }
            ResolvedExprKind::Size(letter) => {
                let dtype =
                    self.index_type(&Affine::constant(self.space.ranges[*letter]), wanted, &tree.span)?;
                let size = Scalar::from_i64(dtype, self.space.ranges[*letter]);
                Ok((Operand::Constant(size), OperandAccess::scalar(&tree.span)))
            }
            ResolvedExprKind::Random(random, cell) => {
                let dtype = type_of(tree).or(wanted);
                let accessed = OperandAccess {
                    dims: Dims::from_elem(1, cell.len()),
                    index: cell.clone(),
                    ..OperandAccess::scalar(&tree.span)
                };
                Ok((Operand::Random { random: Box::new(random.clone()), dtype }, accessed))
            }
            ResolvedExprKind::NodeAccess(read) => self.read(read, operands),
            ResolvedExprKind::Cast(to, a) => self.virtual_node(tree, a, *to),
            ResolvedExprKind::Unary(..) | ResolvedExprKind::Binary(..) | ResolvedExprKind::Ternary(..) => {
                self.virtual_node(tree, tree, type_of(tree).or(wanted))
            }
        }
    }

    fn read(&mut self, read: &NodeAccess, operands: &mut OperandList) -> Result<(Operand, OperandAccess)> {
        let node = read.node.clone();
        let operand = match &read.how {
            AccessKind::Lhs | AccessKind::Plain => Operand::Node(node),
            AccessKind::Merge => Operand::MergeBuffer(node),
            AccessKind::Padded(outside, span) => {
                let outside = outside.checked(read.node.dtype(), self.space.text, span)?;
                Operand::Padded { node, outside }
            }
        };
        Ok((operand, self.accessed(read, operands)?))
    }

    /// The access to a node. If an operand computes its index, that operand is added to `operands`.
    fn accessed(&mut self, read: &NodeAccess, operands: &mut OperandList) -> Result<OperandAccess> {
        let Some(computed) = &read.computed else { return Ok(OperandAccess::of(read, 0)) };
        let at = operands.computing.len();
        operands.computing.push(None);
        operands.computing[at] = Some(self.operand(&computed.value, DType::I32, operands)?);
        Ok(OperandAccess::of(read, operands.arity + at))
    }

    /// The type of an index used as a value: `i64` if wanted, else `i32`, which must hold all its values.
    fn index_type(&self, index: &Affine, wanted: DType, span: &ByteRange) -> Result<DType> {
        let bounds = index.bounds(|var| match var {
            Var::Loop(id) => (0, self.space.ranges[id.index()].max(1) - 1),
            Var::Symbol(_) => (0, 0),
        });
        let fits = |v: i64| i32::try_from(v).is_ok();
        match bounds {
            _ if wanted == DType::I64 => Ok(DType::I64),
            Some((lo, hi)) if fits(lo) && fits(hi) => Ok(DType::I32),
            _ => {
                let value = excerpt(self.space.text, span).to_owned();
                Err(TextErrorKind::Literal { value, dtype: DType::I32 }.at(span))
            }
        }
    }

    /// Assigns the values of `value`, for all letters in it, to a new virtual node of type `dtype`; an
    /// operation on numbers is a number. `whole` is the subexpression that the node replaces.
    fn virtual_node(
        &mut self,
        whole: &ResolvedExpr,
        value: &ResolvedExpr,
        dtype: DType,
    ) -> Result<(Operand, OperandAccess)> {
        let mut operands = OperandList::default();
        let rhs = self.rhs(value, dtype, &mut operands)?;
        if let Some(number) = rhs.constant(dtype) {
            return Ok((Operand::Constant(number), OperandAccess::scalar(&whole.span)));
        }
        let (computed, operands) = operands.finish();
        let letters = in_order_of_operand(Vec::from_iter(collected(|into| value.letters(into))), &operands);
        let dims: Dims = letters.iter().map(|&letter| self.space.size(letter)).collect();
        let sizes = letters.iter().map(|&letter| self.space.run_size(letter)).collect();
        let node = self.make_node(whole, &dims, sizes, dtype)?;
        let index: Vec<Affine> = letters.iter().map(|&k| Affine::var(axis_iterator(k))).collect();
        let accessed = || OperandAccess {
            dims: dims.clone(),
            index: index.clone(),
            ..OperandAccess::scalar(&whole.span)
        };
        let origin = self.origin(&accessed(), &operands);
        let projections =
            self.space.projections(&letters, accessed(), operands, excerpt(self.space.text, &whole.span))?;
        let lhs = node.clone();
        self.steps.push(ProgramStep::Accum(Box::new(Accum {
            init_neutral: false,
            op: AccumOp::Assign,
            lhs,
            rhs,
            computed,
            projections,
            origin,
        })));
        let read = accessed();
        Ok((Operand::Node(node), read))
    }

    fn make_node(
        &self,
        whole: &ResolvedExpr,
        dims: &Dims,
        sizes: RunSizes,
        dtype: DType,
    ) -> Result<TensorNode> {
        let source = on_one_line(self.space.text, &whole.span);
        let reason = Reason::new(format!("{SUBEXPRESSION_REASON}`{source}`"));
        let node = TensorNode::builder(identifier(&source)).dims(dims.iter().copied()).run_sizes(sizes);
        let node = node.dtype(dtype).mode_because(MemoryMode::Virtual, reason).build();
        node.map_err(|error| TextErrorKind::from(error).at(&whole.span))
    }
}

/// The letters in the order of the first operand that has all of them as its axes: in the other order, the
/// gradient by that operand would be transposed.
fn in_order_of_operand(letters: Vec<usize>, operands: &[OperandAccess]) -> Vec<usize> {
    let of_operand = |operand: &OperandAccess| {
        let of_axis = |index: &Affine| {
            letters.iter().copied().find(|&letter| *index == Affine::var(axis_iterator(letter)))
        };
        let order: Vec<usize> = operand.index.iter().filter_map(of_axis).collect();
        let has_all = letters.iter().all(|letter| order.contains(letter));
        (has_all && order.len() == letters.len()).then_some(order)
    };
    operands.iter().find_map(of_operand).unwrap_or(letters)
}
