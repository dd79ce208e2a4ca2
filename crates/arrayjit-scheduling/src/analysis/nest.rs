//! Loop nests: a chain of loops around a body.

use lowered_ir::ir::{Affine, Block, Bound, Expr, LoopId, LoopKind, NodeRef, Stmt, Types, walk};
use tnode::DType;

use crate::analysis::access;
use crate::analysis::names::Names;
use codegen_core::dependence::{self, LoopBody, mentions};

/// One loop of a chain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loop {
    pub(crate) var: LoopId,
    pub(crate) lo: i64,
    pub(crate) hi: Bound,
}

impl Loop {
    /// The number of iterations, if the loop starts at 0 and has a constant bound.
    pub(crate) fn extent(&self) -> Option<i64> {
        self.hi.constant().filter(|_| self.lo == 0)
    }

    /// The end of a loop from 0 that is the same in the whole run, but not constant. The limit may be less.
    pub(crate) fn dynamic_end(&self) -> Option<&Affine> {
        let [clip] = self.hi.clips() else { return None };
        (self.lo == 0 && self.hi.is_of_symbols()).then_some(clip)
    }
}

/// A chain of serial loops, each the only statement of the loop around it, and the body of the innermost. The
/// bound of a loop depends on no other loop of the chain, so the chain may have any order.
#[derive(Clone, Debug)]
pub(crate) struct Nest {
    pub(crate) loops: Vec<Loop>,
    pub(crate) body: Block,
}

impl Nest {
    /// The longest chain that starts at a statement.
    pub(crate) fn of(stmt: &Stmt) -> Option<Nest> {
        let (loops, body) = loops_and_body(stmt);
        (!loops.is_empty()).then(|| Nest { loops, body: body.to_vec() })
    }

    /// The loops whose iterations are independent in every order of the other loops. Each of them may move to
    /// any place in the chain.
    pub(crate) fn movable(&self, names: &Names) -> Vec<Loop> {
        let whole = wrap(&self.loops, self.body.clone());
        independent_loops(&self.loops, &whole, names)
    }

    /// The movable loops that may become lanes, inside the loops of the body: the movable ones on which no
    /// bound depends.
    pub(crate) fn possible_lanes(&self, names: &Names) -> Vec<Loop> {
        let movable = self.movable(names).into_iter();
        movable.filter(|l| !dependence::bounds_loops(l.var, &self.body)).collect()
    }
}

/// The loops and the body of the nest that starts at a statement, which is a nest of no loops if it is none.
pub(crate) fn loops_and_body(stmt: &Stmt) -> (Vec<Loop>, &[Stmt]) {
    let mut loops: Vec<Loop> = Vec::new();
    let mut block = std::slice::from_ref(stmt);
    while let [Stmt::For { var, lo, hi, kind: LoopKind::Serial, body }] = block
        && !loops.iter().any(|outer| hi.mentions(outer.var))
    {
        loops.push(Loop { var: *var, lo: *lo, hi: hi.clone() });
        block = body;
    }
    (loops, block)
}

/// The loops of a chain whose iterations are independent; `whole` is the chain with its body.
pub(crate) fn independent_loops(loops: &[Loop], whole: &[Stmt], names: &Names) -> Vec<Loop> {
    let whole = LoopBody::of(whole);
    loops.iter().filter(|l| whole.is_independent(l.var, &names.ranges)).cloned().collect()
}

/// The variables of the longest chain of serial loops that starts at a statement, and the innermost body. A
/// statement of another kind is a chain of no loops.
pub(crate) fn chain(stmt: &Stmt) -> (Vec<LoopId>, &[Stmt]) {
    let mut loops = Vec::new();
    let mut block = std::slice::from_ref(stmt);
    while let [Stmt::For { var, kind: LoopKind::Serial, body, .. }] = block {
        loops.push(*var);
        block = body;
    }
    (loops, block)
}

/// Loops around a body, the first outermost.
pub(crate) fn wrap(loops: &[Loop], body: Block) -> Block {
    loops.iter().rev().fold(body, |body, l| {
        vec![Stmt::For { var: l.var, lo: l.lo, hi: l.hi.clone(), kind: LoopKind::Serial, body }]
    })
}

