//! Rejects kernels that use an operation, a type or a size that the target lacks.

use std::fmt::Display;

use lowered_ir::ir::{BinaryOp, Bound, LoweredRoutine, Stmt};
use tnode::DType;

use crate::Caps;
use crate::rejection::{Checked, reject};
use crate::threads::Grid;

/// Rejects an operation that legalization replaces by others.
///
/// # Errors
///
/// Always.
pub fn expanded<T>(op: impl Display, dtype: DType) -> Checked<T> {
    reject(format!("`{op}` on {dtype}"), "legalization expands it")
}

/// Rejects a transcendental function that is neither an instruction of the target nor expanded.
///
/// # Errors
///
/// Always.
pub fn inaccurate<T>(op: impl Display, dtype: DType) -> Checked<T> {
    let why = "the device has no function as accurate, and the expansion does not reach this far";
    reject(format!("`{op}` on {dtype}"), why)
}

/// Checks that a target computes with a type. Legalization leaves no operation on other types.
///
/// # Errors
///
/// A rejection that names the operation, the type and the target.
pub fn check_arithmetic(caps: &Caps, op: impl Display, dtype: DType) -> Checked {
    if caps.arithmetic.contains(dtype) && dtype != DType::U32x4 {
        return Ok(());
    }
    reject(format!("`{op}` on {dtype}"), format!("{} does not compute in {dtype}", caps.target))
}

/// Checks that legalization leaves a binary operation to targets that compute with its type.
///
/// # Errors
///
/// A rejection if legalization replaces the operation on every such target.
pub fn check_binary(op: BinaryOp, dtype: DType) -> Checked {
    use BinaryOp::*;
    match op {
        Add | Sub | Mul | Div | Rem | Max | Min | Lt | Le | Eq | Ne => Ok(()),
        BitAnd | BitOr | BitXor | Shl | Shr if !dtype.is_float() => Ok(()),
        BitAnd | BitOr | BitXor | Shl | Shr | Pow | ReluGate | Satur01Gate | And | Or | Arg1 | Arg2
        | Threefry | ThreefryCrypto | ThreefryLight => expanded(op, dtype),
    }
}

/// Checks that a bitcast from one type to another exists.
///
/// # Errors
///
/// A rejection if the types differ in size, or the result is `bool`.
pub(crate) fn check_bitcast(from: DType, to: DType) -> Checked {
    if from.size_bytes() == to.size_bytes() && to != DType::Bool {
        return Ok(());
    }
    reject(format!("bitcast {to}({from})"), "the types differ in size, or the result is `bool`")
}

/// Checks that the values of all symbols fit 31 bits.
///
/// # Errors
///
/// A rejection that names the first other symbol.
pub fn check_symbols(routine: &LoweredRoutine) -> Checked {
    match routine.symbols.iter().find(|s| s.range > i64::from(i32::MAX)) {
        None => Ok(()),
        Some(symbol) => reject(
            format!("symbol @{}", symbol.name),
            format!("its range is {}, indices have 32 bits", symbol.range),
        ),
    }
}

/// Checks that a workgroup of the target has enough threads for a grid's workgroup loops.
///
/// # Errors
///
/// A rejection with both numbers.
pub fn check_workgroup(caps: &Caps, grid: &Grid<'_>) -> Checked {
    let most = caps.workgroups.map_or(1, |w| w.threads);
    match grid.threads {
        Some(threads) if threads > most => {
            reject("workgroup loops", format!("they take {threads} threads, the most are {most}"))
        }
        _ => Ok(()),
    }
}

/// Checks a statement that every thread of a workgroup executes: it must not store to a node.
///
/// # Errors
///
/// A rejection that names the node.
pub fn check_store_by_all_threads(stmt: &Stmt) -> Checked {
    match stmt {
        Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } => reject(
            format!("a store to node {node}"),
            "it stands outside of workgroup loops, where every thread of the workgroup would do it",
        ),
        _ => Ok(()),
    }
}

/// Rejects a store that accumulates at a computed index.
///
/// # Errors
///
/// Always.
pub fn accumulating_scatter<T>(op: impl Display) -> Checked<T> {
    reject(format!("scatter {op}"), "legalization expands accumulating stores at computed indices")
}

/// Rejects a kernel that is deeper than a target's `most` loops.
///
/// # Errors
///
/// A rejection with the limit.
pub fn check_loop_depth(depth: usize, most: usize) -> Checked {
    if depth > most { reject("a nest of loops", format!("it is deeper than {most}")) } else { Ok(()) }
}

/// Rejects a loop that a condition ends.
///
/// # Errors
///
/// A rejection, if the loop has a condition.
pub fn check_condition(end: &Bound) -> Checked {
    if end.condition().is_none() {
        return Ok(());
    }
    reject("a scan that a condition ends", "its steps run whether or not the condition holds")
}

/// Rejects a kernel whose code takes more than `most` instructions so far.
///
/// # Errors
///
/// A rejection with the limit.
pub fn check_size(size: usize, most: usize) -> Checked {
    if size <= most {
        return Ok(());
    }
    let why = format!("it takes {size} steps, the most are {most}; less unrolling makes it smaller");
    reject("a kernel of this size", why)
}
