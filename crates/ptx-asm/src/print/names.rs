//! What instructions and their parts are called.

use crate::inst::{Atomic, Binary, Cmp, Rounding, Ty, Unary};
use crate::program::{Space, Special};

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

/// Memory knows no 16-bit floats.
pub(super) fn memory_type(ty: Ty) -> &'static str {
    match ty {
        Ty::F16 | Ty::Bf16 => "b16",
        Ty::F16x2 | Ty::Bf16x2 => "b32",
        ty => name(ty),
    }
}

pub(super) fn space_name(space: Space) -> &'static str {
    match space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Local => "local",
    }
}

pub(super) fn vector(len: usize) -> &'static str {
    match len {
        2 => ".v2",
        4 => ".v4",
        _ => "",
    }
}

pub(super) fn special_name(special: Special) -> &'static str {
    match special {
        Special::Thread => "%tid.x",
        Special::Block => "%ctaid.x",
        Special::Blocks => "%nctaid.x",
        Special::Lane => "%laneid",
        Special::ClusterBlock => "%cluster_ctarank",
    }
}

pub(super) fn unary(op: Unary, ty: Ty) -> String {
    let op = match op {
        Unary::Neg => "neg",
        Unary::Abs => "abs",
        Unary::Not => "not",
        Unary::CountOnes => "popc",
        Unary::LeadingZeros => "clz",
        Unary::Reverse => "brev",
        Unary::Sqrt => "sqrt.rn",
        Unary::Recip => "rcp.rn",
        Unary::Exp2Approx => "ex2.approx.ftz",
        Unary::Log2Approx => "lg2.approx.ftz",
        Unary::SinApprox => "sin.approx.ftz",
        Unary::CosApprox => "cos.approx.ftz",
        Unary::TanhApprox => "tanh.approx",
        Unary::RsqrtApprox => "rsqrt.approx.ftz",
        Unary::RecipApprox => "rcp.approx.ftz",
        Unary::SqrtApprox => "sqrt.approx.ftz",
    };
    format!("{op}.{}", name(ty))
}

pub(super) fn binary(op: Binary, ty: Ty) -> String {
    let rounded = if ty.is_float() { ".rn" } else { "" };
    let op = match op {
        Binary::Add => format!("add{rounded}"),
        Binary::Sub => format!("sub{rounded}"),
        Binary::Mul if ty.is_float() => "mul.rn".into(),
        Binary::Mul => "mul.lo".into(),
        Binary::MulHigh => "mul.hi".into(),
        Binary::MulWide => "mul.wide".into(),
        Binary::Div => format!("div{rounded}"),
        Binary::DivApprox => "div.approx.ftz".into(),
        Binary::Rem => "rem".into(),
        Binary::Min => "min".into(),
        Binary::Max => "max".into(),
        Binary::And => "and".into(),
        Binary::Or => "or".into(),
        Binary::Xor => "xor".into(),
        Binary::ShiftLeft => "shl".into(),
        Binary::ShiftRight => "shr".into(),
    };
    format!("{op}.{}", name(ty))
}

pub(super) fn comparison(cmp: Cmp) -> &'static str {
    match cmp {
        Cmp::Eq => "eq",
        Cmp::Ne => "ne",
        Cmp::Lt => "lt",
        Cmp::Le => "le",
        Cmp::Gt => "gt",
        Cmp::Ge => "ge",
        Cmp::NeOrNan => "neu",
        Cmp::LtOrNan => "ltu",
        Cmp::LeOrNan => "leu",
        Cmp::GtOrNan => "gtu",
        Cmp::GeOrNan => "geu",
        Cmp::IsNan => "nan",
    }
}

pub(super) fn rounding_name(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::None => "",
        Rounding::Nearest => ".rn",
        Rounding::Zero => ".rz",
        Rounding::Down => ".rm",
        Rounding::Up => ".rp",
        Rounding::NearestInteger => ".rni",
        Rounding::ZeroInteger => ".rzi",
        Rounding::DownInteger => ".rmi",
        Rounding::UpInteger => ".rpi",
    }
}

pub(super) fn atomic(op: Atomic) -> &'static str {
    match op {
        Atomic::Add => "add",
        Atomic::Min => "min",
        Atomic::Max => "max",
        Atomic::And => "and",
        Atomic::Or => "or",
        Atomic::Xor => "xor",
        Atomic::Exchange => "exch",
        Atomic::CompareSwap => "cas",
    }
}
