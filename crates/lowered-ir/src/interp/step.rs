//! A prepared routine: the statements and expressions of the IR with names replaced by positions.

use tnode::{DType, Scalar};

use crate::ir::{BinaryOp, TernaryOp, UnaryOp};
use crate::log::LogLine;

/// A routine prepared for running any number of times.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) name: String,
    pub(super) symbols: Vec<(String, i64)>,
    pub(super) nodes: Vec<Array>,
    /// The node whose copy the merge buffer holds, if the routine reads one.
    pub(super) merge: Option<usize>,
    pub(super) locals: Vec<Array>,
    /// How many loop variables there are.
    pub(super) loops: usize,
    /// What the routine logs, by number.
    pub(super) lines: Vec<LogLine>,
    pub(super) body: Vec<Step>,
}

/// A node or a local: what messages call it, and its elements.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) title: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<i64>,
    pub(super) elements: usize,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) enum Step {
    For { var: usize, lo: i64, limit: i64, symbol: Option<usize>, body: Vec<Step> },
    SetNode { node: usize, at: Place, value: Value },
    ZeroNode { node: usize },
    ClearLocal { local: usize },
    SetLocal { local: usize, at: Place, value: Value },
    SetDynamic { node: usize, at: Dynamic, op: Option<BinaryOp>, value: Value },
    Log { line: usize, values: Vec<Value> },
}

/// Where an element is whose index in one dimension is computed: the place of the one with 0 there, that
/// dimension's size and stride, and the index.
#[derive(Clone, Debug)]
pub(super) struct Dynamic {
    pub(super) first: Place,
    pub(super) extent: i64,
    pub(super) stride: i64,
    pub(super) index: Value,
}

/// An expression.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Const(Scalar),
    Index { index: Linear, dtype: DType },
    Node { node: usize, at: Place },
    Guarded { guard: Vec<(Linear, i64, i64)>, node: usize, at: Place, otherwise: Box<Value> },
    Merge { node: usize, at: Place },
    Local { local: usize, at: Place },
    Unary { op: UnaryOp, arg: Box<Value> },
    Binary { op: BinaryOp, a: Box<Value>, b: Box<Value> },
    Ternary { op: TernaryOp, args: Box<[Value; 3]> },
    Convert { to: DType, arg: Box<Value> },
    Bitcast { to: DType, arg: Box<Value> },
    Dynamic { node: usize, at: Box<Dynamic>, otherwise: Box<Value> },
    Lane { lane: u8, arg: Box<Value> },
    Lanes(Box<[Value; 4]>),
}

/// Where an element is: per dimension its index, the dimension's size and its stride in elements.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dims: Vec<(Linear, i64, i64)>,
}

/// `offset + Σ coefficient · variable`; variables are positions among loop variables followed by symbols.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    pub(super) terms: Vec<(usize, i64)>,
    pub(super) offset: i64,
}
