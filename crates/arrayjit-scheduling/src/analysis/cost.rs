//! The cost of a kernel: operations and distinct bytes, counted from its affine indices.
//!
//! * **Flops**: additions, multiplications, divisions, comparisons, minima and square roots on float types
//!   count 1, fma counts 2, a transcendental operation that is not expanded 16; signs, selections and
//!   conversions count 0. A loop bounded by a symbol counts as if it ran to its limit.
//! * **Integer operations**: the same on integers and booleans, where signs and operations on bits count 1 as
//!   well. The arithmetic of indices is left out.
//! * **Bytes**: per parameter the distinct elements read plus the distinct elements written, times the
//!   element size. The number of distinct elements of one index is exact if each loop variable occurs in one
//!   dimension only and every dimension is a mixed-radix number. The numbers of several indices into one node
//!   are added, but their sum counts at most as much as their bounding box. Locals cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

use lowered_ir::ir::{
    Affine, ArrayRef, BinaryOp, Expr, Indices, Locals, LoweredRoutine, NodeRef, RoutineTypes, Stmt,
    TernaryOp, Types, UnaryOp, Var, walk,
};
use tnode::DType;

use codegen_core::artifact::Cost;
use codegen_core::dependence::VariableRanges;

/// The most statements that fusion puts into the body of one loop, where an inner loop counts as one
/// statement. The data of more statements would not stay in registers or in the innermost cache, and fusion
/// compares every pair of statements.
pub(crate) const FUSED_STATEMENTS: usize = 64;

/// The most work of the values in the body of one loop that fusion makes, in the units of
/// [`lowered_ir::passes::cost`]. More would need too many registers, and take the kernel's compiler too long.
pub(crate) const FUSED_COST: u64 = 1 << 11;

/// The work from which on a value is long. Inlining makes such values of chains of nodes.
const LONG: u64 = 256;

/// The work of computing each value of a block once. Long values count twice, since their operations need
/// registers at the same time.
pub(crate) fn fusion_cost(block: &[Stmt]) -> u64 {
    let cost = |value| match lowered_ir::passes::cost::cost(value) {
        cost @ 0..LONG => cost,
        cost => 2 * cost,
    };
    walk::values(block).map(cost).sum()
}

/// The cost of running the whole body of a routine once.
pub(crate) fn cost(routine: &LoweredRoutine) -> Cost {
    let locals = routine.locals();
    let types = RoutineTypes { routine, locals: &locals };
    let count = |of: fn(Operations) -> f64| operations(&routine.body, &types, of);
    Cost { flops: count(|ops| ops.flops), integer_ops: count(|ops| ops.integer_ops), bytes: bytes(routine) }
}

/// The work of a sine or cosine beyond its flops. Vector code takes 2.5 ns for one, as long as for 80 flops,
/// because it reduces the argument exactly.
const RANGE_REDUCTION: f64 = 64.0;

/// The work of a block: its flops, one for each element loaded or stored, whatever the type, and
/// [`RANGE_REDUCTION`] for each sine and cosine.
pub(crate) fn work(block: &[Stmt], routine: &LoweredRoutine, locals: &Locals) -> f64 {
    let types = RoutineTypes { routine, locals };
    operations(block, &types, |ops| ops.flops) + accesses(block) + total(block, &range_reductions)
}

fn range_reductions(value: &Expr) -> f64 {
    let reduces = |e: &&Expr| matches!(e, Expr::Unary { op: UnaryOp::Sin | UnaryOp::Cos, .. });
    RANGE_REDUCTION * walk::parts(value).filter(reduces).count() as f64
}

/// Counts of operations, by the type in which they compute.
#[derive(Clone, Copy, Default)]
struct Operations {
    flops: f64,
    integer_ops: f64,
}

impl Operations {
    fn on(dtype: DType, count: f64) -> Operations {
        if dtype.is_float() {
            Operations { flops: count, integer_ops: 0.0 }
        } else {
            Operations { flops: 0.0, integer_ops: count }
        }
    }
}

