//! The instruction table of NEON, one line for each instruction. The registers of an instruction are zero in
//! its word here.

use crate::op::Op;

/// The operands of an instruction, and where they are in its word: `d` is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `d, n`.
    Two,
    /// `d, n, m`.
    Three,
    /// `d, n, m`, where `d` is also the third source.
    Accumulate,
    /// [`Form::Accumulate`] with lane 0 of the first source.
    AccumulateByLane,
    /// `d, n, m`, of which the first source contributes lane 0.
    ByLane,
    /// `d, n`, where `d` is also the first source.
    Into,
    /// `d, n` and a shift to the left in lanes of this many bits.
    Left(u32),
    /// `d, n` and a shift to the right.
    Right(u32),
    /// `d, n, m` and the first byte of the result.
    Extract,
    /// `d` and a lane of `n`, of this many bytes.
    Lane(u32),
    /// A lane of `d`, which is also the first source, and a lane of `n`. The immediate has the lanes, that of
    /// `d` in its lower byte.
    IntoLane(u32),
    /// `d` from memory, of this many bytes.
    Load(u32),
    /// `d` from one element in memory.
    LoadAll(u32),
    /// A lane of `d`, which is also the first source, from memory.
    LoadLane(u32),
    /// To memory.
    Store(u32),
    /// A lane to memory.
    StoreLane(u32),
}

use Form::{
    Accumulate, AccumulateByLane, ByLane, Extract, Into, IntoLane, Lane, Left, Load, LoadAll, LoadLane,
    Right, Store, StoreLane, Three, Two,
};