/// A score of how well a loop suits as vector lanes: a store that is contiguous along the loop adds 3 and a
/// contiguous load 1; a store that strides along the loop subtracts 6 and a load that strides along it 2.
///
/// The contiguous axis of a node is its last one that has several elements.
pub(crate) fn lane_score(body: &[Stmt], var: LoopId, names: &Names) -> i64 {
    let mut score = 0;
    let mut count = |node: NodeRef, index: &[Affine], weight: i64| {
        score += match names.without_unit_axes(node, index).split_last() {
            Some((last, outer)) if outer.iter().any(|i| i.mentions(var)) || last.coefficient(var) < 0 => {
                -2 * weight
            }
            Some((last, _)) => match last.coefficient(var) {
                0 => 0,
                1 => weight,
                _ => -2 * weight,
            },
            None => 0,
        }
    };
    walk::stmts(body).for_each(|stmt| {
        if let Stmt::Set { node, index, .. } | Stmt::SetDynamic { node, index, .. } = stmt {
            count(*node, index, 3);
        }
    });
    walk::parts_in(body).for_each(|e| {
        if let Expr::Get { node, index }
        | Expr::GetGuarded { node, index, .. }
        | Expr::GetDynamic { node, index, .. }
        | Expr::GetMerge { node, index, .. } = e
        {
            count(*node, index, 1);
        }
    });
    score
}

/// The size in bytes of the widest elements that differ between iterations of a loop, or the size of `f32` if
/// that is larger, because narrower elements are computed in lanes of that size. None if one of these
/// elements has a type without useful vectors: random bits have no lanes, and conversions and products of
/// 64-bit integers are computed one by one.
///
/// Values that are equal in all iterations may have any type: they are computed once, outside the lanes.
pub(crate) fn vector_width(body: &[Stmt], var: LoopId, names: &Names) -> Option<usize> {
    if access::has_no_lanes(body, var) {
        return None;
    }
    let mut varying = Vec::new();
    walk::stmts(body).for_each(|stmt| match stmt {
        Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } => varying.push(names.node(*node)),
        Stmt::Declare { dtype, .. } => varying.push(*dtype),
        _ => {}
    });
    walk::values(body).for_each(|value| {
        note_varying(value, var, names, &mut varying);
    });
    let widest = varying.iter().map(|dtype| dtype.size_bytes()).max()?;
    let is_slow = |dtype: &DType| matches!(dtype, DType::U32x4 | DType::I64 | DType::U64);
    (!varying.iter().any(is_slow)).then_some(widest.max(DType::F32.size_bytes()))
}

/// Records the types of all subexpressions that vary with the loop. Returns whether the whole expression
/// varies.
fn note_varying(expr: &Expr, var: LoopId, names: &Names, varying: &mut Vec<DType>) -> bool {
    let mut parts = |parts: &[&Expr]| {
        parts.iter().fold(false, |varies, part| note_varying(part, var, names, varying) | varies)
    };
    let varies = match expr {
        Expr::Const(_) => false,
        Expr::Unary { arg, .. }
        | Expr::Convert { arg, .. }
        | Expr::Bitcast { arg, .. }
        | Expr::Lane { arg, .. } => parts(&[arg]),
        Expr::Lanes(lanes) => parts(&[&lanes[0], &lanes[1], &lanes[2], &lanes[3]]),
        Expr::GetDynamic { at, otherwise, .. } => parts(&[at, otherwise]) | mentions(expr, var),
        Expr::Binary { a, b, .. } => parts(&[a, b]),
        Expr::Ternary { a, b, c, .. } => parts(&[a, b, c]),
        Expr::GetGuarded { otherwise, .. } => parts(&[otherwise]) | mentions(expr, var),
        Expr::GetLocal { .. } => true,
        Expr::Index { .. } | Expr::Get { .. } | Expr::GetMerge { .. } => mentions(expr, var),
    };
    if varies {
        varying.push(expr.dtype(names));
    }
    varies
}

/// Whether a body contains vector loops or workgroup loops.
pub(crate) fn has_lanes(body: &[Stmt]) -> bool {
    walk::stmts(body)
        .any(|stmt| matches!(stmt, Stmt::For { kind: LoopKind::Vector | LoopKind::Workgroup, .. }))
}

/// The body of the innermost loop of a chain of serial loops.
pub(crate) fn innermost(stmt: &mut Stmt) -> Option<&mut Block> {
    let Stmt::For { kind: LoopKind::Serial, body, .. } = stmt else { return None };
    if let [Stmt::For { .. }] = body.as_slice() {
        return body.first_mut().and_then(innermost);
    }
    Some(body)
}