impl Add for Operations {
    type Output = Operations;

    fn add(self, other: Operations) -> Operations {
        Operations { flops: self.flops + other.flops, integer_ops: self.integer_ops + other.integer_ops }
    }
}

fn operations(block: &[Stmt], types: &impl Types, of: fn(Operations) -> f64) -> f64 {
    total(block, &|value| of(typed_operations(value, types).1))
}

fn accesses(block: &[Stmt]) -> f64 {
    let is_merge = |e: &Expr| matches!(e, Expr::GetMerge { .. });
    let reads = |e: &&Expr| matches!(e.array(), Some(ArrayRef::Node(_))) || is_merge(e);
    total(block, &|value| 1.0 + walk::parts(value).filter(reads).count() as f64)
}

/// The sum of `f` over all stored values, each multiplied by the iterations of its loops.
fn total(block: &[Stmt], f: &impl Fn(&Expr) -> f64) -> f64 {
    let one = |stmt: &Stmt| match stmt {
        Stmt::For { lo, hi, body, .. } => (hi.limit - lo).max(0) as f64 * total(body, f),
        _ => sum(stmt.values().map(f)),
    };
    sum(block.iter().map(one))
}

/// The type of an expression and its operations, in one walk.
fn typed_operations(expr: &Expr, types: &impl Types) -> (DType, Operations) {
    let none = Operations::default();
    match expr {
        Expr::Unary { op, arg } => {
            let (dtype, inner) = typed_operations(arg, types);
            (dtype, inner + Operations::on(dtype, unary_count(*op, dtype)))
        }
        Expr::Binary { op, a, b } => {
            let ((dtype, in_a), (_, in_b)) = (typed_operations(a, types), typed_operations(b, types));
            (op.result(dtype), in_a + in_b + Operations::on(dtype, binary_count(*op, dtype)))
        }
        Expr::Ternary { op, a, b, c } => {
            let (of_a, in_a) = typed_operations(a, types);
            let (of_b, in_b) = typed_operations(b, types);
            let (_, in_c) = typed_operations(c, types);
            match op {
                TernaryOp::Where => (of_b, in_a + in_b + in_c),
                TernaryOp::Fma | TernaryOp::Mul3 => (of_a, in_a + in_b + in_c + Operations::on(of_a, 2.0)),
            }
        }
        Expr::Convert { to, arg } | Expr::Bitcast { to, arg } => (*to, typed_operations(arg, types).1),
        Expr::GetGuarded { node, otherwise, .. } => (types.node(*node), typed_operations(otherwise, types).1),
        Expr::GetDynamic { node, at, otherwise, .. } => {
            (types.node(*node), typed_operations(at, types).1 + typed_operations(otherwise, types).1)
        }
        Expr::Lane { arg, .. } => (DType::U32, typed_operations(arg, types).1),
        Expr::Lanes(lanes) => {
            let inside = lanes.iter().map(|lane| typed_operations(lane, types).1);
            (DType::U32x4, inside.fold(none, Operations::add))
        }
        Expr::Const(_)
        | Expr::Index { .. }
        | Expr::Get { .. }
        | Expr::GetMerge { .. }
        | Expr::GetLocal { .. } => (expr.dtype(types), none),
    }
}

fn unary_count(op: UnaryOp, dtype: DType) -> f64 {
    match op {
        UnaryOp::Neg | UnaryOp::Abs if dtype.is_float() => 0.0,
        UnaryOp::Atan | UnaryOp::Erf | UnaryOp::Erfc => 32.0,
        _ if op.is_transcendental() => 16.0,
        UnaryOp::RecipSqrt | UnaryOp::Satur01 => 2.0,
        _ => 1.0,
    }
}

fn binary_count(op: BinaryOp, dtype: DType) -> f64 {
    if op.is_bitwise() && dtype.is_float() { 0.0 } else { 1.0 }
}

