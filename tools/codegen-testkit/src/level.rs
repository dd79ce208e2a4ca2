//! The levels of conformance, and the level that a routine needs.

use std::{collections::BTreeSet, fmt, str::FromStr};

use lowered_ir::ir::{BinaryOp, Expr, LoopKind, LoweredRoutine, Numerics, Space, Stmt, UnaryOp, walk};
use tnode::DType;

use crate::access::{AccessForm, accesses};

/// A level of conformance. Each includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Maps over dense arrays of `f32`.
    L0,
    /// `f32`, `i32` and `bool`; reductions, contractions, broadcasts, guards, symbols, loops that end at
    /// variables, conversions, locals: declared ones in registers, and those that the scheduler makes of
    /// local nodes, in the space `stack`.
    L1,
    /// Every type that the target stores; transcendental operations, gather and scatter, random bits, logs.
    L2,
    /// Parallel and vector loops, workgroups, locals declared in scratch memory, merge buffers.
    L3,
    /// Class `Fast`, within the bounds that the target states.
    L4,
}

impl Level {
    /// Every level, lowest first.
    pub const ALL: [Level; 5] = [Level::L0, Level::L1, Level::L2, Level::L3, Level::L4];

    /// The lowest level that covers every construct of the routine.
    pub fn of(routine: &LoweredRoutine) -> Level {
        let types = types(routine);
        let first = [DType::F32, DType::I32, DType::Bool];
        let is_dense = || accesses(routine).iter().all(|access| *access == AccessForm::Dense);
        let is_map = |stmt: &Stmt| match stmt {
            Stmt::For { hi, .. } => hi.is_constant(),
            Stmt::Set { .. } | Stmt::Comment(_) => true,
            _ => false,
        };
        if routine.numerics == Numerics::Fast {
            Level::L4
        } else if any_stmt(routine, is_threaded) || any_expr(routine, |e| matches!(e, Expr::GetMerge { .. }))
        {
            Level::L3
        } else if !types.iter().all(|dtype| first.contains(dtype))
            || any_stmt(routine, |stmt| matches!(stmt, Stmt::SetDynamic { .. } | Stmt::Log { .. }))
            || any_expr(routine, is_advanced)
        {
            Level::L2
        } else if types.iter().all(|dtype| *dtype == DType::F32)
            && !any_stmt(routine, |stmt| !is_map(stmt))
            && is_dense()
        {
            Level::L0
        } else {
            Level::L1
        }
    }
}

/// Whether a statement needs threads, vectors or scratch memory.
fn is_threaded(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For { kind, .. } => {
            matches!(kind, LoopKind::Parallel | LoopKind::Workgroup | LoopKind::Vector)
        }
        Stmt::Declare { space, .. } => *space != Space::Register,
        _ => false,
    }
}

/// Whether an operation belongs to the second level whatever its types are.
fn is_advanced(expr: &Expr) -> bool {
    match expr {
        Expr::GetDynamic { .. } | Expr::Lane { .. } | Expr::Lanes(_) => true,
        Expr::Unary { op, .. } => op.is_transcendental(),
        Expr::Binary { op, .. } => op.is_random() || *op == BinaryOp::Pow,
        _ => false,
    }
}

/// The types of all nodes, locals and expressions of a routine, and `f64` if a function of an integer is
/// computed in it.
pub(crate) fn types(routine: &LoweredRoutine) -> BTreeSet<DType> {
    let locals = routine.locals();
    let mut types: BTreeSet<DType> = routine.nodes.iter().map(|decl| decl.dtype).collect();
    types.extend(locals.values().map(|decl| decl.dtype));
    for expr in walk::parts_in(&routine.body) {
        let dtype = routine.dtype_of(expr, &locals);
        types.insert(dtype);
        if !dtype.is_float() && matches!(expr, Expr::Unary { op, .. } if is_function(*op)) {
            types.insert(DType::F64);
        }
    }
    types
}

/// Whether a routine has operations that are computed by polynomials unless a target has them.
pub(crate) fn has_functions(routine: &LoweredRoutine) -> bool {
    any_expr(routine, |expr| match expr {
        Expr::Unary { op, .. } => op.is_transcendental(),
        Expr::Binary { op, .. } => *op == BinaryOp::Pow,
        _ => false,
    })
}

/// Whether the operation on integers is defined by a conversion to `f64`, the operation there, and the
/// conversion back.
fn is_function(op: UnaryOp) -> bool {
    op.is_transcendental() || matches!(op, UnaryOp::Sqrt | UnaryOp::RecipSqrt)
}

fn any_stmt(routine: &LoweredRoutine, test: impl Fn(&Stmt) -> bool) -> bool {
    walk::stmts(&routine.body).any(test)
}

fn any_expr(routine: &LoweredRoutine, test: impl Fn(&Expr) -> bool) -> bool {
    walk::parts_in(&routine.body).any(test)
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        let named = Level::ALL.into_iter().find(|level| level.to_string() == text);
        named.ok_or_else(|| format!("`{text}` is no level: expected L0, L1, L2, L3 or L4"))
    }
}
