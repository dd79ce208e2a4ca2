//! Bounds the difference between two orders of the same floating-point computation.
//!
//! For programs of `+ - * fma max min neg abs relu` and conversions between floats, every rounding changes a
//! value by at most `ε` times its magnitude, and errors spread no faster than magnitudes do. So with `M` the
//! value of the same program on absolute values, with sums for differences, two evaluations differ by at most
//! `2 · K · ε · M`, where `K` counts the roundings on the longest way to an element and `ε` is that of the
//! coarsest type. Values near overflow have no bound. Runs in which an infinity occurs, such as the initial
//! value of a maximum over no elements, have none either.

use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{BinaryOp, Expr, Routine, Stmt, TernaryOp, UnaryOp, walk};
use tnode::{DType, Scalar};

use super::stages::elements;

/// The bound of one run.
pub(crate) struct ErrorBound {
    /// The type of each node.
    types: Vec<DType>,
    /// `M` of each element of each node, computed in `f64`.
    magnitudes: Memory,
    /// `2 · K · ε`
    relative: f64,
    /// `K` times the smallest positive number.
    absolute: f64,
    /// Above this magnitude, values may overflow in one order of operations and not in the other.
    largest: f64,
}

/// The bound of a routine on this memory, if it has one.
pub(crate) fn of(routine: &Routine, memory: &Memory, bindings: &[i64]) -> Option<ErrorBound> {
    let types = types(routine)?;
    let coarsest = types.iter().copied().max_by(|a, b| epsilon(*a).total_cmp(&epsilon(*b)))?;
    let magnitude = magnitude(routine)?;
    let mut magnitudes = Memory::zeroed(&magnitude);
    for ((wide, bytes), decl) in magnitudes.nodes.iter_mut().zip(&memory.nodes).zip(&routine.nodes) {
        for (wide, value) in wide.chunks_mut(8).zip(elements(decl.dtype, bytes)) {
            wide.copy_from_slice(&value.as_f64().abs().to_le_bytes());
        }
    }
    interp::run(&magnitude, &mut magnitudes, bindings).ok()?;
    let roundings = roundings(&routine.body, 1.0);
    let (relative, absolute) = (2.0 * roundings * epsilon(coarsest), roundings * smallest(coarsest));
    let sound = relative < 0.1;
    sound.then_some(ErrorBound { types, magnitudes, relative, absolute, largest: largest(coarsest) })
}

impl ErrorBound {
    /// Returns the number of elements that differ, or fails at the first that differs by more than the bound.
    pub(crate) fn check(&self, nodes: &[(usize, DType)], a: &Memory, b: &Memory) -> Result<usize, String> {
        if self.types.iter().zip(&a.nodes).any(|(&dtype, bytes)| !elements(dtype, bytes).all(is_finite)) {
            return Ok(0);
        }
        let mut differing = 0;
        for &(node, dtype) in nodes {
            let magnitudes = elements(DType::F64, &self.magnitudes.nodes[node]);
            let pairs = elements(dtype, &a.nodes[node]).zip(elements(dtype, &b.nodes[node]));
            for (at, ((a, b), magnitude)) in pairs.zip(magnitudes).enumerate() {
                let (a, b, magnitude) = (a.as_f64(), b.as_f64(), magnitude.as_f64());
                let bounded = magnitude <= self.largest;
                if a == b || !bounded {
                    continue;
                }
                differing += 1;
                let allowed = self.relative * magnitude + self.absolute;
                // A NaN is not within any bound.
                let within = (a - b).abs() <= allowed;
                if !within {
                    return Err(format!("element {at} of %{node} is {b}, expected {a} within {allowed:e}"));
                }
            }
        }
        Ok(differing)
    }
}

/// The types of the nodes, if all are floats of more than a byte.
fn types(routine: &Routine) -> Option<Vec<DType>> {
    let wide = |dtype: DType| dtype.is_float() && dtype.size_bytes() > 1;
    routine.nodes.iter().map(|node| wide(node.dtype).then_some(node.dtype)).collect()
}

fn is_finite(value: Scalar) -> bool {
    value.as_f64().is_finite()
}

fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::Bf16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    }
}

fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => 2f64.powi(-14),
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 16_000.0,
        DType::F64 => 1e300,
        _ => 1e37,
    }
}

/// The routine on absolute values in `f64`; `None` if some operation has no known bound.
fn magnitude(routine: &Routine) -> Option<Routine> {
    let mut known = true;
    let mut routine = routine.clone();
    routine.nodes.iter_mut().for_each(|node| node.dtype = DType::F64);
    walk::map_values(&mut routine.body, &mut |value| {
        walk::map_expr(value, &mut |e| match e {
            Expr::Const(value) if value.as_f64().is_infinite() => {
                Expr::Const(Scalar::from_f64(DType::F64, 0.0))
            }
            Expr::Const(value) => Expr::Const(Scalar::from_f64(DType::F64, value.as_f64().abs())),
            Expr::Unary { op: UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu, arg } => *arg,
            Expr::Convert { arg, .. } => *arg,
            Expr::Binary { op: BinaryOp::Sub, a, b } => Expr::Binary { op: BinaryOp::Add, a, b },
            Expr::Get { .. }
            | Expr::GetGuarded { .. }
            | Expr::Ternary { op: TernaryOp::Fma, .. }
            | Expr::Binary { op: BinaryOp::Add | BinaryOp::Mul | BinaryOp::Max | BinaryOp::Min, .. } => {
                keep_larger(e)
            }
            other => {
                known = false;
                other
            }
        })
    });
    known.then_some(routine)
}

/// The magnitude of a minimum is at most that of the larger operand.
fn keep_larger(e: Expr) -> Expr {
    match e {
        Expr::Binary { op: BinaryOp::Min, a, b } => Expr::Binary { op: BinaryOp::Max, a, b },
        other => other,
    }
}

/// An upper bound of the number of roundings on the way to any element; `times` is the number of executions
/// of the block.
fn roundings(block: &[Stmt], times: f64) -> f64 {
    let of = |stmt: &Stmt| match stmt {
        Stmt::For { lo, hi, body, .. } => roundings(body, times * (hi.limit - lo).max(1) as f64),
        Stmt::Set { value, .. } | Stmt::SetLocal { value, .. } => {
            let mut operations = 1.0;
            walk::each_expr(value, &mut |_| operations += 1.0);
            operations * times
        }
        _ => 0.0,
    };
    block.iter().map(of).sum()
}