/// The word and the operands of an instruction; `None` if there is none, or if it takes several.
pub(super) fn encoding(op: Op) -> Option<(u32, Form)> {
    Some(match op {
        Op::AddF32 => (0x4e20_d400, Three),
        Op::AddF64 => (0x4e60_d400, Three),
        Op::SubF32 => (0x4ea0_d400, Three),
        Op::SubF64 => (0x4ee0_d400, Three),
        Op::MulF32 => (0x6e20_dc00, Three),
        Op::MulF64 => (0x6e60_dc00, Three),
        Op::DivF32 => (0x6e20_fc00, Three),
        Op::DivF64 => (0x6e60_fc00, Three),
        Op::MaxF32 => (0x4e20_f400, Three),
        Op::MaxF64 => (0x4e60_f400, Three),
        Op::MinF32 => (0x4ea0_f400, Three),
        Op::MinF64 => (0x4ee0_f400, Three),
        Op::SqrtF32 => (0x6ea1_f800, Two),
        Op::SqrtF64 => (0x6ee1_f800, Two),
        Op::FloorF32 => (0x4e21_9800, Two),
        Op::FloorF64 => (0x4e61_9800, Two),
        Op::TruncateF32 => (0x4ea1_9800, Two),
        Op::TruncateF64 => (0x4ee1_9800, Two),
        Op::EvenF32 => (0x4e21_8800, Two),
        Op::EvenF64 => (0x4e61_8800, Two),
        Op::NegF32 => (0x6ea0_f800, Two),
        Op::NegF64 => (0x6ee0_f800, Two),
        Op::AbsF32 => (0x4ea0_f800, Two),
        Op::AbsF64 => (0x4ee0_f800, Two),
        Op::FmaF32 => (0x4e20_cc00, Accumulate),
        Op::FmaF64 => (0x4e60_cc00, Accumulate),
        Op::FnmaF32 => (0x4ea0_cc00, Accumulate),
        Op::FnmaF64 => (0x4ee0_cc00, Accumulate),
        Op::FmaLaneF32 => (0x4f80_1000, AccumulateByLane),
        Op::FmaLaneF64 => (0x4fc0_1000, AccumulateByLane),
        Op::FnmaLaneF32 => (0x4f80_5000, AccumulateByLane),
        Op::FnmaLaneF64 => (0x4fc0_5000, AccumulateByLane),
        Op::MulLaneF32 => (0x4f80_9000, ByLane),
        Op::MulLaneF64 => (0x4fc0_9000, ByLane),
        Op::EqF32 => (0x4e20_e400, Three),
        Op::EqF64 => (0x4e60_e400, Three),
        Op::GeF32 => (0x6e20_e400, Three),
        Op::GeF64 => (0x6e60_e400, Three),
        Op::GtF32 => (0x6ea0_e400, Three),
        Op::GtF64 => (0x6ee0_e400, Three),
        Op::NegativeF32 => (0x4ea0_e800, Two),
        Op::NegativeF64 => (0x4ee0_e800, Two),
        Op::PositiveF32 => (0x4ea0_c800, Two),
        Op::PositiveF64 => (0x4ee0_c800, Two),
        Op::And => (0x4e20_1c00, Three),
        Op::AndNot => (0x4e60_1c00, Three),
        Op::Or => (0x4ea0_1c00, Three),
        Op::Xor => (0x6e20_1c00, Three),
        Op::Not => (0x6e20_5800, Two),
        Op::AddI32 => (0x4ea0_8400, Three),
        Op::AddI64 => (0x4ee0_8400, Three),
        Op::SubI32 => (0x6ea0_8400, Three),
        Op::SubI64 => (0x6ee0_8400, Three),
        Op::MulI32 => (0x4ea0_9c00, Three),
        Op::MulLow => (0x2ea0_c000, Three),
        Op::AddPairs => (0x6ea0_2800, Two),
        Op::SwapWords => (0x4ea0_0800, Two),
        Op::MaxI32 => (0x4ea0_6400, Three),
        Op::MaxU32 => (0x6ea0_6400, Three),
        Op::MinI32 => (0x4ea0_6c00, Three),
        Op::MinU32 => (0x6ea0_6c00, Three),
        Op::NegI32 => (0x6ea0_b800, Two),
        Op::NegI64 => (0x6ee0_b800, Two),
        Op::AbsI32 => (0x4ea0_b800, Two),
        Op::AbsI64 => (0x4ee0_b800, Two),
        Op::EqI32 => (0x6ea0_8c00, Three),
        Op::EqI64 => (0x6ee0_8c00, Three),
        Op::GtI32 => (0x4ea0_3400, Three),
        Op::GtI64 => (0x4ee0_3400, Three),
        Op::GeI32 => (0x4ea0_3c00, Three),
        Op::GeI64 => (0x4ee0_3c00, Three),
        Op::GtU32 => (0x6ea0_3400, Three),
        Op::GtU64 => (0x6ee0_3400, Three),
        Op::GeU32 => (0x6ea0_3c00, Three),
        Op::GeU64 => (0x6ee0_3c00, Three),
        Op::ShlV32 => (0x6ea0_4400, Three),
        Op::ShlV64 => (0x6ee0_4400, Three),
        Op::SignedShlV32 => (0x4ea0_4400, Three),
        Op::SignedShlV64 => (0x4ee0_4400, Three),
        Op::Shl32 => (0x4f00_5400, Left(32)),
        Op::Shl64 => (0x4f00_5400, Left(64)),
        Op::Shr32 => (0x6f00_0400, Right(32)),
        Op::Shr64 => (0x6f00_0400, Right(64)),
        Op::Sar32 => (0x4f00_0400, Right(32)),
        Op::Sar64 => (0x4f00_0400, Right(64)),
        Op::I32ToF32 => (0x4e21_d800, Two),
        Op::U32ToF32 => (0x6e21_d800, Two),
        Op::I64ToF64 => (0x4e61_d800, Two),
        Op::U64ToF64 => (0x6e61_d800, Two),
        Op::F32ToI32 => (0x4ea1_b800, Two),
        Op::F32ToU32 => (0x6ea1_b800, Two),
        Op::F64ToI64 => (0x4ee1_b800, Two),
        Op::F64ToU64 => (0x6ee1_b800, Two),
        Op::F32ToF64 => (0x0e61_7800, Two),
        Op::F32ToF64High => (0x4e61_7800, Two),
        Op::ExtendI32 => (0x0f20_a400, Two),
        Op::ExtendI32High => (0x4f20_a400, Two),
        Op::ExtendU32 => (0x2f20_a400, Two),
        Op::ExtendU32High => (0x6f20_a400, Two),
        Op::F64ToF32 => (0x0e61_6800, Two),
        Op::F64ToF32High => (0x4e61_6800, Into),
        Op::PackU32 => (0x0ea1_2800, Two),
        Op::PackU32High => (0x4ea1_2800, Into),
        Op::SaturateI32 => (0x0ea1_4800, Two),
        Op::SaturateI32High => (0x4ea1_4800, Into),
        Op::SaturateU32 => (0x2ea1_4800, Two),
        Op::SaturateU32High => (0x6ea1_4800, Into),
        Op::ExtendU16 => (0x2f10_a400, Two),
        Op::ExtendI16 => (0x0f10_a400, Two),
        Op::Bf16ToF32 => (0x2e61_3800, Two),
        Op::F16ToF32 => (0x0e21_7800, Two),
        Op::F32ToF16 => (0x0e21_6800, Two),
        Op::PackU16 => (0x0e61_2800, Two),
        Op::PackUpper16 => (0x0f10_8400, Two),
        Op::UnpackLow32 => (0x4e80_3800, Three),
        Op::UnpackHigh32 => (0x4e80_7800, Three),
        Op::UnpackLow64 => (0x4ec0_3800, Three),
        Op::UnpackHigh64 => (0x4ec0_7800, Three),
        Op::Even32 => (0x4e80_1800, Three),
        Op::Odd32 => (0x4e80_5800, Three),
        Op::EvenPairs32 => (0x4e80_2800, Three),
        Op::OddPairs32 => (0x4e80_6800, Three),
        Op::Window => (0x6e00_0000, Extract),
        Op::All32 => (0x4e04_0400, Lane(4)),
        Op::All64 => (0x4e08_0400, Lane(8)),
        Op::IntoWord => (0x6e04_0400, IntoLane(4)),
        Op::IntoDouble => (0x6e08_0400, IntoLane(8)),
        Op::Load | Op::Load128 => (0x3dc0_0000, Load(16)),
        Op::Load64 => (0xfd40_0000, Load(8)),
        Op::Load32 => (0xbd40_0000, Load(4)),
        Op::Load16 => (0x7d40_0000, Load(2)),
        Op::Load8 => (0x3d40_0000, Load(1)),
        Op::LoadAll64 => (0x4d40_cc00, LoadAll(8)),
        Op::LoadAll32 => (0x4d40_c800, LoadAll(4)),
        Op::LoadAll16 => (0x4d40_c400, LoadAll(2)),
        Op::LoadAll8 => (0x4d40_c000, LoadAll(1)),
        Op::Insert64 => (0x0d40_8400, LoadLane(8)),
        Op::Insert32 => (0x0d40_8000, LoadLane(4)),
        Op::Insert16 => (0x0d40_4000, LoadLane(2)),
        Op::Insert8 => (0x0d40_0000, LoadLane(1)),
        Op::Store | Op::Store128 => (0x3d80_0000, Store(16)),
        Op::Store64 => (0xfd00_0000, Store(8)),
        Op::Store32 => (0xbd00_0000, Store(4)),
        Op::Extract64 => (0x0d00_8400, StoreLane(8)),
        Op::Extract32 => (0x0d00_8000, StoreLane(4)),
        Op::Extract16 => (0x0d00_4000, StoreLane(2)),
        Op::Extract8 => (0x0d00_0000, StoreLane(1)),
        _ => return None,
    })
}

/// A bit for each source whose register the result may share; 0 if it may share any. An instruction that
/// updates its result reads that result first, so the other sources must be elsewhere.
pub(crate) fn result_sources(op: Op) -> u8 {
    match encoding(op) {
        Some((_, Accumulate | AccumulateByLane)) => 0b100,
        Some((_, Into | IntoLane(_) | LoadLane(_))) => 0b001,
        _ if matches!(op, Op::LoadLanes32 | Op::LoadLanes64) => 0b010,
        _ if op == Op::BlendV => 0b111,
        _ => 0,
    }
}
