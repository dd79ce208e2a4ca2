//! Approximate transcendental functions of `f32`, from the hardware's approximate instructions.
//! [`crate::PtxOptions::approximate_functions`] states their errors.

use std::f64::consts::{LN_2, LOG2_E, TAU};

use codegen_core::ir::UnaryOp;
use ptx_asm::{PtxBinaryOp, PtxBuilder, PtxUnaryOp, Reg, RoundingMode, Target, Ty};

/// Emits the approximation of an operation that [has one](codegen_core::has_approximation) on a register of
/// class `F32`.
pub(super) fn emit(b: &mut PtxBuilder, target: Target, op: UnaryOp, x: Reg) -> Reg {
    match op {
        UnaryOp::Exp2 => b.unary(PtxUnaryOp::Exp2Approx, Ty::F32, x),
        UnaryOp::Exp => exp(b, x, LOG2_E as f32),
        UnaryOp::Log2 => b.unary(PtxUnaryOp::Log2Approx, Ty::F32, x),
        UnaryOp::Log => {
            let power = b.unary(PtxUnaryOp::Log2Approx, Ty::F32, x);
            b.binary(PtxBinaryOp::Mul, Ty::F32, power, LN_2 as f32)
        }
        UnaryOp::Sin => {
            let x = reduced(b, x);
            b.unary(PtxUnaryOp::SinApprox, Ty::F32, x)
        }
        UnaryOp::Cos => {
            let x = reduced(b, x);
            b.unary(PtxUnaryOp::CosApprox, Ty::F32, x)
        }
        _ if target == Target::Sm70 => tanh(b, x),
        _ => b.unary(PtxUnaryOp::TanhApprox, Ty::F32, x),
    }
}

/// `2^(x factor)`.
fn exp(b: &mut PtxBuilder, x: Reg, factor: f32) -> Reg {
    let power = b.binary(PtxBinaryOp::Mul, Ty::F32, x, factor);
    b.unary(PtxUnaryOp::Exp2Approx, Ty::F32, power)
}

/// `x` modulo 2π, between -π and π, where the instructions are accurate.
fn reduced(b: &mut PtxBuilder, x: Reg) -> Reg {
    let turns = b.binary(PtxBinaryOp::Mul, Ty::F32, x, TAU.recip() as f32);
    let turns = b.convert(Ty::F32, Ty::F32, RoundingMode::NearestInteger, turns);
    // 2π as a 24-bit number and a remainder, so that the difference loses few bits.
    let high = TAU as f32;
    let low = (TAU - f64::from(high)) as f32;
    [high, low].into_iter().fold(x, |x, part| b.fma(Ty::F32, turns, -part, x))
}

/// `1 - 2 / (1 + e^2x)`.
fn tanh(b: &mut PtxBuilder, x: Reg) -> Reg {
    let power = exp(b, x, 2.0 * LOG2_E as f32);
    let sum = b.binary(PtxBinaryOp::Add, Ty::F32, power, 1_f32);
    let inverse = b.unary(PtxUnaryOp::RecipApprox, Ty::F32, sum);
    b.fma(Ty::F32, inverse, -2_f32, 1_f32)
}
