//! Names of operations, types, state spaces and special registers in PTX.

use crate::inst::{AtomicOp, CmpOp, PtxBinaryOp, PtxUnaryOp, RoundingMode, Ty};
use crate::program::SpecialReg;

pub(super) fn name(ty: Ty) -> &'static str {
    match ty {
        Ty::Pred => "pred",
        Ty::B8 => "b8",
        Ty::B16 => "b16",
        Ty::B32 => "b32",
        Ty::B64 => "b64",
        Ty::U8 => "u8",
        Ty::U16 => "u16",
        Ty::U32 => "u32",
        Ty::U64 => "u64",
        Ty::S8 => "s8",
        Ty::S16 => "s16",
        Ty::S32 => "s32",
        Ty::S64 => "s64",
        Ty::F16 => "f16",
        Ty::F16x2 => "f16x2",
        Ty::Bf16 => "bf16",
        Ty::Bf16x2 => "bf16x2",
        Ty::F32 => "f32",
        Ty::F64 => "f64",
    }
}

/// The type of a memory access: `ld` and `st` have no 16-bit floats.
pub(super) fn memory_type(ty: Ty) -> &'static str {
    match ty {
        Ty::F16 | Ty::Bf16 => "b16",
        Ty::F16x2 | Ty::Bf16x2 => "b32",
        ty => name(ty),
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
    let op = match op {
        PtxUnaryOp::Neg => "neg",
        PtxUnaryOp::Abs => "abs",
        PtxUnaryOp::Not => "not",
        PtxUnaryOp::CountOnes => "popc",
        PtxUnaryOp::LeadingZeros => "clz",
        PtxUnaryOp::Reverse => "brev",
        PtxUnaryOp::Sqrt => "sqrt.rn",
        PtxUnaryOp::Recip => "rcp.rn",
        PtxUnaryOp::Exp2Approx => "ex2.approx.ftz",
        PtxUnaryOp::Log2Approx => "lg2.approx.ftz",
        PtxUnaryOp::SinApprox => "sin.approx.ftz",
        PtxUnaryOp::CosApprox => "cos.approx.ftz",
        PtxUnaryOp::TanhApprox => "tanh.approx",
        PtxUnaryOp::RsqrtApprox => "rsqrt.approx.ftz",
        PtxUnaryOp::RecipApprox => "rcp.approx.ftz",
        PtxUnaryOp::SqrtApprox => "sqrt.approx.ftz",
    };
    format!("{op}.{}", name(ty))
}

pub(super) fn binary(op: PtxBinaryOp, ty: Ty) -> String {
    let rounded = if ty.is_float() { ".rn" } else { "" };
    let op = match op {
        PtxBinaryOp::Add => format!("add{rounded}"),
        PtxBinaryOp::Sub => format!("sub{rounded}"),
        PtxBinaryOp::Mul if ty.is_float() => "mul.rn".into(),
        PtxBinaryOp::Mul => "mul.lo".into(),
        PtxBinaryOp::MulHigh => "mul.hi".into(),
        PtxBinaryOp::MulWide => "mul.wide".into(),
        PtxBinaryOp::Div => format!("div{rounded}"),
        PtxBinaryOp::DivApprox => "div.approx.ftz".into(),
        PtxBinaryOp::Rem => "rem".into(),
        PtxBinaryOp::Min => "min".into(),
        PtxBinaryOp::Max => "max".into(),
        PtxBinaryOp::And => "and".into(),
        PtxBinaryOp::Or => "or".into(),
        PtxBinaryOp::Xor => "xor".into(),
        PtxBinaryOp::ShiftLeft => "shl".into(),
        PtxBinaryOp::ShiftRight => "shr".into(),
    };
    format!("{op}.{}", name(ty))
}

pub(super) fn comparison(cmp: CmpOp) -> &'static str {
    match cmp {
        CmpOp::Eq => "eq",
        CmpOp::Ne => "ne",
        CmpOp::Lt => "lt",
        CmpOp::Le => "le",
        CmpOp::Gt => "gt",
        CmpOp::Ge => "ge",
        CmpOp::NeOrNan => "neu",
        CmpOp::LtOrNan => "ltu",
        CmpOp::LeOrNan => "leu",
        CmpOp::GtOrNan => "gtu",
        CmpOp::GeOrNan => "geu",
        CmpOp::IsNan => "nan",
    }
}

pub(super) fn rounding_name(rounding: RoundingMode) -> &'static str {
    match rounding {
        RoundingMode::None => "",
        RoundingMode::Nearest => ".rn",
        RoundingMode::Zero => ".rz",
        RoundingMode::Down => ".rm",
        RoundingMode::Up => ".rp",
        RoundingMode::NearestInteger => ".rni",
        RoundingMode::ZeroInteger => ".rzi",
        RoundingMode::DownInteger => ".rmi",
        RoundingMode::UpInteger => ".rpi",
    }
}

pub(super) fn atomic(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Add => "add",
        AtomicOp::Min => "min",
        AtomicOp::Max => "max",
        AtomicOp::And => "and",
        AtomicOp::Or => "or",
        AtomicOp::Xor => "xor",
        AtomicOp::Exchange => "exch",
        AtomicOp::CompareSwap => "cas",
    }
}
