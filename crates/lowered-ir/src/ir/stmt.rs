//! Statements and loops.

use std::fmt;

use smallvec::{SmallVec, smallvec};
use tnode::{DType, Dims};

use super::{BinaryOp, Bound, Expr, Indices, LocalId, LoopId, NodeRef, walk};

/// Statements in sequence.
pub type Block = Vec<Stmt>;

/// One step of a routine. An index has one affine form per dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the documentation of a variant says what its fields are")]
pub enum Stmt {
    /// `for var in lo..hi { body }`, with `var` in scope in `body` alone; no iteration where `hi <= lo`, and
    /// none from the first before which the condition of `hi` is 0. The kind says how the iterations may run.
    For { var: LoopId, lo: i64, hi: Bound, kind: LoopKind, body: Block },
    /// Stores into an element of a node, whose type the value has.
    Set { node: NodeRef, index: Indices, value: Expr },
    /// Stores into the element of a node whose index in the dimension `axis` is computed: `at`, of any
    /// integer type. The index has 0 in that dimension. Stores nothing if `at` is outside of the dimension.
    /// The operation combines the value, of the node's type, with the old element
    /// ([`BinaryOp::accumulates`]); without one the value replaces the element. Such stores are rare, so
    /// their second expression is not inline: it would make every statement larger.
    SetDynamic {
        node: NodeRef,
        index: Indices,
        axis: usize,
        at: Box<Expr>,
        op: Option<BinaryOp>,
        value: Expr,
    },
    /// Sets every element of a node, margins included, to 0.
    Zero { node: NodeRef },
    /// Declares a local of zeros that lives to the end of the enclosing block; in [`Space::Scratch`] it has
    /// any values. Its name is unique in the routine, and a scalar has no dimensions.
    Declare { local: LocalId, dtype: DType, dims: Dims, space: Space },
    /// Stores into an element of a local, whose type the value has.
    SetLocal { local: LocalId, index: Indices, value: Expr },
    /// A remark for readers of the text form; names routines and phases.
    Comment(String),
    /// Appends a line to the log of the run: its parts, in order.
    Log { parts: Vec<LogPart> },
}

/// A part of a line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogPart {
    /// Characters that are appended as they are.
    Text(String),
    /// A value, as [`tnode::Scalar`] displays it.
    Value(Expr),
}

/// How a codegen may run the iterations of a loop: in order, or independently of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// One after another.
    #[default]
    Serial,
    /// One after another, with a copy of the code for each iteration; the bounds are constants.
    Unrolled,
    /// One after another, as steps in time. A scan around all other loops is a border for passes, which see
    /// its body as a routine of its own ([`crate::passes::regions`]).
    Scan,
    /// Independent iterations, which become the lanes of vectors. The bounds are `0..n` with a constant `n`,
    /// and the body has no loop.
    Vector,
    /// Independent iterations, split over threads in contiguous ranges. In a kernel for a target with
    /// workgroups, each iteration of the outermost parallel loops is a thread, or a workgroup if there are
    /// workgroup loops inside.
    Parallel,
    /// Independent iterations, each on a thread of its own of one workgroup; the bounds are constants `0..n`.
    /// Statements after the outermost workgroup loop begin only when all threads have done all of their
    /// iterations.
    Workgroup,
}

impl LoopKind {
    /// Whether iterations are independent, so that their order cannot be observed.
    pub fn is_independent(self) -> bool {
        match self {
            LoopKind::Serial | LoopKind::Unrolled | LoopKind::Scan => false,
            LoopKind::Vector | LoopKind::Parallel | LoopKind::Workgroup => true,
        }
    }
}

impl fmt::Display for LoopKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoopKind::Serial => "serial",
            LoopKind::Unrolled => "unrolled",
            LoopKind::Scan => "scan",
            LoopKind::Vector => "vector",
            LoopKind::Parallel => "parallel",
            LoopKind::Workgroup => "workgroup",
        })
    }
}

/// Where a declared local lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// In registers: every index of it uses constants and the variables of unrolled and vector loops only.
    Register,
    /// In the kernel's scratch memory, one copy per thread.
    Stack,
    /// Like [`Space::Stack`], without initial values: statements store each element before they read it.
    Scratch,
    /// In the memory that the threads of a workgroup share.
    Workgroup,
    /// In private memory of the threads of a workgroup. Each thread has its part: the first indices are the
    /// variables of the surrounding workgroup loops.
    Thread,
}

