//! Expressions, with unresolved names.

use tnode::DType;

use super::{Access, Call, Index, RandomCall, Row};
use crate::error::{Result, TextErrorKind};
use crate::linear::AxisSize;
use crate::number::Number;
use assignments::ByteRange;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};

/// The largest nesting depth of brackets and operations.
pub(crate) const MAX_DEPTH: usize = 100;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: ByteRange,
    /// The nesting depth, which is limited so that no walk over the tree overflows the stack.
    pub(crate) depth: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Number(Number),
    /// An index letter, a size or a rank-0 node.
    Name(String),
    /// A name that can only be an index letter, because expansion made it.
    Letter(String),
    Symbol(String),
    Access(Box<Access>),
    /// A padded access, with the value outside the dimensions and that value's byte range.
    Pad(Box<Access>, Number, ByteRange),
    /// The extent of a letter.
    Size(String),
    /// The product of the extents of the letters of a row variable.
    RowSize(Row),
    AxisSize(AxisSize),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a > b` or `a >= b`: the operation of `b` and `a`, which are kept in the order of the text, since the
    /// letters enter in it.
    Exchanged(BinaryOp, Box<Expr>, Box<Expr>),
    Ternary(TernaryOp, Box<[Expr; 3]>),
    Cast(DType, Box<Expr>),
    Random(Box<RandomCall>),
    Call(Box<Call>),
}

impl ExprKind {
    /// The operands, or the arguments of a call. The indices of accesses are none of them.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => vec![a],
            ExprKind::Binary(_, a, b) | ExprKind::Exchanged(_, a, b) => vec![a, b],
            ExprKind::Ternary(_, args) => args.iter().collect(),
            ExprKind::Call(call) => call.arguments.iter().map(|argument| &argument.value).collect(),
            ExprKind::Number(_)
            | ExprKind::Name(_)
            | ExprKind::Letter(_)
            | ExprKind::Symbol(_)
            | ExprKind::Access(_)
            | ExprKind::Pad(..)
            | ExprKind::Size(_)
            | ExprKind::RowSize(_)
            | ExprKind::AxisSize(_)
            | ExprKind::Random(_) => Vec::new(),
        }
    }

    /// The indices of an access, or of the result of a call.
    pub(crate) fn indices(&self) -> &[Index] {
        match self {
            ExprKind::Access(access) | ExprKind::Pad(access, ..) => &access.indices,
            ExprKind::Call(call) => call.indices.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }

    /// The nesting depth of an expression at `span`, which is limited.
    pub(crate) fn depth(&self, span: &ByteRange) -> Result<usize> {
        let computed = self.indices().iter().filter_map(Index::computed);
        match self.children().into_iter().chain(computed).map(|part| part.depth).max().unwrap_or(0) {
            MAX_DEPTH.. => Err(TextErrorKind::TooDeep { limit: MAX_DEPTH }.at(span)),
            below => Ok(below + 1),
        }
    }
}

impl Expr {
    /// Makes an expression, and fails if it is nested too deep.
    pub(crate) fn new(kind: ExprKind, span: ByteRange) -> Result<Expr> {
        let depth = kind.depth(&span)?;
        Ok(Expr { kind, span, depth })
    }

    /// The operands, or the arguments of a call. The indices of accesses are none of them.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        self.kind.children()
    }

    /// The operands, or the arguments of a call, to change them.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut Expr> {
        match &mut self.kind {
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => vec![a],
            ExprKind::Binary(_, a, b) | ExprKind::Exchanged(_, a, b) => vec![a, b],
            ExprKind::Ternary(_, args) => args.iter_mut().collect(),
            ExprKind::Call(call) => call.arguments.iter_mut().map(|argument| &mut argument.value).collect(),
            _ => Vec::new(),
        }
    }

    /// Calls `f` on every access, left to right, but not on those in computed indices.
    pub(crate) fn each_access<'a>(&'a self, f: &mut dyn FnMut(&'a Access)) {
        if let ExprKind::Access(access) | ExprKind::Pad(access, ..) = &self.kind {
            f(access);
        }
        self.children().into_iter().for_each(|child| child.each_access(f));
    }

    /// Calls `f` on every name that is a value, with whether it can only be a letter.
    pub(crate) fn each_name<'a>(&'a self, f: &mut dyn FnMut(&'a str, &'a ByteRange, bool)) {
        match &self.kind {
            ExprKind::Name(name) => f(name, &self.span, false),
            ExprKind::Letter(name) => f(name, &self.span, true),
            ExprKind::Random(call) => call.each_letter(&mut |letter, span| f(letter, span, true)),
            _ => {}
        }
        let computed = match &self.kind {
            ExprKind::Call(_) => &[],
            kind => kind.indices(),
        };
        let computed = computed.iter().filter_map(Index::computed);
        self.children().into_iter().chain(computed).for_each(|part| part.each_name(f));
    }

    /// The indices of an access, or of the result of a call, to change them.
    pub(crate) fn indices_mut(&mut self) -> Option<&mut Vec<Index>> {
        match &mut self.kind {
            ExprKind::Access(access) | ExprKind::Pad(access, ..) => Some(&mut access.indices),
            ExprKind::Call(call) => call.indices.as_mut(),
            _ => None,
        }
    }
}
