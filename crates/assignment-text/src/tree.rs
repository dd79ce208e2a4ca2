//! The resolved tree: the steps of a program whose names are letters, symbols and nodes.
//!
//! [`resolve`](crate::resolve) builds it, and every pass behind it works on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tnode::{DType, Dims, RunSize, TensorNode};

use crate::ast::{ExpandedStep, Statement};
use crate::error::{LocatedError, Result};
use crate::number::Number;
use crate::source::Frame;
use assignments::{AccumOp, ByteRange, Random};
use lowered_ir::ir::{Affine, BinaryOp, SymbolId, TernaryOp, UnaryOp, Var};

/// A program on its way through the passes behind expansion.
pub(crate) struct ResolvedProgram {
    /// The steps without errors, in order.
    pub(crate) steps: Vec<ResolvedStep>,
    /// The error of the step behind the last one. An error of a step precedes those of later steps, whichever
    /// pass finds them.
    pub(crate) error: Option<LocatedError>,
}

impl ResolvedProgram {
    /// Runs a pass over each step with its position. The first error cuts the program off.
    pub(crate) fn each(
        mut self,
        mut pass: impl FnMut(usize, &mut ResolvedStep) -> Result<()>,
    ) -> ResolvedProgram {
        for at in 0..self.steps.len() {
            let step = &mut self.steps[at];
            if let Err(error) = pass(at, step) {
                self.error = Some(error.within(step.source.frame()));
                self.steps.truncate(at);
                break;
            }
        }
        self
    }
}

/// A step with what it was resolved to.
pub(crate) struct ResolvedStep {
    pub(crate) source: ExpandedStep,
    pub(crate) kind: StepKind,
}

pub(crate) enum StepKind {
    /// A statement over letters, with the range of each letter.
    Ranged(Box<ResolvedStatement>, Vec<i64>),
    Fill(ResolvedFill),
    Gradient(ResolvedGradient),
    Detach(TensorNode),
    /// The beginning of a scan over a symbol.
    ScanStart(SymbolId),
    /// The end of the innermost scan.
    ScanEnd,
}

/// A statement that fills a whole node by a function.
pub(crate) struct ResolvedFill {
    pub(crate) statement: Box<Statement>,
    pub(crate) node: TensorNode,
    /// The node whose elements, order or samples give the values.
    pub(crate) of: Option<TensorNode>,
}

/// The gradients of a loss.
pub(crate) struct ResolvedGradient {
    pub(crate) loss: TensorNode,
    pub(crate) parameters: Vec<ResolvedParameter>,
}

/// A parameter, and the node that receives the derivatives by it.
pub(crate) struct ResolvedParameter {
    pub(crate) name: String,
    pub(crate) node: TensorNode,
    pub(crate) receiver_name: String,
    pub(crate) receiver: TensorNode,
    /// Whether the step makes the receiver.
    pub(crate) is_new: bool,
    /// The position of the access among the parameters in the text; several with a family.
    pub(crate) access: usize,
}

/// A statement with resolved names. Letter `k` is the loop variable
/// [`axis_iterator`](assignments::indexing::axis_iterator)`(k)` in every index.
pub(crate) struct ResolvedStatement {
    /// The letters of the targets come first.
    pub(crate) letters: Vec<Letter>,
    /// The targets; several only with concatenated axes.
    pub(crate) lhs: Vec<NodeAccess>,
    pub(crate) op: AccumOp,
    pub(crate) init: bool,
    pub(crate) op_span: ByteRange,
    /// The values; several only with concatenated axes.
    pub(crate) rhs: Vec<ResolvedExpr>,
    /// Affine forms that are at least 0 where the statement assigns, with the comparisons that say so.
    pub(crate) conditions: Vec<(Affine, ByteRange)>,
    /// The whole statement.
    pub(crate) span: ByteRange,
    /// The calls and repetitions that the statement comes from, the innermost first.
    pub(crate) frame: Option<Arc<Frame>>,
}

impl ResolvedStatement {
    /// Calls `f` on every access in the order of the text. The accesses of a computed index precede the
    /// access that has this index.
    pub(crate) fn each_access<'a>(&'a self, f: &mut impl FnMut(&'a NodeAccess)) {
        for target in &self.lhs {
            target.each_index_read(f);
            f(target);
        }
        self.rhs.iter().for_each(|tree| tree.each_read(f));
    }

    /// Calls `f` on every access: first in the values, then in the targets. The accesses of a computed index
    /// precede the access that has this index.
    pub(crate) fn each_read<'a>(&'a self, f: &mut impl FnMut(&'a NodeAccess)) {
        self.rhs.iter().for_each(|tree| tree.each_read(f));
        for target in &self.lhs {
            target.each_index_read(f);
            f(target);
        }
    }

