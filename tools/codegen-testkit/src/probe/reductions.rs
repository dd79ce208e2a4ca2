//! Reductions of rows in which one special value is repeated, or neighbors follow each other.
//!
//! A maximum that begins with the lowest finite number, or with another value near the neutral element, is
//! wrong only for rows without a greater value; random data has no such rows. Accumulators are elements of
//! nodes, which stores cut to their type, and locals, which nothing cuts but the operation.

use codegen_core::Caps;
use lowered_ir::ir::{
    Affine, BinaryOp, Block, Expr, LocalId, LoopId, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt,
};
use tnode::{DType, Dims, ModeState, Scalar};

use super::{Probe, bytes, claim_of_type, special};

/// Elements of a row.
const COLUMNS: usize = 3;

/// The probe of reductions over rows of a type that has an order.
pub(super) fn probe(caps: &Caps, dtype: DType) -> Probe {
    let values = special(dtype);
    let at = |at: usize| values[at % values.len()];
    let repeated = (0..values.len()).flat_map(|row| [at(row); COLUMNS]);
    let neighbors = (0..values.len()).flat_map(|row| [at(row), at(row + 1), at(row + 2)]);
    let rows: Vec<Scalar> = repeated.chain(neighbors).collect();
    let routine = routine(caps, rows.len() / COLUMNS, dtype);
    let mut inputs = vec![bytes(&rows)];
    inputs.extend(routine.nodes[1..].iter().map(|decl| vec![0; decl.size_bytes().unwrap_or(0)]));
    Probe::new(format!("{dtype}: reductions"), claim_of_type(caps, dtype), routine, inputs)
}

/// For each operation, the reduction of each row `%0[i0, ..]` in a node, and in a local, which is converted
/// to a wide type if the target stores one.
fn routine(caps: &Caps, rows: usize, dtype: DType) -> LoweredRoutine {
    let decl = |name: &str, dtype: DType, dims: &[usize]| NodeDecl {
        name: name.to_owned(),
        dtype,
        dims: Dims::from_slice(dims),
        mode: ModeState::undecided(),
    };
    let wide = match dtype.is_float() {
        true => DType::F32,
        false => DType::I32,
    };
    let is_widened = dtype.size_bytes() < wide.size_bytes() && caps.storage.contains(wide);
    let wide = if is_widened { wide } else { dtype };
    let mut nodes = vec![decl("a", dtype, &[rows, COLUMNS])];
    let mut body = Vec::new();
    for (at, op) in [BinaryOp::Max, BinaryOp::Min, BinaryOp::Add, BinaryOp::Mul].into_iter().enumerate() {
        let at = at as u32;
        let next = nodes.len() as u32;
        nodes.push(decl(op.token(), dtype, &[rows]));
        nodes.push(decl(&format!("{} in a local", op.token()), wide, &[rows]));
        body.extend(in_node(NodeRef(next), LoopId(1 + 2 * at), op, start(dtype, op)));
        body.extend(in_local(NodeRef(next + 1), LoopId(2 + 2 * at), LocalId(at), op, dtype, wide));
    }
    LoweredRoutine {
        name: "probe".into(),
        numerics: Numerics::Strict,
        symbols: Vec::new(),
        nodes,
        body: vec![Stmt::serial(LoopId(0), rows as i64, body)],
    }
}

fn set(node: NodeRef, value: Expr) -> Stmt {
    Stmt::Set { node, index: [Affine::var(LoopId(0))].into_iter().collect(), value }
}

fn element(column: LoopId) -> Expr {
    Expr::get(NodeRef(0), [Affine::var(LoopId(0)), Affine::var(column)])
}

/// Sets an element of `node` to `start`, and combines it with each element of a row.
fn in_node(node: NodeRef, column: LoopId, op: BinaryOp, start: Scalar) -> [Stmt; 2] {
    let old = Expr::get(node, [Affine::var(LoopId(0))]);
    let combined = set(node, Expr::binary(op, old, element(column)));
    [set(node, Expr::Const(start)), Stmt::serial(column, COLUMNS as i64, vec![combined])]
}

/// Combines a local with each element of a row. A sum begins with the value that a declared local has.
fn in_local(node: NodeRef, column: LoopId, local: LocalId, op: BinaryOp, dtype: DType, wide: DType) -> Block {
    let mut block = vec![Stmt::scalar(local, dtype)];
    if op != BinaryOp::Add {
        block.push(Stmt::set_scalar(local, Expr::Const(start(dtype, op))));
    }
    let combined = Expr::binary(op, Expr::local(local), element(column));
    block.push(Stmt::serial(column, COLUMNS as i64, vec![Stmt::set_scalar(local, combined)]));
    let value = Expr::local(local);
    block.push(set(node, if wide == dtype { value } else { Expr::convert(wide, value) }));
    block
}

/// The neutral element. Without infinities, as in `fp8_e4m3fn`, extremes begin with the last number of their
/// sign, 448.
fn start(dtype: DType, op: BinaryOp) -> Scalar {
    let infinity = match op {
        BinaryOp::Add => return Scalar::zero(dtype),
        BinaryOp::Mul => return Scalar::one(dtype),
        BinaryOp::Max => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    };
    let value = Scalar::from_f64(dtype, infinity);
    if value.as_f64().is_nan() { Scalar::from_f64(dtype, infinity.signum() * 448.0) } else { value }
}
