//! Bounds of the difference between two orders of the same floating-point computation.
//!
//! For programs of `+ - * fma max min neg abs relu` and conversions between floats, every rounding changes a
//! value by at most `ε` times its magnitude, and errors spread no faster than magnitudes do. So with `M` the
//! value of the same program on absolute values, with sums for differences, two evaluations differ by at most
//! `2 · K · ε · M`, where `K` counts the roundings on the longest way to an element and `ε` is that of the
//! coarsest type. Values near overflow have no bound, and neither has a run with an infinity, such as the
//! initial value of a maximum over no elements.

use filetests::RunCase;
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{BinaryOp, Expr, LoweredRoutine, Stmt, TernaryOp, UnaryOp, walk};
use tnode::{DType, Scalar};

use super::{Approx, promises, value};
use crate::corpus::scalars;

/// The elements of every node after a run in the order of its routine, with the bounds of other orders;
/// `None` if the routine has a type or an operation without one.
pub(super) fn run(case: &RunCase) -> Option<Vec<Vec<Approx>>> {
    let routine = &case.routine;
    let magnitudes = magnitudes(case)?;
    let values = case.interpret().ok()?;
    let types = || routine.nodes.iter().map(|decl| decl.dtype);
    let elements = || types().zip(&values).map(|(dtype, bytes)| scalars(bytes, dtype));
    let is_finite = elements().flatten().all(|value| value.as_f64().is_finite());
    let largest = |of: fn(DType) -> f64| types().map(of).fold(0.0, f64::max);
    let roundings = roundings(&routine.body, 1.0);
    let relative = 2.0 * roundings * largest(|dtype| promises::last_place(1.0, dtype));
    let absolute = roundings * largest(|dtype| 2f64.powi(promises::smallest_exponent(dtype)));
    let radius = |dtype: DType, magnitude: f64| match magnitude <= value::greatest(dtype) / 4.0 {
        true if is_finite => relative * magnitude + absolute,
        _ => f64::INFINITY,
    };
    let node = |(values, magnitudes): (_, &Vec<u8>)| {
        let both = std::iter::zip::<_, Vec<Scalar>>(values, scalars(magnitudes, DType::F64).collect());
        both.map(|(value, magnitude): (Scalar, Scalar)| Approx {
            value,
            radius: radius(value.dtype(), magnitude.as_f64()),
        })
        .collect()
    };
    (relative < 0.1).then(|| elements().zip(&magnitudes).map(node).collect())
}

/// `M` of each element of each node, in `f64`.
fn magnitudes(case: &RunCase) -> Option<Vec<Vec<u8>>> {
    let is_wide = |dtype: DType| dtype.is_float() && dtype.size_bytes() > 1;
    if !case.routine.nodes.iter().all(|node| is_wide(node.dtype)) {
        return None;
    }
    let routine = on_magnitudes(&case.routine)?;
    let magnitude = |value: Scalar| value.as_f64().abs().to_le_bytes();
    let nodes = case.inputs.iter().zip(&case.routine.nodes);
    let nodes = nodes.map(|(bytes, decl)| scalars(bytes, decl.dtype).flat_map(magnitude).collect());
    let mut memory = Memory { nodes: nodes.collect(), merge: None };
    interp::run(&routine, &mut memory, &case.bindings).ok()?;
    Some(memory.nodes)
}

/// The routine on absolute values in `f64`; `None` if some operation has no known bound.
fn on_magnitudes(routine: &LoweredRoutine) -> Option<LoweredRoutine> {
    let mut known = true;
    let mut routine = routine.clone();
    routine.nodes.iter_mut().for_each(|node| node.dtype = DType::F64);
    walk::map_values(&mut routine.body, &mut |value| {
        walk::map_expr(value, &mut |e| match e {
            Expr::Const(value) => {
                let magnitude = Some(value.as_f64().abs()).filter(|value| !value.is_infinite());
                Expr::Const(Scalar::from_f64(DType::F64, magnitude.unwrap_or(0.0)))
            }
            Expr::Unary { op: UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu, arg }
            | Expr::Convert { arg, .. } => *arg,
            Expr::Binary { op: BinaryOp::Sub, a, b } => Expr::Binary { op: BinaryOp::Add, a, b },
            // A minimum is at most as large as the larger operand.
            Expr::Binary { op: BinaryOp::Min, a, b } => Expr::Binary { op: BinaryOp::Max, a, b },
            Expr::Get { .. }
            | Expr::GetGuarded { .. }
            | Expr::Ternary { op: TernaryOp::Fma, .. }
            | Expr::Binary { op: BinaryOp::Add | BinaryOp::Mul | BinaryOp::Max, .. } => e,
            other => {
                known = false;
                other
            }
        })
    });
    known.then_some(routine)
}

/// An upper bound of the number of roundings on the way to any element; `times` is the number of executions
/// of the block.
fn roundings(block: &[Stmt], times: f64) -> f64 {
    let of = |stmt: &Stmt| match stmt {
        Stmt::For { lo, hi, body, .. } => roundings(body, times * (hi.limit - lo).max(1) as f64),
        Stmt::Set { value, .. } | Stmt::SetLocal { value, .. } => {
            let mut operations = 1.0;
            walk::parts(value).for_each(|_| operations += 1.0);
            operations * times
        }
        _ => 0.0,
    };
    block.iter().map(of).sum()
}
