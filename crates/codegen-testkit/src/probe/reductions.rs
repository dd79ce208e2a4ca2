//! Reductions of rows in which one special value is repeated.
//!
//! A maximum that begins with the lowest finite number, or with another value near the neutral element, is
//! wrong only for rows without a greater value. Random data has no such rows.

use codegen_core::Caps;
use lowered_ir::ir::{Affine, BinaryOp, Expr, LoopId, NodeDecl, NodeRef, Numerics, Routine, Stmt};
use tnode::{DType, Dims, ModeState, Scalar};

use super::{Probe, bytes, claim_of_type, special};

/// Elements of a row.
const COLUMNS: usize = 3;

/// The probe of `max` and `min` over rows of a type that has an order.
pub(super) fn probe(caps: &Caps, dtype: DType) -> Probe {
    let values = special(dtype);
    let rows: Vec<Scalar> = values.iter().flat_map(|value| [*value; COLUMNS]).collect();
    let routine = routine(values.len(), dtype);
    let mut inputs = vec![bytes(&rows)];
    inputs.extend(routine.nodes[1..].iter().map(|decl| vec![0; decl.size_bytes().unwrap_or(0)]));
    Probe::new(format!("{dtype}: reductions"), claim_of_type(caps, dtype), routine, inputs)
}

/// `%1[i0]` is the maximum of `%0[i0, ..]`, and `%2[i0]` the minimum.
fn routine(rows: usize, dtype: DType) -> Routine {
    let decl = |name: &str, dims: &[usize]| NodeDecl {
        name: name.to_owned(),
        dtype,
        dims: Dims::from_slice(dims),
        mode: ModeState::undecided(),
    };
    let nodes = vec![decl("a", &[rows, COLUMNS]), decl("max", &[rows]), decl("min", &[rows])];
    let mut body = Vec::new();
    for (node, op, start) in [(1, BinaryOp::Max, f64::NEG_INFINITY), (2, BinaryOp::Min, f64::INFINITY)] {
        body.extend(reduction(NodeRef(node), LoopId(node), op, neutral(dtype, start)));
    }
    Routine {
        name: "probe".into(),
        numerics: Numerics::Strict,
        symbols: Vec::new(),
        nodes,
        body: vec![Stmt::serial(LoopId(0), rows as i64, body)],
    }
}

/// Sets an element of `node` to `start`, and combines it with each element of a row of `%0`.
fn reduction(node: NodeRef, column: LoopId, op: BinaryOp, start: Scalar) -> [Stmt; 2] {
    let row = Affine::var(LoopId(0));
    let set = |value: Expr| Stmt::Set { node, index: [row.clone()].into_iter().collect(), value };
    let element = Expr::get(NodeRef(0), [row.clone(), Affine::var(column)]);
    let combined = Expr::binary(op, Expr::get(node, [row.clone()]), element);
    [set(Expr::Const(start)), Stmt::serial(column, COLUMNS as i64, vec![set(combined)])]
}

/// The infinity, or the last number of its sign, 448, in `fp8_e4m3fn`, which has no infinities.
fn neutral(dtype: DType, infinity: f64) -> Scalar {
    let value = Scalar::from_f64(dtype, infinity);
    if value.as_f64().is_nan() { Scalar::from_f64(dtype, infinity.signum() * 448.0) } else { value }
}