impl Space {
    /// Where the local lives if one thread runs everything.
    pub fn of_one_thread(self) -> Space {
        match self {
            Space::Register => Space::Register,
            Space::Scratch => Space::Scratch,
            Space::Stack | Space::Workgroup | Space::Thread => Space::Stack,
        }
    }

    /// Whether the local is an array in memory of one thread.
    pub fn is_private_memory(self) -> bool {
        matches!(self, Space::Stack | Space::Scratch)
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Register => "register",
            Space::Stack => "stack",
            Space::Scratch => "scratch",
            Space::Workgroup => "workgroup",
            Space::Thread => "thread",
        })
    }
}

impl LogPart {
    /// The expression of a value.
    pub fn value(&self) -> Option<&Expr> {
        match self {
            LogPart::Text(_) => None,
            LogPart::Value(value) => Some(value),
        }
    }

    fn value_mut(&mut self) -> Option<&mut Expr> {
        match self {
            LogPart::Text(_) => None,
            LogPart::Value(value) => Some(value),
        }
    }
}

/// The iterator of [`Stmt::values`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    own: [Option<&'a Expr>; 2],
    logged: std::slice::Iter<'a, LogPart>,
}

impl<'a> Values<'a> {
    fn of(own: [Option<&'a Expr>; 2], logged: &'a [LogPart]) -> Values<'a> {
        Values { own, logged: logged.iter() }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a Expr;

    #[inline]
    fn next(&mut self) -> Option<&'a Expr> {
        let [first, second] = &mut self.own;
        first.take().or_else(|| second.take()).or_else(|| self.logged.find_map(LogPart::value))
    }
}

impl Stmt {
    /// The expressions that the statement itself evaluates, in order; none for a loop.
    pub fn values(&self) -> Values<'_> {
        match self {
            Stmt::Set { value, .. } | Stmt::SetLocal { value, .. } => Values::of([Some(value), None], &[]),
            Stmt::SetDynamic { at, value, .. } => Values::of([Some(at), Some(value)], &[]),
            Stmt::Log { parts } => Values::of([None, None], parts),
            Stmt::For { .. } | Stmt::Zero { .. } | Stmt::Declare { .. } | Stmt::Comment(_) => {
                Values::of([None, None], &[])
            }
        }
    }

    /// The node that ends the loop when it is 0, if the statement is a loop with a condition.
    pub fn condition(&self) -> Option<NodeRef> {
        match self {
            Stmt::For { hi, .. } => hi.condition(),
            _ => None,
        }
    }

    /// All parts of the values that the statement itself evaluates, those of its loop left out.
    pub fn parts(&self) -> impl Iterator<Item = &Expr> {
        self.values().flat_map(walk::parts)
    }

    /// Like [`values`](Self::values), but the references are mutable.
    pub fn values_mut(&mut self) -> SmallVec<[&mut Expr; 2]> {
        match self {
            Stmt::Set { value, .. } | Stmt::SetLocal { value, .. } => smallvec![value],
            Stmt::SetDynamic { at, value, .. } => smallvec![at.as_mut(), value],
            Stmt::Log { parts } => parts.iter_mut().filter_map(LogPart::value_mut).collect(),
            Stmt::For { .. } | Stmt::Zero { .. } | Stmt::Declare { .. } | Stmt::Comment(_) => SmallVec::new(),
        }
    }

    /// The indices of the element into which the statement stores; `None` if it does not store into one
    /// element.
    pub(crate) fn target_mut(&mut self) -> Option<&mut Indices> {
        match self {
            Stmt::Set { index, .. } | Stmt::SetLocal { index, .. } | Stmt::SetDynamic { index, .. } => {
                Some(index)
            }
            Stmt::For { .. }
            | Stmt::Zero { .. }
            | Stmt::Declare { .. }
            | Stmt::Comment(_)
            | Stmt::Log { .. } => None,
        }
    }

    /// A serial loop over `0..extent`.
    pub fn serial(var: LoopId, extent: i64, body: Block) -> Stmt {
        Stmt::looped(var, extent, LoopKind::Serial, body)
    }

    /// A loop over `0..extent`.
    pub fn looped(var: LoopId, extent: i64, kind: LoopKind, body: Block) -> Stmt {
        Stmt::For { var, lo: 0, hi: extent.into(), kind, body }
    }

    /// Declares a scalar in a register.
    pub fn scalar(local: LocalId, dtype: DType) -> Stmt {
        Stmt::Declare { local, dtype, dims: Dims::new(), space: Space::Register }
    }

    /// Stores into a scalar local.
    pub fn set_scalar(local: LocalId, value: Expr) -> Stmt {
        Stmt::SetLocal { local, index: Indices::new(), value }
    }
}
