//! The assignment text as a tree, names not resolved yet.

use tnode::DType;

use super::error::Span;
use crate::assign::AccumOp;
use crate::ir::{BinaryOp, TernaryOp, UnaryOp};
use crate::random::{Distribution, Scheme};

#[derive(Debug)]
pub(super) struct Statement {
    /// The targets: one, unless there are concatenated axes.
    pub(super) lhs: Vec<Access>,
    pub(super) op: AccumOp,
    pub(super) init: bool,
    pub(super) op_span: Span,
    /// The values: one, unless there are concatenated axes; none with `fetch`.
    pub(super) rhs: Vec<Expr>,
    /// What fills the whole of the one target.
    pub(super) fetch: Option<Fetch>,
    /// From the first value to the last, or what fills.
    pub(super) rhs_span: Span,
    pub(super) constraints: Vec<Constraint>,
    pub(super) span: Span,
}

/// What fills a node from no elements.
#[derive(Debug)]
pub(super) enum Fetch {
    Offsets,
    SelfId,
    Values(Vec<Number>),
    Bits(u128),
    Slice { of: String, of_span: Span, symbol: String },
    Random(Draws),
    Drawn { distribution: Distribution, scheme: Scheme, of: String, of_span: Span },
}

/// `uniform(seed, ..)`: random numbers.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    pub(super) distribution: Distribution,
    pub(super) scheme: Scheme,
    pub(super) seed: u64,
    pub(super) parts: Vec<DrawPart>,
}

/// An argument after the seed.
#[derive(Clone, Debug)]
pub(super) enum DrawPart {
    /// `self_id()`, with its place.
    SelfId(Span),
    Index(Linear),
}

/// `letter < limit` or `@symbol < limit`.
#[derive(Debug)]
pub(super) struct Constraint {
    pub(super) atom: Atom,
    pub(super) limit: i64,
    pub(super) span: Span,
}

/// A variable of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Atom {
    Letter(String),
    Symbol(String),
}

/// `name[indices]`, `name.merge[indices]` or a bare name.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) name: String,
    pub(super) name_span: Span,
    pub(super) merge: bool,
    pub(super) indices: Vec<Index>,
    pub(super) span: Span,
}

impl Access {
    /// The indices that are values of expressions.
    pub(super) fn computed(&self) -> impl Iterator<Item = &Expr> {
        self.indices.iter().filter_map(|index| match index {
            Index::Computed(expr) => Some(expr),
            Index::Linear(_) | Index::Concat(_) => None,
        })
    }
}

/// The index of one axis.
#[derive(Debug)]
pub(super) enum Index {
    Linear(Linear),
    Concat(Concat),
    /// The value of an expression with accesses in it.
    Computed(Expr),
}

impl Index {
    pub(super) fn span(&self) -> &Span {
        match self {
            Index::Linear(linear) => &linear.span,
            Index::Concat(concat) => &concat.span,
            Index::Computed(expr) => &expr.span,
        }
    }
}

/// `i^j`: letters whose axes follow each other, each with its place.
#[derive(Debug)]
pub(super) struct Concat {
    pub(super) letters: Vec<(String, Span)>,
    pub(super) span: Span,
}

/// `offset + Σ coefficient · atom`; each atom once, in order of first mention, with the place of that mention.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    pub(super) terms: Vec<(Atom, i64, Span)>,
    pub(super) offset: i64,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Expr {
    pub(super) kind: ExprKind,
    pub(super) span: Span,
    /// Nesting, limited so that no walk over the tree overflows the stack.
    pub(super) depth: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) value: f64,
    pub(super) int: Option<i64>,
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Number(Number),
    /// An index letter or a rank-0 node.
    Name(String),
    Symbol(String),
    Access(Box<Access>),
    Pad(Box<Access>, Number),
    /// The extent of a letter.
    Size(String),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Ternary(TernaryOp, Box<[Expr; 3]>),
    Cast(DType, Box<Expr>),
    Random(Box<Draws>),
}