    /// Calls `f` on every access that gives a value, to change it.
    pub(crate) fn each_source_mut(&mut self, f: &mut dyn FnMut(&mut NodeAccess)) {
        self.each_kind_mut(&mut |kind| {
            if let ResolvedExprKind::NodeAccess(read) = kind {
                f(read);
            }
        });
    }

    /// Calls `f` on every subexpression, to change it: in the values, and in the computed indices of targets.
    pub(crate) fn each_kind_mut(&mut self, f: &mut dyn FnMut(&mut ResolvedExprKind)) {
        self.rhs.iter_mut().for_each(|value| value.each_kind_mut(f));
        for target in &mut self.lhs {
            if let Some(computed) = target.computed.as_deref_mut() {
                computed.value.each_kind_mut(f);
            }
        }
    }

    /// Calls `f` on every access that gives a value: in the values, and in the computed indices of targets.
    pub(crate) fn each_source<'a>(&'a self, f: &mut impl FnMut(&'a NodeAccess)) {
        self.rhs.iter().for_each(|tree| tree.each_read(f));
        self.lhs.iter().for_each(|target| target.each_index_read(f));
    }
}

pub(crate) struct Letter {
    pub(crate) name: String,
    /// The first mention.
    pub(crate) span: ByteRange,
    /// The range that a `where` declares, with its byte range.
    pub(crate) declared: Option<(i128, ByteRange)>,
    /// The size that a run gives, below which a `where` or an axis keeps the letter.
    pub(crate) size: Option<RunSize>,
    /// The letters of a concatenated axis, which itself is an entry here; empty for other letters.
    pub(crate) parts: Vec<usize>,
    /// The node of the same name, which may be meant instead. Behind inference, only an integer without axes.
    pub(crate) node: Option<TensorNode>,
}

/// An access to a node.
#[derive(Clone)]
pub(crate) struct NodeAccess {
    pub(crate) node: TensorNode,
    /// The dimensions without margins; empty for a target whose dimensions are open.
    pub(crate) dims: Dims,
    /// The sizes that a run gives, as of a node.
    pub(crate) sizes: Box<[Option<RunSize>]>,
    /// The kind of the numbers in the node if its element type is open at this statement, which inference
    /// records.
    pub(crate) literals: Option<ExprType>,
    pub(crate) how: AccessKind,
    /// The name of the view whose dimensions and indices these are, until [`views`](crate::views) replaces them.
    pub(crate) view: Option<String>,
    /// The index of each axis with its byte range; 0 for a computed index.
    pub(crate) index: Vec<(Affine, ByteRange)>,
    pub(crate) computed: Option<Box<ComputedIndex>>,
    pub(crate) span: ByteRange,
}

/// An index that is the value of an expression.
#[derive(Clone)]
pub(crate) struct ComputedIndex {
    pub(crate) axis: usize,
    pub(crate) value: ResolvedExpr,
}

#[derive(Clone)]
pub(crate) enum AccessKind {
    Lhs,
    Plain,
    Merge,
    /// With the value outside of the node, and its byte range.
    Padded(Number, ByteRange),
}

impl NodeAccess {
    /// Whether the dimensions of the node are open: the statement is the first to write it.
    pub(crate) fn has_open_dims(&self) -> bool {
        self.dims.len() < self.index.len()
    }

    /// The size of an axis that a run gives.
    pub(crate) fn size(&self, axis: usize) -> Option<&RunSize> {
        self.sizes.get(axis)?.as_ref()
    }

    /// The name of the node or view, for messages.
    pub(crate) fn name(&self) -> String {
        self.view.clone().unwrap_or_else(|| self.node.name())
    }

    /// Adds the letters that occur to `into`.
    pub(crate) fn letters(&self, into: &mut BTreeSet<usize>) {
        self.index.iter().for_each(|(index, _)| enter_loops(index, into));
        self.computed.iter().for_each(|computed| computed.value.letters(into));
    }

    /// Calls `f` on every access that the computed index makes.
    pub(crate) fn each_index_read<'a>(&'a self, f: &mut impl FnMut(&'a NodeAccess)) {
        self.computed.iter().for_each(|computed| computed.value.each_read(f));
    }

    /// Whether the index of an axis is computed.
    pub(crate) fn is_computed(&self, axis: usize) -> bool {
        self.computed.as_ref().is_some_and(|computed| computed.axis == axis)
    }

    /// Replaces every index by `f` of it.
    pub(crate) fn map(&mut self, f: &dyn Fn(&Affine) -> Affine) {
        self.index.iter_mut().for_each(|(index, _)| *index = f(index));
        self.computed.iter_mut().for_each(|computed| computed.value.map(f));
    }
}

