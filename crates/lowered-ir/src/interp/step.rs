//! A prepared routine: the statements and expressions of the IR with names replaced by positions.

use tnode::{DType, Scalar};

use crate::ir::{BinaryOp, Symbol, TernaryOp, UnaryOp};
use crate::log::LogLine;

/// A routine prepared for running any number of times.
#[derive(Clone, Debug)]
pub struct PreparedRoutine {
    pub(super) name: String,
    pub(super) symbols: Vec<Symbol>,
    pub(super) nodes: Vec<ArrayLayout>,
    /// The node whose copy the merge buffer holds, if the routine reads one.
    pub(super) merge: Option<usize>,
    pub(super) locals: Vec<ArrayLayout>,
    /// How many loop variables there are.
    pub(super) loops: usize,
    /// The lines that the routine logs, by number.
    pub(super) lines: Vec<LogLine>,
    pub(super) body: Vec<ProgramStep>,
}

/// A node or a local: its title in messages, its element type and its dimensions.
#[derive(Clone, Debug)]
pub(super) struct ArrayLayout {
    pub(super) title: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<i64>,
    pub(super) elements: usize,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) enum ProgramStep {
    For(Box<LoopStep>),
    SetNode { node: usize, at: ElementAddress, value: CompiledExpr },
    ZeroNode { node: usize },
    FillLocal { local: usize, value: Scalar },
    SetLocal { local: usize, at: ElementAddress, value: CompiledExpr },
    SetDynamic { node: usize, at: DynamicAddress, op: Option<BinaryOp>, value: CompiledExpr },
    Log { line: usize, values: Vec<CompiledExpr> },
}

/// A loop: its variable, its end and its condition, a value that ends it when it is 0.
#[derive(Clone, Debug)]
pub(super) struct LoopStep {
    pub(super) var: usize,
    pub(super) lo: i64,
    pub(super) limit: i64,
    pub(super) clips: Vec<LinearIndex>,
    pub(super) condition: Option<CompiledExpr>,
    pub(super) body: Vec<ProgramStep>,
}

/// The address of an element whose index in one dimension is computed: the address of the element with index
/// 0 in that dimension, the size and stride of the dimension, and the computed index.
#[derive(Clone, Debug)]
pub(super) struct DynamicAddress {
    pub(super) first: ElementAddress,
    pub(super) extent: i64,
    pub(super) stride: i64,
    pub(super) index: CompiledExpr,
}

#[derive(Clone, Debug)]
pub(super) enum CompiledExpr {
    Const(Scalar),
    Index {
        index: LinearIndex,
        dtype: DType,
    },
    Node {
        node: usize,
        at: ElementAddress,
    },
    Guarded {
        guard: Vec<(LinearIndex, i64, i64)>,
        node: usize,
        at: ElementAddress,
        otherwise: Box<CompiledExpr>,
    },
    Merge {
        node: usize,
        at: ElementAddress,
    },
    Local {
        local: usize,
        at: ElementAddress,
    },
    Unary {
        op: UnaryOp,
        arg: Box<CompiledExpr>,
    },
    Binary {
        op: BinaryOp,
        a: Box<CompiledExpr>,
        b: Box<CompiledExpr>,
    },
    Ternary {
        op: TernaryOp,
        args: Box<[CompiledExpr; 3]>,
    },
    Convert {
        to: DType,
        arg: Box<CompiledExpr>,
    },
    Bitcast {
        to: DType,
        arg: Box<CompiledExpr>,
    },
    DynamicAddress {
        node: usize,
        at: Box<DynamicAddress>,
        otherwise: Box<CompiledExpr>,
    },
    Lane {
        lane: u8,
        arg: Box<CompiledExpr>,
    },
    Lanes(Box<[CompiledExpr; 4]>),
}

/// The address of an element: for each dimension the index, the size, and the stride in elements.
#[derive(Clone, Debug)]
pub(super) struct ElementAddress {
    pub(super) dims: Vec<(LinearIndex, i64, i64)>,
}

/// `offset + Σ coefficient · variable`; variables are positions among loop variables followed by symbols.
#[derive(Clone, Debug)]
pub(super) struct LinearIndex {
    pub(super) terms: Vec<(usize, i64)>,
    pub(super) offset: i64,
}