/// The sum of the counts. It starts from 0, because the sum of an empty iterator over `f64` is −0.
fn sum(counts: impl Iterator<Item = f64>) -> f64 {
    counts.fold(0.0, f64::add)
}

fn bytes(routine: &LoweredRoutine) -> f64 {
    let ranges = VariableRanges::of(routine);
    let mut indices: BTreeMap<(NodeRef, bool), BTreeSet<&Indices>> = BTreeMap::new();
    let mut whole: BTreeSet<NodeRef> = BTreeSet::new();
    let mut note = |node: NodeRef, write: bool, index| {
        indices.entry((node, write)).or_default().insert(index);
    };
    walk::stmts(&routine.body).for_each(|stmt| match stmt {
        Stmt::Zero { node } => {
            whole.insert(*node);
        }
        Stmt::Set { node, index, .. } => note(*node, true, index),
        // Each iteration may store into another element, so the number of elements is bounded only by the
        // size of the node.
        Stmt::SetDynamic { node, .. } => {
            whole.insert(*node);
        }
        _ => {}
    });
    walk::parts_in(&routine.body).for_each(|e| {
        if let Expr::Get { node, index }
        | Expr::GetGuarded { node, index, .. }
        | Expr::GetMerge { node, index } = e
        {
            note(*node, false, index);
        }
    });
    let size = |node: NodeRef| routine.node(node).dtype.size_bytes() as f64;
    let elems = |node: NodeRef| routine.node(node).dims.iter().map(|&d| d as f64).product::<f64>();
    let in_parts = indices.iter().filter(|((node, write), _)| !(*write && whole.contains(node)));
    let touched =
        in_parts.map(|((node, _), indices)| distinct(indices, &ranges).min(elems(*node)) * size(*node));
    sum(touched) + sum(whole.iter().map(|&node| elems(node) * size(node)))
}

/// The number of elements that a set of indices reaches.
fn distinct(indices: &BTreeSet<&Indices>, ranges: &VariableRanges) -> f64 {
    let all = sum(indices.iter().map(|index| image(index, ranges)));
    all.min(bounding_box(indices, ranges))
}

/// The number of elements that one index reaches.
fn image(index: &Indices, ranges: &VariableRanges) -> f64 {
    let vars: BTreeSet<Var> = index.iter().flat_map(|dim| dim.terms().iter().map(|&(var, _)| var)).collect();
    let loops: f64 =
        vars.iter().filter(|v| matches!(v, Var::Loop(_))).map(|&v| ranges.extent(v) as f64).product();
    index.iter().map(|dim| dim_image(dim, ranges)).product::<f64>().min(loops)
}

/// The number of values of one dimension's index. Symbols are constant during a run.
fn dim_image(index: &Affine, ranges: &VariableRanges) -> f64 {
    let moving = index.terms().iter().filter(|(var, _)| matches!(var, Var::Loop(_)));
    let (count, span) = moving.fold((1.0, 1.0), |(count, span), &(var, coefficient)| {
        let steps = (ranges.extent(var) - 1) as f64;
        (count * (steps + 1.0), span + steps * coefficient.abs() as f64)
    });
    f64::min(count, span)
}

fn bounding_box(indices: &BTreeSet<&Indices>, ranges: &VariableRanges) -> f64 {
    let rank = indices.first().map_or(0, |index| index.len());
    (0..rank).map(|dim| bounding_side(dim, indices, ranges)).product()
}

fn bounding_side(dim: usize, indices: &BTreeSet<&Indices>, ranges: &VariableRanges) -> f64 {
    let still = |var| match var {
        Var::Loop(_) => ranges.get(var),
        Var::Symbol(_) => (0, 0),
    };
    let sides = indices.iter().filter_map(|index| index.get(dim)?.bounds(still));
    let (lo, hi) = sides.fold((i64::MAX, i64::MIN), |(lo, hi), (a, b)| (lo.min(a), hi.max(b)));
    if hi < lo { 0.0 } else { (hi - lo + 1) as f64 }
}
