//! The syntax tree of assignment text, with unresolved names.

use tnode::{DType, Scalar};

use super::error::{LocatedError, TextErrorKind};
use crate::AccumOp;
use crate::origin::ByteRange;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use lowered_ir::random::{Distribution, Scheme};

#[derive(Debug)]
pub(super) struct Statement {
    /// The targets; several only with concatenated axes.
    pub(super) lhs: Vec<Access>,
    pub(super) op: AccumOp,
    pub(super) init: bool,
    pub(super) op_span: ByteRange,
    /// The values; several only with concatenated axes, none with `fetch`.
    pub(super) rhs: Vec<Expr>,
    /// The function that fills the whole target.
    pub(super) fetch: Option<Fetch>,
    /// The byte range of all values, or of the function that fills.
    pub(super) rhs_span: ByteRange,
    pub(super) constraints: Vec<Constraint>,
    pub(super) span: ByteRange,
}

/// A function that fills a node.
#[derive(Debug)]
pub(super) enum Fetch {
    Offsets,
    SelfId,
    /// The numbers, each with its byte range.
    Values(Vec<(Number, ByteRange)>),
    Bits(u128, ByteRange),
    Slice {
        of: String,
        of_span: ByteRange,
        symbol: String,
    },
    Random(RandomCall),
    SampleValues {
        distribution: Distribution,
        scheme: Scheme,
        of: String,
        of_span: ByteRange,
    },
}

/// A call of `uniform(seed, ..)` or another function of random numbers.
#[derive(Clone, Debug)]
pub(super) struct RandomCall {
    pub(super) distribution: Distribution,
    pub(super) scheme: Scheme,
    pub(super) seed: u64,
    pub(super) parts: Vec<KeyArgument>,
}

/// An argument after the seed, which becomes part of the key or of the counter.
#[derive(Clone, Debug)]
pub(super) enum KeyArgument {
    /// `self_id()`, with its byte range.
    SelfId(ByteRange),
    Index(Linear),
}

/// `letter < limit` or `@symbol < limit`.
#[derive(Debug)]
pub(super) struct Constraint {
    pub(super) atom: Atom,
    pub(super) limit: i128,
    pub(super) span: ByteRange,
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
    pub(super) name_span: ByteRange,
    pub(super) merge: bool,
    pub(super) indices: Vec<Index>,
    pub(super) span: ByteRange,
}

impl Access {
    /// The expressions that compute indices.
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
    /// The value of an expression that contains accesses.
    Computed(Expr),
}

impl Index {
    pub(super) fn span(&self) -> &ByteRange {
        match self {
            Index::Linear(linear) => &linear.span,
            Index::Concat(concat) => &concat.span,
            Index::Computed(expr) => &expr.span,
        }
    }
}

/// `i^j`: an axis concatenated of the axes of letters, each with its byte range.
#[derive(Debug)]
pub(super) struct Concat {
    pub(super) letters: Vec<(String, ByteRange)>,
    pub(super) span: ByteRange,
}

/// `offset + Σ coefficient · atom`. Each atom occurs once, in order of first mention, with the byte range of
/// that mention.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    pub(super) terms: Vec<(Atom, i64, ByteRange)>,
    pub(super) offset: i64,
    pub(super) span: ByteRange,
}

#[derive(Debug)]
pub(super) struct Expr {
    pub(super) kind: ExprKind,
    pub(super) span: ByteRange,
    /// The nesting depth, which is limited so that no walk over the tree overflows the stack.
    pub(super) depth: usize,
}

/// A number as the text writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    /// The nearest `f64`: infinite for digits beyond its range, as for `inf`.
    pub(super) value: f64,
    /// The value of an integer literal.
    pub(super) int: Option<i128>,
    /// Whether the number is written in digits, unlike `inf` and `nan`.
    pub(super) is_literal: bool,
}

impl Number {
    /// The number `inf` or `nan`.
    pub(super) fn named(name: &str) -> Option<Number> {
        let value = match name {
            "inf" => f64::INFINITY,
            "nan" => f64::NAN,
            _ => return None,
        };
        Some(Number { value, int: None, is_literal: false })
    }

    pub(super) fn negated(self) -> Number {
        Number { value: -self.value, int: self.int.map(|int| -int), ..self }
    }

    /// Converts the number to a type; an error at `span` if the type cannot represent it.
    pub(super) fn checked(self, dtype: DType, text: &str, span: &ByteRange) -> Result<Scalar, LocatedError> {
        self.in_type(dtype).ok_or_else(|| {
            let value = text.get(span.clone()).unwrap_or_default().to_owned();
            TextErrorKind::Literal { value, dtype }.at(span.clone())
        })
    }

    /// Converts the number to a type if the type can represent it: integers exactly, fractions rounded, but
    /// not to an infinity.
    fn in_type(self, dtype: DType) -> Option<Scalar> {
        match self.int {
            Some(int) if dtype == DType::Bool => Some(Scalar::from_i64(dtype, i64::from(int != 0))),
            Some(int) if dtype == DType::U64 => {
                Some(Scalar::new(dtype, u128::from(u64::try_from(int).ok()?)))
            }
            Some(int) if !dtype.is_float() => {
                let int = i64::try_from(int).ok()?;
                Some(Scalar::from_i64(dtype, int)).filter(|scalar| scalar.as_i64() == int)
            }
            None if !dtype.is_float() => None,
            int => {
                let exact = int.and_then(|int| i64::try_from(int).ok());
                let scalar = exact
                    .map_or_else(|| Scalar::from_f64(dtype, self.value), |int| Scalar::from_i64(dtype, int));
                Some(scalar).filter(|scalar| !self.is_literal || scalar.as_f64().is_finite())
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Number(Number),
    /// An index letter or a rank-0 node.
    Name(String),
    Symbol(String),
    Access(Box<Access>),
    /// A padded access, with the value outside the dimensions and that value's byte range.
    Pad(Box<Access>, Number, ByteRange),
    /// The extent of a letter.
    Size(String),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Ternary(TernaryOp, Box<[Expr; 3]>),
    Cast(DType, Box<Expr>),
    Random(Box<RandomCall>),
}
