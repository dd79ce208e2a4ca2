//! Lowering of operations for which NEON has instructions of its own.

mod arithmetic;
mod convert;
mod lanes;

use crate::program::{Binary, VectorOp, VectorProgram};

/// The position of an operand of one lane that a product of several lanes takes from lane 0 of a register.
pub(super) fn lane_operand(program: &VectorProgram, op: &VectorOp) -> Option<usize> {
    let ty = |value: &crate::program::Value| program.values[value.0 as usize];
    let (VectorOp::Fma(a, b, _) | VectorOp::Binary(Binary::Multiply, a, b)) = op else { return None };
    let is_one = |value| ty(value).lanes == 1 && ty(value).element.is_float();
    [a, b].into_iter().position(is_one)
}