fn enter_loops(index: &Affine, into: &mut BTreeSet<usize>) {
    into.extend(index.terms().iter().filter_map(|(var, _)| match var {
        Var::Loop(id) => Some(id.index()),
        Var::Symbol(_) => None,
    }));
}

#[derive(Clone)]
pub(crate) struct ResolvedExpr {
    pub(crate) kind: ResolvedExprKind,
    pub(crate) span: ByteRange,
}

#[derive(Clone)]
pub(crate) enum ResolvedExprKind {
    Number(Number),
    /// The value of an index.
    Index(Affine),
    /// The extent of a letter.
    Size(usize),
    NodeAccess(NodeAccess),
    Unary(UnaryOp, Box<ResolvedExpr>),
    Binary(BinaryOp, Box<[ResolvedExpr; 2]>),
    Ternary(TernaryOp, Box<[ResolvedExpr; 3]>),
    Cast(DType, Box<ResolvedExpr>),
    /// A random number for each combination of the indices.
    Random(Random, Vec<Affine>),
}

impl ResolvedExpr {
    pub(crate) fn children(&self) -> &[ResolvedExpr] {
        match &self.kind {
            ResolvedExprKind::Number(_)
            | ResolvedExprKind::Index(_)
            | ResolvedExprKind::Size(_)
            | ResolvedExprKind::NodeAccess(_)
            | ResolvedExprKind::Random(..) => &[],
            ResolvedExprKind::Unary(_, a) | ResolvedExprKind::Cast(_, a) => std::slice::from_ref(a),
            ResolvedExprKind::Binary(_, args) => args.as_slice(),
            ResolvedExprKind::Ternary(_, args) => args.as_slice(),
        }
    }

    pub(crate) fn children_mut(&mut self) -> &mut [ResolvedExpr] {
        match &mut self.kind {
            ResolvedExprKind::Unary(_, a) | ResolvedExprKind::Cast(_, a) => std::slice::from_mut(a),
            ResolvedExprKind::Binary(_, args) => args.as_mut_slice(),
            ResolvedExprKind::Ternary(_, args) => args.as_mut_slice(),
            _ => &mut [],
        }
    }

    /// Calls `f` on every access, left to right.
    pub(crate) fn each_read<'a>(&'a self, f: &mut impl FnMut(&'a NodeAccess)) {
        if let ResolvedExprKind::NodeAccess(read) = &self.kind {
            read.each_index_read(f);
            f(read);
        }
        for child in self.children() {
            child.each_read(f);
        }
    }

    /// Calls `f` on every subexpression, computed indices included.
    fn each_kind_mut(&mut self, f: &mut dyn FnMut(&mut ResolvedExprKind)) {
        f(&mut self.kind);
        if let ResolvedExprKind::NodeAccess(read) = &mut self.kind
            && let Some(computed) = read.computed.as_deref_mut()
        {
            computed.value.each_kind_mut(f);
        }
        self.children_mut().iter_mut().for_each(|child| child.each_kind_mut(f));
    }

    /// Adds the letters that occur to `into`.
    pub(crate) fn letters(&self, into: &mut BTreeSet<usize>) {
        match &self.kind {
            ResolvedExprKind::Index(index) => enter_loops(index, into),
            ResolvedExprKind::Random(_, cell) => cell.iter().for_each(|index| enter_loops(index, into)),
            ResolvedExprKind::NodeAccess(read) => read.letters(into),
            _ => self.children().iter().for_each(|child| child.letters(into)),
        }
    }

    /// Replaces every index by `f` of it.
    pub(crate) fn map(&mut self, f: &dyn Fn(&Affine) -> Affine) {
        self.each_kind_mut(&mut |kind| match kind {
            ResolvedExprKind::Index(index) => *index = f(index),
            ResolvedExprKind::Random(_, cell) => cell.iter_mut().for_each(|index| *index = f(index)),
            ResolvedExprKind::NodeAccess(read) => {
                read.index.iter_mut().for_each(|(index, _)| *index = f(index))
            }
            _ => {}
        });
    }
}

/// The type of an expression, which may depend on the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExprType {
    /// A type that is independent of the context.
    Known(DType),
    /// An expression of integer literals only.
    Integer,
    /// An expression of literals only, with a fraction or a function of floats.
    Fraction,
    /// An expression that computes in floats on integer values.
    Widened,
}

impl ExprType {
    /// The type in a context of type `wanted`.
    pub(crate) fn or(self, wanted: DType) -> DType {
        match self {
            ExprType::Known(dtype) => dtype,
            ExprType::Integer => wanted,
            ExprType::Fraction => float(wanted),
            ExprType::Widened => float(wanted).promote(DType::F32),
        }
    }
}

fn float(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}
