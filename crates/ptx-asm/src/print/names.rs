//! Names of instructions, memory accesses and special registers in PTX.

use crate::inst::{PtxBinaryOp, PtxUnaryOp, Ty};
use crate::program::SpecialReg;

/// The type of a memory access: `ld` and `st` have no 16-bit floats.
pub(super) fn memory_type(ty: Ty) -> &'static str {
    match ty {
        Ty::F16 | Ty::Bf16 => "b16",
        Ty::F16x2 | Ty::Bf16x2 => "b32",
        ty => ty.name(),
    }
}

pub(super) fn vector(len: usize) -> &'static str {
    match len {
        2 => ".v2",
        4 => ".v4",
        _ => "",
    }
}

pub(super) fn special_name(special: SpecialReg) -> &'static str {
    match special {
        SpecialReg::Thread => "%tid.x",
        SpecialReg::Block => "%ctaid.x",
        SpecialReg::Blocks => "%nctaid.x",
        SpecialReg::Lane => "%laneid",
        SpecialReg::ClusterBlock => "%cluster_ctarank",
    }
}

pub(super) fn unary(op: PtxUnaryOp, ty: Ty) -> String {
    format!("{}.{}", op.name(), ty.name())
}

pub(super) fn binary(op: PtxBinaryOp, ty: Ty) -> String {
    let suffix = match op {
        PtxBinaryOp::Add | PtxBinaryOp::Sub | PtxBinaryOp::Mul | PtxBinaryOp::Div if ty.is_float() => ".rn",
        PtxBinaryOp::Mul => ".lo",
        _ => "",
    };
    format!("{}{suffix}.{}", op.name(), ty.name())
}
